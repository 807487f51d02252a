#include "keeper/pool.h"

#include "base/clock.h"
#include "base/scope.h"
#include "keeper/collect.h"
#include "keeper/run.h"
#include "keeper/spare.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

enum {
    ROTATE_DEFAULT_MS = 3600 * 1000,
    ROTATE_DEFAULT_FORKS = 20000,
    IDLE_DEFAULT_MS = 60 * 1000,
    QUIET_US = 1000,       /* a new spare is not made right behind a run: it would take the client's CPU */
    RATE_WINDOW_MS = 1000, /* over which arrivals are counted */
    RETRY_MS = 1000,       /* after a zygote that failed */
    HINT_MS = 30000,
    DYING_MAX = 16,
};

/* A zygote, and how many forks of it there are. */
struct origin {
    struct origin *next;
    struct zygote *zygote;
    int forks; /* alive: spares and runs */
    int made;
    int64_t opened_us;
    bool is_retired;
};

struct pool {
    const struct policy *policy;
    struct pool_options options;
    struct string_list preload;
    char *image;
    struct limits limits;  /* of a spare: the operator's defaults, as a validated spec has them */
    struct limits highest; /* that a spare can be given */
    pthread_t threads[3];
    int thread_count;

    pthread_mutex_t lock; /* of all that follows */
    pthread_cond_t changed;
    bool is_closing;
    struct origin *origins; /* the first is the current one, unless it is retired */
    struct spare *spares;
    int spare_count;
    struct spare *dying; /* used, and to be destroyed */
    int dying_count;
    pthread_cond_t somebody_died;
    int waiting; /* runs that found none */
    int64_t last_run_us, window_started_us, hint_until_us;
    int arrivals, rate; /* in this window, and in the busiest of the last two */
    int hint;
    bool has_failed;
    struct error failure;
    struct pool_state state;
};

static int target_of(const struct pool *pool)
{
    int64_t now_us = clock_monotonic_us();
    int target = pool->options.minimum;
    bool is_idle = now_us - pool->last_run_us > pool->options.idle_ms * 1000;
    /* A tenth of a second's demand, what is waited for, and one to spare for what is taken meanwhile. */
    int demand = pool->rate / 10 + pool->waiting + (pool->rate > 0);
    if (!is_idle && demand > target)
        target = demand;
    if (now_us < pool->hint_until_us && pool->options.minimum + pool->hint > target)
        target = pool->options.minimum + pool->hint;
    return target < pool->options.maximum ? target : pool->options.maximum;
}

static void count_arrival(struct pool *pool)
{
    int64_t now_us = clock_monotonic_us();
    if (now_us - pool->window_started_us > RATE_WINDOW_MS * 1000) {
        bool is_old = now_us - pool->window_started_us > 2 * RATE_WINDOW_MS * 1000;
        pool->rate = is_old ? 0 : pool->arrivals;
        pool->arrivals = 0;
        pool->window_started_us = now_us;
    }
    pool->arrivals++;
    if (pool->arrivals > pool->rate)
        pool->rate = pool->arrivals;
    pool->last_run_us = now_us;
}

static struct origin *current_origin(const struct pool *pool)
{
    return pool->origins && !pool->origins->is_retired ? pool->origins : NULL;
}

/* Takes retired zygotes without forks off the list; the caller closes them without the lock. */
static struct origin *take_finished(struct pool *pool)
{
    struct origin *finished = NULL;
    for (struct origin **at = &pool->origins; *at;) {
        struct origin *origin = *at;
        if (!origin->is_retired || origin->forks > 0) {
            at = &origin->next;
            continue;
        }
        *at = origin->next;
        origin->next = finished;
        finished = origin;
    }
    return finished;
}

static void close_origins(struct origin *list)
{
    while (list) {
        struct origin *next = list->next;
        zygote_close(list->zygote);
        free(list);
        list = next;
    }
}

static void destroy_spare(struct pool *pool, struct spare *spare)
{
    struct origin *origin = spare->origin;
    spare_destroy(spare);
    pthread_mutex_lock(&pool->lock);
    origin->forks--;
    struct origin *finished = take_finished(pool);
    pthread_mutex_unlock(&pool->lock);
    close_origins(finished);
}

