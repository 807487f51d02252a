/* The private directory of a box, what is put into it, and the rules by which the box sees files. */
#pragma once

#include "engine/engine.h"

/* Makes the directory's places, code and inputs, and the file rules: *ret_ruleset is the caller's, and -1
 * only where tests have removed them. */
int place_furnish(struct box *box, int *ret_ruleset, struct error *err);

/* engine.show_inputs. */
int place_show_inputs(struct box *box, struct error *err);
