/* Contents with a media type, as they are shown to people: text where it is one, pictures and the like in
 * base64. */
#pragma once

#include "base/bytes.h"

struct json_t;

/* To be freed; NULL: no memory. */
struct json_t *media_to_json(const char *type, struct slice content);
