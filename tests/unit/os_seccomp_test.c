/* The system-call filters against the table that they are made from.
 *
 * The generated programs are run here by an interpreter of the test's own, with any arguments; a few answers
 * are asked from the kernel itself, in children that wear the filter. */
#include "harness.h"

#include "os/process.h"
#include "os/seccomp/filter.h"
#include "os/seccomp/policy.h"
#include "seccomp_programs.h"

#include <linux/audit.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/resource.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>

enum { NUMBERS = 1024, X32_BIT = 0x40000000 };

static const char *const verdict_names[] = {"allow", "EPERM", "ENOSYS", "ENOTSUP", "kill", "ask"};

static const struct {
    const char *name;
    const struct sock_filter *code;
    size_t length;
} programs[POLICY_VARIANTS] = {
#define PROGRAM(variant, array) [variant] = {#array, array, sizeof array / sizeof *array}
    PROGRAM(POLICY_CONTAINER, seccomp_program_container),
    PROGRAM(POLICY_CONTAINER_GRANTED, seccomp_program_container_granted),
    PROGRAM(POLICY_PROCESS, seccomp_program_process),
    PROGRAM(POLICY_PROCESS_SHARED_UID, seccomp_program_process_shared_uid),
    PROGRAM(POLICY_PROCESS_ZYGOTE, seccomp_program_process_zygote),
#undef PROGRAM
};

/* Those that somebody's code wears; a zygote's comes after them. */
enum { BOX_VARIANTS = POLICY_PROCESS_ZYGOTE };

/* ---- the interpreter ---- */

static uint32_t run_program(enum policy_variant variant, const struct seccomp_data *data)
{
    uint32_t accumulator = 0;
    size_t at = 0;
    for (;;) {
        assert_true(at < programs[variant].length);
        const struct sock_filter *step = &programs[variant].code[at++];
        switch (step->code) {
        case BPF_LD | BPF_W | BPF_ABS:
            assert_true(step->k % 4 == 0 && step->k + 4 <= sizeof *data);
            memcpy(&accumulator, (const char *)data + step->k, 4);
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
        case BPF_JMP | BPF_JGT | BPF_K:
            at += accumulator > step->k ? step->jt : step->jf;
            break;
        case BPF_JMP | BPF_JSET | BPF_K:
            at += accumulator & step->k ? step->jt : step->jf;
            break;
        case BPF_RET | BPF_K:
            return step->k;
        default:
            fail_msg("%s[%zu]: unknown instruction %#x", programs[variant].name, at - 1, step->code);
        }
    }
}

static enum policy_verdict verdict_of(uint32_t answer)
{
    switch (answer) {
    case SECCOMP_RET_ALLOW:
        return VERDICT_ALLOW;
    case SECCOMP_RET_ERRNO | EPERM:
        return VERDICT_EPERM;
    case SECCOMP_RET_ERRNO | ENOSYS:
        return VERDICT_ENOSYS;
    case SECCOMP_RET_ERRNO | ENOTSUP:
        return VERDICT_ENOTSUP;
    case SECCOMP_RET_USER_NOTIF:
        return VERDICT_KILL;
    case SECCOMP_RET_USER_NOTIF | 1:
        return VERDICT_ASK;
    }
    fail_msg("the filter answers %#x", answer);
    return VERDICT_ALLOW;
}

static enum policy_verdict filter_answer(enum policy_variant variant, int number, const uint64_t *arguments)
{
    struct seccomp_data data = {.nr = number, .arch = AUDIT_ARCH_X86_64};
    if (arguments)
        memcpy(data.args, arguments, sizeof data.args);
    return verdict_of(run_program(variant, &data));
}

static enum policy_verdict answer_with(enum policy_variant variant, const char *name, int argument,
                                       uint64_t value)
{
    uint64_t arguments[6] = {0};
    arguments[argument] = value;
    int number = seccomp_syscall_resolve_name_arch(SCMP_ARCH_X86_64, name);
    assert_true(number >= 0);
    return filter_answer(variant, number, arguments);
}

/* ---- the table, read independently ---- */

