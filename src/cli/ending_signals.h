/* Ctrl-C, SIGTERM and a terminal that hangs up, as a descriptor. */
#pragma once

/* Blocks them and returns a descriptor that is readable when one has come. Before any thread is started,
 * which would take them otherwise. */
int ending_signals_watch(void);
