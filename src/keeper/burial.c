#include "keeper/burial.h"

#include "base/thread.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

enum { WAITING_MAX = 16 };

struct burial {
    void (*destroy)(void *data, struct spare *spare);
    void *data;
    pthread_t thread;
    bool has_thread;

    pthread_mutex_t lock; /* of all that follows */
    pthread_cond_t changed;
    struct spare *dead;
    int count; /* of these, and of the one that is being destroyed */
    bool is_closing;
};

static void *bury_the_dead(void *data)
{
    struct burial *burial = data;
    pthread_mutex_lock(&burial->lock);
    while (!burial->is_closing || burial->dead) {
        struct spare *spare = burial->dead;
        if (!spare) {
            pthread_cond_wait(&burial->changed, &burial->lock);
            continue;
        }
        burial->dead = spare->next;
        pthread_mutex_unlock(&burial->lock);
        burial->destroy(burial->data, spare);
        pthread_mutex_lock(&burial->lock);
        burial->count--;
    }
    pthread_mutex_unlock(&burial->lock);
    return NULL;
}

int burial_open(void (*destroy)(void *data, struct spare *spare), void *data, struct burial **ret,
                struct error *err)
{
    struct burial *burial = calloc(1, sizeof *burial);
    if (!burial)
        return error_host(err, -ENOMEM, "no memory for a pool");
    *burial = (struct burial){.destroy = destroy,
                              .data = data,
                              .lock = PTHREAD_MUTEX_INITIALIZER,
                              .changed = PTHREAD_COND_INITIALIZER};
    int status = thread_start(&burial->thread, 0, bury_the_dead, burial);
    burial->has_thread = status == 0;
    if (status < 0) {
        burial_close(burial);
        return error_host(err, status, "cannot start the threads of a pool");
    }
    *ret = burial;
    return 0;
}

void burial_take(struct burial *burial, struct spare *spare)
{
    pthread_mutex_lock(&burial->lock);
    bool is_queued = burial->count < WAITING_MAX;
    if (is_queued) {
        spare->next = burial->dead;
        burial->dead = spare;
        burial->count++;
        pthread_cond_signal(&burial->changed);
    }
    pthread_mutex_unlock(&burial->lock);
    if (!is_queued)
        burial->destroy(burial->data, spare);
}

void burial_close(struct burial *burial)
{
    if (!burial)
        return;
    pthread_mutex_lock(&burial->lock);
    burial->is_closing = true;
    pthread_cond_signal(&burial->changed);
    pthread_mutex_unlock(&burial->lock);
    if (burial->has_thread)
        pthread_join(burial->thread, NULL);
    pthread_mutex_destroy(&burial->lock);
    pthread_cond_destroy(&burial->changed);
    free(burial);
}
