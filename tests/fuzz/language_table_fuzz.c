/* Any bytes as an operator's table of languages, and what its rows would execute. */
#include "fuzz.h"

#include "base/file.h"
#include "base/scope.h"
#include "base/text.h"
#include "runtime/language.h"
#include "runtime/program.h"

#include <string.h>
#include <sys/mman.h>

static const char *path_of(const struct box *box, const char *which, char *into, size_t size)
{
    (void)box;
    snprintf(into, size, "/box/%s", which);
    return into;
}

static const struct engine engine_of_the_test = {
    .isolation = ISOLATION_CONTAINER, .name = "test", .path_of = path_of};

static void check_row(const struct language *row)
{
    check(row->name && row->file && text_is_plain_name(row->file), "a row has a name and a plain file");
    check(row->run.run.count > 0, "a row can be run");
    check(row->has_compile == (row->artifact != NULL), "a compile step has an artifact");
    check(!row->artifact || text_is_plain_name(row->artifact), "artifacts are plain names");
    check(!row->has_compile || row->compile.run.count > 0, "a compile step can be run");
}

static void check_program(const struct language *row, const struct language_step *step)
{
    static struct limits limits;
    char name[] = "test", root[] = "/nonexistent";
    struct image image = {.name = name, .root = root};
    struct box box;
    struct program program;
    struct error err = {0};
    scope_spec *spec = spec_new();
    limits.value[LIMIT_cpus] = 1500;
    box_init(&box);
    box.engine = &engine_of_the_test;
    box.spec = spec;
    box.limits = &limits;
    box.image = &image;
    const struct program_paths paths = {
        .runtime = "/usr/bin/x", .artifact = row->artifact ? row->artifact : "a", .code_name = row->file};
    if (program_from_language(&box, step, &paths, NULL, &program, &err) < 0) {
        check(err.kind != ERROR_NONE, "a failure has a kind");
        return;
    }
    check(program.arguments.count == step->run.count, "every string is an argument");
    for (size_t i = 0; i < program.environment.count; i++)
        check(text_is_environment_name(program.environment.items[i],
                                       strcspn(program.environment.items[i], "=")),
              "variables have names");
    program_free(&program);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    scope_fd fd = memfd_create("languages", MFD_CLOEXEC);
    check(fd >= 0 && file_write_all(fd, data, size) == 0, "the input can be put into a file");
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    scope_string_list files = {0};
    check(string_list_add(&files, path) == 0, "there is memory");
    struct language_table table;
    struct error err = {0};
    if (language_table_load(&files, &table, &err) < 0) {
        check(err.kind == ERROR_SPEC && strstr(err.text, path), "a refusal names the file");
        check(table.rows == NULL, "a refused table is empty");
        return 0;
    }
    char name[] = "test", root[] = "/nonexistent";
    struct image image = {.name = name, .root = root};
    for (size_t i = 0; i < table.count; i++) {
        const char *runtime, *compiler;
        const struct language_wanted wanted = {
            .name = table.rows[i].name, .image = &image, .is_wasm = table.rows[i].is_wasm};
        check_row(&table.rows[i]);
        check_program(&table.rows[i], &table.rows[i].run);
        if (table.rows[i].has_compile)
            check_program(&table.rows[i], &table.rows[i].compile);
        int row = language_find(&table, &wanted, 0, &runtime, &compiler);
        check(row < (int)table.count, "a row that was found is there");
        check(language_explain_missing(&table, &wanted, &err) < 0 && err.text[0], "what is missing is told");
    }
    check(language_by_extension(&table, "a.py") != NULL, "the built-in languages are still there");
    scope_buffer names = {0};
    check(language_names(&table, &names) == 0 && names.length > 0, "there are names");
    language_table_free(&table);
    return 0;
}
