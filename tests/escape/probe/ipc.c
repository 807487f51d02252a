/* Objects that processes meet at, other than files: of the host, and of the box after its end.
 *
 * The runner makes one of each kind, open to all users, and tells its number or name. */
#include "probe.h"

#include <errno.h>
#include <fcntl.h>
#include <mqueue.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

static long reach_segment(const char *id)
{
    void *memory = shmat(atoi(id), NULL, SHM_RDONLY);
    return memory == (void *)-1 ? -1 : 0;
}

static long reach_queue(const char *id)
{
    struct msqid_ds status;
    return msgctl(atoi(id), IPC_STAT, &status);
}

static long reach_semaphore(const char *id)
{
    return semctl(atoi(id), 0, GETVAL);
}

static long reach_posix_queue(const char *name)
{
    return mq_open(name, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
}

struct object {
    const char *variable, *label;
    long (*reach)(const char *);
};

static enum verdict object_cannot_be_reached(const void *target)
{
    const struct object *object = target;
    const char *name = host_value(object->variable);
    if (!name)
        return undecided("the runner named no %s", object->label);
    return judge_reach(object->label, object->reach(name));
}

/* System V objects outlive those who made them; only a namespace of its own ends them with the box. */
static enum verdict segment_cannot_be_made(const void *unused)
{
    (void)unused;
    int id = shmget(IPC_PRIVATE, 4096, IPC_CREAT | 0600);
    enum verdict verdict = judge_call("shmget", id);
    if (id >= 0)
        shmctl(id, IPC_RMID, NULL);
    return verdict;
}

static enum verdict queue_cannot_be_made(const void *unused)
{
    (void)unused;
    int id = msgget(IPC_PRIVATE, IPC_CREAT | 0600);
    enum verdict verdict = judge_call("msgget", id);
    if (id >= 0)
        msgctl(id, IPC_RMID, NULL);
    return verdict;
}

static enum verdict semaphore_cannot_be_made(const void *unused)
{
    (void)unused;
    int id = semget(IPC_PRIVATE, 1, IPC_CREAT | 0600);
    enum verdict verdict = judge_call("semget", id);
    if (id >= 0)
        semctl(id, 0, IPC_RMID);
    return verdict;
}

static enum verdict posix_queue_cannot_be_made(const void *unused)
{
    (void)unused;
    char name[64];
    snprintf(name, sizeof name, "/cloche-probe.%d", (int)getpid());
    mqd_t queue = mq_open(name, O_RDWR | O_CREAT | O_EXCL, 0600, NULL);
    enum verdict verdict = judge_call("mq_open", queue);
    if (queue >= 0)
        mq_unlink(name);
    return verdict;
}

/* Names without a place in the file system start with a NUL. */
static socklen_t local_address(struct sockaddr_un *address, const char *name, bool abstract)
{
    memset(address, 0, sizeof *address);
    address->sun_family = AF_UNIX;
    size_t length = strnlen(name, sizeof address->sun_path - 2);
    memcpy(address->sun_path + abstract, name, length);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + abstract + length);
}

static enum verdict local_socket_cannot_be_reached(const char *name, bool abstract)
{
    struct sockaddr_un address;
    if (!name)
        return undecided("the runner named no local socket");
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return judge_reach("socket", fd);
    socklen_t size = local_address(&address, name, abstract);
    return judge_reach(name, connect(fd, (struct sockaddr *)&address, size));
}

static enum verdict abstract_socket_cannot_be_reached(const void *unused)
{
    (void)unused;
    return local_socket_cannot_be_reached(host_value("ABSTRACT"), true);
}

static enum verdict path_socket_cannot_be_reached(const void *unused)
{
    (void)unused;
    return local_socket_cannot_be_reached(host_value("SOCKET"), false);
}

