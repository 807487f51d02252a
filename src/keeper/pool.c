#include "keeper/pool.h"

#include "base/condition.h"
#include "base/scope.h"
#include "keeper/choose.h"
#include "keeper/collect.h"
#include "keeper/housing.h"
#include "keeper/run.h"
#include "keeper/shown.h"
#include "keeper/vetting.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    ROTATE_DEFAULT_MS = 3600 * 1000,
    ROTATE_DEFAULT_FORKS = 20000,
    IDLE_DEFAULT_MS = 60 * 1000,
};

struct pool {
    struct grounds grounds;
    struct housing housing;
    struct wasm_pool *wasm;
    char *image; /* the usual one */
};

static int choose_limits(struct grounds *grounds, struct error *err)
{
    /* What a spec without a word about limits gets, and the highest that the kernel lets us lower later. */
    scope_spec *spec = spec_new();
    if (!spec || buffer_append(&spec->code, "0", 1) < 0)
        return error_host(err, -ENOMEM, "no memory for a pool");
    spec->has_code = true;
    int status = spec_validate(spec, grounds->policy, err);
    grounds->limits = grounds->highest = spec->limits;
    static const enum limit_field lowered[] = {LIMIT_open_files, LIMIT_disk, LIMIT_cpu, LIMIT_pids};
    for (size_t i = 0; i < sizeof lowered / sizeof *lowered; i++)
        grounds->highest.value[lowered[i]] = grounds->policy->ceilings.value[lowered[i]];
    return status;
}

static void take_options(struct grounds *grounds, const struct pool_options *options)
{
    grounds->minimum = options->minimum;
    grounds->maximum = options->maximum;
    memcpy(grounds->is_wanted, options->is_wanted, sizeof grounds->is_wanted);
    grounds->rotate_ms = options->rotate_ms ? options->rotate_ms : ROTATE_DEFAULT_MS;
    grounds->rotate_forks = options->rotate_forks ? options->rotate_forks : ROTATE_DEFAULT_FORKS;
    grounds->idle_ms = options->idle_ms ? options->idle_ms : IDLE_DEFAULT_MS;
}

