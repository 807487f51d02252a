#include "keeper/lineage.h"

#include "base/condition.h"
#include "base/scope.h"
#include "base/thread.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* After a zygote that failed; what fails again and again, because the image lacks the language, is tried less
 * and less often. */
enum { LOOK_MS = 1000, RETRY_MS = 1000, RETRIES_SOON = 5, RETRY_MOST_MS = 60000 };

struct origin {
    struct origin *next;
    struct zygote *zygote;
    int forks; /* alive: spares and runs */
    int made;
    int64_t opened_us;
    bool is_retired;
};

struct lineage {
    struct lineage_terms terms;
    pthread_t thread;
    bool has_thread;

    pthread_mutex_t lock; /* of all that follows */
    pthread_cond_t changed;
    bool is_closing;
    int stop_fd;            /* of a zygote that is being made; -1: none is */
    struct origin *origins; /* the first is the current one, unless it is retired */
    int64_t rotations, failures;
};

static struct origin *current(const struct lineage *lineage)
{
    return lineage->origins && !lineage->origins->is_retired ? lineage->origins : NULL;
}

/* Takes retired ones without forks off the list, for close_all, which takes its time: without the lock. */
static struct origin *take_finished(struct lineage *lineage)
{
    struct origin *finished = NULL;
    for (struct origin **at = &lineage->origins; *at;) {
        struct origin *origin = *at;
        if (!origin->is_retired || origin->forks > 0) {
            at = &origin->next;
            continue;
        }
        *at = origin->next;
        origin->next = finished;
        finished = origin;
    }
    return finished;
}

static void close_all(struct origin *list)
{
    while (list) {
        struct origin *next = list->next;
        zygote_close(list->zygote);
        free(list);
        list = next;
    }
}

/* The end of a zygote that is just being made, for whoever closes the lineage meanwhile; -1: too late. */
static int make_stop_fd(struct lineage *lineage)
{
    int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    pthread_mutex_lock(&lineage->lock);
    if (lineage->is_closing)
        scope_close_fd(&fd);
    lineage->stop_fd = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 3);
    pthread_mutex_unlock(&lineage->lock);
    return fd;
}

static int open_zygote(struct lineage *lineage, struct zygote **ret, struct error *err)
{
    const struct lineage_terms *terms = &lineage->terms;
    struct spec *spec = spec_new();
    if (!spec)
        return error_host(err, -ENOMEM, "no memory for a zygote");
    spec->limits = *terms->highest;
    for (int i = 0; i < LIMIT_FIELDS; i++)
        spec->limit_set[i] = true;
    int status = spec_set(spec, "isolation", isolation_names[terms->kind->isolation], err);
    if (status == 0)
        status = spec_set(spec, "image", terms->image, err);
    if (status < 0) {
        spec_free(spec);
        return status;
    }
    int stop_fd = make_stop_fd(lineage);
    if (stop_fd < 0) {
        spec_free(spec);
        return error_host(err, -ECANCELED, "cannot make a zygote");
    }
    status = zygote_open(spec, terms->policy, terms->preload, stop_fd, ret, err);
    pthread_mutex_lock(&lineage->lock);
    scope_close_fd(&lineage->stop_fd);
    pthread_mutex_unlock(&lineage->lock);
    return status;
}

static int add_zygote(struct lineage *lineage)
{
    struct zygote *zygote = NULL;
    struct error err = {0};
    struct origin *origin = calloc(1, sizeof *origin);
    int status =
        origin ? open_zygote(lineage, &zygote, &err) : error_host(&err, -ENOMEM, "no memory for a zygote");
    pthread_mutex_lock(&lineage->lock);
    if (status == 0) {
        struct origin *former = current(lineage);
        if (former)
            former->is_retired = true;
        *origin =
            (struct origin){.next = lineage->origins, .zygote = zygote, .opened_us = clock_monotonic_us()};
        lineage->origins = origin;
        lineage->rotations += former != NULL;
    } else {
        lineage->failures++;
        free(origin);
    }
    struct origin *finished = take_finished(lineage);
    pthread_mutex_unlock(&lineage->lock);
    lineage->terms.changed(lineage->terms.data, status < 0 ? &err : NULL);
    close_all(finished);
    return status;
}

static bool must_rotate(const struct lineage *lineage, const struct origin *origin)
{
    return zygote_is_dead(origin->zygote) || origin->made >= lineage->terms.rotate_forks ||
           clock_monotonic_us() - origin->opened_us > lineage->terms.rotate_ms * 1000;
}

static int pause_ms(int failures)
{
    int doublings = failures > RETRIES_SOON ? failures - RETRIES_SOON : 0;
    return doublings < 6 ? RETRY_MS << doublings : RETRY_MOST_MS;
}

/* Beside, because it takes long. */
static void *keep_a_zygote(void *data)
{
    struct lineage *lineage = data;
    int failures = 0; /* in a row */
    pthread_mutex_lock(&lineage->lock);
    while (!lineage->is_closing) {
        struct origin *origin = current(lineage);
        int wait_ms = LOOK_MS;
        if (!origin || must_rotate(lineage, origin)) {
            pthread_mutex_unlock(&lineage->lock);
            failures = add_zygote(lineage) < 0 ? failures + 1 : 0;
            wait_ms = failures ? pause_ms(failures) : 0;
            pthread_mutex_lock(&lineage->lock);
        }
        if (wait_ms && !lineage->is_closing)
            clock_wait(&lineage->changed, &lineage->lock, wait_ms);
    }
    pthread_mutex_unlock(&lineage->lock);
    return NULL;
}

