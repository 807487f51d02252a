#include "engine/container/forking.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/scope.h"
#include "base/thread.h"
#include "engine/container/identity.h"
#include "engine/container/inspect.h"
#include "engine/container/room.h"
#include "engine/fork_talk.h"
#include "engine/launch.h"
#include "engine/notify.h"
#include "os/fork_flags.h"
#include "os/hardening.h"
#include "os/process.h"
#include "os/seccomp/filter.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/nsfs.h>
#include <linux/sched.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { COPY_MS = 60000, LOOK_MS = 50 };

struct member {
    struct member *next;
    const struct box *box;
    ino_t pid_namespace;
    int told_fd; /* numbers of calls that end it; -1 for the first of the family */
    bool has_namespaces;
    struct look_namespaces namespaces; /* of its program, once it was forked */
};

struct family {
    pthread_mutex_t forking; /* held for the length of a fork; of the host's namespaces too */
    bool has_host;
    struct look_namespaces host;
    bool has_forked, is_stripped; /* of what forks have anew: the first of the family is a zygote */
    pthread_mutex_t lock;         /* of what follows */
    struct member *members;
    unsigned references;
    pid_t may_make_init, may_copy; /* whose clone passes, once; 0: nobody's */
    bool waits_apart;              /* who waits for that has a CPU of its own: it is told first */
    pthread_cond_t passed;         /* one of them has */
};

int forking_prepare(struct box *box, struct error *err)
{
    struct family *family = calloc(1, sizeof *family);
    if (!family)
        return error_host(err, -ENOMEM, "no memory for a family of boxes");
    pthread_mutex_init(&family->forking, NULL);
    pthread_mutex_init(&family->lock, NULL);
    thread_condition_init(&family->passed);
    family->references = 1;
    box->family = family;
    room_expect_forks();
    return identity_continue_line(NULL, box, err);
}

static ino_t pid_namespace_of(pid_t pid)
{
    char path[48];
    struct stat status;
    snprintf(path, sizeof path, "/proc/%d/ns/pid", (int)pid);
    return stat(path, &status) < 0 ? 0 : status.st_ino;
}

static int add_member(struct box *box, int told_fd)
{
    struct member *member = malloc(sizeof *member);
    if (!member)
        return -ENOMEM;
    *member = (struct member){.box = box, .pid_namespace = pid_namespace_of(box->pid), .told_fd = told_fd};
    pthread_mutex_lock(&box->family->lock);
    member->next = box->family->members;
    box->family->members = member;
    pthread_mutex_unlock(&box->family->lock);
    return 0;
}

void forking_leave(struct box *box)
{
    struct family *family = box->family;
    if (!family)
        return;
    box->family = NULL;
    pthread_mutex_lock(&family->lock);
    for (struct member **at = &family->members; *at; at = &(*at)->next)
        if ((*at)->box == box) {
            struct member *gone = *at;
            *at = gone->next;
            scope_close_fd(&gone->told_fd);
            free(gone);
            break;
        }
    bool is_last = --family->references == 0;
    pthread_mutex_unlock(&family->lock);
    if (!is_last)
        return;
    pthread_mutex_destroy(&family->lock);
    pthread_cond_destroy(&family->passed);
    pthread_mutex_destroy(&family->forking);
    free(family);
}

/* The first child of an init is its program; others are orphans that it adopted. */
static pid_t child_of(pid_t init, bool *ret_has_more)
{
    char path[64], text[64];
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)init, (int)init);
    int length = file_read_attribute(AT_FDCWD, path, text, sizeof text);
    char *end = NULL;
    long pid = length > 0 ? strtol(text, &end, 10) : 0;
    while (end && *end == ' ')
        end++;
    *ret_has_more = end && *end != '\0' && *end != '\n';
    return pid > 0 ? (pid_t)pid : -1;
}

