/* The private directory of a box, what is put into it, and the rules by which the box sees files. */
#pragma once

#include "engine/engine.h"
#include "engine/launch.h"

/* The file rules of a box, made by two at once: the trees of the host are granted by the child that becomes
 * its init, all else by the launcher, which makes the box's own places meanwhile. Which part is whose does
 * not matter to the rules; so the two are ready at about the same time. */
struct place_rules {
    int ruleset_fd; /* -1 only where tests have removed them */
    struct plan_lists trees;
};
#define PLACE_RULES_UNSET                                                                                    \
    {                                                                                                        \
        .ruleset_fd = -1                                                                                     \
    }

int place_rules_open(const struct box *box, struct place_rules *rules, struct error *err);
void place_rules_close(struct place_rules *rules);
#define scope_place_rules __attribute__((cleanup(place_rules_close))) struct place_rules

/* Makes system calls only: it may be called in a fresh child. */
int place_grant_trees(const struct box *box, const struct place_rules *rules, struct error *err);

/* Makes the directory with its places and inputs, and grants all but the trees. */
int place_furnish(struct box *box, const struct place_rules *rules, struct error *err);

/* Puts the code there; no rule depends on it. */
int place_write_code(const struct box *box, struct error *err);

/* engine.show_inputs. */
int place_show_inputs(struct box *box, struct error *err);
