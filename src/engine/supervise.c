#include "engine/supervise_inside.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/scope.h"
#include "os/process.h"
#include "plan.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    PIDS_STORM_LEAST = 20,   /* refused forks (twice the limit, but so many at least) that make a fork bomb */
    STOP_AGAIN_US = 1000000, /* after a stop that did not work */
    DRAIN_US = 5000000,      /* after a stop: how long the end may take */
};

void supervise_stop(struct supervisor *self, enum cause cause)
{
    if (!self->has_cause) {
        self->has_cause = true;
        self->cause = cause;
    }
    if (self->stopping)
        return;
    self->stopping = true;
    self->stopped_us = clock_monotonic_us();
    self->box->engine->stop(self->box);
}

static int64_t larger(int64_t one, int64_t other)
{
    return one > other ? one : other;
}

static bool are_left(const struct box *box, int64_t most)
{
    int64_t left = cgroup_pids_now(&box->group);
    return left >= 1 && left <= most;
}

/* The end of a box's namespaces takes longer than many runs, and nothing needs to wait for it but the removal
 * of the box: when the kernel says that init alone is left in the group, nothing of the guest runs any more.
 * Its end has a CPU to itself, if there is one. Not so where init stays: it would still start a command
 * (guest/init/beside.c), while files are collected. */
static bool only_init_is_left(const struct box *box)
{
    if (box->init_stays || box->is_watched || !are_left(box, 1))
        return false; /* of what is watched the last look is at what has ended: usage, files */
    if (!box->is_fork && !box->is_spare)
        process_place_elsewhere(box->pid, NULL);
    return true;
}

/* The same for the memory of its program, which says that it ends (guest/fork/farewell.c). */
static bool says_farewell(const struct box *box, int *ret_code)
{
    char name[32];
    int length = file_read_attribute(box->program_fd, "comm", name, sizeof name);
    *ret_code = init_farewell_code(name, length);
    return *ret_code >= 0;
}

/* Both streams are closed, and nothing is left but init and the program. If that one says how it ends, that
 * is how; and so that it is the end, whatever it does now, the box is killed. */
static void hear_farewell(struct supervisor *self)
{
    struct box *box = self->box;
    int code;
    if (box->program_fd < 0 || self->program_ended || self->stopping || self->has_listened)
        return;
    self->has_listened = true;
    if (!says_farewell(box, &code) || !are_left(box, 2))
        return;
    box->engine->stop(box);
    box->is_ending = true;
    self->program_ended = self->process_gone = true;
    self->wait_status = code << 8 /* as wait would have it */;
}

/* Init has handed on all that the program wrote, and there is nothing to wait for: the box is killed, and the
 * end of its processes is waited for by who needs it. */
static void end_at_last_word(struct supervisor *self)
{
    self->box->engine->stop(self->box);
    if (!self->stopping)
        self->box->is_ending = self->process_gone = true;
    if (!supervise_streams_take(self))
        return; /* they are read to their end when they are left to us */
    for (int i = 0; i < STREAM_COUNT; i++) {
        int *guest_fd = self->streams[i].guest_fd;
        while (*guest_fd >= 0 && supervise_stream_read(self, (enum supervise_stream)i))
            ;
        if (*guest_fd >= 0)
            supervise_stream_end(self, (enum supervise_stream)i);
    }
    supervise_streams_leave(self);
}

/* Init stays: the rest of the box is killed, and init with it, if it is not needed for forks. */
static void end_rest(struct supervisor *self)
{
    if (self->stopping || self->process_gone)
        return;
    self->stopping = true; /* that is no cause yet: for want of memory, the program is killed first */
    self->stopped_us = clock_monotonic_us();
    self->box->engine->stop(self->box);
}

static bool is_outlived(const struct box *box)
{
    return atomic_load(&box->forks) > 0;
}

/* What init says now could as well be said by the guest: it decides nothing but how the program itself ended.
 */