/* Late, because a box counts as started before its program has done so. */
static int find_program(struct box *box, struct error *err)
{
    bool has_orphans;
    if (box->program_pid > 0)
        return 0;
    box->program_pid = child_of(box->pid, &has_orphans);
    if (box->program_pid < 0)
        return error_host(err, -ESRCH, "the program of a box that is to be forked cannot be found");
    int status = add_member(box, -1);
    return status < 0 ? error_host(err, status, "no memory for a family of boxes") : 0;
}

static struct member *member_of(const struct box *box)
{
    pthread_mutex_lock(&box->family->lock);
    struct member *member = box->family->members;
    while (member && member->box != box)
        member = member->next;
    pthread_mutex_unlock(&box->family->lock);
    return member;
}

static int find_kin(struct box *parent, struct inspect_kin *ret, struct error *err)
{
    int status = find_program(parent, err);
    struct family *family = parent->family;
    struct member *member = status < 0 ? NULL : member_of(parent);
    if (status == 0 && !family->has_host) {
        status = inspect_namespaces_of(getpid(), &family->host, err);
        family->has_host = status == 0;
    }
    if (status == 0 && !member->has_namespaces) {
        status = inspect_namespaces_of(parent->program_pid, &member->namespaces, err);
        member->has_namespaces = status == 0;
    }
    if (status == 0)
        *ret = (struct inspect_kin){.host = family->host, .parent = member->namespaces};
    return status;
}

static void let_pass(struct family *family, pid_t makes_init, pid_t copies)
{
    pthread_mutex_lock(&family->lock);
    family->may_make_init = makes_init;
    family->may_copy = copies;
    pthread_mutex_unlock(&family->lock);
}

/* One of the two clones of a fork: does it belong to an order? */
static bool is_ordered(struct family *family, const struct seccomp_notif *call)
{
    uint32_t flags = (uint32_t)call->data.args[0];
    pid_t caller = (pid_t)call->pid;
    if (!family)
        return false;
    pthread_mutex_lock(&family->lock);
    bool makes_init = flags == (uint32_t)FORK_INIT_FLAGS || flags == (uint32_t)FORK_PLACE_FLAGS;
    pid_t *permission = makes_init ? &family->may_make_init : &family->may_copy;
    bool passes = *permission != 0 && *permission == caller;
    if (passes)
        *permission = 0;
    if (passes && family->waits_apart)
        pthread_cond_broadcast(&family->passed);
    pthread_mutex_unlock(&family->lock);
    return passes;
}

static void answer_clone(struct box *box, const struct seccomp_notif *call)
{
    if (!is_ordered(box->family, call)) {
        notify_answer(box, call->id, EPERM);
        return;
    }
    notify_continue(box, call->id); /* its flags are in a register: nobody can change them now */
    /* Afterwards, if not before: who is woken may take our CPU, and the call would wait for that. But who
     * made the call may take it too, and keeps it for as long as the copy takes. */
    pthread_mutex_lock(&box->family->lock);
    pthread_cond_broadcast(&box->family->passed);
    pthread_mutex_unlock(&box->family->lock);
}

/* True: the box itself made the call, and must end. Else it was another of its family, which is told. */
static bool concerns(struct box *box, const struct seccomp_notif *call)
{
    struct family *family = box->family;
    if (!family)
        return true;
    ino_t namespace = pid_namespace_of((pid_t)call->pid);
    pthread_mutex_lock(&family->lock);
    bool is_own = !family->members; /* never forked: there is nobody else */
    for (struct member *member = family->members; namespace && member; member = member->next) {
        if (member->pid_namespace != namespace)
            continue;
        if (member->told_fd < 0)
            is_own = true;
        else if (write(member->told_fd, &call->data.nr, sizeof call->data.nr) < 0)
            continue; /* it was told so often that its pipe is full: it knows */
    }
    pthread_mutex_unlock(&family->lock);
    return is_own;
}

