#include "proofs.h"

#include "os/raw.h"

#include <linux/errno.h>
#include <linux/prctl.h>
#include <linux/seccomp.h>
#include <stdint.h>
#include <sys/syscall.h>

enum { OPEN_CLOEXEC = 02000000, INTERNET = 2, STREAM = 1, NEW_USER_NAMESPACE = 0x10000000 };

struct probe {
    long number, first, second;
    long answer;
    const char *otherwise;
};

static const struct probe of_every_filter[] = {
    {SYS_socket, INTERNET, STREAM, -EPERM, "an internet socket was not refused"},
    {SYS_unshare, NEW_USER_NAMESPACE, 0, -EPERM, "unshare was not refused"},
    {SYS_ptrace, 0, 0, -EPERM, "ptrace was not refused"},
    {SYS_clone3, 0, 0, -ENOSYS, "clone3 was not refused"},
};

const char *proof_of_seccomp(void)
{
    if (raw_call(SYS_prctl, PR_GET_SECCOMP, 0, 0, 0, 0) != SECCOMP_MODE_FILTER)
        return "no filter is in force";
    for (unsigned i = 0; i < sizeof of_every_filter / sizeof *of_every_filter; i++) {
        const struct probe *probe = &of_every_filter[i];
        if (raw_call(probe->number, probe->first, probe->second, 0, 0, 0) != probe->answer)
            return probe->otherwise;
    }
    return 0;
}

const char *proof_of_process_filter(void)
{
    long made = raw_call(SYS_memfd_create, RAW("proof"), 0, 0, 0, 0);
    if (made >= 0)
        raw_call(SYS_close, made, 0, 0, 0, 0);
    return made == -ENOSYS ? 0 : "memory that nobody counts was not refused";
}

const char *proof_of_file_rules(const char *place)
{
    long file = raw_call(SYS_open, RAW(place), OPEN_CLOEXEC, 0, 0, 0);
    if (file >= 0)
        raw_call(SYS_close, file, 0, 0, 0, 0);
    return file == -EACCES ? 0 : "a path outside the rules could be opened";
}

const char *proof_of_scope(void)
{
    long parent = raw_call(SYS_getppid, 0, 0, 0, 0, 0);
    return raw_call(SYS_kill, parent, 0, 0, 0, 0) == 0 ? "signals are not kept inside the box" : 0;
}

const char *proof_of_no_new_privs(void)
{
    return raw_call(SYS_prctl, PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1 ? 0 : "no_new_privs is not set";
}
