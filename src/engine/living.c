#include "engine/living.h"

#include "engine/watchdog.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

static struct {
    pthread_mutex_t lock;
    pid_t *inits;
    size_t count, room;
} living = {.lock = PTHREAD_MUTEX_INITIALIZER};

int living_add(pid_t init)
{
    int status = 0;
    pthread_mutex_lock(&living.lock);
    if (living.count == living.room) {
        size_t room = living.room ? 2 * living.room : 64;
        pid_t *grown = realloc(living.inits, room * sizeof *grown);
        if (grown) {
            living.inits = grown;
            living.room = room;
        }
    }
    if (living.count < living.room)
        living.inits[living.count++] = init;
    else
        status = -ENOMEM;
    pthread_mutex_unlock(&living.lock);
    return status;
}

void living_remove(pid_t init)
{
    pthread_mutex_lock(&living.lock);
    for (size_t i = 0; i < living.count; i++)
        if (living.inits[i] == init)
            living.inits[i--] = living.inits[--living.count];
    pthread_mutex_unlock(&living.lock);
}

bool living_have(pid_t pid)
{
    bool found = false;
    pthread_mutex_lock(&living.lock);
    for (size_t i = 0; i < living.count && !found; i++)
        found = pid == living.inits[i] || watchdog_is_below(living.inits[i], pid);
    pthread_mutex_unlock(&living.lock);
    return found;
}
