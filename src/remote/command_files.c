/* cloche files: uploads of a server, and files of its sandboxes. */
#include "remote/profile.h"
#include "remote/remote.h"
#include "remote/sandbox.h"
#include "remote/saved_files.h"
#include "remote/upload.h"

#include "cli/command.h"
#include "cli/report.h"

#include "base/scope.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

struct files_options {
    struct http *http;
    const char *order;
    struct string_list words;
    const char *ttl;
    bool tar, json, quiet;
};

/* A name: of an upload, or SANDBOX:PATH. */
struct place {
    char sandbox[64]; /* "": an upload, or a file of ours */
    const char *path;
};

static struct place place_of(const char *text)
{
    struct place place = {.path = text};
    const char *colon = strchr(text, ':');
    size_t length = colon ? (size_t)(colon - text) : 0;
    if (strncmp(text, "sbx_", 4) != 0 || !length || length >= sizeof place.sandbox)
        return place;
    snprintf(place.sandbox, sizeof place.sandbox, "%.*s", (int)length, text);
    place.path = colon + 1;
    return place;
}

/* The last part of a path, for who names only one end. */
static const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static int address(const struct place *place, const char *endpoint, struct buffer *ret, struct error *err)
{
    ret->length = 0;
    int status = place->sandbox[0] ? sandbox_path(place->sandbox, endpoint, ret, err)
                                   : buffer_append_text(ret, "/v1/files/");
    if (status == 0 && place->sandbox[0])
        status = buffer_append_text(ret, "?path=");
    if (status == 0)
        status = http_append_encoded(ret, place->path);
    return status == -ENOMEM ? error_host(err, status, "files") : status;
}

/* ---- put, get ---- */

static int put_to(const struct files_options *given, const char *file, struct place target, struct error *err)
{
    scope_buffer path = {0}, whole = {0};
    json_t *answer = NULL;
    char size[32];
    if (!target.path[0] ||
        target.path[strlen(target.path) - 1] == '/') { /* a directory: its own name in it */
        if (!given->tar && (buffer_print(&whole, "%s%s", target.path, last_part(file)) < 0))
            return error_host(err, -ENOMEM, "files");
        target.path = whole.data ? whole.data : target.path;
    }
    if (given->tar && !target.sandbox[0])
        return error_spec(err, "tar", "tar: only a sandbox has directories; put the archive as a file");
    int status = address(&target, given->tar ? "/files/tar" : "/files", &path, err);
    if (status == 0 && given->ttl && !target.sandbox[0]) {
        status = buffer_append_text(&path, "?ttl=");
        status = status < 0 ? status : http_append_encoded(&path, given->ttl);
    }
    if (status == 0)
        status = upload_file(given->http, file, path.data, !target.sandbox[0], &answer, err);
    if (status == 0 && given->json && answer)
        remote_print_json(answer);
    else if (status == 0 && !given->quiet && !target.sandbox[0])
        printf("%s %s %s\n", remote_text(answer, "name"),
               text_format_size(json_integer_value(json_object_get(answer, "size")), size, sizeof size),
               remote_text(answer, "sha256"));
    json_decref(answer);
    return status;
}

static int get_from(const struct files_options *given, struct place from, const char *file, struct error *err)
{
    scope_buffer path = {0}, whole = {0};
    if (given->tar && !from.sandbox[0])
        return error_spec(err, "tar", "tar: only a sandbox has directories");
    if (!file)
        file = given->tar ? "-" : last_part(from.path);
    size_t length = strlen(file);
    struct stat what;
    bool is_directory =
        length && (file[length - 1] == '/' || (stat(file, &what) == 0 && S_ISDIR(what.st_mode)));
    if (is_directory) {
        if (buffer_print(&whole, "%s/%s", file, last_part(from.path)) < 0)
            return error_host(err, -ENOMEM, "files");
        file = whole.data;
    }
    int status = address(&from, given->tar ? "/files/tar" : "/files", &path, err);
    return status < 0 ? status : saved_files_fetch(given->http, path.data, AT_FDCWD, file, err);
}

