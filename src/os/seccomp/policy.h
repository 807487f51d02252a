/* The system-call policy: one row a call, one verdict for each kind of box.
 *
 * Whatever has no row answers ENOSYS, as on an older kernel: programs have fallbacks for that. Rows that are
 * refused answer EPERM where a program should see that it is a matter of permission. KILL is for calls that
 * no ordinary program makes and that break-outs are made of: the supervisor is told the number, and ends the
 * box. Foreign ABIs (x32, 32-bit) answer ENOSYS for every number: a table for one ABI is a hole in another.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum policy_variant {
    POLICY_CONTAINER,          /* own namespaces: what it can name is its own */
    POLICY_CONTAINER_GRANTED,  /* the same with directories of the host granted: a socket in one of them leads
                                  to a  daemon of the host, and neither a read-only mount nor Landlock stops a
                                  connect */
    POLICY_PROCESS,            /* no namespaces, but a uid of its own (started by root) */
    POLICY_PROCESS_SHARED_UID, /* no namespaces and the caller's own uid: calls that reach the caller's other
                                  processes or files by name go through the supervisor */
    POLICY_PROCESS_ZYGOTE, /* no namespaces, and nobody's code: of what its forks come from. They wear this
                              and, inside, one of the two above with a listener of their own: what those ask
                              about or end a box for must be open here, or the kernel would not ask */
    POLICY_VARIANTS,
};

enum policy_verdict {
    VERDICT_ALLOW,
    VERDICT_EPERM,
    VERDICT_ENOSYS,
    VERDICT_ENOTSUP, /* for extended attributes: what tools take as "not on this file system" */
    VERDICT_KILL,
    VERDICT_ASK, /* the supervisor decides (see engine/process/mediate.c) */
};

/* One condition on 32 bits of an argument, the low ones unless it says otherwise. Most arguments that the
 * table looks at are int or flag words, of which the kernel itself looks at the low half only, or whose
 * meaning sits there. A pointer has two halves: a program can have memory at an address whose low half is 0.
 */
struct policy_condition {
    uint8_t argument;
    uint8_t any_set; /* 1: (argument & mask) != 0; 0: (argument & mask) == value */
    uint8_t is_high; /* 1: of the high half */
    uint32_t mask;
    uint32_t value;
};

/* In which variants a check exists: a set; none of them means all. */
enum policy_where {
    IN_ALL = 0,
    IN_CONTAINER = 1 << POLICY_CONTAINER,
    IN_GRANTED = 1 << POLICY_CONTAINER_GRANTED,
    IN_PROCESS = 1 << POLICY_PROCESS | 1 << POLICY_PROCESS_SHARED_UID,
    IN_ZYGOTE = 1 << POLICY_PROCESS_ZYGOTE,
};

/* Checks are tried in order; the first one whose conditions all hold decides. */
struct policy_check {
    uint8_t conditions; /* 1 or 2 */
    struct policy_condition condition[2];
    enum policy_verdict verdict;
    unsigned where; /* of enum policy_where */
};

enum { POLICY_CHECKS_MAX = 15 };

struct policy_row {
    const char *name;
    int number; /* -1: asked from libseccomp when the filter is generated; else for calls that it does not
                   know */
    enum policy_verdict verdict[POLICY_VARIANTS];
    uint8_t checks;
    struct policy_check check[POLICY_CHECKS_MAX];
};

extern const struct policy_row policy_rows[];
extern const size_t policy_row_count;
