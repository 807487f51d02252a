#include "keeper/shelf.h"

#include "base/condition.h"
#include "base/thread.h"
#include "keeper/house.h"
#include "keeper/started.h"

#include <errno.h>

enum {
    QUIET_US = 1000, /* a new spare is not made right behind a run: it would take the client's CPU */
    PLACES = 2, /* enough for who comes alone; who comes in numbers pays for the whole, and so for a spare */
};

void shelf_init(struct shelf *shelf, struct house *house, const struct kind *kind, int minimum)
{
    struct grounds *grounds = house->grounds;
    *shelf = (struct shelf){.grounds = grounds, .house = house, .changed = PTHREAD_COND_INITIALIZER};
    stock_init(&shelf->stock, kind, minimum, grounds->maximum, grounds->idle_ms);
}

static void destroy_spare(struct spare *spare)
{
    struct shelf *shelf = spare->shelf;
    int64_t asked_us = spare->asked_us;
    if (spare->zygote)
        lineage_destroy_fork(shelf->lineage, spare);
    else
        spare_destroy(spare);
    milestones_count_cleared(&shelf->grounds->milestones, asked_us);
}

void shelf_bury(void *grounds, struct spare *spare)
{
    (void)grounds;
    struct house *house = spare->shelf->house;
    destroy_spare(spare);
    house_release(house);
}

/* The house stays until the spare is gone. */
static void bury(struct shelf *shelf, struct spare *spare)
{
    house_hold(shelf->house);
    burial_take(shelf->grounds->burial, spare);
}

/* What could not be made; NULL: now it can. With the lock held. */
static void note(struct shelf *shelf, const struct error *failure)
{
    shelf->has_failed = failure != NULL;
    if (failure) {
        shelf->failed_us = clock_monotonic_us();
        shelf->failure = *failure;
    }
    pthread_cond_broadcast(&shelf->grounds->changed);
}

static int make_spare(struct shelf *shelf, enum runner_haste haste, struct spare **ret, struct error *err)
{
    struct grounds *grounds = shelf->grounds;
    struct house *house = shelf->house;
    struct error own = {0};
    if (!err)
        err = &own;
    int status = shelf->stock.kind->is_forked
                     ? lineage_fork(shelf->lineage, haste, ret, err)
                     : started_make(&(struct started_terms){.kind = shelf->stock.kind,
                                                            .policy = grounds->policy,
                                                            .languages = &grounds->languages,
                                                            .image = house->image,
                                                            .usual = &grounds->limits,
                                                            .highest = &grounds->highest,
                                                            .preload = &house->modules},
                                    ret, err);
    if (status == 0)
        (*ret)->shelf = shelf;
    if (status == 0 || status == -EAGAIN)
        return status;
    pthread_mutex_lock(&grounds->lock);
    shelf->stock.failures++;
    note(shelf, err);
    pthread_mutex_unlock(&grounds->lock);
    return status;
}

static void put_spare(struct shelf *shelf, struct spare *spare)
{
    struct stock *stock = &shelf->stock;
    struct grounds *grounds = shelf->grounds;
    int64_t bytes = stock->spare_bytes ? 0 : spare_private_bytes(spare);
    pthread_mutex_lock(&grounds->lock);
    stock_put(stock, spare);
    if (bytes)
        stock->spare_bytes = bytes;
    note(shelf, NULL);
    pthread_mutex_unlock(&grounds->lock);
}

/* NULL: there is none that is meant. With the lock held. */
static struct spare *take_place(struct shelf *shelf, bool (*is_meant)(const struct spare *spare, void *data))
{
    for (struct spare **at = &shelf->places; *at; at = &(*at)->next)
        if (is_meant(*at, shelf)) {
            struct spare *found = *at;
            *at = found->next;
            shelf->place_count--;
            return found;
        }
    return NULL;
}

static bool is_living_place(const struct spare *place, void *shelf)
{
    (void)shelf;
    return !spare_is_dead(place);
}

static bool is_any(const struct spare *place, void *shelf)
{
    (void)place, (void)shelf;
    return true;
}

static int make_place(struct shelf *shelf, struct spare **ret, struct error *err)
{
    int status = lineage_make_place(shelf->lineage, ret, err);
    if (status == 0)
        (*ret)->shelf = shelf;
    return status;
}

static void put_place(struct shelf *shelf, struct spare *place)
{
    pthread_mutex_lock(&shelf->grounds->lock);
    place->next = shelf->places;
    shelf->places = place;
    shelf->place_count++;
    pthread_mutex_unlock(&shelf->grounds->lock);
}

