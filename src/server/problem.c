#include "server/problem.h"

#include "base/text.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

const char *problem_code(const struct error *err)
{
    return err->kind == ERROR_SPEC    ? "unprocessable"
           : err->kind == ERROR_LAYER ? "layer_missing"
                                      : "host_failure";
}

/* Of "'/a/b/c'" only "'…/c'" stays. Names in it may be of any bytes: where a path ends is told by the quote
 * that it began with, or by a blank. */
static void append_without_directories(struct buffer *into, const char *text)
{
    char before = ' ';
    while (*text) {
        bool is_path = *text == '/' && strchr(" '\"(", before);
        size_t length = !is_path ? 1 : strcspn(text, before == '\'' ? "'" : before == '"' ? "\"" : " :,;)");
        const char *name = text + length;
        while (is_path && name > text && name[-1] != '/')
            name--;
        if (is_path && name > text + 1)
            buffer_append_text(into, "…/");
        else
            name = text;
        text_append_utf8(into, name, (size_t)(text + length - name));
        before = text[length - 1];
        text += length;
    }
}

void problem_message(const struct error *err, struct buffer *into)
{
    if (err->kind == ERROR_SPEC || err->kind == ERROR_LAYER) {
        text_append_utf8(into, err->text, strlen(err->text));
        return;
    }
    fprintf(stderr, "cloche-server: %s\n", err->text[0] ? err->text : "the host failed");
    append_without_directories(into, err->text[0] ? err->text : "the host failed");
}
