/* The public API: pools of warm boxes. */
#include "library/library_inside.h"

#include "keeper/pool.h"

#include <errno.h>
#include <stdlib.h>

struct cloche_pool {
    struct policy policy;
    struct pool *pool;
};

API int cloche_pool_open(const struct cloche_pool_options *options, struct cloche_pool **ret,
                         struct cloche_error *err)
{
    static const struct cloche_pool_options none;
    if (!options)
        options = &none;
    struct error error = {0};
    struct string_list preload = {0};
    struct cloche_pool *made = calloc(1, sizeof *made);
    int status = made ? policy_load(options->config_path, &made->policy, &error)
                      : error_host(&error, -ENOMEM, "no memory for a pool");
    for (size_t i = 0; status == 0 && i < options->preload_count; i++)
        if (string_list_add(&preload, options->preload[i]) < 0)
            status = error_host(&error, -ENOMEM, "no memory for a pool");
    struct pool_options inner = {
        .minimum = options->spares ? options->spares : POOL_SPARES_DEFAULT,
        .maximum = options->spares_max ? options->spares_max : POOL_SPARES_MAX_DEFAULT,
        .image = options->image,
        .preload = options->preload_count || !made || !made->policy.warm.modules_set ? &preload : NULL};
    if (status == 0)
        status = pool_open(&made->policy, &inner, &made->pool, &error);
    string_list_free(&preload);
    if (status < 0) {
        library_give_error(&error, err);
        cloche_pool_close(made);
        return status;
    }
    *ret = made;
    return 0;
}

API int cloche_pool_await_warm(struct cloche_pool *pool, int timeout_ms)
{
    return pool_await_warm(pool->pool, timeout_ms);
}

API int cloche_pool_run(struct cloche_pool *pool, struct cloche_spec *spec,
                        const struct cloche_options *options, struct cloche_result **ret_result,
                        struct cloche_error *err)
{
    struct error error = {0};
    struct result *result = NULL;
    struct spec *inner = (struct spec *)spec;
    const struct supervise_io io = library_io(library_options(options));
    int status = pool_serve(pool->pool, inner, &io, NULL, &result, &error);
    if (status < 0)
        library_give_error(&error, err);
    else
        *ret_result = (struct cloche_result *)result;
    return status;
}

API void cloche_pool_hint(struct cloche_pool *pool, int spares)
{
    pool_hint(pool->pool, NULL, NULL, spares);
}

API void cloche_pool_hint_image(struct cloche_pool *pool, const char *image, int spares)
{
    pool_hint(pool->pool, image, NULL, spares);
}

API void cloche_pool_close(struct cloche_pool *pool)
{
    if (!pool)
        return;
    pool_close(pool->pool);
    policy_free(&pool->policy);
    free(pool);
}
