/* From a validated spec to what an engine executes: arguments, environment, code file. */
#pragma once

#include "engine/engine.h"
#include "runtime/language.h"

struct program_paths {
    const char *runtime, *compiler; /* in the image; NULL where a row has none */
    const char *artifact;           /* file name that the compile step writes */
    const char *code_name;
};

/* The step of a language row (its compile step, or its run). `arguments` (the user's own) are appended. */
int program_from_language(const struct box *box, const struct language_step *step,
                          const struct program_paths *paths, const struct string_list *arguments,
                          struct program *ret, struct error *err);

/* A command as given. */
int program_from_command(const struct box *box, struct program *ret, struct error *err);

/* Another command in a box that has a program already; `environment` (may be NULL) is added to the box's own.
 */
int program_beside(const struct box *box, const struct string_list *command,
                   const struct string_list *environment, const char *directory, struct program *ret,
                   struct error *err);
