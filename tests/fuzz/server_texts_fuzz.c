/* Any text as what the server reads out of headers and fields by itself: Range, Content-Range, base64, ids,
 * names of files, idempotency keys. */
#include "fuzz.h"

#include "base/identifier.h"
#include "base/base64.h"
#include "server/journal.h"
#include "server/range.h"
#include "server/store.h"

#include <errno.h>
#include <string.h>

static void check_range(const char *text, uint64_t length)
{
    uint64_t first = 0, last = 0;
    int status = range_read(text, length, &first, &last);
    check(status == 0 || status == 1 || status == -ERANGE, "a part, the whole, or what is not there");
    check(status != 1 || (first <= last && last < length), "a part is within the file");
}

static void check_content_range(const char *text)
{
    struct range_content range;
    int status = range_read_content(text, &range);
    check(status == 0 || status == -EINVAL, "a range or none");
    check(status < 0 || range.total >= 0, "nothing is negative");
    check(status < 0 || range.is_check ||
              (range.first >= 0 && range.first <= range.last && range.last < range.total),
          "a part is within the whole");
}

static void check_base64(const char *text)
{
    scope_buffer bytes = {0}, again = {0};
    struct slice given = {text, strlen(text)};
    if (base64_decode(given, &bytes) < 0) {
        check(bytes.length == 0, "what is refused leaves nothing");
        return;
    }
    check(bytes.length <= given.length / 4 * 3, "it is no longer than it can be");
    char *encoded = base64_encode((struct slice){bytes.data ? bytes.data : "", bytes.length});
    check(encoded && strlen(encoded) == given.length, "there and back has the same length");
    check(base64_decode((struct slice){encoded, strlen(encoded)}, &again) == 0 &&
              again.length == bytes.length &&
              (!bytes.length || memcmp(again.data, bytes.data, bytes.length) == 0),
          "and is the same");
    free(encoded);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input = {data, size};
    uint64_t length = (uint64_t)fuzz_byte(&input) << (fuzz_byte(&input) % 57);
    char *text = fuzz_text(&input);
    check_range(text, length);
    check_content_range(text);
    check_base64(text);
    check(!identifier_has_form(text, "run_") || strlen(text) == 26, "ids have one length");
    if (store_is_name(text))
        check(text[0] && strcmp(text, ".") != 0 && strcmp(text, "..") != 0 && !strchr(text, '/') &&
                  strlen(text) <= 255,
              "a name of a file is one");
    if (journal_key_is_valid(text))
        for (const char *at = text; *at; at++)
            check(*at >= ' ' && *at < 0x7f, "keys are printable");
    free(text);
    return 0;
}
