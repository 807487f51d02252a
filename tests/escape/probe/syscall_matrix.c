/* Every number of one ABI, called once: probe --syscalls native|x32|i386 FIRST LAST
 *
 * For each number two lines, "NUMBER try" and "NUMBER OUTCOME", separated by tabs. The first is written
 * before the call, so that a reader knows the number when the call ends the whole box. Outcomes: an errno's
 * name, "ok", "killed:SIGSYS", "timeout".
 *
 * Arguments are -1 throughout: no address, no descriptor, no process, and flags that no call takes together.
 * The exceptions are tabled, with the reason. Each call is made in a child of its own, which the parent ends
 * after a second: the call itself may block all signals, an alarm's too. */
#include "probe.h"
#include "abi.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum treatment {
    FORKS,         /* comes back twice */
    IN_A_SESSION,  /* acts on the controlling terminal: without one, on nothing */
    WITH_ARGUMENTS /* -1 would mean something */
};

struct exception {
    long number;
    enum treatment treatment;
    long arguments[6];
};

#define ALL_BAD                                                                                              \
    {                                                                                                        \
        -1, -1, -1, -1, -1, -1                                                                               \
    }

#define CALL_FCHMODAT2 452 /* younger than the headers of Debian 12 */

static const struct exception native_exceptions[] = {
    {SYS_exit, WITH_ARGUMENTS, {0}}, /* the status tells of the call */
    {SYS_exit_group, WITH_ARGUMENTS, {0}},
    {SYS_fork, FORKS, {0}},
    {SYS_vfork, FORKS, {0}},
    {SYS_clone, FORKS, {SIGCHLD}},
    {SYS_vhangup, IN_A_SESSION, ALL_BAD},
    {SYS_kill, WITH_ARGUMENTS, {0x7ffffff0, 0}}, /* -1 is everyone */
    {SYS_tkill, WITH_ARGUMENTS, {0x7ffffff0, 0}},
    {SYS_msgget, WITH_ARGUMENTS, {0x7ffffff0, 0}}, /* -1 has the bit that makes a queue */
    {SYS_shmget, WITH_ARGUMENTS, {0x7ffffff0, 1, 0}},
    {SYS_semget, WITH_ARGUMENTS, {0x7ffffff0, 1, 0}},
    {SYS_acct, WITH_ARGUMENTS, {BAD_ADDRESS}},
    /* Unknown operations of these answer ENOSYS, which would look like the filter. */
    {SYS_futex, WITH_ARGUMENTS, {BAD_ADDRESS, 0}},
    {SYS_modify_ldt, WITH_ARGUMENTS, {0, BAD_ADDRESS, 0}},
    /* Modes and flags that a filter refuses are all set in -1; the table is about the call as such. */
    {SYS_open, WITH_ARGUMENTS, {BAD_ADDRESS, 0, 0}},
    {SYS_openat, WITH_ARGUMENTS, {-1, BAD_ADDRESS, 0, 0}},
    {SYS_creat, WITH_ARGUMENTS, {BAD_ADDRESS, 0}},
    {SYS_mmap, WITH_ARGUMENTS, {0, 0, 0, 0, -1, 0}},
    {SYS_chmod, WITH_ARGUMENTS, {BAD_ADDRESS, 0}},
    {SYS_fchmod, WITH_ARGUMENTS, {-1, 0}},
    {SYS_fchmodat, WITH_ARGUMENTS, {-1, BAD_ADDRESS, 0}},
    {CALL_FCHMODAT2, WITH_ARGUMENTS, {-1, BAD_ADDRESS, 0, 0}},
    {SYS_mknod, WITH_ARGUMENTS, {BAD_ADDRESS, S_IFREG}},
    {SYS_mknodat, WITH_ARGUMENTS, {-1, BAD_ADDRESS, S_IFREG}},
    {SYS_memfd_create, WITH_ARGUMENTS, {BAD_ADDRESS, 0}},
    {SYS_personality, WITH_ARGUMENTS, {ADDR_NO_RANDOMIZE}}, /* -1 is a question, and answered */
    {SYS_seccomp, WITH_ARGUMENTS, {-1, 0, BAD_ADDRESS}},
};

