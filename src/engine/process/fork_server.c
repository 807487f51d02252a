#include "engine/process/fork_server.h"

#include "base/file.h"
#include "base/scope.h"
#include "engine/fork_talk.h"
#include "engine/launch.h"
#include "engine/look.h"
#include "engine/outside.h"
#include "engine/living.h"
#include "engine/process/memory_group.h"
#include "engine/process/place.h"
#include "engine/watchdog.h"
#include "os/hardening.h"
#include "os/process.h"
#include "os/process_tree.h"
#include "os/seccomp/filter.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ADOPTION_MS = 5000, LOOK_US = 200 };

/* Of a zygote. */
struct family {
    pthread_mutex_t forking; /* one order at a time, until the copy is made */
    int filter_fd, filter_alone_fd;
    char filters[16]; /* how many it wears, in the kernel's words */
};

bool fork_server_gives_users(const struct box *box)
{
    return fork_server_is_zygote(box) && box->identity->has_uid && !hardening_removed(box_uid);
}

/* A filter as a file, for a copy to install. */
static int pack_filter(enum policy_variant variant, bool has_listener, struct error *err)
{
    struct sock_filter code[SECCOMP_FILTER_MAX];
    size_t length = seccomp_filter_write(variant, has_listener, code);
    return launch_pack_file("filter", (struct slice){(const char *)code, length * sizeof *code}, err);
}

/* Its forks' filter is the one of a box that is started. */
static enum policy_variant variant_of_forks(const struct box *box)
{
    bool apart = box->identity->has_uid && !hardening_removed(box_uid) && box->landlock_abi >= 6;
    if (hardening_removed(
            seccomp)) /* a filter all the same, that lets everything through which a zygote may do */
        return POLICY_PROCESS_ZYGOTE;
    return apart ? POLICY_PROCESS : POLICY_PROCESS_SHARED_UID;
}

int fork_server_prepare(struct box *box, struct error *err)
{
    struct family *family = calloc(1, sizeof *family);
    if (!family)
        return error_host(err, -ENOMEM, "no memory for a zygote");
    *family = (struct family){.filter_fd = -1, .filter_alone_fd = -1};
    pthread_mutex_init(&family->forking, NULL);
    box->family = family;
    enum policy_variant variant = variant_of_forks(box);
    family->filter_fd = pack_filter(variant, true, err);
    if (family->filter_fd >= 0 && variant == POLICY_PROCESS)
        family->filter_alone_fd = pack_filter(variant, false, err);
    return family->filter_fd < 0 || (variant == POLICY_PROCESS && family->filter_alone_fd < 0) ? -EIO : 0;
}

void fork_server_leave(struct box *box)
{
    struct family *family = box->family;
    if (!family)
        return;
    box->family = NULL;
    scope_close_fd(&family->filter_fd);
    scope_close_fd(&family->filter_alone_fd);
    pthread_mutex_destroy(&family->forking);
    free(family);
}

static bool read_line(pid_t pid, const char *key, char *into, size_t size)
{
    char path[48], text[8192];
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    return file_read_attribute(AT_FDCWD, path, text, sizeof text) > 0 &&
           look_status_line(text, key, into, size);
}

static pid_t parent_of(pid_t pid)
{
    char line[32];
    return read_line(pid, "\nPPid:", line, sizeof line) ? (pid_t)strtol(line, NULL, 10) : -1;
}

/* Late, because a box counts as started before its program has done so. */
static int find_zygote(struct box *parent, struct error *err)
{
    struct family *family = parent->family;
    if (parent->program_pid > 0)
        return 0;
    pid_t pid;
    if (process_tree_list(parent->pid, &pid, 1) != 1 ||
        !read_line(pid, "\nSeccomp_filters:", family->filters, sizeof family->filters))
        return error_host(err, -ESRCH, "the program of a zygote cannot be found");
    parent->program_pid = pid;
    return 0;
}

