/* Calls that the filter hands to the supervisor when a box shares the caller's uid: signals and other calls
 * on pids, which are let through for pids of the box; changes of mode and times by path, which are carried
 * out here, below the directories that the box may write to. */
#pragma once

#include "engine/engine.h"
#include "engine/watchdog.h"

/* Takes one notification from the listener. True when the call must end the box; *ret_call is its name. */
bool mediate_answer(struct box *box, const struct watchdog *watchdog, const char **ret_call);
