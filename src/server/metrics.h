/* Counters of the server. Threads add to them without a lock; /metrics and /v1/stats read them. */
#pragma once

#include "spec/result.h"

#include <stdatomic.h>
#include <stdint.h>

/* Upper bounds of the latency histogram, in microseconds; one more for what is above. */
#define METRICS_BOUNDS                                                                                       \
    {                                                                                                        \
        500, 800, 1000, 2000, 5000, 10000, 20000, 50000, 100000, 250000, 500000, 1000000, 5000000, 30000000  \
    }
enum { METRICS_BUCKETS = 15 };

struct metrics {
    atomic_llong runs[CAUSE_COUNT];
    atomic_llong runs_refused;
    atomic_llong run_buckets[METRICS_BUCKETS];
    atomic_llong run_us_sum, run_count;
    atomic_llong requests[6]; /* by hundreds of the status */
    atomic_int connections;
};

extern const int64_t metrics_bounds_us[METRICS_BUCKETS - 1];

void metrics_count_run(struct metrics *metrics, enum cause cause, int64_t duration_us);
void metrics_count_answer(struct metrics *metrics, int status);

/* A latency that the given share of runs was not above, by the histogram's bounds; 0: there were none. */
int64_t metrics_run_quantile_us(const struct metrics *metrics, double share);
