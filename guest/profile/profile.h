/* What a file of data holds, as JSON. */
#pragma once

#include "output.h"

/* The file's bytes, whatever they are; 0, or -1 without memory. At most 1,000 columns and 20 rows, values cut
 * at 200 bytes: some megabytes of JSON at most. */
int profile_file(const char *data, size_t length, struct output *into);
