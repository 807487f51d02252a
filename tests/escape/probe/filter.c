/* The filter itself: other ways into the kernel, and ways to shake it off. */
#include "probe.h"
#include "abi.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* In a child: a kernel without the 32-bit entry answers by SIGSEGV. */
static int call_i386_call(const void *raw_call)
{
    const struct raw_call *call = raw_call;
    long result = abi_call_i386(call->number, call->arguments);
    return result < 0 ? (int)-result : 0;
}

static enum verdict i386_call_is_refused(const void *raw_call)
{
    const struct raw_call *call = raw_call;
    return judge_in_child(call->label, call_i386_call, call);
}

static enum verdict x32_call_is_refused(const void *raw_call)
{
    const struct raw_call *call = raw_call;
    long result = abi_call_native(call->number | ABI_X32_BIT, call->arguments);
    return judge_error(call->label, result < 0 ? (int)-result : 0);
}

/* The forbidden call that the probes below try under changed circumstances. */
static int open_network_socket(const void *unused)
{
    (void)unused;
    return socket(AF_INET, SOCK_STREAM, 0) < 0 ? errno : 0;
}

static int allow_everything_then_try(const void *unused)
{
    struct sock_filter code[] = {{BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW}};
    struct sock_fprog program = {1, code};
    /* Refused or not does not matter: stacked filters must not add up to more rights. */
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0);
    return open_network_socket(unused);
}

static enum verdict second_filter_frees_nothing(const void *unused)
{
    return judge_in_child("socket under a filter of our own", allow_everything_then_try, unused);
}

static void *thread_body(void *ret_error)
{
    *(int *)ret_error = open_network_socket(NULL);
    return NULL;
}

static enum verdict thread_is_filtered(const void *unused)
{
    (void)unused;
    pthread_t thread;
    int error = 0;
    int failed = pthread_create(&thread, NULL, thread_body, &error);
    if (failed)
        return undecided("pthread_create: %s", error_name(failed));
    pthread_join(thread, NULL);
    return judge_error("socket in a thread", error);
}

static int orphan_tries(const void *unused)
{
    setsid();
    int pipe_ends[2], error = 0;
    if (pipe(pipe_ends) < 0)
        return EIO;
    if (fork() == 0) {
        error = open_network_socket(unused);
        _exit(write(pipe_ends[1], &error, sizeof error) != sizeof error);
    }
    close(pipe_ends[1]);
    return read(pipe_ends[0], &error, sizeof error) == sizeof error ? error : EPERM;
}

static enum verdict daemon_is_filtered(const void *unused)
{
    return judge_in_child("socket in a daemon", orphan_tries, unused);
}

static int copy_of_program(const char *path)
{
    int from = open(path, O_RDONLY | O_CLOEXEC);
    int to = (int)syscall(SYS_memfd_create, "cloche-probe", 0);
    if (from < 0 || to < 0)
        return -1;
    while (sendfile(to, from, NULL, 1 << 20) > 0)
        ;
    close(from);
    return to;
}

enum verdict probe_in_new_image(const char *path, const char *const arguments[])
{
    int copy = path ? -1 : copy_of_program(own_program());
    if (!path && copy < 0)
        return held("no program can be made in memory: %s", error_name(errno));
    pid_t child = fork();
    if (child == 0) {
        /* Its verdict is reported here once more; two lines would be one too many. */
        int nowhere = open("/dev/null", O_WRONLY);
        if (nowhere >= 0)
            dup2(nowhere, STDOUT_FILENO);
        if (path)
            execve(path, (char *const *)arguments, environ);
        else
            syscall(SYS_execveat, copy, "", arguments, environ, AT_EMPTY_PATH);
        _exit(100 + (errno == EPERM || errno == EACCES || errno == ENOSYS));
    }
    int status;
    if (child < 0 || waitpid(child, &status, 0) < 0)
        return undecided("the new image could not be started");
    const char *where = path ? path : "a program in memory";
    if (WIFSIGNALED(status))
        return held("%s was killed by SIG%s", where, sigabbrev_np(WTERMSIG(status)));
    switch (WEXITSTATUS(status)) {
    case VERDICT_HELD:
        return held("%s was refused: %s", where, arguments[1]);
    case VERDICT_BROKE:
        return broke("%s got through: %s", where, arguments[1]);
    case 101:
        return held("%s cannot be started", where);
    default:
        return undecided("%s ended with status %d", where, WEXITSTATUS(status));
    }
}

static const char *const try_again[] = {"probe", "inet_stream_socket_is_denied", NULL};

