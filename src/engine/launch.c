#include "engine/launch.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/scope.h"
#include "os/hardening.h"
#include "os/process.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

_Static_assert((int)BOX_CHANNEL_FD == (int)INIT_CHANNEL_FD, "one number for both sides");

/* The program of init, linked into us (see init_blob.S). */
extern const char init_blob_start[], init_blob_end[];

void box_init(struct box *box)
{
    *box = (struct box){.pid = -1,
                        .pidfd = -1,
                        .control_fd = -1,
                        .stdin_fd = -1,
                        .stdout_fd = -1,
                        .stderr_fd = -1,
                        .listener_fd = -1,
                        .channel_fd = -1,
                        .program_fd = -1,
                        .init_fd = -1,
                        .scratch_fd = -1,
                        .ruleset_fd = -1,
                        .oom_fd = -1,
                        .group = CGROUP_UNSET};
}

void program_free(struct program *program)
{
    string_list_free(&program->arguments);
    string_list_free(&program->environment);
    free(program->working_directory);
    free(program->code_name);
    *program = (struct program){0};
}

/* A copy of bytes that nobody can change any more: a guest that reaches it through /proc gets a file that is
 * not on any disk and takes no write. */
static int sealed_memfd(const char *name, const void *data, size_t length)
{
    scope_fd fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return -errno;
    int status = file_write_all(fd, data, length);
    if (status < 0)
        return status;
    if (fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) < 0)
        return -errno;
    return take_fd(&fd);
}

static int make_pipe(int *ret_read, int *ret_write)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return -errno;
    *ret_read = ends[0];
    *ret_write = ends[1];
    return 0;
}

/* Copied into a memfd, which is sealed: nothing of ours is in the box, and there is no file to overwrite. In
 * a zygote nobody's code runs, and its forks close what they got before anybody's does: they can have one for
 * all. */
static int make_init(struct box *box, const struct box *parent, struct launch *launch, struct error *err)
{
    if (parent && parent->init_fd >= 0) {
        launch->init_fd = fcntl(parent->init_fd, F_DUPFD_CLOEXEC, 3);
        return launch->init_fd < 0 ? error_host(err, -errno, "cannot hand on the program of init") : 0;
    }
    launch->init_fd = sealed_memfd("init", init_blob_start, (size_t)(init_blob_end - init_blob_start));
    if (launch->init_fd < 0)
        return error_host(err, launch->init_fd, "cannot make a memfd for init");
    /* What cannot be read cannot be traced from its first instruction on: the program of a fork is there
     * before its init is, and of the same user. */
    if (!hardening_removed(init_dumpable) && fchmod(launch->init_fd, 0111) < 0)
        return error_host(err, -errno, "cannot protect the program of init");
    if (box->is_for_others && (box->init_fd = fcntl(launch->init_fd, F_DUPFD_CLOEXEC, 3)) < 0)
        return error_host(err, -errno, "cannot keep the program of init");
    return 0;
}

int launch_open(struct box *box, struct launch *launch, struct error *err)
{
    int control[2];
    *launch = (struct launch)LAUNCH_UNSET;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, control) < 0)
        return error_host(err, -errno, "cannot make the socket of a box");
    box->control_fd = control[0];
    launch->child_control = control[1];
    return 0;
}

int launch_prepare(struct box *box, const struct box *parent, struct launch *launch, struct error *err)
{
    int status = make_pipe(&launch->child_stdin, &box->stdin_fd);
    if (status == 0)
        status = make_pipe(&box->stdout_fd, &launch->child_stdout);
    if (status == 0)
        status = make_pipe(&box->stderr_fd, &launch->child_stderr);
    if (status < 0)
        return error_host(err, status, "cannot make the pipes of a box");
    int channel[2];
    if (box->wants_channel && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, channel) < 0)
        return error_host(err, -errno, "cannot make the channel of a box");
    if (box->wants_channel) {
        box->channel_fd = channel[0];
        launch->child_channel = channel[1];
    }
    if ((status = make_init(box, parent, launch, err)) < 0)
        return status;
    /* So that a program can open /dev/stdout, as scripts do; what it then reads or writes is only its own. */
    int ends[] = {launch->child_stdin, launch->child_stdout, launch->child_stderr};
    for (size_t i = 0; box->identity->has_uid && i < sizeof ends / sizeof *ends; i++)
        if (fchown(ends[i], box->identity->uid, box->identity->uid) < 0)
            return error_host(err, -errno, "cannot give the box its pipes");
    fcntl(box->stdin_fd, F_SETFL, O_NONBLOCK);
    fcntl(box->stdout_fd, F_SETFL, O_NONBLOCK);
    fcntl(box->stderr_fd, F_SETFL, O_NONBLOCK);
    return 0;
}

