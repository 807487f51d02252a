#include "keeper/house.h"

#include "base/clock.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const struct string_list *modules_of(const struct grounds *grounds, const char *set, struct error *err)
{
    return strcmp(set, WARM_SET_DEFAULT) == 0 ? &grounds->modules
                                              : warm_policy_modules(&grounds->policy->warm, set, err);
}

int house_open(const struct house_terms *terms, struct house **ret, struct error *err)
{
    struct grounds *grounds = terms->grounds;
    const struct string_list *modules = modules_of(grounds, terms->set, err);
    struct house *house = modules ? calloc(1, sizeof *house) : NULL;
    if (!modules)
        return -ENOENT;
    if (!house)
        return error_host(err, -ENOMEM, "no memory for a pool");
    *house = (struct house){.grounds = grounds,
                            .image = strdup(terms->image),
                            .set = strdup(terms->set),
                            .is_kept = terms->is_kept,
                            .used_us = clock_monotonic_us()};
    for (int i = 0; i < KIND_COUNT; i++) {
        bool is_wanted = terms->is_kept && (i == 0 || grounds->is_wanted[i]);
        shelf_init(&house->shelves[i], house, &kinds[i], is_wanted ? grounds->minimum : 0);
    }
    if (!house->image || !house->set || string_list_copy(&house->modules, modules) < 0) {
        house_close(house);
        return error_host(err, -ENOMEM, "no memory for a pool");
    }
    /* Before anything is made of it: what is made later is of this tree, or of a newer one, and then the
     * house is not current any more. */
    house->is_there = image_locate(grounds->policy->image_store, terms->image, &house->place) == 0 &&
                      image_identify(house->place, &house->identity);
    *ret = house;
    return 0;
}

int house_attend(struct house *house, struct error *err)
{
    int status = 0;
    for (int i = 0; status == 0 && i < KIND_COUNT; i++)
        if (house->is_kept && (i == 0 || house->shelves[i].stock.minimum > 0))
            status = shelf_attend(&house->shelves[i], err);
    return status;
}

void house_hold(struct house *house)
{
    atomic_fetch_add(&house->holders, 1);
}

void house_release(struct house *house)
{
    atomic_fetch_sub(&house->holders, 1);
}

bool house_is_current(const struct house *house)
{
    struct image_identity now;
    bool is_there = image_identify(house->place, &now);
    return is_there == house->is_there && image_is_same(&now, &house->identity);
}

bool house_is_stocked(const struct house *house)
{
    for (int i = 0; i < KIND_COUNT; i++)
        if (house->shelves[i].stock.count < house->shelves[i].stock.minimum)
            return false;
    return true;
}

const struct shelf *house_failure(const struct house *house)
{
    const struct shelf *last = NULL;
    for (int i = 0; i < KIND_COUNT; i++) {
        const struct shelf *shelf = &house->shelves[i];
        if (shelf->has_failed && (!last || shelf->failed_us > last->failed_us))
            last = shelf;
    }
    return last;
}

void house_stop(struct house *house)
{
    house->is_closing = true;
    for (int i = 0; i < KIND_COUNT; i++)
        pthread_cond_broadcast(&house->shelves[i].changed);
    struct shelf *last = house->grounds->last_shelf;
    if (last && last->house == house)
        house->grounds->last_shelf = NULL;
}

void house_empty(struct house *house)
{
    for (int i = 0; i < KIND_COUNT; i++)
        shelf_end_thread(&house->shelves[i]);
    for (int i = 0; i < KIND_COUNT; i++)
        shelf_empty(&house->shelves[i]);
}

void house_end_zygotes(struct house *house)
{
    for (int i = 0; i < KIND_COUNT; i++)
        shelf_end_zygote(&house->shelves[i]);
}

void house_close(struct house *house)
{
    if (!house)
        return;
    house_end_zygotes(house);
    for (int i = 0; i < KIND_COUNT; i++)
        pthread_cond_destroy(&house->shelves[i].changed);
    string_list_free(&house->modules);
    free(house->image);
    free(house->set);
    free(house->place);
    free(house);
}
