/* Counters of the server. Threads add to them without a lock; /metrics and /v1/stats read them. */
#pragma once

#include "base/histogram.h"
#include "spec/result.h"

#include <stdatomic.h>
#include <stdint.h>

struct metrics {
    atomic_llong runs[CAUSE_COUNT];
    atomic_llong runs_refused;
    struct histogram latency; /* of these, from request to result */
    atomic_llong requests[6]; /* by hundreds of the status */
    atomic_int connections;
};

void metrics_count_run(struct metrics *metrics, enum cause cause, int64_t duration_us);
void metrics_count_answer(struct metrics *metrics, int status);
