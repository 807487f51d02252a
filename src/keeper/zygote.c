#include "keeper/zygote.h"

#include "base/condition.h"
#include "base/scope.h"
#include "base/thread.h"
#include "keeper/run.h"
#include "os/landlock.h"
#include "runtime/runner.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    READY_MS = 20000,
    PRELOAD_MS = 120000,
    MEASURE_MS = 1000,
    GRACE_MS = 1000,        /* between the end of its channel and its own */
    FOREVER_MS = INT32_MAX, /* 24 days: it is rotated long before */
};

struct zygote {
    struct spec *spec;
    const struct policy *policy;
    struct runner_link link;
    int cancel_fd;
    int landlock_abi;
    pthread_t thread;
    bool has_thread;
    pthread_mutex_t words_lock; /* of what it says; orders are the engine's to keep apart */
    pthread_mutex_t lock;       /* of what follows, which the thread writes */
    pthread_cond_t changed;
    struct box *box;      /* the thread's; NULL before and after */
    int64_t memory_bytes; /* when it was last looked at; -1: not since it was asked */
    int64_t base_bytes;   /* before it imported anything: what forks have more than that is not their runs' */
    int64_t debt_bytes;   /* how much that is, measured on the first of them; -1: not yet */
    int forks;            /* being made, or not gone yet */
    bool is_over;
    bool is_told; /* how it came to its end, in what follows */
    int status;
    struct error error;
    struct result *result;
};

static void box_started(void *data, struct box *box)
{
    struct zygote *zygote = data;
    int fd = fcntl(box->channel_fd, F_DUPFD_CLOEXEC, 0);
    pthread_mutex_lock(&zygote->lock);
    zygote->link.fd = fd;
    zygote->box = box;
    pthread_cond_broadcast(&zygote->changed);
    pthread_mutex_unlock(&zygote->lock);
}

static void box_ended(void *data, struct box *box, struct result *result)
{
    (void)box, (void)result;
    struct zygote *zygote = data;
    pthread_mutex_lock(&zygote->lock);
    zygote->box = NULL;
    zygote->is_over = true; /* for all who ask; the forks end with it, and are waited for */
    pthread_cond_broadcast(&zygote->changed);
    while (zygote->forks > 0)
        pthread_cond_wait(&zygote->changed, &zygote->lock);
    pthread_mutex_unlock(&zygote->lock);
}

static void box_measured(void *data, int64_t elapsed_us, const struct measurement *now)
{
    struct zygote *zygote = data;
    (void)elapsed_us;
    pthread_mutex_lock(&zygote->lock);
    if (zygote->memory_bytes < 0)
        pthread_cond_broadcast(&zygote->changed);
    zygote->memory_bytes = now->memory_bytes;
    pthread_mutex_unlock(&zygote->lock);
}

static bool is_plain(const struct zygote *zygote)
{
    return zygote->spec->isolation == ISOLATION_PROCESS;
}

/* Groups count what a fork has of its own, and a watchdog what it can see: there a bare interpreter is the
 * measure. */
static void note_base(struct zygote *zygote)
{
    int64_t until_us = clock_monotonic_us() + MEASURE_MS * 1000;
    pthread_mutex_lock(&zygote->lock);
    if (zygote->box && zygote->box->group.version != CGROUP_NONE) {
        pthread_mutex_unlock(&zygote->lock);
        return;
    }
    zygote->memory_bytes = -1;
    while (zygote->memory_bytes < 0 && !zygote->is_over && clock_monotonic_us() < until_us)
        clock_wait(&zygote->changed, &zygote->lock, MEASURE_MS);
    zygote->base_bytes = zygote->memory_bytes > 0 ? zygote->memory_bytes : 0;
    pthread_mutex_unlock(&zygote->lock);
}

