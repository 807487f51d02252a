#include "server/metrics.h"

void metrics_count_run(struct metrics *metrics, enum cause cause, int64_t duration_us)
{
    atomic_fetch_add(&metrics->runs[cause], 1);
    histogram_add(&metrics->latency, duration_us);
}

void metrics_count_answer(struct metrics *metrics, int status)
{
    int hundreds = status / 100;
    atomic_fetch_add(&metrics->requests[hundreds >= 1 && hundreds <= 5 ? hundreds : 0], 1);
}
