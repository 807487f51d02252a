/* The kinds of boxes that a pool has ready: a language in an engine, and how a box of it is made before there
 * is anything to run. */
#pragma once

#include "runtime/language.h"
#include "spec/policy.h"
#include "spec/spec.h"

struct kind {
    const char *name; /* the language, and the engine where it is not the container */
    const char *language;
    enum isolation isolation;
    bool is_forked; /* from a zygote; else each box is started on its own */
    bool preloads;  /* its interpreter has imported what the operator names */
    bool is_ready;  /* the interpreter is there already, and has read what it reads only when it starts */
    bool lowers;    /* its runner puts on the run's limits of processes; else they are as they were */
};

/* The first is the one that a pool always has. */
enum { KIND_COUNT = 9 };
extern const struct kind kinds[KIND_COUNT];

/* Its index; -1: there is none of that name. */
int kind_by_name(const char *name);

/* What the boxes of a pool are like. */
struct kind_terms {
    const struct language_table *languages;
    const struct limits *usual;   /* of a box that waits */
    const struct limits *highest; /* that one can be given */
};

/* The kind whose boxes, of the spec's own image, can run this spec, which must be validated, as in a cold
 * one; -1: none. */
int kind_of_spec(const struct spec *spec, const struct kind_terms *terms);