/* What a fork has before there is a run. It is the same for all, and to look takes longer than to fork. */
static void note_debt(struct zygote *zygote, struct box *box)
{
    struct measurement now = {0};
    if (box->group.version != CGROUP_NONE)
        return;
    pthread_mutex_lock(&zygote->lock);
    int64_t bytes = zygote->debt_bytes;
    pthread_mutex_unlock(&zygote->lock);
    if (bytes < 0) {
        box->engine->measure(box, &now);
        bytes = zygote->base_bytes ? now.memory_bytes - zygote->base_bytes : 0;
        bytes = bytes > 0 ? bytes : 0;
        pthread_mutex_lock(&zygote->lock);
        zygote->debt_bytes = bytes;
        pthread_mutex_unlock(&zygote->lock);
    }
    box->debt.memory_bytes = bytes;
    box->debt.bare_bytes = zygote->base_bytes;
}

static void *zygote_main(void *data)
{
    struct zygote *zygote = data;
    const struct supervise_io io = {.forward_fd = {-1, -1},
                                    .data = zygote,
                                    .cancel_fd = zygote->cancel_fd,
                                    .with_channel = true,
                                    .forkable = true,
                                    .is_for_others = true,
                                    .progress = box_measured,
                                    .started = box_started,
                                    .ended = box_ended,
                                    .lifetime_ms = FOREVER_MS};
    struct error err = {0};
    struct result *result = NULL;
    int status = keeper_run(zygote->spec, zygote->policy, &io, &result, &err);
    pthread_mutex_lock(&zygote->lock);
    zygote->status = status;
    zygote->error = err;
    zygote->result = result;
    zygote->is_over = zygote->is_told = true;
    pthread_cond_broadcast(&zygote->changed);
    pthread_mutex_unlock(&zygote->lock);
    return NULL;
}

/* Of a box that has ended, or is about to: how, and not only that it is gone. */
static int explain_end(struct zygote *zygote, struct error *err)
{
    char end[sizeof zygote->result->detail + 64];
    int64_t until_us = clock_monotonic_us() + GRACE_MS * 1000;
    uint64_t one = 1;
    pthread_mutex_lock(&zygote->lock);
    while (!zygote->is_told && clock_monotonic_us() < until_us)
        clock_wait(&zygote->changed, &zygote->lock, GRACE_MS);
    if (!zygote->is_told) /* it only closed its channel: it would be waited for in vain */
        (void)!write(zygote->cancel_fd, &one, sizeof one);
    while (!zygote->is_told)
        pthread_cond_wait(&zygote->changed, &zygote->lock);
    int status = zygote->status;
    if (status < 0 && err)
        *err = zygote->error;
    else if (status == 0)
        status = error_host_told(err, -EPIPE, "the zygote ended before it was ready: %s",
                                 result_format_end(zygote->result, end, sizeof end));
    pthread_mutex_unlock(&zygote->lock);
    return status;
}

static int await_box(struct zygote *zygote, struct error *err)
{
    pthread_mutex_lock(&zygote->lock);
    while (!zygote->box && !zygote->is_over)
        pthread_cond_wait(&zygote->changed, &zygote->lock);
    bool is_over = zygote->is_over;
    pthread_mutex_unlock(&zygote->lock);
    if (is_over)
        return explain_end(zygote, err);
    return zygote->link.fd < 0 ? error_host(err, -EMFILE, "no descriptors for a zygote") : 0;
}

static int await_ready(struct zygote *zygote, int timeout_ms, struct error *err)
{
    int status = runner_link_await_ready(&zygote->link, timeout_ms, err);
    return status == -EPIPE ? explain_end(zygote, err) : status;
}

static int preload(struct zygote *zygote, const struct string_list *modules, struct error *err)
{
    scope_buffer frame = {0};
    int status = await_ready(zygote, READY_MS, err);
    if (status < 0)
        return status;
    note_base(zygote);
    status = runner_write_preload(&frame, modules, true);
    if (status == 0)
        status = runner_link_send(&zygote->link, &frame, NULL, 0);
    if (status == 0 && (status = await_ready(zygote, PRELOAD_MS, err)) < 0)
        return status;
    frame.length = 0;
    if (status == 0)
        status = runner_write_zygote(&frame, zygote->landlock_abi, is_plain(zygote));
    if (status == 0)
        status = runner_link_send(&zygote->link, &frame, NULL, 0);
    return status < 0 ? error_host(err, status, "the zygote cannot be told what to do")
                      : await_ready(zygote, READY_MS, err);
}