static int open_zygote(struct pool *pool, struct zygote **ret, struct error *err)
{
    struct spec *spec = spec_new();
    if (!spec)
        return error_host(err, -ENOMEM, "no memory for a zygote");
    spec->limits = pool->highest;
    for (int i = 0; i < LIMIT_FIELDS; i++)
        spec->limit_set[i] = true;
    int status = spec_set(spec, "isolation", "container", err);
    if (status == 0 && pool->image)
        status = spec_set(spec, "image", pool->image, err);
    if (status < 0) {
        spec_free(spec);
        return status;
    }
    return zygote_open(spec, pool->policy, &pool->preload, ret, err);
}

static int add_zygote(struct pool *pool)
{
    struct zygote *zygote = NULL;
    struct error err = {0};
    struct origin *origin = calloc(1, sizeof *origin);
    int status = origin ? open_zygote(pool, &zygote, &err) : -ENOMEM;
    pthread_mutex_lock(&pool->lock);
    if (status == 0) {
        struct origin *former = current_origin(pool);
        if (former)
            former->is_retired = true;
        *origin = (struct origin){.next = pool->origins, .zygote = zygote, .opened_us = clock_monotonic_us()};
        pool->origins = origin;
        pool->state.rotations += former != NULL;
        pool->has_failed = false;
    } else {
        pool->has_failed = true;
        pool->failure = err;
        pool->state.failures++;
        free(origin);
    }
    struct origin *finished = take_finished(pool);
    pthread_cond_broadcast(&pool->changed);
    pthread_mutex_unlock(&pool->lock);
    close_origins(finished);
    return status;
}

/* A fork of the current zygote; with the lock not held. */
static int fork_spare(struct pool *pool, struct spare **ret, struct error *err)
{
    pthread_mutex_lock(&pool->lock);
    struct origin *origin = current_origin(pool);
    if (origin) {
        origin->forks++;
        origin->made++;
    }
    pthread_mutex_unlock(&pool->lock);
    if (!origin)
        return error_host(err, -EAGAIN, "there is no zygote yet");
    struct spare *spare = NULL;
    int status = spare_make(origin->zygote, &pool->limits, &spare, err);
    if (status == 0) {
        spare->origin = origin;
        *ret = spare;
        return 0;
    }
    pthread_mutex_lock(&pool->lock);
    origin->forks--;
    pool->state.failures++;
    if (zygote_is_dead(origin->zygote))
        origin->is_retired = true;
    struct origin *finished = take_finished(pool);
    pthread_cond_broadcast(&pool->changed);
    pthread_mutex_unlock(&pool->lock);
    close_origins(finished);
    return status;
}

static void add_spare(struct pool *pool, struct spare *spare)
{
    int64_t bytes = pool->state.spare_bytes ? 0 : spare_private_bytes(spare);
    pthread_mutex_lock(&pool->lock);
    spare->next = pool->spares;
    pool->spares = spare;
    pool->spare_count++;
    if (bytes)
        pool->state.spare_bytes = bytes;
    pthread_cond_broadcast(&pool->changed);
    pthread_mutex_unlock(&pool->lock);
}

/* The one that was made last: its memory is most likely still in the caches. With the lock held. */
static struct spare *pop_spare(struct pool *pool)
{
    struct spare *spare = pool->spares;
    if (spare) {
        pool->spares = spare->next;
        pool->spare_count--;
    }
    return spare;
}

static bool must_rotate(const struct pool *pool, const struct origin *origin)
{
    return zygote_is_dead(origin->zygote) || origin->made >= pool->options.rotate_forks ||
           clock_monotonic_us() - origin->opened_us > pool->options.rotate_ms * 1000;
}

enum chore { CHORE_NONE, CHORE_MAKE, CHORE_SHED };

static enum chore next_chore(struct pool *pool, int *ret_wait_ms)
{
    struct origin *origin = current_origin(pool);
    int target = target_of(pool);
    *ret_wait_ms = 1000;
    if (!origin)
        return CHORE_NONE;
    if (pool->spare_count > target)
        return CHORE_SHED;
    if (pool->spare_count == target)
        return CHORE_NONE;
    int64_t quiet_us = clock_monotonic_us() - pool->last_run_us;
    bool is_quiet = pool->state.running == 0 && quiet_us >= QUIET_US;
    if (!is_quiet && pool->spare_count * 2 > target) {
        *ret_wait_ms = 1;
        return CHORE_NONE;
    }
    return CHORE_MAKE;
}