static int number_of(const struct policy_row *row)
{
    return row->number >= 0 ? row->number : seccomp_syscall_resolve_name_arch(SCMP_ARCH_X86_64, row->name);
}

static bool condition_holds(const struct policy_condition *condition, const uint64_t *arguments)
{
    uint32_t value = (uint32_t)(arguments[condition->argument] >> (condition->is_high ? 32 : 0));
    return condition->any_set ? (value & condition->mask) != 0
                              : (value & condition->mask) == condition->value;
}

static enum policy_verdict table_answer(const struct policy_row *row, enum policy_variant variant,
                                        const uint64_t *arguments)
{
    for (int i = 0; i < row->checks; i++) {
        const struct policy_check *check = &row->check[i];
        bool holds = check->where == IN_ALL || (check->where >> variant & 1);
        for (int j = 0; j < check->conditions; j++)
            holds &= condition_holds(&check->condition[j], arguments);
        if (holds)
            return check->verdict;
    }
    return row->verdict[variant];
}

static const struct policy_row *row_named(const char *name)
{
    for (size_t i = 0; i < policy_row_count; i++)
        if (strcmp(policy_rows[i].name, name) == 0)
            return &policy_rows[i];
    return NULL;
}

static void check_row(const struct policy_row *row, enum policy_variant variant, const uint64_t *arguments)
{
    enum policy_verdict seen = filter_answer(variant, number_of(row), arguments);
    enum policy_verdict wanted = table_answer(row, variant, arguments);
    if (seen != wanted)
        fail_msg("%s: %s(%#llx, %#llx, %#llx) is %s, not %s", programs[variant].name, row->name,
                 (unsigned long long)arguments[0], (unsigned long long)arguments[1],
                 (unsigned long long)arguments[2], verdict_names[seen], verdict_names[wanted]);
}

/* ---- the table itself ---- */

/* A fork of a zygote wears the zygote's filter and, inside, one of the process engine's; the kernel takes the
 * strictest answer, and of two errors that of the inner one. It must be the inner one's in every case, as in
 * a box without a zygote. */
static void check_zygote(const struct policy_row *row, const uint64_t *arguments)
{
    static const enum policy_variant inner[] = {POLICY_PROCESS, POLICY_PROCESS_SHARED_UID};
    enum policy_verdict outer = filter_answer(POLICY_PROCESS_ZYGOTE, number_of(row), arguments);
    for (size_t i = 0; i < sizeof inner / sizeof *inner && outer != VERDICT_ALLOW; i++) {
        enum policy_verdict own = filter_answer(inner[i], number_of(row), arguments);
        bool is_error = outer == VERDICT_EPERM || outer == VERDICT_ENOSYS || outer == VERDICT_ENOTSUP;
        if (!is_error || own == VERDICT_ALLOW || own == VERDICT_ASK || own == VERDICT_KILL)
            fail_msg("%s(%#llx, %#llx, %#llx): %s in a zygote, %s in %s", row->name,
                     (unsigned long long)arguments[0], (unsigned long long)arguments[1],
                     (unsigned long long)arguments[2], verdict_names[outer], verdict_names[own],
                     programs[inner[i]].name);
    }
}

static void every_variant_has_a_program(void **state)
{
    (void)state;
    for (int i = 0; i < POLICY_VARIANTS; i++)
        if (!programs[i].code)
            fail_msg("variant %d is not in this test", i);
}

static void no_call_is_in_the_table_twice(void **state)
{
    (void)state;
    bool seen[NUMBERS] = {0};
    assert_true(policy_row_count > 300);
    for (size_t i = 0; i < policy_row_count; i++) {
        int number = number_of(&policy_rows[i]);
        if (number < 0 || number >= NUMBERS)
            fail_msg("%s has no number", policy_rows[i].name);
        if (seen[number])
            fail_msg("%s is there twice", policy_rows[i].name);
        seen[number] = true;
        assert_ptr_equal(row_named(policy_rows[i].name), &policy_rows[i]);
    }
}

