/* cloche-server: HTTP in front of the keeper. Started by `cloche serve` only, see keeper/front.h. */
#include "base/clock.h"
#include "base/file.h"
#include "base/scope.h"
#include "keeper/door.h"
#include "keeper/front.h"
#include "server/admission.h"
#include "server/audit.h"
#include "server/confine.h"
#include "server/dispatch.h"
#include "server/journal.h"
#include "server/keeper_link.h"
#include "server/run_room.h"
#include "server/sandbox_files.h"
#include "server/sandbox_gate.h"
#include "server/sandbox_journal.h"
#include "server/server.h"
#include "server/store.h"
#include "server/strangers.h"
#include "server/tenant.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>

enum {
    DRAIN_MS = 10000,
    TOLL_MS = 1000,
    SWEEP_TOLLS = 60, /* a sweep after so many */
    ARENAS = 4,
    FILE_MAX = 1 << 20,
};

static bool is_open(int fd)
{
    return fcntl(fd, F_GETFD) >= 0;
}

static int name_policy(struct server *server, const char *name)
{
    snprintf(server->policy.source, sizeof server->policy.source, "%s", name);
    return 0;
}

/* The keeper's copy is there already; only its name is the file's. */
static int load_policy(struct server *server, const char *name, struct error *err)
{
    char path[32];
    snprintf(path, sizeof path, "/proc/self/fd/%d", FRONT_CONFIG);
    if (!is_open(FRONT_CONFIG))
        return policy_load("/dev/null", &server->policy, err) < 0 ? -EIO : name_policy(server, "built-in");
    int status = policy_load(path, &server->policy, err);
    close(FRONT_CONFIG);
    return status < 0 ? status : name_policy(server, name);
}

static int read_descriptor(int fd, struct buffer *ret)
{
    char path[32];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    int status = file_read_whole(AT_FDCWD, path, FILE_MAX, ret);
    close(fd);
    return status;
}

static void allow_descriptors(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit); /* if not: fewer connections */
    }
}

/* Who may ask, what is under way, what was done; what a server before us could not finish is given its end.
 */
static int open_books(struct server *server, struct error *err)
{
    int lost_requests = 0, lost_runs = 0;
    int status = tenants_open(server->data_fd, server->may_be_single, &server->tenants, err);
    if (status == 0)
        status = journal_open(server->data_fd, &server->journal, &lost_requests, err);
    if (status == 0)
        status = audit_open(server->data_fd, &server->audit, &lost_runs, err);
    server->admission = admission_new(&server->policy.server);
    if (status == 0 && !server->admission)
        status = error_host(err, -ENOMEM, "cannot start");
    if (lost_requests || lost_runs)
        fprintf(
            stderr,
            "cloche-server: %d runs and %d requests with an Idempotency-Key were under way when the server "
            "before ended: recorded as host_failure\n",
            lost_runs, lost_requests);
    return status;
}

static int serve(struct server *server, struct error *err)
{
    scope_buffer certificate = {0}, key = {0};
    int status = 0;
    if (is_open(FRONT_CERTIFICATE)) {
        status = read_descriptor(FRONT_CERTIFICATE, &certificate);
        if (status == 0)
            status = read_descriptor(FRONT_KEY, &key);
        server->is_secure = true;
    }
    if (status == 0)
        status = open_books(server, err);
    if (status == 0)
        status = sandbox_journal_open(server, err);
    sandbox_files_clear(server);
    if (status == 0)
        status = store_open(server->data_fd, &server->store, err);
    if (status < 0)
        return err->kind ? status : error_host(err, status, "cannot read what the keeper gave");
    server->memory_fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    status = confine_self(server->data_fd, server->pyodide_fd, err);
    if (status < 0)
        return status;
    run_rooms_sweep(server, true);
    status = dispatch_start(server, certificate.data, key.data);
    if (status < 0)
        return error_host(err, status, "cannot serve%s",
                          certificate.data ? ": are certificate and key in PEM format?" : "");
    status = door_say(server->door_fd, DOOR_READY, -1);
    /* All else is done by the connections' threads. */
    enum door_word word = DOOR_READY;
    int fd = -1, tolls = 0;
    while (status == 0 && word != DOOR_STOP) {
        struct pollfd door = {.fd = server->door_fd, .events = POLLIN};
        if (poll(&door, 1, TOLL_MS) == 0) {
            sandbox_gate_toll(server);
            strangers_sweep();
            if (++tolls % SWEEP_TOLLS == 0) {
                store_sweep(server->store, time(NULL));
                run_rooms_sweep(server, false);
            }
            continue;
        }
        status = door_hear(server->door_fd, &word, &fd);
        scope_close_fd(&fd);
    }
    if (status == 0)
        dispatch_stop(server, DRAIN_MS);
    return 0; /* without the keeper there is nothing to finish */
}

int main(int argc, char **argv)
{
    static struct server server;
    struct error err = {0};
    if (argc != 3 || !is_open(FRONT_LISTEN) || !is_open(FRONT_DOOR) || !is_open(FRONT_DATA)) {
        fprintf(stderr, "cloche-server: started by `cloche serve`, not by hand\n");
        return 1;
    }
    signal(SIGPIPE, SIG_IGN);
    umask(022); /* modes are what they are asked to be: the data directory itself is closed */
    mallopt(M_ARENA_MAX, ARENAS); /* or there would be one for each of very many threads */
    allow_descriptors();
    server = (struct server){.listen_fd = FRONT_LISTEN,
                             .door_fd = FRONT_DOOR,
                             .data_fd = FRONT_DATA,
                             .pyodide_fd = is_open(FRONT_PYODIDE) ? FRONT_PYODIDE : -1,
                             .is_local = strcmp(argv[1], FRONT_PUBLIC) != 0,
                             .may_be_single = strcmp(argv[1], FRONT_SINGLE_USER) == 0,
                             .links_lock = PTHREAD_MUTEX_INITIALIZER,
                             .started_us = clock_monotonic_us()};
    for (int fd = FRONT_LISTEN; fd < FRONT_DESCRIPTORS_END; fd++)
        fcntl(fd, F_SETFD, FD_CLOEXEC);
    int status = load_policy(&server, argv[2], &err);
    if (status == 0)
        status = serve(&server, &err);
    if (status < 0)
        fprintf(stderr, "cloche-server: %s\n", err.text);
    _exit(status < 0 ? 1 : 0); /* threads of connections may be anywhere: nothing is torn down under them */
}
