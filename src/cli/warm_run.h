/* One run by the keeper that stays. */
#pragma once

#include "base/error.h"
#include "cli/progress_line.h"
#include "cli/run_options.h"
#include "spec/policy.h"

/* `line`: NULL where nothing is shown. -ENOENT when there is no keeper, and nothing has happened. */
int run_warm(const struct run_options *given, const struct policy *policy, struct progress_line *line,
             int cancel_fd, int *ret_exit_status, struct error *err);
