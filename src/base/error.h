/* An error is a sentence for the person who reads it, plus what kind of trouble it is.
 *
 * Fallible functions return 0 or a negative errno and fill a struct error given last. The struct is a fixed
 * buffer, so that it works in a child after clone and never fails to allocate. What the guest did (exit,
 * signal, time-out) is a result, never an error. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum error_kind {
    ERROR_NONE = 0,
    ERROR_SPEC,  /* the caller asked for something that is not allowed or not possible; nothing was started */
    ERROR_LAYER, /* a layer of isolation that the policy asks for is missing; nothing of the user's ran */
    ERROR_HOST,  /* the host failed us: no memory, no descriptors, a kernel call that should have worked */
};

struct error {
    enum error_kind kind;
    int code;         /* negative errno */
    char subject[64]; /* the field or layer that it is about; may be empty */
    char text[960];
};

/* Each returns `code` (forced negative), so that a caller can `return error_host(err, -errno, ...)`. `err`
 * may be NULL. The text of the errno is appended for ERROR_HOST. */
int error_host(struct error *err, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* The same where the sentence says it all, and the errno is only for the caller: nothing is appended. */
int error_host_told(struct error *err, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
int error_spec(struct error *err, const char *field, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
int error_layer(struct error *err, const char *layer, int code, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Puts context before what is already there: "while making the root: …". Returns err->code. */
int error_context(struct error *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

const char *error_kind_name(enum error_kind kind);