static int put(struct files_options *given, struct error *err)
{
    const char *file = given->words.items[0];
    const char *target = given->words.count > 1 ? given->words.items[1] : last_part(file);
    if (strcmp(target, "-") == 0)
        return error_spec(err, "name", "give a name for what comes from stdin: cloche files put - NAME");
    return put_to(given, file, place_of(target), err);
}

static int get(struct files_options *given, struct error *err)
{
    return get_from(given, place_of(given->words.items[0]),
                    given->words.count > 1 ? given->words.items[1] : NULL, err);
}

static int copy(struct files_options *given, struct error *err)
{
    struct place from = place_of(given->words.items[0]);
    const char *second = given->words.count > 1 ? given->words.items[1] : NULL;
    struct place to = place_of(second ? second : "");
    if (from.sandbox[0] && to.sandbox[0])
        return error_spec(err, "files", "copy from or to a sandbox; for both, copy twice");
    if (to.sandbox[0])
        return put_to(given, given->words.items[0], to, err);
    return get_from(given, from, second, err);
}

/* ---- list, remove, profile ---- */

static void print_entry(const struct files_options *given, const json_t *file)
{
    char size[32], until[32];
    const char *name = remote_text(file, "name");
    if (!name[0]) /* of a sandbox's */
        name = remote_text(file, "path");
    if (given->quiet) {
        printf("%s\n", name);
        return;
    }
    const char *kind = remote_text(file, "type");
    if (kind[0])
        printf("%10s  %-9s  %s\n",
               text_format_size(json_integer_value(json_object_get(file, "size")), size, sizeof size), kind,
               name);
    else
        printf("%10s  %-20s  %s\n",
               text_format_size(json_integer_value(json_object_get(file, "size")), size, sizeof size),
               remote_format_time(remote_text(file, "expires_at"), until, sizeof until), name);
}

/* All pages of it, one after the other. */
static int gather(struct files_options *given, const struct place *place, json_t *ret_all, struct error *err)
{
    char cursor[256] = "";
    int status = 0;
    do {
        scope_buffer path = {0};
        json_t *answer = NULL;
        if (place->sandbox[0])
            status = address(place, "/files/list", &path, err);
        else if ((status = buffer_append_text(&path, "/v1/files?limit=1000")) == 0 && cursor[0] &&
                 (status = buffer_append_text(&path, "&cursor=")) == 0)
            status = http_append_encoded(&path, cursor);
        if (status == 0)
            status = http_ask(given->http, "GET", path.data, NULL, &answer, err);
        json_t *files = json_object_get(answer, "files");
        json_array_extend(ret_all, files ? files : json_object_get(answer, "entries"));
        snprintf(cursor, sizeof cursor, "%s", place->sandbox[0] ? "" : remote_text(answer, "next"));
        json_decref(answer);
    } while (status == 0 && cursor[0]);
    return status;
}

static int list(struct files_options *given, struct error *err)
{
    const char *prefix = given->words.count ? given->words.items[0] : "";
    struct place place = place_of(prefix);
    json_t *all = json_array(), *item;
    size_t index;
    int status = gather(given, &place, all, err);
    for (size_t i = json_array_size(all); status == 0 && !place.sandbox[0] && i-- > 0;)
        if (strncmp(remote_text(json_array_get(all, i), "name"), prefix, strlen(prefix)) != 0)
            json_array_remove(all, i);
    if (status == 0 && given->json) {
        json_t *answer = json_pack("{s:O}", "files", all);
        remote_print_json(answer);
        json_decref(answer);
    } else if (status == 0) {
        json_array_foreach(all, index, item) print_entry(given, item);
    }
    json_decref(all);
    return status;
}

static int delete (struct files_options *given, struct error *err)
{
    int status = 0;
    for (size_t i = 0; i < given->words.count && status == 0; i++) {
        scope_buffer path = {0};
        struct place place = place_of(given->words.items[i]);
        status = address(&place, "/files", &path, err);
        if (status == 0)
            status = http_ask(given->http, "DELETE", path.data, NULL, NULL, err);
    }
    return status;
}