/* A name that is taken, though nobody in the box took it, is taken by the host. */
static enum verdict abstract_names_are_own(const void *unused)
{
    (void)unused;
    struct sockaddr_un address;
    const char *name = host_value("ABSTRACT");
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (!name || fd < 0)
        return undecided("there is no local socket to try");
    socklen_t size = local_address(&address, name, true);
    if (bind(fd, (struct sockaddr *)&address, size) < 0 && errno == EADDRINUSE)
        return broke("the name %s is taken by the host", name);
    return held("the name is free");
}

/* Whoever may speak to one of these commands the host. The runner's own socket stands in for them all. */
static enum verdict service_sockets_are_absent(const void *paths)
{
    char list[1024], *rest = list, *path;
    snprintf(list, sizeof list, "%s", (const char *)paths);
    while ((path = strsep(&rest, ":"))) {
        struct stat status;
        if (stat(path, &status) == 0 && S_ISSOCK(status.st_mode))
            return broke("%s exists", path);
    }
    struct stat status;
    const char *own = host_value("SOCKET");
    if (own && stat(own, &status) == 0)
        return broke("%s exists", own);
    return held("no service of the host has its socket here");
}

#define REACHES(name, controls, variable, label, reach)                                                      \
    {                                                                                                        \
        name, ON_BOTH, RETURNS, controls, object_cannot_be_reached,                                          \
            (&(const struct object){variable, label, reach}), "A " label " of the host cannot be reached."   \
    }
#define LEAVES(name, controls, attack, what)                                                                 \
    {                                                                                                        \
        name, ON_PROCESS, RETURNS, controls, attack, NULL,                                                   \
            "No " what " can be made that would outlive the box."                                            \
    }

static const struct probe rows[] = {
    REACHES("host_shared_memory_cannot_be_reached", "ipc_namespace,seccomp", "SHMID", "shared memory segment",
            reach_segment),
    REACHES("host_message_queue_cannot_be_reached", "ipc_namespace,seccomp", "MSGID", "message queue",
            reach_queue),
    REACHES("host_semaphore_cannot_be_reached", "ipc_namespace,seccomp", "SEMID", "semaphore",
            reach_semaphore),
    REACHES("host_posix_queue_cannot_be_reached", "ipc_namespace,seccomp,landlock", "MQ",
            "POSIX message queue", reach_posix_queue),
    LEAVES("shared_memory_cannot_be_left_behind", "seccomp", segment_cannot_be_made, "shared memory segment"),
    LEAVES("message_queue_cannot_be_left_behind", "seccomp", queue_cannot_be_made, "message queue"),
    LEAVES("semaphore_cannot_be_left_behind", "seccomp", semaphore_cannot_be_made, "semaphore"),
    LEAVES("posix_queue_cannot_be_left_behind", "seccomp,landlock", posix_queue_cannot_be_made,
           "POSIX message queue"),
    {"host_abstract_socket_cannot_be_reached", ON_BOTH, RETURNS, "seccomp,network_namespace,landlock_scope",
     abstract_socket_cannot_be_reached, NULL, "A local socket without a path cannot be connected to."},
    {"host_abstract_names_are_not_taken", ON_CONTAINER, RETURNS, "network_namespace", abstract_names_are_own,
     NULL, "The names of the host's local sockets are free in the box."},
    {"host_path_socket_cannot_be_reached", ON_BOTH, RETURNS, "seccomp,private_root",
     path_socket_cannot_be_reached, NULL,
     "A local socket with a path, open to all, cannot be connected to; Landlock does not control it."},
    {"service_sockets_are_absent", ON_CONTAINER, RETURNS, "private_root", service_sockets_are_absent,
     "/run/docker.sock:/var/run/docker.sock:/run/containerd/containerd.sock:/run/podman/podman.sock:"
     "/run/dbus/system_bus_socket:/run/systemd/private:/run/systemd/notify:/tmp/.X11-unix/X0:/run/crio/"
     "crio.sock:"
     "/run/snapd.socket:/run/libvirt/libvirt-sock:/dev/log",
     "The sockets of the host's services are not there."},
};

PROBE_GROUP(ipc, rows);
