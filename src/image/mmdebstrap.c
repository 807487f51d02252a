#include "image/mmdebstrap.h"
#include "base/scope.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>

static const char program[] = "/usr/bin/mmdebstrap";

enum { BLOCK_BYTES = 128 * 1024, LINE_BYTES_MAX = 4096, TAIL_BYTES_MAX = 500 };

static int mmdebstrap_arguments(struct string_list *list, const char *suite,
                                const struct string_list *packages)
{
    static const char *const options[] = {
        "--variant=minbase",
        "--format=tar",
        /* Nobody reads manuals in a sandbox. Licences stay, as they must. */
        "--dpkgopt=path-exclude=/usr/share/doc/*",
        "--dpkgopt=path-include=/usr/share/doc/*/copyright",
        "--dpkgopt=path-exclude=/usr/share/man/*",
        "--dpkgopt=path-exclude=/usr/share/info/*",
        "--dpkgopt=path-exclude=/usr/share/lintian/*",
        "--dpkgopt=path-exclude=/usr/share/locale/*",
        "--dpkgopt=path-include=/usr/share/locale/locale.alias",
        "--aptopt=Acquire::Languages \"none\"",
    };
    int status = string_list_add(list, program);
    for (size_t i = 0; status == 0 && i < sizeof options / sizeof *options; i++)
        status = string_list_add(list, options[i]);
    scope_buffer include = {0};
    for (size_t i = 0; status == 0 && i < packages->count; i++)
        status = buffer_print(&include, "%s%s", i ? "," : "--include=", packages->items[i]);
    if (status == 0 && packages->count)
        status = string_list_add(list, include.data);
    if (status == 0)
        status = string_list_add(list, suite);
    if (status == 0)
        status = string_list_add(list, "-");
    return status;
}

static int mmdebstrap_environment(struct string_list *list, const char *work_directory)
{
    for (char **variable = environ; *variable; variable++) {
        if (strncmp(*variable, "LC_", 3) == 0 || strncmp(*variable, "LANG", 4) == 0 ||
            (work_directory && strncmp(*variable, "TMPDIR=", 7) == 0))
            continue;
        if (string_list_add(list, *variable) < 0)
            return -ENOMEM;
    }
    if (work_directory && string_list_print(list, "TMPDIR=%s", work_directory) < 0)
        return -ENOMEM;
    return string_list_add(list, "LC_ALL=C.UTF-8");
}

/* In the child: stdin from /dev/null, the two pipes, no signals blocked, and no life without the parent. */
static void mmdebstrap_exec(int tar_fd, int message_fd, int kept_fd, pid_t parent, char **arguments,
                            char **environment)
{
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGPIPE, SIG_DFL);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    /* As root mmdebstrap mounts /proc and /sys in its tree, and in its death would leave them mounted on the
     * host. Mounts of its own namespace die with it. Without the right to this it has no right to mount
     * either. */
    if (unshare(CLONE_NEWNS) == 0 && mount("none", "/", NULL, MS_REC | MS_SLAVE, NULL) < 0)
        _exit(127);
    int null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (getppid() != parent || null_fd < 0 || dup2(null_fd, 0) < 0 || dup2(tar_fd, 1) < 0 ||
        dup2(message_fd, 2) < 0 || fcntl(kept_fd, F_SETFD, 0) < 0)
        _exit(127);
    execve(arguments[0], arguments, environment);
    dprintf(2, "E: cannot run %s: %s\n", arguments[0], strerror(errno));
    _exit(127);
}

/* Both ends of a pipe, moved past the standard descriptors so that the child's dup2 does not hit them. */
static int mmdebstrap_pipe(int *ret_read, int *ret_write)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return -errno;
    *ret_read = ends[0];
    *ret_write = fcntl(ends[1], F_DUPFD_CLOEXEC, 3);
    int status = *ret_write < 0 ? -errno : 0;
    close(ends[1]);
    return status;
}

int mmdebstrap_start(struct mmdebstrap *child, const struct mmdebstrap_request *request, struct error *err)
{
    *child = (struct mmdebstrap){.tar_fd = -1, .message_fd = -1, .progress = request->progress};
    if (access(program, X_OK) < 0)
        return error_spec(err, "image",
                          "%s is needed to build an image; install it with: apt-get install mmdebstrap",
                          program);
    scope_string_list arguments = {0}, environment = {0};
    child->block = malloc(BLOCK_BYTES);
    int status = child->block ? mmdebstrap_arguments(&arguments, request->suite, request->packages) : -ENOMEM;
    if (status == 0)
        status = mmdebstrap_environment(&environment, request->work_directory);
    scope_fd tar_write = -1, message_write = -1;
    if (status == 0)
        status = mmdebstrap_pipe(&child->tar_fd, &tar_write);
    if (status == 0)
        status = mmdebstrap_pipe(&child->message_fd, &message_write);
    if (status < 0)
        return error_host(err, status, "cannot start %s", program);
    pid_t parent = getpid(), pid = fork();
    if (pid == 0)
        mmdebstrap_exec(tar_write, message_write, request->kept_fd, parent, arguments.items,
                        environment.items);
    if (pid < 0)
        return error_host(err, -errno, "cannot start %s", program);
    child->pid = pid;
    return 0;
}

