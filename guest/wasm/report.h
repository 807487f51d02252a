/* What is told about a run: pairs of name and value, kept until they are sent. */
#pragma once

#include "api.h"
#include "order.h"

struct report {
    char bytes[REPORT_MAX];
    uint32_t length;
};

void report_add(struct report *report, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The words of an error or of a trap, one of which may be NULL; both are freed. */
void report_words(struct report *report, const char *name, wasmtime_error_t *error, wasm_trap_t *trap);

void report_send(const struct report *report, int fd);