/* What goes to the child, in this order; the last only where there is a channel. */
enum { LAUNCH_DESCRIPTORS = 6 };
static void list_descriptors(struct launch *launch, int *ret[LAUNCH_DESCRIPTORS])
{
    int *const all[LAUNCH_DESCRIPTORS] = {&launch->child_stdin,  &launch->child_stdout,
                                          &launch->child_stderr, &launch->init_fd,
                                          &launch->plan_fd,      &launch->child_channel};
    memcpy(ret, all, sizeof all);
}

int launch_give(const struct box *box, struct launch *launch, struct error *err)
{
    int *places[LAUNCH_DESCRIPTORS], fds[LAUNCH_DESCRIPTORS];
    const char order = INIT_ENTER;
    size_t count = launch->child_channel >= 0 ? LAUNCH_DESCRIPTORS : LAUNCH_DESCRIPTORS - 1;
    list_descriptors(launch, places);
    for (size_t i = 0; i < count; i++)
        fds[i] = *places[i];
    int status = process_send_many(box->control_fd, &order, 1, fds, count);
    launch_close(launch); /* or we would never see the end of the pipes */
    /* A child that has failed meanwhile says why itself. */
    return status < 0 && status != -EPIPE ? error_host(err, status, "cannot hand a box its streams") : 0;
}

int launch_take(struct launch *launch)
{
    int *places[LAUNCH_DESCRIPTORS], fds[LAUNCH_DESCRIPTORS];
    char order = 0;
    int length = process_receive_many(launch->child_control, &order, 1, fds, LAUNCH_DESCRIPTORS);
    if (length != 1 || order != INIT_ENTER)
        _exit(71); /* the launcher is gone, or changed its mind */
    list_descriptors(launch, places);
    for (size_t i = 0; i < LAUNCH_DESCRIPTORS; i++)
        *places[i] = fds[i];
    return launch->plan_fd < 0 ? -EPROTO : 0;
}

void launch_close(struct launch *launch)
{
    int *fds[] = {&launch->child_stdin, &launch->child_stdout, &launch->child_stderr, &launch->child_control,
                  &launch->init_fd,     &launch->plan_fd,      &launch->child_channel};
    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++)
        scope_close_fd(fds[i]);
}

void plan_lists_free(struct plan_lists *lists)
{
    string_list_free(&lists->read_paths);
    string_list_free(&lists->write_paths);
    string_list_free(&lists->device_paths);
}

/* Counted per uid and user namespace: exact where the box has either of its own. Behind a group or a
 * watchdog, which tell when they refuse or see too many, it is a backstop and stands higher; alone it is the
 * limit (init is one). */
enum { FORKS_ROOM = 2048 };

static int64_t process_rlimit(const struct box *box)
{
    int64_t limit = box->limits->value[LIMIT_pids];
    if (box->is_for_others)
        return -1; /* what is below its user namespace counts for it too: each fork has one of its own */
    if (box->engine->in_directory)
        return limit + 32 + box->threads_beside; /* a bomb is faster than a look: it must have a ceiling */
    if (box->is_forkable)
        return 2 * limit +
               FORKS_ROOM; /* the same, but they are its own: a ceiling for all of them together */
    if (box->counts_itself)
        return limit; /* init has a user of its own there */
    return box->is_watched ? limit + 1 : 2 * limit + 64;
}

void launch_choose_policy(struct box *box)
{
    box->policy_variant = POLICY_CONTAINER;
    for (size_t i = 0; i < box->spec->grant_count; i++) {
        struct stat granted;
        if (stat(box->spec->grants[i].host_path, &granted) < 0 || S_ISDIR(granted.st_mode))
            box->policy_variant = POLICY_CONTAINER_GRANTED;
    }
}

