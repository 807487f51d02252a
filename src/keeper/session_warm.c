/* Interpreters that were warmed up for sessions: a python context that has imported what most code needs, and
 * never gets anybody's code. A session's context is a fork of it (context.h), which is a tenth of the time
 * that a start takes, and can be forked again; a spare of the pool could not, it has given that up.
 *
 * It is made when the first session asks, behind its back, and exchanged after an hour. The old one goes with
 * its last fork. */
#include "keeper/session_inside.h"

#include "base/clock.h"
#include "base/scope.h"
#include "base/thread.h"
#include "keeper/context_inside.h"
#include "runtime/runner.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { ROTATE_MS = 3600 * 1000, RETRY_MS = 10000, LOOK_MS = 1000 };

struct warm {
    const struct policy *policy;
    struct string_list preload;

    pthread_mutex_t fork_lock; /* one fork at a time; before the other lock */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread;
    bool has_thread, is_closing;
    struct context *origin; /* exchanged with both locks held */
    int64_t opened_us;
};

int warm_open(const struct policy *policy, const struct string_list *preload, struct warm **ret,
              struct error *err)
{
    struct warm *warm = calloc(1, sizeof *warm);
    if (!warm)
        return error_host(err, -ENOMEM, "no memory for sandboxes");
    *warm = (struct warm){.policy = policy,
                          .fork_lock = PTHREAD_MUTEX_INITIALIZER,
                          .lock = PTHREAD_MUTEX_INITIALIZER,
                          .changed = PTHREAD_COND_INITIALIZER};
    if (preload && string_list_copy(&warm->preload, preload) < 0) {
        warm_close(warm);
        return error_host(err, -ENOMEM, "no memory for sandboxes");
    }
    *ret = warm;
    return 0;
}

/* Where there are no groups, its forks' processes would be limited by a watchdog alone: then all are cold. */
static bool is_fit(struct context *context)
{
    pthread_mutex_lock(&context->lock);
    bool is_fit = context->box && !context->box->is_watched;
    pthread_mutex_unlock(&context->lock);
    return is_fit;
}

static int make_origin(struct warm *warm, struct context **ret)
{
    const struct context_options options = {.lifetime_ms = INT_MAX, /* of ms: 24 days */
                                            .idle_ms = INT_MAX,
                                            .runs_max = INT_MAX,
                                            .is_for_others = true};
    struct error err = {0};
    struct spec *spec = spec_new();
    if (!spec)
        return -ENOMEM;
    int status = spec_set(spec, "language", "python", &err);
    if (status == 0)
        status = spec_set(spec, "isolation", "container", &err);
    spec->limits.value[LIMIT_disk] =
        warm->policy->ceilings.value[LIMIT_disk]; /* files of a fork may be as large */
    spec->limit_set[LIMIT_disk] = true;
    if (status < 0) {
        spec_free(spec);
        return status;
    }
    struct context *context = NULL;
    status = context_open(spec, warm->policy, &options, &context, &err);
    if (status == 0)
        status = is_fit(context) ? context_preload(context, &warm->preload, &err) : -ENOTSUP;
    if (status < 0) {
        context_close(context);
        return status;
    }
    *ret = context;
    return 0;
}

static void exchange(struct warm *warm, struct context *context)
{
    pthread_mutex_lock(&warm->fork_lock);
    pthread_mutex_lock(&warm->lock);
    struct context *former = warm->origin;
    warm->origin = context;
    warm->opened_us = clock_monotonic_us();
    pthread_mutex_unlock(&warm->lock);
    pthread_mutex_unlock(&warm->fork_lock);
    context_close(former);
}

static bool is_wanted(const struct warm *warm)
{
    return !warm->origin || context_result(warm->origin) ||
           clock_monotonic_us() - warm->opened_us > (int64_t)ROTATE_MS * 1000;
}

static void *keep_warm(void *data)
{
    struct warm *warm = data;
    pthread_mutex_lock(&warm->lock);
    while (!warm->is_closing) {
        int wait_ms = LOOK_MS;
        if (is_wanted(warm)) {
            struct context *context = NULL;
            pthread_mutex_unlock(&warm->lock);
            if (make_origin(warm, &context) < 0)
                wait_ms = RETRY_MS;
            else
                exchange(warm, context);
            pthread_mutex_lock(&warm->lock);
        }
        if (!warm->is_closing)
            clock_wait(&warm->changed, &warm->lock, wait_ms);
    }
    pthread_mutex_unlock(&warm->lock);
    return NULL;
}

static bool is_same(const char *one, const char *other)
{
    return strcmp(one ? one : "", other ? other : "") == 0;
}

/* What a fork cannot be given: see context_fork_as. Its files are limited by their own file system, and its
 * processes by its own group. */
static bool suits(const struct spec *spec, const struct spec *origin)
{
    return spec->isolation == origin->isolation && is_same(spec->language, origin->language) &&
           is_same(spec->image, origin->image) &&
           is_same(spec->working_directory, origin->working_directory) &&
           spec->environment.count == origin->environment.count && spec->grant_count == 0 &&
           spec->accepted.count == 0 &&
           spec->limits.value[LIMIT_open_files] == origin->limits.value[LIMIT_open_files];
}

int warm_take(struct warm *warm, struct spec *spec, const struct context_options *options,
              struct context **ret, struct error *err)
{
    scope_spec *own = spec;
    if (strcmp(spec->language, "python") != 0 || spec->environment.count)
        return -EAGAIN;
    pthread_mutex_lock(&warm->lock);
    if (!warm->has_thread && !warm->is_closing)
        warm->has_thread = thread_start(&warm->thread, 0, keep_warm, warm) == 0;
    bool is_there = warm->origin && !context_result(warm->origin);
    pthread_mutex_unlock(&warm->lock);
    if (!is_there || runner_prepare_spec(own, err) < 0 || spec_validate(own, warm->policy, err) < 0)
        return -EAGAIN;
    pthread_mutex_lock(&warm->fork_lock);
    int status = warm->origin && suits(own, warm->origin->spec)
                     ? context_fork_as(warm->origin, take_pointer(own), options, ret, err)
                     : -EAGAIN;
    pthread_mutex_unlock(&warm->fork_lock);
    return status < 0 ? -EAGAIN : 0;
}

void warm_close(struct warm *warm)
{
    if (!warm)
        return;
    pthread_mutex_lock(&warm->lock);
    warm->is_closing = true;
    pthread_cond_broadcast(&warm->changed);
    pthread_mutex_unlock(&warm->lock);
    if (warm->has_thread)
        pthread_join(warm->thread, NULL);
    context_close(warm->origin);
    string_list_free(&warm->preload);
    pthread_mutex_destroy(&warm->fork_lock);
    pthread_mutex_destroy(&warm->lock);
    pthread_cond_destroy(&warm->changed);
    free(warm);
}
