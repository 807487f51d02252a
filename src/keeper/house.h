/* A house of a pool: all warm boxes of one image and one set of modules, a shelf for each kind.
 *
 * A house is for one tree of files. When an image is made anew under its old name, its house is closed and
 * another is built: no box of the old tree serves a run that came after. It is held by whoever uses it, a run
 * or a spare on its way to the grave, and goes when nobody does. */
#pragma once

#include "image/image.h"
#include "keeper/shelf.h"

#include <stdatomic.h>

struct house {
    struct house *next;
    struct grounds *grounds;
    char *image, *set;
    struct string_list modules;
    char *place;                    /* of the image; NULL: the host's own, which is always the same */
    struct image_identity identity; /* of the tree that it was built for … */
    bool is_there;                  /* … if there was one */
    bool is_kept;                   /* by the operator's word; else because runs asked for it */
    atomic_int holders;

    bool is_closing;   /* this, and what follows, with the lock held */
    int64_t used_us;   /* when somebody last asked for it */
    int64_t looked_us; /* when the caretaker did */
    struct shelf shelves[KIND_COUNT];
};

struct house_terms {
    struct grounds *grounds;
    const char *image, *set;
    bool is_kept;
};

int house_open(const struct house_terms *terms, struct house **ret, struct error *err);

/* Starts what is ready without a run. With the lock held. */
int house_attend(struct house *house, struct error *err);

void house_hold(struct house *house);
void house_release(struct house *house);

/* Is its image the one that it was built for? One call of the kernel; none for the host's own. */
bool house_is_current(const struct house *house);

/* Has it as many spares as it should always have? With the lock held. */
bool house_is_stocked(const struct house *house);

/* Where something could not be made, the last one; NULL: nothing failed, or it is not known yet. With the
 * lock held. */
const struct shelf *house_failure(const struct house *house);

/* No new spares: with the lock held. */
void house_stop(struct house *house);

/* In this order, when it was stopped and nobody holds it; the last also alone, for one that was never lived
 * in. NULL is fine there. */
void house_empty(struct house *house);
void house_end_zygotes(struct house *house);
void house_close(struct house *house);
