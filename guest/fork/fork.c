/* Forks the interpreter that has loaded this library into a box of its own.
 *
 * Theory of operation. The interpreter (its runner) is told by the host to fork, and gets descriptors with
 * the order: the new box's control socket, plan, init program, streams and channel. The fork has two steps,
 * because the new box needs an init as its first process, and an interpreter whose memory is a copy of ours:
 *
 *   interpreter ── clone, all namespaces, shared memory ──> first process ── clone, copied memory ──> copy
 *   (waits, as after vfork)                                 becomes init                    returns 0
 *
 * The first process lets the host map its user, joins the groups that the host has made meanwhile (the files
 * to do that by come with its word), takes that user, empties the bounding set, forks the copy and executes
 * init. So page tables are copied once. The copy waits until the host has made its mounts, gives up every
 * capability, and returns to the interpreter on the stack that the interpreter called from, which it has a
 * copy of.
 *
 * The filter asks the host about both clones; they pass only within an order. Nothing here is trusted by the
 * host: it looks at both processes from outside before they get anything to do.
 *
 * There is no C library in here: it is loaded into interpreters of any image, whatever library they have. */
#include "fork.h"
#include "os/fork_flags.h"
#include "os/raw.h"
#include "pages.h"
#include "seeds.h"

#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/prctl.h>
#include <linux/seccomp.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/syscall.h>

enum {
    BOX_USER = 1000,
    SIG_SETMASK_ = 2,
    AT_EMPTY_PATH_ = 0x1000,
    CLOEXEC_ = 02000000, /* O_CLOEXEC */
    F_DUPFD_CLOEXEC_ = 1030,
    CLEAR_OF_TARGETS = 64,
    SCOPE_SIGNAL = 1 << 1,
    CAPABILITIES_MAX = 64,
    WAIT_ALL = 0x40000000, /* __WALL */
    SIGNALS = 64,
    SIGACTION_WORDS = 4, /* of the kernel's struct: the first is the handler */
};

void leave(long code)
{
    raw_call(SYS_exit_group, code, 0, 0, 0, 0);
    __builtin_unreachable();
}

/* The shared memory is the interpreter's: from here on only its stack below and the state are written. */
long join_groups(const int *fds, int count)
{
    for (int i = 0; i < count; i++) {
        long status = raw_call(SYS_write, fds[i], RAW("0"), 1, 0, 0);
        if (status < 0)
            return status;
        raw_call(SYS_close, fds[i], 0, 0, 0, 0);
    }
    return 0;
}

static long say(const struct fork_state *state, enum init_message_kind kind)
{
    struct init_message message;
    for (unsigned i = 0; i < sizeof message; i++)
        ((volatile char *)&message)[i] = 0;
    message.kind = kind;
    long status = raw_call(SYS_write, state->fds[CONTROL], RAW(&message), sizeof message, 0, 0);
    return status < 0 ? status : 0;
}

void note_ignored(struct fork_state *state)
{
    enum { IGNORED = 1 /* SIG_IGN */ };
    state->ignored = 0;
    for (int number = 1; number <= SIGNALS; number++) {
        unsigned long action[SIGACTION_WORDS] = {0};
        if (raw_call(SYS_rt_sigaction, number, 0, RAW(action), 8, 0) == 0 && action[0] == IGNORED)
            state->ignored |= UINT64_C(1) << (number - 1);
    }
}

long say_entered(const struct fork_state *state)
{
    return say(state, INIT_ENTERED);
}

static long pass_number(long number);

/* Tells the host that we are there, and waits until it has mapped our user and made our groups; there is
 * something to do meanwhile. */
static long enter(struct fork_state *state)
{
    char order = 0;
    int groups[DESCRIPTORS_MAX], group_count = 0;
    long status = say_entered(state);
    if (status == 0)
        status = pass_number(state->number);
    if (status < 0)
        return status;
    note_ignored(state);
    if (!take(state->fds[CONTROL], &order, 1, groups, &group_count) || order != INIT_ENTER)
        return -1;
    return join_groups(groups, group_count);
}

