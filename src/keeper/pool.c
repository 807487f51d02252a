#include "keeper/pool.h"

#include "base/clock.h"
#include "base/scope.h"
#include "base/thread.h"
#include "keeper/burial.h"
#include "keeper/choose.h"
#include "keeper/collect.h"
#include "keeper/lineage.h"
#include "keeper/vetting.h"
#include "keeper/run.h"
#include "keeper/shown.h"
#include "keeper/started.h"
#include "keeper/stock.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    ROTATE_DEFAULT_MS = 3600 * 1000,
    ROTATE_DEFAULT_FORKS = 20000,
    IDLE_DEFAULT_MS = 60 * 1000,
    QUIET_US = 1000, /* a new spare is not made right behind a run: it would take the client's CPU */
};

/* The spares of one kind, and the thread that makes them: one that hangs is in nobody else's way. It is there
 * from the first run of its kind on. */
struct shelf {
    struct pool *pool;
    struct stock stock;
    struct lineage *lineage; /* where its kind is forked; NULL: nobody asked for one yet */
    pthread_cond_t changed;
    pthread_t thread;
    bool has_thread;
};

struct pool {
    const struct policy *policy;
    struct pool_options options;
    struct string_list preload;
    char *image;
    struct language_table languages;
    struct limits limits;  /* of a spare: the operator's defaults, as a validated spec has them */
    struct limits highest; /* that a spare can be given */
    struct wasm_pool *wasm;
    struct burial *burial;
    struct milestones milestones;

    pthread_mutex_t lock; /* of all that follows */
    pthread_cond_t changed;
    bool is_closing;
    struct shelf shelves[KIND_COUNT];
    int running;
    int64_t last_run_us;
    struct shelf *last_shelf; /* of the last run that came; NULL: it was for none */
    bool has_failed;
    struct error failure;
};

static void destroy_spare(void *data, struct spare *spare)
{
    struct pool *pool = data;
    int64_t asked_us = spare->asked_us;
    if (spare->zygote)
        lineage_destroy_fork(pool->shelves[spare->kind - kinds].lineage, spare);
    else
        spare_destroy(spare);
    milestones_count_cleared(&pool->milestones, asked_us);
}

static int make_spare(struct shelf *shelf, enum fork_haste haste, struct spare **ret, struct error *err)
{
    struct pool *pool = shelf->pool;
    int status = shelf->stock.kind->is_forked
                     ? lineage_fork(shelf->lineage, haste, ret, err)
                     : started_make(&(struct started_terms){.kind = shelf->stock.kind,
                                                            .policy = pool->policy,
                                                            .languages = &pool->languages,
                                                            .image = pool->image,
                                                            .usual = &pool->limits,
                                                            .highest = &pool->highest,
                                                            .preload = &pool->preload},
                                    ret, err);
    if (status == 0 || status == -EAGAIN)
        return status;
    pthread_mutex_lock(&pool->lock);
    shelf->stock.failures++;
    pool->has_failed = true;
    if (err)
        pool->failure = *err;
    pthread_mutex_unlock(&pool->lock);
    return status;
}

static void put_spare(struct shelf *shelf, struct spare *spare)
{
    struct stock *stock = &shelf->stock;
    struct pool *pool = shelf->pool;
    int64_t bytes = stock->spare_bytes ? 0 : spare_private_bytes(spare);
    pthread_mutex_lock(&pool->lock);
    stock_put(stock, spare);
    if (bytes)
        stock->spare_bytes = bytes;
    pthread_cond_broadcast(&pool->changed);
    pthread_mutex_unlock(&pool->lock);
}

enum chore { CHORE_NONE, CHORE_MAKE, CHORE_SHED };

static bool is_low(const struct stock *stock)
{
    return stock->count * 2 <= stock_target(stock, clock_monotonic_us());
}

static enum chore next_chore(struct shelf *shelf, int *ret_wait_ms)
{
    struct pool *pool = shelf->pool;
    const struct stock *stock = &shelf->stock;
    int target = stock_target(stock, clock_monotonic_us());
    *ret_wait_ms = 1000;
    if (stock->kind->is_forked && !lineage_is_ready(shelf->lineage))
        return CHORE_NONE;
    if (stock->count > target)
        return CHORE_SHED;
    if (stock->count == target)
        return CHORE_NONE;
    int64_t quiet_us = clock_monotonic_us() - pool->last_run_us;
    bool is_quiet = pool->running == 0 && quiet_us >= QUIET_US;
    if (!is_quiet && !is_low(stock)) {
        *ret_wait_ms = pool->running ? 1000 : 1; /* the end of a run is told */
        return CHORE_NONE;
    }
    return CHORE_MAKE;
}

