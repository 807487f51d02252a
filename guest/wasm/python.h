/* Runs Python in a module that setup/wasm/snapshot made: CPython that has started already, and waits in
 * prelude.py for what it is to run. */
#pragma once

#include "interpreter.h"
#include "task.h"

/* The exit status is in the error of the interpreter, as for any program that ends by itself. */
void python_run(struct interpreter *interpreter, const struct task *task);
