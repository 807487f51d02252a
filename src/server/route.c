#include "server/route.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int hex_digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* NULL when it is not well encoded, or holds a NUL. */
static char *decode(const char *text, size_t length)
{
    char *decoded = malloc(length + 1), *at = decoded;
    for (size_t i = 0; decoded && i < length; i++) {
        int high = text[i] == '%' && i + 2 < length ? hex_digit(text[i + 1]) : -1;
        if (text[i] != '%') {
            *at++ = text[i];
            continue;
        }
        int low = high >= 0 ? hex_digit(text[i + 2]) : -1;
        if (low < 0 || (high == 0 && low == 0)) {
            free(decoded);
            return NULL;
        }
        *at++ = (char)(high << 4 | low);
        i += 2;
    }
    if (decoded)
        *at = '\0';
    return decoded;
}

static void forget_parts(char **parts)
{
    for (int i = 0; i < ROUTE_PARTS_MAX; i++) {
        free(parts[i]);
        parts[i] = NULL;
    }
}

/* Segment by segment; a part never is empty and never holds a slash that was not encoded. */
static bool matches(const char *pattern, const char *path, char **parts)
{
    int count = 0;
    while (*pattern && *path) {
        if (*pattern != '{') {
            if (*pattern++ != *path++)
                return false;
            continue;
        }
        size_t name = strcspn(pattern, "}");
        bool takes_rest = name > 3 && strncmp(pattern + name - 3, "...", 3) == 0;
        size_t length = takes_rest ? strlen(path) : strcspn(path, "/");
        if (length == 0 || count == ROUTE_PARTS_MAX)
            return false;
        if (parts && !(parts[count] = decode(path, length)))
            return false;
        count++;
        pattern += name + 1;
        path += length;
    }
    return !*pattern && !*path;
}

static bool method_fits(const char *asked, const char *route)
{
    return strcmp(asked, route) == 0 || (strcmp(asked, "HEAD") == 0 && strcmp(route, "GET") == 0);
}

const struct route *route_find(const char *method, const char *path, char **ret_parts, char *ret_allowed,
                               size_t allowed_size)
{
    size_t used = 0;
    ret_allowed[0] = '\0';
    for (size_t f = 0; route_families[f]; f++)
        for (size_t i = 0; i < route_families[f]->count; i++) {
            const struct route *route = &route_families[f]->routes[i];
            if (!matches(route->pattern, path, NULL))
                continue;
            if (method_fits(method, route->method)) {
                if (matches(route->pattern, path, ret_parts))
                    return route;
                forget_parts(ret_parts); /* wrongly encoded: nothing can be there, for any method */
                ret_allowed[0] = '\0';
                return NULL;
            }
            int more = snprintf(ret_allowed + used, allowed_size - used, "%s%s%s", used ? ", " : "",
                                route->method, strcmp(route->method, "GET") == 0 ? ", HEAD" : "");
            used += more > 0 && (size_t)more < allowed_size - used ? (size_t)more : 0;
        }
    return NULL;
}

void route_each(void (*call)(void *data, const struct route *route), void *data)
{
    for (size_t f = 0; route_families[f]; f++)
        for (size_t i = 0; i < route_families[f]->count; i++)
            call(data, &route_families[f]->routes[i]);
}
