/* What the launcher tells init, and what init tells back.
 *
 * The plan is one block in a sealed memfd: this header, then `string_count` NUL-terminated strings in the
 * order of the counts. Messages go over a SOCK_SEQPACKET pair. Everything that init says after INIT_GO must
 * be read as if the guest had said it: init shares the guest's uid. */
#pragma once

#include <stdint.h>

enum { PLAN_MAGIC = 0x636c6f31, PLAN_SIZE_MAX = 8 << 20 };

/* Descriptors that init is started with, beside 0, 1 and 2. */
enum { INIT_CONTROL_FD = 3, INIT_PLAN_FD = 4, INIT_CHANNEL_FD = 6 /* with PLAN_CHANNEL, for the program */ };

/* A program that is about to end may call itself so, with its exit code in three digits:
 * guest/fork/farewell.c. */
#define INIT_FAREWELL "cloche-end "

/* The code, given such a name as the kernel shows it; -1: it is none. */
static inline int init_farewell_code(const char *name, int length)
{
    const int prefix = sizeof INIT_FAREWELL - 1;
    int code = 0;
    if (length < prefix + 3 || (length > prefix + 3 && name[prefix + 3] != '\n' && name[prefix + 3] != '\0'))
        return -1;
    for (int i = 0; i < prefix + 3; i++) {
        int digit = name[i] - '0';
        if (i < prefix ? name[i] != INIT_FAREWELL[i] : digit < 0 || digit > 9)
            return -1;
        code = i < prefix ? 0 : code * 10 + digit;
    }
    return code <= 0xff ? code : -1;
}

enum plan_flag {
    PLAN_CONTAINER = 1 << 0, /* pid 1 of its own pid namespace: the layers go on init itself */
    PLAN_LANDLOCK = 1 << 1,  /* file rules are wanted */
    PLAN_LISTENER = 1 << 2,  /* ask for a seccomp listener */
    PLAN_OWN_UID = 1 << 3,   /* nobody else on the host has our uid: kill(-1) reaches the box and only it */
    PLAN_SIGNAL_SCOPE = 1 << 4,  /* Landlock must keep signals inside */
    PLAN_CHANNEL = 1 << 9,       /* the program gets a socket to the host as descriptor INIT_CHANNEL_FD */
    PLAN_RULESET_COMES = 1 << 8, /* the file rules come with INIT_ENTER, not as paths */
    PLAN_HOST_VIEW = 1 << 7,     /* the image is the view of the host's programs */
    PLAN_HELPED = 1 << 6,  /* a child of ours is detaching the old root and masking /proc: wait for it */
    PLAN_FORKED = 1 << 10, /* init and program were forked from another box, whose layers they wear already */
    PLAN_SCOPES_ONLY = 1 << 11,   /* Landlock without rules for files: those would name the files of one box,
                                     and this one's program may be forked into others */
    PLAN_TERMINAL = 1 << 12,      /* of a program beside: its stdin is the terminal that controls it */
    PLAN_PROGRAM_COMES = 1 << 13, /* so does its file, as a descriptor */
    PLAN_RUNTIME_ROOT =
        1 << 14,            /* the root is an OCI runtime's, and so may be the kernel: tell which that is */
    PLAN_COUNTED = 1 << 15, /* the kernel is the box's alone: count its processes */
    PLAN_TAKES_USER = 1 << 17,  /* init is root of a kernel of the box's own, and programs get another user */
    PLAN_MOUNTED_ROOT = 1 << 5, /* the root must be read-only and the scratch places writable */
    PLAN_ZYGOTE =
        1 << 16, /* nobody's code, without namespaces: boxes are forked from it, which wear its layers
                    and their own, and whose inits are the launcher's children and not ours */
    PLAN_STAYS = 1 << 18, /* forks of the program may outlive it, and would end with its init: that waits
                             until it is killed */
    PLAN_JOINS_GROUP =
        1 << 19, /* with INIT_ENTER comes the file to join a control group by, for the program */
};

