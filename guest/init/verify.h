/* The self-test: every layer is proved from inside before the user's program starts. */
#pragma once

#include "layers.h"

int verify_layers(const struct init_plan *plan, const struct layers_state *state, struct layers_fault *fault);