size_t launch_list_rlimits(const struct box *box, struct launch_rlimit *into)
{
    const int64_t *limit = box->limits->value;
    const struct launch_rlimit rows[] = {
        {RLIMIT_CORE,
         1}, /* with 0 the kernel would still start a crash handler of the host's for a dying guest */
        {RLIMIT_NOFILE, limit[LIMIT_open_files]},
        /* A little above, so that it is the sum which is seen to be passed. */
        {RLIMIT_FSIZE, limit[LIMIT_disk] + (1 << 20)},
        /* A backstop for each process; the sum of all is watched by the supervisor. */
        {RLIMIT_CPU, limit[LIMIT_cpu] / 1000 + 2},
        /* gVisor's kernel has 64 KiB of this one, and the next cannot be set: queues are memory of the box.
         */
        {RLIMIT_MEMLOCK, box->counts_itself ? -1 : 8 << 20},
        {RLIMIT_MSGQUEUE, box->counts_itself ? -1 : 819200},
        {RLIMIT_NPROC, process_rlimit(box)},
    };
    _Static_assert(sizeof rows / sizeof *rows <= PLAN_RLIMITS, "they fit into the plan");
    size_t count = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].value >= 0)
            into[count++] = rows[i];
    return count;
}

static void plan_rlimits(const struct box *box, struct init_plan *plan)
{
    struct launch_rlimit rows[PLAN_RLIMITS];
    plan->rlimit_count = (uint32_t)launch_list_rlimits(box, rows);
    for (uint32_t i = 0; i < plan->rlimit_count; i++) {
        plan->rlimits[i].resource = (uint32_t)rows[i].resource;
        plan->rlimits[i].value = (uint64_t)rows[i].value;
    }
}

static int append_strings(struct buffer *block, const struct string_list *list)
{
    int status = 0;
    for (size_t i = 0; status == 0 && i < list->count; i++)
        status = buffer_append(block, list->items[i], strlen(list->items[i]) + 1);
    return status;
}

/* Header, the program's strings, more strings: a sealed memfd. */
static int pack_plan(const struct init_plan *plan, const struct program *program,
                     const struct string_list *const *more, size_t more_count, struct error *err)
{
    scope_buffer block = {0};
    const char *directory = program->working_directory ? program->working_directory : "";
    int status = buffer_append(&block, plan, sizeof *plan);
    if (status == 0)
        status = buffer_append(&block, directory, strlen(directory) + 1);
    if (status == 0)
        status = append_strings(&block, &program->arguments);
    if (status == 0)
        status = append_strings(&block, &program->environment);
    for (size_t i = 0; status == 0 && i < more_count; i++)
        status = append_strings(&block, more[i]);
    if (status == 0 && block.length > PLAN_SIZE_MAX)
        return error_spec(err, "env", "arguments and environment together are larger than 8 MiB");
    if (status == 0) {
        ((struct init_plan *)block.data)->size = (uint32_t)block.length;
        status = sealed_memfd("plan", block.data, block.length);
    }
    return status < 0 ? error_host(err, status, "cannot write the plan of a box") : status;
}

/* When init ends the box by itself: the supervisor should have done so before, but may be stopped. Of a box
 * that waits for its run nobody knows yet when that begins. */
static uint32_t last_wall_ms(const struct box *box)
{
    enum { GRACE_MS = 2000 };
    int64_t wall_ms = box->limits->value[LIMIT_wall];
    return box->is_fork || box->is_spare || box->is_for_others || wall_ms > INT32_MAX - GRACE_MS
               ? 0
               : (uint32_t)wall_ms + GRACE_MS;
}

int launch_write_plan(const struct box *box, const struct plan_lists *lists, struct launch *launch,
                      struct error *err)
{
    const struct program *program = box->program;
    struct init_plan plan = {
        .magic = PLAN_MAGIC,
        .flags = lists->flags | (box->wants_channel ? PLAN_CHANNEL : 0),
        .policy_variant = (uint32_t)box->policy_variant,
        .program_uid = lists->program_uid,
        .wall_ms = last_wall_ms(box),
#ifdef CLOCHE_TEST_HOOKS
        .removed_mask = hardening_removed_mask,
        .verify_removed = hardening_verify_removed,
#endif
        .argument_count = (uint32_t)program->arguments.count,
        .environment_count = (uint32_t)program->environment.count,
        .read_count = (uint32_t)lists->read_paths.count,
        .write_count = (uint32_t)lists->write_paths.count,
        .device_count = (uint32_t)lists->device_paths.count,
    };
    if (lists->flags & PLAN_ZYGOTE && lists->flags & PLAN_OWN_UID) {
        plan.first_uid = box->identity->first_uid;
        plan.uid_count = box->identity->uid_count;
    }
    if (!(lists->flags & PLAN_FORKED)) /* a fork has its parent's; the launcher lowers them */
        plan_rlimits(box, &plan);
    const struct string_list *const paths[] = {&lists->read_paths, &lists->write_paths, &lists->device_paths};
    int fd = pack_plan(&plan, program, paths, sizeof paths / sizeof *paths, err);
    if (fd < 0)
        return fd;
    launch->plan_fd = fd;
    return 0;
}

