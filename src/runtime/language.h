/* Languages, as a table of data: languages.json is built in (as C, by
 * generate_languages.py), and an operator adds rows with `languages =
 * FILE` in the configuration. Rows of one name are tried in order; a later file's rows come first.
 *
 * In the strings of a row: {runtime} and {compiler} are what was found in the image, {code} the code's file,
 * {artifact} what the compile step is to write, {tmp}, {home}, {output}, {input} the box's directories,
 * {cpus} the whole number of CPUs that the limit gives. */
#pragma once

#include "base/bytes.h"
#include "base/error.h"
#include "image/image.h"
#include "spec/spec.h"

struct language_step {
    struct string_list find;
    struct string_list run;
    struct string_list environment; /* NAME=value */
};

struct language {
    char *name;
    struct string_list extensions;
    char *file;
    char *missing; /* how to get it; may be NULL */
    bool is_wasm;  /* its runtime is a module for the engine wasm */
    char *artifact;
    bool has_compile;
    struct language_step compile;
    struct language_step run;
    struct string_list probe;     /* must exit 0 in a box for the row to be taken; may be empty */
    char *context_file;           /* the runner of a context (runtime/runner.h); NULL: as `file` */
    struct language_step context; /* how it is run; empty: as code is */
    /* The runner of a box that is started before there is code for it: only built-in rows have one, which
     * knows how their `run` is done. */
    char *spare_file;
    bool spare_stays;           /* the interpreter reads the file again later */
    struct language_step spare; /* empty: there is none */
    /* The program that looks at code before it runs (spec/vet.h); of built-in rows, too. */
    char *vet_file;
    struct language_step vet;
};

struct language_table {
    struct language *rows;
    size_t count;
    size_t owned; /* the first of them, from files; the rest is built in */
};

int language_table_load(const struct string_list *files, struct language_table *ret, struct error *err);
void language_table_free(struct language_table *table);

/* The language that a file name's extension belongs to, or NULL. */
const char *language_by_extension(const struct language_table *table, const char *file_name);

/* The first row of that name; NULL: there is none. */
const struct language *language_named(const struct language_table *table, const char *name);

/* The language of a spec's code: the one it names (also by an extension: js), that of its file's extension,
 * or of its first line ("#!/usr/bin/env python3"); python where there is no file. NULL: nothing tells. */
const char *language_of_spec(const struct language_table *table, const struct spec *spec);

/* The file name of code in this language: the user's own (may be NULL) where it has the right extension, so
 * that messages say hello.py and not main.py. */
const char *language_code_name(const struct language_table *table, const struct language *language,
                               const char *own);

struct language_wanted {
    const char *name;
    const struct image *image;
    bool is_wasm; /* for that engine; else for all others */
};

/* The next row of that name, from row `from` on, whose programs are in the image; its index, or -1.
 * *ret_runtime and *ret_compiler point into the row. */
int language_find(const struct language_table *table, const struct language_wanted *wanted, size_t from,
                  const char **ret_runtime, const char **ret_compiler);

/* "python, javascript, …" */
int language_names(const struct language_table *table, struct buffer *into);

/* An error that says whether there is no such language, or how to get it into the image. */
int language_explain_missing(const struct language_table *table, const struct language_wanted *wanted,
                             struct error *err);
