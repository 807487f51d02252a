/* Sockets of every family but the local one, and the host's own ports. */
#include "probe.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

struct socket_kind {
    const char *label;
    long family, type, protocol;
};

/* A kernel without the family says so by other errors than ENOSYS; with no filter in its way, the request has
 * reached it all the same. */
static enum verdict socket_is_refused(const void *target)
{
    const struct socket_kind *kind = target;
    long fd = syscall(SYS_socket, kind->family, kind->type, kind->protocol);
    int error = fd < 0 ? errno : 0;
    if (error == EAFNOSUPPORT && filter_in_force())
        return held("%s socket: EAFNOSUPPORT", kind->label);
    char label[128];
    snprintf(label, sizeof label, "socket of kind %s", kind->label);
    return judge_error(label, error);
}

static enum verdict socket_pair_is_refused(const void *target)
{
    const struct socket_kind *kind = target;
    int ends[2];
    return judge_call(kind->label, syscall(SYS_socketpair, kind->family, kind->type, kind->protocol, ends));
}

static enum verdict host_port_cannot_be_reached(const void *family)
{
    const char *port = host_value("TCP");
    if (!port)
        return undecided("the runner named no port");
    int fd = socket(*(const int *)family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return judge_reach("socket", fd);
    union {
        struct sockaddr any;
        struct sockaddr_in four;
        struct sockaddr_in6 six;
    } address = {.four = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}}};
    socklen_t size = sizeof address.four;
    if (*(const int *)family == AF_INET6) {
        address.six = (struct sockaddr_in6){.sin6_family = AF_INET6};
        inet_pton(AF_INET6, "::ffff:127.0.0.1", &address.six.sin6_addr);
        size = sizeof address.six;
    }
    address.four.sin_port = htons((uint16_t)atoi(port)); /* in the same place in both */
    return judge_reach("a port of the host", connect(fd, &address.any, size));
}

static const int inet = AF_INET, inet6 = AF_INET6;

#define SOCKET(name, controls, label, ...)                                                                   \
    {                                                                                                        \
        name, ON_BOTH, RETURNS, controls, socket_is_refused,                                                 \
            (&(const struct socket_kind){label, __VA_ARGS__}), "No " label " socket can be made."            \
    }

/* The kernel looks at the low 32 bits of the family. */
#define HIGH_BIT (1L << 32)

/* Root's alone, in the namespace's own user namespace. */
#define RAW "seccomp," HOST_ROOT

static const struct probe rows[] = {
    SOCKET("inet_stream_socket_is_denied", "seccomp", "IPv4 stream", AF_INET, SOCK_STREAM, 0),
    SOCKET("inet_datagram_socket_is_denied", "seccomp", "IPv4 datagram", AF_INET, SOCK_DGRAM, 0),
    SOCKET("inet_raw_socket_is_denied", RAW, "IPv4 raw", AF_INET, SOCK_RAW, IPPROTO_ICMP),
    SOCKET("inet_socket_with_a_high_bit_is_denied", "seccomp", "IPv4 (by a number that only looks different)",
           AF_INET | HIGH_BIT, SOCK_STREAM, 0),
    SOCKET("mptcp_socket_is_denied", "seccomp", "multipath TCP", AF_INET, SOCK_STREAM, 262),
    SOCKET("sctp_socket_is_denied", "seccomp", "SCTP", AF_INET, SOCK_STREAM, IPPROTO_SCTP),
    SOCKET("inet6_stream_socket_is_denied", "seccomp", "IPv6 stream", AF_INET6, SOCK_STREAM, 0),
    SOCKET("inet6_datagram_socket_is_denied", "seccomp", "IPv6 datagram", AF_INET6, SOCK_DGRAM, 0),
    SOCKET("netlink_route_socket_is_denied", "seccomp", "netlink route", AF_NETLINK, SOCK_RAW, NETLINK_ROUTE),
    SOCKET("netlink_netfilter_socket_is_denied", "seccomp", "netlink netfilter", AF_NETLINK, SOCK_RAW,
           NETLINK_NETFILTER),
    SOCKET("netlink_uevent_socket_is_denied", "seccomp", "netlink device event", AF_NETLINK, SOCK_RAW,
           NETLINK_KOBJECT_UEVENT),
    SOCKET("netlink_diagnosis_socket_is_denied", "seccomp", "netlink diagnosis", AF_NETLINK, SOCK_RAW,
           NETLINK_SOCK_DIAG),
    SOCKET("packet_socket_is_denied", RAW, "packet", AF_PACKET, SOCK_RAW, 0),
    SOCKET("vsock_socket_is_denied", "seccomp", "virtual machine", AF_VSOCK, SOCK_STREAM, 0),
    SOCKET("alg_socket_is_denied", "seccomp", "kernel cryptography", AF_ALG, SOCK_SEQPACKET, 0),
    SOCKET("key_socket_is_denied", RAW, "IPsec key", AF_KEY, SOCK_RAW, 2),
    SOCKET("bluetooth_socket_is_denied", "seccomp", "Bluetooth", AF_BLUETOOTH, SOCK_RAW, 1),
    SOCKET("can_socket_is_denied", "seccomp", "vehicle bus", AF_CAN, SOCK_RAW, 1),
    SOCKET("tipc_socket_is_denied", "seccomp", "TIPC", AF_TIPC, SOCK_RDM, 0),
    SOCKET("rds_socket_is_denied", "seccomp", "RDS", AF_RDS, SOCK_SEQPACKET, 0),
    SOCKET("xdp_socket_is_denied", RAW, "express data path", AF_XDP, SOCK_RAW, 0),
    SOCKET("unknown_family_socket_is_denied", "seccomp", "unknown family", 99, SOCK_STREAM, 0),
    {"inet_socket_pair_is_denied", ON_BOTH, RETURNS, "seccomp", socket_pair_is_refused,
     (&(const struct socket_kind){"socketpair of IPv4", AF_INET, SOCK_STREAM, 0}),
     "Pairs of sockets are local ones only."},
    {"tipc_socket_pair_is_denied", ON_BOTH, RETURNS, "seccomp", socket_pair_is_refused,
     (&(const struct socket_kind){"socketpair of TIPC", AF_TIPC, SOCK_SEQPACKET, 0}),
     "Not even where the family has pairs."},
    {"host_port_cannot_be_reached", ON_BOTH, RETURNS, "seccomp,network_namespace,landlock",
     host_port_cannot_be_reached, &inet, "A port on the host's loopback cannot be connected to."},
    {"host_port_cannot_be_reached_by_ipv6", ON_BOTH, RETURNS, "seccomp,network_namespace,landlock",
     host_port_cannot_be_reached, &inet6, "Nor by an IPv4 address in IPv6 clothing."},
};

PROBE_GROUP(network, rows);
