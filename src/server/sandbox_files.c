#include "base/identifier.h"
#include "server/sandbox_files.h"

#include "base/file.h"
#include "base/scope.h"
#include "keeper/client.h"
#include "server/run_job.h"
#include "server/sandbox_request.h"
#include "server/server.h"
#include "server/tenant.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#define PLACE "sandboxes.files"
#define ROOM  "room_"

enum { YOUNG_S = 60 };

static int open_place(const struct server *server)
{
    int fd = openat(server->data_fd, PLACE, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

void sandbox_files_clear(struct server *server)
{
    file_remove_tree(server->data_fd, PLACE);
}

void sandbox_files_remove(struct server *server, const char *room)
{
    scope_fd place = open_place(server);
    if (place >= 0 && identifier_has_form(room, ROOM))
        file_remove_tree(place, room);
}

/* The keeper may not have heard of it yet. */
static bool is_young(int place, const char *name)
{
    struct stat what;
    return fstatat(place, name, &what, AT_SYMLINK_NOFOLLOW) < 0 || what.st_ctime + YOUNG_S > time(NULL);
}

/* Of sandboxes whose time was over, by the keeper's clock: found when the next ones come. */
static void sweep(struct exchange *exchange, const json_t *rooms)
{
    struct server *server = exchange_server(exchange);
    scope_fd place = open_place(server);
    int copy = place < 0 ? -1 : openat(place, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    scope_dir *dir = copy < 0 ? NULL : fdopendir(copy);
    for (struct dirent *entry; dir && (entry = readdir(dir));)
        if (identifier_has_form(entry->d_name, ROOM) && !json_object_get(rooms, entry->d_name) &&
            !is_young(place, entry->d_name))
            file_remove_tree(place, entry->d_name);
}

static int ask(struct run_job *job, json_t *request, json_t **ret)
{
    struct client_input inputs[SPEC_GRANTS_MAX];
    int fds[SPEC_GRANTS_MAX];
    size_t count = job->request.files.count;
    struct error err = {0};
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++)
        inputs[i].fd = -1;
    int status = run_room_open(job->server, PLACE, job->id, &job->room, &err);
    if (status == 0)
        status = run_job_open_inputs(job, inputs, &err);
    for (size_t i = 0; status == 0 && i < count; i++) {
        fds[i] = inputs[i].fd;
        json_array_append_new(list, json_pack("{s:s, s:i}", "name", inputs[i].name, "fd", (int)i));
    }
    json_object_set_new(request, "inputs", list);
    json_object_set_new(request, "room", json_string(job->id));
    if (status < 0) {
        json_decref(request);
        exchange_reply_problem(job->exchange, &err);
    } else {
        status = sandbox_ask_with(job->exchange, request, fds, count, ret);
    }
    for (size_t i = 0; i < count; i++)
        scope_close_fd(&inputs[i].fd);
    return status;
}

int sandbox_files_open(struct exchange *exchange, json_t *body, json_t *request, json_t **ret)
{
    struct run_job job = {.exchange = exchange,
                          .server = exchange_server(exchange),
                          .request = {.body = json_incref(body)},
                          .has_uploads = true,
                          .room = {.fd = -1},
                          .link_fd = -1};
    identifier_make(ROOM, job.id);
    int status = run_files_read(exchange, job.request.body, &job.request.files);
    if (status < 0)
        json_decref(request);
    else
        status = ask(&job, request, ret);
    job.is_kept = status == 0;
    if (status == 0)
        sweep(exchange, json_object_get(*ret, "rooms"));
    run_job_close(&job);
    return status;
}
