#include "keeper/service.h"

#include "base/condition.h"
#include "base/file.h"
#include "base/scope.h"
#include "base/thread.h"
#include "keeper/record_inside.h"
#include "keeper/run_service.h"
#include "keeper/session_service.h"
#include "keeper/wire.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { BACKLOG = 512, CONNECTIONS_MAX = 1024, STACK_BYTES = 512 << 10, ANSWER_MS = 2000 };

struct service {
    struct pool *pool;
    struct session_table *sessions; /* NULL: it keeps none */
    int listen_fd;
    char path[400];
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct connection *connections;
    int connection_count;
};

struct connection {
    struct connection *next;
    struct service *service;
    int fd;
    bool is_inside;   /* given by the server: paths of its choice are refused */
    bool expects_run; /* its next request is most likely one */
};

/* Is there a keeper behind this connection? One that was killed may leave a child for a moment, which holds
 * its socket and answers nobody: the connection breaks when it ends. */
static bool is_answered(int fd)
{
    struct pollfd polled = {.fd = fd, .events = POLLIN};
    char first;
    int ready;
    if (wire_send(fd, json_pack("{s:s, s:s}", "type", "state", "version", CLOCHE_VERSION),
                  (struct slice){"", 0}, NULL, 0) < 0)
        return false;
    do
        ready = poll(&polled, 1, ANSWER_MS);
    while (ready < 0 && errno == EINTR);
    return ready == 0 /* it takes its time */ || recv(fd, &first, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
}

static int listen_at(const char *path, struct error *err)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof address.sun_path)
        return error_host(err, -ENAMETOOLONG, "the state directory's path is too long for a socket: %s",
                          path);
    memcpy(address.sun_path, path, strlen(path) + 1);
    scope_fd fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return error_host(err, -errno, "cannot make a socket");
    if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0 && is_answered(fd))
        return error_host(err, -EADDRINUSE, "a keeper is running already at %s", path);
    unlink(path); /* of one that was killed */
    scope_close_fd(&fd);
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) < 0 || chmod(path, 0600) < 0 ||
        listen(fd, BACKLOG) < 0)
        return error_host(err, -errno, "cannot listen at %s", path);
    return take_fd(&fd);
}

int service_open_inside(struct pool *pool, struct service **ret, struct error *err)
{
    struct service *service = calloc(1, sizeof *service);
    if (!service)
        return error_host(err, -ENOMEM, "no memory for a keeper");
    *service = (struct service){.pool = pool,
                                .listen_fd = -1,
                                .lock = PTHREAD_MUTEX_INITIALIZER,
                                .changed = PTHREAD_COND_INITIALIZER};
    *ret = service;
    return 0;
}

int service_open(struct pool *pool, struct service **ret, struct error *err)
{
    struct service *service = NULL;
    int status = service_open_inside(pool, &service, err);
    if (status < 0)
        return status;
    if (wire_path(service->path,
                  sizeof service->path)) { /* after a start of the machine there is no such directory */
        scope_fd state_fd = record_open_state(err);
        status = state_fd < 0 ? state_fd : 0;
    }
    if (status == 0)
        service->listen_fd = listen_at(service->path, err);
    if (service->listen_fd < 0) {
        status = status < 0 ? status : service->listen_fd;
        free(service);
        return status;
    }
    *ret = service;
    return 0;
}

/* The state directory is its user's alone; this holds where it is not. */
static bool is_own_client(int fd)
{
    struct ucred who;
    socklen_t size = sizeof who;
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) == 0 &&
           (who.uid == geteuid() || who.uid == 0);
}

static json_int_t own_memory_bytes(void)
{
    char text[128];
    long long pages = 0;
    if (file_read_attribute(AT_FDCWD, "/proc/self/statm", text, sizeof text) < 0 ||
        sscanf(text, "%*s %lld", &pages) != 1)
        return 0;
    return pages * sysconf(_SC_PAGESIZE);
}

static json_t *milestones_to_json(const struct milestones *milestones)
{
    json_t *object = json_object();
    for (int i = 0; i < MILESTONE_COUNT; i++) {
        const struct histogram *histogram = &milestones->of[i];
        json_t *counts = json_array();
        for (int k = 0; k < HISTOGRAM_BUCKETS; k++)
            json_array_append_new(counts, json_integer(atomic_load(&histogram->buckets[k])));
        json_object_set_new(
            object, milestone_names[i],
            json_pack("{s:I, s:o}", "sum_us", (json_int_t)atomic_load(&histogram->sum_us), "counts", counts));
    }
    return object;
}

