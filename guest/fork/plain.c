/* Forks without namespaces: an interpreter's copy puts on the layers of its box itself.
 *
 *   zygote ── clone, shared memory ──> stands aside ── clone, shared memory ──> first process ── clone ──>
 * copy (waits for both, as after vfork)   ends with the second's exec             becomes init returns 0
 *
 * Init must not be a child of the zygote: the one in the middle ends, and it becomes the host's. The first
 * process takes the user that the host names, where boxes have users of their own: a zygote has the two
 * capabilities for that, and a filter that lets it take no user but a box's. It gives them up before there is
 * a copy. Where all share one user, it enters a scope for signals, so that it can end its box, all of it, and
 * nothing else.
 *
 * The copy does what init's child does in a box that is started (guest/init/layers.c): file rules, then a
 * filter with a listener of its own, which it hands to the host. A listener can be had because the zygote's
 * filter has none. Then it proves both by things that the zygote may do and it may not, and waits for the
 * word to go. */
#include "fork.h"
#include "os/fork_flags.h"
#include "os/raw.h"
#include "pages.h"
#include "proofs.h"
#include "seeds.h"

#include <linux/errno.h>
#include <linux/filter.h>
#include <linux/prctl.h>
#include <linux/seccomp.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/syscall.h>

enum { FILTER_BYTES_MAX = 2048 * sizeof(struct sock_filter), LANDLOCK_RESTRICT_SELF = 446 };

/* 0 in a child that goes on on our stack, where we are asleep until it executes; then we end, and do not
 * return. A negative errno: there is none. */
static long stand_aside(void)
{
    long pid;
    register long r10 __asm__("r10") = 0;
    register long r8 __asm__("r8") = 0;
    __asm__ volatile("syscall\n"
                     "    test %%rax, %%rax\n"
                     "    jle 1f\n"
                     "    mov $231, %%eax\n" /* exit_group */
                     "    xor %%edi, %%edi\n"
                     "    syscall\n"
                     "1:\n"
                     : "=a"(pid)
                     : "a"(SYS_clone), "D"((long)FORK_PLAIN_FLAGS), "S"(0L), "d"(0L), "r"(r10), "r"(r8)
                     : "rcx", "r11", "memory");
    return pid;
}

static long take_own_user(uint32_t uid)
{
    long status = raw_call(SYS_setgroups, 0, 0, 0, 0, 0);
    if (status == 0)
        status = raw_call(SYS_setresgid, uid, uid, uid, 0, 0);
    if (status == 0)
        status = raw_call(SYS_setresuid, uid, uid, uid, 0, 0);
    /* A change of uid marks the memory, which is the zygote's too, as not to be looked at by itself. */
    return status < 0 ? status : raw_call(SYS_prctl, PR_SET_DUMPABLE, 1, 0, 0, 0);
}

long plain_first_process(struct fork_state *state)
{
    struct init_entry entry;
    int groups[DESCRIPTORS_MAX], group_count = 0;
    long status = stand_aside();
    if (status == 0)
        status = raw_call(SYS_setsid, 0, 0, 0, 0, 0);
    if (status >= 0)
        status = say_entered(state);
    note_ignored(state);
    if (status == 0 && (!take(state->fds[CONTROL], (char *)&entry, sizeof entry, groups, &group_count) ||
                        entry.order != INIT_ENTER))
        status = -EPIPE;
    if (status == 0)
        status = join_groups(groups, group_count);
    if (status == 0)
        status = entry.uid ? take_own_user(entry.uid) : put_on_scope(state->landlock_abi);
    if (status == 0)
        status = drop_capabilities();
    return status < 0 ? status : copy_and_become_init(state, FORK_PLAIN_PROGRAM_FLAGS);
}

static void copy_text(char *into, unsigned size, const char *text)
{
    volatile char *at = into; /* or the compiler would call a C library */
    for (unsigned i = 0; i + 1 < size && text[i]; i++)
        at[i] = text[i];
}

/* To the host, over the control socket; `fd` -1: without a descriptor. */
static long say(const struct fork_state *state, struct init_message *words, int fd)
{
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } space;
    struct iovec vector = {words, sizeof *words};
    struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1};
    if (fd >= 0) {
        message.msg_control = space.bytes;
        message.msg_controllen = sizeof space.bytes;
        space.align.cmsg_len = CMSG_LEN(sizeof(int));
        space.align.cmsg_level = SOL_SOCKET;
        space.align.cmsg_type = SCM_RIGHTS;
        *(int *)CMSG_DATA(&space.align) = fd;
    }
    return raw_call(SYS_sendmsg, state->fds[CONTROL], RAW(&message), MSG_NOSIGNAL, 0, 0);
}