static void control_read(struct supervisor *self)
{
    struct init_message message;
    scope_fd fd = -1;
    int length = process_receive(self->box->control_fd, &message, sizeof message, &fd);
    if (length == (int)sizeof message && message.kind == INIT_ENDED) {
        self->program_ended = self->box->ended_by_itself = true;
        self->wait_status = message.wait_status;
        self->process_gone |= self->box->is_served || only_init_is_left(self->box);
        if (self->box->engine->ends_at_last_word)
            end_at_last_word(self);
        if (self->box->init_stays)
            end_rest(self);
    } else if (length == (int)sizeof message && !self->program_ended &&
               (message.kind == INIT_EXEC_FAILED || message.kind == INIT_CHDIR_FAILED)) {
        self->exec_error = message.code < 0 ? message.code : -EIO;
        self->chdir_failed = message.kind == INIT_CHDIR_FAILED;
    } else if (length == (int)sizeof message && message.kind == INIT_FAILED && !self->program_ended) {
        message.text[sizeof message.text - 1] = '\0';
        snprintf(self->result->detail, sizeof self->result->detail, "%.400s", message.text);
        supervise_stop(self, CAUSE_host_failure);
    } else if (length == (int)sizeof message && message.kind == INIT_COUNTED &&
               (self->box->counts_itself || self->box->is_watched)) {
        self->box->counted_pids = larger(self->box->counted_pids, message.code);
    } else if (length == (int)sizeof message && message.kind == INIT_INTERRUPTED && self->io->interrupted) {
        self->io->interrupted(self->io->data);
    } else if (length <= 0) {
        scope_close_fd(&self->box->control_fd);
    }
}

static void listener_read(struct supervisor *self)
{
    const char *call = NULL;
    bool must_end = self->box->engine->answer(self->box, &call);
    if (self->box->answer_error && !self->has_cause) {
        snprintf(self->result->detail, sizeof self->result->detail,
                 "a call of the program could not be answered: %s", strerror(self->box->answer_error));
        supervise_stop(self, CAUSE_host_failure);
    }
    if (!must_end)
        return;
    if (!self->has_cause)
        snprintf(self->result->denied_syscall, sizeof self->result->denied_syscall, "%s", call ? call : "");
    supervise_stop(self, CAUSE_denied_syscall);
}

/* What was there before the program counts for as long as it is there. */
static int64_t memory_debt(struct box_debt *debt, const struct measurement *now)
{
    int64_t left = debt->memory_bytes - debt->given_back_bytes;
    if (debt->bare_bytes && now->memory_bytes && now->memory_bytes - debt->bare_bytes < left)
        left = larger(now->memory_bytes - debt->bare_bytes, 0);
    debt->given_back_bytes = debt->memory_bytes - left;
    return left;
}

static void measure(struct supervisor *self)
{
    struct measurement *now = &self->now;
    int64_t user_us = now->cpu_user_us, system_us = now->cpu_system_us;
    self->box->engine->measure(self->box, now);
    struct box_debt *debt = &self->box->debt;
    now->cpu_user_us = larger(now->cpu_user_us - debt->cpu_user_us, 0);
    now->cpu_system_us = larger(now->cpu_system_us - debt->cpu_system_us, 0);
    now->memory_bytes = larger(now->memory_bytes - memory_debt(debt, now), 0);
    /* Never less than before: what was killed together with init is in nobody's account any more. */
    now->cpu_user_us = larger(now->cpu_user_us, user_us);
    now->cpu_system_us = larger(now->cpu_system_us, system_us);
    self->peak_pids = larger(self->peak_pids, larger(now->pids, now->peak_pids));
    self->peak_memory =
        larger(self->peak_memory, larger(now->memory_bytes, now->peak_memory_bytes - debt->memory_bytes));
    self->disk_bytes = larger(self->disk_bytes, now->disk_bytes);
    self->disk_was_full |= now->disk_is_full;
    self->inodes_were_full |= now->inodes_are_full;
}

