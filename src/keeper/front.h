/* The server in front of the keeper: an unprivileged child that speaks HTTP.
 *
 * Theory of operation. The child gets, at fixed numbers, the listening socket, the door (door.h), the data
 * directory, sealed copies of the configuration and the TLS files, and the directory of Python for browsers,
 * so that it never needs to open anything outside of these directories. It has a uid of its own, no
 * capabilities, no_new_privs, and puts on its own system-call filter before it accepts anything. When it dies
 * its connections break, which ends its runs; it is started anew, later each time it dies soon. When the
 * keeper dies, the door breaks, and the server exits. */
#pragma once

#include "keeper/service.h"

#include <sys/stat.h>

/* Where the server finds what it is given. */
enum front_descriptor {
    FRONT_LISTEN = 3,
    FRONT_DOOR,
    FRONT_DATA,
    FRONT_CONFIG,      /* may be closed: no configuration */
    FRONT_CERTIFICATE, /* both may be closed: no TLS */
    FRONT_KEY,
    FRONT_PYODIDE, /* may be closed: not installed */
    FRONT_DESCRIPTORS_END,
};

/* Its first argument. */
#define FRONT_PUBLIC      "public"      /* on an address that others can reach */
#define FRONT_LOCAL       "local"       /* on loopback only, with keys */
#define FRONT_SINGLE_USER "single-user" /* on loopback only, and there were no keys when it began */

struct front {
    int program_fd;          /* cloche-server */
    const char *config_name; /* for messages */
    int listen_fd, data_fd;
    int config_fd, certificate_fd, key_fd, pyodide_fd; /* -1: none */
    bool is_local;                                     /* on loopback only */
    /* There were no keys when serving began, and this was their file (zeroes: none). A server that is started
     * anew has a single user only if nobody has touched it since: keys that were made and removed again must
     * not leave the door open. */
    bool has_no_keys;
    struct stat keys_version;
};

/* A copy of a file in memory that its reader needs no rights for. path NULL: -1, without an error. */
int front_copy_file(const char *path, const char *field, struct error *err);

/* Serves until stop_fd is readable, then ends the server after what is under way, at most drain_ms. `ready`
 * is called each time that it answers, with how often it died before. An error only when it never came to
 * that. */
int front_run(const struct front *front, struct service *service, int stop_fd, int drain_ms,
              void (*ready)(void *data, int deaths), void *data, struct error *err);
