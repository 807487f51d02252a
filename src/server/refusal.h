/* Why something is not done now, in the words of the API: status, code, when to come again. */
#pragma once

#include <stdint.h>

struct refusal {
    int status;       /* 422: never, 429: the tenant's quota, 503: the machine is full */
    const char *code; /* of the API's errors */
    const char *field;
    int64_t retry_after_ms; /* 0: coming again does not help */
    char message[256];
    char hint[160];
};

/* Whole seconds for the header Retry-After, at least one. */
static inline int64_t refusal_retry_after_s(const struct refusal *refusal)
{
    int64_t seconds = (refusal->retry_after_ms + 999) / 1000;
    return seconds < 1 ? 1 : seconds;
}
