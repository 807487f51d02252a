/* Errors in words for a client: one table of what they are called, in answers and in streams. */
#pragma once

#include "base/bytes.h"
#include "base/error.h"

/* "unprocessable", "layer_missing", "host_failure" */
const char *problem_code(const struct error *err);

/* Its text, as UTF-8. What failed on this side of the API is the operator's to know: it goes to the log as it
 * is, and to the client without the directories in it. */
void problem_message(const struct error *err, struct buffer *into);
