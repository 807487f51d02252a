/* A spec says what is to run, from which image, under which limits and permissions.
 *
 * It is filled field by field (options, JSON), then checked once against the operator's policy by
 * spec_validate; engines see only validated specs. */
#pragma once

#include "base/bytes.h"
#include "base/error.h"
#include "spec/limits.h"
#include "spec/policy.h"

#include <stdbool.h>
#include <sys/types.h>

enum { SPEC_GRANTS_MAX = 64, SPEC_ARGUMENTS_MAX = 1024, SPEC_CODE_MAX = 16 << 20 };

/* Of directories that are sent to a server piece by piece: what is in all of them together, how deep, how
 * long the path of one can be (so that it is one below /data/input, too), and the bytes of uploads in each
 * that are copied because they are programs. */
enum {
    SPEC_TREE_MAX = 10000,
    SPEC_TREE_DEPTH_MAX = 100,
    SPEC_TREE_PATH_MAX = 3500,
    SPEC_PROGRAMS_MAX = 256 << 20,
};

enum grant_kind {
    GRANT_INPUT, /* seen read-only below /data/input */
    GRANT_READ,  /* seen read-only at its own path */
    GRANT_WRITE, /* seen writable at its own path */
};

struct grant {
    enum grant_kind kind;
    char *host_path; /* absolute after validation */
    char *name;      /* GRANT_INPUT: the name below /data/input */
    bool is_pinned;  /* it must be this very file: who granted it could put another at its path */
    dev_t device;
    ino_t inode;
};

enum stdin_kind {
    STDIN_NONE,
    STDIN_DESCRIPTOR, /* copied from a descriptor of the caller's */
    STDIN_BYTES,
};

struct spec {
    char *language;
    struct buffer code;
    bool has_code;
    char *code_file;              /* a host file whose content is the code; read by spec_validate */
    char *code_name;              /* the name that error messages should show: hello.py */
    struct string_list command;   /* instead of code */
    struct string_list arguments; /* of the code's program */
    struct string_list environment;
    char *image;
    char *preload; /* the set of modules that a warm box has imported (warm.h); NULL: the image's usual */
    char *working_directory;
    bool has_isolation;
    enum isolation isolation;
    bool is_auto;                 /* whoever runs it chooses (keeper/choose.h), and not below … */
    enum isolation isolation_min; /* … this, where the caller names one */
    bool wants_results;           /* run as a cell of a notebook: what it shows comes beside its output */
    bool is_ours;                 /* not a user's: a runner, a tool, a proof. Nobody vets those. */
    bool has_vet;
    enum vet_mode vet;
    /* After validation: it was asked for, and is done whatever it costs; else only where it costs nothing. */
    bool vet_thorough;
    bool limit_set[LIMIT_FIELDS], compile_limit_set[LIMIT_FIELDS];
    struct limits limits, compile_limits;
    struct grant grants[SPEC_GRANTS_MAX];
    size_t grant_count;
    char *oci_runtime, *oci_platform; /* the operator's, taken over by spec_validate */
    char *output_directory; /* host directory that collected files are written to; NULL: only their hashes */
    int output_fd;          /* the same, opened by the caller, whose it stays; -1: none */
    char *call; /* wasm: the exported function to call, with the arguments as its values; NULL: _start */
    struct string_list host;  /* wasm: groups of host functions that are approved; none: wasi */
    struct string_list fetch; /* wasm: rules of spec/fetch.h; after validation as the operator has them */
    struct fetch_limits fetch_limits; /* the operator's, taken over by spec_validate, as the next is */
    char *fetch_ca;
    int64_t fuel;                /* wasm: units after which it ends, the same in every run; -1: not counted */
    struct string_list accepted; /* limits or layers that the caller does without, by name */
    enum stdin_kind stdin_kind;
    int stdin_fd;
    struct buffer stdin_bytes;
};

struct spec *spec_new(void);
void spec_free(struct spec *spec);

#define scope_spec __attribute__((cleanup(spec_free_pointer))) struct spec
static inline void spec_free_pointer(struct spec **spec)
{
    spec_free(*spec);
}

/* The scalar and list fields that options and JSON share. A list field is added to. Names: language, file,
 * code, command, arg, env (NAME=value), image, preload, isolation, input (PATH or PATH:NAME), read, write,
 * output, accept, cwd, stdin, call, host, fetch, fuel, vet, any limit, and compile.LIMIT. */
int spec_set(struct spec *spec, const char *field, const char *value, struct error *err);

/* A JSON object; unknown fields are refused by name. */
int spec_read_json(struct spec *spec, const char *text, size_t length, struct error *err);

/* The same for one that is parsed already (a json_t of jansson's). */
struct json_t;
int spec_read_object(struct spec *spec, const struct json_t *object, struct error *err);

/* Fills defaults, applies ceilings, resolves paths, reads the code file. After this the spec does not change.
 */
int spec_validate(struct spec *spec, const struct policy *policy, struct error *err);

/* The engine of a spec that asks for none: the operator's usual one, or the least that the caller allows.
 * Where a choice is made per run, this is what holds until then. */
void spec_take_usual_isolation(struct spec *spec, const struct policy *policy);

/* The engine that was chosen for a validated spec: never below the operator's or the caller's minimum. */
int spec_take_isolation(struct spec *spec, const struct policy *policy, enum isolation isolation,
                        struct error *err);

/* The least that an engine can be asked to run, to see whether it does. */
int spec_set_proof(struct spec *spec, enum isolation isolation, struct error *err);
/* Is it that? */
bool spec_is_proof(const struct spec *spec);

/* What a module may import beside what it brings. */
enum { SPEC_HOST_GROUPS = 6 };
extern const char *const spec_host_groups[SPEC_HOST_GROUPS];

/* The part of it that is about paths: each is there and can be granted; absolute afterwards, with a name. */
int spec_resolve_grants(struct spec *spec, struct error *err);

/* What a caller may do without by name, where the host cannot give it. */
enum { SPEC_ACCEPTABLE = 3 };
extern const char *const spec_acceptable[SPEC_ACCEPTABLE];
int spec_check_acceptable(const char *name, struct error *err);

bool spec_accepts(const struct spec *spec, const char *name);
