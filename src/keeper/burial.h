/* Destroys boxes that were used, in a thread of its own: nobody waits for their end, until there are too
 * many. */
#pragma once

#include "keeper/spare.h"

struct burial;

int burial_open(void (*destroy)(void *data, struct spare *spare), void *data, struct burial **ret,
                struct error *err);

/* Takes the spare. Who brings one when many are waiting destroys it himself. */
void burial_take(struct burial *burial, struct spare *spare);

/* Returns when all are destroyed. NULL is fine. */
void burial_close(struct burial *burial);