int pool_open(const struct policy *policy, const struct pool_options *options, struct pool **ret,
              struct error *err)
{
    struct pool *pool = calloc(1, sizeof *pool);
    if (!pool)
        return error_host(err, -ENOMEM, "no memory for a pool");
    struct grounds *grounds = &pool->grounds;
    *grounds = (struct grounds){
        .policy = policy, .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    take_options(grounds, options);
    int status =
        string_list_copy(&grounds->modules, options->preload ? options->preload : &policy->warm.modules);
    if (!(pool->image = strdup(options->image ? options->image : policy->image)))
        status = -ENOMEM;
    if (status < 0)
        error_host(err, status, "no memory for a pool");
    if (status == 0)
        status = language_table_load(&policy->languages, &grounds->languages, err);
    if (status == 0 && !(pool->wasm = wasm_pool_new(policy, &grounds->languages, grounds->idle_ms)))
        status = error_host(err, -ENOMEM, "no memory for a pool");
    if (status == 0)
        status = choose_limits(grounds, err);
    if (status == 0)
        status = burial_open(shelf_bury, grounds, &grounds->burial, err);
    if (status == 0)
        status = housing_open(&pool->housing, grounds, pool->image, err);
    if (status < 0) {
        pool_close(pool);
        return status;
    }
    *ret = pool;
    return 0;
}

enum warmth { IS_WARM, IS_WARMING, HAS_FAILED };

/* Of all that is kept. */
static enum warmth find_warmth(const struct pool *pool)
{
    enum warmth warmth = IS_WARM;
    for (const struct house *house = pool->housing.houses; house; house = house->next)
        if (house->is_kept && !house_is_stocked(house)) {
            if (!house_failure(house))
                return IS_WARMING;
            warmth = HAS_FAILED;
        }
    return warmth;
}

bool pool_await_warm(struct pool *pool, int timeout_ms)
{
    struct grounds *grounds = &pool->grounds;
    int64_t until_us = clock_monotonic_us() + (int64_t)timeout_ms * 1000;
    enum warmth warmth;
    pthread_mutex_lock(&grounds->lock);
    while ((warmth = find_warmth(pool)) == IS_WARMING && clock_monotonic_us() < until_us)
        clock_wait(&grounds->changed, &grounds->lock, 100);
    pthread_mutex_unlock(&grounds->lock);
    return warmth == IS_WARM;
}

/* Its house is held then. */
static struct shelf *find_shelf(struct pool *pool, const struct spec *spec)
{
    const struct grounds *grounds = &pool->grounds;
    int kind = kind_of_spec(spec, &(struct kind_terms){.languages = &grounds->languages,
                                                       .usual = &grounds->limits,
                                                       .highest = &grounds->highest});
    if (kind < 0)
        return NULL;
    const char *set = warm_policy_choose(&grounds->policy->warm, spec->image, spec->preload);
    struct house *house = housing_find(&pool->housing, spec->image, set);
    return house ? &house->shelves[kind] : NULL;
}

static void leave_shelf(struct shelf *shelf)
{
    if (shelf)
        house_release(shelf->house);
}

void pool_expect(struct pool *pool)
{
    struct grounds *grounds = &pool->grounds;
    pthread_mutex_lock(&grounds->lock);
    bool can_fork = grounds->last_shelf && grounds->last_shelf->stock.kind->is_forked;
    struct spare *next = can_fork && grounds->running == 0 ? grounds->last_shelf->stock.spares : NULL;
    if (next)
        spare_expect(next);
    pthread_mutex_unlock(&grounds->lock);
}

/* Like keeper_run. -EAGAIN: it could not be had from the pool, and nothing of it ran. */
static int run_in_spare(struct shelf *shelf, struct spec *spec, const struct supervise_io *io,
                        struct pool_rest *rest, struct result **ret, struct error *err)
{
    struct grounds *grounds = shelf->grounds;
    int checked = vetting_check(spec, shelf->stock.kind->language, err);
    if (checked == 0)
        checked = shown_check(spec, shelf->stock.kind->language, err);
    if (checked < 0)
        return checked;
    scope_fd target = collect_open_target_of(spec, err);
    if (target < 0 && (spec->output_directory || spec->output_fd >= 0))
        return target;
    struct spare *spare = NULL;
    int status = shelf_take(shelf, io->queued, &spare, err);
    if (status < 0)
        return status;
    status = spare_run(spare, spec, grounds->policy, io, target, ret, err);
    if (status == 0) {
        spare->asked_us = io->asked_us;
        milestones_count(&grounds->milestones, io->asked_us, *ret);
    }
    house_hold(shelf->house);
    *rest = (struct pool_rest){shelf, spare};
    return status;
}

void pool_clear(struct pool_rest *rest)
{
    if (!rest->shelf)
        return;
    shelf_clear(rest->shelf, rest->spare);
    leave_shelf(rest->shelf);
    *rest = (struct pool_rest){0};
}

/* A cold box is gone when its run is over. */
static int count_cold(struct pool *pool, const struct supervise_io *io, int status, struct result **result)
{
    if (status == 0) {
        milestones_count(&pool->grounds.milestones, io->asked_us, *result);
        milestones_count_cleared(&pool->grounds.milestones, io->asked_us);
    }
    return status;
}

static void note_last(struct grounds *grounds, struct shelf *shelf)
{
    pthread_mutex_lock(&grounds->lock);
    grounds->last_shelf = shelf && !shelf->house->is_closing ? shelf : NULL;
    pthread_mutex_unlock(&grounds->lock);
}

static int serve(struct pool *pool, struct spec *spec, const struct supervise_io *io, struct pool_rest *rest,
                 struct result **ret, struct error *err)
{
    int status;
    struct shelf *shelf = find_shelf(pool, spec);
    note_last(&pool->grounds, shelf);
    if (spec->isolation == ISOLATION_WASM && (spec->vet_thorough || spec->wants_results))
        status = -EAGAIN; /* it is read first, in another box; or is refused */
    else if (spec->isolation == ISOLATION_WASM) {
        status = count_cold(pool, io, wasm_pool_serve(pool->wasm, spec, io, ret, err), ret);
        if (status == 0)
            vetting_conclude(spec, NULL, *ret); /* nobody asked, or it would not have come here */
    } else
        status = shelf ? run_in_spare(shelf, spec, io, rest, ret, err) : -EAGAIN;
    leave_shelf(shelf);
    if (status != -EAGAIN)
        return status;
    pool_clear(rest); /* a spare that could not serve */
    if (err)
        *err = (struct error){0};
    return count_cold(pool, io, keeper_run_validated(spec, pool->grounds.policy, io, ret, err), ret);
}

/* Does a box wait that the spec fits into as it is? */
static bool is_awaited(struct pool *pool, const struct spec *spec)
{
    struct shelf *shelf = find_shelf(pool, spec);
    pthread_mutex_lock(&pool->grounds.lock);
    bool is_there = shelf && (shelf->stock.count > 0 || (shelf->stock.kind->is_forked && shelf->lineage &&
                                                         lineage_is_ready(shelf->lineage)));
    pthread_mutex_unlock(&pool->grounds.lock);
    leave_shelf(shelf);
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
        status = choose_engine(spec, pool->grounds.policy, ret, err);
    choice_free(ret);
    return status < 0 ? status : spec_take_isolation(spec, pool->grounds.policy, ret->isolation, err);
}

int pool_serve(struct pool *pool, struct spec *spec, const struct supervise_io *io, struct pool_rest *rest,
               struct result **ret, struct error *err)
{
    struct choice choice = {0};
    struct pool_rest own = {0};
    int status = spec_validate(spec, pool->grounds.policy, err);
    if (status == 0 && spec->is_auto)
        status = choose(pool, spec, &choice, err);
    if (status == 0)
        status = serve(pool, spec, io, rest ? rest : &own, ret, err);
    if (status == 0 && spec->is_auto)
        snprintf((*ret)->chosen, sizeof(*ret)->chosen, "%s", choice.reason);
    pool_clear(&own);
    return status;
}

int pool_serve_cold(struct pool *pool, struct spec *spec, const struct supervise_io *io, struct result **ret,
                    struct error *err)
{
    return count_cold(pool, io, keeper_run(spec, pool->grounds.policy, io, ret, err), ret);
}

void pool_hint(struct pool *pool, const char *image, const char *set, int spares)
{
    struct grounds *grounds = &pool->grounds;
    const struct warm_policy *warm = &grounds->policy->warm;
    image = image ? image : pool->image;
    struct house *house = housing_find(&pool->housing, image, warm_policy_choose(warm, image, set));
    if (!house)
        return;
    pthread_mutex_lock(&grounds->lock);
    stock_hint(&house->shelves[0].stock, spares, clock_monotonic_us());
    shelf_attend(&house->shelves[0], NULL);
    pthread_mutex_unlock(&grounds->lock);
    house_release(house);
}

static void read_shelf(const struct shelf *shelf, int64_t now_us, struct pool_kind_state *ret)
{
    const struct stock *stock = &shelf->stock;
    *ret = (struct pool_kind_state){.name = stock->kind->name,
                                    .is_in_use = shelf->has_thread || stock->misses || stock->hits,
                                    .spares = stock->count,
                                    .target = stock_target(stock, now_us),
                                    .places = shelf->place_count,
                                    .hits = stock->hits,
                                    .misses = stock->misses,
                                    .failures = stock->failures,
                                    .spare_bytes = stock->spare_bytes,
                                    .zygotes = {.pid = -1}};
    if (shelf->has_failed)
        snprintf(ret->failure, sizeof ret->failure, "%s", shelf->failure.text);
    if (shelf->lineage)
        lineage_read_state(shelf->lineage, &ret->zygotes);
}

/* False: no memory. */
static bool read_house(const struct house *house, int64_t now_us, struct pool_house_state *ret)
{
    *ret = (struct pool_house_state){.image = strdup(house->image),
                                     .set = strdup(house->set),
                                     .is_kept = house->is_kept,
                                     .idle_ms = (now_us - house->used_us) / 1000};
    for (int i = 0; i < KIND_COUNT; i++)
        read_shelf(&house->shelves[i], now_us, &ret->kinds[i]);
    return ret->image && ret->set && string_list_copy(&ret->modules, &house->modules) == 0;
}

int pool_read_state(struct pool *pool, struct pool_state *ret, struct error *err)
{
    struct grounds *grounds = &pool->grounds;
    int64_t now_us = clock_monotonic_us();
    size_t count = 0;
    pthread_mutex_lock(&grounds->lock);
    *ret = (struct pool_state){.running = grounds->running, .milestones = &grounds->milestones};
    for (const struct house *house = pool->housing.houses; house; house = house->next)
        count++;
    ret->houses = calloc(count, sizeof *ret->houses);
    bool is_read = ret->houses;
    for (const struct house *house = pool->housing.houses; is_read && house; house = house->next)
        is_read = read_house(house, now_us, &ret->houses[ret->house_count++]);
    pthread_mutex_unlock(&grounds->lock);
    wasm_pool_read_state(pool->wasm, &ret->wasm);
    if (is_read)
        return 0;
    pool_state_free(ret);
    return error_host(err, -ENOMEM, "no memory for the state of a pool");
}

void pool_state_free(struct pool_state *state)
{
    for (size_t i = 0; i < state->house_count; i++) {
        free(state->houses[i].image);
        free(state->houses[i].set);
        string_list_free(&state->houses[i].modules);
    }
    free(state->houses);
    *state = (struct pool_state){0};
}

const char *pool_failure(struct pool *pool)
{
    static _Thread_local char text[sizeof((struct error *)NULL)->text + 160];
    const struct shelf *last = NULL;
    text[0] = '\0';
    pthread_mutex_lock(&pool->grounds.lock);
    for (const struct house *house = pool->housing.houses; house; house = house->next) {
        const struct shelf *failed = house_failure(house);
        if (failed && (!last || failed->failed_us > last->failed_us))
            last = failed;
    }
    if (last && last->house == pool->housing.houses)
        snprintf(text, sizeof text, "%s", last->failure.text);
    else if (last)
        snprintf(text, sizeof text, "%s, image %.64s: %s", last->stock.kind->name, last->house->image,
                 last->failure.text);
    pthread_mutex_unlock(&pool->grounds.lock);
    return text;
}

void pool_close(struct pool *pool)
{
    if (!pool)
        return;
    struct grounds *grounds = &pool->grounds;
    housing_empty(&pool->housing);
    wasm_pool_free(pool->wasm);
    burial_close(grounds->burial);
    housing_close(&pool->housing);
    string_list_free(&grounds->modules);
    language_table_free(&grounds->languages);
    free(pool->image);
    pthread_mutex_destroy(&grounds->lock);
    pthread_cond_destroy(&grounds->changed);
    free(pool);
}
