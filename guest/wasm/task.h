/* One order, as the rest of the program sees it. */
#pragma once

#include "order.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TASK_LIST_MAX = 1100 };

struct task {
    const char *runtime, *name, *call, *input, *output, *scratch, *directory;
    const char *arguments[TASK_LIST_MAX], *environment[TASK_LIST_MAX];
    size_t argument_count, environment_count;
    unsigned host_groups;                        /* bits of imports.h */
    int64_t memory_bytes, cpu_ms, wall_ms, fuel; /* fuel -1: not counted */
    const uint8_t *code;
    size_t code_length;
    int stdin_fd, stdout_fd, stderr_fd;
    int fetch_fd;    /* to the gateway; -1: there is none */
    bool owns_stdin; /* it is this run's alone, and may be read to its end beforehand */
    void *mapped;
    size_t mapped_length;
};

/* Maps the order in this file. The host made it: what does not fit is a fault of ours, and false. */
bool task_read(int order_fd, struct task *ret);

/* The same of bytes in memory, which stay the caller's. */
bool task_parse(const char *bytes, size_t length, struct task *ret);
void task_release(struct task *task);
