#include "server/keeper_link.h"

#include "base/scope.h"
#include "keeper/door.h"
#include "keeper/wire.h"
#include "server/server.h"

#include <errno.h>
#include <sys/socket.h>

static __thread int own_link = -1;

static int take_idle(struct server *server)
{
    int fd = -1;
    pthread_mutex_lock(&server->links_lock);
    if (server->idle_link_count > 0)
        fd = server->idle_links[--server->idle_link_count];
    pthread_mutex_unlock(&server->links_lock);
    return fd;
}

int keeper_link(struct server *server, struct error *err)
{
    if (own_link < 0)
        own_link = take_idle(server);
    if (own_link >= 0)
        return own_link;
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return error_host(err, -errno, "cannot make a socket");
    int status = door_pass(server->door_fd, pair[1]);
    close(pair[1]);
    if (status < 0) {
        close(pair[0]);
        return error_host(err, status, "the keeper went away");
    }
    return own_link = pair[0];
}

void keeper_link_drop(struct server *server)
{
    (void)server;
    scope_close_fd(&own_link);
}

int keeper_link_take(struct server *server, struct error *err)
{
    int fd = keeper_link(server, err);
    own_link = -1;
    return fd;
}

void keeper_link_give(struct server *server, int fd)
{
    pthread_mutex_lock(&server->links_lock);
    if (server->idle_link_count < SERVER_IDLE_LINKS)
        server->idle_links[server->idle_link_count++] = take_fd(&fd);
    pthread_mutex_unlock(&server->links_lock);
    scope_close_fd(&fd);
}

void keeper_link_release(struct server *server)
{
    if (own_link >= 0)
        keeper_link_give(server, take_fd(&own_link));
}

int keeper_ask(struct server *server, json_t *takes, json_t **ret, struct error *err)
{
    scope_buffer body = {0};
    int fd = keeper_link(server, err);
    if (fd < 0 || json_object_set_new(takes, "version", json_string(CLOCHE_VERSION)) < 0) {
        json_decref(takes);
        return fd < 0 ? fd : error_host(err, -ENOMEM, "no memory for a request");
    }
    int status = wire_send(fd, takes, (struct slice){"", 0}, NULL, 0);
    if (status == 0)
        status = wire_receive(fd, ret, &body, NULL);
    if (status < 0) {
        keeper_link_drop(server);
        return error_host(err, status, "the keeper went away");
    }
    const json_t *failure = json_object_get(*ret, "error");
    if (!failure)
        return 0;
    wire_to_error(failure, err);
    json_decref(*ret);
    *ret = NULL;
    return err->code < 0 ? err->code : -EIO;
}

void keeper_links_close(struct server *server)
{
    pthread_mutex_lock(&server->links_lock);
    while (server->idle_link_count > 0)
        close(server->idle_links[--server->idle_link_count]);
    pthread_mutex_unlock(&server->links_lock);
}