/* One kind of boxes in one house; wasm is in none. */
static json_t *kind_to_json(const struct pool_house_state *house, const struct pool_kind_state *kind)
{
    json_t *object = json_pack("{s:s, s:i, s:i, s:i, s:I, s:I, s:I, s:I, s:i, s:i, s:s}", "kind", kind->name,
                               "spares", kind->spares, "target", kind->target, "places", kind->places, "hits",
                               (json_int_t)kind->hits, "misses", (json_int_t)kind->misses, "failures",
                               (json_int_t)(kind->failures + kind->zygotes.failures), "spare_bytes",
                               (json_int_t)kind->spare_bytes, "zygote_pid", (int)kind->zygotes.pid, "zygotes",
                               kind->zygotes.zygotes, "failure", kind->failure);
    if (house && object) {
        json_object_set_new(object, "image", json_string(house->image));
        json_object_set_new(object, "preload", json_string(house->set));
    }
    return object;
}

/* Of the usual house all kinds, of the others those that somebody asked for. */
static json_t *kinds_to_json(const struct pool_state *state)
{
    json_t *list = json_array();
    for (size_t i = 0; i < state->house_count; i++)
        for (int k = 0; k < KIND_COUNT; k++) {
            const struct pool_kind_state *kind = &state->houses[i].kinds[k];
            if (i == 0 || kind->is_in_use)
                json_array_append_new(list, kind_to_json(&state->houses[i], kind));
        }
    json_array_append_new(list, kind_to_json(NULL, &(struct pool_kind_state){.name = "wasm",
                                                                             .spares = state->wasm.idle,
                                                                             .hits = state->wasm.hits,
                                                                             .misses = state->wasm.misses,
                                                                             .zygotes = {.pid = -1}}));
    return list;
}

static json_t *houses_to_json(const struct pool_state *state)
{
    json_t *list = json_array();
    for (size_t i = 0; i < state->house_count; i++) {
        const struct pool_house_state *house = &state->houses[i];
        json_t *modules = json_array();
        for (size_t k = 0; k < house->modules.count; k++)
            json_array_append_new(modules, json_string(house->modules.items[k]));
        json_array_append_new(list, json_pack("{s:s, s:s, s:o, s:b, s:I}", "image", house->image, "preload",
                                              house->set, "modules", modules, "kept", (int)house->is_kept,
                                              "idle_ms", (json_int_t)house->idle_ms));
    }
    return list;
}

/* What is said of the usual python stands for itself, and again among the kinds. */
static json_t *state_to_json(struct pool *pool, const struct pool_state *state)
{
    const struct pool_kind_state *python = &state->houses[0].kinds[0];
    return json_pack("{s:i, s:I, s:i, s:i, s:i, s:i, s:I, s:I, s:I, s:I, s:I, s:i, s:s, s:o, s:o, s:o}",
                     "pid", (int)getpid(), "memory_bytes", own_memory_bytes(), "spares", python->spares,
                     "target", python->target, "running", state->running, "zygotes", python->zygotes.zygotes,
                     "hits", (json_int_t)python->hits, "misses", (json_int_t)python->misses, "rotations",
                     (json_int_t)python->zygotes.rotations, "failures",
                     (json_int_t)(python->failures + python->zygotes.failures), "spare_bytes",
                     (json_int_t)python->spare_bytes, "zygote_pid", (int)python->zygotes.pid, "failure",
                     pool_failure(pool), "kinds", kinds_to_json(state), "images", houses_to_json(state),
                     "milestones", milestones_to_json(state->milestones));
}

static int answer_state(struct connection *connection)
{
    struct pool_state state;
    struct error err = {0};
    int status = pool_read_state(connection->service->pool, &state, &err);
    json_t *answer = status < 0 ? json_pack("{s:o}", "error", wire_from_error(&err))
                                : state_to_json(connection->service->pool, &state);
    if (status == 0)
        pool_state_free(&state);
    return wire_send(connection->fd, answer, (struct slice){"", 0}, NULL, 0);
}

/* Who has asked for a run will most likely ask for another. */
static void look_ahead(struct connection *connection)
{
    char first;
    if (connection->expects_run && recv(connection->fd, &first, 1, MSG_PEEK) == 1)
        pool_expect(connection->service->pool);
}