/* A spare of a dead zygote is dead too. One of a zygote that is retired goes when there are enough, so that
 * the zygote can go; one that was started goes at the same age. */
static bool must_go(const struct spare *spare, void *data)
{
    const struct shelf *shelf = data;
    const struct pool *pool = shelf->pool;
    if (spare_is_dead(spare))
        return true;
    if (spare->started)
        return clock_monotonic_us() - spare->made_us > pool->options.rotate_ms * 1000;
    return shelf->stock.count >= stock_target(&shelf->stock, clock_monotonic_us()) &&
           lineage_is_old(shelf->lineage, spare);
}

/* What fails again and again is tried less and less often. A new zygote may change it. A box that cannot be
 * started costs more, the reason is most often that the image lacks the language, and no run changes that. */
static void pause_after_failure(struct shelf *shelf, int failures)
{
    struct pool *pool = shelf->pool;
    bool is_forked = shelf->stock.kind->is_forked;
    int first_ms = is_forked ? 10 : 500, longest_ms = is_forked ? 1000 : 60000;
    int64_t left_ms = failures < 7 ? first_ms << failures : longest_ms;
    int64_t until_us = clock_monotonic_us() + left_ms * 1000;
    while (!pool->is_closing && left_ms > 0) {
        clock_wait(&shelf->changed, &pool->lock, left_ms);
        left_ms = is_forked ? 0 : (until_us - clock_monotonic_us()) / 1000;
    }
}

static void *keep_stocked(void *data)
{
    struct shelf *shelf = data;
    struct pool *pool = shelf->pool;
    int failures = 0; /* in a row */
    pthread_mutex_lock(&pool->lock);
    while (!pool->is_closing) {
        int wait_ms;
        struct spare *spare = stock_take_if(&shelf->stock, must_go, shelf);
        enum chore chore = spare ? CHORE_SHED : next_chore(shelf, &wait_ms);
        if (chore == CHORE_NONE) {
            clock_wait(&shelf->changed, &pool->lock, wait_ms);
            continue;
        }
        if (chore == CHORE_SHED && !spare)
            spare = stock_take(&shelf->stock);
        pthread_mutex_unlock(&pool->lock);
        struct error err = {0};
        int status = 0;
        if (chore == CHORE_SHED)
            destroy_spare(pool, spare);
        else if ((status = make_spare(shelf, FORK_AHEAD, &spare, &err)) == 0)
            put_spare(shelf, spare);
        pthread_mutex_lock(&pool->lock);
        failures = status < 0 ? failures + 1 : 0;
        if (status < 0)
            pause_after_failure(shelf, failures);
    }
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

static void zygote_changed(void *data, const struct error *failure)
{
    struct shelf *shelf = data;
    struct pool *pool = shelf->pool;
    pthread_mutex_lock(&pool->lock);
    pool->has_failed = failure != NULL;
    if (failure)
        pool->failure = *failure;
    pthread_cond_broadcast(&pool->changed);
    pthread_cond_signal(&shelf->changed);
    pthread_mutex_unlock(&pool->lock);
}

static int open_lineage(struct shelf *shelf, struct error *err)
{
    struct pool *pool = shelf->pool;
    return lineage_open(&(struct lineage_terms){.kind = shelf->stock.kind,
                                                .policy = pool->policy,
                                                .languages = &pool->languages,
                                                .image = pool->image,
                                                .preload = &pool->preload,
                                                .usual = &pool->limits,
                                                .highest = &pool->highest,
                                                .rotate_ms = pool->options.rotate_ms,
                                                .rotate_forks = pool->options.rotate_forks,
                                                .changed = zygote_changed,
                                                .data = shelf},
                        &shelf->lineage, err);
}

/* With the lock held. Without a thread there are no spares, and runs are cold. */
static int attend(struct shelf *shelf, struct error *err)
{
    int status = 0;
    if (!shelf->has_thread && !shelf->pool->is_closing) {
        if (shelf->stock.kind->is_forked && !shelf->lineage)
            status = open_lineage(shelf, err);
        shelf->has_thread = status == 0 && thread_start(&shelf->thread, 0, keep_stocked, shelf) == 0;
    }
    pthread_cond_signal(&shelf->changed);
    return status;
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
    static const enum limit_field lowered[] = {LIMIT_open_files, LIMIT_disk, LIMIT_cpu, LIMIT_pids};
    for (size_t i = 0; i < sizeof lowered / sizeof *lowered; i++)
        pool->highest.value[lowered[i]] = pool->policy->ceilings.value[lowered[i]];
    return status;
}

static void lay_out(struct pool *pool)
{
    const struct pool_options *options = &pool->options;
    for (int i = 0; i < KIND_COUNT; i++) {
        struct shelf *shelf = &pool->shelves[i];
        bool is_wanted = i == 0 || options->is_wanted[i];
        *shelf = (struct shelf){.pool = pool, .changed = PTHREAD_COND_INITIALIZER};
        stock_init(&shelf->stock, &kinds[i], is_wanted ? options->minimum : 0, options->maximum,
                   options->idle_ms);
    }
}

static int start_threads(struct pool *pool, struct error *err)
{
    int status = burial_open(destroy_spare, pool, &pool->burial, err);
    pthread_mutex_lock(&pool->lock);
    for (int i = 0; status == 0 && i < KIND_COUNT; i++)
        if (i == 0 || pool->shelves[i].stock.minimum > 0)
            status = attend(&pool->shelves[i], err);
    pthread_mutex_unlock(&pool->lock);
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
                          .changed = PTHREAD_COND_INITIALIZER};
    struct pool_options *own = &pool->options;
    own->rotate_ms = own->rotate_ms ? own->rotate_ms : ROTATE_DEFAULT_MS;
    own->rotate_forks = own->rotate_forks ? own->rotate_forks : ROTATE_DEFAULT_FORKS;
    own->idle_ms = own->idle_ms ? own->idle_ms : IDLE_DEFAULT_MS;
    lay_out(pool);
    int status = 0;
    for (size_t i = 0; status == 0 && options->preload && i < options->preload->count; i++)
        status = string_list_add(&pool->preload, options->preload->items[i]);
    if (!(pool->image = strdup(options->image ? options->image : policy->image)))
        status = -ENOMEM;
    if (status < 0)
        error_host(err, status, "no memory for a pool");
    if (status == 0)
        status = language_table_load(&policy->languages, &pool->languages, err);
    if (status == 0 && !(pool->wasm = wasm_pool_new(policy, &pool->languages, own->idle_ms)))
        status = error_host(err, -ENOMEM, "no memory for a pool");
    if (status == 0)
        status = choose_limits(pool, err);
    if (status == 0)
        status = start_threads(pool, err);
    if (status < 0) {
        pool_close(pool);
        return status;
    }
    *ret = pool;
    return 0;
}