static void rows_are_well_formed(void **state)
{
    (void)state;
    for (size_t i = 0; i < policy_row_count; i++) {
        const struct policy_row *row = &policy_rows[i];
        assert_true(row->checks <= POLICY_CHECKS_MAX);
        for (int j = 0; j < row->checks; j++) {
            const struct policy_check *check = &row->check[j];
            assert_in_range(check->conditions, 1, 2);
            for (int k = 0; k < check->conditions; k++) {
                assert_true(check->condition[k].argument < 6);
                assert_true(check->condition[k].mask != 0);
                assert_int_equal(check->condition[k].value & ~check->condition[k].mask, 0);
            }
        }
    }
}

static void boxes_without_namespaces_are_never_freer(void **state)
{
    (void)state;
    for (size_t i = 0; i < policy_row_count; i++) {
        const struct policy_row *row = &policy_rows[i];
        if (row->verdict[POLICY_CONTAINER] != VERDICT_ALLOW && !row->checks)
            for (int variant = 0; variant < BOX_VARIANTS; variant++)
                if (row->verdict[variant] == VERDICT_ALLOW)
                    fail_msg("%s is refused in a container and allowed in %s", row->name,
                             programs[variant].name);
        if (row->verdict[POLICY_PROCESS] != VERDICT_ALLOW &&
            row->verdict[POLICY_PROCESS_SHARED_UID] == VERDICT_ALLOW)
            fail_msg("%s: the caller's own uid gives more than one of the box's own", row->name);
    }
}

/* ---- filter and table ---- */

static void every_row_answers_as_the_table_says(void **state)
{
    (void)state;
    static const uint64_t none[6];
    for (size_t i = 0; i < policy_row_count; i++, check_zygote(&policy_rows[i - 1], none))
        for (int variant = 0; variant < POLICY_VARIANTS; variant++) {
            check_row(&policy_rows[i], (enum policy_variant)variant, none);
            assert_int_equal(seccomp_call_verdict((enum policy_variant)variant, number_of(&policy_rows[i])),
                             table_answer(&policy_rows[i], (enum policy_variant)variant, none));
        }
}

/* Arguments that meet the conditions of a check, that nearly do, and that are just anything. */
static void every_check_of_arguments_answers_as_the_table_says(void **state)
{
    (void)state;
    uint64_t random = 88172645463325252ULL;
    for (size_t i = 0; i < policy_row_count; i++) {
        const struct policy_row *row = &policy_rows[i];
        for (int round = 0; row->checks && round < 4000; round++) {
            uint64_t arguments[6];
            for (int j = 0; j < 6; j++) {
                random ^= random << 13, random ^= random >> 7, random ^= random << 17;
                arguments[j] = round % 3 == 0 ? random : round % 3 == 1 ? random % 64 : 0;
            }
            const struct policy_check *check = &row->check[round % row->checks];
            for (int j = 0; round % 5 && j < check->conditions; j++) {
                const struct policy_condition *condition = &check->condition[j];
                uint64_t *argument = &arguments[condition->argument];
                int shift = condition->is_high ? 32 : 0;
                if (condition->any_set)
                    *argument |= (uint64_t)(condition->mask & (uint32_t)random) << shift;
                else
                    *argument = (*argument & ~((uint64_t)condition->mask << shift)) |
                                (uint64_t)condition->value << shift;
                if (round % 7 == 0)
                    *argument ^= 1ULL << (random % 64);
            }
            for (int variant = 0; variant < POLICY_VARIANTS; variant++)
                check_row(row, (enum policy_variant)variant, arguments);
            check_zygote(row, arguments);
        }
    }
}

static void limits_of_other_processes_and_of_core_files_cannot_be_set(void **state)
{
    (void)state;
    static const uint64_t places[] = {0x7f0012345678, 0x7f0000000000, 0x12345678, 1};
    int number = seccomp_syscall_resolve_name_arch(SCMP_ARCH_X86_64, "prlimit64");
    for (int variant = 0; variant < POLICY_VARIANTS; variant++)
        for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
            uint64_t core[6] = {0, RLIMIT_CORE, places[i]}, files[6] = {0, RLIMIT_NOFILE, places[i]};
            assert_int_equal(filter_answer((enum policy_variant)variant, number, core), VERDICT_EPERM);
            assert_int_equal(filter_answer((enum policy_variant)variant, number, files), VERDICT_ALLOW);
            files[0] = 1;
            enum policy_verdict others = filter_answer((enum policy_variant)variant, number, files);
            assert_int_equal(others, variant == POLICY_PROCESS_ZYGOTE       ? VERDICT_ALLOW
                                     : variant == POLICY_PROCESS_SHARED_UID ? VERDICT_ASK
                                                                            : VERDICT_EPERM);
        }
    uint64_t looks[6] = {0, RLIMIT_CORE, 0, places[0]};
    assert_int_equal(filter_answer(POLICY_CONTAINER, number, looks), VERDICT_ALLOW);
}

