#include "engine/wasm/gateway.h"

#include "base/install.h"
#include "base/scope.h"
#include "engine/launch.h"
#include "engine/living.h"
#include "engine/wasm/fetched.h"
#include "gateway/talk.h"
#include "os/privileges.h"
#include "os/process.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { READY_MS = 20000 };

struct gateway {
    pid_t pid;
    int pidfd;
    int control_fd; /* closes with us, and ends it */
    struct fetched fetched;
};

bool gateway_is_wanted(const struct spec *spec)
{
    return spec->fetch.count > 0;
}

static int add_pair(struct buffer *into, const char *name, const char *value)
{
    int status = buffer_append(into, name, strlen(name) + 1);
    return status < 0 ? status : buffer_append(into, value, strlen(value) + 1);
}

static int pack_settings(const struct spec *spec, struct error *err)
{
    scope_buffer settings = {0};
    int status = 0;
    for (size_t i = 0; status == 0 && i < spec->fetch.count; i++)
        status = add_pair(&settings, GATEWAY_RULE, spec->fetch.items[i]);
    for (int i = 0; status == 0 && i < FETCH_LIMITS; i++) {
        char number[32];
        snprintf(number, sizeof number, "%lld", (long long)spec->fetch_limits.value[i]);
        status = add_pair(&settings, fetch_limit_names[i], number);
    }
    if (status == 0 && settings.length > GATEWAY_SETTINGS_MAX)
        status = -E2BIG;
    if (status < 0)
        return error_host(err, status, "cannot pack the gateway's settings");
    return launch_pack_file("settings", (struct slice){settings.data, settings.length}, err);
}

/* All that it is started with; the numbers are those that it has them by. */
struct given {
    int program_fd, null_fd;
    int fds[GATEWAY_CA + 1 - GATEWAY_REQUESTS];
    bool takes_user;
    uid_t user;
};

/* From here to the next only what is safe in a child of a process with threads. */
static int place_descriptors(struct given *given)
{
    enum { APART = 64, COUNT = sizeof given->fds / sizeof *given->fds };
    int kept[COUNT + 1];
    for (int i = 0; i < COUNT; i++) /* out of the way first */
        if (given->fds[i] >= 0) {
            int apart = fcntl(given->fds[i], F_DUPFD_CLOEXEC, APART);
            if (apart < 0)
                return -errno;
            given->fds[i] = apart;
        }
    given->program_fd = fcntl(given->program_fd, F_DUPFD_CLOEXEC, APART);
    if (given->program_fd < 0)
        return -errno;
    for (int i = 0; i <= STDERR_FILENO; i++)
        if (dup2(given->null_fd, i) < 0)
            return -errno;
    for (int i = 0; i < COUNT; i++) {
        close(GATEWAY_REQUESTS + i);
        if (given->fds[i] >= 0 && dup2(given->fds[i], GATEWAY_REQUESTS + i) < 0)
            return -errno;
        kept[i] = GATEWAY_REQUESTS + i;
    }
    kept[COUNT] = given->program_fd;
    return process_close_all_but(kept, COUNT + 1);
}

__attribute__((noreturn)) static void become_gateway(struct given *given)
{
    char *const arguments[] = {(char *)(uintptr_t) "cloche-fetch", NULL};
    char *const environment[] = {(char *)(uintptr_t) "LANG=C.UTF-8", NULL};
    struct gateway_word word = {.kind = GATEWAY_UNFIT};
    const struct process_signals none = {0};
    int *control = &given->fds[GATEWAY_CONTROL - GATEWAY_REQUESTS];
    int status = place_descriptors(given);
    if (status == 0)
        *control = GATEWAY_CONTROL;
    setsid(); /* Ctrl-C is for who started it */
    umask(077);
    if (status == 0 && chdir("/") < 0)
        status = -errno;
    if (status == 0)
        status = privileges_give_up(given->takes_user, given->user);
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* which a change of user takes back */
    process_signals_reset();
    process_signals_restore(&none);
    if (status == 0) {
        syscall(SYS_execveat, given->program_fd, "", arguments, environment, AT_EMPTY_PATH);
        status = -errno;
    }
    word.status = status;
    /* Where it is not in its place, that place is somebody else's. */
    if (send(*control, &word, sizeof word, MSG_NOSIGNAL) < 0)
        _exit(126);
    _exit(127);
}

static int open_certificates(const char *path, struct error *err)
{
    if (!path)
        return -1;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    return fd < 0 ? error_spec(err, "fetch.ca", "fetch.ca: '%.256s': %s", path, strerror(errno)) : fd;
}

