/* One context, two futures: prints what each branch made of the same state.
 *
 *   cc fork_context.c $(pkg-config --cflags --libs cloche) && ./a.out */
#include <cloche/cloche.h>

#include <stdio.h>
#include <string.h>

static void show(void *data, size_t branch, const struct cloche_event *event)
{
    (void)data;
    if (strcmp(event->type, "stdout") == 0)
        printf("branch %zu: %.*s", branch, (int)event->length, event->bytes);
}

int main(void)
{
    struct cloche_context *context;
    struct cloche_error err;
    struct cloche_outcome outcome;
    const char *setup = "numbers = list(range(10))";
    struct cloche_branch branches[] = {{.code = "print(sum(numbers))"},
                                       {.code = "numbers.append(1); print(len(numbers))"}};
    if (cloche_context_open(cloche_spec_new(), NULL, &context, &err) < 0) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    for (size_t i = 0; i < 2; i++)
        branches[i].length = strlen(branches[i].code);
    int status = cloche_context_run(context, setup, strlen(setup), NULL, NULL, NULL, &outcome, &err);
    if (status == 0)
        status = cloche_context_run_branches(context, branches, 2, show, NULL, NULL, NULL, &err);
    if (status < 0)
        fprintf(stderr, "%s\n", err.text);
    cloche_context_close(context);
    return status < 0;
}
