#include "os/process_tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LIST_SIZE = 4096 };

/* /proc/PID/task/TID/children lists the children of one thread; a program may fork from any of its threads.
 */
static size_t children_of_thread(const char *path, pid_t *into, size_t size)
{
    char text[8192];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    size_t count = 0, kept = 0;
    ssize_t length;
    while ((length = read(fd, text + kept, sizeof text - 1 - kept)) > 0) {
        text[kept + (size_t)length] = '\0';
        char *at = text;
        for (char *space; (space = strchr(at, ' ')); at = space + 1) {
            pid_t pid = (pid_t)strtol(at, NULL, 10);
            if (pid > 0 && count < size)
                into[count++] = pid;
        }
        kept = strlen(at);
        memmove(text, at, kept + 1);
        if (kept == sizeof text - 1)
            break;
    }
    close(fd);
    return count;
}

static size_t children_of(pid_t pid, pid_t *into, size_t size)
{
    char path[96];
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *threads = opendir(path);
    size_t count = 0;
    struct dirent *entry;
    while (threads && (entry = readdir(threads))) {
        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "/proc/%d/task/%.20s/children", (int)pid, entry->d_name);
        count += children_of_thread(path, into + count, size - count);
    }
    if (threads)
        closedir(threads);
    return count;
}

size_t process_tree_list(pid_t root, pid_t *into, size_t size)
{
    size_t count = children_of(root, into, size);
    for (size_t next = 0; next < count; next++)
        count += children_of(into[next], into + count, size - count);
    return count;
}

static bool has_children_left(void)
{
    pid_t pid;
    do
        pid = waitpid(-1, NULL, WNOHANG | __WALL);
    while (pid > 0);
    return pid == 0 || errno != ECHILD;
}

static pid_t pids[LIST_SIZE];

size_t process_tree_count_children(void)
{
    return has_children_left() ? process_tree_list(getpid(), pids, LIST_SIZE) : 0;
}

/* Whatever the caller believes: a signal of root's to everyone would end the machine. */
static bool may_signal_all(bool own_uid)
{
    return own_uid && geteuid() != 0;
}

void process_tree_signal_children(bool own_uid, int signal_number)
{
    enum { TIMES = 2 }; /* what was forked while the first went round is reached by the second */
    for (int i = 0; i < TIMES; i++) {
        size_t count = may_signal_all(own_uid) ? 0 : process_tree_list(getpid(), pids, LIST_SIZE);
        if (may_signal_all(own_uid))
            kill(-1, signal_number);
        for (size_t child = 0; child < count; child++)
            kill(pids[child], signal_number);
    }
}

bool process_tree_kill_children(bool own_uid)
{
    own_uid = may_signal_all(own_uid);
    for (int attempt = 0; attempt < 30000; attempt++) {
        if (!has_children_left()) /* most often at once: a signal to everyone looks at all processes there are
                                   */
            return true;
        if (own_uid) {
            kill(-1, SIGKILL);
        } else {
            size_t count = process_tree_list(getpid(), pids, LIST_SIZE);
            for (size_t i = 0; i < count; i++)
                kill(pids[i], SIGSTOP);
            count = process_tree_list(getpid(), pids, LIST_SIZE);
            for (size_t i = 0; i < count; i++)
                kill(pids[i], SIGKILL);
        }
        if (!has_children_left())
            return true;
        usleep(1000);
    }
    return false;
}
