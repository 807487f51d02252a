#include "python.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Where the bytes of a bytes object begin, in a CPython of 32 bits: after count, type, size and hash. */
enum { BYTES_HEAD = 16 };

/* Words as prelude.py takes them: how many arguments there are, these, and the environment, each ended by a
 * zero. Where `into` is NULL they are only measured. */
static size_t write_words(const struct task *task, char *into)
{
    char count[24];
    size_t length = (size_t)snprintf(count, sizeof count, "%zu", task->argument_count) + 1;
    if (into)
        memcpy(into, count, length);
    for (size_t i = 0; i < task->argument_count + task->environment_count; i++) {
        const char *word =
            i < task->argument_count ? task->arguments[i] : task->environment[i - task->argument_count];
        size_t size = strlen(word) + 1;
        if (into)
            memcpy(into + length, word, size);
        length += size;
    }
    return length;
}

void python_run(struct interpreter *interpreter, const struct task *task)
{
    size_t length = write_words(task, NULL);
    uint32_t words = interpreter_call(interpreter, "PyBytes_FromStringAndSize", 2,
                                      (uint32_t[]){0, (uint32_t)length}, true);
    uint8_t *into = words ? interpreter_memory(interpreter, words + BYTES_HEAD, length) : NULL;
    uint32_t start = interpreter_constant(interpreter, "cloche_start");
    if (into && start) {
        write_words(task, (char *)into);
        interpreter_call(interpreter, "PyObject_CallOneArg", 2, (uint32_t[]){start, words}, true);
    }
    if (!interpreter_is_over(interpreter)) /* the prelude never comes back */
        interpreter->error = wasmtime_error_new(
            into && start ? "the interpreter did not end as it was told to"
                          : "its arguments and environment do not fit into the memory limit");
}
