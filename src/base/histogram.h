/* How long something took, counted by upper bounds. Threads add to it without a lock. */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

/* One more for what is above all bounds. */
enum { HISTOGRAM_BUCKETS = 18 };
extern const int64_t histogram_bounds_us[HISTOGRAM_BUCKETS - 1];

struct histogram {
    atomic_llong buckets[HISTOGRAM_BUCKETS];
    atomic_llong sum_us;
};

void histogram_add(struct histogram *histogram, int64_t duration_us);
long long histogram_count(const struct histogram *histogram);

/* What the given share was not above, by the bounds; 0: there is nothing in it. */
int64_t histogram_quantile_us(const struct histogram *histogram, double share);
