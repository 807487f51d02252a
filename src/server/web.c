/* The playground: files of web/ that are part of this program. */
#include "server/route.h"
#include "server/web_python.h"
#include "web_files.h"

#include <stdio.h>
#include <string.h>

/* Nothing from elsewhere, nothing inline, no frames around it. Pictures that a run made are shown from data
 * and blob addresses; pages that it made in frames without an origin, whose text is in the page itself
 * (srcdoc), and which inherit this policy. The only frame with an address is the cell. */
#define CONTENT_POLICY                                                                                       \
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "                  \
    "connect-src 'self'; frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

/* The cell, in which code runs in the page (web/cell/): a document of no origin, with one script, which is
 * known by its hash, and workers that it makes from what it is handed. They inherit this policy: whatever
 * runs in them connects to nothing and loads nothing, from here neither. 'unsafe-eval' gives them nothing
 * that blob: does not, for they are made to run code; it is what the value of an expression comes from. */
#define CELL_POLICY                                                                                          \
    "default-src 'none'; script-src %s blob: 'unsafe-eval' 'wasm-unsafe-eval'; worker-src blob:; "           \
    "connect-src 'none'; sandbox allow-scripts; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"

enum { POLICY_MAX = 512 };

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
    char policy[POLICY_MAX] = CONTENT_POLICY;
    if (file->scripts[0])
        snprintf(policy, sizeof policy, CELL_POLICY, file->scripts);
    exchange_set_header(exchange, "Content-Security-Policy", policy);
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
    {"GET", "/assets/pyodide/{file}", web_python_answer, ROUTE_OPEN | ROUTE_NOT_COUNTED,
     "Python for browsers"},
    {"GET", "/assets/{path...}", answer_asset, ROUTE_OPEN | ROUTE_NOT_COUNTED, "its parts"},
};

const struct route_family routes_web = ROUTE_FAMILY(rows);
