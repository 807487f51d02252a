#pragma once

#include <stdint.h>
#include <time.h>

static inline int64_t clock_monotonic_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static inline struct timespec clock_in_ms(int64_t wait_ms)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += (long)(wait_ms % 1000) * 1000000;
    until.tv_sec += wait_ms / 1000 + until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    return until;
}
