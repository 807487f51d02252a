/* Files of runs, and of sandboxes: DATA/PLACE/ID/ with "input", what came with the request, and "files", what
 * was collected.
 *
 * Most runs have none, and make no directory. One that is to be fetched from later has a file "tenant" and
 * stays for an hour; all others go with their run, and what a crash left goes with the next start.
 *
 * What is kept counts against the tenant's quota `kept`: a run claims the most that it may leave before it
 * starts; at its end "bytes" says how much it is, which counts from then on, also after a new start. */
#pragma once

#include "base/identifier.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/base64.h"

#include <stdint.h>

struct server;
struct tenant;

struct run_room {
    struct server *server;
    char id[IDENTIFIER_SIZE];
    const char *place; /* static: RUN_ROOMS, or where else it is */
    int fd;            /* -1: none was made */
};

enum {
    RUN_KEPT_S = 3600,
    RUN_ROOM_FILE_BYTES = 4096, /* that a file or a directory costs beside its content */
};

#define RUN_ROOMS "runs"

/* Makes one below DATA/PLACE. */
int run_room_open(struct server *server, const char *place, const char *id, struct run_room *ret,
                  struct error *err);

/* A directory in it for what its box gets to read. A descriptor, or a negative errno. */
int run_room_open_inputs(const struct run_room *room);

/* A collected file, by its path as in the result: nothing outside is ever opened. A negative errno. */
int run_room_open_file(const struct run_room *room, const char *path);

/* The run is over: from here on its files can be fetched by the tenant, and what it got is gone. */
int run_room_keep(const struct run_room *room, const struct tenant *tenant, int64_t bytes, struct error *err);

/* The room of a run that is over, if it is kept and the tenant's; -ENOENT: as if it did not exist. */
int run_room_find(struct server *server, const char *id, const struct tenant *tenant, struct run_room *ret);

/* Removes the directory, unless it is kept. */
void run_room_close(struct run_room *room, bool is_kept);

/* Removes what has expired; at the start, also what is not kept. Called now and then; does little mostly. */
void run_rooms_sweep(struct server *server, bool is_start);