bool forking_answer(struct box *box, const char **ret_call)
{
    if (box->is_fork) {
        int number;
        if (read(box->listener_fd, &number, sizeof number) != sizeof number)
            return false;
        *ret_call = seccomp_call_name(number);
        return true;
    }
    struct seccomp_notif call;
    if (!notify_receive(box->listener_fd, &call))
        return false;
    if (call.data.nr == SYS_clone) {
        answer_clone(box, &call);
        return false;
    }
    *ret_call = seccomp_call_name(call.data.nr);
    return concerns(box, &call); /* not answered: the call waits until its box is gone */
}

/* The number of a process in its own pid namespace; 0: unknown. */
static long inner_pid_of(pid_t pid)
{
    char path[64], text[8192];
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    const char *line =
        file_read_attribute(AT_FDCWD, path, text, sizeof text) > 0 ? strstr(text, "\nNSpid:") : NULL;
    long number = 0;
    int length = 0;
    for (line = line ? line + strlen("\nNSpid:") : ""; sscanf(line, "%ld%n", &number, &length) == 1;
         line += length)
        ;
    return number;
}

/* Its user namespace must be a new one right below the parent's: then it is what we ordered, and not just
 * some process of that number. It must be the first of its pid namespace: its end is the end of all that ever
 * has power in the new user namespace. */
static int check_descent(const struct box *parent, pid_t pid, struct error *err)
{
    char path[64];
    struct stat above, wanted;
    if (inner_pid_of(pid) != 1)
        return error_layer(err, "namespaces", 0, "the forked box speaks by another than its first process");
    snprintf(path, sizeof path, "/proc/%d/ns/user", (int)pid);
    scope_fd own = open(path, O_RDONLY | O_CLOEXEC);
    scope_fd parents = own < 0 ? -1 : ioctl(own, NS_GET_PARENT);
    snprintf(path, sizeof path, "/proc/%d/ns/user", (int)parent->program_pid);
    if (parents < 0 || fstat(parents, &above) < 0 || stat(path, &wanted) < 0 ||
        above.st_ino != wanted.st_ino || above.st_dev != wanted.st_dev)
        return error_layer(err, "namespaces", 0, "the forked box is not below its parent's user namespace");
    return 0;
}

struct errand {
    const struct room *room;
    int words_fd, pidfd;
    int (*work)(const struct room *room, int pidfd, struct error *err);
    bool is_done;
};

static int run_errand(void *data)
{
    struct errand *errand = data;
    struct error reason = {0};
    struct launch words = LAUNCH_UNSET;
    words.child_control = errand->words_fd;
    if (errand->work(errand->room, errand->pidfd, &reason) < 0)
        launch_child_fail(&words, &reason);
    errand->is_done = true;
    _exit(0);
}

/* What is done inside the namespaces of a box is done by a child of ours. What went wrong it says over
 * `words`, as init does. One that copies files needs more of a stack, and is a process of its own. */
static int in_helper(struct errand *errand, bool is_long, struct error *err)
{
    int status;
    if (!is_long) {
        status = process_call_apart(run_errand, errand);
    } else {
        scope_fd helper_fd = -1;
        pid_t helper = process_clone(0, -1, &helper_fd);
        if (helper == 0)
            run_errand(errand);
        int how = 1;
        struct pollfd polled = {.fd = helper_fd, .events = POLLIN};
        /* Who is copied may go on writing, and who is to have it may go on removing: without an end it would
         * not come to one. */
        if (helper > 0 && poll(&polled, 1, COPY_MS) == 0)
            process_pidfd_kill(helper_fd, SIGKILL);
        while (helper > 0 && waitpid(helper, &how, __WALL) < 0 && errno == EINTR)
            ;
        errand->is_done = how == 0;
        status = helper < 0 ? helper : 0;
    }
    if (status < 0)
        return error_host(err, status, "cannot start a helper");
    return errand->is_done ? 0 : error_host(err, -EIO, "a helper failed");
}