static bool is_stocked(const struct pool *pool)
{
    for (int i = 0; i < KIND_COUNT; i++)
        if (pool->shelves[i].stock.count < pool->shelves[i].stock.minimum)
            return false;
    return true;
}

bool pool_await_warm(struct pool *pool, int timeout_ms)
{
    int64_t until_us = clock_monotonic_us() + (int64_t)timeout_ms * 1000;
    pthread_mutex_lock(&pool->lock);
    while (!is_stocked(pool) && !pool->has_failed && clock_monotonic_us() < until_us)
        clock_wait(&pool->changed, &pool->lock, 100);
    bool is_warm = is_stocked(pool);
    pthread_mutex_unlock(&pool->lock);
    return is_warm;
}

static struct shelf *find_shelf(struct pool *pool, const struct spec *spec)
{
    int kind = kind_of_spec(spec, &(struct kind_terms){.languages = &pool->languages,
                                                       .image = pool->image,
                                                       .usual = &pool->limits,
                                                       .highest = &pool->highest});
    return kind >= 0 ? &pool->shelves[kind] : NULL;
}

/* With the lock held. Those that died while they waited are put on `ret_dead`. */
static struct spare *take_living(struct stock *stock, struct spare **ret_dead)
{
    struct spare *spare;
    *ret_dead = NULL;
    while ((spare = stock_take(stock)) && spare_is_dead(spare)) {
        spare->next = *ret_dead;
        *ret_dead = spare;
    }
    return spare;
}

