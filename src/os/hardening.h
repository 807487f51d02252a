/* The hardening steps of a box, by name.
 *
 * Every protection that Cloche puts up is one step of this table. Tests remove one step at a time (in a
 * separate program that is compiled with CLOCHE_TEST_HOOKS; the shipped one has no such door) and some probe
 * must turn red. `hardening_removed(step)` is a constant false in the shipped program. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define HARDENING_STEPS(X)                                                                                   \
    X(user_namespace)                                                                                        \
    X(box_uid)                                                                                               \
    X(pid_namespace)                                                                                         \
    X(network_namespace)                                                                                     \
    X(ipc_namespace)                                                                                         \
    X(uts_namespace)                                                                                         \
    X(cgroup_namespace)                                                                                      \
    X(time_namespace)                                                                                        \
    X(private_root)                                                                                          \
    X(root_read_only)                                                                                        \
    X(mount_nosuid)                                                                                          \
    X(proc_mask)                                                                                             \
    X(sys_mask)                                                                                              \
    X(minimal_dev)                                                                                           \
    X(capabilities)                                                                                          \
    X(bounding_set)                                                                                          \
    X(no_new_privs)                                                                                          \
    X(seccomp)                                                                                               \
    X(landlock)                                                                                              \
    X(landlock_scope)                                                                                        \
    X(apparmor)                                                                                              \
    X(rlimits)                                                                                               \
    X(cgroup_memory)                                                                                         \
    X(cgroup_pids)                                                                                           \
    X(cgroup_cpu)                                                                                            \
    X(scratch_size)                                                                                          \
    X(scratch_inodes)                                                                                        \
    X(close_descriptors)                                                                                     \
    X(new_session)                                                                                           \
    X(init_dumpable)                                                                                         \
    X(clean_environment)                                                                                     \
    X(code_read_only)                                                                                        \
    X(input_read_only)                                                                                       \
    X(watchdog)

enum hardening_step {
#define X(name) HARDENING_##name,
    HARDENING_STEPS(X)
#undef X
        HARDENING_COUNT,
};

extern const char *const hardening_names[HARDENING_COUNT];

#ifdef CLOCHE_TEST_HOOKS
extern uint64_t hardening_removed_mask;
extern bool hardening_verify_removed; /* verify a removed step all the same: the run must then be refused */
#define hardening_removed(step)  ((hardening_removed_mask >> HARDENING_##step & 1) != 0)
#define hardening_verified(step) (!hardening_removed(step) || hardening_verify_removed)
/* Reads CLOCHE_WEAKEN (names, comma-separated) and CLOCHE_WEAKEN_VERIFY from the environment; false on a name
 * that is not in the table. */
bool hardening_read_environment(void);
#else
#define hardening_removed(step)  false
#define hardening_verified(step) true
#endif
