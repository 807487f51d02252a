/* Ctrl-Z: a run stands still with us, and so does the clock of its limit. */
#pragma once

#include "engine/supervise.h"

/* As ending_signals_watch. The descriptor is the caller's; -1 where somebody decided that we are not to be
 * stopped so. */
int pause_signal_watch(void);

/* Takes the signal from the descriptor, and stops us until somebody lets us go on. */
void pause_signal_hold(int fd);
