/* What a launcher can see of a box from outside, in the kernel's words. */
#pragma once

#include "engine/engine.h"

/* Its directory of /proc: a descriptor, or -1 and errno. */
int look_open_process(pid_t pid);

/* Does one process have a namespace of this kind that is not the other's? 1, 0, or a negative errno. */
int look_namespace_differs(int process_fd, int other_fd, const char *kind);

/* The value of a line of /proc/PID/status; the key begins with its newline. */
bool look_status_line(const char *text, const char *key, char *into, size_t size);

/* Is its uid, in all four places, the one that the box was given? `text` gets /proc/PID/status. */
int look_at_uid(const struct box *box, int process_fd, char *text, size_t size, struct error *err);

int look_at_scratch(const struct box *box, struct error *err);
