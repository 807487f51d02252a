#include "gateway/own_networks.h"

#include "base/scope.h"

#include <errno.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <netinet/in.h>
#include <string.h>

enum { ATTEMPTS = 5 };

/* Where the kernel looks without marks and rules of one's own. Others are for packets that are marked, as
 * those of transparent proxies, which call the whole internet local. */
static bool is_usual(const struct rtmsg *route)
{
    return route->rtm_table == RT_TABLE_LOCAL || route->rtm_table == RT_TABLE_MAIN ||
           route->rtm_table == RT_TABLE_DEFAULT;
}

static bool is_own(const struct rtmsg *route)
{
    return (route->rtm_family == AF_INET || route->rtm_family == AF_INET6) && is_usual(route) &&
           (route->rtm_type == RTN_LOCAL || route->rtm_type == RTN_ANYCAST ||
            route->rtm_type == RTN_BROADCAST);
}

static struct own_network read_route(const struct nlmsghdr *message)
{
    const struct rtmsg *route = NLMSG_DATA(message);
    struct own_network network = {.family = route->rtm_family, .bits = route->rtm_dst_len};
    const size_t size = network.family == AF_INET ? 4 : 16;
    int length = (int)RTM_PAYLOAD(message);
    for (const struct rtattr *at = RTM_RTA(route); RTA_OK(at, length); at = RTA_NEXT(at, length))
        if (at->rta_type == RTA_DST && RTA_PAYLOAD(at) == size)
            memcpy(network.bytes, RTA_DATA(at), size);
    return network;
}

struct reading {
    struct own_network *into;
    size_t room, count;
    bool (*matters)(const struct own_network *network);
};

static int keep(struct reading *reading, const struct own_network *network)
{
    if (!reading->matters(network))
        return 0;
    if (reading->count == reading->room)
        return -E2BIG;
    reading->into[reading->count++] = *network;
    return 0;
}

/* 0: there is more to come; 1: that was all. */
static int take_some(struct reading *reading, const char *reply, size_t length)
{
    int status = 0;
    for (const struct nlmsghdr *at = (const struct nlmsghdr *)(const void *)reply;
         NLMSG_OK(at, length) && status == 0; at = NLMSG_NEXT(at, length)) {
        if (at->nlmsg_flags & NLM_F_DUMP_INTR)
            return -EAGAIN; /* they changed meanwhile, and some may be missing */
        if (at->nlmsg_type == NLMSG_DONE)
            return 1;
        if (at->nlmsg_type == NLMSG_ERROR)
            return ((const struct nlmsgerr *)NLMSG_DATA(at))->error;
        if (at->nlmsg_type == RTM_NEWROUTE && is_own(NLMSG_DATA(at))) {
            const struct own_network network = read_route(at);
            status = keep(reading, &network);
        }
    }
    return status;
}

static int read_once(struct reading *reading)
{
    scope_fd fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
    const struct {
        struct nlmsghdr head;
        struct rtmsg route;
    } question = {.head = {.nlmsg_len = sizeof question,
                           .nlmsg_type = RTM_GETROUTE,
                           .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP},
                  .route.rtm_family = AF_UNSPEC};
    char reply[32768] __attribute__((aligned(8)));
    int status = 0;
    reading->count = 0;
    if (fd < 0 || send(fd, &question, sizeof question, 0) != (ssize_t)sizeof question)
        return -errno;
    while (status == 0) {
        ssize_t length = recv(fd, reply, sizeof reply, MSG_TRUNC);
        if (length < 0 && errno == EINTR)
            continue;
        status = length <= 0                     ? (length < 0 ? -errno : -EPIPE)
                 : (size_t)length > sizeof reply ? -EMSGSIZE
                                                 : take_some(reading, reply, (size_t)length);
    }
    return status < 0 ? status : (int)reading->count;
}

int own_networks_read(struct own_network *into, size_t room,
                      bool (*matters)(const struct own_network *network))
{
    struct reading reading = {.into = into, .room = room, .matters = matters};
    int count = -EAGAIN;
    for (int i = 0; count == -EAGAIN && i < ATTEMPTS; i++)
        count = read_once(&reading);
    return count;
}

bool own_network_has(const struct own_network *network, const struct sockaddr *address)
{
    const uint8_t *bytes =
        address->sa_family == AF_INET
            ? (const uint8_t *)&((const struct sockaddr_in *)(const void *)address)->sin_addr
            : ((const struct sockaddr_in6 *)(const void *)address)->sin6_addr.s6_addr;
    const size_t whole = (size_t)network->bits / 8;
    const uint8_t rest = (uint8_t)(0xff00 >> (network->bits % 8));
    return address->sa_family == network->family && memcmp(bytes, network->bytes, whole) == 0 &&
           (rest == 0 || ((bytes[whole] ^ network->bytes[whole]) & rest) == 0);
}