static enum verdict new_image_is_filtered(const void *unused)
{
    (void)unused;
    return probe_in_new_image(own_program(), try_again);
}

static enum verdict memory_image_is_filtered(const void *unused)
{
    (void)unused;
    return probe_in_new_image(NULL, try_again);
}

static enum verdict listener_is_refused(const void *unused)
{
    (void)unused;
    struct sock_filter code[] = {{BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW}};
    struct sock_fprog program = {1, code};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    return judge_call(
        "installing a listener of our own",
        syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program));
}

#define X32(label, number, ...)  x32_call_is_refused, CALL(label, number, __VA_ARGS__)
#define I386(label, number, ...) i386_call_is_refused, CALL(label, number, __VA_ARGS__)

/* The numbers are those of the 32-bit table. A kernel without x32 (most are) answers ENOSYS by itself; what
 * that is worth is said in judge.c. */
static const struct probe rows[] = {
    {"x32_getpid_does_not_exist", ON_BOTH, MAY_BE_KILLED, "seccomp", X32("x32 getpid", SYS_getpid, 0),
     "The x32 numbers, which a filter for the native ones may overlook, do not exist."},
    {"x32_mount_does_not_exist", ON_BOTH, MAY_BE_KILLED, "seccomp",
     X32("x32 mount", SYS_mount, BAD_ADDRESS, BAD_ADDRESS, BAD_ADDRESS, 0, BAD_ADDRESS),
     "mount cannot be reached by its x32 number."},
    {"x32_ptrace_does_not_exist", ON_BOTH, MAY_BE_KILLED, "seccomp", X32("x32 ptrace", 521, 16, -1),
     "ptrace cannot be reached by the number that only x32 has."},
    {"i386_getpid_does_not_exist", ON_BOTH, MAY_BE_KILLED, "seccomp", I386("int 0x80 getpid", 20, 0),
     "The 32-bit entry is closed: getpid."},
    {"i386_mount_does_not_exist", ON_BOTH, MAY_BE_KILLED, "seccomp",
     I386("int 0x80 mount", 21, BAD_ADDRESS, BAD_ADDRESS, BAD_ADDRESS, 0, BAD_ADDRESS),
     "mount cannot be reached by its 32-bit number, which is access in the native table."},
    {"i386_socketcall_does_not_exist", ON_BOTH, MAY_BE_KILLED, "seccomp",
     I386("int 0x80 socketcall", 102, 1, BAD_ADDRESS),
     "Sockets cannot be made by socketcall, whose family hides behind a pointer."},
    {"i386_socket_does_not_exist", ON_BOTH, MAY_BE_KILLED, "seccomp",
     I386("int 0x80 socket", 359, AF_INET, SOCK_STREAM, 0),
     "Sockets cannot be made through the 32-bit entry."},
    {"i386_ipc_does_not_exist", ON_BOTH, MAY_BE_KILLED, "seccomp",
     I386("int 0x80 ipc", 117, 21, -1, 0, BAD_ADDRESS),
     "Shared memory cannot be reached through the 32-bit multiplexer."},
    {"i386_unshare_does_not_exist", ON_BOTH, MAY_BE_KILLED, "seccomp",
     I386("int 0x80 unshare", 310, CLONE_NEWUSER),
     "A user namespace cannot be made through the 32-bit entry."},
    {"i386_io_uring_does_not_exist", ON_BOTH, MAY_BE_KILLED, "seccomp",
     I386("int 0x80 io_uring_setup", 425, 1, BAD_ADDRESS),
     "io_uring cannot be set up through the 32-bit entry."},
    {"second_filter_frees_nothing", ON_BOTH, RETURNS, "seccomp", second_filter_frees_nothing, NULL,
     "A filter of the program's own that allows everything changes nothing."},
    {"filter_listener_is_denied", ON_BOTH, RETURNS, "seccomp", listener_is_refused, NULL,
     "The program cannot become the supervisor of its own calls."},
    {"filter_holds_in_threads", ON_BOTH, RETURNS, "seccomp", thread_is_filtered, NULL,
     "A thread is filtered as the program is."},
    {"filter_holds_in_daemons", ON_BOTH, RETURNS, "seccomp", daemon_is_filtered, NULL,
     "A child in a session of its own is filtered as the program is."},
    {"filter_holds_after_exec", ON_BOTH, RETURNS, "seccomp", new_image_is_filtered, NULL,
     "A new program image is filtered as the old one was."},
    {"filter_holds_for_programs_in_memory", ON_BOTH, RETURNS, "seccomp", memory_image_is_filtered, NULL,
     "A program that exists in memory only is filtered too."},
};

PROBE_GROUP(filter, rows);
