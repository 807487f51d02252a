/* Reading and answering the seccomp listener of a box. */
#pragma once

#include "engine/engine.h"

#include <linux/seccomp.h>

/* Receives one notification; false when there is none (any more). */
bool notify_receive(int listener_fd, struct seccomp_notif *ret);

/* Is the caller of this notification still waiting? Checked after looking at its memory or at pids that it
 * named, so that what was looked at belonged to the call. */
bool notify_is_alive(int listener_fd, uint64_t id);

/* Answers: an errno (positive), 0 for success, or let the call go on. */
void notify_answer(struct box *box, uint64_t id, int error_number);
void notify_continue(struct box *box, uint64_t id);

/* The answer of engines whose filter has no ASK rows: every notification is a call that ends the box. */
bool notify_end_box(struct box *box, const char **ret_call);
