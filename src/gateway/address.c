#include "gateway/address.h"

#include "base/scope.h"
#include "gateway/own_networks.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { OWN_MAX = 256, NETWORKS_MAX = 1024, DISCARD_PORT = 9 };

/* IANA's registries of special addresses, and what clouds have among the public ones. */
static const struct {
    uint32_t network;
    int bits;
    const char *what;
} ipv4_rows[] = {
    {0x00000000, 8, "this network"},
    {0x0a000000, 8, "a private network"},
    {0x64400000, 10, "a provider's inner network"}, /* 100.100.100.200 is a cloud's metadata */
    {0x7f000000, 8, "loopback"},
    {0xa83f8110, 32, "a cloud's own service"}, /* 168.63.129.16, Azure: what a machine is given, keys too */
    {0xa9fe0000, 16, "link-local, where clouds have their metadata"},
    {0xac100000, 12, "a private network"},
    {0xc0000000, 24, "reserved"},
    {0xc0000200, 24, "for documents"},
    {0xc0586300, 24, "a relay's"},
    {0xc0a80000, 16, "a private network"},
    {0xc6120000, 15, "for benchmarks"},
    {0xc6336400, 24, "for documents"},
    {0xcb007100, 24, "for documents"},
    {0xe0000000, 4, "multicast"},
    {0xf0000000, 4, "reserved"},
};

/* Of the one eighth that is given out at all. Others that carry an IPv4 address in them, as ::ffff:0:0/96 and
 * those of NAT64, lie outside of it. */
static const struct {
    uint8_t bytes[4];
    int bits;
    const char *what;
} ipv6_rows[] = {
    {{0x20, 0x01, 0x00, 0x00}, 23, "a tunnel's, or reserved"},
    {{0x20, 0x01, 0x0d, 0xb8}, 32, "for documents"},
    {{0x20, 0x02, 0x00, 0x00}, 16, "a tunnel's"},
    {{0x3f, 0xff, 0x00, 0x00}, 20, "for documents"},
};

static struct sockaddr_storage own[OWN_MAX];
static size_t own_count;
static struct own_network networks[NETWORKS_MAX];
static size_t network_count;

static bool is_same(const struct sockaddr *one, const struct sockaddr *other)
{
    if (one->sa_family != other->sa_family)
        return false;
    if (one->sa_family == AF_INET)
        return ((const struct sockaddr_in *)one)->sin_addr.s_addr ==
               ((const struct sockaddr_in *)other)->sin_addr.s_addr;
    return memcmp(&((const struct sockaddr_in6 *)one)->sin6_addr,
                  &((const struct sockaddr_in6 *)other)->sin6_addr, sizeof(struct in6_addr)) == 0;
}

static const char *ipv4_fault(uint32_t address)
{
    for (size_t i = 0; i < sizeof ipv4_rows / sizeof *ipv4_rows; i++)
        if (((address ^ ipv4_rows[i].network) >> (32 - ipv4_rows[i].bits)) == 0)
            return ipv4_rows[i].what;
    return NULL;
}

static const char *ipv6_fault(const uint8_t *bytes)
{
    if (IN6_IS_ADDR_LOOPBACK((const struct in6_addr *)bytes))
        return "loopback";
    if ((bytes[0] & 0xe0) != 0x20)
        return "not of the public internet";
    uint32_t start;
    memcpy(&start, bytes, sizeof start);
    for (size_t i = 0; i < sizeof ipv6_rows / sizeof *ipv6_rows; i++) {
        uint32_t network;
        memcpy(&network, ipv6_rows[i].bytes, sizeof network);
        if (((ntohl(start) ^ ntohl(network)) >> (32 - ipv6_rows[i].bits)) == 0)
            return ipv6_rows[i].what;
    }
    return NULL;
}

const char *address_fault(const struct sockaddr *address)
{
    const char *fault = "neither IPv4 nor IPv6";
    if (address->sa_family == AF_INET)
        fault = ipv4_fault(ntohl(((const struct sockaddr_in *)address)->sin_addr.s_addr));
    else if (address->sa_family == AF_INET6)
        fault = ipv6_fault(((const struct sockaddr_in6 *)address)->sin6_addr.s6_addr);
    for (size_t i = 0; i < own_count && !fault; i++)
        if (is_same(address, (const struct sockaddr *)&own[i]))
            fault = "this machine's own";
    for (size_t i = 0; i < network_count && !fault; i++)
        if (own_network_has(&networks[i], address))
            fault = "this machine's own";
    return fault;
}

/* Who would send to itself has the same address at both ends. Nothing is sent by connecting a socket of
 * datagrams. */
const char *address_route_fault(const struct sockaddr *address)
{
    struct sockaddr_storage there = {0}, here;
    const socklen_t length =
        address->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
    socklen_t here_length = sizeof here;
    memcpy(&there, address, length);
    if (address->sa_family == AF_INET6)
        ((struct sockaddr_in6 *)&there)->sin6_port = htons(DISCARD_PORT);
    else
        ((struct sockaddr_in *)&there)->sin_port = htons(DISCARD_PORT);
    scope_fd fd = socket(address->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return "not to be looked at";
    if (connect(fd, (const struct sockaddr *)&there, length) < 0)
        return NULL; /* nobody is reached by it */
    if (getsockname(fd, (struct sockaddr *)&here, &here_length) < 0)
        return "not to be looked at";
    return is_same((const struct sockaddr *)&here, address) ? "this machine's own" : NULL;
}

static int keep_own(const struct sockaddr *address)
{
    if (own_count == OWN_MAX)
        return -E2BIG;
    memcpy(&own[own_count++], address,
           address->sa_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6));
    return 0;
}

/* Of single addresses those that have another fault in any case do not. */
static bool matters(const struct own_network *network)
{
    uint32_t four;
    memcpy(&four, network->bytes, sizeof four);
    return network->family == AF_INET ? network->bits < 32 || !ipv4_fault(ntohl(four))
                                      : network->bits < 128 || !ipv6_fault(network->bytes);
}

int address_learn_own(void)
{
    struct ifaddrs *list = NULL;
    int status = 0;
    own_count = network_count = 0;
    if (getifaddrs(&list) < 0)
        return -errno;
    for (const struct ifaddrs *at = list; at && status == 0; at = at->ifa_next)
        if (at->ifa_addr && !address_fault(at->ifa_addr)) /* others are none in any case */
            status = keep_own(at->ifa_addr);
    freeifaddrs(list);
    const int count = status < 0 ? status : own_networks_read(networks, NETWORKS_MAX, matters);
    network_count = count > 0 ? (size_t)count : 0;
    return count < 0 ? count : 0;
}