/* Limits that hold whether or not the program has ended meanwhile. */
static void judge_usage(struct supervisor *self)
{
    const int64_t *limit = self->box->limits->value;
    const struct measurement *now = &self->now;
    if (now->oom_kills > 0)
        supervise_stop(self, CAUSE_memory);
    if (now->pids_refused > larger(2 * limit[LIMIT_pids], PIDS_STORM_LEAST))
        supervise_stop(self, CAUSE_pids);
    if (!self->box->is_watched)
        return;
    if (now->memory_bytes > limit[LIMIT_memory])
        supervise_stop(self, CAUSE_memory);
    if (now->pids > limit[LIMIT_pids])
        supervise_stop(self, CAUSE_pids);
    if (self->box->engine->in_directory && (now->disk_bytes > limit[LIMIT_disk] || now->disk_is_full))
        supervise_stop(self, CAUSE_disk); /* elsewhere the scratch space is full, and the program is told */
}

static void look_at_limits(struct supervisor *self)
{
    const int64_t *limit = self->box->limits->value;
    int64_t elapsed_us = clock_monotonic_us() - self->started_us;
    measure(self);
    judge_usage(self); /* first: who keeps us from looking in time may have taken too much of something */
    if (self->now.cpu_user_us + self->now.cpu_system_us >= limit[LIMIT_cpu] * 1000)
        supervise_stop(self, CAUSE_cpu_time);
    if (elapsed_us >= limit[LIMIT_wall] * 1000)
        supervise_stop(self, CAUSE_wall_time);
    if (self->io->progress)
        self->io->progress(self->io->data, elapsed_us, &self->now);
}

static void process_reap(struct supervisor *self)
{
    int status;
    pid_t pid;
    struct rusage usage = {0};
    do
        pid = wait4(self->box->pid, &status, __WALL, &usage);
    while (pid < 0 && errno == EINTR);
    self->box->reaped_user_us = (int64_t)usage.ru_utime.tv_sec * 1000000 + usage.ru_utime.tv_usec;
    self->box->reaped_system_us = (int64_t)usage.ru_stime.tv_sec * 1000000 + usage.ru_stime.tv_usec;
    self->process_gone = true;
    self->box->is_reaped = true;
    /* Init's last words may have come after the look at its socket and before its end. */
    struct pollfd last = {.fd = self->box->control_fd, .events = POLLIN};
    while (self->box->control_fd >= 0 && poll(&last, 1, 0) > 0)
        control_read(self);
    if (self->program_ended || self->has_cause)
        return;
    look_at_limits(
        self); /* killed from outside, by the kernel for want of memory, or by init when we came too late */
    supervise_stop(self, CAUSE_host_failure);
}

static int64_t look_period_ms(const struct box *box)
{
    /* In a zygote nobody's code runs, and it stays for long: a watchdog need not look as often. */
    return box->is_watched && !box->is_for_others ? 10 : box->is_watched ? 200 : 50;
}

/* Until the next thing that only time brings: the wall limit, the earliest moment at which the CPU limit can
 * be reached, or the next look. */
static int next_look_ms(const struct supervisor *self)
{
    const int64_t *limit = self->box->limits->value;
    int64_t now_us = clock_monotonic_us();
    int64_t wait_ms = look_period_ms(self->box);
    int64_t wall_ms = (self->started_us + limit[LIMIT_wall] * 1000 - now_us) / 1000 + 1;
    int64_t cpu_left_ms = limit[LIMIT_cpu] - (self->now.cpu_user_us + self->now.cpu_system_us) / 1000;
    int64_t cpu_ms = cpu_left_ms * 1000 / limit[LIMIT_cpus] + 1;
    if (wall_ms < wait_ms)
        wait_ms = wall_ms;
    if (cpu_ms < wait_ms)
        wait_ms = cpu_ms > 2 ? cpu_ms : 2;
    if (self->stopping)
        wait_ms = 20;
    return (int)(wait_ms > 0 ? wait_ms : 0);
}

enum {
    SLOT_OUT,
    SLOT_ERR,
    SLOT_FORWARD_OUT,
    SLOT_FORWARD_ERR,
    SLOT_INPUT,
    SLOT_STDIN,
    SLOT_CONTROL,
    SLOT_LISTENER,
    SLOT_PROCESS,
    SLOT_OOM,
    SLOT_CANCEL,
    SLOT_WORD,
    SLOT_PAUSE,
    SLOTS
};

