/* How an attempt becomes a verdict. */
#include "probe.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

__attribute__((format(printf, 3, 0))) static enum verdict say(enum verdict verdict, const char *word,
                                                              const char *format, va_list arguments)
{
    FILE *stream = verdict == VERDICT_UNDECIDED ? stderr : stdout;
    fprintf(stream, "%s: ", word);
    vfprintf(stream, format, arguments);
    fputc('\n', stream);
    fflush(stream);
    return verdict;
}

#define SAY(outcome, word)                                                                                   \
    va_list arguments;                                                                                       \
    va_start(arguments, format);                                                                             \
    enum verdict said = say(outcome, word, format, arguments);                                               \
    va_end(arguments);                                                                                       \
    return said

enum verdict held(const char *format, ...)
{
    SAY(VERDICT_HELD, "held");
}

enum verdict broke(const char *format, ...)
{
    SAY(VERDICT_BROKE, "broke");
}

enum verdict undecided(const char *format, ...)
{
    SAY(VERDICT_UNDECIDED, "undecided");
}

const char *error_name(int error)
{
    static char number[16];
    const char *name = strerrorname_np(error);
    if (name)
        return name;
    snprintf(number, sizeof number, "%d", error);
    return number;
}

bool filter_in_force(void)
{
    return prctl(PR_GET_SECCOMP, 0, 0, 0, 0) != 0;
}

enum verdict judge_error(const char *label, int error)
{
    switch (error) {
    case 0:
        return broke("%s was carried out", label);
    case EPERM:
    case EACCES:
        return held("%s: %s", label, error_name(error));
    case EOPNOTSUPP: /* how the filter answers calls on extended attributes */
    case ENOSYS:
        /* From a filter this is the refusal. Without one it only says that this kernel was built without the
         * call: nothing of ours stood in the way. */
        if (filter_in_force())
            return held("%s: ENOSYS", label);
        return broke("%s reached a kernel that happens not to have it", label);
    default:
        return broke("%s reached the kernel: %s", label, error_name(error));
    }
}

enum verdict judge_call(const char *label, long result)
{
    return judge_error(label, result < 0 ? errno : 0);
}

enum verdict judge_reach(const char *label, long result)
{
    if (result >= 0)
        return broke("%s is in reach", label);
    return held("%s: %s", label, error_name(errno));
}

enum verdict judge_in_child(const char *label, int (*attempt)(const void *), const void *argument)
{
    pid_t child = fork();
    if (child < 0)
        return undecided("fork: %s", error_name(errno));
    if (child == 0)
        _exit(attempt(argument) & 0xff);
    int status;
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            return undecided("waitpid: %s", error_name(errno));
    if (WIFSIGNALED(status))
        return held("%s: killed by SIG%s", label, sigabbrev_np(WTERMSIG(status)));
    return judge_error(label, WEXITSTATUS(status));
}

enum verdict call_is_refused(const void *raw_call)
{
    const struct raw_call *call = raw_call;
    const long *a = call->arguments;
    return judge_call(call->label, syscall(call->number, a[0], a[1], a[2], a[3], a[4], a[5]));
}
