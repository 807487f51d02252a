/* What a sandbox consists of: its contexts and its checkpoints, made, listed and ended by one table. */
#include "remote/remote.h"
#include "remote/sandbox.h"

#include "base/scope.h"

#include <stdio.h>
#include <string.h>

struct part_kind {
    const char *order, *below, *list;                          /* of the path, and of the answer */
    const char *field;                                         /* of the body of a new one … */
    const char *(*value)(const struct sandbox_options *given); /* … and what the line says of it; or NULL */
    const char *shown;                                         /* beside the id, in a list */
};

static const char *given_language(const struct sandbox_options *given)
{
    return given->spec->language;
}

static const char *given_name(const struct sandbox_options *given)
{
    return given->words.count > 2 ? given->words.items[2] : NULL;
}

static const struct part_kind kinds[] = {
    {"context", "/contexts", "contexts", "language", given_language, "language"},
    {"checkpoint", "/checkpoints", "checkpoints", "name", given_name, "name"},
};

/* The path of the one that the line names, or of all. */
static int part_path(const struct sandbox_options *given, const struct part_kind *kind, bool is_one,
                     const char *rest, struct buffer *ret, struct error *err)
{
    scope_buffer below = {0};
    int status = buffer_append_text(&below, kind->below);
    if (status == 0 && is_one)
        status = buffer_append_text(&below, "/");
    if (status == 0 && is_one)
        status = http_append_encoded(&below, given->words.items[given->words.count - 1]);
    if (status == 0)
        status = buffer_append_text(&below, rest);
    if (status < 0)
        return error_host(err, status, "sandbox");
    bool has_verb = given->words.count > 1 && strcmp(given->order, kind->order) == 0;
    return sandbox_path(given->words.items[has_verb], below.data, ret, err);
}

static int create(struct sandbox_options *given, const struct part_kind *kind, struct error *err)
{
    scope_buffer path = {0};
    json_t *answer = NULL, *body = json_object();
    if (kind->value(given))
        json_object_set_new(body, kind->field, json_string(kind->value(given)));
    int status = part_path(given, kind, false, "", &path, err);
    if (status == 0)
        status = http_ask(given->http, "POST", path.data, json_incref(body), &answer, err);
    if (status == 0 && given->json)
        remote_print_json(answer);
    else if (status == 0)
        printf("%s\n", remote_text(answer, "id"));
    json_decref(body);
    json_decref(answer);
    return status;
}

static int list(struct sandbox_options *given, const struct part_kind *kind, struct error *err)
{
    scope_buffer path = {0};
    json_t *answer = NULL, *item;
    size_t index;
    int status = part_path(given, kind, false, "", &path, err);
    if (status == 0)
        status = http_ask(given->http, "GET", path.data, NULL, &answer, err);
    if (status == 0 && given->json)
        remote_print_json(answer);
    else if (status == 0)
        json_array_foreach(json_object_get(answer, kind->list), index, item)
        {
            const char *shown = given->quiet ? "" : remote_text(item, kind->shown);
            printf("%s%s%s\n", remote_text(item, "id"), shown[0] ? "  " : "", shown);
        }
    json_decref(answer);
    return status;
}

static int delete (struct sandbox_options *given, const struct part_kind *kind, struct error *err)
{
    scope_buffer path = {0};
    int status = part_path(given, kind, true, "", &path, err);
    return status < 0 ? status : http_ask(given->http, "DELETE", path.data, NULL, NULL, err);
}

int sandbox_parts(struct sandbox_options *given, struct error *err)
{
    static const struct {
        const char *verb;
        size_t least, most; /* words, the verb included */
        int (*perform)(struct sandbox_options *given, const struct part_kind *kind, struct error *err);
    } verbs[] = {{"create", 2, 3, create}, {"list", 2, 2, list}, {"delete", 3, 3, delete}};
    const struct part_kind *kind = &kinds[strcmp(given->order, kinds[0].order) != 0];
    for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++)
        if (strcmp(verbs[i].verb, given->words.items[0]) == 0 && given->words.count >= verbs[i].least &&
            given->words.count <= verbs[i].most)
            return verbs[i].perform(given, kind, err);
    return error_spec(err, "order",
                      "it is: cloche sandbox %s create SANDBOX, list SANDBOX or delete SANDBOX %s",
                      given->order, kind == kinds ? "CONTEXT" : "CHECKPOINT");
}

int sandbox_rollback(struct sandbox_options *given, struct error *err)
{
    scope_buffer path = {0};
    json_t *answer = NULL;
    int status = part_path(given, &kinds[1], true, "/rollback", &path, err);
    if (status == 0)
        status = http_ask(given->http, "POST", path.data, json_object(), &answer, err);
    if (status == 0 && given->json)
        remote_print_json(answer);
    json_decref(answer);
    return status;
}