static void fill_slots(const struct supervisor *self, struct pollfd *slots)
{
    const struct box *box = self->box;
    for (int i = 0; i < SLOTS; i++)
        slots[i] = (struct pollfd){.fd = -1};
    bool are_ours = supervise_streams_are_ours(self);
    for (int i = 0; i < STREAM_COUNT; i++) {
        bool waiting = self->streams[i].pending.length > 0;
        if (waiting)
            slots[SLOT_FORWARD_OUT + i] = (struct pollfd){.fd = self->io->forward_fd[i], .events = POLLOUT};
        if (are_ours && (!waiting || self->stopping))
            slots[SLOT_OUT + i] = (struct pollfd){.fd = *self->streams[i].guest_fd, .events = POLLIN};
    }
    if (!self->input_ended && !self->stopping) {
        bool has_bytes = box->spec->stdin_kind == STDIN_BYTES || self->input_sent < self->input.length;
        if (has_bytes)
            slots[SLOT_STDIN] = (struct pollfd){.fd = box->stdin_fd, .events = POLLOUT};
        else if (supervise_may_be_read(box->spec->stdin_fd))
            slots[SLOT_INPUT] = (struct pollfd){.fd = box->spec->stdin_fd, .events = POLLIN};
    }
    slots[SLOT_CONTROL] = (struct pollfd){.fd = box->control_fd, .events = POLLIN};
    if (!self->stopping)
        slots[SLOT_LISTENER] = (struct pollfd){.fd = box->listener_fd, .events = POLLIN};
    if (!self->process_gone)
        slots[SLOT_PROCESS] = (struct pollfd){.fd = box->pidfd, .events = POLLIN};
    if (!self->stopping) {
        slots[SLOT_OOM] = (struct pollfd){.fd = self->oom_fd, .events = self->oom_events};
    }
    if (!self->cancelled)
        slots[SLOT_CANCEL] = (struct pollfd){.fd = self->io->cancel_fd, .events = POLLIN};
    if (self->io->pause && !self->stopping)
        slots[SLOT_PAUSE] = (struct pollfd){.fd = self->io->pause->fd, .events = POLLIN};
    if (self->io->word && !self->has_word && !self->stopping)
        slots[SLOT_WORD] = (struct pollfd){
            .fd = self->io->word->fd, .events = (short)(POLLIN | (self->io->word->speaks ? POLLOUT : 0))};
}

static void order(const struct box *box, char what)
{
    if (box->control_fd >= 0)
        process_send(box->control_fd, &what, 1, -1); /* who is gone needs no order */
}

static void hold(struct supervisor *self)
{
    int64_t from_us = clock_monotonic_us();
    order(self->box, INIT_PAUSE);
    self->io->pause->hold(self->io->pause->data);
    self->started_us += clock_monotonic_us() - from_us;
    order(self->box, INIT_RESUME);
}

static void handle_slots(struct supervisor *self, const struct pollfd *slots)
{
    if (slots[SLOT_CONTROL].revents)
        control_read(self);
    if (slots[SLOT_LISTENER].revents & POLLIN)
        listener_read(self);
    else if (slots[SLOT_LISTENER].revents)
        scope_close_fd(&self->box->listener_fd); /* nobody is left under the filter */
    for (int i = 0; i < STREAM_COUNT; i++) {
        if (slots[SLOT_FORWARD_OUT + i].revents)
            supervise_stream_forward(self, (enum supervise_stream)i);
        if (slots[SLOT_OUT + i].revents && *self->streams[i].guest_fd >= 0 && /* the last word closes them */
            supervise_streams_take(self)) {
            supervise_stream_read(self, (enum supervise_stream)i);
            supervise_streams_leave(self);
        }
    }
    if (slots[SLOT_INPUT].revents)
        supervise_input_read(self);
    if (slots[SLOT_STDIN].revents)
        supervise_input_write(self);
    if (slots[SLOT_OOM].revents) {
        look_at_limits(self);
        if (self->oom_events == POLLPRI && self->oom_fd >= 0) { /* kernfs: ready again only after a read */
            char discarded[512];
            (void)!pread(self->oom_fd, discarded, sizeof discarded, 0);
        } else {
            uint64_t count;
            (void)!read(self->oom_fd, &count, sizeof count);
            /* It also fires when somebody removes the group under our feet: then there are no limits any
             * more. */
            supervise_stop(self, cgroup_exists(&self->box->group) ? CAUSE_memory : CAUSE_host_failure);
        }
    }
    if (slots[SLOT_CANCEL].revents) {
        self->cancelled = true;
        supervise_stop(self, CAUSE_cancelled);
    }
    if (slots[SLOT_PAUSE].revents)
        hold(self);
    if (slots[SLOT_WORD].revents) {
        int status = self->io->word->hear(self->io->word->data);
        self->has_word = status != 0;
        if (status < 0)
            supervise_stop(self, status == -EFBIG ? CAUSE_output : CAUSE_vetted);
    }
    if (slots[SLOT_PROCESS].revents)
        process_reap(self);
}