int lineage_open(const struct lineage_terms *terms, struct lineage **ret, struct error *err)
{
    struct lineage *lineage = calloc(1, sizeof *lineage);
    if (!lineage)
        return error_host(err, -ENOMEM, "no memory for a pool");
    *lineage = (struct lineage){.terms = *terms,
                                .stop_fd = -1,
                                .lock = PTHREAD_MUTEX_INITIALIZER,
                                .changed = PTHREAD_COND_INITIALIZER};
    int status = thread_start(&lineage->thread, 0, keep_a_zygote, lineage);
    lineage->has_thread = status == 0;
    if (status < 0) {
        lineage_close(lineage);
        return error_host(err, status, "cannot start the threads of a pool");
    }
    *ret = lineage;
    return 0;
}

bool lineage_is_ready(struct lineage *lineage)
{
    pthread_mutex_lock(&lineage->lock);
    bool is_ready = current(lineage) != NULL;
    pthread_mutex_unlock(&lineage->lock);
    return is_ready;
}

/* A fork is gone; one that could not be made tells of a zygote that is dead. */
static void release(struct lineage *lineage, struct origin *origin, bool was_made)
{
    pthread_mutex_lock(&lineage->lock);
    origin->forks--;
    if (!was_made && zygote_is_dead(origin->zygote)) {
        origin->is_retired = true;
        pthread_cond_broadcast(&lineage->changed);
    }
    struct origin *finished = take_finished(lineage);
    pthread_mutex_unlock(&lineage->lock);
    close_all(finished);
}

/* That is forked now, for one fork more; NULL: there is none. */
static struct origin *hold_current(struct lineage *lineage)
{
    pthread_mutex_lock(&lineage->lock);
    struct origin *origin = current(lineage);
    if (origin) {
        origin->forks++;
        if (++origin->made >= lineage->terms.rotate_forks)
            pthread_cond_broadcast(&lineage->changed);
    }
    pthread_mutex_unlock(&lineage->lock);
    return origin;
}

int lineage_fork(struct lineage *lineage, enum runner_haste haste, struct spare **ret, struct error *err)
{
    struct origin *origin = hold_current(lineage);
    if (!origin)
        return error_host(err, -EAGAIN, "there is no zygote yet");
    int status = spare_make(lineage->terms.kind, origin->zygote, lineage->terms.usual, haste,
                            lineage->terms.languages, ret, err);
    if (status == 0)
        (*ret)->origin = origin;
    else
        release(lineage, origin, false);
    return status;
}

int lineage_make_place(struct lineage *lineage, struct spare **ret, struct error *err)
{
    struct origin *origin = hold_current(lineage);
    if (!origin)
        return error_host(err, -EAGAIN, "there is no zygote yet");
    int status = zygote_can_make_places(origin->zygote)
                     ? spare_make_place(lineage->terms.kind, origin->zygote, lineage->terms.usual,
                                        lineage->terms.languages, ret, err)
                     : -EAGAIN;
    if (status == 0)
        (*ret)->origin = origin;
    else
        release(lineage, origin, false);
    return status;
}

bool lineage_is_old(struct lineage *lineage, const struct spare *spare)
{
    pthread_mutex_lock(&lineage->lock);
    bool is_old = ((struct origin *)spare->origin)->is_retired && current(lineage);
    pthread_mutex_unlock(&lineage->lock);
    return is_old;
}

void lineage_destroy_fork(struct lineage *lineage, struct spare *spare)
{
    struct origin *origin = spare->origin;
    spare_destroy(spare);
    release(lineage, origin, true);
}

void lineage_read_state(struct lineage *lineage, struct lineage_state *ret)
{
    pthread_mutex_lock(&lineage->lock);
    struct origin *origin = current(lineage);
    *ret = (struct lineage_state){.rotations = lineage->rotations,
                                  .failures = lineage->failures,
                                  .pid = origin ? zygote_pid(origin->zygote) : -1};
    for (const struct origin *at = lineage->origins; at; at = at->next)
        ret->zygotes++;
    pthread_mutex_unlock(&lineage->lock);
}

void lineage_close(struct lineage *lineage)
{
    if (!lineage)
        return;
    pthread_mutex_lock(&lineage->lock);
    lineage->is_closing = true;
    if (lineage->stop_fd >= 0)
        (void)!write(lineage->stop_fd, &(uint64_t){1}, sizeof(uint64_t));
    pthread_cond_broadcast(&lineage->changed);
    pthread_mutex_unlock(&lineage->lock);
    if (lineage->has_thread)
        pthread_join(lineage->thread, NULL);
    close_all(lineage->origins);
    pthread_mutex_destroy(&lineage->lock);
    pthread_cond_destroy(&lineage->changed);
    free(lineage);
}
