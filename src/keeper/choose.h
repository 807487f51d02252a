/* Which engine, for a run that leaves it to us (`isolation: auto`).
 *
 * Theory of operation. Never below the operator's least or the caller's. What is asked for rules engines out:
 * modules are for wasm, commands and paths of the host are not. Code that is known to be plain (the first
 * filter has read it: no files, processes or network, and only modules that all engines have) may run in any
 * that is left, and the one that costs least on this machine is taken, as measured here. All other code runs
 * in the operator's usual engine, or the next stronger that can. */
#pragma once

#include "spec/policy.h"
#include "spec/spec.h"

struct json_t;

struct choice {
    enum isolation isolation;
    char reason[256];
    struct json_t *table; /* for people: every engine, its cost, or why not; NULL without memory */
};

/* The spec must be validated. `looks`: the code is read first, in a box, if that can change anything. */
int choose_engine(const struct spec *spec, const struct policy *policy, bool looks, struct choice *ret,
                  struct error *err);
void choice_free(struct choice *choice);
