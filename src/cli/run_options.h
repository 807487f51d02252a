/* What the line of `cloche run` says. */
#pragma once

#include "base/error.h"
#include "spec/spec.h"

struct run_options {
    struct spec *spec;
    const char *config_path;
    bool json, quiet, spec_from_stdin, warm;
};

/* Rows of `run` and of `explain`: what decides which engines can. */
#define RUN_OPTIONS_THAT_DECIDE(X)                                                                           \
    X("language", 'l', "NAME", "language",                                                                   \
      "the language; otherwise told by the file's extension, python for -e")                                 \
    X("isolation-min", 0, "ENGINE", "isolation_min", "not weaker than this, also with auto")                 \
    X("image", 0, "NAME", "image",                                                                           \
      "file tree that the code sees: host (default), or see `cloche image list`")                            \
    X("input", 0, "PATH[:NAME]", "input",                                                                    \
      "show a file or directory read-only below /data/input; may be repeated")                               \
    X("read", 0, "PATH", "read",                                                                             \
      "show a path read-only at its own place, that which links lead to; may be repeated")                   \
    X("write", 0, "PATH", "write",                                                                           \
      "let a path be written at its own place, as with --read; may be repeated")                             \
    X("accept", 0, "NAME", "accept",                                                                         \
      "run even where this limit cannot be enforced: memory (then watched), cpus")                           \
    X("vet", 0, "MODE", "vet", "read the code before it runs: off, warn (default), block, restricted, only") \
    X("spec", 0, "FILE", NULL,                                                                               \
      "read the spec from a JSON file (- for stdin); options given after it override")                       \
    X("config", 0, "FILE", NULL, "the operator's configuration instead of /etc/cloche.conf")

/* By the options of this command, of which `run` has all. 1: help was printed. The first plain argument is
 * the file, what follows are its own arguments, options included. */
struct command;
int run_options_parse(int argc, char **argv, const struct command *command, struct run_options *into,
                      struct error *err);

/* Errors of the line itself come as JSON too when that was asked for anywhere on it. */
bool run_options_ask_for_json(int argc, char **argv);

/* Runs what was read, here or on a server, by which program this is; returns the exit status. */
int run_perform(struct run_options *given);

/* Tells it, and returns the exit status for it. */
int run_options_fail(const struct error *err, bool json);
