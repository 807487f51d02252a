/* The houses of a pool: those that the operator keeps, the usual one first, and those that runs ask for.
 *
 * Whoever may name an image can ask for a house, and an interpreter in it is a hundred megabytes and a second
 * of work. So there are only so many on demand at a time (warm.images); one that nobody holds gives way to
 * the next only when it was not asked for during some seconds, so that who names one image after the other is
 * served cold and makes nobody load anything; and it goes when it is idle for long (warm.idle). A caretaker
 * looks at all of them, once a second. */
#pragma once

#include "keeper/house.h"

struct housing {
    struct grounds *grounds;
    struct house *houses;  /* the usual one first; with the lock of the grounds, as all that follows */
    struct house *leaving; /* stopped, and held yet, or being closed */
    bool is_closing;
    pthread_cond_t changed;
    pthread_t thread;
    bool has_thread;
};

/* With the usual house, which is kept, and those of the policy. */
int housing_open(struct housing *housing, struct grounds *grounds, const char *image, struct error *err);

/* The house of an image and a set, held, for house_release; NULL: there is none (yet), and runs are cold. */
struct house *housing_find(struct housing *housing, const char *image, const char *set);

/* Ends all threads and spares, but no zygotes: those are needed until all that was buried is gone. */
void housing_empty(struct housing *housing);
void housing_close(struct housing *housing);
