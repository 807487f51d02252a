#include "server/web_python.h"

#include "base/scope.h"
#include "server/server.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* All that is served of the directory. */
static const struct part {
    const char *name, *type;
} parts[] = {
    {"pyodide.mjs", "text/javascript; charset=utf-8"}, {"pyodide.asm.mjs", "text/javascript; charset=utf-8"},
    {"pyodide.asm.wasm", "application/wasm"},          {"python_stdlib.zip", "application/zip"},
    {"pyodide-lock.json", "application/json"},
};

static const struct part *find(const char *name)
{
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (strcmp(parts[i].name, name) == 0)
            return &parts[i];
    return NULL;
}

static int answer_missing(struct exchange *exchange)
{
    return exchange_reply_error(exchange, 404, "not_installed", NULL,
                                "The operator fetches it with `setup/install-pyodide DIRECTORY/pyodide`, "
                                "where DIRECTORY is that of the "
                                "program cloche, or PREFIX/share/cloche, and starts the server again",
                                "Python for browsers (Pyodide) is not installed on this server");
}

int web_python_answer(struct exchange *exchange)
{
    const struct part *part = find(exchange_part(exchange, 0));
    const struct server *server = exchange_server(exchange);
    struct stat what;
    char tag[48];
    if (!part)
        return exchange_reply_error(exchange, 404, "not_found", NULL, NULL, "there is nothing at %.200s",
                                    exchange_path(exchange));
    /* Opened for each: an installation may put a new one in its place. */
    scope_fd fd = server->pyodide_fd < 0
                      ? -1
                      : openat(server->pyodide_fd, part->name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0 || fstat(fd, &what) < 0 || !S_ISREG(what.st_mode))
        return answer_missing(exchange);
    snprintf(tag, sizeof tag, "\"%llx-%llx\"", (unsigned long long)what.st_size,
             (unsigned long long)what.st_mtim.tv_sec * 1000000000 + (unsigned long long)what.st_mtim.tv_nsec);
    exchange_set_header(exchange, "Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'");
    exchange_set_header(exchange, "X-Content-Type-Options", "nosniff");
    exchange_set_header(exchange, "Cache-Control", "no-cache"); /* kept, and asked for by its tag */
    exchange_set_header(exchange, "ETag", tag);
    const char *known = exchange_header(exchange, "If-None-Match");
    if (known && strcmp(known, tag) == 0)
        return exchange_reply_empty(exchange, 304);
    return exchange_reply_fd(exchange, take_fd(&fd), 0, (uint64_t)what.st_size, part->type);
}
