/* Breaks one system call of a program, or kills the program at it.
 *
 *     inject --report FILE [--process K] [--call N] [--error ERRNO | --kill] [--execs E] -- COMMAND…
 *
 * Theory of operation. The command is traced with all its descendants. Process 0 is the command itself, the
 * others are numbered as they are born; each counts its own calls from 1. The command's own count starts
 * after its exec, or after its exec number E, where it is a program that changes something and executes
 * another (setpriv). At call N of process K the call is not made and returns -ERRNO, or the process is killed
 * with SIGKILL before it. (A close is made all the same: on Linux the descriptor is gone even where close
 * reports an error.) Everybody is let go then, and the rest of the run is not traced. Without --call nothing
 * is broken and all calls are listed. A grandchild of the command is let go when it executes: what follows is
 * the guest's own program.
 *
 * The report has one line an event, for a program to read:
 *     born K PARENT              call K N NUMBER ARG0 ARG1 ARG2 PATH        exec K
 *     hit K N NUMBER ARG0 ARG1 ARG2 PATH        end exit|signal VALUE
 * strace --inject counts one call of a kind in all processes at once; this one can name a single call of a
 * single process, and needs nothing but a C compiler. */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef __x86_64__
#error "the registers below are those of x86-64"
#endif

enum { TRACEES_MAX = 256 };

struct tracee {
    pid_t pid;
    int number;
    long calls;
    bool in_call, breaking, is_grandchild;
};

static struct tracee tracees[TRACEES_MAX];
static int tracee_count, born_count;
static FILE *report;
static long wanted_process = 0, wanted_call = 0, wanted_error = 0, wanted_execs = 1;
static bool wants_kill, is_done;

static struct tracee *find(pid_t pid)
{
    for (int i = 0; i < tracee_count; i++)
        if (tracees[i].pid == pid)
            return &tracees[i];
    return NULL;
}

static struct tracee *add(pid_t pid)
{
    struct tracee *known = find(pid);
    if (known)
        return known;
    if (tracee_count == TRACEES_MAX)
        abort();
    tracees[tracee_count] = (struct tracee){.pid = pid, .number = born_count++};
    return &tracees[tracee_count++];
}

static void forget(struct tracee *tracee)
{
    *tracee = tracees[--tracee_count];
}

/* The path among the arguments of a call, for the report; best effort. */
static void read_path(pid_t pid, const struct user_regs_struct *registers, char *into, size_t size)
{
    uint64_t address = 0;
    switch (registers->orig_rax) {
    case SYS_open:
    case SYS_mkdir:
    case SYS_rmdir:
    case SYS_unlink:
    case SYS_access:
    case SYS_chdir:
    case SYS_stat:
    case SYS_lstat:
    case SYS_readlink:
    case SYS_execve:
    case SYS_chmod:
    case SYS_chown:
    case SYS_umount2:
    case SYS_pivot_root:
    case SYS_memfd_create:
    case SYS_statfs:
    case SYS_symlink:
        address = registers->rdi;
        break;
    case SYS_openat:
    case SYS_newfstatat:
    case SYS_mkdirat:
    case SYS_unlinkat:
    case SYS_faccessat:
    case SYS_fchownat:
    case SYS_readlinkat:
    case SYS_mount:
    case 428 /* open_tree */:
    case 437 /* openat2 */:
    case 442 /* mount_setattr */:
    case SYS_renameat:
    case SYS_utimensat:
        address = registers->rsi;
        break;
    case 429: /* move_mount */
        address = registers->r10;
        break;
    }
    into[0] = '\0';
    if (!address)
        return;
    size_t step = 4096 - address % 4096; /* the next page may not be there */
    struct iovec local = {into, size - 1 < step ? size - 1 : step};
    struct iovec remote = {(void *)(uintptr_t)address, local.iov_len};
    ssize_t length = process_vm_readv(pid, &local, 1, &remote, 1, 0);
    into[length > 0 ? length : 0] = '\0';
    for (char *at = into; *at; at++)
        if (*at < 0x20 || *at > 0x7e)
            *at = '?';
}

static void report_call(const char *word, const struct tracee *tracee,
                        const struct user_regs_struct *registers)
{
    char path[160];
    read_path(tracee->pid, registers, path, sizeof path);
    fprintf(report, "%s %d %ld %lld %lld %lld %lld %s\n", word, tracee->number, tracee->calls,
            (long long)registers->orig_rax, (long long)registers->rdi, (long long)registers->rsi,
            (long long)registers->rdx, path);
}

static void let_all_go(void)
{
    is_done = true;
    for (int i = 0; i < tracee_count; i++)
        ptrace(PTRACE_INTERRUPT, tracees[i].pid, 0, 0);
}

/* Calls that do not return, that never fail, or that fail only for arguments that are wrong. */
static bool cannot_fail(unsigned long long number)
{
    static const unsigned long long numbers[] = {
        SYS_exit,           SYS_exit_group, SYS_rt_sigreturn,    SYS_getpid,
        SYS_getppid,        SYS_gettid,     SYS_getuid,          SYS_geteuid,
        SYS_getgid,         SYS_getegid,    SYS_set_tid_address, SYS_rt_sigaction,
        SYS_rt_sigprocmask, SYS_umask,      SYS_wait4,
    };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (numbers[i] == number)
            return true;
    return false;
}