static void numbers_without_a_row_are_not_implemented(void **state)
{
    (void)state;
    bool known[NUMBERS] = {0};
    for (size_t i = 0; i < policy_row_count; i++)
        known[number_of(&policy_rows[i])] = true;
    static const int others[] = {NUMBERS, NUMBERS + 1, 65535, INT32_MAX, -1, INT32_MIN};
    for (int variant = 0; variant < POLICY_VARIANTS; variant++) {
        for (int number = 0; number < NUMBERS; number++) {
            if (known[number])
                continue;
            assert_int_equal(filter_answer((enum policy_variant)variant, number, NULL), VERDICT_ENOSYS);
            assert_int_equal(seccomp_call_verdict((enum policy_variant)variant, number), VERDICT_ENOSYS);
            assert_null(seccomp_call_name(number));
        }
        for (size_t i = 0; i < sizeof others / sizeof *others; i++)
            assert_int_equal(filter_answer((enum policy_variant)variant, others[i], NULL), VERDICT_ENOSYS);
    }
}

static void foreign_interfaces_have_no_calls_at_all(void **state)
{
    (void)state;
    static const uint32_t foreign[] = {AUDIT_ARCH_I386, AUDIT_ARCH_ARM, AUDIT_ARCH_AARCH64, 0, UINT32_MAX};
    for (int variant = 0; variant < POLICY_VARIANTS; variant++)
        for (int number = 0; number < NUMBERS; number++) {
            for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++) {
                struct seccomp_data data = {.nr = number, .arch = foreign[i]};
                assert_int_equal(verdict_of(run_program((enum policy_variant)variant, &data)),
                                 VERDICT_ENOSYS);
            }
            assert_int_equal(filter_answer((enum policy_variant)variant, number | X32_BIT, NULL),
                             VERDICT_ENOSYS);
        }
}

static void names_of_calls_are_those_of_the_table(void **state)
{
    (void)state;
    for (size_t i = 0; i < policy_row_count; i++)
        assert_string_equal(seccomp_call_name(number_of(&policy_rows[i])), policy_rows[i].name);
    assert_null(seccomp_call_name(-1));
    assert_null(seccomp_call_name(100000));
}

/* ---- what must be refused, whatever the table says ---- */

static const char *const dangerous[] = {"io_uring_setup",
                                        "io_uring_enter",
                                        "io_uring_register",
                                        "bpf",
                                        "perf_event_open",
                                        "userfaultfd",
                                        "keyctl",
                                        "add_key",
                                        "request_key",
                                        "ptrace",
                                        "process_vm_readv",
                                        "process_vm_writev",
                                        "process_madvise",
                                        "pidfd_getfd",
                                        "kcmp",
                                        "open_by_handle_at",
                                        "name_to_handle_at",
                                        "mount",
                                        "umount2",
                                        "pivot_root",
                                        "fsopen",
                                        "fsconfig",
                                        "fsmount",
                                        "fspick",
                                        "move_mount",
                                        "open_tree",
                                        "mount_setattr",
                                        "chroot",
                                        "setns",
                                        "unshare",
                                        "clone3",
                                        "init_module",
                                        "finit_module",
                                        "delete_module",
                                        "kexec_load",
                                        "kexec_file_load",
                                        "reboot",
                                        "swapon",
                                        "swapoff",
                                        "iopl",
                                        "ioperm",
                                        "modify_ldt",
                                        "acct",
                                        "quotactl",
                                        "syslog",
                                        "settimeofday",
                                        "clock_settime",
                                        "clock_adjtime",
                                        "adjtimex",
                                        "sethostname",
                                        "setdomainname",
                                        "vhangup",
                                        "fanotify_init",
                                        "lookup_dcookie",
                                        "uselib",
                                        "ustat",
                                        "create_module",
                                        "get_kernel_syms",
                                        "query_module",
                                        "nfsservctl",
                                        "_sysctl",
                                        "openat2",
                                        "move_pages",
                                        "migrate_pages",
                                        "mbind",
                                        "set_mempolicy"};

