/* The names of layers as results and doctor show them, and what each is for. */
#pragma once

#define LAYER_ROWS(X)                                                                                        \
    X(kernel, "a kernel of its own: programs do not call the host's")                                        \
    X(namespaces, "own view of users, processes, mounts, network, ipc, host name, groups and time")          \
    X(box_uid, "a uid that no other process on the host has")                                                \
    X(root, "own read-only root; nothing of the host but what the image shows")                              \
    X(cgroup, "hard limits on memory, processes and CPU")                                                    \
    X(capabilities, "no capability, none to be had")                                                         \
    X(no_new_privs, "programs cannot raise their privileges")                                                \
    X(seccomp, "system calls by table")                                                                      \
    X(landlock, "file rules that the kernel holds on top")                                                   \
    X(landlock_scope, "signals and abstract sockets stay inside the box")                                    \
    X(apparmor, "the host's AppArmor profile for boxes")                                                     \
    X(rlimits, "limits of each process")                                                                     \
    X(wasm, "WebAssembly: no system calls, only functions that were linked")                                 \
    X(gateway, "what a module fetches goes through a process without rights")                                \
    X(watchdog, "memory, processes, CPU and disk summed and enforced from outside")

enum layer {
#define X(name, purpose) LAYER_##name,
    LAYER_ROWS(X)
#undef X
        LAYER_COUNT,
};

extern const char *const layer_names[LAYER_COUNT];
extern const char *const layer_purposes[LAYER_COUNT];
