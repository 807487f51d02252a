/* Prints the table of routes, a line each: METHOD PATTERN open|keyed and the names of its query. For
 * test_conformance.py. */
#include "server/route.h"

#include <stdio.h>

static void print_route(void *data, const struct route *route)
{
    (void)data;
    printf("%s %s %s %s\n", route->method, route->pattern, route->flags & ROUTE_OPEN ? "open" : "keyed",
           route->query ? route->query : "");
}

int main(void)
{
    route_each(print_route, NULL);
    return 0;
}
