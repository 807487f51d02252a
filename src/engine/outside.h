/* What the kernel must tell of the processes of a box that was forked (see look.h), whatever they say
 * themselves. */
#pragma once

#include "engine/engine.h"

/* It has the box's user, and no capability. */
int outside_check_identity(const struct box *box, const char *status_text, struct error *err);

/* What a fork wears was put on in the box that it comes from, or by itself: no_new_privs, a filter, and with
 * `no_bounding` an empty bounding set. */
int outside_check_worn(const char *status_text, bool no_bounding, struct error *err);

/* It has its streams and its channel, and nothing that leads back to where it comes from. */
int outside_check_descriptors(int process_fd, struct error *err);

/* It had one thread when the status was read, and has exactly these children after that, in the kernel's
 * words. So what the status says holds for all of it: those of a thread that ends become another's. */
bool outside_is_single(pid_t pid, int process_fd, const char *status_text, const char *children);
