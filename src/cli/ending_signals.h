/* Ctrl-C, SIGTERM and a terminal that hangs up, as a descriptor. */
#pragma once

#include <stdbool.h>

/* Blocks them and returns a descriptor that is readable when one has come. Before any thread is started,
 * which would take them otherwise. */
int ending_signals_watch(void);

/* Takes one that has come from the descriptor, so that the next can be waited for. */
bool ending_signals_take(int fd);

/* Dies of such a signal, if one has come: who called us sees how we ended, and a loop of the shell ends with
 * us. */
void ending_signals_pass_on(void);