static long take_user(void)
{
    long status = raw_call(SYS_setresgid, BOX_USER, BOX_USER, BOX_USER, 0, 0);
    if (status == 0)
        status = raw_call(SYS_setresuid, BOX_USER, BOX_USER, BOX_USER, 0, 0);
    /* A change of uid marks the memory, which is the interpreter's too, as not to be looked at by itself. */
    if (status == 0)
        status = raw_call(SYS_prctl, PR_SET_DUMPABLE, 1, 0, 0, 0);
    for (int i = 0; status == 0 && i < CAPABILITIES_MAX; i++)
        if (raw_call(SYS_prctl, PR_CAPBSET_DROP, i, 0, 0, 0) < 0)
            break; /* where the kernel's list ends; the host looks at what is left */
    return status;
}

/* Libraries tell a copy of themselves by its number, OpenSSL's random numbers among them: it must not have
 * that of what it is a copy of. Numbers rise, so those up to it are used up, by children that end at once;
 * they use nothing of the stack that they share with us. */
static long pass_number(long number)
{
    long pid;
    do {
        register long r10 __asm__("r10") = 0;
        register long r8 __asm__("r8") = 0;
        __asm__ volatile("syscall\n"
                         "    test %%rax, %%rax\n"
                         "    jnz 1f\n"
                         "    mov $60, %%eax\n" /* exit */
                         "    xor %%edi, %%edi\n"
                         "    syscall\n"
                         "1:\n"
                         : "=a"(pid)
                         : "a"(SYS_clone), "D"((long)(CLONE_VM | CLONE_VFORK)), "S"(0L), "d"(0L), "r"(r10),
                           "r"(r8)
                         : "rcx", "r11", "memory");
        if (pid > 0)
            raw_call(SYS_wait4, pid, 0, WAIT_ALL, 0, 0);
    } while (pid > 0 && pid < number);
    return pid < 0 ? pid : 0;
}

/* `pid` in decimal, at the end of a buffer. */
static char *number_text(long number, char *end)
{
    *--end = '\0';
    do
        *--end = (char)('0' + number % 10);
    while (number /= 10);
    return end;
}

static void become_init(const struct fork_state *state, long program)
{
    static const int wanted[] = {CONTROL, PLAN, INIT};
    static const int places[] = {INIT_CONTROL_FD, INIT_PLAN_FD, 5};
    long moved[3];
    for (int i = 0; i < 3; i++)
        moved[i] = raw_call(SYS_fcntl, state->fds[wanted[i]], F_DUPFD_CLOEXEC_, CLEAR_OF_TARGETS, 0, 0);
    for (int i = 0; i < 3; i++)
        if (moved[i] < 0 || raw_call(SYS_dup3, moved[i], places[i], i == 2 ? CLOEXEC_ : 0, 0, 0) < 0)
            leave(72);
    raw_call(SYS_close_range, 0, 2, 0, 0, 0);
    raw_call(SYS_close_range, 6, ~0U, 0, 0, 0);
    static const unsigned long by_default[SIGACTION_WORDS];
    for (int number = 1; number <= SIGNALS; number++)
        if (state->ignored >> (number - 1) & 1)
            raw_call(SYS_rt_sigaction, number, RAW(by_default), 0, 8, 0);
    char text[24];
    char *const arguments[] = {(char[]){"init"}, number_text(program, text + sizeof text), 0};
    char *const environment[] = {0};
    raw_call(SYS_execveat, 5, RAW(""), RAW(arguments), RAW(environment), AT_EMPTY_PATH_);
    leave(73);
}

/* The first with 0, the other with the state itself. */
__attribute__((noreturn)) void come_back(struct fork_state *state);
__attribute__((noreturn)) void come_back_late(struct fork_state *state);

long copy_and_become_init(struct fork_state *state, long flags)
{
    if (!state->thread_id)
        flags &= ~(long)(CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID);
    long status = raw_call(SYS_clone, flags, 0, 0, RAW(state->thread_id), 0);
    if (status == 0 && state->cleared)
        come_back_late(state);
    if (status == 0)
        come_back(state);
    if (status > 0 && state->haste == HASTE_AWAITED_ALONE && !state->is_plain)
        say(state, INIT_COPIED); /* the host gives us another CPU than the copy's, which waits for ours */
    if (status > 0)
        become_init(state, status);
    return status;
}