/* How that child ends when it could not do its work; 0 is success. */
enum { INIT_HELPER_UNMASKED = 2 };

enum { PLAN_RLIMITS = 8 };

struct init_plan {
    uint32_t magic;
    uint32_t size; /* of the whole block */
    uint32_t flags;
    uint32_t policy_variant;
    uint64_t removed_mask; /* used by the test program only */
    uint32_t verify_removed;
    uint32_t first_uid,
        uid_count; /* of a zygote: ids that its forks take, each one of them; none: they keep its own */
    uint32_t rlimit_count;
    uint32_t program_uid; /* with PLAN_TAKES_USER */
    uint32_t wall_ms;     /* after which init ends the box, if nobody did; 0: never */
    struct {
        uint32_t resource;
        uint32_t unused;
        uint64_t value;
    } rlimits[PLAN_RLIMITS];
    /* Strings: the working directory, then these. */
    uint32_t argument_count;
    uint32_t environment_count;
    uint32_t read_count;   /* Landlock: read and run below */
    uint32_t write_count;  /* Landlock: all below */
    uint32_t device_count; /* Landlock: read and write these */
};

enum init_message_kind {
    INIT_FAILED = 1,   /* text says what; code is a negative errno; subject names a layer if it is one */
    INIT_SCRATCH,      /* with a descriptor: the scratch directory of the box */
    INIT_LISTENER,     /* with a descriptor: the seccomp listener */
    INIT_VERIFIED,     /* all layers are on and proved; landlock_abi tells */
    INIT_EXEC_FAILED,  /* the program could not be started; code is a negative errno */
    INIT_CHDIR_FAILED, /* nor its working directory entered */
    INIT_ENDED,        /* the program ended; wait_status tells how */
    INIT_RULESET,      /* with a descriptor: Landlock rules for the program of a forked box */
    INIT_COUNTED,      /* code tells how many processes there were at most */
    INIT_ENTERED,      /* from the launcher's child, just before it becomes init: all namespaces, ids and
                          groups are final */
    INIT_INTERRUPTED,  /* the program has been sent the SIGINT that was ordered */
    INIT_COPIED, /* from the first process of a box that is forked for one run alone: the copy is made */
};

struct init_message {
    uint32_t kind;
    int32_t code;
    int32_t wait_status;
    int32_t landlock_abi;
    uint32_t landlock_scopes; /* 0: signals and abstract sockets are not scoped by Landlock */
    uint32_t is_layer;
    char subject[64];
    char text[512];
};

/* From the launcher, one byte each. */
enum init_order {
    /* With descriptors. Container: to the child before it becomes init, see engine/container/entry.h.
     * Process: to init, with the Landlock ruleset, behind the file of a group with PLAN_JOINS_GROUP. Without,
     * to a forked box: its user is mapped (to its first process, over the control socket); its mounts are
     * made (to its program, over the channel). Where there are no namespaces both come as struct init_entry,
     * the second with descriptors in the order of enum init_gift. */
    INIT_ENTER = 'e',
    INIT_GO = 'g',
    INIT_COPY =
        'k', /* to the first process of a box that was made ahead, with a byte that says in what haste */
    INIT_INTERRUPT = 'i',    /* SIGINT to the program */
    INIT_START_BESIDE = 'x', /* with descriptors: another program, see beside.h */
    INIT_STOP = 's',         /* end everything in the box, then yourself */
    INIT_PAUSE = 'p',        /* stop everything in the box, as SIGSTOP does; time stands still */
    INIT_RESUME = 'r',       /* let it go on */
};

/* The user of a forked box without namespaces. */
struct init_entry {
    uint32_t order; /* INIT_ENTER */
    uint32_t uid;   /* 0: it stays what it is */
};

/* What its program puts on: its working directory, its file rules, its filter for a listener, and the same
 * for none, if it may do without. */
enum init_gift { GIFT_DIRECTORY, GIFT_RULESET, GIFT_FILTER, GIFT_FILTER_ALONE, GIFTS };
