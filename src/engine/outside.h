/* What the kernel must tell of the processes of a box that was forked (see look.h), whatever they say
 * themselves. */
#pragma once

#include "engine/engine.h"

/* It has the box's user, and no capability. */
int outside_check_identity(const struct box *box, int process_fd, struct error *err);

/* What a fork wears was put on in the box that it comes from, or by itself: no_new_privs, a filter, and with
 * `no_bounding` an empty bounding set. */
int outside_check_worn(int process_fd, bool no_bounding, struct error *err);

/* It has its streams and its channel, and nothing that leads back to where it comes from. */
int outside_check_descriptors(int process_fd, struct error *err);

/* It has one thread, and exactly these children, in the kernel's words. */
bool outside_is_single(pid_t pid, const char *children);
