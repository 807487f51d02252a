/* Files that a sandbox is opened with, shown read-only in its /data/input: uploads, without a copy, and what
 * the request itself holds. They lie in DATA/sandboxes.files/ROOM, uploads by another name of the same file,
 * for the keeper finds them by their path whenever a box is made: for a context that is restarted, a fork, a
 * checkpoint. So a room is where it stays before the keeper hears of it, has a name of its own, and stays as
 * long as there is the sandbox or one that was forked from it. */
#pragma once

#include "server/exchange.h"

struct server;

/* Asks the keeper to open a sandbox (`request` is taken) with the `files` of the body. As sandbox_ask. */
int sandbox_files_open(struct exchange *exchange, json_t *body, json_t *request, json_t **ret);

/* A room that no sandbox has any more. */
void sandbox_files_remove(struct server *server, const char *room);

/* At the start there are no sandboxes, and no files of theirs. */
void sandbox_files_clear(struct server *server);
