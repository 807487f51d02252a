/* What is asked of cloche-wasm, and what it reports: the words between the host and the program that has
 * Wasmtime in it.
 *
 * An order is an order_call on the channel and the order itself, which begins with an order_head, then has
 * `fields_length` bytes of pairs (name, NUL, value, NUL), then the code: a short one follows the call, a long
 * one is a sealed memory file. With the call come descriptors: that file, where there is one; and in a
 * program that serves, the run's own stdout, stderr, the socket that its end is told to, and its stdin if it
 * has any; in one that ends with its run, the socket to the gateway, where it has one. A report is a
 * report_head and as many bytes of pairs. The host trusts nothing in a report: it may be the words of a
 * module that broke out of Wasmtime. */
#pragma once

#include <stdint.h>

#define ORDER_MAGIC 0x77636c63u

enum {
    ORDER_ONCE = 'o',  /* streams are the program's own, and it ends with the run */
    ORDER_SERVE = 's', /* streams are its own, and the program waits for the next order afterwards */
    ORDER_STDOUT = 0,  /* places of the descriptors of one that serves */
    ORDER_STDERR,
    ORDER_END, /* where the run's end is told as an init_message, as init would */
    ORDER_STDIN,
    ORDER_GATEWAY = 0,               /* the place of the only one that comes with ORDER_ONCE */
    ORDER_FDS_MAX = ORDER_STDIN + 2, /* the file comes last */
    ORDER_SHORT_MAX = 32 << 10,
    ORDER_FIELDS_MAX = 16 << 20,
    REPORT_MAX = 64 << 10,
};

struct order_call {
    uint32_t kind;
    uint32_t short_length; /* of the order that follows; 0: it is in the file */
};

struct order_head {
    uint32_t magic, fields_length;
    uint64_t code_length;
};

struct report_head {
    uint32_t length;
};

/* Fields of an order. What can be given more than once is a list. */
#define FIELD_RUNTIME                                                                                        \
    "runtime" /* a module that was compiled ahead, whose code this is; absent: the code is the module */
#define FIELD_NAME        "name" /* of the code's file */
#define FIELD_ARGUMENT    "argument"
#define FIELD_ENVIRONMENT "environment"
#define FIELD_CALL        "call"  /* an exported function, with the arguments as its values */
#define FIELD_HOST        "host"  /* a group of approved host functions */
#define FIELD_INPUT       "input" /* host directories, shown as /data/input, /data/output; and where those */
#define FIELD_OUTPUT      "output"
#define FIELD_SCRATCH     "scratch"   /* of the run itself are made: /code, /tmp */
#define FIELD_DIRECTORY   "directory" /* the one of these that relative names are in */
#define FIELD_MEMORY      "memory"    /* bytes */
#define FIELD_CPU         "cpu"       /* milliseconds */
#define FIELD_WALL        "wall"
#define FIELD_FUEL        "fuel" /* absent: not counted */

/* Fields of a report. */
#define REPORT_REFUSED  "refused"  /* it was not begun: a sentence for the one who asked */
#define REPORT_TRAP     "trap"     /* its kind: unreachable, stack_overflow … */
#define REPORT_MESSAGE  "message"  /* what Wasmtime says of it */
#define REPORT_LIMIT    "limit"    /* memory, cpu, wall, fuel: what ended it */
#define REPORT_RETURNED "returned" /* a value of the function that was called, as text: a list */
#define REPORT_MEMORY   "memory"   /* bytes of linear memory at the end */
#define REPORT_FUEL     "fuel"     /* used */
