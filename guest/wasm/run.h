/* One run: a store of its own, from its instance to its end. */
#pragma once

#include "machine.h"

enum { EXIT_TRAPPED = 134 }; /* as a program that aborts, and as the command line of Wasmtime */

/* The exit code; what more there is to say is in the report. */
int run_task(struct machine *machine, const struct task *task, struct report *report);
