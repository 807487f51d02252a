/* What a file of data holds, for people. */
#pragma once

#include <jansson.h>

void profile_print(const json_t *profile);