static int profile(struct files_options *given, struct error *err)
{
    scope_buffer path = {0};
    json_t *answer = NULL;
    struct place place = place_of(given->words.items[0]);
    if (place.sandbox[0])
        return error_spec(err, "name", "only uploads have a profile");
    int status = address(&place, "", &path, err);
    if (status == 0)
        status = buffer_append_text(&path, "/profile");
    if (status == 0)
        status = http_ask(given->http, "GET", path.data, NULL, &answer, err);
    if (status == 0 && given->json)
        remote_print_json(answer);
    else if (status == 0)
        profile_print(answer);
    json_decref(answer);
    return status;
}

/* ---- the line ---- */

static const struct {
    const char *name;
    size_t least, most; /* words after it */
    int (*perform)(struct files_options *given, struct error *err);
} orders[] = {
    {"put", 1, 2, put},          {"get", 1, 2, get},         {"list", 0, 1, list},
    {"remove", 1, 1000, delete}, {"profile", 1, 1, profile}, {"copy", 1, 2, copy},
};

/* FROM TO without an order before it is a copy, if one of them is in a sandbox. */
static void take_copy(struct files_options *given)
{
    const char *second = given->words.count ? given->words.items[0] : "";
    if (!place_of(given->order).sandbox[0] && !place_of(second).sandbox[0])
        return;
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++)
        if (strcmp(orders[i].name, given->order) == 0)
            return;
    struct string_list words = {0};
    string_list_add(&words, given->order);
    for (size_t i = 0; i < given->words.count; i++)
        string_list_add(&words, given->words.items[i]);
    string_list_free(&given->words);
    given->words = words;
    given->order = "copy";
}

static int perform(struct files_options *given, struct error *err)
{
    size_t i = 0, count = sizeof orders / sizeof *orders;
    take_copy(given);
    struct text_guess guess = {.given = given->order};
    for (; i < count && strcmp(orders[i].name, given->order) != 0; i++)
        text_guess_offer(&guess, orders[i].name);
    if (i == count)
        return error_spec(err, "order", "there is no `cloche files %.32s`%s%s%s; see `cloche help files`",
                          given->order, guess.nearest ? " (did you mean " : "",
                          guess.nearest ? guess.nearest : "", guess.nearest ? "?)" : "");
    if (given->words.count < orders[i].least || given->words.count > orders[i].most)
        return error_spec(err, "name", "%s: %s; see `cloche help files`", given->order,
                          given->words.count < orders[i].least ? "give a name" : "too many names");
    int status = remote_connect(&given->http, err);
    return status < 0 ? status : orders[i].perform(given, err);
}

int files_main(int argc, char **argv)
{
    struct error err = {0};
    struct files_options given = {0};
    struct option_parser parser = {.argc = argc, .argv = argv, .at = 1};
    const struct option_row *row;
    const char *value;
    int status = 0;
    for (enum option_kind kind;
         status == 0 && (kind = option_next(&parser, &command_files, &row, &value)) != OPTION_END;) {
        if (kind == OPTION_WRONG || kind == OPTION_REST)
            return option_refuse(&parser, &command_files);
        if (kind == OPTION_POSITIONAL && !given.order)
            given.order = value;
        else if (kind == OPTION_POSITIONAL)
            status = string_list_add(&given.words, value);
        if (kind != OPTION_ROW)
            continue;
        if (strcmp(row->name, "help") == 0) {
            help_print(&command_files);
            return 0;
        }
        if (strcmp(row->name, "ttl") == 0)
            given.ttl = value;
        given.tar |= strcmp(row->name, "tar") == 0;
        given.json |= strcmp(row->name, "json") == 0;
        given.quiet |= strcmp(row->name, "quiet") == 0;
    }
    if (!given.order) {
        help_print(&command_files);
        return EXIT_STATUS_BAD_SPEC;
    }
    if (status == 0)
        status = perform(&given, &err);
    int exit_status = status < 0 ? remote_fail(&err) : 0;
    string_list_free(&given.words);
    http_close(given.http);
    return exit_status;
}
