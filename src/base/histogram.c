#include "base/histogram.h"

const int64_t histogram_bounds_us[HISTOGRAM_BUCKETS - 1] = {100,    200,    300,     500,     800,     1000,
                                                            2000,   5000,   10000,   20000,   50000,   100000,
                                                            250000, 500000, 1000000, 5000000, 30000000};

void histogram_add(struct histogram *histogram, int64_t duration_us)
{
    int bucket = 0;
    while (bucket < HISTOGRAM_BUCKETS - 1 && duration_us > histogram_bounds_us[bucket])
        bucket++;
    atomic_fetch_add(&histogram->buckets[bucket], 1);
    atomic_fetch_add(&histogram->sum_us, duration_us);
}

long long histogram_count(const struct histogram *histogram)
{
    long long count = 0;
    for (int i = 0; i < HISTOGRAM_BUCKETS; i++)
        count += atomic_load(&histogram->buckets[i]);
    return count;
}

int64_t histogram_quantile_us(const struct histogram *histogram, double share)
{
    long long total = histogram_count(histogram), seen = 0;
    if (total == 0)
        return 0;
    for (int i = 0; i < HISTOGRAM_BUCKETS - 1; i++) {
        seen += atomic_load(&histogram->buckets[i]);
        if ((double)seen >= share * (double)total)
            return histogram_bounds_us[i];
    }
    return histogram_bounds_us[HISTOGRAM_BUCKETS - 2];
}
