#include "base/signal_name.h"

#include <signal.h>
#include <stddef.h>

/* Of the C libraries that we are linked with, only one can tell. */
#define NAME(name) [SIG##name] = #name
static const char *const names[] = {
    NAME(HUP),  NAME(INT),  NAME(QUIT),  NAME(ILL),    NAME(TRAP), NAME(ABRT), NAME(BUS),  NAME(FPE),
    NAME(KILL), NAME(USR1), NAME(SEGV),  NAME(USR2),   NAME(PIPE), NAME(ALRM), NAME(TERM), NAME(STKFLT),
    NAME(CHLD), NAME(CONT), NAME(STOP),  NAME(TSTP),   NAME(TTIN), NAME(TTOU), NAME(URG),  NAME(XCPU),
    NAME(XFSZ), NAME(PROF), NAME(WINCH), NAME(VTALRM), NAME(POLL), NAME(PWR),  NAME(SYS),
};

const char *signal_name(int number)
{
    return number > 0 && (size_t)number < sizeof names / sizeof *names ? names[number] : NULL;
}