/* A spare, or a fork on demand. To start a box on demand would be no sooner than a cold run. */
static int take(struct shelf *shelf, int queued, struct spare **ret, struct error *err)
{
    struct pool *pool = shelf->pool;
    struct stock *stock = &shelf->stock;
    bool can_fork = stock->kind->is_forked;
    pthread_mutex_lock(&pool->lock);
    pool->last_run_us = clock_monotonic_us();
    stock_count_arrival(stock, queued, pool->last_run_us);
    struct spare *dead, *spare = take_living(stock, &dead);
    stock->hits += spare != NULL;
    stock->misses += spare == NULL;
    stock->waiting += !spare && can_fork;
    pool->running += spare || can_fork;
    bool is_alone = pool->running == 1;
    if (spare)
        spare->is_alone = is_alone;
    if (!spare || !shelf->has_thread || is_low(stock))
        attend(shelf, NULL); /* else there is time until the run is over, and no thread in its way */
    pthread_mutex_unlock(&pool->lock);
    while (dead) {
        struct spare *next = dead->next;
        burial_take(pool->burial, dead);
        dead = next;
    }
    *ret = spare;
    if (spare)
        return 0;
    if (!can_fork)
        return -EAGAIN;
    int status =
        shelf->lineage ? make_spare(shelf, is_alone ? FORK_AWAITED_ALONE : FORK_AWAITED, ret, err) : -EAGAIN;
    pthread_mutex_lock(&pool->lock);
    stock->waiting--;
    pool->running -= status < 0;
    if (status == 0)
        (*ret)->is_alone = pool->running == 1;
    pthread_mutex_unlock(&pool->lock);
    return status < 0 ? -EAGAIN : 0;
}

void pool_expect(struct pool *pool)
{
    pthread_mutex_lock(&pool->lock);
    bool can_fork = pool->last_shelf && pool->last_shelf->stock.kind->is_forked;
    struct spare *next = can_fork && pool->running == 0 ? pool->last_shelf->stock.spares : NULL;
    if (next)
        spare_expect(next);
    pthread_mutex_unlock(&pool->lock);
}

/* Like keeper_run. -EAGAIN: it could not be had from the pool, and nothing of it ran. */
static int run_in_spare(struct shelf *shelf, struct spec *spec, const struct supervise_io *io,
                        struct pool_rest *rest, struct result **ret, struct error *err)
{
    struct pool *pool = shelf->pool;
    int checked = vetting_check(spec, shelf->stock.kind->language, err);
    if (checked == 0)
        checked = shown_check(spec, shelf->stock.kind->language, err);
    if (checked < 0)
        return checked;
    scope_fd target = collect_open_target_of(spec, err);
    if (target < 0 && (spec->output_directory || spec->output_fd >= 0))
        return target;
    struct spare *spare = NULL;
    int status = take(shelf, io->queued, &spare, err);
    if (status < 0)
        return status;
    status = spare_run(spare, spec, pool->policy, io, target, ret, err);
    if (status == 0) {
        spare->asked_us = io->asked_us;
        milestones_count(&pool->milestones, io->asked_us, *ret);
    }
    *rest = (struct pool_rest){shelf, spare};
    return status;
}

void pool_clear(struct pool *pool, struct pool_rest *rest)
{
    if (!rest->shelf)
        return;
    burial_take(pool->burial, rest->spare);
    pthread_mutex_lock(&pool->lock);
    pool->running--;
    pool->last_run_us = clock_monotonic_us();
    attend(rest->shelf, NULL);
    pthread_mutex_unlock(&pool->lock);
    *rest = (struct pool_rest){0};
}

/* A cold box is gone when its run is over. */
static int count_cold(struct pool *pool, const struct supervise_io *io, int status, struct result **result)
{
    if (status == 0) {
        milestones_count(&pool->milestones, io->asked_us, *result);
        milestones_count_cleared(&pool->milestones, io->asked_us);
    }
    return status;
}

static int serve(struct pool *pool, struct spec *spec, const struct supervise_io *io, struct pool_rest *rest,
                 struct result **ret, struct error *err)
{
    int status;
    struct shelf *shelf = find_shelf(pool, spec);
    pthread_mutex_lock(&pool->lock);
    pool->last_shelf = spec->isolation == ISOLATION_WASM ? NULL : shelf;
    pthread_mutex_unlock(&pool->lock);
    if (spec->isolation == ISOLATION_WASM && (spec->vet_thorough || spec->wants_results))
        status = -EAGAIN; /* it is read first, in another box; or is refused */
    else if (spec->isolation == ISOLATION_WASM) {
        status = count_cold(pool, io, wasm_pool_serve(pool->wasm, spec, io, ret, err), ret);
        if (status == 0)
            vetting_conclude(spec, NULL, *ret); /* nobody asked, or it would not have come here */
    } else
        status = shelf ? run_in_spare(shelf, spec, io, rest, ret, err) : -EAGAIN;
    if (status != -EAGAIN)
        return status;
    pool_clear(pool, rest); /* a spare that could not serve */
    if (err)
        *err = (struct error){0};
    return count_cold(pool, io, keeper_run_validated(spec, pool->policy, io, ret, err), ret);
}