static void wait_for_change(struct pool *pool, int wait_ms)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += wait_ms / 1000;
    until.tv_nsec += (long)(wait_ms % 1000) * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    pthread_cond_timedwait(&pool->changed, &pool->lock, &until);
}

/* A spare of a dead zygote is dead too. One of a zygote that is retired goes when there are enough, so that
 * the zygote can go. */
static struct spare *take_dead(struct pool *pool)
{
    bool is_stocked = current_origin(pool) && pool->spare_count >= target_of(pool);
    for (struct spare **at = &pool->spares; *at; at = &(*at)->next)
        if (spare_is_dead(*at) || (is_stocked && ((struct origin *)(*at)->origin)->is_retired)) {
            struct spare *dead = *at;
            *at = dead->next;
            pool->spare_count--;
            return dead;
        }
    return NULL;
}

static void *keep_stocked(void *data)
{
    struct pool *pool = data;
    int failures = 0; /* in a row */
    pthread_mutex_lock(&pool->lock);
    while (!pool->is_closing) {
        int wait_ms;
        struct spare *spare = take_dead(pool);
        enum chore chore = spare ? CHORE_SHED : next_chore(pool, &wait_ms);
        if (chore == CHORE_NONE) {
            wait_for_change(pool, wait_ms);
            continue;
        }
        if (chore == CHORE_SHED && !spare)
            spare = pop_spare(pool);
        pthread_mutex_unlock(&pool->lock);
        struct error err = {0};
        int status = 0;
        if (chore == CHORE_SHED)
            destroy_spare(pool, spare);
        else if ((status = fork_spare(pool, &spare, &err)) == 0)
            add_spare(pool, spare);
        pthread_mutex_lock(&pool->lock);
        failures = status < 0 ? failures + 1 : 0;
        if (status < 0) {
            pool->has_failed = true;
            pool->failure = err;
        }
        /* What fails again and again is tried less and less often; a new zygote may change it. */
        if (status < 0 && !pool->is_closing)
            wait_for_change(pool, failures < 7 ? 10 << failures : 1000);
    }
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

/* Beside, because it takes long: meanwhile the old one serves. */
static void *keep_a_zygote(void *data)
{
    struct pool *pool = data;
    pthread_mutex_lock(&pool->lock);
    while (!pool->is_closing) {
        struct origin *origin = current_origin(pool);
        if (origin && !must_rotate(pool, origin)) {
            wait_for_change(pool, 1000);
            continue;
        }
        pthread_mutex_unlock(&pool->lock);
        int status = add_zygote(pool);
        pthread_mutex_lock(&pool->lock);
        if (status < 0 && !pool->is_closing)
            wait_for_change(pool, RETRY_MS);
    }
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

static void *bury_the_dead(void *data)
{
    struct pool *pool = data;
    pthread_mutex_lock(&pool->lock);
    while (!pool->is_closing || pool->dying) {
        struct spare *spare = pool->dying;
        if (!spare) {
            pthread_cond_wait(&pool->somebody_died, &pool->lock);
            continue;
        }
        pool->dying = spare->next;
        pthread_mutex_unlock(&pool->lock);
        destroy_spare(pool, spare);
        pthread_mutex_lock(&pool->lock);
        pool->dying_count--;
    }
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

/* Nobody waits for the end of a box, until there are too many: then who brings another does it himself. */
static void bury(struct pool *pool, struct spare *spare)
{
    pthread_mutex_lock(&pool->lock);
    bool is_queued = pool->dying_count < DYING_MAX;
    if (is_queued) {
        spare->next = pool->dying;
        pool->dying = spare;
        pool->dying_count++;
        pthread_cond_signal(&pool->somebody_died);
    }
    pthread_mutex_unlock(&pool->lock);
    if (!is_queued)
        destroy_spare(pool, spare);
}

static int choose_limits(struct pool *pool, struct error *err)
{
    /* What a spec without a word about limits gets, and the highest that the kernel lets us lower later. */
    scope_spec *spec = spec_new();
    if (!spec || buffer_append(&spec->code, "0", 1) < 0)
        return error_host(err, -ENOMEM, "no memory for a pool");
    spec->has_code = true;
    int status = spec_validate(spec, pool->policy, err);
    pool->limits = pool->highest = spec->limits;
    static const enum limit_field lowered[] = {LIMIT_open_files, LIMIT_disk, LIMIT_cpu};
    for (size_t i = 0; i < sizeof lowered / sizeof *lowered; i++)
        pool->highest.value[lowered[i]] = pool->policy->ceilings.value[lowered[i]];
    return status;
}

int pool_open(const struct policy *policy, const struct pool_options *options, struct pool **ret,
              struct error *err)
{
    struct pool *pool = calloc(1, sizeof *pool);
    if (!pool)
        return error_host(err, -ENOMEM, "no memory for a pool");
    *pool = (struct pool){.policy = policy,
                          .options = *options,
                          .lock = PTHREAD_MUTEX_INITIALIZER,
                          .changed = PTHREAD_COND_INITIALIZER,
                          .somebody_died = PTHREAD_COND_INITIALIZER,
                          .state = {.zygote_pid = -1}};
    struct pool_options *own = &pool->options;
    own->minimum = own->minimum < own->maximum ? own->minimum : own->maximum;
    own->rotate_ms = own->rotate_ms ? own->rotate_ms : ROTATE_DEFAULT_MS;
    own->rotate_forks = own->rotate_forks ? own->rotate_forks : ROTATE_DEFAULT_FORKS;
    own->idle_ms = own->idle_ms ? own->idle_ms : IDLE_DEFAULT_MS;
    int status = 0;
    for (size_t i = 0; status == 0 && options->preload && i < options->preload->count; i++)
        status = string_list_add(&pool->preload, options->preload->items[i]);
    if (options->image && !(pool->image = strdup(options->image)))
        status = -ENOMEM;
    if (status < 0)
        error_host(err, status, "no memory for a pool");
    else
        status = choose_limits(pool, err);
    void *(*const mains[])(void *) = {keep_a_zygote, keep_stocked, bury_the_dead};
    for (size_t i = 0; status == 0 && i < sizeof mains / sizeof *mains; i++) {
        status = -pthread_create(&pool->threads[i], NULL, mains[i], pool);
        pool->thread_count += status == 0;
        if (status < 0)
            error_host(err, status, "cannot start the threads of a pool");
    }
    if (status < 0) {
        pool_close(pool);
        return status;
    }
    *ret = pool;
    return 0;
}

bool pool_await_warm(struct pool *pool, int timeout_ms)
{
    int64_t until_us = clock_monotonic_us() + (int64_t)timeout_ms * 1000;
    pthread_mutex_lock(&pool->lock);
    while (pool->spare_count < pool->options.minimum && !pool->has_failed && clock_monotonic_us() < until_us)
        wait_for_change(pool, 100);
    bool is_warm = pool->spare_count >= pool->options.minimum;
    pthread_mutex_unlock(&pool->lock);
    return is_warm;
}

/* Files below /data/input: other places cannot be made in a root that stands, and with directories the filter
 * is another. */
static bool grants_fit(const struct spec *spec)
{
    struct stat status;
    for (size_t i = 0; i < spec->grant_count; i++)
        if (spec->grants[i].kind != GRANT_INPUT || strchr(spec->grants[i].name, '/') ||
            lstat(spec->grants[i].host_path, &status) < 0 || !S_ISREG(status.st_mode))
            return false;
    return true;
}

bool pool_fits(struct pool *pool, const struct spec *spec)
{
    const char *extension = spec->code_name ? strrchr(spec->code_name, '.') : NULL;
    bool is_python = spec->language ? strcmp(spec->language, "python") == 0
                                    : !spec->code_name || (extension && strcmp(extension, ".py") == 0);
    const char *image = pool->image ? pool->image : pool->policy->image;
    bool same_image = spec->image && image ? strcmp(spec->image, image) == 0 : !spec->image || !image;
    if (!is_python || !same_image || !spec->has_code || spec->command.count || !grants_fit(spec) ||
        spec->working_directory || spec->isolation != ISOLATION_CONTAINER)
        return false;
    static const enum limit_field lowered[] = {LIMIT_open_files, LIMIT_disk, LIMIT_cpu};
    for (size_t i = 0; i < sizeof lowered / sizeof *lowered; i++)
        if (spec->limits.value[lowered[i]] > pool->highest.value[lowered[i]])
            return false;
    return true;
}

/* A spare, or a fork on demand. */
static int take(struct pool *pool, struct spare **ret, struct error *err)
{
    pthread_mutex_lock(&pool->lock);
    count_arrival(pool);
    struct spare *spare;
    struct spare *dead = NULL;
    while ((spare = pop_spare(pool)) && spare_is_dead(spare)) {
        spare->next = dead;
        dead = spare;
    }
    if (spare) {
        pool->state.hits++;
    } else {
        pool->state.misses++;
        pool->waiting++;
    }
    pool->state.running++;
    pthread_cond_broadcast(&pool->changed);
    pthread_mutex_unlock(&pool->lock);
    while (dead) {
        struct spare *next = dead->next;
        bury(pool, dead);
        dead = next;
    }
    if (spare) {
        *ret = spare;
        return 0;
    }
    int status = fork_spare(pool, ret, err);
    pthread_mutex_lock(&pool->lock);
    pool->waiting--;
    pool->state.running -= status < 0;
    pthread_mutex_unlock(&pool->lock);
    return status < 0 ? -EAGAIN : 0;
}

int pool_run(struct pool *pool, struct spec *spec, const struct supervise_io *io, struct result **ret,
             struct error *err)
{
    scope_fd target = spec->output_directory ? collect_open_target(spec->output_directory, err) : -1;
    if (spec->output_directory && target < 0)
        return target;
    struct spare *spare = NULL;
    int status = take(pool, &spare, err);
    if (status < 0)
        return status;
    status = spare_run(spare, spec, io, target, ret, err);
    bury(pool, spare);
    pthread_mutex_lock(&pool->lock);
    pool->state.running--;
    pthread_mutex_unlock(&pool->lock);
    return status;
}

int pool_serve(struct pool *pool, struct spec *spec, const struct supervise_io *io, struct result **ret,
               struct error *err)
{
    int status = spec_validate(spec, pool->policy, err);
    if (status < 0)
        return status;
    status = pool_fits(pool, spec) ? pool_run(pool, spec, io, ret, err) : -EAGAIN;
    if (status != -EAGAIN)
        return status;
    if (err)
        *err = (struct error){0};
    return keeper_run_validated(spec, pool->policy, io, ret, err);
}

void pool_hint(struct pool *pool, int spares)
{
    pthread_mutex_lock(&pool->lock);
    pool->hint = spares;
    pool->hint_until_us = clock_monotonic_us() + HINT_MS * 1000;
    pthread_cond_broadcast(&pool->changed);
    pthread_mutex_unlock(&pool->lock);
}

void pool_read_state(struct pool *pool, struct pool_state *ret)
{
    pthread_mutex_lock(&pool->lock);
    *ret = pool->state;
    ret->spares = pool->spare_count;
    ret->target = target_of(pool);
    struct origin *origin = current_origin(pool);
    ret->zygote_pid = origin ? zygote_pid(origin->zygote) : -1;
    for (const struct origin *at = pool->origins; at; at = at->next)
        ret->zygotes++;
    pthread_mutex_unlock(&pool->lock);
}

const char *pool_failure(struct pool *pool)
{
    static _Thread_local char text[sizeof pool->failure.text];
    pthread_mutex_lock(&pool->lock);
    snprintf(text, sizeof text, "%s", pool->failure.text);
    pthread_mutex_unlock(&pool->lock);
    return text;
}

static void end_threads(struct pool *pool)
{
    pthread_mutex_lock(&pool->lock);
    pool->is_closing = true;
    pthread_cond_broadcast(&pool->changed);
    pthread_cond_broadcast(&pool->somebody_died);
    pthread_mutex_unlock(&pool->lock);
    for (int i = 0; i < pool->thread_count; i++)
        pthread_join(pool->threads[i], NULL);
}

void pool_close(struct pool *pool)
{
    if (!pool)
        return;
    end_threads(pool);
    for (struct spare *spare; (spare = pop_spare(pool));)
        destroy_spare(pool, spare);
    for (struct origin *origin = pool->origins; origin; origin = origin->next)
        origin->is_retired = true;
    close_origins(pool->origins);
    string_list_free(&pool->preload);
    free(pool->image);
    pthread_mutex_destroy(&pool->lock);
    pthread_cond_destroy(&pool->changed);
    pthread_cond_destroy(&pool->somebody_died);
    free(pool);
}
