#include "keeper/milestones.h"

#include "base/clock.h"

const char *const milestone_names[MILESTONE_COUNT] = {"T1", "T2", "T3", "T4"};

static void count(struct milestones *milestones, enum milestone which, int64_t asked_us, int64_t reached_us)
{
    if (asked_us && reached_us)
        histogram_add(&milestones->of[which], reached_us - asked_us);
}

void milestones_count(struct milestones *milestones, int64_t asked_us, const struct result *result)
{
    count(milestones, MILESTONE_STARTED, asked_us, result->times.started_us);
    count(milestones, MILESTONE_OUTPUT, asked_us, result->times.output_us);
    count(milestones, MILESTONE_ENDED, asked_us, result->times.ended_us);
}

void milestones_count_cleared(struct milestones *milestones, int64_t asked_us)
{
    count(milestones, MILESTONE_CLEARED, asked_us, clock_monotonic_us());
}