/* One line of messages. "I: ..." is what it is doing; everything else may explain a failure. */
static void mmdebstrap_take_line(struct mmdebstrap *child)
{
    struct buffer *line = &child->line, *tail = &child->tail;
    if (!line->length)
        return;
    for (size_t i = 0; i < line->length; i++)
        if ((unsigned char)line->data[i] < 0x20 || line->data[i] == 0x7f)
            line->data[i] = ' ';
    if (strncmp(line->data, "I: ", 3) == 0) {
        if (child->progress && child->progress->report)
            child->progress->report(child->progress->data, line->data + 3, -1);
    } else if (buffer_print(tail, "%s%s", tail->length ? "; " : "", line->data) == 0 &&
               tail->length > TAIL_BYTES_MAX) {
        size_t surplus = tail->length - TAIL_BYTES_MAX;
        memmove(tail->data, tail->data + surplus, TAIL_BYTES_MAX + 1);
        tail->length = TAIL_BYTES_MAX;
    }
    line->length = 0;
}

/* False at the end of the messages. */
static bool mmdebstrap_take_messages(struct mmdebstrap *child)
{
    char chunk[4096];
    ssize_t length = read(child->message_fd, chunk, sizeof chunk);
    if (length < 0 && errno == EINTR)
        return true;
    for (ssize_t i = 0; i < length; i++) {
        if (chunk[i] == '\n' || chunk[i] == '\r')
            mmdebstrap_take_line(child);
        else if (child->line.length < LINE_BYTES_MAX)
            buffer_append(&child->line, &chunk[i], 1);
    }
    if (length > 0)
        return true;
    mmdebstrap_take_line(child);
    scope_close_fd(&child->message_fd);
    return false;
}

ssize_t mmdebstrap_read(void *data, const void **ret_block)
{
    struct mmdebstrap *child = data;
    for (;;) {
        /* poll ignores a descriptor of -1, so a closed message pipe needs no care. */
        struct pollfd fds[] = {{.fd = child->tar_fd, .events = POLLIN},
                               {.fd = child->message_fd, .events = POLLIN}};
        if (poll(fds, 2, -1) < 0 && errno != EINTR)
            return -errno;
        if (fds[1].revents)
            mmdebstrap_take_messages(child);
        if (!fds[0].revents)
            continue;
        ssize_t length = read(child->tar_fd, child->block, BLOCK_BYTES);
        if (length < 0 && errno == EINTR)
            continue;
        *ret_block = child->block;
        return length < 0 ? -errno : length;
    }
}

/* The child's end: 0 when it succeeded, -EPIPE when not. */
static int mmdebstrap_reap(struct mmdebstrap *child)
{
    int status = 0;
    while (waitpid(child->pid, &status, 0) < 0)
        if (errno != EINTR)
            return -errno;
    child->pid = 0;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -EPIPE;
}

int mmdebstrap_finish(struct mmdebstrap *child, struct error *err)
{
    /* The tar reader stops at the tar's end mark; what pads it must be taken too, or the child dies of
     * SIGPIPE. */
    const void *block;
    ssize_t length;
    while ((length = mmdebstrap_read(child, &block)) > 0)
        continue;
    scope_close_fd(&child->tar_fd);
    while (child->message_fd >= 0 && mmdebstrap_take_messages(child))
        continue;
    if (mmdebstrap_reap(child) == 0 && length == 0)
        return 0;
    return error_spec(err, "image", "mmdebstrap failed: %s",
                      child->tail.length ? child->tail.data : "no reason given");
}

void mmdebstrap_end(struct mmdebstrap *child)
{
    scope_close_fd(&child->tar_fd);
    scope_close_fd(&child->message_fd);
    if (child->pid > 0) {
        kill(child->pid, SIGTERM);
        mmdebstrap_reap(child);
    }
    free(child->block);
    child->block = NULL;
    buffer_free(&child->line);
    buffer_free(&child->tail);
}
