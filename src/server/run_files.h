/* The field `files` of a request: what its box finds in /data/input, single files and whole directories. */
#pragma once

#include "server/exchange.h"
#include "spec/spec.h"

struct run_content {
    const char *upload; /* its name, of the request's JSON; NULL: what it is is given */
    struct buffer bytes;
    bool is_executable;
};

/* What is in a directory: a file, a link as it is, or a directory. */
struct run_entry {
    struct buffer path; /* below the directory; any bytes */
    struct buffer link; /* data NULL: none */
    bool is_directory;
    struct run_content content;
};

struct run_file {
    const char *name; /* below /data/input; of the request's JSON */
    struct run_content content;
    char held_sha256[65]; /* of an upload that is in use */
    bool is_tree;         /* a directory, of these */
    struct run_entry *entries;
    size_t entry_count;
};

struct run_files {
    struct run_file items[SPEC_GRANTS_MAX];
    size_t count;
};

/* Of the request's body, which must stay. On a negative errno the answer is set. */
int run_files_read(struct exchange *exchange, const json_t *body, struct run_files *into);
void run_files_free(struct run_files *files);