/* Of a box that was made ahead: it waits for somebody who wants it. */
static long await_copy_order(struct fork_state *state)
{
    char order[2] = {0};
    long length;
    do
        length = raw_call(SYS_read, state->fds[CONTROL], RAW(order), sizeof order, 0, 0);
    while (length == -4 /* EINTR */);
    if (length != sizeof order || order[0] != INIT_COPY)
        leave(71); /* nobody wants it any more */
    state->haste = (enum haste)order[1];
    return 0;
}

static long first_process_apart(struct fork_state *state)
{
    long status = enter(state);
    if (status == 0)
        status = take_user();
    if (status == 0 && state->haste == HASTE_PLACE)
        status = await_copy_order(state);
    return status < 0 ? status : copy_and_become_init(state, FORK_PROGRAM_FLAGS);
}

/* The new box's first process; on a stack of its own. */
__attribute__((noreturn)) HIDDEN void first_process(struct fork_state *state);
void first_process(struct fork_state *state)
{
    state->failure = state->is_plain ? plain_first_process(state) : first_process_apart(state);
    leave(71);
}

/* clone with a stack of its own for a child that shares our memory. The child calls first_process, whose copy
 * comes back to where clone_first_process was called from, and gets 0 there, if we sleep until it is made;
 * else, as we have gone on meanwhile, to where call_with_way_back was called from, which is still on our
 * stack. */
long clone_first_process(struct fork_state *state, void *stack_end, long flags);
long call_with_way_back(void **ret_way_back, long (*function)(void *data), void *data);
__asm__(".hidden clone_first_process\n"
        "clone_first_process:\n"
        "    push %rbp\n    push %rbx\n    push %r12\n    push %r13\n    push %r14\n    push %r15\n"
        "    cmpq $0, (%rdi)\n"
        "    jne 2f\n"
        "    mov %rsp, (%rdi)\n"
        "2:  mov %rdi, %r12\n"
        "    mov 8(%rdi), %r10\n"
        "    mov %rdx, %rdi\n"
        "    xor %edx, %edx\n    xor %r8d, %r8d\n"
        "    mov $56, %eax\n" /* clone */
        "    syscall\n"
        "    test %rax, %rax\n"
        "    jnz 1f\n"
        "    xor %ebp, %ebp\n"
        "    mov %r12, %rdi\n"
        "    call first_process\n"
        "    hlt\n"
        ".hidden call_with_way_back\n"
        "call_with_way_back:\n"
        "    push %rbp\n    push %rbx\n    push %r12\n    push %r13\n    push %r14\n    push %r15\n"
        "    mov %rsp, (%rdi)\n"
        "    sub $8, %rsp\n" /* as the calling convention wants it */
        "    mov %rdx, %rdi\n"
        "    call *%rsi\n"
        "    add $8, %rsp\n"
        "    jmp 1f\n"
        ".hidden come_back_late\n"
        "come_back_late:\n"
        "    mov %rdi, %rax\n"
        "    mov (%rdi), %rsp\n"
        "    jmp 1f\n"
        ".hidden come_back\n"
        "come_back:\n"
        "    mov (%rdi), %rsp\n"
        "    xor %eax, %eax\n"
        "1:  pop %r15\n    pop %r14\n    pop %r13\n    pop %r12\n    pop %rbx\n    pop %rbp\n"
        "    ret\n");

