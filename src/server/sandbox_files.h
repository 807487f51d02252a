/* Files that a sandbox is opened with, shown read-only in its /data/input: uploads, without a copy, and what
 * the request itself holds. The latter lie in DATA/sandboxes.files/ID for as long as there is the sandbox,
 * since a context that is restarted needs them again. */
#pragma once

#include "server/exchange.h"

struct server;

/* Asks the keeper to open a sandbox (`request` is taken) with the `files` of the body. As sandbox_ask. */
int sandbox_files_open(struct exchange *exchange, json_t *body, json_t *request, json_t **ret);

/* Of a sandbox that has ended. */
void sandbox_files_remove(struct server *server, const char *id);

/* At the start there are no sandboxes, and no files of theirs. */
void sandbox_files_clear(struct server *server);