static bool has_pending(const struct supervisor *self)
{
    return self->streams[0].pending.length || self->streams[1].pending.length;
}

/* A slow reader is waited for, as any program in a pipe waits; the box itself is gone by then. What is not
 * waited for long: a guest's end of a pipe that outlives its box, and anything at all once the run is
 * cancelled. */
static bool is_finished(const struct supervisor *self)
{
    bool guest_done =
        (*self->streams[0].guest_fd < 0 && *self->streams[1].guest_fd < 0) ||
        (self->process_gone && !supervise_streams_are_ours(self)); /* who reads them has them, too */
    bool reader_done = !has_pending(self);
    if (self->process_gone && ((guest_done && reader_done) || self->cancelled))
        return true;
    bool late = self->stopping && clock_monotonic_us() - self->stopped_us > DRAIN_US;
    return late && (reader_done || !self->process_gone);
}

static void watch(struct supervisor *self)
{
    int64_t looked_us = self->started_us, active_us = self->started_us;
    while (!is_finished(self)) {
        struct pollfd slots[SLOTS];
        fill_slots(self, slots);
        int timeout_ms = next_look_ms(self);
        int ready = poll(slots, SLOTS, timeout_ms);
        if (ready < 0 && errno != EINTR) {
            supervise_stop(self, CAUSE_host_failure);
            continue;
        }
        if (ready > 0)
            handle_slots(self, slots);
        if (*self->streams[0].guest_fd < 0 && *self->streams[1].guest_fd < 0)
            hear_farewell(self);
        if (self->stopping && is_outlived(self->box) && are_left(self->box, 1))
            self->process_gone = true; /* all that there was to end */
        int64_t now_us = clock_monotonic_us();
        if (self->stopping && !self->process_gone && now_us - self->stopped_us > STOP_AGAIN_US &&
            self->box->stops < 2)
            self->box->engine->stop(self->box);
        if (!self->process_gone && (ready == 0 || now_us - looked_us >= look_period_ms(self->box) * 1000)) {
            look_at_limits(self);
            looked_us = now_us;
        }
        if (ready > 0 || !self->process_gone)
            active_us = now_us;
        else if (!self->stopping && now_us - active_us > 1000000 && !has_pending(self))
            supervise_stop(self, CAUSE_exit); /* a descriptor outlived the box: see is_finished */
    }
}

