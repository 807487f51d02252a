/* Capabilities: given up, all of them, and looked at. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Empties the bounding set; needs CAP_SETPCAP in the current user namespace. 0 or a negative errno. */
int capabilities_drop_bounding(void);

/* Empties effective, permitted, inheritable and ambient sets. */
int capabilities_drop_all(void);

/* Makes all permitted capabilities effective again, as after a change of uid with PR_SET_KEEPCAPS. */
int capabilities_raise(void);

bool capabilities_are_none(void);
bool capabilities_bounding_is_empty(void);

/* The effective ones as a bit mask. 0 or a negative errno. */
int capabilities_effective(uint64_t *ret_mask);
