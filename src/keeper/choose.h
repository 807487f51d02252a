/* Which engine, for a run that leaves it to us (`isolation: auto`).
 *
 * Theory of operation. Never below the operator's least or the caller's. What is asked for rules engines out:
 * modules are for wasm, commands and paths of the host are not. What the code needs is read by the first
 * filter (spec/vet.h), in a box. Code that is plain (no files, processes or network, nothing found, no
 * modules that could do such things) may run in any engine that is left and that has all that the code names;
 * of those the one that costs least on this machine is taken, as measured here (cost.h): by the least run,
 * and, for code whose work is not bounded by what is written in it, by a run with a sample of work. All other
 * code runs in the operator's usual engine, or the next stronger that can, or, where none of those runs on
 * this machine, in a weaker one that is still allowed. */
#pragma once

#include "spec/policy.h"
#include "spec/spec.h"

struct json_t;

struct choice {
    enum isolation isolation;
    char reason[256];
    struct json_t *table; /* for people: every engine, its cost, or why not; NULL without memory */
};

/* The spec must be validated; it is not changed. */
int choose_engine(const struct spec *spec, const struct policy *policy, struct choice *ret,
                  struct error *err);
void choice_free(struct choice *choice);
