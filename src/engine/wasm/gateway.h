/* The gateway of a run whose module may fetch: a process of its own, without rights, that is started with the
 * box and ended with it (src/gateway/main.c). */
#pragma once

#include "engine/engine.h"

bool gateway_is_wanted(const struct spec *spec);

/* Starts it, which takes its time: gateway_await sees that it is ready, and says why not. The box has it from
 * then on; the descriptor, by which it is asked, is the caller's. */
int gateway_start(struct box *box, int *ret_requests_fd, struct error *err);
int gateway_await(const struct box *box, struct error *err);

/* What holds it, where the kernel's Landlock has this ABI. */
const char *gateway_layer_detail(int landlock_abi);

/* Hears what it has done: now and then, because little of it fits into the socket, and it waits then. */
void gateway_listen(const struct box *box);

/* Takes that into the result. */
void gateway_explain(const struct box *box, struct result *result);

/* Ends it, and waits for that. Without one nothing happens. */
void gateway_end(struct box *box);
