#include "keeper/front.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/scope.h"
#include "keeper/data_directory.h"
#include "keeper/door.h"
#include "os/privileges.h"
#include "os/process.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum {
    START_MS = 20000,
    BACKOFF_LEAST_MS = 100,
    BACKOFF_MOST_MS = 10000,
    SOUND_MS = 60000, /* who lived so long did not die of its start */
    FILE_MAX = 1 << 20,
    END_MS = 2000, /* after the drain, before it is killed */
};

struct child {
    int pidfd;
    int door_fd;
    int64_t started_us;
};

int front_copy_file(const char *path, const char *field, struct error *err)
{
    if (!path)
        return -1;
    scope_buffer content = {0};
    int status = file_read_whole(AT_FDCWD, path, FILE_MAX, &content);
    if (status < 0)
        return error_spec(err, field, "%s: '%.256s': %s", field, path, strerror(-status));
    scope_fd fd = memfd_create("cloche", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return error_host(err, -errno, "cannot copy %s", path);
    status = file_write_all(fd, content.data ? content.data : "", content.length);
    if (status == 0 && fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) < 0)
        status = -errno;
    return status < 0 ? error_host(err, status, "cannot copy %s", path) : take_fd(&fd);
}

/* From here on only what is safe in a child of a process with threads. */
static int place_descriptors(const struct front *front, int door_fd, int *program_fd, int *report_fd)
{
    const int given[] = {front->listen_fd,      door_fd,       front->data_fd,   front->config_fd,
                         front->certificate_fd, front->key_fd, front->pyodide_fd};
    enum { COUNT = sizeof given / sizeof *given, APART = 64 };
    int apart[COUNT];
    for (int i = 0; i < COUNT; i++) {
        apart[i] = given[i] < 0 ? -1 : fcntl(given[i], F_DUPFD_CLOEXEC, APART);
        if (given[i] >= 0 && apart[i] < 0)
            return -errno;
    }
    *program_fd = fcntl(*program_fd, F_DUPFD_CLOEXEC, APART);
    *report_fd = fcntl(*report_fd, F_DUPFD_CLOEXEC, APART);
    if (*program_fd < 0 || *report_fd < 0)
        return -errno;
    for (int i = 0; i < COUNT; i++) {
        close(FRONT_LISTEN + i);
        if (apart[i] >= 0 && dup2(apart[i], FRONT_LISTEN + i) < 0)
            return -errno;
    }
    /* Of the rest only these two are there until the new program is. */
    const int kept[] = {FRONT_LISTEN, FRONT_DOOR,    FRONT_DATA,  FRONT_CONFIG, FRONT_CERTIFICATE,
                        FRONT_KEY,    FRONT_PYODIDE, *program_fd, *report_fd};
    return process_close_all_but(kept, sizeof kept / sizeof *kept);
}

static void become_server(const struct front *front, const char *place, int door_fd, uid_t owner,
                          int report_fd)
{
    int program_fd = front->program_fd;
    char *const arguments[] = {(char *)(uintptr_t) "cloche-server", (char *)(uintptr_t)place,
                               (char *)(uintptr_t)(front->config_name ? front->config_name : ""), NULL};
    char *const environment[] = {(char *)(uintptr_t) "LANG=C.UTF-8", NULL};
    int status = place_descriptors(front, door_fd, &program_fd, &report_fd);
    if (status == 0)
        status = privileges_give_up(geteuid() == 0, owner);
    umask(077);
    setsid(); /* Ctrl-C is for the keeper, which lets it finish */
    if (chdir("/") < 0 && status == 0)
        status = -errno;
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (status == 0) {
        syscall(SYS_execveat, program_fd, "", arguments, environment, AT_EMPTY_PATH);
        status = -errno;
    }
    if (write(report_fd, &status, sizeof status) < 0)
        _exit(126);
    _exit(127);
}

static const char *place_of(const struct front *front)
{
    struct stat now = {0};
    if (!front->is_local)
        return FRONT_PUBLIC;
    if (fstatat(front->data_fd, "keys", &now, AT_SYMLINK_NOFOLLOW) < 0) {
        if (errno != ENOENT)
            return FRONT_LOCAL;
        now = (struct stat){0};
    }
    return front->has_no_keys && file_is_same_version(&now, &front->keys_version) ? FRONT_SINGLE_USER
                                                                                  : FRONT_LOCAL;
}

