/* Orders to cloche-wasm (guest/wasm/order.h), and its reports. */
#pragma once

#include "engine/engine.h"

/* Below input and output of a process that stays: what a run has for its own. */
#define WASM_RUN_PLACE "run"

/* Orders the program in the box of `channel_fd` to run this one, with these descriptors; `kind` is of
 * wasm/order.h. */
int wasm_order_send(const struct box *box, const struct program *program, uint32_t kind, const int *fds,
                    size_t fd_count, struct error *err);

/* Takes the report on a run, which waits on the channel, into the result: how it ended, and what was
 * returned. It is the guest's words: it can make nothing of a run that the host has ended. A negative errno
 * when the run was not begun. */
int wasm_report_take(const struct box *box, struct result *result, struct error *err);

/* Wasmtime was ended by this signal with the code of this run in it: where it is one that a process brings on
 * itself, that is the code's doing, and the result says so. One from outside is not. */
bool wasm_crash_take(int signal, struct result *result);
