/* The keys of tenants: the file DATA/keys, and what may be done with it.
 *
 * Theory of operation. A key is `cl_` and 43 characters of base62 from the kernel's random numbers: 256 bits.
 * It is shown once, when it is made; the file has its SHA-256. A plain hash is right here, where it would be
 * wrong for a password: a slow, salted hash makes guessing dear, and 256 random bits cannot be guessed at any
 * price, while every request would pay.
 *
 * The operator writes the file, the server only reads it. It is replaced as a whole (a new file, fsync,
 * rename), so a reader sees the old or the new one and never a part. Editors exclude each other by a lock on
 * the directory. DATA belongs to the server's user, and the operator may be root: nothing in it is followed
 * or trusted to be a regular file.
 *
 * One JSON object a line: {"tenant":NAME,"limits":{…}} for the quotas of a tenant, where they differ from the
 * defaults, and
 * {"key":ID,"tenant":NAME,"sha256":HEX,"created_at":SECONDS} for a key, with "operator":true for an
 * operator's.
 */
#pragma once

#include "base/error.h"
#include "server/quota.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

enum {
    KEY_TEXT_SIZE = sizeof "cl_" + 43,
    KEY_ID_SIZE = sizeof "key_" + 10,
    TENANT_NAME_SIZE = 64,
};

struct key {
    char id[KEY_ID_SIZE]; /* names it in lists and in the audit log; no secret */
    char tenant[TENANT_NAME_SIZE];
    char sha256[65];
    int64_t created_s;
    bool is_operator; /* sees figures of all tenants */
};

struct key_tenant {
    char name[TENANT_NAME_SIZE];
    struct quotas quotas; /* QUOTA_UNSET where the default counts */
};

struct key_file {
    struct key *keys;
    size_t key_count;
    struct key_tenant *tenants;
    size_t tenant_count;
};

/* No file is an empty one. A wrong line is an error that names it. `ret_status` (may be NULL) tells one
 * version of the file from another; it is zero when there is none. */
int keys_load(int data_fd, struct key_file *ret, struct stat *ret_status, struct error *err);
int keys_save(int data_fd, const struct key_file *file, struct error *err);
void keys_free(struct key_file *file);

/* Between load and save; let go by closing the descriptor that is returned. */
int keys_lock(int data_fd, struct error *err);

/* Makes a key. `ret_text` is the only copy of it. */
int keys_add(struct key_file *file, const char *tenant, char ret_text[KEY_TEXT_SIZE],
             char ret_id[KEY_ID_SIZE], struct error *err);
/* Removes a key by its id, or all of a tenant; the quotas of a tenant go with its last key. Returns how many
 * went. */
int keys_remove(struct key_file *file, const char *id, const char *tenant);

/* The tenant's entry, made if need be; NULL without memory. */
struct key_tenant *keys_tenant(struct key_file *file, const char *name);

/* Whose key this is; NULL: nobody's. Looks at every key, and at all of each, whatever is found. */
const struct key *keys_find(const struct key_file *file, const char *text);

/* Characters of base62 from the kernel, each as likely as the others. */
int keys_random(char *into, size_t count, struct error *err);