static void dangerous_calls_are_refused_whatever_their_arguments(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof dangerous / sizeof *dangerous; i++) {
        int number = seccomp_syscall_resolve_name_arch(SCMP_ARCH_X86_64, dangerous[i]);
        if (number < 0)
            fail_msg("libseccomp does not know %s", dangerous[i]);
        for (int variant = 0; variant < BOX_VARIANTS; variant++)
            for (uint64_t fill = 0; fill < 3; fill++) {
                uint64_t arguments[6];
                memset(arguments, fill == 0 ? 0 : fill == 1 ? 0xff : 0x01, sizeof arguments);
                enum policy_verdict seen = filter_answer((enum policy_variant)variant, number, arguments);
                if (seen == VERDICT_ALLOW || seen == VERDICT_ASK)
                    fail_msg("%s: %s is %s", programs[variant].name, dangerous[i], verdict_names[seen]);
            }
    }
    /* Calls that are newer than libseccomp: no row, no call. */
    for (int number = 463; number < NUMBERS; number++)
        assert_int_equal(filter_answer(POLICY_CONTAINER, number, NULL), VERDICT_ENOSYS);
}

static void mounting_and_changing_namespaces_ends_the_box(void **state)
{
    (void)state;
    static const char *const ending[] = {
        "mount", "umount2", "pivot_root",        "fsopen",     "move_mount", "open_tree",
        "setns", "bpf",     "open_by_handle_at", "kexec_load", "init_module"};
    for (size_t i = 0; i < sizeof ending / sizeof *ending; i++)
        for (int variant = 0; variant < BOX_VARIANTS; variant++)
            assert_int_equal(answer_with((enum policy_variant)variant, ending[i], 0, 0), VERDICT_KILL);
}

static void clone3_asks_for_the_old_clone(void **state)
{
    (void)state;
    for (int variant = 0; variant < POLICY_VARIANTS; variant++)
        assert_int_equal(answer_with((enum policy_variant)variant, "clone3", 0, 0), VERDICT_ENOSYS);
}

static void clone_makes_no_namespace(void **state)
{
    (void)state;
    static const uint64_t flags[] = {CLONE_NEWNS,   CLONE_NEWCGROUP, CLONE_NEWUTS, CLONE_NEWIPC,
                                     CLONE_NEWUSER, CLONE_NEWPID,    CLONE_NEWNET};
    enum { THREAD = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD };
    for (int variant = 0; variant < POLICY_VARIANTS; variant++) {
        assert_int_equal(answer_with((enum policy_variant)variant, "clone", 0, SIGCHLD), VERDICT_ALLOW);
        assert_int_equal(answer_with((enum policy_variant)variant, "clone", 0, THREAD), VERDICT_ALLOW);
        for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
            assert_int_equal(answer_with((enum policy_variant)variant, "clone", 0, flags[i] | SIGCHLD),
                             VERDICT_EPERM);
            assert_int_equal(answer_with((enum policy_variant)variant, "clone", 0, flags[i] | 1ULL << 63),
                             VERDICT_EPERM);
        }
    }
}

static void tables_of_descriptors_are_seen_from_outside(void **state)
{
    (void)state;
    enum { UNSHARE = 2, CLOEXEC = 4 };
    const uint64_t shared[6] = {3, ~0U, CLOEXEC}, own[6] = {3, ~0U, UNSHARE | CLOEXEC};
    for (int i = 0; i < POLICY_VARIANTS; i++) {
        enum policy_variant variant = (enum policy_variant)i;
        bool is_watched = variant != POLICY_CONTAINER && variant != POLICY_CONTAINER_GRANTED;
        assert_int_equal(filter_answer(variant, SYS_close_range, shared), VERDICT_ALLOW);
        assert_int_equal(filter_answer(variant, SYS_close_range, own),
                         is_watched ? VERDICT_EPERM : VERDICT_ALLOW);
    }
}