static int answer(struct connection *connection)
{
    json_t *request = NULL;
    scope_buffer body = {0};
    int fds[WIRE_DESCRIPTORS];
    for (int i = 0; i < WIRE_DESCRIPTORS; i++)
        fds[i] = -1;
    look_ahead(connection);
    int status = wire_receive(connection->fd, &request, &body, fds);
    if (status < 0)
        return status;
    const char *type = json_string_value(json_object_get(request, "type"));
    connection->expects_run = type && strcmp(type, "run") == 0;
    const char *version = json_string_value(json_object_get(request, "version"));
    struct error err = {0};
    if (!version || strcmp(version, CLOCHE_VERSION) != 0)
        error_host(&err, -EPROTO,
                   "the keeper is of version " CLOCHE_VERSION ", the client is not: restart it");
    else if (connection->expects_run)
        status = run_answer(&(struct run_order){connection->service->pool, connection->fd,
                                                connection->is_inside, request, &body, fds});
    else if (type && strcmp(type, "state") == 0)
        status = answer_state(connection);
    else if (!type || !connection->service->sessions ||
             !session_answer(connection->service->sessions, connection->fd, type, request,
                             (struct slice){body.data ? body.data : "", body.length}, fds, &status))
        error_host(&err, -EPROTO, "the keeper does not know this request");
    if (err.kind)
        status = wire_send(connection->fd, json_pack("{s:o}", "error", wire_from_error(&err)),
                           (struct slice){"", 0}, NULL, 0);
    for (int i = 0; i < WIRE_DESCRIPTORS; i++)
        scope_close_fd(&fds[i]);
    json_decref(request);
    return status;
}

static void *connection_main(void *data)
{
    struct connection *connection = data;
    struct service *service = connection->service;
    while (answer(connection) == 0)
        ;
    pthread_mutex_lock(&service->lock);
    for (struct connection **at = &service->connections; *at; at = &(*at)->next)
        if (*at == connection) {
            *at = connection->next;
            break;
        }
    service->connection_count--;
    close(connection->fd);
    pthread_cond_broadcast(&service->changed);
    pthread_mutex_unlock(&service->lock);
    free(connection);
    return NULL;
}

static int start_connection(struct service *service, int fd, bool is_inside)
{
    struct connection *connection = malloc(sizeof *connection);
    if (!connection)
        return -ENOMEM;
    *connection =
        (struct connection){.service = service, .fd = fd, .is_inside = is_inside, .expects_run = true};
    pthread_mutex_lock(&service->lock);
    int status = service->connection_count < CONNECTIONS_MAX
                     ? thread_start(NULL, STACK_BYTES, connection_main, connection)
                     : -EBUSY;
    if (status == 0) {
        connection->next = service->connections;
        service->connections = connection;
        service->connection_count++;
    }
    pthread_mutex_unlock(&service->lock);
    if (status < 0)
        free(connection);
    return status;
}

void service_keep_sessions(struct service *service, struct session_table *sessions)
{
    service->sessions = sessions;
}

/* Twice: a connection may have had a request to open one in its hands. */
void service_end_sessions(struct service *service)
{
    if (!service->sessions)
        return;
    session_table_end_all(service->sessions);
    service_drain(service, 0);
    session_table_end_all(service->sessions);
}

int service_take(struct service *service, int fd)
{
    int status = start_connection(service, fd, true);
    if (status < 0)
        close(fd);
    return status;
}

/* Those that are under way get their time; then their clients are gone, as far as they can see. */
void service_drain(struct service *service, int drain_ms)
{
    int64_t until_us = clock_monotonic_us() + (int64_t)drain_ms * 1000;
    bool is_cut = false;
    pthread_mutex_lock(&service->lock);
    for (struct connection *at = service->connections; at; at = at->next)
        shutdown(at->fd, SHUT_RD); /* idle ones end at once; a run sees its client go away … */
    while (service->connection_count > 0) {
        if (!is_cut && clock_monotonic_us() > until_us) {
            is_cut = true;
            for (struct connection *at = service->connections; at; at = at->next)
                shutdown(at->fd, SHUT_RDWR);
        }
        clock_wait(&service->changed, &service->lock, 1000);
    }
    pthread_mutex_unlock(&service->lock);
}

int service_run(struct service *service, int stop_fd, int drain_ms, struct error *err)
{
    for (;;) {
        struct pollfd polled[] = {{.fd = service->listen_fd, .events = POLLIN},
                                  {.fd = stop_fd, .events = POLLIN}};
        if (poll(polled, 2, -1) < 0 && errno != EINTR)
            return error_host(err, -errno, "cannot wait for clients");
        if (polled[1].revents)
            break;
        if (!polled[0].revents)
            continue;
        int fd = accept4(service->listen_fd, NULL, NULL, SOCK_CLOEXEC);
        if (fd >= 0 && (!is_own_client(fd) || start_connection(service, fd, false) < 0))
            close(fd);
    }
    unlink(service->path);
    service_drain(service, drain_ms);
    return 0;
}

void service_close(struct service *service)
{
    if (!service)
        return;
    scope_close_fd(&service->listen_fd);
    pthread_mutex_destroy(&service->lock);
    pthread_cond_destroy(&service->changed);
    free(service);
}