/* The place of an input, in a directory that nobody but us can write to. */
static int make_place(const struct box *box, const struct grant_shown *grant)
{
    const char *name = strrchr(grant->path, '/') + 1;
    scope_fd inputs = openat(box->scratch_fd, BOX_INPUT, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (inputs < 0)
        return -errno;
    if (grant->is_directory)
        return mkdirat(inputs, name, 0755) < 0 ? -errno : 0;
    scope_fd place = openat(inputs, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0444);
    return place < 0 ? -errno : 0;
}

int forking_show_inputs(struct box *box, struct error *err)
{
    struct room room __attribute__((cleanup(room_close))) = {.box = box};
    int words[2];
    int status = room_open(&room, err);
    for (size_t i = 0; status == 0 && i < room.grants.count; i++)
        if ((status = make_place(box, &room.grants.shown[i])) < 0)
            error_host(err, status, "cannot show /%s in the box", room.grants.shown[i].path);
    if (status < 0)
        return status;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, words) < 0)
        return error_host(err, -errno, "cannot start a helper");
    scope_fd ours = words[0];
    scope_fd theirs = words[1];
    struct errand errand = {.room = &room, .words_fd = theirs, .pidfd = box->pidfd, .work = room_show_inputs};
    status = in_helper(&errand, false, err);
    struct init_message message;
    if (status < 0 && recv(ours, &message, sizeof message, MSG_DONTWAIT) == (ssize_t)sizeof message) {
        message.text[sizeof message.text - 1] = '\0';
        error_host(err, 0, "%s", message.text);
    }
    return status;
}

/* A zygote is through with its own files when it has been forked for the first time: before that it looks at
 * what memory a copy uses. */
static int strip(struct box *parent, struct error *err)
{
    struct errand errand = {.words_fd = -1, .pidfd = parent->pidfd, .work = room_strip};
    if (!parent->is_for_others || !parent->family->has_forked || parent->family->is_stripped)
        return 0;
    parent->family->is_stripped = true;
    return in_helper(&errand, false, err);
}

static int make_groups(struct box *child, const struct cgroup_limits *limits, struct error *err)
{
    int status = cgroup_create(child->cgroups, child->identity->name, limits, &child->group, err);
    if (status == 0) /* here, where nobody waits for it */
        status = cgroup_verify_limits(&child->group, limits, err);
    if (status == 0)
        status = cgroup_join_open(&child->group, err);
    return status < 0 ? status : cgroup_usage_open(&child->group, err);
}

static int order_fork(const struct box *parent, const struct launch *launch,
                      const struct fork_request *request, struct error *err)
{
    int fds[PROCESS_DESCRIPTORS_MAX];
    size_t count = fork_list_descriptors(launch, fds);
    let_pass(parent->family, parent->program_pid, 0);
    int status = request->order(request->data, fds, count);
    return status < 0 ? error_host(err, status, "the program cannot be told to fork") : 0;
}

/* From the order to a first process that has its user, and to its groups. */
static int make_first_process(struct box *parent, struct box *child, const struct cgroup_limits *limits,
                              const struct fork_request *request, struct error *err)
{
    int status = make_groups(child, limits, err); /* while it is being made, which takes as long */
    if (status < 0)
        return status;
    pid_t pid = fork_await_first_process(child, request, err);
    if (pid < 0)
        return pid;
    scope_fd pidfd = process_pidfd_open(pid);
    if (pidfd < 0)
        return error_host(err, pidfd, "the forked box ended before it was ready");
    if ((status = check_descent(parent, pid, err)) < 0)
        return status; /* not ours to kill: the number may be somebody else's by now */
    child->pidfd = take_fd(&pidfd);
    child->pid = pid;
    return identity_map_fork(child, parent->program_pid, pid, err);
}

static int say(int fd, char order, struct error *err)
{
    ssize_t sent = send(fd, &order, 1, MSG_NOSIGNAL);
    return sent == 1 ? 0 : error_host(err, sent < 0 ? -errno : -EIO, "the forked box is gone");
}