/* Does a box wait that the spec fits into as it is? */
static bool is_awaited(struct pool *pool, const struct spec *spec)
{
    const struct shelf *shelf = find_shelf(pool, spec);
    pthread_mutex_lock(&pool->lock);
    bool is_there = shelf && (shelf->stock.count > 0 || (shelf->stock.kind->is_forked && shelf->lineage));
    pthread_mutex_unlock(&pool->lock);
    return is_there;
}

/* To read the code first would take longer than to run it in a box that waits: in one of the usual engine
 * any code may run. */
static int choose(struct pool *pool, struct spec *spec, struct choice *ret, struct error *err)
{
    int status = 0;
    *ret = (struct choice){.isolation = spec->isolation};
    if (is_awaited(pool, spec))
        snprintf(ret->reason, sizeof ret->reason,
                 "a warm box of %s was there; the code was not read first, which takes longer than most runs",
                 isolation_names[spec->isolation]);
    else
        status = choose_engine(spec, pool->policy, ret, err);
    choice_free(ret);
    return status < 0 ? status : spec_take_isolation(spec, pool->policy, ret->isolation, err);
}

int pool_serve(struct pool *pool, struct spec *spec, const struct supervise_io *io, struct pool_rest *rest,
               struct result **ret, struct error *err)
{
    struct choice choice = {0};
    struct pool_rest own = {0};
    int status = spec_validate(spec, pool->policy, err);
    if (status == 0 && spec->is_auto)
        status = choose(pool, spec, &choice, err);
    if (status == 0)
        status = serve(pool, spec, io, rest ? rest : &own, ret, err);
    if (status == 0 && spec->is_auto)
        snprintf((*ret)->chosen, sizeof(*ret)->chosen, "%s", choice.reason);
    pool_clear(pool, &own);
    return status;
}

int pool_serve_cold(struct pool *pool, struct spec *spec, const struct supervise_io *io, struct result **ret,
                    struct error *err)
{
    return count_cold(pool, io, keeper_run(spec, pool->policy, io, ret, err), ret);
}

void pool_hint(struct pool *pool, int spares)
{
    pthread_mutex_lock(&pool->lock);
    stock_hint(&pool->shelves[0].stock, spares, clock_monotonic_us());
    attend(&pool->shelves[0], NULL);
    pthread_mutex_unlock(&pool->lock);
}

void pool_read_state(struct pool *pool, struct pool_state *ret)
{
    pthread_mutex_lock(&pool->lock);
    int64_t now_us = clock_monotonic_us();
    *ret = (struct pool_state){.running = pool->running, .milestones = &pool->milestones};
    for (int i = 0; i < KIND_COUNT; i++) {
        const struct stock *stock = &pool->shelves[i].stock;
        ret->kinds[i] = (struct pool_kind_state){.name = stock->kind->name,
                                                 .spares = stock->count,
                                                 .target = stock_target(stock, now_us),
                                                 .hits = stock->hits,
                                                 .misses = stock->misses,
                                                 .failures = stock->failures,
                                                 .spare_bytes = stock->spare_bytes,
                                                 .zygotes = {.pid = -1}};
        if (pool->shelves[i].lineage)
            lineage_read_state(pool->shelves[i].lineage, &ret->kinds[i].zygotes);
    }
    pthread_mutex_unlock(&pool->lock);
    wasm_pool_read_state(pool->wasm, &ret->wasm);
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
    for (int i = 0; i < KIND_COUNT; i++)
        pthread_cond_broadcast(&pool->shelves[i].changed);
    pthread_mutex_unlock(&pool->lock);
    for (int i = 0; i < KIND_COUNT; i++)
        if (pool->shelves[i].has_thread)
            pthread_join(pool->shelves[i].thread, NULL);
}

void pool_close(struct pool *pool)
{
    if (!pool)
        return;
    end_threads(pool);
    for (int i = 0; i < KIND_COUNT; i++) {
        for (struct spare *spare; (spare = stock_take(&pool->shelves[i].stock));)
            destroy_spare(pool, spare);
        pthread_cond_destroy(&pool->shelves[i].changed);
    }
    wasm_pool_free(pool->wasm);
    burial_close(pool->burial);
    for (int i = 0; i < KIND_COUNT; i++)
        lineage_close(pool->shelves[i].lineage);
    string_list_free(&pool->preload);
    language_table_free(&pool->languages);
    free(pool->image);
    pthread_mutex_destroy(&pool->lock);
    pthread_cond_destroy(&pool->changed);
    free(pool);
}
