/* Runs a line of Python in a box and says how it ended.
 *   cc run_code.c $(pkg-config --cflags --libs cloche) -o run_code */
#include <cloche/cloche.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    struct cloche_error err;
    struct cloche_result *result = NULL;
    struct cloche_spec *spec = cloche_spec_new();
    if (!spec || cloche_spec_set(spec, "language", "python", &err) < 0 ||
        cloche_spec_set(spec, "code", argc > 1 ? argv[1] : "print(6 * 7)", &err) < 0 ||
        cloche_spec_set(spec, "memory", "256M", &err) < 0 || cloche_spec_set(spec, "wall", "10s", &err) < 0 ||
        cloche_run(spec, NULL, &result, &err) < 0) {
        fprintf(stderr, "run_code: %s\n", spec ? err.text : "no memory");
        cloche_spec_free(spec);
        return 1;
    }
    printf("stdout: %s", cloche_result_stdout(result, NULL));
    printf("stderr: %s\n", cloche_result_stderr(result, NULL));
    printf("cause:  %s (exit code %d)\n", cloche_result_cause(result), cloche_result_exit_code(result));
    cloche_result_free(result);
    cloche_spec_free(spec);
    return 0;
}