/* The first process may go on, into its groups. */
static int let_in(const struct box *child, const struct fork_request *request, struct error *err)
{
    (void)request;
    int fds[CGROUP_CONTROLLERS];
    size_t count = 0;
    char order = INIT_ENTER;
    for (int i = 0; i < CGROUP_CONTROLLERS; i++)
        if (child->group.join_fd[i] >= 0)
            fds[count++] = child->group.join_fd[i];
    int status = process_send_many(child->control_fd, &order, 1, fds, count);
    return status < 0 ? error_host(err, status, "the forked box is gone") : 0;
}

/* The copy may go on, with the rules for its files. */
static int let_settle(const struct box *child, struct error *err)
{
    if (child->ruleset_fd < 0)
        return say(child->channel_fd, INIT_ENTER, err);
    char order = INIT_ENTER;
    int status = process_send(child->channel_fd, &order, 1, child->ruleset_fd);
    return status < 0 ? error_host(err, status, "the forked box is gone") : 0;
}

/* Init has executed and the program is there: the parent's program goes on, and we look at both. */
static int inspect_both(const struct inspect_kin *kin, struct box *child, const struct stat *init_program,
                        bool opens_files, struct error *err)
{
    bool has_more = false;
    child->program_pid = child_of(child->pid, &has_more);
    if (child->program_pid < 0 || has_more)
        return error_layer(err, "namespaces", 0, "the forked box has no program, or more than one");
    int status = inspect_fork_alone(child, err);
    if (status == 0 && opens_files) /* it may open its files, while we look at the rest */
        status = say(child->channel_fd, INIT_GO, err);
    return status < 0 ? status : inspect_fork(kin, child, init_program, err);
}

/* What the helper made comes over a socket that nobody else has. */
static int take_made(struct box *child, int words_fd, struct error *err)
{
    for (;;) {
        struct init_message message;
        scope_fd fd = -1;
        if (process_receive(words_fd, &message, sizeof message, &fd) != (int)sizeof message)
            return 0;
        message.subject[sizeof message.subject - 1] = message.text[sizeof message.text - 1] = '\0';
        if (message.kind == INIT_FAILED)
            return launch_report_failure(&message, err);
        if (message.kind == INIT_SCRATCH && child->scratch_fd < 0)
            child->scratch_fd = take_fd(&fd);
        else if (message.kind == INIT_RULESET && child->ruleset_fd < 0)
            child->ruleset_fd = take_fd(&fd);
    }
}

static int furnish(struct box *child, struct room *room, struct error *err)
{
    int words[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, words) < 0)
        return error_host(err, -errno, "cannot start a helper");
    scope_fd ours = words[0];
    struct launch apart = LAUNCH_UNSET;
    apart.child_control = words[1];
    room->launch = &apart;
    struct errand errand = {
        .room = room, .words_fd = apart.child_control, .pidfd = child->pidfd, .work = room_refurnish};
    struct error failure = {0};
    room->has_files = room->files_fd >= 0 && room_finds_files(room->files_fd);
    int furnished = in_helper(&errand, room->has_files, &failure);
    launch_close(&apart);
    room->launch = NULL;
    int status = take_made(child, ours, err); /* its own words come first */
    if (status == 0 && furnished < 0 && err)
        *err = failure;
    return status < 0 ? status : furnished;
}

static int join_family(struct box *parent, struct box *child, struct error *err)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
        return error_host(err, -errno, "cannot make a pipe");
    child->family = parent->family;
    pthread_mutex_lock(&child->family->lock);
    child->family->references++;
    pthread_mutex_unlock(&child->family->lock);
    child->listener_fd = ends[0];
    int status = add_member(child, ends[1]);
    if (status < 0)
        close(ends[1]);
    return status < 0 ? error_host(err, status, "no memory for a family of boxes") : 0;
}

