#include "runtime/language.h"

#include "base/file.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "languages_table.h" /* builtin_languages, from languages.json */

static void step_free(struct language_step *step)
{
    string_list_free(&step->find);
    string_list_free(&step->run);
    string_list_free(&step->environment);
}

void language_table_free(struct language_table *table)
{
    for (size_t i = 0; i < table->owned; i++) {
        struct language *row = &table->rows[i];
        free(row->name);
        free(row->file);
        free(row->missing);
        free(row->artifact);
        free(row->context_file);
        string_list_free(&row->extensions);
        string_list_free(&row->probe);
        step_free(&row->compile);
        step_free(&row->run);
        step_free(&row->context);
    }
    free(table->rows);
    *table = (struct language_table){0};
}

static int read_list(const json_t *object, const char *key, struct string_list *into, const char *source,
                     struct error *err)
{
    const json_t *list = json_object_get(object, key);
    if (!list)
        return 0;
    size_t index;
    json_t *item;
    if (!json_is_array(list))
        return error_spec(err, "languages", "%s: '%s' must be an array of strings", source, key);
    json_array_foreach(list, index, item)
    {
        if (!json_is_string(item))
            return error_spec(err, "languages", "%s: '%s' must be an array of strings", source, key);
        if (string_list_add(into, json_string_value(item)) < 0)
            return error_host(err, -ENOMEM, "cannot load the languages");
    }
    return 0;
}

static int read_environment(const json_t *object, struct string_list *into, const char *source,
                            struct error *err)
{
    const char *name;
    json_t *value;
    json_object_foreach(json_object_get(object, "environment"), name, value)
    {
        if (!json_is_string(value) || !text_is_environment_name(name, strlen(name)))
            return error_spec(err, "languages", "%s: 'environment' must be an object of NAME: string",
                              source);
        if (string_list_print(into, "%s=%s", name, json_string_value(value)) < 0)
            return error_host(err, -ENOMEM, "cannot load the languages");
    }
    return 0;
}

static int read_step(const json_t *object, struct language_step *step, const char *source, struct error *err)
{
    int status = read_list(object, "find", &step->find, source, err);
    if (status == 0)
        status = read_list(object, "run", &step->run, source, err);
    if (status == 0)
        status = read_environment(object, &step->environment, source, err);
    if (status == 0 && step->run.count == 0)
        status = error_spec(err, "languages", "%s: a row without 'run'", source);
    return status;
}

static char *read_text(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? strdup(text) : NULL;
}

static int refuse_unknown_keys(const json_t *object, const char *const *known, const char *source,
                               struct error *err)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)object, key, value)
    {
        bool is_known = false, is_text = false;
        for (size_t i = 0; known[i]; i++)
            is_known |= strcmp(known[i], key) == 0;
        static const char *const texts[] = {"name", "file", "missing", "artifact"};
        for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
            is_text |= strcmp(texts[i], key) == 0;
        if (!is_known)
            return error_spec(err, "languages", "%s: '%.64s' is not a field of a language", source, key);
        if (is_text && !json_is_string(value))
            return error_spec(err, "languages", "%s: '%s' must be a string", source, key);
        if ((strcmp(key, "environment") == 0 || strcmp(key, "compile") == 0 || strcmp(key, "context") == 0) &&
            !json_is_object(value))
            return error_spec(err, "languages", "%s: '%s' must be an object", source, key);
    }
    return 0;
}

/* The runner of a context is started in the same surroundings as code. */
static int read_context(const json_t *object, struct language *row, const char *source, struct error *err)
{
    static const char *const context_keys[] = {"file", "run", NULL};
    const json_t *context = json_object_get(object, "context");
    if (!context)
        return 0;
    int status = refuse_unknown_keys(context, context_keys, source, err);
    if (status < 0)
        return status;
    row->context_file = read_text(context, "file");
    if (!row->context_file || !text_is_plain_name(row->context_file))
        return error_spec(err, "languages", "%s: '%s': 'context' needs a plain 'file' name", source,
                          row->name);
    status = read_step(context, &row->context, source, err);
    return status < 0 ? status : read_environment(object, &row->context.environment, source, err);
}