/* From the order to a copy that waits. */
static int make_copy(struct box *parent, struct box *child, const struct launch *launch,
                     const struct fork_request *request, struct error *err)
{
    int fds[PROCESS_DESCRIPTORS_MAX];
    size_t count = fork_list_descriptors(launch, fds);
    int status = fork_ask_who_speaks(child, err);
    if (status == 0 && (status = request->order(request->data, fds, count)) < 0)
        error_host(err, status, "the zygote cannot be told to fork");
    pid_t pid = status < 0 ? status : fork_await_first_process(child, request, err);
    if (pid < 0)
        return pid;
    scope_fd pidfd = process_pidfd_open(pid);
    /* Between them is one that stands aside when it is not needed any more. */
    if (pidfd < 0 || parent_of(parent_of(pid)) != parent->program_pid)
        return error_host(err, pidfd < 0 ? pidfd : -EPROTO, "a fork does not come from its zygote");
    status = living_add(pid); /* before it is our child, or it would look like a stranger */
    if (status < 0)
        return error_host(err, status, "no memory for a box");
    child->pidfd = take_fd(&pidfd);
    child->pid = ((struct watchdog *)child->engine_data)->init = pid;
    const struct init_entry entry = {.order = INIT_ENTER,
                                     .uid = fork_server_gives_users(parent) ? child->identity->uid : 0};
    status = process_send(child->control_fd, &entry, sizeof entry, memory_group_join_fd(child));
    return status < 0 ? error_host(err, status, "a fork ended before it was ready")
                      : fork_await_program(child, err);
}

/* What the copy puts on, and where it stands. */
static int give_layers(const struct box *parent, const struct box *child, int ruleset_fd, struct error *err)
{
    const struct family *family = parent->family;
    scope_fd output = file_open_directory(child->scratch_fd, "output");
    if (output < 0)
        return error_host(err, output, "cannot open the directory of a fork");
    const struct init_entry entry = {.order = INIT_ENTER};
    const int gifts[GIFTS] = {[GIFT_DIRECTORY] = output,
                              [GIFT_RULESET] = ruleset_fd,
                              [GIFT_FILTER] = family->filter_fd,
                              [GIFT_FILTER_ALONE] = family->filter_alone_fd};
    int status = process_send_many(child->channel_fd, &entry, sizeof entry, gifts,
                                   family->filter_alone_fd >= 0 ? GIFTS : GIFT_FILTER_ALONE);
    return status < 0 ? error_host(err, status, "a fork ended before it was ready") : 0;
}

/* Who stood aside is gone when init has executed: from then on it is our child, and we can wait for it. */
static int await_adoption(const struct box *child, struct error *err)
{
    for (int waited_us = 0; waited_us < ADOPTION_MS * 1000; waited_us += LOOK_US) {
        if (parent_of(child->pid) == getpid())
            return 0;
        usleep(LOOK_US);
    }
    return error_host(err, -ECHILD, "the init of a fork is not our child");
}

/* One filter more than the zygote, which init has none of. */
static int inspect_filters(const struct family *family, const struct box *child, struct error *err)
{
    const long zygotes = strtol(family->filters, NULL, 10);
    char of_program[16], of_init[16];
    if (!read_line(child->program_pid, "\nSeccomp_filters:", of_program, sizeof of_program) ||
        !read_line(child->pid, "\nSeccomp_filters:", of_init, sizeof of_init) ||
        strtol(of_program, NULL, 10) != zygotes + 1 || strtol(of_init, NULL, 10) != zygotes)
        return error_layer(err, "seccomp", 0, "a fork does not wear the filter that it was given");
    return 0;
}

static int inspect_directory(const struct box *child, int process_fd, struct error *err)
{
    struct stat now, own;
    if (fstatat(process_fd, "cwd", &now, 0) < 0 || fstatat(child->scratch_fd, "output", &own, 0) < 0 ||
        now.st_dev != own.st_dev || now.st_ino != own.st_ino)
        return error_layer(err, "landlock", 0, "a fork is not in a directory of its own");
    return 0;
}

