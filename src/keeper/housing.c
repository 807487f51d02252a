#include "keeper/housing.h"

#include "base/condition.h"
#include "base/thread.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
    LOOK_MS = 1000,
    SETTLED_US = 5 * 1000 * 1000, /* nobody asked for it so long: it may give way to another */
};

static struct house *lookup(const struct housing *housing, const char *image, const char *set)
{
    for (struct house *house = housing->houses; house; house = house->next)
        if (strcmp(house->image, image) == 0 && strcmp(house->set, set) == 0)
            return house;
    return NULL;
}

/* Behind all others: the usual one stays the first. */
static void append(struct house **list, struct house *house)
{
    while (*list)
        list = &(*list)->next;
    house->next = NULL;
    *list = house;
}

/* Nobody finds it any more. */
static void retire(struct housing *housing, struct house *house)
{
    for (struct house **at = &housing->houses; *at; at = &(*at)->next)
        if (*at == house) {
            *at = house->next;
            append(&housing->leaving, house);
            house_stop(house);
            pthread_cond_signal(&housing->changed);
            return;
        }
}

static int count_on_demand(const struct house *list)
{
    int count = 0;
    for (; list; list = list->next)
        count += !list->is_kept;
    return count;
}

/* For one more on demand: there is room, or somebody gives way. One that is leaving takes its room until it
 * is gone; one more than may be is there for that moment. */
static bool make_room(struct housing *housing)
{
    int64_t most = housing->grounds->policy->warm.images_max;
    int64_t now_us = clock_monotonic_us();
    int count = count_on_demand(housing->houses), leaving = count_on_demand(housing->leaving);
    if (most == 0 || count + leaving > most)
        return false;
    if (count + leaving < most)
        return true;
    struct house *oldest = NULL;
    for (struct house *house = housing->houses; house; house = house->next)
        if (!house->is_kept && (!oldest || house->used_us < oldest->used_us) &&
            atomic_load(&house->holders) == 0 && now_us - house->used_us > SETTLED_US)
            oldest = house;
    if (oldest)
        retire(housing, oldest);
    return oldest != NULL;
}

static int keep(struct housing *housing, const char *image, const char *set, struct error *err)
{
    const struct house_terms terms = {
        .grounds = housing->grounds, .image = image, .set = set, .is_kept = true};
    struct house *house = NULL;
    if (lookup(housing, image, set))
        return 0;
    int status = house_open(&terms, &house, err);
    if (status < 0)
        return status;
    append(&housing->houses, house);
    return house_attend(house, err);
}

/* The same for the tree that has its name now. One that is kept is there also while there is none: the
 * failure of its zygote says so, and it is tried again. */
static void rebuild(struct housing *housing, struct house *old)
{
    const struct house_terms terms = {
        .grounds = housing->grounds, .image = old->image, .set = old->set, .is_kept = true};
    bool is_usual = housing->houses == old;
    struct house *house = NULL;
    if (old->is_closing) /* somebody else was sooner */
        return;
    if (old->is_kept && house_open(&terms, &house, NULL) < 0)
        return; /* whoever looks next tries again; nobody is served by the old one */
    retire(housing, old);
    if (!house)
        return;
    if (is_usual) {
        house->next = housing->houses;
        housing->houses = house;
    } else
        append(&housing->houses, house);
    house_attend(house, NULL);
}

static struct house *build_on_demand(struct housing *housing, const char *image, const char *set)
{
    const struct house_terms terms = {.grounds = housing->grounds, .image = image, .set = set};
    struct house *house = NULL;
    if (housing->is_closing || house_open(&terms, &house, NULL) < 0)
        return NULL;
    if (!house->is_there || !make_room(housing)) {
        house_close(house);
        return NULL;
    }
    append(&housing->houses, house);
    return house;
}

static struct house *hold(struct housing *housing, const char *image, const char *set)
{
    pthread_mutex_lock(&housing->grounds->lock);
    struct house *house = lookup(housing, image, set);
    if (!house)
        house = build_on_demand(housing, image, set);
    if (house) {
        house_hold(house);
        house->used_us = clock_monotonic_us();
    }
    pthread_mutex_unlock(&housing->grounds->lock);
    return house;
}

static void leave(struct housing *housing, struct house *house)
{
    pthread_mutex_lock(&housing->grounds->lock);
    rebuild(housing, house);
    pthread_mutex_unlock(&housing->grounds->lock);
    house_release(house);
}

