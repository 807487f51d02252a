/* One run from spec to result: the one door through which the library, the command line and (later) the
 * server run anything. No daemon is needed. */
#pragma once

#include "engine/supervise.h"
#include "spec/policy.h"
#include "spec/result.h"
#include "spec/spec.h"

/* The spec is validated here. On success the caller frees the result. On failure nothing of the user's ran,
 * or it ran and the host failed: err->kind tells which. */
int keeper_run(struct spec *spec, const struct policy *policy, const struct supervise_io *io,
               struct result **ret, struct error *err);

/* The same for a spec that is validated already. */
int keeper_run_validated(struct spec *spec, const struct policy *policy, const struct supervise_io *io,
                         struct result **ret, struct error *err);
