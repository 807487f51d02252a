/* A spec: what is to run, from which image, under which limits and permissions. */
#ifndef CLOCHE_SPEC_H
#define CLOCHE_SPEC_H

#include <cloche/error.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct cloche_spec;

/* A new, empty spec; the caller frees it. NULL without memory. */
struct cloche_spec *cloche_spec_new(void);

/* Frees; accepts NULL. */
void cloche_spec_free(struct cloche_spec *spec);

/* Sets a field by name, or adds to it where it is a list. The fields are those of `cloche run --help`:
 * language, file, code, command, arg, env, image, isolation, input, read, write, output, accept, cwd, stdin,
 * vet, and every limit (memory, cpu, wall, …; compile.memory, … for compile steps). The strings are copied.
 * Returns 0 or a negative errno with *err filled; err may be NULL. */
int cloche_spec_set(struct cloche_spec *spec, const char *field, const char *value, struct cloche_error *err);

/* Code with its length, for code that holds NUL bytes. Copied. */
int cloche_spec_set_code(struct cloche_spec *spec, const void *code, size_t length, struct cloche_error *err);

/* Reads the fields of a JSON object; unknown fields are refused by name. */
int cloche_spec_read_json(struct cloche_spec *spec, const char *json, size_t length,
                          struct cloche_error *err);

/* Copies the program's stdin from this descriptor, which stays the caller's and must live until the run ends.
 */
void cloche_spec_set_stdin_fd(struct cloche_spec *spec, int fd);

#ifdef __cplusplus
}
#endif
#endif