static int start(const struct front *front, struct child *ret, struct error *err)
{
    int door[2], report[2], pidfd = -1, failure = 0;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, door) < 0)
        return error_host(err, -errno, "cannot make the server's door");
    scope_fd ours = door[0], theirs = door[1];
    if (pipe2(report, O_CLOEXEC) < 0)
        return error_host(err, -errno, "cannot make a pipe");
    scope_fd read_end = report[0], write_end = report[1];
    uid_t owner = data_directory_owner();
    const char *place = place_of(front);
    pid_t pid = process_clone(0, -1, &pidfd);
    if (pid == 0)
        become_server(front, place, theirs, owner, write_end);
    if (pid < 0)
        return error_host(err, (int)pid, "cannot start the server");
    scope_close_fd(&write_end);
    ssize_t got;
    do
        got = read(read_end, &failure, sizeof failure);
    while (got < 0 && errno == EINTR);
    if (got == sizeof failure) {
        close(pidfd);
        waitpid(pid, NULL, 0);
        return error_host(err, failure, "cannot start the server");
    }
    *ret = (struct child){.pidfd = pidfd, .door_fd = take_fd(&ours), .started_us = clock_monotonic_us()};
    return 0;
}

static void bury(struct child *child)
{
    siginfo_t info;
    if (child->pidfd >= 0) {
        process_pidfd_kill(child->pidfd, SIGKILL);
        while (waitid(P_PIDFD, (id_t)child->pidfd, &info, WEXITED) < 0 && errno == EINTR)
            ;
    }
    scope_close_fd(&child->pidfd);
    scope_close_fd(&child->door_fd);
}

enum happening { SERVER_DIED, SERVER_READY, STOP_ASKED, TIME_OVER };

/* Serves the door until something happens. timeout_ms -1: no end. */
static enum happening attend(struct child *child, struct service *service, int stop_fd, int timeout_ms)
{
    int64_t until_us = clock_monotonic_us() + (int64_t)timeout_ms * 1000;
    for (;;) {
        struct pollfd polled[] = {{.fd = child->door_fd, .events = POLLIN},
                                  {.fd = child->pidfd, .events = POLLIN},
                                  {.fd = stop_fd, .events = POLLIN}};
        int64_t left_ms = timeout_ms < 0 ? -1 : (until_us - clock_monotonic_us()) / 1000;
        if (timeout_ms >= 0 && left_ms <= 0)
            return TIME_OVER;
        if (poll(polled, 3, (int)left_ms) < 0)
            continue;
        if (polled[2].revents)
            return STOP_ASKED;
        if (polled[0].revents & POLLIN) {
            enum door_word word;
            int fd = -1, status = door_hear(child->door_fd, &word, &fd);
            if (status == 0 && word == DOOR_CONNECTION && fd >= 0)
                service_take(service, fd);
            else
                scope_close_fd(&fd);
            if (status == 0 && word == DOOR_READY)
                return SERVER_READY;
            if (status == -EPIPE)
                return SERVER_DIED;
        } else if (polled[0].revents || polled[1].revents) {
            return SERVER_DIED;
        }
    }
}

static void wind_down(struct child *child, struct service *service, int drain_ms)
{
    door_say(child->door_fd, DOOR_STOP, -1);
    while (attend(child, service, -1, drain_ms + END_MS) == SERVER_READY)
        ;
    bury(child);
    service_end_sessions(service);
    service_drain(service, 0);
}

int front_run(const struct front *front, struct service *service, int stop_fd, int drain_ms,
              void (*ready)(void *data, int deaths), void *data, struct error *err)
{
    bool was_ready = false;
    int backoff_ms = BACKOFF_LEAST_MS, deaths = 0;
    for (;;) {
        struct child child = {.pidfd = -1, .door_fd = -1};
        int status = start(front, &child, err);
        if (status < 0 && !was_ready)
            return status;
        bool is_ready = false;
        enum happening happening = SERVER_DIED;
        while (status == 0) {
            happening = attend(&child, service, stop_fd, is_ready ? -1 : START_MS);
            if (happening != SERVER_READY)
                break;
            ready(data, deaths);
            is_ready = was_ready = true;
        }
        if (happening == STOP_ASKED) {
            wind_down(&child, service, drain_ms);
            return 0;
        }
        int64_t lived_ms = status < 0 ? 0 : (clock_monotonic_us() - child.started_us) / 1000;
        bury(&child);
        service_end_sessions(service);
        deaths++;
        if (!was_ready)
            return error_host(err, -EIO, "the server ended before it was ready");
        backoff_ms = lived_ms > SOUND_MS ? BACKOFF_LEAST_MS : backoff_ms;
        struct pollfd stopped = {.fd = stop_fd, .events = POLLIN};
        if (poll(&stopped, 1, backoff_ms) > 0)
            return service_drain(service, 0), 0;
        backoff_ms = backoff_ms * 2 < BACKOFF_MOST_MS ? backoff_ms * 2 : BACKOFF_MOST_MS;
    }
}