static enum policy_verdict pair_answer(enum policy_variant variant, uint64_t family, uint64_t type)
{
    const uint64_t arguments[6] = {family, type};
    return filter_answer(variant, SYS_socketpair, arguments);
}

static void sockets_are_of_the_unix_kind_or_not_at_all(void **state)
{
    (void)state;
    for (uint64_t family = 0; family < 64; family++) {
        /* The kernel takes an int: what stands above it must not hide the family. */
        for (uint64_t above = 0; above <= 1ULL << 32; above += 1ULL << 32) {
            bool is_unix = family == AF_UNIX;
            for (int i = 0; i < POLICY_VARIANTS; i++) {
                enum policy_variant variant = (enum policy_variant)i;
                bool may = is_unix && variant == POLICY_CONTAINER;
                assert_int_equal(answer_with(variant, "socket", 0, family | above),
                                 may ? VERDICT_ALLOW : VERDICT_EPERM);
                assert_int_equal(pair_answer(variant, family | above, SOCK_STREAM | SOCK_CLOEXEC | above),
                                 is_unix ? VERDICT_ALLOW : VERDICT_EPERM);
            }
        }
    }
}

static void sockets_reach_no_name_of_the_host(void **state)
{
    (void)state;
    static const char *const calls[] = {"connect", "bind", "listen", "accept", "accept4"};
    for (int i = 0; i < POLICY_VARIANTS; i++) {
        enum policy_variant variant = (enum policy_variant)i;
        bool own = variant == POLICY_CONTAINER; /* nothing of the host is in sight */
        for (size_t j = 0; j < sizeof calls / sizeof *calls; j++)
            assert_int_equal(answer_with(variant, calls[j], 0, 3), own ? VERDICT_ALLOW : VERDICT_EPERM);
        /* A pair of datagram sockets could send to any name. */
        static const uint64_t flags[] = {0, SOCK_NONBLOCK, SOCK_CLOEXEC, SOCK_NONBLOCK | SOCK_CLOEXEC,
                                         1ULL << 32};
        for (size_t j = 0; j < sizeof flags / sizeof *flags; j++) {
            assert_int_equal(pair_answer(variant, AF_UNIX, SOCK_DGRAM | flags[j]),
                             own ? VERDICT_ALLOW : VERDICT_EPERM);
            assert_int_equal(pair_answer(variant, AF_UNIX, SOCK_RAW | flags[j]),
                             own ? VERDICT_ALLOW : VERDICT_EPERM);
            assert_int_equal(pair_answer(variant, AF_UNIX, SOCK_SEQPACKET | flags[j]), VERDICT_ALLOW);
        }
    }
}

static void terminals_take_no_input_from_the_box(void **state)
{
    (void)state;
    for (int variant = 0; variant < POLICY_VARIANTS; variant++) {
        static const uint64_t refused[] = {0x5412 /* TIOCSTI */, 0x541c /* TIOCLINUX */,
                                           0x541d /* TIOCCONS */};
        for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
            assert_int_equal(answer_with((enum policy_variant)variant, "ioctl", 1, refused[i]),
                             VERDICT_EPERM);
            assert_int_equal(
                answer_with((enum policy_variant)variant, "ioctl", 1, refused[i] | 0xabcULL << 32),
                VERDICT_EPERM);
        }
        assert_int_equal(answer_with((enum policy_variant)variant, "ioctl", 1, 0x5401 /* TCGETS */),
                         VERDICT_ALLOW);
        assert_int_equal(answer_with((enum policy_variant)variant, "ioctl", 1, 0x541b /* FIONREAD */),
                         VERDICT_ALLOW);
    }
}