struct house *housing_find(struct housing *housing, const char *image, const char *set)
{
    for (int tries = 0; tries < 2; tries++) {
        struct house *house = hold(housing, image, set);
        if (!house)
            return NULL;
        if (!house_is_current(house)) {
            leave(housing, house);
            continue;
        }
        if (house->is_there)
            return house;
        house_release(house); /* a cold run says that there is no such image */
        return NULL;
    }
    return NULL;
}

/* ---- the caretaker; with the lock held, which it lets go of ---- */

static struct house *next_to_look_at(const struct housing *housing, int64_t round_us)
{
    struct house *house = housing->houses;
    while (house && house->looked_us == round_us)
        house = house->next;
    return house;
}

static void look_at_all(struct housing *housing)
{
    struct grounds *grounds = housing->grounds;
    int64_t idle_us = grounds->policy->warm.idle_ms * 1000, round_us = clock_monotonic_us();
    struct house *house;
    while ((house = next_to_look_at(housing, round_us))) {
        house->looked_us = round_us;
        if (house->place) {
            house_hold(house);
            pthread_mutex_unlock(&grounds->lock);
            bool is_current = house_is_current(house);
            pthread_mutex_lock(&grounds->lock);
            if (!is_current)
                rebuild(housing, house);
            house_release(house);
        }
        if (!house->is_closing && !house->is_kept && atomic_load(&house->holders) == 0 &&
            round_us - house->used_us > idle_us)
            retire(housing, house);
    }
}

static void close_the_left(struct housing *housing)
{
    struct grounds *grounds = housing->grounds;
    for (struct house **at = &housing->leaving; *at;) {
        struct house *house = *at;
        if (atomic_load(&house->holders) > 0) {
            at = &house->next;
            continue;
        }
        pthread_mutex_unlock(&grounds->lock); /* only we take one off this list, and others append */
        house_empty(house);
        house_end_zygotes(house);
        pthread_mutex_lock(&grounds->lock);
        *at = house->next;
        house_close(house);
    }
}

static void *take_care(void *data)
{
    struct housing *housing = data;
    struct grounds *grounds = housing->grounds;
    pthread_mutex_lock(&grounds->lock);
    while (!housing->is_closing) {
        look_at_all(housing);
        close_the_left(housing);
        if (!housing->is_closing)
            clock_wait(&housing->changed, &grounds->lock, LOOK_MS);
    }
    pthread_mutex_unlock(&grounds->lock);
    return NULL;
}

int housing_open(struct housing *housing, struct grounds *grounds, const char *image, struct error *err)
{
    const struct warm_policy *warm = &grounds->policy->warm;
    *housing = (struct housing){.grounds = grounds, .changed = PTHREAD_COND_INITIALIZER};
    pthread_mutex_lock(&grounds->lock);
    int status = keep(housing, image, warm_policy_choose(warm, image, NULL), err);
    for (size_t i = 0; status == 0 && i < warm->kept_count; i++)
        status = keep(housing, warm->kept[i].image, warm->kept[i].set, err);
    pthread_mutex_unlock(&grounds->lock);
    if (status < 0)
        return status;
    status = thread_start(&housing->thread, 0, take_care, housing);
    housing->has_thread = status == 0;
    return status < 0 ? error_host(err, status, "cannot start the threads of a pool") : 0;
}

void housing_empty(struct housing *housing)
{
    struct grounds *grounds = housing->grounds;
    if (!grounds)
        return;
    pthread_mutex_lock(&grounds->lock);
    housing->is_closing = true;
    pthread_cond_signal(&housing->changed);
    for (struct house *house = housing->houses; house; house = house->next)
        house_stop(house);
    pthread_mutex_unlock(&grounds->lock);
    if (housing->has_thread)
        pthread_join(housing->thread, NULL);
    for (struct house *house = housing->houses; house; house = house->next)
        house_empty(house);
    for (struct house *house = housing->leaving; house; house = house->next)
        house_empty(house);
}

static void close_all(struct house *list)
{
    while (list) {
        struct house *next = list->next;
        house_close(list);
        list = next;
    }
}

void housing_close(struct housing *housing)
{
    if (!housing->grounds)
        return;
    close_all(housing->houses);
    close_all(housing->leaving);
    pthread_cond_destroy(&housing->changed);
}
