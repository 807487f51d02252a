#include "engine/wasm/fetched.h"

#include <errno.h>
#include <jansson.h>
#include <sys/socket.h>

enum { ROWS_MAX = 1000, WORDS_AT_ONCE = 256 };

int fetched_hear_word(int control_fd, struct gateway_word *ret)
{
    ssize_t length = recv(control_fd, ret, sizeof *ret, MSG_DONTWAIT);
    if (length != (ssize_t)sizeof *ret)
        return length < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : -EPIPE;
    ret->method[sizeof ret->method - 1] = ret->site[sizeof ret->site - 1] = ret->text[sizeof ret->text - 1] =
        '\0';
    return 1;
}

static const char *code_name(int32_t code)
{
    static const char *const names[] = {"denied", "failed", "limited", "malformed"};
    return code <= FETCH_DENIED && code >= FETCH_MALFORMED ? names[-code - 1] : "failed";
}

/* NULL: no memory, or not UTF-8. */
static json_t *row_of(const struct gateway_word *word)
{
    if (word->status > 0)
        return json_pack("{s:s, s:s, s:i}", "method", word->method, "site", word->site, "status",
                         (int)word->status);
    return json_pack("{s:s, s:s, s:s, s:s}", "method", word->method, "site", word->site, "error",
                     code_name(word->status), "reason", word->text);
}

void fetched_hear(struct fetched *fetched, int control_fd)
{
    struct gateway_word word;
    for (int i = 0; i < WORDS_AT_ONCE && fetched_hear_word(control_fd, &word) == 1; i++) {
        if (word.kind != GATEWAY_FETCHED)
            continue;
        if (json_array_size(fetched->rows) >= ROWS_MAX ||
            json_array_append_new(fetched->rows, row_of(&word)) < 0)
            fetched->more++;
    }
}
