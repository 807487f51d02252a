/* A caller of the library that makes many runs in one process: what does a run leave in its caller?
 *
 *     many ENGINE       prints one line for each kind of leak; nothing else and exit 0 when there is none */
#define _GNU_SOURCE
#include <cloche/cloche.h>
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static int count_descriptors(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int count = 0;
    while (dir && readdir(dir))
        count++;
    if (dir)
        closedir(dir);
    return count;
}

static long resident_kilobytes(void)
{
    long pages = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    if (!file || fscanf(file, "%ld %ld", &pages, &resident) != 2)
        resident = -1;
    if (file)
        fclose(file);
    return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

/* 0 when the run came to a result, whatever it is; the text of the error otherwise. */
static int run(const char *engine, const char *command, char *ret_text, size_t size)
{
    struct cloche_error err = {0};
    struct cloche_result *result = NULL;
    struct cloche_spec *spec = cloche_spec_new();
    int status = spec ? 0 : -ENOMEM;
    if (status == 0)
        status = cloche_spec_set(spec, "isolation", engine, &err);
    if (status == 0)
        status = cloche_spec_set(spec, "command", command, &err);
    static const char *const given_up[] = {"memory", "cpus"}; /* by an ordinary user, who has no groups */
    for (int i = 0; status == 0 && getuid() != 0 && strcmp(engine, "container") == 0 && i < 2; i++)
        status = cloche_spec_set(spec, "accept", given_up[i], &err);
    if (status == 0)
        status = cloche_run(spec, NULL, &result, &err);
    if (ret_text)
        snprintf(ret_text, size, "%s", status < 0 ? err.text : cloche_result_cause(result));
    cloche_result_free(result);
    cloche_spec_free(spec);
    return status;
}

static int failures;

static void expect(bool right, const char *what, long before, long after)
{
    if (right)
        return;
    printf("%s: %ld before, %ld after\n", what, before, after);
    failures++;
}

static void many_runs(const char *engine)
{
    char text[1024];
    for (int i = 0; i < 10; i++)
        run(engine, "/bin/true", NULL, 0);
    int descriptors = count_descriptors();
    long resident = resident_kilobytes();
    for (int i = 0; i < 60; i++) {
        const char *command = i % 3 ? "/bin/true" : i % 2 ? "/nonexistent/program" : "/etc/debian_version";
        int status = run(engine, command, text, sizeof text);
        if ((status == 0) != (i % 3 != 0)) {
            printf("run %d of %s: %d %s\n", i, command, status, text);
            failures++;
        }
    }
    expect(count_descriptors() == descriptors, "open descriptors", descriptors, count_descriptors());
    expect(resident_kilobytes() < resident + 2048, "resident kilobytes", resident, resident_kilobytes());
    pid_t child = waitpid(-1, NULL, WNOHANG);
    expect(child < 0 && errno == ECHILD, "children", 0, child);
}

/* Every path on which a descriptor cannot be had gives back those that were had before. */
static void runs_with_few_descriptors(const char *engine)
{
    struct rlimit former;
    getrlimit(RLIMIT_NOFILE, &former);
    for (rlim_t limit = 3; limit < 45; limit++) {
        struct rlimit few = {limit, former.rlim_max};
        int before = count_descriptors();
        setrlimit(RLIMIT_NOFILE, &few);
        run(engine, "/bin/true", NULL, 0);
        setrlimit(RLIMIT_NOFILE, &former);
        char what[64];
        snprintf(what, sizeof what, "descriptors at a limit of %d", (int)limit);
        expect(count_descriptors() == before, what, before, count_descriptors());
        expect(waitpid(-1, NULL, WNOHANG) < 0, "children at few descriptors", 0, 1);
    }
}

static void state_of_the_caller(const char *engine)
{
    sigset_t before, after;
    sigemptyset(&before);
    sigaddset(&before, SIGUSR1);
    sigprocmask(SIG_SETMASK, &before, NULL);
    int subreaper = 0;
    run(engine, "/bin/true", NULL, 0);
    sigprocmask(SIG_SETMASK, NULL, &after);
    for (int number = 1; number < 32; number++)
        expect(sigismember(&before, number) == sigismember(&after, number), "signal mask", number, number);
    struct sigaction pipe_action;
    sigaction(SIGPIPE, NULL, &pipe_action);
    expect(pipe_action.sa_handler == SIG_DFL, "SIGPIPE of the caller was changed", 0, 1);
    prctl(PR_GET_CHILD_SUBREAPER, &subreaper, 0, 0, 0);
    /* The header says that the process engine makes its caller a subreaper. */
    expect(!subreaper || strcmp(engine, "process") == 0, "the caller was made a subreaper", 0, subreaper);
}

static void *thread_main(void *engine)
{
    char text[1024];
    long wrong = 0;
    for (int i = 0; i < 36; i++)
        if (run(engine, i % 4 ? "/bin/true" : "/nonexistent/program", text, sizeof text) !=
                (i % 4 ? 0 : -EINVAL) ||
            (i % 4 && strcmp(text, "exit") != 0)) {
            fprintf(stderr, "in a thread: %s\n", text);
            wrong++;
        }
    return (void *)wrong;
}

/* "Safe to call from several threads at once." */
static void runs_in_threads(const char *engine)
{
    enum { THREADS = 6 };
    pthread_t threads[THREADS];
    int descriptors = count_descriptors();
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, thread_main, (void *)(uintptr_t)engine) != 0)
            abort();
    for (int i = 0; i < THREADS; i++) {
        void *wrong;
        pthread_join(threads[i], &wrong);
        expect(!wrong, "wrong results in a thread", 0, (long)wrong);
    }
    expect(count_descriptors() == descriptors, "descriptors after threads", descriptors, count_descriptors());
}

int main(int argc, char **argv)
{
    const char *engine = argc > 1 ? argv[1] : "container";
    many_runs(engine);
    runs_with_few_descriptors(engine);
    state_of_the_caller(engine);
    runs_in_threads(engine);
    return failures ? 1 : 0;
}
