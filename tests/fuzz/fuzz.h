/* What the fuzz targets share. A target is one function that takes any bytes; it is linked with libFuzzer
 * (tests/fuzz/run), or with replay_main.c, which runs it over the files of its corpus. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What must hold whatever the input is. */
static inline void check(bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "does not hold: %s\n", what);
    abort();
}

/* The input, eaten from the front. */
struct fuzz_input {
    const uint8_t *data;
    size_t left;
};

static inline uint8_t fuzz_byte(struct fuzz_input *input)
{
    if (!input->left)
        return 0;
    input->left--;
    return *input->data++;
}

/* The bytes up to the next zero byte or the end, as text; the caller frees. */
static inline char *fuzz_text(struct fuzz_input *input)
{
    size_t length = 0;
    while (length < input->left && input->data[length])
        length++;
    char *text = malloc(length + 1);
    if (!text)
        abort();
    for (size_t i = 0; i < length; i++)
        text[i] = (char)input->data[i];
    text[length] = '\0';
    size_t eaten = length < input->left ? length + 1 : length;
    input->data += eaten;
    input->left -= eaten;
    return text;
}