/* Its first process has what it waited for, and makes the copy. `go` gives it that. */
static int await_copy(struct family *family, struct box *child, const struct fork_request *request,
                      int (*go)(const struct box *child, const struct fork_request *request,
                                struct error *err),
                      struct error *err)
{
    let_pass(family, 0, child->pid);
    if (request->is_alone)
        process_stay_apart(&child->apart, child->pid); /* it copies memory while we furnish its place */
    pthread_mutex_lock(&family->lock);
    family->waits_apart = child->apart.we_are;
    pthread_mutex_unlock(&family->lock);
    int status = go(child, request, err);
    int64_t until_us = clock_monotonic_us() + FORK_STEP_MS * 1000;
    struct pollfd polled = {.fd = child->pidfd, .events = POLLIN};
    pthread_mutex_lock(&family->lock);
    while (status == 0 && family->may_copy) {
        /* Who has died makes no copy; all that would be forked from it waits for us. */
        const struct timespec look = clock_in_ms(LOOK_MS);
        if (pthread_cond_timedwait(&family->passed, &family->lock, &look) != 0 && family->may_copy)
            status = poll(&polled, 1, 0) > 0 ? -ESRCH : clock_monotonic_us() > until_us ? -ETIMEDOUT : 0;
    }
    pthread_mutex_unlock(&family->lock);
    return status < 0 ? error_host(err, status, "the program did not fork") : 0;
}

/* The program's own part, one at a time: until the copy is made. */
static int make_copy(struct box *parent, struct box *child, const struct cgroup_limits *limits,
                     const struct fork_request *request, const struct launch *launch, struct error *err)
{
    int status = fork_ask_who_speaks(child, err);
    if (status == 0)
        status = order_fork(parent, launch, request, err);
    if (status < 0)
        return status;
    status = make_first_process(parent, child, limits, request, err);
    if (status == 0)
        status = await_copy(parent->family, child, request, let_in, err);
    parent->family->has_forked |= status == 0;
    if (status < 0 && status != -ECANCELED) { /* which is its own word already */
        scope_close_fd(&child->control_fd);
        fork_await_refusal(request);
    }
    return status;
}

/* Its place is furnished: what is left of it is its own, and the proof that it is. */
static int complete(struct box *parent, const struct inspect_kin *kin, struct box *child,
                    const struct fork_request *request, const struct stat *init_program, struct error *err)
{
    int status = join_family(parent, child, err);
    if (status == 0)
        status = let_settle(child, err);
    if (status == 0 && request->is_told)
        status = fork_await_copied(child, err);
    child->started_us = 1;             /* the word to go is given below, by us */
    process_bring_here(&child->apart); /* the copy settles where init was */
    if (status == 0)
        status = say(child->control_fd, INIT_GO, err);
    if (status == 0)
        status = launch_await_verified(child, FORK_STEP_MS, NULL, NULL, err);
    if (status == 0)
        status = fork_await_program(child, err);
    return status < 0 ? status : inspect_both(kin, child, init_program, request->with_files, err);
}

/* Its program has where it may run from its init. */
static void let_roam(struct box *child)
{
    struct process_apart of_program = child->apart;
    of_program.pid = child->program_pid;
    if (child->program_pid > 0)
        process_let_roam(&of_program);
    process_let_roam(&child->apart);
    process_roam(&child->apart);
}

static int look_at_init(const struct launch *launch, struct stat *ret, struct error *err)
{
    return fstat(launch->init_fd, ret) < 0 ? error_host(err, -errno, "cannot look at init") : 0;
}

/* All that an order brings. */
static int prepare(struct box *parent, struct box *child, const struct fork_request *request,
                   struct launch *launch, struct room *room, struct error *err)
{
    child->is_fork = true;
    int status = identity_continue_line(&parent->uid_line, child, err);
    if (status == 0)
        status = room_open(room, err);
    room->files_fd = request->with_files ? parent->scratch_fd : -1;
    if (status == 0)
        status = launch_open(child, launch, err);
    if (status == 0)
        status = launch_prepare(child, parent, launch, err);
    scope_plan_lists lists = {.flags = PLAN_CONTAINER | PLAN_OWN_UID | PLAN_MOUNTED_ROOT | PLAN_FORKED};
    if (child->image->is_host && child->spec->grant_count == 0)
        lists.flags |= PLAN_HOST_VIEW;
    child->init_stays = request->with_files;
    if (child->init_stays)
        lists.flags |= PLAN_STAYS;
    return status < 0 ? status : launch_write_plan(child, &lists, launch, err);
}

