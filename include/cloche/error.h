/* Errors of libcloche: what went wrong on our side. What the guest did is in the result. */
#ifndef CLOCHE_ERROR_H
#define CLOCHE_ERROR_H

#ifdef __cplusplus
extern "C" {
#endif

enum cloche_error_kind {
    CLOCHE_ERROR_NONE = 0,
    CLOCHE_ERROR_SPEC = 1,  /* what was asked for is not allowed or not possible; nothing was started */
    CLOCHE_ERROR_LAYER = 2, /* a layer of isolation is missing; nothing of the user's ran */
    CLOCHE_ERROR_HOST = 3,  /* the host failed */
};

/* Owned by the caller; a fixed size, nothing to free. */
struct cloche_error {
    enum cloche_error_kind kind;
    int code;         /* negative errno */
    char subject[64]; /* the field or layer that it is about, or "" */
    char text[960];   /* a sentence for people */
};

#ifdef __cplusplus
}
#endif
#endif
