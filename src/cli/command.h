/* The commands and options of `cloche`, as tables: help and man page are printed from them. */
#pragma once

#include "base/error.h"

#include <stddef.h>

/* Where a command is done. */
enum command_place {
    COMMAND_HERE,
    COMMAND_EITHER,    /* on a server when one is named */
    COMMAND_ON_SERVER, /* only there */
};

struct command {
    const char *name;
    enum command_place place;
    const char *usage;
    const char *summary;
    const char *description; /* paragraphs, separated by empty lines */
    const struct option_row *options;
    size_t option_count;
    int (*main)(int argc, char **argv); /* argv[0] is the command's name; returns the exit status */
};

struct option_row {
    const char *name;     /* without dashes: "memory" */
    char letter;          /* 0: none */
    const char *argument; /* "SIZE"; NULL: a switch */
    const char *field;    /* of a spec; NULL: the command's own */
    const char *help;
};

extern const struct command *const commands[];
extern const size_t command_count;

extern const struct command command_run, command_vet, command_explain, command_repl, command_keep,
    command_key, command_serve, command_doctor, command_image, command_reap, command_sandbox, command_files,
    command_fork, command_top;

/* Of commands that a server can do, too. Their tables are part of two programs, and each brings its own of
 * these: cloche does it here, or hands over to cloche-remote, which asks a server. */
int doctor_main(int argc, char **argv);
int sandbox_main(int argc, char **argv);
int files_main(int argc, char **argv);
int fork_main(int argc, char **argv);
int top_main(int argc, char **argv);

/* One step over the arguments. */
struct option_parser {
    int argc;
    char **argv;
    int at;              /* next argument */
    const char *letters; /* rest of a cluster of letters; NULL: none */
    char message[256];   /* what is wrong, after OPTION_WRONG */
};

enum option_kind {
    OPTION_END,        /* no more arguments */
    OPTION_ROW,        /* an option: *ret_row, and *ret_value when it takes one */
    OPTION_POSITIONAL, /* *ret_value */
    OPTION_REST,       /* "--": the rest starts at parser->at */
    OPTION_WRONG,      /* parser->message says what */
};

enum option_kind option_next(struct option_parser *parser, const struct command *command,
                             const struct option_row **ret_row, const char **ret_value);

/* For a command that takes nothing but options: each goes to `take`, which says 0, or something else to end
 * with. */
typedef int (*option_take)(void *into, const struct option_row *row, const char *value, struct error *err);
int option_each(int argc, char **argv, const struct command *command, option_take take, void *into,
                struct error *err);

/* Says on stderr what is wrong with the line, and returns the exit status for it. */
int option_refuse(const struct option_parser *parser, const struct command *command);

void help_print(const struct command *command);
void help_print_overview(void);

/* The man page (groff) on stdout, for the build. */
void help_print_man(void);
