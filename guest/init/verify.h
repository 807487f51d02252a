/* The self-test: every layer is proved from inside before the user's program starts. */
#pragma once

#include "layers.h"

/* Only what was declared is open: before the limits are put on, which bound how many can be looked at at
 * once. */
int verify_descriptors(const struct init_plan *plan, struct layers_fault *fault);

int verify_layers(const struct init_plan *plan, const struct layers_state *state, struct layers_fault *fault);