int forking_fork(struct box *parent, struct box *child, const struct fork_request *request,
                 const struct cgroup_limits *limits, struct error *err)
{
    scope_launch launch = LAUNCH_UNSET;
    struct room room __attribute__((cleanup(room_close))) = {.box = child, .launch = &launch};
    struct stat init_program;
    struct inspect_kin kin;
    int status = prepare(parent, child, request, &launch, &room, err);
    if (status == 0)
        status = look_at_init(&launch, &init_program, err);
    if (status < 0)
        return status;
    if (parent->init_stays)
        cgroup_end_singly(&parent->group); /* or its init would go with the rest, and the forks with that */
    pthread_mutex_lock(&parent->family->forking);
    status = find_kin(parent, &kin, err);
    if (status == 0 && !request->with_files)
        status = strip(parent, err);
    if (status == 0)
        status = make_copy(parent, child, limits, request, &launch, err);
    let_pass(parent->family, 0, 0);
    pthread_mutex_unlock(&parent->family->forking);
    if (status == 0)
        status = furnish(child, &room, err);
    launch_close(&launch); /* or we would never see the end of the pipes */
    if (status == 0)
        status = complete(parent, &kin, child, request, &init_program, err);
    let_roam(child);
    return status;
}

/* Up to where the first process waits, inside of its groups, for somebody who wants a copy. */
int forking_make_place(struct box *parent, struct box *child, const struct fork_request *request,
                       const struct cgroup_limits *limits, struct error *err)
{
    scope_launch launch = LAUNCH_UNSET;
    struct room room __attribute__((cleanup(room_close))) = {.box = child, .launch = &launch};
    struct inspect_kin kin;
    int status = prepare(parent, child, request, &launch, &room, err);
    if (status < 0)
        return status;
    pthread_mutex_lock(&parent->family->forking);
    status = find_kin(parent, &kin, err);
    if (status == 0)
        status = strip(parent, err);
    if (status == 0)
        status = fork_ask_who_speaks(child, err);
    if (status == 0)
        status = order_fork(parent, &launch, request, err);
    if (status == 0)
        status = make_first_process(parent, child, limits, request, err);
    let_pass(parent->family, 0, 0);
    pthread_mutex_unlock(&parent->family->forking);
    if (status == 0)
        status = let_in(child, request, err);
    return status < 0 ? status : furnish(child, &room, err);
}

static int let_copy(const struct box *child, const struct fork_request *request, struct error *err)
{
    const char order[2] = {INIT_COPY, request->haste};
    ssize_t sent = send(child->control_fd, order, sizeof order, MSG_NOSIGNAL);
    return sent == sizeof order ? 0
                                : error_host(err, sent < 0 ? -errno : -EIO, "the place of a fork is gone");
}

int forking_fill_place(struct box *parent, struct box *child, const struct fork_request *request,
                       struct error *err)
{
    struct stat init_program;
    struct inspect_kin kin;
    if (fstat(parent->init_fd, &init_program) < 0)
        return error_host(err, -errno, "cannot look at init");
    pthread_mutex_lock(&parent->family->forking);
    int status = find_kin(parent, &kin, err);
    if (status == 0)
        status = await_copy(parent->family, child, request, let_copy, err);
    let_pass(parent->family, 0, 0);
    pthread_mutex_unlock(&parent->family->forking);
    if (status == 0)
        status = complete(parent, &kin, child, request, &init_program, err);
    let_roam(child);
    return status;
}