static int start_child(struct gateway *gateway, struct given *given, struct error *err)
{
    gateway->pid = process_clone(0, -1, &gateway->pidfd);
    if (gateway->pid == 0)
        become_gateway(given);
    if (gateway->pid < 0)
        return error_host(err, (int)gateway->pid, "cannot start the gateway");
    int status = living_add(gateway->pid); /* or another box would take it for an orphan of its own */
    return status < 0 ? error_host(err, status, "no memory for the gateway") : 0;
}

int gateway_start(struct box *box, int *ret_requests_fd, struct error *err)
{
    const struct spec *spec = box->spec;
    struct gateway *gateway = calloc(1, sizeof *gateway);
    if (!gateway)
        return error_host(err, -ENOMEM, "no memory for the gateway");
    *gateway = (struct gateway){.pid = -1, .pidfd = -1, .control_fd = -1, .fetched.rows = json_array()};
    box->gateway = gateway;
    scope_fd program = install_find_program("cloche-fetch", err);
    scope_fd settings = program < 0 ? -1 : pack_settings(spec, err);
    scope_fd certificates = settings < 0 ? -1 : open_certificates(spec->fetch_ca, err);
    if (program < 0 || settings < 0 || certificates < -1)
        return err->code;
    int requests[2], control[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, requests) < 0)
        return error_host(err, -errno, "cannot make the gateway's sockets");
    scope_fd theirs = requests[0], ours = requests[1];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, control) < 0)
        return error_host(err, -errno, "cannot make the gateway's sockets");
    scope_fd their_control = control[0];
    gateway->control_fd = control[1];
    scope_fd null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null_fd < 0)
        return error_host(err, -errno, "cannot open /dev/null");
    struct given given = {.program_fd = program,
                          .null_fd = null_fd,
                          .fds = {theirs, their_control, settings, certificates},
                          .takes_user = box->identity->has_uid,
                          .user = box->identity->gateway_uid};
    int status = start_child(gateway, &given, err);
    if (status == 0)
        *ret_requests_fd = take_fd(&ours);
    return status;
}

int gateway_await(const struct box *box, struct error *err)
{
    struct pollfd polled = {.fd = box->gateway->control_fd, .events = POLLIN};
    struct gateway_word word;
    int ready;
    while ((ready = poll(&polled, 1, READY_MS)) < 0 && errno == EINTR)
        ;
    if (ready == 0)
        return error_host(err, -ETIMEDOUT, "the gateway is not ready after %d s", READY_MS / 1000);
    if (fetched_hear_word(box->gateway->control_fd, &word) != 1)
        return error_host_told(err, -EPIPE, "the gateway ended before it was ready");
    if (word.kind == GATEWAY_READY)
        return 0;
    return word.text[0] ? error_host_told(err, -EIO, "the gateway cannot start: %s", word.text)
                        : error_host(err, word.status, "the gateway cannot be started");
}

const char *gateway_layer_detail(int landlock_abi)
{
    enum { KNOWS_PORTS = 4, KNOWS_SIGNALS = 6 };
    if (landlock_abi < KNOWS_PORTS)
        return "own filter, Landlock for files; TCP to any port: not in this kernel";
    if (landlock_abi < KNOWS_SIGNALS)
        return "own filter, Landlock for files and TCP ports; signals: the filter alone";
    return "own filter, Landlock for files, TCP ports and signals";
}

void gateway_listen(const struct box *box)
{
    struct gateway *gateway = box->gateway;
    if (gateway && gateway->control_fd >= 0)
        fetched_hear(&gateway->fetched, gateway->control_fd);
}

void gateway_explain(const struct box *box, struct result *result)
{
    if (!box->gateway)
        return;
    gateway_listen(box);
    json_decref(result->fetched);
    result->fetched = json_incref(box->gateway->fetched.rows);
    result->fetched_uncounted = box->gateway->fetched.more;
}

void gateway_end(struct box *box)
{
    struct gateway *gateway = take_pointer(box->gateway);
    if (!gateway)
        return;
    if (gateway->pid > 0) {
        process_pidfd_kill(gateway->pidfd, SIGKILL);
        while (waitpid(gateway->pid, NULL, __WALL) < 0 && errno == EINTR)
            ;
        living_remove(gateway->pid);
    }
    scope_close_fd(&gateway->pidfd);
    scope_close_fd(&gateway->control_fd);
    json_decref(gateway->fetched.rows);
    free(gateway);
}