static void prepare_words(struct init_message *words, uint32_t kind)
{
    for (unsigned i = 0; i < sizeof *words; i++)
        ((volatile char *)words)[i] = 0;
    words->kind = kind;
}

__attribute__((noreturn)) static void fail(const struct fork_state *state, const char *layer, long code,
                                           const char *text)
{
    struct init_message words;
    prepare_words(&words, INIT_FAILED);
    words.code = (int)code;
    words.is_layer = 1;
    copy_text(words.subject, sizeof words.subject, layer);
    copy_text(words.text, sizeof words.text, text);
    say(state, &words, -1);
    leave(75);
}

static long install_filter(int program_fd, unsigned flags)
{
    char code[FILTER_BYTES_MAX] __attribute__((aligned(8)));
    long length = raw_call(SYS_pread64, program_fd, RAW(code), sizeof code, 0, 0);
    if (length <= 0)
        return length < 0 ? length : -EINVAL;
    const struct sock_fprog program = {(unsigned short)((unsigned long)length / sizeof(struct sock_filter)),
                                       (struct sock_filter *)code};
    return raw_call(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, RAW(&program), 0, 0);
}

/* As guest/init/layers.c does it: where an outer sandbox holds the only listener, boxes with a user of their
 * own do without. */
static void put_on_filter(const struct fork_state *state, const int *gifts, int count)
{
    long listener = install_filter(gifts[GIFT_FILTER], SECCOMP_FILTER_FLAG_NEW_LISTENER);
    if (listener == -EBUSY && count == GIFTS) {
        long status = install_filter(gifts[GIFT_FILTER_ALONE], 0);
        if (status < 0)
            fail(state, "seccomp", status, "a fork cannot install its system-call filter");
        return;
    }
    if (listener < 0)
        fail(state, "seccomp", listener, "a fork cannot install its system-call filter");
    struct init_message words;
    prepare_words(&words, INIT_LISTENER);
    long status = say(state, &words, (int)listener);
    raw_call(SYS_close, listener, 0, 0, 0, 0);
    if (status < 0)
        leave(75);
}

static void prove(const struct fork_state *state)
{
    const char *wrong = proof_of_seccomp();
    if (!wrong)
        wrong = proof_of_process_filter();
    if (wrong)
        fail(state, "seccomp", 0, wrong);
    if ((wrong = proof_of_no_new_privs()))
        fail(state, "no_new_privs", 0, wrong);
    if ((wrong = proof_of_file_rules("/proc/self/status")))
        fail(state, "landlock", 0, wrong);
    if (state->landlock_abi >= 6 && (wrong = proof_of_scope()))
        fail(state, "landlock_scope", 0, wrong);
}

static void await_go(const struct fork_state *state)
{
    char order = 0;
    long length;
    do
        length = raw_call(SYS_read, state->fds[CONTROL], RAW(&order), 1, 0, 0);
    while (length == -EINTR);
    if (length != 1 || order != INIT_GO)
        leave(71); /* the host is gone, or changed its mind */
}

void plain_settle(const struct fork_state *state)
{
    char order = INIT_ENTER;
    struct init_entry entry;
    int gifts[DESCRIPTORS_MAX], gift_count = 0;
    raw_call(SYS_write, state->fds[CHANNEL], RAW(&order), 1, 0, 0); /* the zygote can make the next one */
    if (state->haste == HASTE_NONE)
        pages_take();
    else if (state->haste == HASTE_AWAITED_ALONE)
        pages_take_until_called(state->fds[CHANNEL]);
    if (!take(state->fds[CHANNEL], (char *)&entry, sizeof entry, gifts, &gift_count) ||
        entry.order != INIT_ENTER || gift_count < GIFT_FILTER_ALONE)
        leave(71);
    if (seeds_renew() < 0 || raw_call(SYS_setsid, 0, 0, 0, 0, 0) < 0 ||
        raw_call(SYS_fchdir, gifts[GIFT_DIRECTORY], 0, 0, 0, 0) < 0)
        leave(74);
    long status = raw_call(LANDLOCK_RESTRICT_SELF, gifts[GIFT_RULESET], 0, 0, 0, 0);
    if (status < 0)
        fail(state, "landlock", status, "a fork cannot put on its file rules");
    put_on_filter(state, gifts, gift_count);
    prove(state);
    struct init_message words;
    prepare_words(&words, INIT_VERIFIED);
    words.landlock_abi = state->landlock_abi;
    words.landlock_scopes = state->landlock_abi >= 6;
    if (say(state, &words, -1) < 0)
        leave(75);
    await_go(state);
    if (take_streams(state) < 0)
        leave(74);
    raw_call(SYS_write, INIT_CHANNEL_FD, RAW(&order), 1, 0, 0); /* now we can be looked at */
}