long drop_capabilities(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct none[2] = {{0}, {0}};
    raw_call(SYS_prctl, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    return raw_call(SYS_capset, RAW(&header), RAW(none), 0, 0, 0);
}

/* Signals of the program do not reach init, as in a box that was started the long way. */
long put_on_scope(int landlock_abi)
{
    if (landlock_abi < 6)
        return 0;
    const uint64_t attributes[3] = {0, 0, SCOPE_SIGNAL};
    long ruleset = raw_call(444 /* landlock_create_ruleset */, RAW(attributes), sizeof attributes, 0, 0, 0);
    long status = ruleset < 0 ? ruleset : raw_call(446 /* landlock_restrict_self */, ruleset, 0, 0, 0, 0);
    if (ruleset >= 0)
        raw_call(SYS_close, ruleset, 0, 0, 0, 0);
    return status;
}

long take_streams(const struct fork_state *state)
{
    static const int wanted[] = {STDIN, STDOUT, STDERR, CHANNEL};
    static const int places[] = {0, 1, 2, INIT_CHANNEL_FD};
    long moved[4];
    for (int i = 0; i < 4; i++) {
        moved[i] = raw_call(SYS_fcntl, state->fds[wanted[i]], F_DUPFD_CLOEXEC_, CLEAR_OF_TARGETS, 0, 0);
        if (moved[i] < 0)
            return moved[i];
    }
    for (int i = 0; i < 4; i++) {
        long status = raw_call(SYS_dup3, moved[i], places[i], i == 3 ? CLOEXEC_ : 0, 0, 0);
        if (status < 0)
            return status;
    }
    long status = raw_call(SYS_close_range, 3, INIT_CHANNEL_FD - 1, 0, 0, 0);
    return status < 0 ? status : raw_call(SYS_close_range, INIT_CHANNEL_FD + 1, ~0U, 0, 0, 0);
}

enum { LENGTHS = 8 };

int take(int channel, char *into, unsigned length, int *fds, int *fd_count)
{
    while (length > 0) {
        union {
            char bytes[CMSG_SPACE(DESCRIPTORS_MAX * sizeof(int))];
            struct cmsghdr align;
        } space;
        struct iovec vector = {into, length};
        struct msghdr message = {.msg_iov = &vector,
                                 .msg_iovlen = 1,
                                 .msg_control = space.bytes,
                                 .msg_controllen = sizeof space.bytes};
        long got = raw_call(SYS_recvmsg, channel, RAW(&message), MSG_CMSG_CLOEXEC, 0, 0);
        if (got == -4 /* EINTR */)
            continue;
        if (got <= 0)
            return 0;
        struct cmsghdr *header = (struct cmsghdr *)space.bytes;
        if (message.msg_controllen >= CMSG_LEN(0) && header->cmsg_type == SCM_RIGHTS) {
            unsigned count = (unsigned)((header->cmsg_len - CMSG_LEN(0)) / sizeof(int));
            for (unsigned i = 0; i < count && *fd_count < DESCRIPTORS_MAX; i++)
                fds[(*fd_count)++] = ((const int *)CMSG_DATA(header))[i];
        }
        into += got;
        length -= (unsigned)got;
    }
    return 1;
}

/* For a copy that will not be forked again: the rules for its files, and a filter that leaves nobody to ask.
 */
static long confine(int ruleset_fd)
{
    static const struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, __builtin_offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, __builtin_offsetof(struct seccomp_data, args)),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, CLONE_NEWUSER | CLONE_NEWCGROUP, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 1 /* EPERM */),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = {sizeof code / sizeof *code, (struct sock_filter *)(uintptr_t)code};
    long status = raw_call(446 /* landlock_restrict_self */, ruleset_fd, 0, 0, 0, 0);
    return status < 0 ? status : raw_call(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, RAW(&program), 0, 0);
}

/* Is there a place that only the rules forbid? */
static int is_confined(void)
{
    long file =
        raw_call(SYS_open, RAW("/run/landlock-proof"), CLOEXEC_ | 0101 /* create, to write */, 0600, 0, 0);
    if (file >= 0)
        raw_call(SYS_close, file, 0, 0, 0, 0);
    return file == -13; /* EACCES */
}

/* The copy, before it is let back into the interpreter. Rules for its files come with the word to go on, if
 * it is one that will not be forked again. */
