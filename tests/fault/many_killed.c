/* A caller of the library with boxes in several threads, one of them long, that is killed while others are
 * made. Usage: many_killed ENGINE MILLISECONDS */
#include <cloche/cloche.h>

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const char *engine;

static void *run_again_and_again(void *data)
{
    const char *command = data;
    for (;;) {
        struct cloche_spec *spec = cloche_spec_new();
        struct cloche_result *result = NULL;
        struct cloche_error error = {0};
        char argument[] = "333";
        cloche_spec_set(spec, "isolation", engine, &error);
        cloche_spec_set(spec, "command", command, &error);
        if (command[5] == 's')
            cloche_spec_set(spec, "command", argument, &error);
        cloche_run(spec, NULL, &result, &error);
        cloche_result_free(result);
        cloche_spec_free(spec);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    enum { THREADS = 12 };
    pthread_t thread;
    if (argc != 3)
        return 2;
    engine = argv[1];
    pthread_create(&thread, NULL, run_again_and_again, "/bin/sleep");
    usleep(100000);
    for (int i = 0; i < THREADS; i++)
        pthread_create(&thread, NULL, run_again_and_again, "/bin/true");
    usleep((useconds_t)atoi(argv[2]) * 1000);
    raise(SIGKILL);
}
