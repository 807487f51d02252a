/* Any bytes as output of a guest: nothing that drives a terminal comes through, however it is cut into
 * pieces; and as JSON every byte comes through. */
#include "fuzz.h"

#include "base/text.h"
#include "engine/terminal_text.h"
#include "spec/result.h"

#include <jansson.h>
#include <string.h>

static void check_harmless(const struct buffer *text)
{
    if (!text->data)
        return;
    check(text_is_utf8(text->data, text->length), "what is shown is UTF-8");
    for (size_t i = 0; i < text->length; i++) {
        unsigned char byte = (unsigned char)text->data[i];
        check(byte >= 0x20 || byte == '\n' || byte == '\t' || byte == '\r',
              "no control character comes through");
        check(byte != 0x7f, "nor a delete");
        check(byte != 0xc2 || (unsigned char)text->data[i + 1] >= 0xa0, "nor one of the second kind");
    }
}

static void check_pieces(const uint8_t *data, size_t size, size_t step, const struct buffer *whole)
{
    struct terminal_text state = {0};
    scope_buffer pieces = {0};
    for (size_t at = 0; at < size; at += step) {
        size_t length = size - at < step ? size - at : step;
        check(terminal_text_append(&state, &pieces, (const char *)data + at, length) == 0, "there is memory");
    }
    check_harmless(&pieces); /* also before the end */
    check(terminal_text_flush(&state, &pieces) == 0, "there is memory");
    check(pieces.length == whole->length &&
              (!pieces.length || memcmp(pieces.data, whole->data, whole->length) == 0),
          "pieces show as the whole");
}

static void check_json(const uint8_t *data, size_t size)
{
    struct result *result = result_new();
    check(result && buffer_append(&result->output.kept, data, size) == 0, "there is memory");
    char *json = result_to_json(result, false);
    check(json && text_is_utf8(json, strlen(json)), "there is always a result");
    for (const char *at = json; *at; at++)
        check((unsigned char)*at >= 0x20, "JSON holds no control character");
    json_t *object = json_loads(json, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
    check(object != NULL, "the result is JSON");
    const json_t *text = json_object_get(object, "stdout"), *exact = json_object_get(object, "stdout_base64");
    if (text_is_utf8((const char *)data, size))
        check(!exact && json_string_length(text) == size && memcmp(json_string_value(text), data, size) == 0,
              "text is text");
    else
        check(exact && json_string_length(exact) == (size + 2) / 3 * 4, "other bytes are given exactly");
    json_decref(object);
    free(json);
    result_free(result);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    scope_buffer whole = {0};
    check(terminal_text_clean(&whole, (const char *)data, size) == 0, "there is memory");
    check_harmless(&whole);
    check(whole.length >= size, "nothing is swallowed");
    static const size_t steps[] = {1, 2, 3, 7};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
        check_pieces(data, size, steps[i], &whole);
    check_json(data, size);
    return 0;
}