static bool wants_place(const struct shelf *shelf)
{
    const struct kind *kind = shelf->stock.kind;
    return kind->is_forked && kind->isolation == ISOLATION_CONTAINER && shelf->place_count < PLACES;
}

enum chore { CHORE_NONE, CHORE_MAKE, CHORE_MAKE_PLACE, CHORE_SHED };

static bool is_low(const struct stock *stock)
{
    return stock->count * 2 <= stock_target(stock, clock_monotonic_us());
}

static enum chore next_chore(struct shelf *shelf, int *ret_wait_ms)
{
    struct grounds *grounds = shelf->grounds;
    const struct stock *stock = &shelf->stock;
    int target = stock_target(stock, clock_monotonic_us());
    *ret_wait_ms = 1000;
    if (stock->kind->is_forked && !lineage_is_ready(shelf->lineage))
        return CHORE_NONE;
    if (stock->count > target)
        return CHORE_SHED;
    if (stock->count == target && !wants_place(shelf))
        return CHORE_NONE;
    int64_t quiet_us = clock_monotonic_us() - grounds->last_run_us;
    bool is_quiet = grounds->running == 0 && quiet_us >= QUIET_US;
    if (!is_quiet && (stock->count == target || !is_low(stock))) {
        *ret_wait_ms = grounds->running ? 1000 : 1; /* the end of a run is told */
        return CHORE_NONE;
    }
    return stock->count < target ? CHORE_MAKE : CHORE_MAKE_PLACE;
}

/* A spare of a dead zygote is dead too. One of a zygote that is retired goes when there are enough, so that
 * the zygote can go; one that was started goes at the same age. */
static bool must_go(const struct spare *spare, void *data)
{
    const struct shelf *shelf = data;
    const struct grounds *grounds = shelf->grounds;
    if (spare_is_dead(spare))
        return true;
    if (spare->started)
        return clock_monotonic_us() - spare->made_us > grounds->rotate_ms * 1000;
    return shelf->stock.count >= stock_target(&shelf->stock, clock_monotonic_us()) &&
           lineage_is_old(shelf->lineage, spare);
}

static bool place_must_go(const struct spare *place, void *data)
{
    const struct shelf *shelf = data;
    return spare_is_dead(place) || lineage_is_old(shelf->lineage, place);
}

/* What fails again and again is tried less and less often. A new zygote may change it. A box that cannot be
 * started costs more, the reason is most often that the image lacks the language, and no run changes that. */
static void pause_after_failure(struct shelf *shelf, int failures)
{
    struct grounds *grounds = shelf->grounds;
    bool is_forked = shelf->stock.kind->is_forked;
    int first_ms = is_forked ? 10 : 500, longest_ms = is_forked ? 1000 : 60000;
    int64_t left_ms = failures < 7 ? first_ms << failures : longest_ms;
    int64_t until_us = clock_monotonic_us() + left_ms * 1000;
    while (!shelf->house->is_closing && left_ms > 0) {
        clock_wait(&shelf->changed, &grounds->lock, left_ms);
        left_ms = is_forked ? 0 : (until_us - clock_monotonic_us()) / 1000;
    }
}

static void *keep_stocked(void *data)
{
    struct shelf *shelf = data;
    struct grounds *grounds = shelf->grounds;
    int failures = 0; /* in a row */
    pthread_mutex_lock(&grounds->lock);
    while (!shelf->house->is_closing) {
        int wait_ms;
        struct spare *spare = stock_take_if(&shelf->stock, must_go, shelf);
        if (!spare)
            spare = take_place(shelf, place_must_go);
        enum chore chore = spare ? CHORE_SHED : next_chore(shelf, &wait_ms);
        if (chore == CHORE_NONE) {
            clock_wait(&shelf->changed, &grounds->lock, wait_ms);
            continue;
        }
        if (chore == CHORE_SHED && !spare)
            spare = stock_take(&shelf->stock);
        pthread_mutex_unlock(&grounds->lock);
        struct error err = {0};
        int status = 0;
        if (chore == CHORE_SHED)
            destroy_spare(spare);
        else if (chore == CHORE_MAKE_PLACE && (status = make_place(shelf, &spare, &err)) == 0)
            put_place(shelf, spare);
        else if (chore == CHORE_MAKE && (status = make_spare(shelf, RUNNER_AHEAD, &spare, &err)) == 0)
            put_spare(shelf, spare);
        pthread_mutex_lock(&grounds->lock);
        failures = status < 0 ? failures + 1 : 0;
        if (status < 0)
            pause_after_failure(shelf, failures);
    }
    pthread_mutex_unlock(&grounds->lock);
    return NULL;
}