static int inspect(const struct box *parent, struct box *child, struct error *err)
{
    char program[16];
    if (process_tree_list(child->pid, &child->program_pid, 1) != 1)
        return error_host(err, -ESRCH, "a fork has no program, or more than one");
    snprintf(program, sizeof program, "%d", (int)child->program_pid);
    /* The program before init: an orphan goes from below the one to the other, and not back. */
    const pid_t processes[] = {child->program_pid, child->pid};
    const char *const children[] = {"", program};
    int status = 0;
    for (size_t i = 0; status == 0 && i < sizeof processes / sizeof *processes; i++) {
        char text[LOOK_STATUS_SIZE];
        scope_fd process_fd = look_open_process(processes[i]);
        if (process_fd < 0)
            return error_host(err, -errno, "a fork cannot be inspected");
        status = look_read_status(process_fd, text, err);
        if (status == 0)
            status = outside_check_identity(child, text, err);
        if (status == 0)
            status = outside_check_worn(text, child->identity->has_uid, err);
        if (status == 0 && i == 0)
            status = outside_check_descriptors(process_fd, err);
        if (status == 0 && i == 0)
            status = inspect_directory(child, process_fd, err);
        if (status == 0 && !outside_is_single(processes[i], process_fd, text, children[i]))
            return error_layer(err, "box_uid", 0, "somebody else is in a forked box");
    }
    return status < 0 ? status : inspect_filters(parent->family, child, err);
}

/* Everything around the copy that must be its own, and the proof that it is. */
static int make_box(const struct box *parent, struct box *child, struct launch *launch, int ruleset_fd,
                    struct error *err)
{
    int status = give_layers(parent, child, ruleset_fd, err);
    launch_close(launch); /* or we would never see the end of the pipes */
    if (status == 0)
        status = launch_await_verified(child, FORK_STEP_MS, NULL, NULL, err);
    if (status == 0)
        status = fork_await_program(child, err);
    if (status == 0)
        status = await_adoption(child, err);
    return status < 0 ? status : inspect(parent, child, err);
}

int fork_server_fork(struct box *parent, struct box *child, const struct fork_request *request,
                     struct result *result, struct error *err)
{
    scope_launch launch = LAUNCH_UNSET;
    scope_place_rules rules = PLACE_RULES_UNSET;
    child->landlock_abi = parent->landlock_abi;
    bool own_uid = child->identity->has_uid && !hardening_removed(box_uid);
    scope_plan_lists lists = {.flags = PLAN_FORKED | (own_uid ? PLAN_OWN_UID : 0) |
                                       (child->landlock_abi >= 6 ? PLAN_SIGNAL_SCOPE : 0)};
    int status = process_prepare(child, err);
    if (status == 0)
        status = launch_open(child, &launch, err);
    if (status == 0)
        status = launch_prepare(child, parent, &launch, err);
    if (status == 0)
        status = launch_write_plan(child, &lists, &launch, err);
    if (status == 0)
        status = memory_group_make_for_fork(child, err);
    if (status == 0)
        status = memory_group_verify(child, err);
    if (status == 0)
        status = place_rules_open(child, &rules, err);
    if (status == 0)
        status = place_furnish(child, &rules, err);
    if (status == 0)
        status = place_write_code(child, err);
    if (status < 0)
        return status;
    pthread_mutex_lock(&parent->family->forking);
    status = find_zygote(parent, err);
    if (status == 0)
        status = make_copy(parent, child, &launch, request, err);
    pthread_mutex_unlock(&parent->family->forking);
    if (status == 0)
        status = make_box(parent, child, &launch, rules.ruleset_fd, err);
    if (status < 0 && child->pid > 0) { /* whoever waits for its end must find it among our children */
        process_pidfd_kill(child->pidfd, SIGKILL);
        await_adoption(child, NULL);
        return status;
    }
    if (status == 0)
        process_list_layers(child, result);
    return status;
}
