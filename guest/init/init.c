/* cloche-init: the first process in a box, and the only one of ours in it.
 *
 * Theory of operation. The launcher builds the room (namespaces, root, groups, ids) and executes this program
 * in it from a sealed memfd, so that nothing of the launcher's memory, arguments or environment is inside.
 * Init puts on the last layers (rlimits, no_new_privs, Landlock, seccomp), proves all of them (verify.c),
 * reports, and waits for INIT_GO. Only then does it fork and execute the user's program. It reaps whatever is
 * orphaned, reports how the program ended, kills the rest, and exits.
 *
 * In a container init is pid 1 and wears the layers itself. In the process engine it is a subreaper that must
 * be able to kill what the program leaves behind, so only its child wears them; signal scope, another uid, or
 * the supervisor keeps the child's hands off it.
 *
 * If the launcher dies, the control socket closes, and init ends the box. */
#include "beside.h"
#include "layers.h"
#include "plan.h"
#include "pump.h"
#include "verify.h"

#include "base/clock.h"
#include "os/capabilities.h"
#include "os/hardening.h"
#include "os/process.h"
#include "os/process_tree.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

static struct init_plan *plan;
static char **strings;
static bool init_is_scoped;
static int64_t ends_us,
    paused_us; /* when the box ends by itself, and since when that stands still; 0: never, not */
static int output_fds[2] = {-1, -1}; /* of the program, where we carry them: see pump.h */

/* Without namespaces: init enters a scope before it has any child, so that its signals to everyone stay
 * inside. */
static void enter_own_scope(void)
{
    struct layers_fault fault = {0};
    if (plan->flags & PLAN_CONTAINER || !(plan->flags & PLAN_SIGNAL_SCOPE) || plan->flags & PLAN_OWN_UID)
        return;
    /* Believed only when it shows: our parent, the launcher, must be out of our reach now. An init that was
     * forked with its program has entered before that was there (guest/fork/plain.c). */
    if (plan->flags & PLAN_FORKED ||
        (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && layers_put_on_inner_scope(&fault) == 1))
        init_is_scoped = kill(getppid(), 0) < 0 && errno == EPERM;
}

static void die(const char *subject, int code, const char *text)
{
    struct init_message message = {.kind = INIT_FAILED, .code = code, .is_layer = subject != NULL};
    snprintf(message.subject, sizeof message.subject, "%s", subject ? subject : "");
    snprintf(message.text, sizeof message.text, code ? "%s: %s" : "%s", text, strerror(-code));
    process_send(INIT_CONTROL_FD, &message, sizeof message, -1);
    _exit(70);
}

static void plan_read(void)
{
    struct stat status;
    if (fstat(INIT_PLAN_FD, &status) < 0 || status.st_size < (off_t)sizeof *plan ||
        status.st_size > PLAN_SIZE_MAX)
        die(NULL, -EINVAL, "the plan has a wrong size");
    size_t size = (size_t)status.st_size;
    plan = malloc(size + 1);
    if (!plan || pread(INIT_PLAN_FD, plan, size, 0) != (ssize_t)size || plan->magic != PLAN_MAGIC ||
        plan->size != size)
        die(NULL, -EINVAL, "the plan cannot be read");
    ((char *)plan)[size] = '\0';
    close(INIT_PLAN_FD);
    size_t count = 1 + (size_t)plan->argument_count + plan->environment_count + plan->read_count +
                   plan->write_count + plan->device_count;
    strings = calloc(count + 1, sizeof *strings);
    char *at = (char *)(plan + 1), *end = (char *)plan + size;
    for (size_t i = 0; strings && i < count; i++) {
        if (at >= end)
            die(NULL, -EINVAL, "the plan has fewer strings than it says");
        strings[i] = at;
        at += strlen(at) + 1;
    }
    if (!strings)
        die(NULL, -ENOMEM, "no memory for the plan");
}

/* Lays argv and envp out as NULL-terminated lists: the strings stand one after the other without gaps. */
static char **list_of(size_t first, size_t count)
{
    char **list = calloc(count + 1, sizeof *list);
    if (!list)
        die(NULL, -ENOMEM, "no memory for the arguments");
    memcpy(list, strings + first, count * sizeof *list);
    return list;
}