static void decide_from_status(struct supervisor *self, struct result *result)
{
    const int64_t *limit = self->box->limits->value;
    int status = self->wait_status;
    bool failed;
    if (!WIFSIGNALED(status) && !WIFEXITED(status)) { /* no way for a program to end: not the kernel's word */
        result->cause = CAUSE_host_failure;
        snprintf(result->detail, sizeof result->detail, "the box reported an end that cannot be");
        return;
    }
    if (WIFSIGNALED(status)) {
        result->signal = WTERMSIG(status);
        result->cause = CAUSE_signal;
        failed = true;
    } else {
        result->exit_code = WEXITSTATUS(status);
        result->cause = CAUSE_exit;
        failed = result->exit_code != 0;
    }
    /* With a listener our filter never sends SIGSYS: then it is the program's own. */
    if (result->signal == SIGSYS && !self->had_listener)
        result->cause = CAUSE_denied_syscall;
    else if ((result->signal == SIGXCPU || result->signal == SIGKILL) &&
             self->now.cpu_user_us + self->now.cpu_system_us >= limit[LIMIT_cpu] * 1000)
        result->cause = CAUSE_cpu_time;
    else if (result->signal == SIGXFSZ && self->disk_bytes >= limit[LIMIT_disk])
        result->cause = CAUSE_disk;
    else if (failed &&
             (self->now.pids_refused > 0 || self->peak_pids > limit[LIMIT_pids] ||
              ((self->box->is_watched || self->box->counts_itself) && self->peak_pids == limit[LIMIT_pids])))
        result->cause = CAUSE_pids;
    else if (failed && self->disk_was_full)
        result->cause = CAUSE_disk;
}

/* Output that did not arrive is never a success, however the program itself ended. */
static void decide_lost_output(struct supervisor *self, struct result *result)
{
    bool reader_gone = self->forward_error == EPIPE && !self->read_error;
    result->cause = reader_gone ? CAUSE_cancelled : CAUSE_host_failure;
    result->signal = reader_gone ? SIGPIPE : 0;
    snprintf(result->detail, sizeof result->detail, "the program's output could not be %s: %s",
             self->read_error ? "read" : "written",
             strerror(self->read_error ? self->read_error : self->forward_error));
}

static void decide_cause(struct supervisor *self)
{
    struct result *result = self->result;
    if (self->forward_error || self->read_error) {
        decide_lost_output(self, result);
        return;
    }
    if (self->now.oom_kills > 0 && !self->has_cause) {
        self->has_cause = true;
        self->cause = CAUSE_memory;
    }
    if (self->has_cause && self->cause != CAUSE_exit) {
        result->cause = self->cause;
        result->signal = SIGKILL;
        if (self->cause == CAUSE_host_failure) {
            result->signal = 0;
            if (!result->detail[0])
                snprintf(result->detail, sizeof result->detail,
                         "the box ended without a report of how the program ended");
        }
        if (self->program_ended && WIFEXITED(self->wait_status)) { /* it ended by itself in the last moment */
            result->signal = 0;
            result->exit_code = WEXITSTATUS(self->wait_status);
        }
    } else if (self->program_ended) {
        decide_from_status(self, result);
    } else {
        result->cause = CAUSE_host_failure;
        snprintf(result->detail, sizeof result->detail,
                 "the box ended without a report of how the program ended");
    }
    result->timed_out = result->cause == CAUSE_wall_time || result->cause == CAUSE_cpu_time;
}

static void fill_usage(struct supervisor *self, int64_t ended_us)
{
    struct result_usage *usage = &self->result->usage;
    usage->wall_us = ended_us - self->started_us;
    usage->cpu_user_us = self->now.cpu_user_us;
    usage->cpu_system_us = self->now.cpu_system_us;
    usage->peak_memory_bytes = self->peak_memory;
    usage->peak_pids = self->peak_pids > 0 ? self->peak_pids : 1;
    usage->disk_bytes = self->disk_bytes;
}

static void explain_limit(const struct limits *limits, enum limit_field field, struct result *result)
{
    char value[32];
    snprintf(result->detail, sizeof result->detail, "%s: %s is %s", cause_meanings[result->cause],
             limit_rows[field].name, limit_format(field, limits->value[field], value, sizeof value));
}

