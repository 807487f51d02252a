/* What the line of `cloche run` says. */
#pragma once

#include "base/error.h"
#include "spec/spec.h"

struct run_options {
    struct spec *spec;
    const char *config_path;
    bool json, quiet, spec_from_stdin, warm;
};

/* 1: help was printed. The first plain argument is the file, what follows are its own arguments, options
 * included. */
int run_options_parse(int argc, char **argv, struct run_options *into, struct error *err);

/* Errors of the line itself come as JSON too when that was asked for anywhere on it. */
bool run_options_ask_for_json(int argc, char **argv);

/* Runs what was read, here or on a server, by which program this is; returns the exit status. */
int run_perform(struct run_options *given);

/* Tells it, and returns the exit status for it. */
int run_options_fail(const struct error *err, bool json);