static void no_device_and_no_set_id_file_is_made(void **state)
{
    (void)state;
    for (int i = 0; i < POLICY_VARIANTS; i++) {
        enum policy_variant variant = (enum policy_variant)i;
        assert_int_equal(answer_with(variant, "mknod", 1, S_IFCHR | 0600), VERDICT_EPERM);
        assert_int_equal(answer_with(variant, "mknod", 1, S_IFBLK | 0600), VERDICT_EPERM);
        assert_int_equal(answer_with(variant, "mknodat", 2, S_IFCHR | 0600), VERDICT_EPERM);
        assert_int_equal(answer_with(variant, "mknodat", 2, S_IFREG | S_ISUID), VERDICT_EPERM);
        assert_int_equal(answer_with(variant, "mknod", 1, S_IFIFO | 0600), VERDICT_ALLOW);
        assert_int_equal(answer_with(variant, "chmod", 1, 04755), VERDICT_EPERM);
        assert_int_equal(answer_with(variant, "fchmod", 1, 02755), VERDICT_EPERM);
        assert_int_equal(answer_with(variant, "fchmodat", 2, 06755), VERDICT_EPERM);
        assert_int_equal(answer_with(variant, "creat", 1, 04755), VERDICT_EPERM);
        uint64_t arguments[6] = {0, 0, O_CREAT | O_WRONLY, 04755};
        assert_int_equal(filter_answer(variant, SYS_openat, arguments), VERDICT_EPERM);
        arguments[2] = O_TMPFILE | O_WRONLY;
        assert_int_equal(filter_answer(variant, SYS_openat, arguments), VERDICT_EPERM);
        arguments[2] = O_RDONLY; /* the mode means nothing then */
        assert_int_equal(filter_answer(variant, SYS_openat, arguments), VERDICT_ALLOW);
    }
}

static void what_every_program_does_is_allowed(void **state)
{
    (void)state;
    static const char *const everyday[] = {"read",
                                           "write",
                                           "close",
                                           "mmap",
                                           "mprotect",
                                           "munmap",
                                           "brk",
                                           "futex",
                                           "execve",
                                           "exit_group",
                                           "wait4",
                                           "pipe2",
                                           "dup2",
                                           "fork",
                                           "vfork",
                                           "getrandom",
                                           "epoll_wait",
                                           "eventfd2",
                                           "timerfd_create",
                                           "clock_gettime",
                                           "sched_getaffinity",
                                           "rt_sigaction",
                                           "set_robust_list",
                                           "rseq",
                                           "statx",
                                           "getdents64",
                                           "unlink",
                                           "rename"};
    for (size_t i = 0; i < sizeof everyday / sizeof *everyday; i++)
        for (int variant = 0; variant < POLICY_VARIANTS; variant++)
            assert_int_equal(answer_with((enum policy_variant)variant, everyday[i], 0, 0), VERDICT_ALLOW);
}

/* ---- worn ---- */

