#include "server/metrics.h"

const int64_t metrics_bounds_us[METRICS_BUCKETS - 1] = METRICS_BOUNDS;

void metrics_count_run(struct metrics *metrics, enum cause cause, int64_t duration_us)
{
    int bucket = 0;
    while (bucket < METRICS_BUCKETS - 1 && duration_us > metrics_bounds_us[bucket])
        bucket++;
    atomic_fetch_add(&metrics->run_buckets[bucket], 1);
    atomic_fetch_add(&metrics->runs[cause], 1);
    atomic_fetch_add(&metrics->run_us_sum, duration_us);
    atomic_fetch_add(&metrics->run_count, 1);
}

void metrics_count_answer(struct metrics *metrics, int status)
{
    int hundreds = status / 100;
    atomic_fetch_add(&metrics->requests[hundreds >= 1 && hundreds <= 5 ? hundreds : 0], 1);
}

int64_t metrics_run_quantile_us(const struct metrics *metrics, double share)
{
    long long total = atomic_load(&metrics->run_count), seen = 0;
    if (total == 0)
        return 0;
    for (int i = 0; i < METRICS_BUCKETS - 1; i++) {
        seen += atomic_load(&metrics->run_buckets[i]);
        if ((double)seen >= share * (double)total)
            return metrics_bounds_us[i];
    }
    return metrics_bounds_us[METRICS_BUCKETS - 2];
}