int zygote_open(struct spec *spec, const struct policy *policy, const struct string_list *modules,
                int stop_fd, struct zygote **ret, struct error *err)
{
    struct zygote *zygote = calloc(1, sizeof *zygote);
    if (!zygote) {
        scope_close_fd(&stop_fd);
        spec_free(spec);
        return error_host(err, -ENOMEM, "no memory for a zygote");
    }
    *zygote = (struct zygote){.spec = spec,
                              .policy = policy,
                              .link = RUNNER_LINK_UNSET,
                              .cancel_fd = stop_fd,
                              .debt_bytes = -1,
                              .words_lock = PTHREAD_MUTEX_INITIALIZER,
                              .lock = PTHREAD_MUTEX_INITIALIZER,
                              .changed = PTHREAD_COND_INITIALIZER};
    int abi = landlock_abi();
    zygote->landlock_abi = abi > 0 ? abi : 0;
    int status = runner_prepare_spec(spec, err);
    if (status == 0) {
        status = thread_start(&zygote->thread, 0, zygote_main, zygote);
        zygote->has_thread = status == 0;
        if (status < 0)
            error_host(err, status, "cannot start the thread of a zygote");
    }
    if (status == 0)
        status = await_box(zygote, err);
    if (status == 0)
        status = preload(zygote, modules, err);
    if (status < 0) {
        zygote_close(zygote);
        return status;
    }
    *ret = zygote;
    return 0;
}

struct order {
    struct zygote *zygote;
    enum runner_haste haste;
};

static int send_order(void *data, const int *fds, size_t count)
{
    const struct order *order = data;
    scope_buffer frame = {0};
    int status = runner_write_fork(&frame, order->zygote->landlock_abi, order->haste);
    return status < 0 ? status : runner_link_send(&order->zygote->link, &frame, fds, count);
}

/* Why it did not fork, in its own words. */
static int explain(struct zygote *zygote, int status, struct error *err)
{
    struct error reason = {0};
    pthread_mutex_lock(&zygote->words_lock);
    if (status == -ECANCELED && runner_link_await_ready(&zygote->link, 1000, &reason) < 0 && err)
        *err = reason;
    pthread_mutex_unlock(&zygote->words_lock);
    return status;
}

/* Its box, which is there as long as there is a fork that it counts; NULL: it is dead. */
static struct box *hold_box(struct zygote *zygote)
{
    pthread_mutex_lock(&zygote->lock);
    struct box *box = zygote->box;
    zygote->forks += box != NULL;
    pthread_mutex_unlock(&zygote->lock);
    return box;
}

static int open_fork(struct zygote *zygote, const struct box *parent, const struct limits *limits,
                     struct lease *ret, struct error *err)
{
    int status = lease_open(
        ret,
        &(struct lease_terms){
            .spec = zygote->spec, .image = parent->image, .cgroups = parent->cgroups, .limits = limits},
        err);
    ret->box.wants_channel = ret->box.is_forkable = true;
    return status;
}

/* What is left to do for a fork that has come up. */
static int take_fork(struct zygote *zygote, struct lease *lease, struct runner_link *ret_link,
                     struct error *err)
{
    note_debt(zygote, &lease->box);
    ret_link->fd = fcntl(lease->box.channel_fd, F_DUPFD_CLOEXEC, 0);
    return ret_link->fd < 0 ? error_host(err, -errno, "no descriptor for a fork") : 0;
}

static void give_up_fork(struct zygote *zygote, struct lease *lease, struct error *err)
{
    lease_add_last_words(lease, err);
    lease_close_at_scope_end(lease);
    zygote_release(zygote);
}