static void wear(enum policy_variant variant)
{
    must(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    must(seccomp_filter_install(variant, NULL) == 0);
}

static void worn_body(void *data)
{
    enum policy_variant variant = *(enum policy_variant *)data;
    wear(variant);
    must(getppid() > 0);
    must(syscall(SYS_clone3, NULL, 0) < 0 && errno == ENOSYS);
    must(ptrace(PTRACE_TRACEME, 0, NULL, NULL) < 0 && errno == EPERM);
    must(unshare(CLONE_NEWUSER) < 0 && errno == EPERM);
    must(socket(AF_INET, SOCK_STREAM, 0) < 0 && errno == EPERM);
    int ends[2];
    must(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    must((socketpair(AF_UNIX, SOCK_DGRAM, 0, ends) == 0) == (variant == POLICY_CONTAINER));
    int own = socket(AF_UNIX, SOCK_STREAM, 0);
    must(variant == POLICY_CONTAINER ? own >= 0 : own < 0);
    must(syscall(9999) < 0 && errno == ENOSYS);
    must(syscall(SYS_getpid | X32_BIT) < 0 && errno == ENOSYS);
    if (variant == POLICY_PROCESS_SHARED_UID) /* what would ask is refused where nobody can be asked */
        must(kill(getppid(), 0) < 0 && errno == EPERM);
}

static void worn_filter_answers_as_the_table_says(void **state)
{
    (void)state;
    for (int i = 0; i < POLICY_VARIANTS; i++) {
        enum policy_variant variant = (enum policy_variant)i;
        in_child(worn_body, &variant);
    }
}

static void ending_body(void *data)
{
    wear(*(enum policy_variant *)data);
    syscall(SYS_mount, NULL, NULL, NULL, 0, NULL);
}

static void without_a_listener_the_kernel_kills(void **state)
{
    (void)state;
    for (int i = 0; i < BOX_VARIANTS; i++) {
        enum policy_variant variant = (enum policy_variant)i;
        int status = child_run(ending_body, &variant);
        assert_true(WIFSIGNALED(status));
        assert_int_equal(WTERMSIG(status), SIGSYS);
    }
}

static void unprepared_body(void *data)
{
    (void)data;
    become_some_user();
    must(seccomp_filter_install(POLICY_CONTAINER, NULL) == -EACCES);
}

static void failure_to_install_is_told(void **state)
{
    (void)state;
    in_child(unprepared_body, NULL);
}

static void listener_child(int socket_fd)
{
    int listener = -1;
    must(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    must(seccomp_filter_install(POLICY_CONTAINER, &listener) == 0);
    must(listener >= 0 && process_send(socket_fd, "x", 1, listener) == 0);
    close(listener);
    syscall(SYS_setns, -1, 0);
    _exit(1); /* nobody should answer */
}

static void with_a_listener_the_supervisor_is_told_the_call(void **state)
{
    (void)state;
    int ends[2], listener = -1;
    char byte;
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    pid_t child = fork();
    if (child == 0)
        listener_child(ends[1]);
    close(ends[1]);
    int received = process_receive(ends[0], &byte, 1, &listener);
    if (received == 0) {
        waitpid(child, NULL, 0);
        close(ends[0]);
        skip_because("no seccomp listener can be had here");
    }
    assert_int_equal(received, 1);
    struct pollfd polled = {.fd = listener, .events = POLLIN};
    assert_int_equal(poll(&polled, 1, 5000), 1);
    struct seccomp_notif notification = {0};
    assert_int_equal(ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &notification), 0);
    assert_int_equal(notification.data.nr, SYS_setns);
    assert_string_equal(seccomp_call_name(notification.data.nr), "setns");
    assert_int_equal(kill(child, SIGKILL), 0);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    close(listener);
    close(ends[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_variant_has_a_program),
        cmocka_unit_test(no_call_is_in_the_table_twice),
        cmocka_unit_test(rows_are_well_formed),
        cmocka_unit_test(boxes_without_namespaces_are_never_freer),
        cmocka_unit_test(every_row_answers_as_the_table_says),
        cmocka_unit_test(every_check_of_arguments_answers_as_the_table_says),
        cmocka_unit_test(limits_of_other_processes_and_of_core_files_cannot_be_set),
        cmocka_unit_test(numbers_without_a_row_are_not_implemented),
        cmocka_unit_test(foreign_interfaces_have_no_calls_at_all),
        cmocka_unit_test(names_of_calls_are_those_of_the_table),
        cmocka_unit_test(dangerous_calls_are_refused_whatever_their_arguments),
        cmocka_unit_test(mounting_and_changing_namespaces_ends_the_box),
        cmocka_unit_test(clone3_asks_for_the_old_clone),
        cmocka_unit_test(clone_makes_no_namespace),
        cmocka_unit_test(tables_of_descriptors_are_seen_from_outside),
        cmocka_unit_test(sockets_are_of_the_unix_kind_or_not_at_all),
        cmocka_unit_test(sockets_reach_no_name_of_the_host),
        cmocka_unit_test(terminals_take_no_input_from_the_box),
        cmocka_unit_test(no_device_and_no_set_id_file_is_made),
        cmocka_unit_test(what_every_program_does_is_allowed),
        cmocka_unit_test(worn_filter_answers_as_the_table_says),
        cmocka_unit_test(without_a_listener_the_kernel_kills),
        cmocka_unit_test(failure_to_install_is_told),
        cmocka_unit_test(with_a_listener_the_supervisor_is_told_the_call),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
