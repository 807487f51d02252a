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

/* A word with a dot at its end stands for NAME.ANY, and for NAME[ANY], as OpenAPI writes objects. */
static bool is_family(const char *word)
{
    return word[0] && word[strlen(word) - 1] == '.';
}

static bool is_of_family(const char *name, const char *word)
{
    size_t stem = strlen(word) - 1;
    return strncmp(name, word, stem) == 0 && (name[stem] == '.' || name[stem] == '[');
}

static void check_one(void *data, const char *name, const char *value)
{
    (void)value;
    struct check *check = data;
    char word[64];
    for (const char *rest = check->known; next_word(&rest, word, sizeof word);) {
        if (is_family(word) ? is_of_family(name, word) : strcmp(name, word) == 0)
            return;
    }
    if (!check->has_unknown)
        snprintf(check->unknown, sizeof check->unknown, "%s", name);
    check->has_unknown = true;
}

/* Of a family there is no parameter that is called like it: *into says how one is written. */
static bool names_a_family(const char *name, const char *known, char *into, size_t size)
{
    char word[64];
    for (const char *rest = known; next_word(&rest, word, sizeof word);) {
        size_t stem = strlen(word) - 1;
        if (!is_family(word) || strlen(name) != stem || strncmp(name, word, stem) != 0)
            continue;
        snprintf(into, size, "%s.NAME=VALUE, or %s[NAME]=VALUE", name, name);
        return true;
    }
    return false;
}

bool query_is_known(struct exchange *exchange, const char *known)
{
    struct check check = {.known = known};
    exchange_each_query(exchange, check_one, &check);
    if (!check.has_unknown)
        return true;
    char written[256];
    if (names_a_family(check.unknown, known, written, sizeof written)) {
        exchange_reply_error(exchange, 400, "bad_request", check.unknown, written,
                             "'%s' needs a name: it is one parameter for each", check.unknown);
        return false;
    }
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
