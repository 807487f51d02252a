/* A client of a keeper that stays, see service.h. */
#pragma once

#include "base/bytes.h"
#include "engine/engine.h"
#include "spec/result.h"
#include "spec/spec.h"

/* A connection, or -ENOENT (and other errno) when no keeper is running. */
int client_connect(void);

struct client_input {
    const char *name; /* below /data/input */
    int fd;           /* a regular file, or a directory */
};

struct client_run {
    const struct spec *spec; /* validated; its stdin is fds[0] */
    int fds[3];              /* where the program's streams go; -1: nowhere */
    bool wants_json, pretty;
    int cancel_fd; /* readable: give up; -1: never */
    /* For the server, whose paths mean nothing to the keeper: files that it has opened, and a directory in
     * which the keeper makes another, "files", for what is collected. */
    const struct client_input *inputs;
    size_t input_count;
    bool has_output;
    int output_fd;
    const char *owner;   /* for the server: for whom it asks; NULL: for nobody */
    int64_t asked_us;    /* when it was asked for; 0: now */
    int queued;          /* how many wait behind it */
    bool is_cold;        /* no spare is taken */
    bool wants_progress; /* answers before the last are {"progress": …} */
    /* Who reads the answers by client_receive and wants progress hears of it here. */
    void (*progress)(void *data, int64_t elapsed_us, const struct measurement *now);
    void *data;
};

/* The result, without its files and texts; those are in the JSON, if it is wanted. */
int client_run(int fd, const struct client_run *run, struct result *ret, struct buffer *ret_json,
               struct error *err);

/* The same in two steps. */
int client_send(int fd, const struct client_run *run, struct error *err);
int client_receive(int fd, const struct client_run *run, struct result *ret, struct buffer *ret_json,
                   struct error *err);

/* The keeper's state as JSON text. */
int client_state(int fd, struct buffer *ret_json, struct error *err);
