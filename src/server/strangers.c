#include "server/strangers.h"

#include "base/clock.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>

struct stranger {
    struct stranger *before, *behind;
    int fd;
    int64_t since_us; /* the line is in this order, for who comes or rests goes to its end */
    bool is_listed, is_asking;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct stranger *oldest, *newest;
static int count;

/* What follows is done with the lock held. */

static void push(struct stranger *stranger)
{
    stranger->since_us = clock_monotonic_us();
    stranger->before = newest;
    stranger->behind = NULL;
    *(newest ? &newest->behind : &oldest) = stranger;
    newest = stranger;
    stranger->is_listed = true;
    count++;
}

static void unlist(struct stranger *stranger)
{
    if (!stranger->is_listed)
        return;
    *(stranger->before ? &stranger->before->behind : &oldest) = stranger->behind;
    *(stranger->behind ? &stranger->behind->before : &newest) = stranger->before;
    stranger->is_listed = false;
    count--;
}

static void turn_out(struct stranger *stranger)
{
    unlist(stranger);
    shutdown(stranger->fd, SHUT_RDWR);
}

/* ---- */

struct stranger *stranger_come(int fd)
{
    struct stranger *stranger = calloc(1, sizeof *stranger);
    if (!stranger)
        return NULL;
    stranger->fd = fd;
    pthread_mutex_lock(&lock);
    push(stranger);
    if (count > STRANGERS_MAX)
        turn_out(oldest);
    pthread_mutex_unlock(&lock);
    return stranger;
}

void stranger_ask(struct stranger *stranger, bool has_key)
{
    if (!stranger)
        return;
    pthread_mutex_lock(&lock);
    stranger->is_asking = true;
    if (has_key)
        unlist(stranger);
    pthread_mutex_unlock(&lock);
}

void stranger_rest(struct stranger *stranger)
{
    if (!stranger)
        return;
    pthread_mutex_lock(&lock);
    stranger->is_asking = false;
    if (stranger->is_listed) {
        unlist(stranger);
        push(stranger);
    }
    pthread_mutex_unlock(&lock);
}

void stranger_leave(struct stranger *stranger)
{
    if (!stranger)
        return;
    pthread_mutex_lock(&lock);
    unlist(stranger);
    pthread_mutex_unlock(&lock);
    free(stranger);
}

void strangers_sweep(void)
{
    pthread_mutex_lock(&lock);
    int64_t before_us = clock_monotonic_us() - STRANGERS_WAIT_MS * INT64_C(1000);
    for (struct stranger *at = oldest, *behind; at && at->since_us < before_us; at = behind) {
        behind = at->behind;
        if (!at->is_asking) /* an answer may take its time */
            turn_out(at);
    }
    pthread_mutex_unlock(&lock);
}
