/* One upload into the store: bytes as they come, a quarter of a megabyte of them in memory at most.
 *
 * What has come stays when the connection breaks, and the next upload of that name goes on from there. It is
 * a file of the store only when all of it is on the disk; until then the name keeps what it had. Who comes
 * last has the name: an earlier upload of it that is still under way is cut off, for its client has most
 * likely gone away unseen. */
#pragma once

#include "base/bytes.h"
#include "server/store.h"

struct upload;

struct upload_terms {
    const char *tenant, *name;
    int64_t offset_bytes; /* of the first byte; 0 begins anew */
    int64_t total_bytes;  /* of the whole file; -1: what comes now is the rest */
    int64_t body_bytes;   /* that come now; -1: not told */
    int64_t lifetime_s;
    int64_t quota_bytes; /* of all the tenant's files */
    const char *sha256;  /* what it must be; NULL: anything */
};

/* -ERANGE: not where the last one stopped, which is *ret_offset; -EDQUOT: would be more than the quota;
 * -E2BIG: is more than the quota by itself; -EBUSY: another one is just being finished. */
int upload_begin(struct store *store, const struct upload_terms *terms, struct upload **ret,
                 int64_t *ret_offset, struct error *err);

/* more_waits: the next bytes are there already, so these need not be in the file yet; they are in it, and
 * count for who goes on with this upload, as soon as nothing waits. -ECANCELED: another upload took the name;
 * -EFBIG: more than was told; -EDQUOT, -E2BIG. */
int upload_add(struct upload *upload, struct slice bytes, bool more_waits, struct error *err);

/* All that comes now has come. 0: the file is whole and on the disk; 1: there is more to come, from
 * *ret_offset. -EILSEQ: it is not what it must be, and gone. Frees. */
int upload_finish(struct upload *upload, struct stored *ret, int64_t *ret_offset, struct error *err);

/* Broken off: what came stays. Frees; NULL is fine. */
void upload_abandon(struct upload *upload);

/* Refused for good: what came goes. Frees; NULL is fine. */
void upload_discard(struct upload *upload);

/* Where an unfinished one stopped, and its whole length or -1. -ENOENT: there is none. */
int upload_find(struct store *store, const char *tenant, const char *name, int64_t *ret_offset,
                int64_t *ret_total);
