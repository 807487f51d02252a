/* Copies of a context: its interpreter's memory by the kernel's copy on write, its files by a copy. */
#include "keeper/context_inside.h"

#include "base/clock.h"
#include "base/scope.h"
#include "base/thread.h"
#include "keeper/lease.h"
#include "os/landlock.h"
#include "os/process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* A fork under way, as its parent's runner speaks of it. */
struct asking {
    struct context *parent;
    bool has_scope;    /* the copy is to have one of its own */
    char refusal[400]; /* the guest's words */
};

/* It looks around while we prepare its copy's box. If that does not arrive, it looks when the order comes. */
static void announce(const struct context *parent)
{
    struct slice look = runner_look();
    send(parent->channel_fd, look.data, look.length, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static int send_order(void *data, const int *fds, size_t count)
{
    const struct asking *asking = data;
    struct context *parent = asking->parent;
    scope_buffer frame = {0};
    int abi = asking->has_scope ? landlock_abi() : 0;
    int status = runner_write_fork(&frame, abi > 0 ? abi : 0, RUNNER_AWAITED);
    /* It is small, and the runner waits for nothing else: it goes into the socket at once, or never. */
    return status < 0 ? status
                      : process_send_many(parent->channel_fd, frame.data, (uint32_t)frame.length, fds, count);
}

/* The runner has said something, or is gone. What is no refusal is left for the next run to tell. */
static bool take_refusal(void *data)
{
    struct asking *asking = data;
    struct runner_reader *reader = &asking->parent->reader;
    struct runner_event event;
    struct error broken = {0};
    if (context_read(asking->parent, &broken) < 0)
        return true;
    size_t unread = reader->consumed;
    int next;
    while ((next = runner_reader_next(reader, &event, &broken)) > 0)
        if (event.kind == RUNNER_refused) {
            snprintf(asking->refusal, sizeof asking->refusal, "%s", event.text);
            return true;
        }
    reader->consumed = unread;
    return next < 0 || reader->pending.length - unread > RUNNER_BODY_MAX;
}

/* The parent's box, which may end at any time, but does not go before it is given back. NULL: it has ended.
 */
static struct box *hold_box(struct context *parent, bool *ret_is_first)
{
    pthread_mutex_lock(&parent->lock);
    struct box *box = parent->box;
    parent->forked_boxes += box != NULL;
    if (box)
        atomic_fetch_add(&box->forks, 1);
    *ret_is_first = parent->forked_boxes == 1;
    pthread_mutex_unlock(&parent->lock);
    return box;
}

static void give_box_back(struct context *parent, struct box *box)
{
    pthread_mutex_lock(&parent->lock);
    parent->forked_boxes--;
    atomic_fetch_sub(&box->forks, 1);
    pthread_cond_broadcast(&parent->changed);
    pthread_mutex_unlock(&parent->lock);
}

static int fork_box(struct context *context, struct box *from, bool is_alone, struct lease *lease,
                    struct result *result, struct error *err)
{
    struct asking asking = {.parent = context->parent, .has_scope = from->uid_line.count < FORK_SCOPES_MAX};
    const struct lease_terms terms = {.spec = context->spec,
                                      .image = from->image,
                                      .cgroups = from->cgroups,
                                      .limits = &context->spec->limits,
                                      .lifetime_ms = context->options.lifetime_ms};
    const struct fork_request request = {.order = send_order,
                                         .refuses = take_refusal,
                                         .data = &asking,
                                         .words_fd = context->parent->channel_fd,
                                         .is_alone = is_alone,
                                         .with_files = true};
    announce(context->parent);
    int status = lease_open(lease, &terms, err);
    if (status < 0)
        return status;
    lease->box.wants_channel = lease->box.is_forkable = true;
    result->isolation = context->spec->isolation;
    status = lease->box.engine->fork(from, &lease->box, &request, result, err);
    if (status == -ECANCELED && asking.refusal[0])
        return error_spec(err, "fork", "the context cannot be forked: %s", asking.refusal);
    return status;
}

static int end_with_parent(struct error *err)
{
    error_spec(err, "context", "the context has ended");
    return -EPIPE;
}

static void *fork_main(void *data)
{
    struct context *context = data;
    const struct supervise_io io = context_io(context);
    struct error err = {0};
    struct result *result = result_new();
    scope_lease lease = {.record = RECORD_UNSET};
    bool is_first;
    struct box *from = hold_box(context->parent, &is_first);
    int status = !result ? error_host(&err, -ENOMEM, "no memory for a fork")
                 : !from ? end_with_parent(&err)
                         : fork_box(context, from, is_first, &lease, result, &err);
    if (status == 0) {
        lease.box.started_us = clock_monotonic_us();
        context_box_started(context, &lease.box);
        status = supervise_run(&lease.box, &io, result, &err);
    }
    scope_fd target = status == 0 ? io.target(io.data) : -1;
    if (target >= 0)
        status = lease_collect(&lease, target, result, &err);
    if (lease.box.engine && lease.box.pid > 0)
        lease.box.engine->stop(&lease.box);
    context_box_ended(context, &lease.box, status == 0 ? result : NULL);
    if (lease_close(&lease) < 0 && result)
        result->left_behind = true;
    if (from)
        give_box_back(context->parent, from);
    if (status < 0) {
        result_free(result);
        result = NULL;
    }
    context_box_over(context, status, result, &err);
    return NULL;
}

/* It must be python, in a container, between two runs. */
static int check(struct context *context, int64_t *ret_left_ms, struct error *err)
{
    int status = 0;
    if (context->spec->language && strcmp(context->spec->language, "python") != 0)
        return error_spec(err, "fork", "fork: contexts in %.32s cannot be forked yet, only python's",
                          context->spec->language);
    if (context->spec->isolation != ISOLATION_CONTAINER)
        return error_spec(err, "fork",
                          "fork: contexts of isolation '%s' cannot be forked yet, only of 'container'",
                          isolation_names[context->spec->isolation]);
    pthread_mutex_lock(&context->lock);
    *ret_left_ms = context->options.lifetime_ms - (clock_monotonic_us() - context->started_us) / 1000;
    if (!context->box || context->is_over || context->is_ending) {
        status = end_with_parent(err);
    } else if (context->turn.is_busy) {
        error_spec(err, "fork", "fork: a run is under way");
        status = -EBUSY;
    } else {
        context->forks++;
    }
    pthread_mutex_unlock(&context->lock);
    return status;
}

/* `spec` is taken; NULL: the parent's, which lives as long as its forks. */
static int fork_with(struct context *parent, struct spec *spec, const struct context_options *options,
                     struct context **ret, struct error *err)
{
    int64_t left_ms = 0;
    int status = check(parent, &left_ms, err);
    if (status < 0) {
        spec_free(spec);
        return status;
    }
    struct context_options own = options ? *options : parent->options;
    if (own.lifetime_ms <= 0 || own.lifetime_ms > left_ms)
        own.lifetime_ms = left_ms > 0 ? left_ms : 1;
    struct context *fork = context_make(spec ? spec : parent->spec, parent->policy, &own);
    if (!fork) {
        spec_free(spec);
        context_release(parent);
        return error_host(err, -ENOMEM, "no memory for a fork");
    }
    fork->parent = parent;
    fork->shares_spec = !spec;
    fork->thread_main = fork_main;
    fork->run = parent->run;
    status =
        fork->cancel_fd < 0 ? error_host(err, -EMFILE, "cannot make a context") : context_start(fork, err);
    if (status < 0) {
        context_close(fork);
        return status;
    }
    *ret = fork;
    return 0;
}

int context_fork(struct context *parent, const struct context_options *options, struct context **ret,
                 struct error *err)
{
    return fork_with(parent, NULL, options, ret, err);
}

int context_fork_point(struct context *parent, const struct context_options *options, struct context **ret,
                       struct error *err)
{
    pthread_mutex_lock(&parent->lock);
    bool is_too_deep = parent->box && parent->box->uid_line.count > FORK_GENERATIONS_MAX - 2;
    pthread_mutex_unlock(&parent->lock);
    return is_too_deep ? error_spec(err, "fork",
                                    "fork: there are %d generations of forks already, and a point could not "
                                    "be returned to",
                                    FORK_GENERATIONS_MAX - 1)
                       : context_fork(parent, options, ret, err);
}

void context_set_idle(struct context *context, int64_t idle_ms)
{
    pthread_mutex_lock(&context->lock);
    context->options.idle_ms = idle_ms;
    context->idle_since_us = clock_monotonic_us();
    pthread_mutex_unlock(&context->lock);
}

int context_fork_as(struct context *parent, struct spec *spec, const struct context_options *options,
                    struct context **ret, struct error *err)
{
    return fork_with(parent, spec, options, ret, err);
}

/* Branches share what their threads report to. */
struct branching {
    struct context_branches *branches;
    pthread_mutex_t lock;
    struct context *winner;
    bool has_winner;
};

struct branch {
    struct branching *branching;
    size_t index;
    struct context *context;
    pthread_t thread;
    bool has_thread, is_over;
};

static void tell_event(void *data, const struct runner_event *event)
{
    struct branch *branch = data;
    struct context_branches *branches = branch->branching->branches;
    pthread_mutex_lock(&branch->branching->lock);
    if (branches->event)
        branches->event(branches->data, branch->index, event);
    pthread_mutex_unlock(&branch->branching->lock);
}

static void *branch_main(void *data)
{
    struct branch *branch = data;
    struct branching *branching = branch->branching;
    struct context_branches *branches = branching->branches;
    struct context_branch *item = &branches->items[branch->index];
    item->status =
        context_run(branch->context, &item->order, tell_event, branch, &item->outcome, &item->error);
    pthread_mutex_lock(&branching->lock);
    branch->is_over = true;
    bool wins = !branching->has_winner && branches->ended && branches->ended(branches->data, branch->index);
    if (wins) {
        branching->has_winner = true;
        branching->winner = branch->context;
        branch->context = NULL;
    }
    pthread_mutex_unlock(&branching->lock);
    if (!wins) /* at once: what it holds is for those that still run */
        context_close(branch->context);
    return NULL;
}

/* Ends those that are still under way when one has won. */
static void end_losers(struct branch *list, size_t count, struct branching *branching)
{
    for (size_t i = 0; i < count; i++) {
        pthread_mutex_lock(&branching->lock);
        struct context *context = list[i].has_thread && !list[i].is_over ? list[i].context : NULL;
        if (context) {
            pthread_mutex_lock(&context->lock);
            context_end(context, CAUSE_cancelled, "another branch was chosen");
            pthread_mutex_unlock(&context->lock);
        }
        pthread_mutex_unlock(&branching->lock);
    }
}

static bool somebody_won(struct branching *branching)
{
    pthread_mutex_lock(&branching->lock);
    bool has_winner = branching->has_winner;
    pthread_mutex_unlock(&branching->lock);
    return has_winner;
}

static void await_branches(struct branch *list, size_t count, struct branching *branching)
{
    bool ended = false;
    for (size_t i = 0; i < count; i++) {
        while (list[i].has_thread) {
            struct timespec soon = clock_in_ms(10);
            if (pthread_clockjoin_np(list[i].thread, NULL, CLOCK_MONOTONIC, &soon) == 0)
                break;
            if (!ended && somebody_won(branching)) {
                ended = true;
                end_losers(list, count, branching);
            }
        }
    }
}

int context_run_branches(struct context *context, struct context_branches *branches,
                         struct context **ret_winner, struct error *err)
{
    struct branching branching = {.branches = branches, .lock = PTHREAD_MUTEX_INITIALIZER};
    struct branch *list = calloc(branches->count ? branches->count : 1, sizeof *list);
    if (!list)
        return error_host(err, -ENOMEM, "no memory for branches");
    for (size_t i = 0; i < branches->count; i++) {
        struct context_branch *item = &branches->items[i];
        list[i] = (struct branch){.branching = &branching, .index = i};
        item->error = (struct error){0};
        item->outcome = (struct context_outcome){.cause = CAUSE_exit};
        if (somebody_won(&branching)) {
            item->status = error_host(&item->error, -ECANCELED, "another branch was chosen before it began");
            continue;
        }
        item->status = context_fork(context, NULL, &list[i].context, &item->error);
        if (item->status < 0)
            continue;
        int status = thread_start(&list[i].thread, 0, branch_main, &list[i]);
        list[i].has_thread = status == 0;
        if (status < 0) {
            item->status = error_host(&item->error, status, "cannot start the thread of a branch");
            context_close(list[i].context);
        }
    }
    await_branches(list, branches->count, &branching);
    free(list);
    pthread_mutex_destroy(&branching.lock);
    if (ret_winner)
        *ret_winner = branching.winner;
    else
        context_close(branching.winner);
    return 0;
}
