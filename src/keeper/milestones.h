/* How far a run has come, and how long after it was asked for: T1 to T4, where T0 is that moment. */
#pragma once

#include "base/histogram.h"
#include "spec/result.h"

enum milestone {
    MILESTONE_STARTED, /* T1: the program was let go */
    MILESTONE_OUTPUT,  /* T2: its first output came; of those that have some */
    MILESTONE_ENDED,   /* T3: its end is known; it is gone, or was killed and goes */
    MILESTONE_CLEARED, /* T4: what it had is free again */
    MILESTONE_COUNT,
};

extern const char *const milestone_names[MILESTONE_COUNT];

struct milestones {
    struct histogram of[MILESTONE_COUNT];
};

/* The first three, of a run that was asked for at `asked_us`. */
void milestones_count(struct milestones *milestones, int64_t asked_us, const struct result *result);

/* The last, which is now. */
void milestones_count_cleared(struct milestones *milestones, int64_t asked_us);
