/* What a launcher can see of a box from outside, in the kernel's words. */
#pragma once

#include "engine/engine.h"

/* Its directory of /proc: a descriptor, or -1 and errno. */
int look_open_process(pid_t pid);

enum look_namespace {
    LOOK_USER,
    LOOK_PID,
    LOOK_MOUNT,
    LOOK_NETWORK,
    LOOK_IPC,
    LOOK_UTS,
    LOOK_CGROUP,
    /* Kernels before 6.1 change it at fork, not at exec: what a program will have is decisive. */
    LOOK_TIME_FOR_CHILDREN,
    LOOK_NAMESPACES
};

extern const char *const look_namespace_names[LOOK_NAMESPACES];

/* Which ones a process is in, by the kernel's numbers. */
struct look_namespaces {
    struct {
        dev_t device;
        ino_t number; /* 0: the kernel has none of this kind */
    } of[LOOK_NAMESPACES];
};

int look_at_namespaces(int process_fd, struct look_namespaces *ret, struct error *err);
bool look_namespace_differs(const struct look_namespaces *one, const struct look_namespaces *other,
                            enum look_namespace kind);

enum { LOOK_STATUS_SIZE = 8192 };

/* /proc/PID/status, which is all of one moment. */
int look_read_status(int process_fd, char text[LOOK_STATUS_SIZE], struct error *err);

/* The value of a line of /proc/PID/status; the key begins with its newline. */
bool look_status_line(const char *text, const char *key, char *into, size_t size);

/* Is its uid, in all four places, the one that the box was given? */
int look_at_uid(const struct box *box, const char *status_text, struct error *err);

int look_at_scratch(const struct box *box, struct error *err);