void supervise_explain(const struct limits *limits, struct result *result)
{
    static const struct {
        enum cause cause;
        enum limit_field field;
    } rows[] = {{CAUSE_wall_time, LIMIT_wall}, {CAUSE_cpu_time, LIMIT_cpu},
                {CAUSE_memory, LIMIT_memory},  {CAUSE_pids, LIMIT_pids},
                {CAUSE_disk, LIMIT_disk},      {CAUSE_output, LIMIT_output_limit}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (result->cause == rows[i].cause)
            explain_limit(limits, rows[i].field, result);
    if (result->cause == CAUSE_denied_syscall)
        snprintf(result->detail, sizeof result->detail, "the system call %s is never allowed in a box",
                 result->denied_syscall[0] ? result->denied_syscall : "(unknown)");
}

static int explain_exec_failure(const struct box *box, int code, bool chdir_failed, struct error *err)
{
    if (chdir_failed)
        return error_spec(err, "cwd", "cwd: '%.256s' cannot be entered in image '%s': %s",
                          box->program->working_directory, box->image->name, strerror(-code));
    const char *name = box->program->arguments.items[0];
    const char *hint = code == -ENOENT   ? "there is no such program (or its interpreter) in the image"
                       : code == -EACCES ? "it is not an executable file, or lies outside what was granted"
                                         : strerror(-code);
    return error_spec(err, "command", "command: '%.256s' cannot be started in image '%s': %s", name,
                      box->image->name, hint);
}

void supervise_prepare(struct box *box)
{
    if (box->group.version != CGROUP_NONE && box->oom_fd < 0)
        box->oom_fd = cgroup_watch_oom(&box->group, &box->oom_events);
}

int supervise_run(struct box *box, const struct supervise_io *io, struct result *result, struct error *err)
{
    struct supervisor self = {
        .box = box, .io = io, .result = result, .oom_fd = -1, .had_listener = box->listener_fd >= 0};
    self.streams[STREAM_STDOUT] = (struct stream_state){.guest_fd = &box->stdout_fd, .kept = &result->output};
    self.streams[STREAM_STDERR] = (struct stream_state){.guest_fd = &box->stderr_fd, .kept = &result->errors};
    supervise_prepare(box);
    self.oom_fd = take_fd(&box->oom_fd);
    self.oom_events = box->oom_events;
    if (box->spec->stdin_kind == STDIN_NONE ||
        (box->spec->stdin_kind == STDIN_BYTES && box->spec->stdin_bytes.length == 0))
        supervise_input_close(&self);

    /* A reader that is gone must be an errno and not a signal to our caller. */
    sigset_t pipe_signal, former;
    sigemptyset(&pipe_signal);
    sigaddset(&pipe_signal, SIGPIPE);
    sigaddset(&pipe_signal, SIGXFSZ); /* and so must a limit of file sizes */
    pthread_sigmask(SIG_BLOCK, &pipe_signal, &former);

    self.started_us = box->started_us;
    watch(&self);
    int64_t ended_us = clock_monotonic_us();
    if (!self.process_gone) {
        box->engine->stop(box);
        if (is_outlived(box))
            process_pidfd_kill(box->pidfd, SIGKILL); /* rather its forks too than that something goes on */
        process_reap(&self);
    }
    if (!box->ended_by_itself)
        box->engine->stop(
            box); /* an init that was killed may have left others: none lives when files are collected */
    measure(&self);
    judge_usage(&self);

    struct timespec at_once = {0};
    if (!sigismember(&former, SIGPIPE))
        while (sigtimedwait(&pipe_signal, NULL, &at_once) > 0)
            ;
    pthread_sigmask(SIG_SETMASK, &former, NULL);

    if (self.exec_error && !self.has_cause) {
        explain_exec_failure(box, self.exec_error, self.chdir_failed, err);
    } else {
        decide_cause(&self);
        supervise_explain(box->limits, result);
        if (result->cause == CAUSE_disk && self.inodes_were_full)
            explain_limit(box->limits, LIMIT_inodes, result);
    }
    int status = self.exec_error && !self.has_cause ? -EINVAL : 0;
    fill_usage(&self, ended_us); /* before the engine speaks, which may know more of it */
    if (status == 0 && box->engine->explain)
        status = box->engine->explain(box, result, err);
    result->times.started_us = self.started_us;
    result->times.ended_us = ended_us;
    for (int i = 0; i < STREAM_COUNT; i++)
        buffer_free(&self.streams[i].pending);
    buffer_free(&self.input);
    scope_close_fd(&self.oom_fd);
    return status;
}
