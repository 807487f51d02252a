/* Frames and headers of docs/runner-protocol.md, as far as a shell needs them. The runner trusts the host:
 * what it sends is taken as it is meant, and what makes no sense ends the runner. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct text {
    char *data; /* with a NUL behind it, and perhaps in it */
    size_t length;
};

/* With a NULL behind the last. */
struct words {
    char **items;
    size_t count;
};

enum order_kind { ORDER_UNKNOWN, ORDER_RUN, ORDER_COMPLETE, ORDER_MAIN };

enum { ORDER_RLIMITS = 16 };

struct order {
    enum order_kind kind;
    int64_t run;
    struct text input;     /* stdin; no data: none was given */
    struct text arguments; /* quoted for the shell, with a space before each */
    struct text code;
    /* Of a program: what to execute, with what. */
    struct words command, environment;
    struct {
        int resource;
        uint64_t value;
    } rlimits[ORDER_RLIMITS];
    size_t rlimit_count;
};

void text_append(struct text *text, const void *data, size_t length);
void text_print(struct text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* As a JSON string with its quotes; what is not UTF-8, or is a NUL, becomes '?'. */
void text_append_json(struct text *text, const char *data, size_t length);
void text_free(struct text *text);

/* Reads the next order. False when the host is gone. */
bool order_read(int fd, struct order *ret);
void order_free(struct order *order);

/* `fields`: what stands in the header behind "type" and "run", with a comma before it. `run` -1: between
 * runs. */
void frame_write(int fd, const char *type, int64_t run, const char *fields, const void *body, size_t length);