/* The old root must be gone, and the masks there, before anything is proved about the new one. */
static void wait_for_helper(void)
{
    int status;
    pid_t pid;
    do
        pid = waitpid(-1, &status, __WALL);
    while (pid < 0 && errno == EINTR);
    if (pid > 0 && WIFEXITED(status) && WEXITSTATUS(status) == INIT_HELPER_UNMASKED)
        die("proc_mask", 0, "/proc could not be masked");
    if (pid <= 0 || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
        die("root", 0, "the host's root could not be detached");
}

/* The launcher makes the private directory, the group and the file rules while we are started. */
static int await_ruleset(void)
{
    char order = 0;
    int gifts[2];
    int length = process_receive_many(INIT_CONTROL_FD, &order, 1, gifts, 2);
    if (length != 1 || order != INIT_ENTER)
        _exit(71); /* the launcher is gone, or changed its mind */
    bool joins = plan->flags & PLAN_JOINS_GROUP;
    if (joins && (gifts[0] < 0 || write(gifts[0], "0", 1) != 1))
        die("cgroup", -errno, "cannot join the control group");
    if (joins)
        close(gifts[0]);
    int ruleset_fd = gifts[joins];
    if (ruleset_fd < 0 && !(hardening_removed(landlock) && hardening_removed(landlock_scope)))
        die("landlock", 0, "no ruleset came from the launcher");
    return ruleset_fd;
}

static void put_on_layers(void)
{
    size_t first = 1 + (size_t)plan->argument_count + plan->environment_count;
    struct layers_wanted wanted = {
        .plan = plan,
        .read_paths = strings + first,
        .write_paths = strings + first + plan->read_count,
        .device_paths = strings + first + plan->read_count + plan->write_count,
        .await_ruleset = await_ruleset,
    };
    struct layers_state state = {0};
    struct layers_fault fault = {0};
    if ((hardening_verified(close_descriptors) && verify_descriptors(plan, &fault) < 0) ||
        layers_put_on(&wanted, &state, &fault) < 0)
        die(fault.layer, fault.code, fault.text);
    if (plan->flags & PLAN_HELPED)
        wait_for_helper();
    if (layers_take_own_user(plan, &fault) < 0 || verify_layers(plan, &state, &fault) < 0)
        die(fault.layer, fault.code, fault.text);
    struct init_message message = {
        .kind = INIT_VERIFIED, .landlock_abi = state.landlock_abi, .landlock_scopes = state.landlock_scopes};
    struct utsname kernel;
    if (plan->flags & PLAN_RUNTIME_ROOT && uname(&kernel) == 0)
        snprintf(message.text, sizeof message.text, "%s %s", kernel.release, kernel.version);
    if (process_send(INIT_CONTROL_FD, &message, sizeof message, -1) < 0)
        _exit(70);
}

static void wait_for_go(void)
{
    char order = 0;
    ssize_t length;
    do
        length = read(INIT_CONTROL_FD, &order, 1);
    while (length < 0 && errno == EINTR);
    if (length < 0)
        die(NULL, -errno, "cannot wait for the word to go");
    if (length != 1 || order != INIT_GO)
        _exit(71); /* the launcher is gone, or changed its mind */
}

/* A program that was just written for us can be open for writing still, in a process that another thread of
 * the launcher's has just made: that has all descriptors until it lets go of them, which it does at once. */
static int execute(char **argv, char **envp)
{
    enum { PATIENCE_MS = 1000 };
    int code = -ETXTBSY;
    for (int i = 0; code == -ETXTBSY && i < PATIENCE_MS; i++) {
        if (i > 0)
            poll(NULL, 0, 1);
        execve(argv[0], argv, envp);
        code = -errno;
    }
    return code;
}

static void run_program(char **argv, char **envp)
{
    umask(022); /* whatever the caller's was */
    if (!hardening_removed(new_session) && setsid() < 0)
        die("new_session", -errno, "cannot make a session of its own");
    sigset_t none; /* only now: up to here a Ctrl-C at the launcher's terminal would have been for the program
                      too */
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    struct layers_fault fault = {0};
    if (plan->flags & PLAN_CONTAINER && plan->flags & PLAN_SIGNAL_SCOPE &&
        layers_put_on_inner_scope(&fault) < 0)
        die(fault.layer, fault.code, fault.text);
    struct init_message message = {.kind = INIT_EXEC_FAILED};
    for (int i = 0; i < 2; i++)
        if (output_fds[i] >= 0 && dup2(output_fds[i], 1 + i) < 0)
            die(NULL, -errno, "cannot give the program its streams");
    if (layers_take_program_user(plan, &fault) < 0)
        die(fault.layer, fault.code, fault.text);
    if (chdir(strings[0]) < 0) {
        message.kind = INIT_CHDIR_FAILED;
        message.code = -errno;
    } else {
        message.code = execute(argv, envp);
    }
    process_send(INIT_CONTROL_FD, &message, sizeof message, -1);
    _exit(127);
}

static pid_t start_program(char **argv, char **envp)
{
    if (plan->flags & PLAN_CONTAINER) {
        put_on_layers();
        wait_for_go();
    }
    /* We wait until the program is executed, and copy nothing: up to there the child only makes system calls.
     * If the launcher goes away meanwhile, the child reads it from the same socket and ends. */
    for (int i = 0; plan->flags & PLAN_COUNTED && i < 2; i++) {
        int to = fcntl(1 + i, F_DUPFD_CLOEXEC, INIT_CHANNEL_FD + 1);
        output_fds[i] = to < 0 ? -errno : pump_open(to, plan->program_uid);
        if (output_fds[i] < 0)
            die(NULL, output_fds[i], "cannot make the program's streams");
    }
    pid_t child = vfork();
    if (child < 0 && errno == EINVAL) /* kernels that change the time namespace at fork and not at exec */
        child = fork();
    if (child < 0)
        die(NULL, -errno, "cannot fork the program");
    if (child == 0) {
        if (!(plan->flags & PLAN_CONTAINER)) {
            put_on_layers();
            wait_for_go();
        }
        run_program(argv, envp);
    }
    return child;
}

/* Reaps all that have ended; true when the program is among them. */
static bool reap(pid_t program, int *ret_status)
{
    bool ended = false;
    for (;;) {
        int status;
        pid_t pid = waitpid(-1, &status, WNOHANG | __WALL);
        if (pid <= 0)
            return ended;
        beside_ended(pid, status);
        if (pid == program) {
            *ret_status = status;
            ended = true;
        }
    }
}

static void end_box(void)
{
    if (plan->flags & PLAN_CONTAINER)
        _exit(0); /* the kernel ends the rest of a pid namespace with its first process */
    /* With a uid of its own, or inside a signal scope, one kill(-1) reaches the box, all of it at once, and
     * only it. */
    process_tree_kill_children(plan->flags & PLAN_OWN_UID || init_is_scoped);
    _exit(0);
}

static bool signals_reach_box_only(void)
{
    return plan->flags & (PLAN_CONTAINER | PLAN_OWN_UID) || init_is_scoped;
}

static void pause_box(bool pauses)
{
    if (pauses == (paused_us != 0))
        return;
    process_tree_signal_children(signals_reach_box_only(), pauses ? SIGSTOP : SIGCONT);
    if (!pauses && ends_us)
        ends_us += clock_monotonic_us() - paused_us;
    paused_us = pauses ? clock_monotonic_us() : 0;
}

/* The launcher ends the box when its time is over. It may be stopped, or stuck, and then we do. */
static int left_ms(void)
{
    if (!ends_us || paused_us)
        return -1;
    int64_t left_us = ends_us - clock_monotonic_us();
    if (left_us <= 0)
        end_box();
    return (int)(left_us / 1000) + 1;
}

/* What the launcher wants; that it is gone means the end too. */
static void take_order(pid_t program)
{
    char order = INIT_STOP;
    /* The program waits for its INIT_GO on the same socket: leave that to it. */
    ssize_t length = recv(INIT_CONTROL_FD, &order, 1, MSG_PEEK | MSG_DONTWAIT);
    if (length == 1 && order == INIT_INTERRUPT) {
        recv(INIT_CONTROL_FD, &order, 1, MSG_DONTWAIT);
        if (program > 0)
            kill(program, SIGINT);
        struct init_message message = {.kind = INIT_INTERRUPTED};
        process_send(INIT_CONTROL_FD, &message, sizeof message, -1);
    } else if (length == 1 && (order == INIT_PAUSE || order == INIT_RESUME)) {
        recv(INIT_CONTROL_FD, &order, 1, MSG_DONTWAIT);
        pause_box(order == INIT_PAUSE);
    } else if (length == 1 && order == INIT_START_BESIDE && plan->flags & PLAN_CONTAINER) {
        beside_take_order(plan);
    } else if (length == 0 || (length == 1 && order != INIT_GO) ||
               (length < 0 && errno != EAGAIN && errno != EINTR)) {
        end_box();
    } else {
        usleep(200);
    }
}

/* In a kernel of its own the host sees nothing of the box's processes. How many there are is asked now and
 * then; that fork is refused at the limit is that kernel's business. */
enum { COUNT_SOON_MS = 50, COUNT_LATE_MS = 3200 };
static int count_period_ms = COUNT_SOON_MS;

static void count_processes(void)
{
    static int most, last;
    struct sysinfo now;
    if (!(plan->flags & PLAN_COUNTED) || sysinfo(&now) < 0)
        return;
    /* Where nothing changes, nothing is to be seen: a box that waits is left in peace. */
    bool changes = now.procs != last;
    count_period_ms = changes                           ? COUNT_SOON_MS
                      : count_period_ms < COUNT_LATE_MS ? 2 * count_period_ms
                                                        : COUNT_LATE_MS;
    last = now.procs;
    if (now.procs <= most)
        return;
    most = now.procs;
    struct init_message message = {.kind = INIT_COUNTED, .code = most - 1 /* we are one */};
    process_send(INIT_CONTROL_FD, &message, sizeof message, -1);
}

/* Without a pid namespace the launcher looks at how many there are now and then, and on a busy machine too
 * late for a program that starts many and ends. */
static void count_those_left(void)
{
    size_t left = plan->flags & PLAN_CONTAINER ? 0 : process_tree_count_children();
    struct init_message message = {.kind = INIT_COUNTED, .code = (int32_t)left + 1 /* the program */};
    if (left > 0)
        process_send(INIT_CONTROL_FD, &message, sizeof message, -1);
}

static void tell_end(int status)
{
    count_those_left();
    struct init_message message = {.kind = INIT_ENDED, .wait_status = status};
    process_send(INIT_CONTROL_FD, &message, sizeof message, -1);
    if (!(plan->flags & PLAN_STAYS))
        end_box();
}

/* In a kernel of the box's own the host cannot look at the program's name (guest/fork/farewell.c), so we do:
 * when its streams are closed, and nobody is there but it and us. */
static void hear_farewell(pid_t program)
{
    static bool has_listened;
    char path[32], name[32];
    struct sysinfo now;
    if (has_listened || !(plan->flags & PLAN_COUNTED))
        return;
    has_listened = true;
    snprintf(path, sizeof path, "/proc/%d/comm", (int)program);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length = fd < 0 ? -1 : read(fd, name, sizeof name);
    if (fd >= 0)
        close(fd);
    int code = init_farewell_code(name, (int)length);
    if (code >= 0 && sysinfo(&now) == 0 && now.procs <= 2)
        tell_end(code << 8); /* as wait would have it */
}

static void watch(pid_t program, int signal_fd)
{
    struct pollfd polled[2 + BESIDE_MAX + PUMPS_MAX] = {{.fd = INIT_CONTROL_FD, .events = POLLIN},
                                                        {.fd = signal_fd, .events = POLLIN}};
    for (;;) {
        int status = 0;
        count_processes(); /* before the dead are taken away */
        if (reap(program, &status)) {
            pump_drain(INIT_CONTROL_FD);
            tell_end(status);
            program = 0; /* from here on we only reap: what is left in the box, the launcher kills */
        }
        int others = beside_watched(polled + 2);
        int pumps = pump_watched(polled + 2 + others);
        if (pumps == 0)
            hear_farewell(program);
        int wait_ms = left_ms();
        if (plan->flags & PLAN_COUNTED && (wait_ms < 0 || wait_ms > count_period_ms))
            wait_ms = count_period_ms;
        if (poll(polled, (nfds_t)(2 + others + pumps), wait_ms) < 0 && errno != EINTR)
            end_box();
        if (polled[1].revents) {
            struct signalfd_siginfo discarded[8];
            if (read(signal_fd, discarded, sizeof discarded) < 0 && errno != EAGAIN)
                end_box();
        }
        pump_look(polled + 2 + others, pumps);
        beside_look(polled + 2, others);
        if (polled[0].revents)
            take_order(program);
    }
}

/* The interpreter forked us and our program in one go (guest/fork/fork.c): both wear its layers. The host has
 * looked at us from outside; we prove the rest when it says that the mounts are there. */
static void join_forked(void)
{
    if (!(plan->flags & PLAN_CONTAINER))
        return; /* the program wears its own, and proves them itself */
    wait_for_go();
    struct layers_state state = {0};
    struct layers_fault fault = {0};
    if ((hardening_verified(close_descriptors) && verify_descriptors(plan, &fault) < 0) ||
        verify_layers(plan, &state, &fault) < 0)
        die(fault.layer, fault.code, fault.text);
    struct init_message message = {.kind = INIT_VERIFIED};
    if (process_send(INIT_CONTROL_FD, &message, sizeof message, -1) < 0)
        _exit(70);
}

/* A zygote gives its forks their users, within a filter. Its init wears none, and needs no right to that. */
static void give_up_what_it_passed_on(void)
{
    if (layers_kept_capabilities(plan) == 0)
        return;
    int status = capabilities_drop_all();
    if (status == 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        status = -errno;
    if (status < 0)
        end_box();
}

int main(int argc, char **argv_of_init)
{
    if (!hardening_removed(init_dumpable))
        prctl(PR_SET_DUMPABLE, 0, 0, 0, 0); /* no /proc/1/mem, /proc/1/environ, /proc/1/fd for the program */
    plan_read();
#ifdef CLOCHE_TEST_HOOKS
    hardening_removed_mask = plan->removed_mask;
    hardening_verify_removed = plan->verify_removed;
    if (hardening_removed(init_dumpable))
        prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
#endif
    if (fcntl(INIT_CONTROL_FD, F_SETFD, FD_CLOEXEC) < 0) /* or the program would have it */
        die(NULL, -errno, "cannot keep the control socket to itself");
    if (!(plan->flags & (PLAN_CONTAINER | PLAN_ZYGOTE)) && prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0)
        die(NULL, -errno, "cannot become a subreaper");
    enter_own_scope();
    sigset_t child_signals;
    sigemptyset(&child_signals);
    sigaddset(&child_signals, SIGCHLD);
    sigprocmask(SIG_BLOCK, &child_signals, NULL);
    int signal_fd = signalfd(-1, &child_signals, SFD_CLOEXEC | SFD_NONBLOCK);
    if (signal_fd < 0)
        die(NULL, -errno, "cannot make a signalfd");
    if (plan->flags & PLAN_FORKED) {
        join_forked();
        watch(argc > 1 ? atoi(argv_of_init[1]) : -1, signal_fd);
    }
    char **argv = list_of(1, plan->argument_count);
    char **envp = list_of(1 + (size_t)plan->argument_count, plan->environment_count);
    pid_t program = start_program(argv, envp);
    if (plan->wall_ms)
        ends_us = clock_monotonic_us() + (int64_t)plan->wall_ms * 1000;
    give_up_what_it_passed_on();
    close(0); /* the program's stdio is its own: a pipe must end when the program closes it */
    close(1);
    close(2);
    for (int i = 0; i < 2; i++)
        if (output_fds[i] >= 0)
            close(output_fds[i]);
    if (plan->flags & PLAN_CHANNEL)
        close(INIT_CHANNEL_FD);
    watch(program, signal_fd);
}
