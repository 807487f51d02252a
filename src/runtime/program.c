#include "runtime/program.h"

#include "os/hardening.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *box_path(const struct box *box, const char *which, char *into, size_t size)
{
    return box->engine->path_of(box, which, into, size);
}

/* Replaces {names} in a row's string. */
static int expand(const struct box *box, const struct program_paths *paths, const char *text,
                  struct buffer *into)
{
    char place[PATH_MAX];
    int status = 0;
    while (status == 0 && *text) {
        size_t plain = strcspn(text, "{");
        status = buffer_append(into, text, plain);
        text += plain;
        const char *end = *text ? strchr(text, '}') : NULL;
        if (status < 0 || !*text)
            break;
        size_t length = end ? (size_t)(end - text - 1) : 0;
        char name[16] = "";
        if (end && length < sizeof name)
            snprintf(name, sizeof name, "%.*s", (int)length, text + 1);
        static const char *const places[] = {"tmp", "home", "output", "input"};
        const char *value = NULL;
        for (size_t i = 0; i < sizeof places / sizeof *places; i++)
            if (strcmp(name, places[i]) == 0)
                value = box_path(box, name, place, sizeof place);
        if (strcmp(name, "runtime") == 0)
            value = paths->runtime;
        else if (strcmp(name, "compiler") == 0)
            value = paths->compiler;
        else if (strcmp(name, "cpus") == 0) {
            long long cpus = (box->limits->value[LIMIT_cpus] + 999) / 1000;
            snprintf(place, sizeof place, "%lld", cpus);
            value = place;
        } else if ((strcmp(name, "code") == 0 && paths->code_name) ||
                   (strcmp(name, "artifact") == 0 && paths->artifact)) {
            bool is_code = name[0] == 'c';
            status =
                buffer_append_text(into, box_path(box, is_code ? "code" : "output", place, sizeof place));
            if (status == 0)
                status = buffer_print(into, "/%s", is_code ? paths->code_name : paths->artifact);
            text = end + 1;
            continue;
        }
        if (!value) { /* not one of ours: a brace of the language's own */
            status = buffer_append(into, text, 1);
            text++;
            continue;
        }
        status = buffer_append_text(into, value);
        text = end + 1;
    }
    return status < 0 ? status : into->data ? 0 : buffer_append(into, "", 0);
}

static int set_variable(struct string_list *environment, const char *pair)
{
    size_t name_length = strcspn(pair, "=") + 1;
    for (size_t i = 0; i < environment->count; i++) {
        if (strncmp(environment->items[i], pair, name_length) != 0)
            continue;
        char *copy = strdup(pair);
        if (!copy)
            return -ENOMEM;
        free(environment->items[i]);
        environment->items[i] = copy;
        return 0;
    }
    return string_list_add(environment, pair);
}

static int set_variables(struct string_list *environment, const struct string_list *pairs)
{
    int status = 0;
    for (size_t i = 0; status == 0 && i < pairs->count; i++)
        status = set_variable(environment, pairs->items[i]);
    return status;
}

