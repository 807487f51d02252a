/* The private directory of a box, what is put into it, and the rules by which the box sees files. */
#pragma once

#include "engine/engine.h"
#include "engine/launch.h"

/* The file rules of a box. The launcher makes them while its init is started, which puts them on last. */
struct place_rules {
    int ruleset_fd; /* -1 only where tests have removed them */
};
#define PLACE_RULES_UNSET                                                                                    \
    {                                                                                                        \
        .ruleset_fd = -1                                                                                     \
    }

int place_rules_open(const struct box *box, struct place_rules *rules, struct error *err);
void place_rules_close(struct place_rules *rules);
#define scope_place_rules __attribute__((cleanup(place_rules_close))) struct place_rules

/* Makes the directory with its places and inputs, and grants everything. */
int place_furnish(struct box *box, const struct place_rules *rules, struct error *err);

/* Puts the code there; no rule depends on it. */
int place_write_code(const struct box *box, struct error *err);

/* Removes what place_furnish has made, if nobody has put anything there; what is left is for who removes the
 * directory. Nothing of the box may run any more. */
void place_clear(const struct box *box);

/* engine.show_inputs. */
int place_show_inputs(struct box *box, struct error *err);
