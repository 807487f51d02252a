#include "spec/media.h"

#include "base/base64.h"
#include "base/scope.h"
#include "base/text.h"

#include <jansson.h>
#include <stdbool.h>
#include <string.h>

static bool ends_in(const char *type, const char *end)
{
    size_t length = strlen(type), tail = strlen(end);
    return length > tail && strcmp(type + length - tail, end) == 0;
}

json_t *media_to_json(const char *type, struct slice content)
{
    bool is_text = strncmp(type, "text/", 5) == 0 || strcmp(type, "application/json") == 0 ||
                   strcmp(type, "application/javascript") == 0 || ends_in(type, "+json") ||
                   ends_in(type, "+xml");
    if (is_text && text_is_utf8(content.data, content.length))
        return json_stringn(content.data, content.length);
    scope_free char *encoded = base64_encode(content);
    return encoded ? json_string(encoded) : NULL;
}