/* Compiled modules are mapped as they are: only those that set-up has put in their own directory. */
static bool is_module_of_setup(const char *path)
{
    static const char *const places[] = {"/usr/local/lib/cloche/wasm/", "/usr/lib/cloche/wasm/"};
    bool is_there = false;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        is_there |=
            strncmp(path, places[i], strlen(places[i])) == 0 && text_is_plain_name(path + strlen(places[i]));
    return is_there;
}

/* After the rest of the row, of which not all goes with it. */
static int read_engine(const json_t *object, struct language *row, const char *source, struct error *err)
{
    const json_t *engine = json_object_get(object, "engine");
    if (!engine)
        return 0;
    if (!json_is_string(engine) || strcmp(json_string_value(engine), "wasm") != 0)
        return error_spec(err, "languages", "%s: '%s': 'engine' is wasm, or not given", source, row->name);
    static const char *const others[] = {"compile", "context", "probe"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (json_object_get(object, others[i]))
            return error_spec(err, "languages", "%s: '%s': the engine wasm has no '%s'", source, row->name,
                              others[i]);
    bool is_right = row->run.find.count > 0 && strcmp(row->run.run.items[0], "{code}") != 0;
    for (size_t i = 0; i < row->run.find.count; i++)
        is_right &= is_module_of_setup(row->run.find.items[i]);
    row->is_wasm = true;
    return is_right ? 0
                    : error_spec(err, "languages",
                                 "%s: '%s': a language of the engine wasm finds its module in "
                                 "/usr/local/lib/cloche/wasm or /usr/lib/cloche/wasm",
                                 source, row->name);
}

static int read_row(const json_t *object, struct language *row, const char *source, struct error *err)
{
    static const char *const row_keys[] = {"name",    "extensions",  "find",    "file",    "run",    "probe",
                                           "compile", "environment", "missing", "context", "engine", NULL};
    static const char *const compile_keys[] = {"find", "run", "environment", "artifact", NULL};
    int status = refuse_unknown_keys(object, row_keys, source, err);
    if (status < 0)
        return status;
    row->name = read_text(object, "name");
    row->file = read_text(object, "file");
    row->missing = read_text(object, "missing");
    if (!row->name || !row->file || strchr(row->file, '/') || !text_is_plain_name(row->file))
        return error_spec(err, "languages", "%s: a row needs a 'name' and a plain 'file' name", source);
    status = read_list(object, "extensions", &row->extensions, source, err);
    if (status == 0)
        status = read_list(object, "probe", &row->probe, source, err);
    if (status == 0)
        status = read_step(object, &row->run, source, err);
    if (status == 0)
        status = read_context(object, row, source, err);
    if (status == 0)
        status = read_engine(object, row, source, err);
    const json_t *compile = json_object_get(object, "compile");
    if (status < 0 || !compile)
        return status;
    status = refuse_unknown_keys(compile, compile_keys, source, err);
    if (status < 0)
        return status;
    row->has_compile = true;
    row->artifact = read_text(compile, "artifact");
    if (!row->artifact || !text_is_plain_name(row->artifact))
        return error_spec(err, "languages", "%s: '%s': 'compile' needs a plain 'artifact' name", source,
                          row->name);
    return read_step(compile, &row->compile, source, err);
}

static int make_room(struct language_table *table, size_t more, struct error *err)
{
    struct language *rows = realloc(table->rows, (table->count + more + 1) * sizeof *rows);
    if (!rows)
        return error_host(err, -ENOMEM, "cannot load the languages");
    table->rows = rows;
    return 0;
}

static int add_builtin(struct language_table *table, struct error *err)
{
    enum { COUNT = sizeof builtin_languages / sizeof *builtin_languages };
    int status = make_room(table, COUNT, err);
    if (status < 0)
        return status;
    memcpy(table->rows + table->count, builtin_languages, sizeof builtin_languages);
    table->count += COUNT;
    return 0;
}

static int read_table(const char *text, size_t length, const char *source, struct language_table *table,
                      struct error *err)
{
    json_error_t where;
    json_t *root = json_loadb(text, length, JSON_REJECT_DUPLICATES, &where);
    if (!root)
        return error_spec(err, "languages", "%s:%d:%d: %s", source, where.line, where.column, where.text);
    if (json_is_object(root)) { /* one row may stand alone */
        json_t *list = json_array();
        json_array_append_new(list, root);
        root = list;
    }
    size_t count = json_array_size(root);
    int status = make_room(table, count, err);
    for (size_t i = 0; status == 0 && i < count; i++) {
        struct language *row = &table->rows[table->count++];
        *row = (struct language){0};
        table->owned = table->count;
        status = read_row(json_array_get(root, i), row, source, err);
    }
    json_decref(root);
    return status;
}

int language_table_load(const struct string_list *files, struct language_table *ret, struct error *err)
{
    *ret = (struct language_table){0};
    int status = 0;
    for (size_t i = files->count; status == 0 && i-- > 0;) {
        scope_buffer text = {0};
        status = file_read_whole(AT_FDCWD, files->items[i], 1 << 20, &text);
        if (status < 0)
            status = error_spec(err, "languages", "languages: cannot read %s: %s", files->items[i],
                                strerror(-status));
        else
            status = read_table(text.data, text.length, files->items[i], ret, err);
    }
    if (status == 0)
        status = add_builtin(ret, err);
    if (status < 0)
        language_table_free(ret);
    return status;
}

const char *language_by_extension(const struct language_table *table, const char *file_name)
{
    const char *dot = strrchr(file_name, '.');
    for (size_t i = 0; dot && i < table->count; i++)
        for (size_t j = 0; j < table->rows[i].extensions.count; j++)
            if (strcmp(dot + 1, table->rows[i].extensions.items[j]) == 0)
                return table->rows[i].name;
    return NULL;
}

const struct language *language_named(const struct language_table *table, const char *name)
{
    for (size_t i = 0; i < table->count; i++)
        if (strcmp(table->rows[i].name, name) == 0)
            return &table->rows[i];
    return NULL;
}

/* Is it this program, whatever its version ("python3.11" for "python3")? */
static bool is_program(const char *path, const char *name, size_t length)
{
    const char *slash = strrchr(path, '/'), *own = slash ? slash + 1 : path;
    size_t own_length = strcspn(own, "0123456789"), given_length = strcspn(name, "0123456789 ");
    given_length = given_length < length ? given_length : length;
    return given_length > 0 && own_length == given_length && strncmp(own, name, own_length) == 0;
}

static const char *language_by_first_line(const struct language_table *table, const struct buffer *code)
{
    char line[128];
    size_t length = code->length < sizeof line - 1 ? code->length : sizeof line - 1;
    if (length < 3 || strncmp(code->data, "#!", 2) != 0)
        return NULL;
    memcpy(line, code->data, length);
    line[length] = '\0';
    line[strcspn(line, "\r\n")] = '\0';
    char *rest = line + 2, *word = strsep(&rest, " \t");
    while (word && (!*word || is_program(word, "env", 3) || word[0] == '-'))
        word = strsep(&rest, " \t");
    if (!word)
        return NULL;
    const char *slash = strrchr(word, '/'), *name = slash ? slash + 1 : word;
    for (size_t i = 0; i < table->count; i++)
        for (size_t j = 0; j < table->rows[i].run.find.count; j++)
            if (is_program(table->rows[i].run.find.items[j], name, strlen(name)))
                return table->rows[i].name;
    char as_file[sizeof line + 1];
    snprintf(as_file, sizeof as_file, ".%s", name); /* sh is no program of a row, but an extension */
    return language_by_extension(table, as_file);
}

const char *language_of_spec(const struct language_table *table, const struct spec *spec)
{
    if (spec->language && !language_named(table, spec->language)) {
        char as_file[64];
        snprintf(as_file, sizeof as_file, ".%s", spec->language);
        const char *name = strchr(spec->language, '.') ? NULL : language_by_extension(table, as_file);
        return name ? name : spec->language;
    }
    if (spec->language || !spec->code_name)
        return spec->language ? spec->language : "python";
    const char *name = language_by_extension(table, spec->code_name);
    return name ? name : language_by_first_line(table, &spec->code);
}

const char *language_code_name(const struct language_table *table, const struct language *language,
                               const char *own)
{
    enum { LONGEST = 128 };
    if (!own || own[0] == '.' || strlen(own) > LONGEST || !text_is_file_name(own, strlen(own)))
        return language->file;
    const char *name = language_by_extension(table, own);
    return name && strcmp(name, language->name) == 0 ? own : language->file;
}

static const char *find_program(const struct string_list *candidates, const struct image *image)
{
    for (size_t i = 0; i < candidates->count; i++)
        if (image_has_program(image, candidates->items[i]))
            return candidates->items[i];
    return NULL;
}

static bool is_wanted(const struct language *row, const struct language_wanted *wanted)
{
    return strcmp(row->name, wanted->name) == 0 && row->is_wasm == wanted->is_wasm;
}

int language_find(const struct language_table *table, const struct language_wanted *wanted, size_t from,
                  const char **ret_runtime, const char **ret_compiler)
{
    for (size_t i = from; i < table->count; i++) {
        const struct language *row = &table->rows[i];
        if (!is_wanted(row, wanted))
            continue;
        *ret_runtime = find_program(&row->run.find, wanted->image);
        *ret_compiler = find_program(&row->compile.find, wanted->image);
        if ((!row->run.find.count || *ret_runtime) && (!row->compile.find.count || *ret_compiler))
            return (int)i;
    }
    return -1;
}

static int list_names(const struct language_table *table, bool only_wasm, struct buffer *into)
{
    int status = 0;
    for (size_t i = 0; status == 0 && i < table->count; i++) {
        bool is_left_out = only_wasm && !table->rows[i].is_wasm;
        for (size_t j = 0; j < i; j++)
            is_left_out |= strcmp(table->rows[i].name, table->rows[j].name) == 0 &&
                           (!only_wasm || table->rows[j].is_wasm);
        if (!is_left_out)
            status = buffer_print(into, "%s%s", into->length ? ", " : "", table->rows[i].name);
    }
    return status;
}

int language_names(const struct language_table *table, struct buffer *into)
{
    return list_names(table, false, into);
}

int language_explain_missing(const struct language_table *table, const struct language_wanted *wanted,
                             struct error *err)
{
    const char *name = wanted->name;
    for (size_t i = 0; i < table->count; i++)
        if (is_wanted(&table->rows[i], wanted))
            return error_spec(err, "language", "language: image '%s' has no %s%s; %s", wanted->image->name,
                              name, wanted->is_wasm ? " for the engine wasm" : "",
                              table->rows[i].missing ? table->rows[i].missing : "install it in the image");
    scope_buffer names = {0};
    if (language_named(table, name) && !wanted->is_wasm)
        return error_spec(err, "language", "language: %s: only the engine wasm has it: use --isolation wasm",
                          name);
    list_names(table, language_named(table, name), &names);
    if (language_named(table, name))
        return error_spec(err, "language", "language: %s: there is none for the engine wasm, which has: %s",
                          name, names.data ? names.data : "");
    return error_spec(err, "language",
                      "language: there is no '%.64s'; there are: %s. More can be added with "
                      "`languages = FILE` in the configuration",
                      name, names.data ? names.data : "");
}