/* The numbers of the 32-bit table. */
static const struct exception i386_exceptions[] = {
    {1, WITH_ARGUMENTS, {0}},                        /* exit */
    {252, WITH_ARGUMENTS, {0}},                      /* exit_group */
    {2, FORKS, {0}},                                 /* fork */
    {190, FORKS, {0}},                               /* vfork */
    {120, FORKS, {SIGCHLD}},                         /* clone */
    {111, IN_A_SESSION, ALL_BAD},                    /* vhangup */
    {37, WITH_ARGUMENTS, {0x7ffffff0, 0}},           /* kill */
    {238, WITH_ARGUMENTS, {0x7ffffff0, 0}},          /* tkill */
    {399, WITH_ARGUMENTS, {0x7ffffff0, 0}},          /* msgget */
    {395, WITH_ARGUMENTS, {0x7ffffff0, 1, 0}},       /* shmget */
    {393, WITH_ARGUMENTS, {0x7ffffff0, 1, 0}},       /* semget */
    {51, WITH_ARGUMENTS, {BAD_ADDRESS}},             /* acct */
    {117, WITH_ARGUMENTS, {21, -1, 0, BAD_ADDRESS}}, /* ipc: shmat */
    {240, WITH_ARGUMENTS, {BAD_ADDRESS, 0}},         /* futex */
    {123, WITH_ARGUMENTS, {0, BAD_ADDRESS, 0}},      /* modify_ldt */
};

struct abi {
    const char *name;
    long (*call)(long number, const long arguments[6]);
    long (*call_forking)(long number, const long arguments[6]);
    long number_bit;
    const struct exception *exceptions;
    size_t exception_count;
};

#define EXCEPTIONS(table) table, sizeof table / sizeof *table

static const struct abi abis[] = {
    {"native", abi_call_native, abi_call_forking, 0, EXCEPTIONS(native_exceptions)},
    {"x32", abi_call_native, abi_call_forking, ABI_X32_BIT, EXCEPTIONS(native_exceptions)},
    {"i386", abi_call_i386, abi_call_i386_forking, 0, EXCEPTIONS(i386_exceptions)},
};

static const struct exception *find_exception(const struct abi *abi, long number)
{
    for (size_t i = 0; i < abi->exception_count; i++)
        if (abi->exceptions[i].number == number)
            return &abi->exceptions[i];
    return NULL;
}

/* In the child: what the kernel answered, 0 or an errno. */
static int call_number(const struct abi *abi, long number, const struct exception *exception)
{
    static const long all_bad[6] = ALL_BAD;
    const long *arguments = exception ? exception->arguments : all_bad;
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0}); /* returning from no signal is a crash */
    if (exception && exception->treatment == IN_A_SESSION)
        setsid();
    bool forks = exception && exception->treatment == FORKS;
    long result = (forks ? abi->call_forking : abi->call)(number | abi->number_bit, arguments);
    return result < 0 && result >= -4095 ? (int)-result : 0;
}

static bool wait_a_second(pid_t child, int *ret_status)
{
    for (int i = 0; i < 1000; i++) {
        if (waitpid(child, ret_status, WNOHANG) == child)
            return true;
        nanosleep(&(struct timespec){0, i < 20 ? 100 * 1000 : 1000 * 1000}, NULL);
    }
    return false;
}

static void print_outcome(long number, bool ended, int status)
{
    if (!ended)
        printf("%ld\ttimeout\n", number);
    else if (WIFSIGNALED(status))
        printf("%ld\tkilled:SIG%s\n", number, sigabbrev_np(WTERMSIG(status)));
    else
        printf("%ld\t%s\n", number, WEXITSTATUS(status) ? error_name(WEXITSTATUS(status)) : "ok");
    fflush(stdout);
}

static void try_number(const struct abi *abi, long number)
{
    const struct exception *exception = find_exception(abi, number);
    printf("%ld\ttry\n", number);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0)
        /* Through the filter's door and none of the C library's: its state may be beyond repair. */
        abi_call_native(SYS_exit_group, (const long[6]){call_number(abi, number, exception)});
    int status = 0;
    bool ended = child > 0 && wait_a_second(child, &status);
    if (!ended && child > 0) {
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
    }
    print_outcome(number, ended, status);
}

int syscall_matrix(int count, char *const arguments[])
{
    const struct abi *abi = NULL;
    for (size_t i = 0; count == 3 && i < sizeof abis / sizeof *abis; i++)
        if (strcmp(abis[i].name, arguments[0]) == 0)
            abi = &abis[i];
    if (!abi) {
        fprintf(stderr, "usage: probe --syscalls native|x32|i386 FIRST LAST\n");
        return VERDICT_UNDECIDED;
    }
    for (long number = atol(arguments[1]); number <= atol(arguments[2]); number++)
        try_number(abi, number);
    return VERDICT_HELD;
}
