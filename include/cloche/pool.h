/* A pool of warm boxes: python runs that find an interpreter with its libraries loaded; and from their first
 * run on, javascript, bash and boxes of the process engine that were started beforehand. */
#ifndef CLOCHE_POOL_H
#define CLOCHE_POOL_H

#include <cloche/error.h>
#include <cloche/result.h>
#include <cloche/run.h>
#include <cloche/spec.h>

#ifdef __cplusplus
extern "C" {
#endif

struct cloche_pool;

struct cloche_pool_options {
    const char *config_path; /* as in cloche_options */
    int spares, spares_max;  /* boxes kept ready: at least, at most; 0: 2 and 32 */
    const char *image; /* the usual one; NULL: the configuration's. Others get warm as runs ask for them */
    const char *const *preload;
    size_t preload_count; /* modules that are imported once; 0: what the configuration says, else none */
};

/* Returns at once; until it is warm, runs are cold. */
int cloche_pool_open(const struct cloche_pool_options *options, struct cloche_pool **ret,
                     struct cloche_error *err);

/* 1 when it is warm, 0 when it is not after so long. */
int cloche_pool_await_warm(struct cloche_pool *pool, int timeout_ms);

/* Like cloche_run: in a spare, in a fork on demand, or cold where the spec does not fit the pool. */
int cloche_pool_run(struct cloche_pool *pool, struct cloche_spec *spec, const struct cloche_options *options,
                    struct cloche_result **ret_result, struct cloche_error *err);

/* A conversation starts: have so many more spares ready for a while. */
void cloche_pool_hint(struct cloche_pool *pool, int spares);

/* The same for boxes of this image, which need not be the pool's own. */
void cloche_pool_hint_image(struct cloche_pool *pool, const char *image, int spares);

/* Ends it with all its boxes; accepts NULL. No run may be under way. */
void cloche_pool_close(struct cloche_pool *pool);

#ifdef __cplusplus
}
#endif
#endif
