/* The members of an image archive, put aside: layers and their descriptions come in any order.
 *
 * Members are kept in files whose names we choose (0, 1, 2, …); names from the archive are only ever
 * compared. The digest of each member is taken while it is written. */
#pragma once

#include "base/error.h"
#include "image/image.h"

#include <jansson.h>
#include <stdint.h>

enum {
    SPOOL_MEMBERS_MAX = 4096,
    SPOOL_JSON_BYTES_MAX = 4 * 1024 * 1024,
    SHA256_TEXT = 65, /* 64 hexadecimal digits and the NUL */
};

struct spool_member {
    char *name;
    char *link; /* the name that a link member stands for, else NULL */
    int64_t size_bytes;
    char sha256[SHA256_TEXT];
};

struct spool {
    int dir_fd;
    struct spool_member *members;
    size_t count;
};

/* Reads the whole archive into a new directory `name` in dir_fd. The caller frees, also after a failure. The
 * files are the directory's owner's to remove. */
int spool_fill(struct spool *spool, int dir_fd, const char *name, int archive_fd,
               const struct image_import_limits *limits, const struct image_progress *progress,
               struct error *err);
void spool_free(struct spool *spool);

#define scope_spool __attribute__((cleanup(spool_free))) struct spool

bool spool_has(const struct spool *spool, const char *name);

/* The member of that name, links followed. A blob (blobs/sha256/HEX) whose bytes are not what its name says
 * is refused. The member stays the spool's. */
int spool_find(const struct spool *spool, const char *name, const struct spool_member **ret,
               struct error *err);

/* A descriptor to read the member with; the caller closes. */
int spool_open(const struct spool *spool, const struct spool_member *member, int *ret_fd, struct error *err);

/* The member as JSON: at most SPOOL_JSON_BYTES_MAX, no key twice. The caller drops the reference. */
int spool_read_json(const struct spool *spool, const struct spool_member *member, json_t **ret,
                    struct error *err);