int launch_pack_program(const struct program *program, uint32_t flags, struct error *err)
{
    const struct init_plan plan = {.magic = PLAN_MAGIC,
                                   .flags = flags,
                                   .argument_count = (uint32_t)program->arguments.count,
                                   .environment_count = (uint32_t)program->environment.count};
    return pack_plan(&plan, program, NULL, 0, err);
}

int launch_pack_file(const char *name, struct slice bytes, struct error *err)
{
    int fd = sealed_memfd(name, bytes.data, bytes.length);
    if (fd >= 0 && fchmod(fd, 0555) < 0) {
        int code = -errno;
        close(fd);
        fd = code;
    }
    return fd < 0 ? error_host(err, fd, "cannot pass a program on") : fd;
}

struct slice launch_init_program(void)
{
    return (struct slice){init_blob_start, (size_t)(init_blob_end - init_blob_start)};
}

enum { INIT_PROGRAM_FD = 5 };

int launch_take_places(struct launch *launch)
{
    enum { CLEAR_OF_TARGETS = 16 };
    const int wanted[] = {launch->child_stdin,   launch->child_stdout, launch->child_stderr,
                          launch->child_control, launch->plan_fd,      launch->init_fd,
                          launch->child_channel};
    enum { MOST = sizeof wanted / sizeof *wanted };
    const int count = launch->child_channel >= 0 ? MOST : INIT_CHANNEL_FD;
    int moved[MOST];
    for (int i = 0; i < count; i++) {
        moved[i] = fcntl(wanted[i], F_DUPFD_CLOEXEC, CLEAR_OF_TARGETS);
        if (moved[i] < 0)
            return -errno;
    }
    for (int i = 0; i < count; i++)
        if (dup3(moved[i], i, i == INIT_PROGRAM_FD ? O_CLOEXEC : 0) < 0 && moved[i] != i)
            return -errno;
    launch->child_control = INIT_CONTROL_FD; /* for a last word, should the exec fail */
    if (!hardening_removed(close_descriptors) && syscall(SYS_close_range, count, ~0U, 0) < 0)
        return -errno;
    /* Ignored signals and masks are inherited across exec: the guest starts with none of ours. */
    process_signals_reset();
    return 0;
}

int launch_exec_init(struct launch *launch)
{
    int status = launch_take_places(launch);
    if (status < 0)
        return status;
    char *arguments[] = {(char[]){"init"}, NULL};
    char *environment[] = {NULL};
    extern char **environ;
    syscall(SYS_execveat, INIT_PROGRAM_FD, "", arguments,
            hardening_removed(clean_environment) ? environ : environment, AT_EMPTY_PATH);
    return -errno;
}

void launch_child_fail(const struct launch *launch, const struct error *err)
{
    struct init_message message = {
        .kind = INIT_FAILED, .code = err->code, .is_layer = err->kind == ERROR_LAYER ? 1 : 0};
    snprintf(message.subject, sizeof message.subject, "%s", err->subject);
    snprintf(message.text, sizeof message.text, "%.*s", (int)sizeof message.text - 1, err->text);
    process_send(launch->child_control, &message, sizeof message, -1);
    _exit(70);
}

int launch_report_failure(const struct init_message *message, struct error *err)
{
    int code = message->code < 0 ? message->code : -EIO;
    error_layer(err, message->subject, 0, "%s", message->text); /* the text names its errno already */
    if (err) {
        err->kind = message->is_layer ? ERROR_LAYER : ERROR_HOST;
        err->code = code;
    }
    return code;
}

/* What is seen of an init that has failed meanwhile is beside the point: its own words come first. */
static int prefer_own_report(struct box *box, struct error *err)
{
    struct pollfd polled = {.fd = box->control_fd, .events = POLLIN};
    struct init_message message;
    while (poll(&polled, 1, 200) > 0) {
        scope_fd fd = -1;
        if (process_receive(box->control_fd, &message, sizeof message, &fd) != (int)sizeof message)
            break;
        message.subject[sizeof message.subject - 1] = message.text[sizeof message.text - 1] = '\0';
        if (message.kind == INIT_FAILED)
            return launch_report_failure(&message, err);
        if (message.kind == INIT_VERIFIED)
            break;
    }
    return err ? err->code : -EIO;
}

