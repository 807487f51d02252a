/* The spares of one kind in one house, and the thread that makes them: one that hangs is in nobody else's
 * way. The thread is there from the first run of its kind on. */
#pragma once

#include "keeper/grounds.h"
#include "keeper/lineage.h"
#include "keeper/stock.h"

struct house;

struct shelf {
    struct grounds *grounds;
    struct house *house;
    struct stock stock;
    struct lineage *lineage; /* where its kind is forked; NULL: nobody asked for one yet */
    struct spare
        *places; /* boxes without a program, for runs that find no spare: they wait for a copy only */
    int place_count;
    pthread_cond_t changed;
    pthread_t thread;
    bool has_thread;
    bool has_failed; /* the last that was tried, zygote or spare */
    int64_t failed_us;
    struct error failure;
};

void shelf_init(struct shelf *shelf, struct house *house, const struct kind *kind, int minimum);

/* Somebody asks for its kind, or may: with the lock held. Without a thread there are no spares, and runs are
 * cold. */
int shelf_attend(struct shelf *shelf, struct error *err);

/* A spare, or a fork on demand. -EAGAIN: neither can be had. To start a box on demand would be no sooner than
 * a cold run. The run counts as running from here on, until shelf_clear. */
int shelf_take(struct shelf *shelf, int queued, struct spare **ret, struct error *err);

/* A run is over, and its spare can go. */
void shelf_clear(struct shelf *shelf, struct spare *spare);

/* What a burial does. */
void shelf_bury(void *grounds, struct spare *spare);

/* When the house is closed: first all threads, then all else. */
void shelf_end_thread(struct shelf *shelf);
void shelf_empty(struct shelf *shelf);
void shelf_end_zygote(struct shelf *shelf);
