#include "server/origin.h"

#include "server/server.h"

#include <string.h>
#include <strings.h>

static bool is_name(const char *host, size_t length, const char *name)
{
    return strlen(name) == length && strncasecmp(host, name, length) == 0;
}

/* The operator's names are of proxies on this machine: what a page could have resolve to it is not there. */
static bool names_this_machine(const char *host, const struct string_list *names)
{
    static const char *const own[] = {"localhost", "[::1]"};
    size_t length = host[0] == '[' ? strcspn(host, "]") + 1 : strcspn(host, ":");
    const char *port = length <= strlen(host) ? host + length : "?";
    if (port[0] && (port[0] != ':' || port[1 + strspn(port + 1, "0123456789")]))
        return false;
    if (host[0] != '[' && strncmp(host, "127.", 4) == 0 && strspn(host, "0123456789.") == length)
        return true;
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (is_name(host, length, own[i]))
            return true;
    for (size_t i = 0; i < names->count; i++)
        if (is_name(host, length, names->items[i]))
            return true;
    return false;
}

bool origin_is_ours(const struct server *server, const struct exchange *exchange)
{
    const char *host = exchange_header(exchange, "Host");
    const char *origin = exchange_header(exchange, "Origin");
    if (server->is_local && host && !names_this_machine(host, &server->policy.server.names))
        return false;
    if (!origin)
        return true;
    /* The playground shows pages of guests in frames of no origin, and they load its style sheet. */
    if (strcmp(origin, "null") == 0 && strncmp(exchange_path(exchange), "/assets/", 8) == 0)
        return true;
    const char *at = strstr(origin, "://");
    return at && host && strcasecmp(at + 3, host) == 0;
}
