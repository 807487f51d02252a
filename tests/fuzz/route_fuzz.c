/* Any method and path: a route and parts that fit it, or none and what would be allowed. */
#include "fuzz.h"

#include "server/route.h"

#include <string.h>

static int nothing(struct exchange *exchange)
{
    (void)exchange;
    return 0;
}

static const struct route rows[] = {
    {"GET", "/", nothing, 0, ""},
    {"GET", "/a", nothing, 0, ""},
    {"POST", "/a", nothing, 0, ""},
    {"DELETE", "/a", nothing, 0, ""},
    {"PUT", "/a", nothing, 0, ""},
    {"GET", "/a/{x}", nothing, 0, ""},
    {"DELETE", "/a/{x}/b/{y}", nothing, 0, ""},
    {"GET", "/a/{x}/{y}/{z}/{w}", nothing, 0, ""},
    {"GET", "/a/{x}/{y}/{z}/{w}/{too-many}", nothing, 0, ""},
    {"GET", "/rest/{x}/{path...}", nothing, 0, ""},
};
static const struct route_family family = ROUTE_FAMILY(rows);
const struct route_family *const route_families[] = {&family, NULL};

static int part_count(const char *pattern)
{
    int count = 0;
    while (*pattern)
        count += *pattern++ == '{';
    return count;
}

static void check_found(const struct route *route, const char *method, const char *path, char **parts)
{
    size_t decoded = 0;
    check(strcmp(route->method, method) == 0 ||
              (strcmp(method, "HEAD") == 0 && strcmp(route->method, "GET") == 0),
          "the method is the one that was asked for");
    for (int i = 0; i < ROUTE_PARTS_MAX; i++) {
        check((parts[i] != NULL) == (i < part_count(route->pattern)), "there are as many parts as it has");
        if (!parts[i])
            continue;
        check(parts[i][0] != '\0', "no part is empty");
        decoded += strlen(parts[i]);
    }
    check(decoded <= strlen(path), "decoding makes nothing longer");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input = {data, size};
    char *parts[ROUTE_PARTS_MAX] = {0}, allowed[24];
    memset(allowed, 'x', sizeof allowed);
    size_t room = 1 + fuzz_byte(&input) % (sizeof allowed - 1);
    char *method = fuzz_text(&input), *path = fuzz_text(&input);
    const struct route *route = route_find(method, path, parts, allowed, room);
    check(memchr(allowed, '\0', room) != NULL, "what is allowed is a text within its room");
    check(allowed[room] == 'x', "and nothing is written behind it");
    if (route)
        check_found(route, method, path, parts);
    for (int i = 0; i < ROUTE_PARTS_MAX; i++) {
        check(route || !parts[i], "without a route there are no parts");
        free(parts[i]);
    }
    free(method);
    free(path);
    return 0;
}
