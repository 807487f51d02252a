/* The runners of contexts, one for each language that has contexts: guest/, packed by pack_runner.py. How one
 * is started is told by the `context` of the language's row. */
#pragma once

#include "base/bytes.h"
#include "base/error.h"
#include "spec/spec.h"

struct runner {
    const char *language;
    struct slice code;
    struct slice vetter; /* a program that looks at code; empty: there is none */
    struct slice spare;  /* that waits in a box which was started before there is code for it */
};

/* NULL: there are no contexts in that language. */
const struct runner *runner_find(const char *language);

/* "python, javascript, …" */
int runner_names(struct buffer *into);

/* Makes the runner that waits in a spare the program of a spec with a language, as below. */
int runner_prepare_spare(struct spec *spec, struct error *err);

/* Makes the runner of its language (python, if it names none) the program of a spec, which must have no code
 * or command of its own. */
int runner_prepare_spec(struct spec *spec, struct error *err);

/* That of a language by this name; empty: there is none. */
struct slice runner_vetter(const char *language);

/* What `restricted` code is run by, see docs/vet.md. */
struct slice runner_restricted(void);

/* cloche-files, which works on a box's files from inside of it: guest/files. */
struct slice runner_files_tool(void);
