/* An engine is one way of isolating. All sit behind this table; engines never know each other.
 *
 * A sandbox (struct box) is made by start(), which returns when every layer is on and proved and the word to
 * go is given. The supervisor (supervise.h) moves the data, watches the limits, and decides the cause. stop()
 * ends every process in the box; finish() waits for them, takes the last measurements; after it nothing in
 * the box runs any more and its files can be collected. destroy() gives everything back. */
#pragma once

#include "base/bytes.h"
#include "base/error.h"
#include "image/image.h"
#include "os/cgroup/cgroup.h"
#include "os/process.h"
#include "os/seccomp/policy.h"
#include "spec/result.h"
#include "spec/spec.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

/* What is to be executed in the box: made from the spec by runtime/, engines do not know languages. */
struct program {
    struct string_list arguments; /* arguments.items[0] is an absolute path in the box */
    struct string_list environment;
    char *working_directory;
    char *code_name; /* file name of the code below the code directory; NULL: none */
    struct slice code;
    bool code_executable; /* the code is a program itself */
    const char *runtime;  /* wasm: the module, compiled ahead, whose code it is; NULL: the code is a module.
                             Not owned */
};

void program_free(struct program *program);

/* What identifies a box on the host, given by keeper/record.h. */
struct box_identity {
    char name[64]; /* unique, plain, starts with the owner tag: names groups and directories */
    bool has_uid;  /* the launcher is root: uid is one that only this box has … */
    uid_t uid;
    uid_t first_uid;   /* … of this range, which is for boxes only */
    uid_t gateway_uid; /* of who fetches for it; of another range */
    unsigned uid_count;
    char directory[512]; /* a private host directory of the box, removed with it, for engines that have one */
    bool is_in_memory;   /* what is written there counts as memory, too */
    int directory_fd;    /* -1: not made yet */
    int (*make_directory)(struct box_identity *identity, struct error *err);
    int state_fd; /* where records are; the record's */
};

/* Whose uids a forked box's user namespace cannot map: its own and those of the boxes that it descends from,
 * as offsets into the range, ascending. */
/* The kernel nests 32 pid and user namespaces, and the host may be in some itself. It nests 16 Landlock
 * domains: each box has one inside its parent's, the first two, and one is left to the program. Boxes that
 * come after that have their parent's: what keeps their signals from their init is that it is the first of
 * its pid namespace, for which the kernel drops all that it has no handler for, and it has none. */
enum { FORK_GENERATIONS_MAX = 30, FORK_SCOPES_MAX = 14 };
struct uid_line {
    unsigned taken[FORK_GENERATIONS_MAX + 1];
    unsigned count;
};

struct family;

/* The program's end of the channel, where a box has one. */
enum { BOX_CHANNEL_FD = 6 };

/* Below the scratch directory of a spare, and of a fork that begins anew: what is shown in it as /code and
 * /data/input, and only we can write to. */
#define BOX_CODE  "code"
#define BOX_INPUT "input"

struct box_debt {
    int64_t cpu_user_us, cpu_system_us;
    int64_t memory_bytes; /* only where it is summed by the watchdog */
    int64_t bare_bytes;   /* what is there without it, where it can be given back: who executes another
                           * program has none of it any more. 0: it stays */
    int64_t given_back_bytes;
};

struct box {
    const struct engine *engine;
    const struct spec *spec;
    const struct program *program;
    const struct image *image;
    const struct limits *limits; /* of this step: the spec's, or those of its compile step */
    struct box_identity *identity;
    const struct cgroup_layout *cgroups;