static void zygote_changed(void *data, const struct error *failure)
{
    struct shelf *shelf = data;
    pthread_mutex_lock(&shelf->grounds->lock);
    note(shelf, failure);
    pthread_cond_signal(&shelf->changed);
    pthread_mutex_unlock(&shelf->grounds->lock);
}

static int open_lineage(struct shelf *shelf, struct error *err)
{
    struct grounds *grounds = shelf->grounds;
    return lineage_open(&(struct lineage_terms){.kind = shelf->stock.kind,
                                                .policy = grounds->policy,
                                                .languages = &grounds->languages,
                                                .image = shelf->house->image,
                                                .preload = &shelf->house->modules,
                                                .usual = &grounds->limits,
                                                .highest = &grounds->highest,
                                                .rotate_ms = grounds->rotate_ms,
                                                .rotate_forks = grounds->rotate_forks,
                                                .changed = zygote_changed,
                                                .data = shelf},
                        &shelf->lineage, err);
}

int shelf_attend(struct shelf *shelf, struct error *err)
{
    int status = 0;
    if (!shelf->has_thread && !shelf->house->is_closing) {
        if (shelf->stock.kind->is_forked && !shelf->lineage)
            status = open_lineage(shelf, err);
        shelf->has_thread = status == 0 && thread_start(&shelf->thread, 0, keep_stocked, shelf) == 0;
    }
    pthread_cond_signal(&shelf->changed);
    return status;
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

int shelf_take(struct shelf *shelf, int queued, struct spare **ret, struct error *err)
{
    struct grounds *grounds = shelf->grounds;
    struct stock *stock = &shelf->stock;
    bool can_fork = stock->kind->is_forked;
    pthread_mutex_lock(&grounds->lock);
    grounds->last_run_us = clock_monotonic_us();
    stock_count_arrival(stock, queued, grounds->last_run_us);
    struct spare *dead, *spare = take_living(stock, &dead);
    stock->hits += spare != NULL;
    stock->misses += spare == NULL;
    stock->waiting += !spare && can_fork;
    struct spare *place = spare ? NULL : take_place(shelf, is_living_place);
    grounds->running += spare || can_fork;
    bool is_alone = grounds->running == 1;
    if (spare)
        spare->is_alone = is_alone;
    if (!spare || !shelf->has_thread || is_low(stock))
        shelf_attend(shelf, NULL); /* else there is time until the run is over, and no thread in its way */
    pthread_mutex_unlock(&grounds->lock);
    while (dead) {
        struct spare *next = dead->next;
        bury(shelf, dead);
        dead = next;
    }
    *ret = spare;
    if (spare)
        return 0;
    if (!can_fork)
        return -EAGAIN;
    enum runner_haste haste = is_alone ? RUNNER_AWAITED_ALONE : RUNNER_AWAITED;
    int status = place ? spare_fill_place(place, haste, err) : -EAGAIN;
    if (status == 0)
        *ret = place;
    else if (place)
        bury(shelf, place);
    if (status < 0 && shelf->lineage)
        status = make_spare(shelf, haste, ret, err);
    pthread_mutex_lock(&grounds->lock);
    stock->waiting--;
    grounds->running -= status < 0;
    if (status == 0)
        (*ret)->is_alone = grounds->running == 1;
    pthread_mutex_unlock(&grounds->lock);
    return status < 0 ? -EAGAIN : 0;
}

void shelf_clear(struct shelf *shelf, struct spare *spare)
{
    struct grounds *grounds = shelf->grounds;
    bury(shelf, spare);
    pthread_mutex_lock(&grounds->lock);
    grounds->running--;
    grounds->last_run_us = clock_monotonic_us();
    shelf_attend(shelf, NULL);
    pthread_mutex_unlock(&grounds->lock);
}

void shelf_end_thread(struct shelf *shelf)
{
    if (shelf->has_thread)
        pthread_join(shelf->thread, NULL);
    shelf->has_thread = false;
}

void shelf_empty(struct shelf *shelf)
{
    for (struct spare *spare; (spare = stock_take(&shelf->stock));)
        destroy_spare(spare);
    for (struct spare *place; (place = take_place(shelf, is_any));)
        destroy_spare(place);
}

void shelf_end_zygote(struct shelf *shelf)
{
    lineage_close(shelf->lineage);
    shelf->lineage = NULL;
}
