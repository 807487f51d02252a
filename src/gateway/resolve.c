#include "gateway/resolve.h"

#include "gateway/address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <nss.h>
#include <resolv.h>
#include <stdio.h>
#include <string.h>

enum { ASK_SECONDS = 2, ASK_TIMES = 2 };

/* How long the C library waits, in whole seconds, if none of its servers answers: for the first as long as it
 * is told, for each further one twice as long divided by their number, but a second at least; and all that
 * anew for each time, and for each of two questions, of which the first may be answered in the last moment.
 */
static int most_seconds(int servers, int seconds, int times)
{
    int sum = 0;
    for (int i = 0; i < servers; i++) {
        int one = i ? (seconds << i) / servers : seconds;
        sum += one > 0 ? one : 1;
    }
    return 2 * sum * times;
}

/* Asks less patiently, then once only, then fewer servers, until that fits. */
static void bound_asking(int64_t wall_ms)
{
    const int64_t room = wall_ms / 1000;
    int servers = _res.nscount > 0 ? _res.nscount : 1, seconds = ASK_SECONDS, times = ASK_TIMES;
    while (most_seconds(servers, seconds, times) > room) {
        if (seconds > 1)
            seconds--;
        else if (times > 1)
            times--;
        else if (servers > 1)
            servers--;
        else
            break;
    }
    _res.retrans = seconds;
    _res.retry = times;
    if (_res.nscount > servers)
        _res.nscount = servers;
}

int resolve_prepare(int64_t wall_ms)
{
    /* Both are part of the C library: nothing is loaded for them under the filter. */
    if (__nss_configure_lookup("hosts", "files dns") < 0 || res_init() < 0)
        return -EIO;
    bound_asking(wall_ms);
    _res.options &= ~(unsigned long)(RES_DNSRCH | RES_DEFNAMES);
    /* Both questions at once take sendmmsg, and if only one is answered they are asked again, in two other
     * ways, before the C library comes to this one by itself. */
    _res.options |= RES_SNGLKUP | RES_SNGLKUPREOP;
    return 0;
}

static bool take_literal(const char *text, struct addresses *ret)
{
    struct sockaddr_in *four = (struct sockaddr_in *)&ret->items[0];
    struct sockaddr_in6 *six = (struct sockaddr_in6 *)&ret->items[0];
    ret->count = 1;
    if (inet_pton(AF_INET, text, &four->sin_addr) == 1) {
        four->sin_family = AF_INET;
        return true;
    }
    six->sin6_family = AF_INET6;
    return inet_pton(AF_INET6, text, &six->sin6_addr) == 1;
}

static const char *print(const struct sockaddr *address, char *into, socklen_t size)
{
    const void *bytes = address->sa_family == AF_INET
                            ? (const void *)&((const struct sockaddr_in *)address)->sin_addr
                            : (const void *)&((const struct sockaddr_in6 *)address)->sin6_addr;
    return inet_ntop(address->sa_family, bytes, into, size) ? into : "?";
}

static int take_found(const struct addrinfo *found, const char *host, struct addresses *ret, char *reason,
                      size_t reason_size)
{
    for (; found; found = found->ai_next) {
        const char *fault = address_fault(found->ai_addr);
        if (!fault)
            fault = address_route_fault(found->ai_addr);
        char text[INET6_ADDRSTRLEN];
        if (fault) {
            snprintf(reason, reason_size, "'%.160s' leads to %s, which is %s", host,
                     print(found->ai_addr, text, sizeof text), fault);
            return FETCH_DENIED;
        }
        if (ret->count < ADDRESSES_MAX && found->ai_addrlen <= sizeof ret->items[0])
            memcpy(&ret->items[ret->count++], found->ai_addr, found->ai_addrlen);
    }
    return 0;
}

int resolve_request(const struct request *request, const struct fetch_rule *rule, struct addresses *ret,
                    char *reason, size_t reason_size)
{
    const char *literal = rule->address[0] ? rule->address : request->host;
    *ret = (struct addresses){0};
    if (rule->address[0] || request->kind != FETCH_NAME) {
        if (take_literal(literal, ret))
            return 0;
        snprintf(reason, reason_size, "'%.160s' has no address that can be read", request->host);
        return FETCH_FAILED;
    }
    const struct addrinfo wanted = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    int code = getaddrinfo(request->host, NULL, &wanted, &found);
    if (code != 0) {
        snprintf(reason, reason_size, "'%.160s' has no address: %s", request->host, gai_strerror(code));
        return FETCH_FAILED;
    }
    int status = take_found(found, request->host, ret, reason, reason_size);
    freeaddrinfo(found);
    return status;
}

bool addresses_have(const struct addresses *addresses, const struct sockaddr *address, int port)
{
    for (size_t i = 0; i < addresses->count; i++) {
        const struct sockaddr_storage *item = &addresses->items[i];
        if (item->ss_family != address->sa_family)
            continue;
        const struct sockaddr_in *four = (const struct sockaddr_in *)address,
                                 *own_four = (const struct sockaddr_in *)item;
        const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)address,
                                  *own_six = (const struct sockaddr_in6 *)item;
        if (address->sa_family == AF_INET
                ? four->sin_addr.s_addr == own_four->sin_addr.s_addr && ntohs(four->sin_port) == port
                : memcmp(&six->sin6_addr, &own_six->sin6_addr, sizeof six->sin6_addr) == 0 &&
                      ntohs(six->sin6_port) == port)
            return true;
    }
    return false;
}

void addresses_write(const struct addresses *addresses, const struct request *request, char *into,
                     size_t size)
{
    size_t length = (size_t)snprintf(into, size, "%s:%d:", request->host, request->port);
    for (size_t i = 0; i < addresses->count && length < size; i++) {
        char text[INET6_ADDRSTRLEN];
        bool is_long = addresses->items[i].ss_family == AF_INET6;
        print((const struct sockaddr *)&addresses->items[i], text, sizeof text);
        length += (size_t)snprintf(into + length, size - length, "%s%s%s%s", i ? "," : "", is_long ? "[" : "",
                                   text, is_long ? "]" : "");
    }
}
