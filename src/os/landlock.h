/* Landlock: file and scope rules that a process puts on itself.
 *
 * The headers of Debian 12 know ABI 2; later rights are named here, and used as far as the running kernel's
 * ABI goes. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The running kernel's ABI, 0 where there is no Landlock, or a negative errno when that cannot be told. */
int landlock_abi(void);

enum landlock_grant {
    LANDLOCK_READ,       /* read files, list directories */
    LANDLOCK_READ_EXEC,  /* and run programs */
    LANDLOCK_READ_WRITE, /* and write, make, remove, rename, truncate, run */
    LANDLOCK_DEVICE,     /* read and write one device file or the like, ioctl included; nothing is made */
};

enum landlock_scope {
    LANDLOCK_SCOPE_NONE = 0,
    LANDLOCK_SCOPE_SIGNALS = 1,
    LANDLOCK_SCOPE_ABSTRACT_SOCKETS = 2,
};

/* A ruleset descriptor that denies all file rights that the kernel's ABI knows, all TCP, and what `scopes`
 * says where the ABI has scopes. A negative errno on failure. `files` false: a ruleset of scopes alone. */
int landlock_ruleset_new(int abi, bool files, unsigned scopes);

/* Grants below a path (or on one file). 0 or a negative errno. */
int landlock_ruleset_grant(int ruleset_fd, int abi, const char *path, enum landlock_grant grant);

/* Grants connecting to a TCP port, where the ABI speaks of those. */
int landlock_ruleset_grant_port(int ruleset_fd, int abi, int port);

struct landlock_paths {
    char *const *paths;
    size_t count;
    enum landlock_grant grant;
};

/* A ruleset of a box: everything denied, signals and abstract sockets kept inside. */
int landlock_ruleset_of_box(int abi);

/* Grants these; those that are not there are left out. On failure *ret_path names the path that it was about,
 * or NULL. Two processes may do so at once for one ruleset, and nothing is allocated. */
int landlock_ruleset_grant_all(int ruleset_fd, int abi, const struct landlock_paths *groups,
                               size_t group_count, const char **ret_path);

/* Both. */
int landlock_ruleset_build(int abi, const struct landlock_paths *groups, size_t group_count,
                           const char **ret_path);

/* Puts it on the calling thread; no_new_privs must be on. */
int landlock_ruleset_enforce(int ruleset_fd);
