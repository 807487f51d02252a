/* Capabilities: given up, all of them, and looked at. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Empties the bounding set; needs CAP_SETPCAP in the current user namespace. 0 or a negative errno. */
int capabilities_drop_bounding(void);

/* Empties effective, permitted, inheritable and ambient sets. */
int capabilities_drop_all(void);

/* Has these (a bit mask, all of them permitted) and no others from now on, in the programs that it executes
 * too. The kernel lets a process make them inheritable only while they are in the bounding set: that comes
 * first, by itself. */
int capabilities_inherit(uint64_t mask);
int capabilities_keep(uint64_t mask);

/* Makes all permitted capabilities effective again, as after a change of uid with PR_SET_KEEPCAPS. */
int capabilities_raise(void);

bool capabilities_are_none(void);
bool capabilities_are(uint64_t mask); /* effective and permitted */
bool capabilities_bounding_is_empty(void);

/* The effective ones as a bit mask. 0 or a negative errno. */
int capabilities_effective(uint64_t *ret_mask);
