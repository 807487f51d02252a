/* The spares of one kind: how many there are, and how many there should be. No thread and no lock of its own;
 * times are the caller's, in microseconds. */
#pragma once

#include "keeper/spare.h"

struct stock {
    const struct kind *kind;
    int minimum, maximum;
    int lead_ms;          /* demand of so much time is kept ready: what it takes to make more */
    int64_t idle_us;      /* without a run: back to the minimum */
    struct spare *spares; /* the last one made first */
    int count;
    int waiting;         /* runs that found none, and wait for one */
    int64_t last_run_us; /* 0: there was none */
    int64_t window_started_us, hint_until_us;
    int arrivals, rate; /* in this window, and in the busiest of the last two */
    int queued;         /* behind the last that came, elsewhere */
    int hint;
    int64_t hits, misses; /* runs that found a spare, and that did not */
    int64_t failures;     /* spares that could not be made */
    int64_t spare_bytes;  /* private memory of an idle one, measured on one; 0: none yet */
};

void stock_init(struct stock *stock, const struct kind *kind, int minimum, int maximum, int64_t idle_ms);

/* How many there should be now. */
int stock_target(const struct stock *stock, int64_t now_us);

/* A run came, and so many are queued behind it. */
void stock_count_arrival(struct stock *stock, int queued, int64_t now_us);

/* So many more than demand asks for, for a while. */
void stock_hint(struct stock *stock, int spares, int64_t now_us);

void stock_put(struct stock *stock, struct spare *spare);

/* The one that was made last, whose memory is most likely still in the caches; NULL: there is none. */
struct spare *stock_take(struct stock *stock);

/* The first that is meant. */
struct spare *stock_take_if(struct stock *stock, bool (*is_meant)(const struct spare *spare, void *data),
                            void *data);
