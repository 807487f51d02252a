#include "base/thread.h"

#include <signal.h>
#include <time.h>

void thread_condition_init(pthread_cond_t *condition)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(condition, &attributes);
    pthread_condattr_destroy(&attributes);
}

int thread_start(pthread_t *ret, size_t stack_bytes, void *(*body)(void *), void *data)
{
    pthread_t unwaited;
    pthread_attr_t attributes;
    sigset_t all, former;
    int status = pthread_attr_init(&attributes);
    if (status != 0)
        return -status;
    if (stack_bytes)
        pthread_attr_setstacksize(&attributes, stack_bytes);
    if (!ret)
        pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &former); /* a new thread has its maker's mask */
    status = pthread_create(ret ? ret : &unwaited, &attributes, body, data);
    pthread_sigmask(SIG_SETMASK, &former, NULL);
    pthread_attr_destroy(&attributes);
    return -status;
}
