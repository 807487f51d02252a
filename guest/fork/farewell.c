/* The end of a program in a fork, said a moment before.
 *
 * When a process ends the kernel takes its memory apart first, which for an interpreter with large libraries
 * takes longer than most programs, and only then does anybody hear of it. So the program gives itself a name
 * that says how it ends, and closes its streams: the host, who sees those close, looks at the name, and waits
 * no longer. It takes our word for it, and ends the box; what is said here, and is not so, is nobody's loss
 * but the program's. */
#include "os/raw.h"
#include "pages.h"
#include "plan.h"

#include <linux/prctl.h>
#include <sys/syscall.h>

__attribute__((visibility("default"))) void cloche_farewell(int code);
void cloche_farewell(int code)
{
    pages_end_trial();
    char name[16] = INIT_FAREWELL;
    unsigned at = sizeof INIT_FAREWELL - 1;
    for (int unit = 100; unit > 0; unit /= 10)
        name[at++] = (char)('0' + (code & 0xff) / unit % 10);
    raw_call(SYS_prctl, PR_SET_NAME, RAW(name), 0, 0, 0);
    raw_call(SYS_close, 1, 0, 0, 0, 0);
    raw_call(SYS_close, 2, 0, 0, 0, 0);
    raw_call(SYS_exit_group, code & 0xff, 0, 0, 0, 0);
}
