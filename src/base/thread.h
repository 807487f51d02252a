#pragma once

#include <pthread.h>
#include <stddef.h>

/* A condition whose waits with a time are measured by the steady clock (clock_in_ms), whatever becomes of the
 * time of day. */
void thread_condition_init(pthread_cond_t *condition);

/* Starts a thread that hears no signals: those of the process are its main thread's, or of whoever waits for
 * them. A handler that ran here instead would run beside the thread that it was written for. Whoever uses the
 * library has handlers, too, and does not expect them on threads that are ours. stack_bytes: 0 for the usual
 * size. ret: NULL for a thread that nobody waits for. 0 or a negative errno. */
int thread_start(pthread_t *ret, size_t stack_bytes, void *(*body)(void *), void *data);