    pid_t pid; /* of init */
    int pidfd;
    int control_fd;                     /* socket to init */
    int stdin_fd, stdout_fd, stderr_fd; /* our ends */
    bool wants_channel;                 /* a socket for the program, beside its streams: see runtime/ */
    int channel_fd;                     /* our end of it; -1: none */
    int listener_fd;                    /* seccomp notifications; of a forked box: what its family tells */
    bool is_forkable;                   /* its program may be forked into boxes of their own */
    bool is_for_others; /* those are of other people: no limit of this one may be theirs together */
    bool is_fork;       /* this one came about so: its init is not our child */
    bool is_served;   /* one run in a process that stays: its end is told, and no process's end waited for */
    bool is_spare;    /* started before there is anything to run: code and inputs come later */
    bool init_stays;  /* when the program has ended: see forks */
    atomic_int forks; /* boxes in use that came from it. They end with its init, so while there are
                         some, stop() ends all but that one */
    struct family *family;    /* with whom it shares a filter, see engine/container/forking.h */
    pid_t program_pid;        /* of a forkable box, a fork or a spare */
    int program_fd;           /* of a fork that begins anew: what the kernel tells of its program; -1: none */
    struct uid_line uid_line; /* of both too */
    int answer_error;         /* an errno: a call of the guest could not be answered */
    int scratch_fd;           /* directory that holds output/, tmp/ … of the box */
    struct cgroup group;      /* CGROUP_NONE: the box has no group */
    int init_fd;              /* of a zygote: the program of init, for all its forks; -1: none */
    int ruleset_fd;           /* of a fork that begins anew: its file rules, for its program to put on */
    int oom_fd; /* tells when the group runs out of memory, if it was made ahead; -1: supervise makes it */
    short oom_events;
    int64_t threads_beside;     /* of the same uid, not in the box: they count in the kernel\'s limit */
    int stops;                  /* how often stop() was called */
    int64_t started_us;         /* when the word to go was given */
    struct process_apart apart; /* init and we, until then */
    struct box_debt debt;       /* of a spare: what was used before its run, and is not the run's */
    bool is_watched;      /* no kernel limit stands behind memory and processes: what is measured decides */
    bool waits_for_word;  /* more is to be looked at when init has proved its layers */
    bool counts_itself;   /* its processes are not the host's to count: init's word is all there is */
    int64_t counted_pids; /* by init: at most so far, or, of a box that is watched, at the program's end */
    char kernel[128];     /* that init found itself on, where it was asked for */
    bool ended_by_itself; /* init reported the program's end before its own: it has waited for all of the box
                           */
    bool is_reaped;
    bool is_ending; /* it was killed, and its run is over, before the kernel was done with it */
    int64_t reaped_user_us, reaped_system_us; /* of init and all that it waited for */
    int landlock_abi;     /* of the kernel, asked once; what init reports must not be less */
    bool landlock_scoped; /* reported by init */
    enum policy_variant policy_variant;
    void *engine_data;
    struct program *host_program; /* wasm: that runs the user's */
    struct gateway *gateway;      /* wasm: of a run that may fetch; NULL: none */
};

struct measurement {
    int64_t memory_bytes, peak_memory_bytes;
    int64_t cpu_user_us, cpu_system_us;
    int64_t pids, peak_pids;
    int64_t pids_refused;
    int64_t oom_kills;
    int64_t disk_bytes;
    bool disk_is_full, inodes_are_full; /* the first also if it is for the second */
};

struct fork_request {
    /* Tells the program of the parent to fork with these descriptors. */
    int (*order)(void *data, const int *fds, size_t count);
    int words_fd; /* where the program would say that it does not */
    /* Something can be read there: is it that? NULL: anything is. */
    bool (*refuses)(void *data);
    void *data;
    bool is_alone;   /* nothing else is under way: a CPU can be had for each part of it */
    bool is_told;    /* its first process says when the copy is made */
    char haste;      /* for fork_into: enum runner_haste, which the copy is told */
    bool with_files; /* the child gets a copy of the parent's files; else empty scratch space */
};

struct engine {
    enum isolation isolation;
    const char *name;
    bool in_directory;      /* its boxes have a directory of the host to themselves, and no root */
    bool uses_groups;       /* where there are some */
    bool ends_at_last_word; /* when init has said how the program ended, the rest of the box may be killed */
    /* Directory names as the program sees them; `into` may be ignored for constants. */
    const char *(*path_of)(const struct box *box, const char *which, char *into, size_t size);
    int (*start)(struct box *box, struct result *result, struct error *err);
    /* Forks the program of a box that was started as forkable into a box of its own, which is as start()
     * leaves one, with its program waiting for orders. NULL: the engine cannot. */
    int (*fork)(struct box *parent, struct box *child, const struct fork_request *request,
                struct result *result, struct error *err);
    /* The same in two steps, of a box that is there for others: a place for the copy, which costs next to no
     * memory, and the copy. `request` of the second is about who waits for it, and no order. NULL: the engine
     * cannot. */
    int (*fork_place)(struct box *parent, struct box *child, const struct fork_request *request,
                      struct error *err);
    int (*fork_into)(struct box *parent, struct box *child, const struct fork_request *request,
                     struct result *result, struct error *err);
    /* Of its spec, in such a fork or a spare; before it runs. */
    int (*show_inputs)(struct box *box, struct error *err);
    /* Puts on, from outside, what box->limits says by now of memory, processes and CPUs. NULL: what is
     * enforced is read whenever it is looked at. */
    int (*limit)(struct box *box, struct error *err);
    void (*measure)(struct box *box, struct measurement *now);
    /* A message that waits on listener_fd. Returns true when the box must end; *ret_call names the call. */
    bool (*answer)(struct box *box, const char **ret_call);
    /* What only the engine knows about the end of a run; NULL: nothing. A negative errno when it was not
     * begun. */
    int (*explain)(struct box *box, struct result *result, struct error *err);
    void (*stop)(
        struct box *box); /* all in it, see forks; called again after a second when the box has not ended */
    int (*destroy)(struct box *box); /* a negative errno when something would not go; may be called again */
};

extern const struct engine engine_container;
extern const struct engine engine_oci;
extern const struct engine engine_process;
extern const struct engine engine_wasm;

const struct engine *engine_of(enum isolation isolation);

void box_init(struct box *box);
