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
    [POLICY_PROCESS_ZYGOTE] = {seccomp_program_process_zygote,
                               sizeof seccomp_program_process_zygote / sizeof(struct sock_filter)},
};

size_t seccomp_filter_write(enum policy_variant variant, bool has_listener, struct sock_filter *into)
{
    size_t length = programs[variant].length;
    if (length > SECCOMP_FILTER_MAX)
        return 0;
    memcpy(into, programs[variant].code, length * sizeof *into);
    for (size_t i = 0; !has_listener && i < length; i++) {
        if (into[i].code != (BPF_RET | BPF_K) ||
            (into[i].k & SECCOMP_RET_ACTION_FULL) != SECCOMP_RET_USER_NOTIF)
            continue;
        into[i].k =
            into[i].k == SECCOMP_RET_USER_NOTIF ? SECCOMP_RET_KILL_PROCESS : SECCOMP_RET_ERRNO | EPERM;
    }
    return length;
}

static int install(struct sock_filter *code, size_t length, int *ret_listener)
{
    struct sock_fprog program = {.len = (unsigned short)length, .filter = code};
    unsigned flags = ret_listener ? SECCOMP_FILTER_FLAG_NEW_LISTENER : 0;
    long result = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
    if (result < 0)
        return -errno;
    if (ret_listener)
        *ret_listener = (int)result;
    return 0;
}

int seccomp_filter_install(enum policy_variant variant, int *ret_listener)
{
    struct sock_filter copy[SECCOMP_FILTER_MAX];
    size_t length = seccomp_filter_write(variant, ret_listener != NULL, copy);
    return length ? install(copy, length, ret_listener) : -E2BIG;
}

/* A number is allowed that leaves the id as it is (-1). Foreign ABIs are the business of the filter below. */
int seccomp_ids_install(uint32_t first, uint32_t count)
{
    static const struct {
        int number, arguments;
    } calls[] = {{SYS_setuid, 1},   {SYS_setgid, 1},   {SYS_setfsuid, 1},  {SYS_setfsgid, 1},
                 {SYS_setreuid, 2}, {SYS_setregid, 2}, {SYS_setresuid, 3}, {SYS_setresgid, 3}};
    enum { STEPS_MAX = 128 };
    const struct sock_filter load_number =
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    const struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    const struct sock_filter refuse = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
    struct sock_filter code[STEPS_MAX];
    size_t length = 0;
    code[length++] = load_number;
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        unsigned char steps = (unsigned char)(calls[i].arguments * 5 + 1);
        code[length++] =
            (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)calls[i].number, 0, steps);
        for (int argument = 0; argument < calls[i].arguments; argument++) {
            code[length++] = (struct sock_filter)BPF_STMT(
                BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args) + 8 * (unsigned)argument);
            code[length++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, UINT32_MAX, 3, 0);
            code[length++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, first, 0, 1);
            code[length++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, first + count, 0, 1);
            code[length++] = refuse;
        }
        code[length++] = allow;
    }
    code[length++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_setgroups, 0, 3);
    code[length++] =
        (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args));
    code[length++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, 0);
    code[length++] = refuse;
    code[length++] = allow;
    return install(code, length, NULL);
}

int seccomp_call_remove(int number)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)number, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    return install(code, sizeof code / sizeof *code, NULL);
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
