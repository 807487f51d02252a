#include "server/query.h"

#include "base/text.h"

#include <stdio.h>
#include <string.h>

struct check {
    const char *known;
    char unknown[65];
    bool has_unknown;
};

/* One name of the list: where it is, and the next in *rest. NULL: there are no more. */
static const char *next_word(const char **rest, char *into, size_t size)
{
    const char *word = *rest ? *rest + strspn(*rest, " ") : "";
    size_t length = strcspn(word, " ");
    snprintf(into, size, "%.*s", (int)length, word);
    *rest = word + length;
    return length ? into : NULL;
}

static void check_one(void *data, const char *name, const char *value)
{
    (void)value;
    struct check *check = data;
    char word[64];
    for (const char *rest = check->known; next_word(&rest, word, sizeof word);) {
        size_t length = strlen(word);
        bool is_prefix = word[length - 1] == '.' && name[0];
        if (is_prefix ? strncmp(name, word, length) == 0 : strcmp(name, word) == 0)
            return;
    }
    if (!check->has_unknown)
        snprintf(check->unknown, sizeof check->unknown, "%s", name);
    check->has_unknown = true;
}

bool query_is_known(struct exchange *exchange, const char *known)
{
    struct check check = {.known = known};
    exchange_each_query(exchange, check_one, &check);
    if (!check.has_unknown)
        return true;
    struct text_guess guess = {.given = check.unknown};
    char words[8][64];
    const char *rest = known;
    for (size_t i = 0; i < sizeof words / sizeof *words && next_word(&rest, words[i], sizeof words[i]); i++)
        text_guess_offer(&guess, words[i]);
    bool has_body = strcmp(exchange_method(exchange), "POST") == 0;
    exchange_reply_error(exchange, 400, "bad_request", check.unknown,
                         has_body ? "fields go into the body, as JSON" : NULL,
                         "'%s' is not a parameter of this request%s%s%s", check.unknown,
                         guess.nearest ? "; did you mean '" : "", guess.nearest ? guess.nearest : "",
                         guess.nearest ? "'?" : "");
    return false;
}

bool query_number(struct exchange *exchange, const char *name, int64_t least, int64_t most, int64_t *ret)
{
    const char *text = exchange_query(exchange, name);
    if (!text || (text_parse_count(text, ret) && *ret >= least && *ret <= most))
        return true;
    exchange_reply_error(exchange, 400, "bad_request", name, NULL, "%s: must be a number from %lld to %lld",
                         name, (long long)least, (long long)most);
    return false;
}