int zygote_fork(struct zygote *zygote, const struct limits *limits, enum runner_haste haste,
                struct lease *ret, struct runner_link *ret_link, struct result *ret_layers, struct error *err)
{
    *ret_link = (struct runner_link)RUNNER_LINK_UNSET;
    struct box *parent = hold_box(zygote);
    if (!parent) {
        *ret = (struct lease){.record = RECORD_UNSET};
        return error_host(err, -EPIPE, "the zygote is dead");
    }
    int status = open_fork(zygote, parent, limits, ret, err);
    struct order order = {zygote, haste};
    const struct fork_request request = {.order = send_order,
                                         .data = &order,
                                         .words_fd = zygote->link.fd,
                                         .is_alone = haste == RUNNER_AWAITED_ALONE,
                                         .is_told = haste == RUNNER_AWAITED_ALONE};
    if (status == 0) {
        status = parent->engine->fork(parent, &ret->box, &request, ret_layers, err);
        status = status < 0 ? explain(zygote, status, err) : 0;
    }
    if (status == 0)
        status = take_fork(zygote, ret, ret_link, err);
    if (status < 0)
        give_up_fork(zygote, ret, err);
    return status;
}

bool zygote_can_make_places(struct zygote *zygote)
{
    return !is_plain(zygote);
}

int zygote_make_place(struct zygote *zygote, const struct limits *limits, struct lease *ret,
                      struct error *err)
{
    struct box *parent = hold_box(zygote);
    if (!parent) {
        *ret = (struct lease){.record = RECORD_UNSET};
        return error_host(err, -EPIPE, "the zygote is dead");
    }
    int status = open_fork(zygote, parent, limits, ret, err);
    struct order order = {zygote, RUNNER_PLACE};
    const struct fork_request request = {.order = send_order, .data = &order, .words_fd = zygote->link.fd};
    if (status == 0) {
        status = parent->engine->fork_place(parent, &ret->box, &request, err);
        status = status < 0 ? explain(zygote, status, err) : 0;
    }
    if (status < 0)
        give_up_fork(zygote, ret, err);
    return status;
}

int zygote_fill_place(struct zygote *zygote, enum runner_haste haste, struct lease *lease,
                      struct runner_link *ret_link, struct result *ret_layers, struct error *err)
{
    pthread_mutex_lock(&zygote->lock);
    struct box *parent = zygote->box; /* the place holds it */
    pthread_mutex_unlock(&zygote->lock);
    const struct fork_request request = {.is_alone = haste == RUNNER_AWAITED_ALONE,
                                         .is_told = haste == RUNNER_AWAITED_ALONE,
                                         .haste = (char)haste};
    int status = parent ? parent->engine->fork_into(parent, &lease->box, &request, ret_layers, err)
                        : error_host(err, -EPIPE, "the zygote is dead");
    return status < 0 ? status : take_fork(zygote, lease, ret_link, err);
}

void zygote_release(struct zygote *zygote)
{
    pthread_mutex_lock(&zygote->lock);
    zygote->forks--;
    pthread_cond_broadcast(&zygote->changed);
    pthread_mutex_unlock(&zygote->lock);
}

bool zygote_is_dead(struct zygote *zygote)
{
    pthread_mutex_lock(&zygote->lock);
    bool is_over = zygote->is_over;
    pthread_mutex_unlock(&zygote->lock);
    return is_over;
}

pid_t zygote_pid(struct zygote *zygote)
{
    pthread_mutex_lock(&zygote->lock);
    pid_t pid = zygote->box ? zygote->box->pid : -1;
    pthread_mutex_unlock(&zygote->lock);
    return pid;
}

void zygote_close(struct zygote *zygote)
{
    if (!zygote)
        return;
    uint64_t one = 1;
    if (zygote->cancel_fd >= 0)
        (void)!write(zygote->cancel_fd, &one, sizeof one);
    if (zygote->has_thread)
        pthread_join(zygote->thread, NULL);
    runner_link_close(&zygote->link);
    scope_close_fd(&zygote->cancel_fd);
    result_free(zygote->result);
    spec_free(zygote->spec);
    free(zygote);
}
