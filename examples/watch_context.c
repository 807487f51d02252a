/* A context that is watched while it works: what it uses, how it came to its end, and the files that it left.
 *
 *   cc watch_context.c $(pkg-config --cflags --libs cloche) && ./a.out results */
#include <cloche/cloche.h>

#include <stdio.h>
#include <string.h>

static void watch(void *data, const struct cloche_usage *usage)
{
    int *seen = data;
    if ((*seen)++ == 0)
        printf("run %d of %d: %.0f %% %s, %s\n", usage->runs, usage->runs_max, usage->fraction * 100,
               usage->text,
               usage->memory_bytes > 0 && usage->elapsed_us < usage->wall_limit_us ? "within its limits"
                                                                                   : "?");
}

static int run(struct cloche_context *context, const char *code, struct cloche_error *err)
{
    struct cloche_outcome outcome;
    int status = cloche_context_run(context, code, strlen(code), NULL, NULL, NULL, &outcome, err);
    const struct cloche_result *result = cloche_context_result(context);
    if (result)
        printf("it died: %s, signal %d, peak %s\n", cloche_result_cause(result), cloche_result_signal(result),
               cloche_result_peak_memory_bytes(result) > 0 ? "known" : "unknown");
    return status;
}

int main(int argc, char **argv)
{
    int seen = 0;
    struct cloche_error err = {0};
    struct cloche_context *context = NULL;
    const struct cloche_context_options options = {.watch = watch, .data = &seen};
    int status = cloche_context_open(cloche_spec_new(), &options, &context, &err);
    if (status == 0)
        status = run(context, "import cloche, time; cloche.progress(0.5, 'half'); time.sleep(1)", &err);
    if (status == 0)
        status = run(context, "import os, signal; os.kill(os.getpid(), signal.SIGKILL)", &err);
    if (status == 0)
        status = cloche_context_restart(context, &err);
    if (status == 0)
        status = run(context, "open('table.csv', 'w').write('1,2')", &err);
    if (status == 0)
        status = cloche_context_finish(context, argc > 1 ? argv[1] : "results", &err);
    if (status == 0)
        printf("%s: %s\n", cloche_result_detail(cloche_context_result(context)),
               cloche_result_file_path(cloche_context_result(context), 0));
    if (status < 0)
        fprintf(stderr, "%s\n", err.text);
    cloche_context_close(context);
    return status < 0;
}
