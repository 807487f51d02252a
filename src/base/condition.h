#pragma once

#include "base/clock.h"

#include <pthread.h>
#include <stdbool.h>

/* Waits for a condition, for so long at most, whatever becomes of the time of day; false: in vain. */
static inline bool clock_wait(pthread_cond_t *condition, pthread_mutex_t *lock, int64_t wait_ms)
{
    struct timespec until = clock_in_ms(wait_ms);
    return pthread_cond_clockwait(condition, lock, CLOCK_MONOTONIC, &until) == 0;
}