static void settle(const struct fork_state *state)
{
    char order = 0;
    int rules[DESCRIPTORS_MAX], rule_count = 0;
    if (state->haste == HASTE_NONE)
        pages_take();
    else if (state->haste == HASTE_AWAITED_ALONE)
        pages_take_until_called(state->fds[CHANNEL]);
    if (!take(state->fds[CHANNEL], &order, 1, rules, &rule_count) || order != INIT_ENTER)
        leave(71); /* the host changed its mind, or is gone */
    if (seeds_renew() < 0 || (rule_count > 0 && confine(rules[0]) < 0))
        leave(75);
    if (raw_call(SYS_setsid, 0, 0, 0, 0, 0) < 0 || take_streams(state) < 0 || drop_capabilities() < 0 ||
        put_on_scope(state->landlock_abi) < 0 || raw_call(SYS_chdir, RAW("/data/output"), 0, 0, 0, 0) < 0)
        leave(74);
    if (rule_count > 0 && !is_confined())
        leave(76);
    raw_call(SYS_write, INIT_CHANNEL_FD, RAW(&order), 1, 0, 0); /* now we can be looked at */
}

struct order {
    int fds[DESCRIPTORS_MAX];
    int fd_count;
    enum haste haste;
};

static uint64_t former_mask;

static void block_signals(void)
{
    static const uint64_t all = ~UINT64_C(0);
    raw_call(SYS_rt_sigprocmask, SIG_SETMASK_, RAW(&all), RAW(&former_mask), sizeof former_mask, 0);
}

static void restore_signals(void)
{
    raw_call(SYS_rt_sigprocmask, SIG_SETMASK_, RAW(&former_mask), 0, sizeof former_mask, 0);
}

/* The pid of the new box's init (or of who made it) in the interpreter; 0 in its copy; a negative errno. */
static long fork_interpreter(const struct order *order, int *thread_id, int landlock_abi, int is_plain)
{
    static struct fork_state state;
    if (order->fd_count < FIRST_JOIN)
        return -22; /* EINVAL */
    state = (struct fork_state){.fds = order->fds,
                                .fd_count = order->fd_count,
                                .haste = order->haste,
                                .thread_id = thread_id,
                                .landlock_abi = landlock_abi,
                                .is_plain = is_plain,
                                .number = raw_call(SYS_getpid, 0, 0, 0, 0, 0)};
    block_signals();
    static char stack[16384] __attribute__((aligned(16)));
    long result =
        clone_first_process(&state, stack + sizeof stack, is_plain ? FORK_PLAIN_FLAGS : FORK_INIT_FLAGS);
    if (result == 0 && is_plain)
        plain_settle(&state);
    else if (result == 0)
        settle(&state);
    else if (result > 0 && state.failure) {
        raw_call(SYS_wait4, result, 0, WAIT_ALL, 0, 0); /* or it would be a child that nobody knows */
        result = state.failure < 0 ? state.failure : -5;
    }
    if (result > 0)
        raw_call(SYS_sched_yield, 0, 0, 0, 0, 0); /* the copy waits for our CPU, and somebody for the copy */
    restore_signals();
    return result;
}

/* A box that is made ahead. Its first process shares our memory until its copy is made, and is there with
 * others. */
struct place {
    struct fork_state state;
    int fds[DESCRIPTORS_MAX];
    int is_taken; /* by one that shares our memory: the kernel clears it */
    char stack[16384] __attribute__((aligned(16)));
};

enum { PLACES_MAX = 16 };

static long make_place(const struct order *order, int *thread_id, int landlock_abi, void *way_back)
{
    static struct place places[PLACES_MAX];
    struct place *place = places;
    while (place < places + PLACES_MAX && *(volatile int *)&place->is_taken)
        place++;
    if (place == places + PLACES_MAX || order->fd_count < FIRST_JOIN)
        return -11; /* EAGAIN */
    for (int i = 0; i < order->fd_count; i++)
        place->fds[i] = order->fds[i];
    place->state = (struct fork_state){.back_stack = way_back,
                                       .cleared = &place->is_taken,
                                       .fds = place->fds,
                                       .fd_count = order->fd_count,
                                       .haste = HASTE_PLACE,
                                       .thread_id = thread_id,
                                       .landlock_abi = landlock_abi,
                                       .number = raw_call(SYS_getpid, 0, 0, 0, 0, 0)};
    place->is_taken = 1;
    block_signals();
    long result = clone_first_process(&place->state, place->stack + sizeof place->stack, FORK_PLACE_FLAGS);
    restore_signals();
    if (result < 0)
        place->is_taken = 0;
    return result;
}

