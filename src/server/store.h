/* The files that users upload. DATA belongs to the server alone, and all below it is reached from its
 * descriptor:
 *
 *   store/ab/abcd…           content, by its SHA-256; read-only, never changed
 *   files/TENANT/NAME        what the tenant calls it: hash, size, times
 *   partial/TENANT/NAME      an upload that is not whole yet, with .NAME beside it
 *   profiles/TENANT/abcd…    what was found out about it
 *
 * Content has no owner: it stays as long as a name refers to it, or somebody holds it. What a tenant can see
 * is decided by names only. */
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { STORE_NAME_MAX = 200, STORE_TENANT_MAX = 64, STORE_HASH_LENGTH = 64, STORE_PATH_MAX = 80 };

struct stored {
    char name[STORE_NAME_MAX + 1];
    char sha256[STORE_HASH_LENGTH + 1];
    int64_t size_bytes;
    int64_t created_s, expires_s; /* since 1970 */
};

struct store;

/* Reads what is there and removes what nobody refers to. The descriptor stays the caller's, and is used until
 * the end. */
int store_open(int data_fd, struct store **ret, struct error *err);
void store_close(struct store *store);

/* A name that a file can have here and below /data/input: no slash, no leading dot, no control characters,
 * UTF-8, 200 bytes. */
bool store_is_name(const char *name);

/* 0 or -ENOENT. */
int store_find(struct store *store, const char *tenant, const char *name, struct stored *ret);

/* Those after a name (NULL: from the first), in the order of their bytes; the caller frees. At most `limit`.
 */
int store_list(struct store *store, const char *tenant, const char *after, size_t limit, struct stored **ret,
               size_t *ret_count);

/* Its name, and an unfinished upload of that name. */
int store_delete(struct store *store, const char *tenant, const char *name);

/* Bytes of all names and unfinished uploads. */
int64_t store_used_bytes(struct store *store, const char *tenant);

/* As store_find; the content stays until it is released, whatever happens to the name. */
int store_hold(struct store *store, const char *tenant, const char *name, struct stored *ret);
void store_release(struct store *store, const char *sha256);

/* Below DATA. */
void store_content_path(const char *sha256, char into[STORE_PATH_MAX]);

/* A descriptor to read from. */
int store_open_content(struct store *store, const char *sha256);

/* What was found out about a content, a text; kept until the tenant's last name of it goes. -ENOENT: nothing.
 */
struct buffer;
int store_read_profile(struct store *store, const char *tenant, const char *sha256, struct buffer *ret);
int store_write_profile(struct store *store, const char *tenant, const char *sha256, const char *text);

/* Removes what has expired; also done by what makes room. */
void store_sweep(struct store *store, int64_t now_s);