static void call_entered(struct tracee *tracee)
{
    struct user_regs_struct registers;
    if (ptrace(PTRACE_GETREGS, tracee->pid, 0, &registers) < 0)
        return;
    if (wanted_execs > 0)
        return;
    tracee->calls++;
    if (wanted_call == 0)
        report_call("call", tracee, &registers);
    if (wanted_call == 0 || tracee->number != wanted_process || tracee->calls != wanted_call)
        return;
    bool can_fail = !cannot_fail(registers.orig_rax);
    report_call(can_fail || wants_kill ? "hit" : "spared", tracee, &registers);
    if (wants_kill) {
        kill(tracee->pid, SIGKILL);
        let_all_go();
    } else if (can_fail) {
        tracee->breaking = true;
        if (registers.orig_rax == SYS_close)
            return;
        registers.orig_rax = (unsigned long long)-1;
        ptrace(PTRACE_SETREGS, tracee->pid, 0, &registers);
    } else {
        let_all_go();
    }
}

static void call_left(struct tracee *tracee)
{
    struct user_regs_struct registers;
    if (!tracee->breaking || ptrace(PTRACE_GETREGS, tracee->pid, 0, &registers) < 0)
        return;
    tracee->breaking = false;
    registers.rax = (unsigned long long)-wanted_error;
    ptrace(PTRACE_SETREGS, tracee->pid, 0, &registers);
    let_all_go();
}

static void event_seen(struct tracee *tracee, int event)
{
    if (event == PTRACE_EVENT_EXEC) {
        fprintf(report, "exec %d\n", tracee->number);
        if (tracee->number == 0)
            wanted_execs--; /* what comes before the last does not count */
    } else {
        unsigned long child = 0;
        ptrace(PTRACE_GETEVENTMSG, tracee->pid, 0, &child);
        struct tracee *newborn = add((pid_t)child);
        newborn->is_grandchild = tracee->number > 0;
        fprintf(report, "born %d %d\n", newborn->number, tracee->number);
    }
}

static void stopped(pid_t pid, int status)
{
    struct tracee *tracee = find(pid);
    if (!tracee)
        tracee = add(pid); /* its first stop may come before its parent's event: the number is the same */
    int number = WSTOPSIG(status), event = status >> 16, forward = 0;
    bool group_stop = event == PTRACE_EVENT_STOP && number != SIGTRAP;
    if (number == (SIGTRAP | 0x80)) {
        tracee->in_call = !tracee->in_call;
        if (tracee->in_call && !is_done)
            call_entered(tracee);
        else if (!tracee->in_call)
            call_left(tracee);
    } else if (event == PTRACE_EVENT_EXEC || event == PTRACE_EVENT_FORK || event == PTRACE_EVENT_VFORK ||
               event == PTRACE_EVENT_CLONE) {
        event_seen(tracee, event);
    } else if (event == 0) {
        forward = number;
    }
    bool is_guest = tracee->is_grandchild && event == PTRACE_EVENT_EXEC;
    if ((is_done && !tracee->breaking) || is_guest) {
        ptrace(PTRACE_DETACH, pid, 0, (void *)(intptr_t)forward);
        forget(tracee);
    } else if (group_stop) {
        ptrace(PTRACE_LISTEN, pid, 0, 0);
    } else {
        ptrace(PTRACE_SYSCALL, pid, 0, (void *)(intptr_t)forward);
    }
}

static int watch(pid_t first)
{
    for (;;) {
        int status;
        pid_t pid = waitpid(-1, &status, __WALL);
        if (pid < 0) {
            if (errno == EINTR)
                continue;
            return 125;
        }
        if (WIFSTOPPED(status)) {
            stopped(pid, status);
            continue;
        }
        struct tracee *tracee = find(pid);
        if (tracee)
            forget(tracee);
        if (pid != first)
            continue;
        fprintf(report, "end %s %d\n", WIFEXITED(status) ? "exit" : "signal",
                WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
        return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
}

static pid_t start(char **command)
{
    int gate[2];
    if (pipe(gate) < 0)
        return -1;
    pid_t pid = fork();
    if (pid == 0) {
        char byte;
        close(gate[1]);
        if (read(gate[0], &byte, 1) != 1)
            _exit(125);
        close(gate[0]);
        execv(command[0], command);
        _exit(126);
    }
    close(gate[0]);
    long options = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEEXEC | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK |
                   PTRACE_O_TRACECLONE;
    if (pid < 0 || ptrace(PTRACE_SEIZE, pid, 0, (void *)options) < 0 ||
        ptrace(PTRACE_INTERRUPT, pid, 0, 0) < 0)
        return -1;
    add(pid);
    if (write(gate[1], "", 1) != 1)
        return -1;
    close(gate[1]);
    return pid;
}

int main(int argc, char **argv)
{
    int at = 1;
    const char *path = NULL;
    for (; at < argc && strcmp(argv[at], "--") != 0; at++) {
        const char *value = at + 1 < argc ? argv[at + 1] : "";
        if (strcmp(argv[at], "--kill") == 0) {
            wants_kill = true;
            continue;
        }
        if (strcmp(argv[at], "--report") == 0)
            path = value;
        else if (strcmp(argv[at], "--process") == 0)
            wanted_process = atol(value);
        else if (strcmp(argv[at], "--call") == 0)
            wanted_call = atol(value);
        else if (strcmp(argv[at], "--error") == 0)
            wanted_error = atol(value);
        else if (strcmp(argv[at], "--execs") == 0)
            wanted_execs = atol(value);
        else
            return 124;
        at++;
    }
    report = path ? fopen(path, "we") : NULL;
    if (!report || at + 1 >= argc)
        return 124;
    pid_t first = start(argv + at + 1);
    if (first < 0) {
        perror("inject");
        return 125;
    }
    int status = watch(first);
    return fclose(report) == 0 ? status : 125;
}