__attribute__((visibility("default"))) long cloche_fork(const int *fds, int fd_count, int *thread_id,
                                                        int landlock_abi);
long cloche_fork(const int *fds, int fd_count, int *thread_id, int landlock_abi)
{
    static struct order order;
    if (fd_count > DESCRIPTORS_MAX)
        return -22; /* EINVAL */
    order.fd_count = fd_count;
    order.haste = HASTE_AWAITED;
    for (int i = 0; i < fd_count; i++)
        order.fds[i] = fds[i];
    return fork_interpreter(&order, thread_id, landlock_abi, 0);
}

/* In the copy: the host looks at it while it has nothing but its streams and channel; what it opens comes
 * after. */
__attribute__((visibility("default"))) void cloche_await_leave(void);
void cloche_await_leave(void)
{
    char order = 0;
    long got;
    do
        got = raw_call(SYS_read, INIT_CHANNEL_FD, RAW(&order), 1, 0, 0);
    while (got == -4 /* EINTR */);
    if (got != 1 || order != INIT_GO)
        leave(71); /* the host changed its mind, or is gone */
}

/* Takes a frame whose words do not matter: that it brings descriptors is the order, and the length of its
 * body says who waits for the copy. */
static int take_order(int channel, struct order *ret)
{
    unsigned lengths[2];
    static char discarded[4096];
    ret->fd_count = 0;
    if (!take(channel, (char *)lengths, LENGTHS, ret->fds, &ret->fd_count))
        return 0;
    ret->haste = lengths[1];
    for (unsigned long left = (unsigned long)lengths[0] + lengths[1]; left > 0;) {
        unsigned step = left < sizeof discarded ? (unsigned)left : sizeof discarded;
        if (!take(channel, discarded, step, ret->fds, &ret->fd_count))
            return 0;
        left -= step;
    }
    return 1;
}

static void refuse(int channel)
{
    static const char header[] =
        "{\"type\":\"refused\",\"run\":null,\"text\":\"the copy could not be made\"}";
    static char frame[LENGTHS + sizeof header - 1] = {(char)(sizeof header - 1)};
    for (unsigned i = 0; i < sizeof header - 1; i++)
        frame[LENGTHS + i] = header[i];
    raw_call(SYS_write, channel, RAW(frame), sizeof frame, 0, 0);
}

struct zygote {
    int channel;
    int *thread_id;
    int landlock_abi, is_plain;
    void *way_back;
};

/* 0 in a copy, 1 when the host is gone. */
static long serve(void *data)
{
    static struct order order;
    const struct zygote *zygote = data;
    while (take_order(zygote->channel, &order)) {
        long result =
            order.haste == HASTE_PLACE && !zygote->is_plain
                ? make_place(&order, zygote->thread_id, zygote->landlock_abi, zygote->way_back)
                : fork_interpreter(&order, zygote->thread_id, zygote->landlock_abi, zygote->is_plain);
        if (result == 0)
            return 0;
        if (result < 0)
            refuse(zygote->channel);
        for (int i = 0; i < order.fd_count; i++)
            raw_call(SYS_close, order.fds[i], 0, 0, 0, 0);
    }
    return 1;
}

/* Forks at every order, without a word to the interpreter: each page of its memory that it touches between
 * two forks has to be copied again, and breaks a huge one. Returns 0 in a copy, and 1 when the host is gone.
 */
__attribute__((visibility("default"))) long cloche_zygote(int channel, int *thread_id, int landlock_abi,
                                                          int is_plain, const int *trial_ends);
long cloche_zygote(int channel, int *thread_id, int landlock_abi, int is_plain, const int *trial_ends)
{
    if (pages_try(trial_ends, channel))
        return 0;
    struct zygote zygote = {channel, thread_id, landlock_abi, is_plain, 0};
    long result = call_with_way_back(&zygote.way_back, serve, &zygote);
    if (result == 0 || result == 1)
        return result;
    settle(
        (const struct fork_state *)result); /* the copy of one that was made ahead; the others have done so */
    restore_signals();
    return 0;
}