/* Nothing of the caller's environment goes in: what is not declared is not there. */
static int fill_environment(const struct box *box, struct string_list *into)
{
    static const struct {
        const char *name, *place;
    } places[] = {
        {"HOME", "home"}, {"TMPDIR", "tmp"}, {"CLOCHE_INPUT", "input"}, {"CLOCHE_OUTPUT", "output"}};
    char path[PATH_MAX];
    int status = string_list_add(into, "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
    if (status == 0)
        status = string_list_add(into, "USER=user");
    if (status == 0)
        status = string_list_add(into, "LANG=C.UTF-8");
    for (size_t i = 0; status == 0 && i < sizeof places / sizeof *places; i++)
        status = string_list_print(into, "%s=%s", places[i].name,
                                   box_path(box, places[i].place, path, sizeof path));
    if (status == 0)
        status = set_variables(into, &box->image->environment);
    extern char **environ;
    for (char **pair = environ; hardening_removed(clean_environment) && status == 0 && *pair; pair++)
        status = set_variable(into, *pair);
    return status;
}

static int fill_working_directory(const struct box *box, struct program *program, const char *wish)
{
    char path[PATH_MAX];
    if (box->spec->working_directory)
        wish = box->spec->working_directory;
    program->working_directory = strdup(wish ? wish : box_path(box, "output", path, sizeof path));
    return program->working_directory ? 0 : -ENOMEM;
}

int program_from_language(const struct box *box, const struct language_step *step,
                          const struct program_paths *paths, const struct string_list *arguments,
                          struct program *ret, struct error *err)
{
    *ret = (struct program){0};
    int status = 0;
    for (size_t i = 0; status == 0 && i < step->run.count; i++) {
        scope_buffer text = {0};
        status = expand(box, paths, step->run.items[i], &text);
        if (status == 0)
            status = string_list_add(&ret->arguments, text.data);
    }
    if (status == 0 && arguments)
        status = string_list_copy(&ret->arguments, arguments);
    if (status == 0)
        status = fill_environment(box, &ret->environment);
    for (size_t i = 0; status == 0 && i < step->environment.count; i++) {
        scope_buffer text = {0};
        status = expand(box, paths, step->environment.items[i], &text);
        if (status == 0)
            status = set_variable(&ret->environment, text.data);
    }
    if (status == 0)
        status = set_variables(&ret->environment, &box->spec->environment);
    if (status == 0)
        status = fill_working_directory(box, ret, NULL);
    if (status == 0 && paths->code_name && !(ret->code_name = strdup(paths->code_name)))
        status = -ENOMEM;
    ret->runtime = strcmp(step->run.items[0], "{code}") == 0 ? NULL : paths->runtime;
    if (status < 0)
        program_free(ret);
    return status < 0 ? error_host(err, status, "cannot prepare the program") : 0;
}

/* The directory that the caller stands in is the natural one for a wrapped command, if the box can see it. */
static bool is_granted(const struct spec *spec, const char *directory)
{
    for (size_t i = 0; i < spec->grant_count; i++) {
        const char *path = spec->grants[i].host_path;
        size_t length = strlen(path);
        if (spec->grants[i].kind != GRANT_INPUT && strncmp(directory, path, length) == 0 &&
            (!directory[length] || directory[length] == '/'))
            return true;
        /* Standing above a granted directory: the box has the path to it, so relative names still work. */
        size_t own = strlen(directory);
        if (spec->grants[i].kind != GRANT_INPUT && strncmp(path, directory, own) == 0 && path[own] == '/')
            return true;
    }
    return false;
}

static char *search_path(const struct box *box, const char *name)
{
    static const char *const directories[] = {"/usr/local/sbin", "/usr/local/bin", "/usr/sbin",
                                              "/usr/bin",        "/sbin",          "/bin"};
    for (size_t i = 0; i < sizeof directories / sizeof *directories; i++) {
        char *path = NULL;
        if (asprintf(&path, "%s/%s", directories[i], name) < 0)
            return NULL;
        if (image_has_program(box->image, path))
            return path;
        free(path);
    }
    return NULL;
}

/* A name without a slash is looked for in the image. */
static int fill_arguments(const struct box *box, const struct string_list *command, struct program *into,
                          struct error *err)
{
    const char *name = command->items[0];
    int status = string_list_copy(&into->arguments, command);
    if (status < 0 || strchr(name, '/'))
        return status < 0 ? error_host(err, status, "cannot prepare the command") : 0;
    char *found = search_path(box, name);
    if (!found)
        return error_spec(err, "command",
                          "command: '%.128s' is not in image '%s' (looked in the usual places of PATH)", name,
                          box->image->name);
    free(into->arguments.items[0]);
    into->arguments.items[0] = found;
    return 0;
}

static int fill_from_command(const struct box *box, const struct string_list *command,
                             const struct string_list *environment, struct program *into, struct error *err)
{
    *into = (struct program){0};
    int status = fill_arguments(box, command, into, err);
    if (status < 0)
        return status;
    status = fill_environment(box, &into->environment);
    if (status == 0)
        status = set_variables(&into->environment, &box->spec->environment);
    if (status == 0 && environment)
        status = set_variables(&into->environment, environment);
    return status < 0 ? error_host(err, status, "cannot prepare the command") : 0;
}

static int finish(int status, struct program *program)
{
    if (status < 0)
        program_free(program);
    return status;
}

int program_from_command(const struct box *box, struct program *ret, struct error *err)
{
    char here[PATH_MAX];
    bool granted = getcwd(here, sizeof here) && is_granted(box->spec, here);
    int status = fill_from_command(box, &box->spec->command, NULL, ret, err);
    if (status == 0 && fill_working_directory(box, ret, granted ? here : NULL) < 0)
        status = error_host(err, -ENOMEM, "cannot prepare the command");
    return finish(status, ret);
}

int program_beside(const struct box *box, const struct string_list *command,
                   const struct string_list *environment, const char *directory, struct program *ret,
                   struct error *err)
{
    int status = fill_from_command(box, command, environment, ret, err);
    char path[PATH_MAX];
    if (status == 0 && !(ret->working_directory =
                             strdup(directory ? directory : box_path(box, "output", path, sizeof path))))
        status = error_host(err, -ENOMEM, "cannot prepare the command");
    return finish(status, ret);
}
