/* Orders to cloche-wasm (guest/wasm/order.h), and its reports. */
#pragma once

#include "engine/engine.h"

/* The order to run the program in the box, as a descriptor of a sealed file. */
int wasm_order_pack(const struct box *box, const struct program *program, struct error *err);

/* Takes the report on a run, which waits on the channel, into the result: how it ended, and what was
 * returned. It is the guest's words: it can make nothing of a run that the host has ended. A negative errno
 * when the run was not begun. */
int wasm_report_take(const struct box *box, struct result *result, struct error *err);
