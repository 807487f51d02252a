#include "os/seccomp/filter.h"
#include "seccomp_programs.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static const struct {
    const struct sock_filter *code;
    unsigned short length;
} programs[POLICY_VARIANTS] = {
    [POLICY_CONTAINER] = {seccomp_program_container,
                          sizeof seccomp_program_container / sizeof(struct sock_filter)},
    [POLICY_CONTAINER_GRANTED] = {seccomp_program_container_granted,
                                  sizeof seccomp_program_container_granted / sizeof(struct sock_filter)},
    [POLICY_PROCESS] = {seccomp_program_process, sizeof seccomp_program_process / sizeof(struct sock_filter)},
    [POLICY_PROCESS_SHARED_UID] = {seccomp_program_process_shared_uid,
                                   sizeof seccomp_program_process_shared_uid / sizeof(struct sock_filter)},
};

int seccomp_filter_install(enum policy_variant variant, int *ret_listener)
{
    struct sock_filter copy[2048];
    size_t length = programs[variant].length;
    if (length > sizeof copy / sizeof *copy)
        return -E2BIG;
    memcpy(copy, programs[variant].code, length * sizeof *copy);
    for (size_t i = 0; !ret_listener && i < length; i++) {
        if (copy[i].code != (BPF_RET | BPF_K) ||
            (copy[i].k & SECCOMP_RET_ACTION_FULL) != SECCOMP_RET_USER_NOTIF)
            continue;
        copy[i].k =
            copy[i].k == SECCOMP_RET_USER_NOTIF ? SECCOMP_RET_KILL_PROCESS : SECCOMP_RET_ERRNO | EPERM;
    }
    struct sock_fprog program = {.len = (unsigned short)length, .filter = copy};
    unsigned flags = ret_listener ? SECCOMP_FILTER_FLAG_NEW_LISTENER : 0;
    long result = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
    if (result < 0)
        return -errno;
    if (ret_listener)
        *ret_listener = (int)result;
    return 0;
}

const char *seccomp_call_name(int number)
{
    for (size_t i = 0; i < sizeof seccomp_names / sizeof *seccomp_names; i++)
        if (seccomp_names[i].number == number)
            return seccomp_names[i].name;
    return NULL;
}

/* A filter is a small program: running it here for one number keeps the answer and the filter from drifting
 * apart. Arguments are taken as zero. */
enum policy_verdict seccomp_call_verdict(enum policy_variant variant, int number)
{
    const struct sock_filter *code = programs[variant].code;
    struct seccomp_data data = {.nr = number, .arch = AUDIT_ARCH_X86_64};
    uint32_t accumulator = 0;
    for (size_t at = 0; at < programs[variant].length; at++) {
        const struct sock_filter *step = &code[at];
        switch (step->code) {
        case BPF_LD | BPF_W | BPF_ABS:
            memcpy(&accumulator, (const char *)&data + step->k, sizeof accumulator);
            break;
        case BPF_ALU | BPF_AND | BPF_K:
            accumulator &= step->k;
            break;
        case BPF_JMP | BPF_JA:
            at += step->k;
            break;
        case BPF_JMP | BPF_JEQ | BPF_K:
            at += accumulator == step->k ? step->jt : step->jf;
            break;
        case BPF_JMP | BPF_JGE | BPF_K:
            at += accumulator >= step->k ? step->jt : step->jf;
            break;
        case BPF_JMP | BPF_JSET | BPF_K:
            at += accumulator & step->k ? step->jt : step->jf;
            break;
        default:
            if (step->k == SECCOMP_RET_ALLOW)
                return VERDICT_ALLOW;
            if (step->k == SECCOMP_RET_USER_NOTIF)
                return VERDICT_KILL;
            if (step->k == (SECCOMP_RET_USER_NOTIF | 1))
                return VERDICT_ASK;
            if (step->k == (SECCOMP_RET_ERRNO | ENOTSUP))
                return VERDICT_ENOTSUP;
            return step->k == (SECCOMP_RET_ERRNO | EPERM) ? VERDICT_EPERM : VERDICT_ENOSYS;
        }
    }
    return VERDICT_ENOSYS;
}
