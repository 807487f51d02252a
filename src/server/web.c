/* The playground: files of web/ that are part of this program. */
#include "server/route.h"
#include "web_files.h"

#include <string.h>

/* Nothing from elsewhere, nothing inline, no frames around it. Pictures that a run made are shown from data
 * and blob addresses; pages that it made in frames without an origin, whose text is in the page itself
 * (srcdoc): no address of a frame is needed, and they inherit this policy. */
#define CONTENT_POLICY                                                                                       \
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "                  \
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

static const struct web_file *find(const char *path)
{
    for (size_t i = 0; i < sizeof web_files / sizeof *web_files; i++)
        if (strcmp(web_files[i].path, path) == 0)
            return &web_files[i];
    return NULL;
}

static int answer_file(struct exchange *exchange, const char *path)
{
    const struct web_file *file = find(path);
    if (!file)
        return exchange_reply_error(exchange, 404, "not_found", NULL, NULL, "there is nothing at %.200s",
                                    exchange_path(exchange));
    exchange_set_header(exchange, "Content-Security-Policy", CONTENT_POLICY);
    exchange_set_header(exchange, "X-Content-Type-Options", "nosniff");
    exchange_set_header(exchange, "Referrer-Policy", "no-referrer");
    exchange_set_header(exchange, "Cache-Control", "no-cache");
    exchange_set_header(exchange, "ETag", file->tag);
    const char *known = exchange_header(exchange, "If-None-Match");
    if (known && strcmp(known, file->tag) == 0)
        return exchange_reply_empty(exchange, 304);
    return exchange_reply_static(exchange, 200, file->type, (struct slice){file->content, file->length});
}

static int answer_index(struct exchange *exchange)
{
    return answer_file(exchange, "index.html");
}

static int answer_asset(struct exchange *exchange)
{
    return answer_file(exchange, exchange_part(exchange, 0));
}

static int answer_description(struct exchange *exchange)
{
    return answer_file(exchange, "openapi.json");
}

static const struct route rows[] = {
    {"GET", "/v1/openapi.json", answer_description, ROUTE_OPEN, "this API, as OpenAPI 3.1"},
    {"GET", "/", answer_index, ROUTE_OPEN | ROUTE_NOT_COUNTED, "the playground"},
    {"GET", "/assets/{path...}", answer_asset, ROUTE_OPEN | ROUTE_NOT_COUNTED, "its parts"},
};

const struct route_family routes_web = ROUTE_FAMILY(rows);