int launch_give_the_word(struct box *box, struct error *err)
{
    char order = INIT_GO;
    process_let_roam(&box->apart); /* or its program would inherit where it may run */
    box->started_us = clock_monotonic_us();
    int status = process_send(box->control_fd, &order, 1, -1);
    return status < 0 ? error_host(err, status, "cannot give the box the word to go") : 0;
}

static int await_verified(struct box *box, int timeout_ms, int (*inspect)(void *data, struct error *err),
                          void *data, struct error *err)
{
    bool is_inspected = !inspect;
    for (;;) {
        struct pollfd polled[] = {{.fd = box->control_fd, .events = POLLIN},
                                  {.fd = box->listener_fd, .events = POLLIN}};
        int ready = poll(polled, 2, timeout_ms);
        if (ready < 0 && errno == EINTR)
            continue;
        const char *call = NULL;
        /* The proofs themselves may ask. Init's words come first: after them it may be the program that
         * calls. */
        if (ready > 0 && !polled[0].revents && polled[1].revents & POLLIN) {
            if (box->engine->answer(box, &call))
                return error_layer(err, "seccomp", 0, "the self-test made a call that ends the box (%s)",
                                   call ? call : "?");
            continue;
        }
        if (ready <= 0)
            return error_host(err, ready ? -errno : -ETIMEDOUT, "the box did not come up");
        struct init_message message;
        scope_fd fd = -1;
        int length = process_receive(box->control_fd, &message, sizeof message, &fd);
        if (length == 0)
            return error_host(err, -EPIPE, "the box ended before it was ready");
        if (length != (int)sizeof message)
            return error_host(err, length < 0 ? length : -EPROTO, "init sent a message of a wrong size");
        message.subject[sizeof message.subject - 1] = message.text[sizeof message.text - 1] = '\0';
        switch (message.kind) {
        case INIT_FAILED:
            return launch_report_failure(&message, err);
        /* In a fork the program that was forked holds this socket too: what is made for it comes another way.
         */
        case INIT_SCRATCH:
            if (box->scratch_fd >= 0 || box->is_fork)
                return error_host(err, -EPROTO, "init sent a message twice");
            box->scratch_fd = take_fd(&fd);
            break;
        case INIT_RULESET:
            if (box->ruleset_fd >= 0 || box->is_fork)
                return error_host(err, -EPROTO, "init sent a message twice");
            box->ruleset_fd = take_fd(&fd);
            break;
        case INIT_LISTENER:
            if (box->listener_fd >= 0)
                return error_host(err, -EPROTO, "init sent a message twice");
            box->listener_fd = take_fd(&fd);
            if (!is_inspected)
                return error_host(err, -EPROTO, "init did not say that it is inside");
            if (launch_give_the_word(box, err) < 0)
                return prefer_own_report(box, err);
            break;
        case INIT_ENTERED:
            if (is_inspected)
                return error_host(err, -EPROTO, "init sent a message twice");
            if (inspect(data, err) < 0)
                return prefer_own_report(box, err);
            is_inspected = true;
            break;
        case INIT_VERIFIED:
            if (message.landlock_abi < box->landlock_abi && !hardening_removed(landlock))
                return error_layer(err, "landlock", 0, "the box reports Landlock %d on a kernel with %d",
                                   message.landlock_abi, box->landlock_abi);
            box->landlock_scoped = message.landlock_scopes != 0;
            snprintf(box->kernel, sizeof box->kernel, "%.*s", (int)sizeof box->kernel - 1, message.text);
            if (!is_inspected)
                return error_host(err, -EPROTO, "init did not say that it is inside");
            if (box->waits_for_word)
                return 0;
            return box->started_us ? 0
                                   : launch_give_the_word(box, err); /* no listener could be had: only now */
        case INIT_ENDED:
            return error_layer(err, "seccomp", 0, "the box ended while it was made (%s %d)",
                               WIFSIGNALED(message.wait_status) ? "signal" : "exit code",
                               WIFSIGNALED(message.wait_status) ? WTERMSIG(message.wait_status)
                                                                : WEXITSTATUS(message.wait_status));
        default:
            return error_host(err, -EPROTO, "init sent an unknown message");
        }
    }
}

int launch_await_verified(struct box *box, int timeout_ms, int (*inspect)(void *data, struct error *err),
                          void *data, struct error *err)
{
    int status = await_verified(box, timeout_ms, inspect, data, err);
    if (!box->is_fork) /* whose program is looked at yet */
        process_roam(&box->apart);
    return status;
}
