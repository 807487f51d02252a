/* cloche-files: works on the files of a box from inside of it, for a host that asks.
 *
 * The host starts it beside the program, with the box's user and layers: whatever a path leads to, this tool
 * can reach nothing that the program could not. So the host never walks a path that a guest has made.
 *
 *     get PATH OFFSET LENGTH   a line about the file, then its bytes (LENGTH -1: to the end)
 *     put PATH                 what comes on stdin; the old content stays until the new is complete
 *     list PATH DEPTH          a line for each entry
 *     changed PATH SINCE MOST  a line for each regular file below it that was made, written or moved there
 * since (nanoseconds since 1970), at most so many stat PATH   mkdir PATH   move FROM TO   remove PATH watch
 * PATH               a line for each change below it, until it is killed
 *
 * Lines are JSON. One with "error" is the last, and the exit code is then 1. */
#include "lines.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    CHUNK = 1 << 18,
    ENTRIES_MAX = 10000,
    DEPTH_MAX = 64,
    WATCHES_MAX = 1024,
    OPEN_MAX = 16,
    VISITS_MAX = 20000
};

static char chunk[CHUNK];

static int write_all(int fd, const char *bytes, size_t length)
{
    while (length > 0) {
        ssize_t done = write(fd, bytes, length);
        if (done < 0 && errno != EINTR)
            return -1;
        if (done > 0) {
            bytes += done;
            length -= (size_t)done;
        }
    }
    return 0;
}

static int get(const char *path, int64_t offset, int64_t length)
{
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC); /* a pipe without a writer must not hold us up */
    struct stat status;
    if (fd < 0 || fstat(fd, &status) < 0)
        return lines_fail(path, errno);
    if (!S_ISREG(status.st_mode))
        return lines_fail(path, S_ISDIR(status.st_mode) ? EISDIR : EINVAL);
    lines_entry(path, &status);
    lines_flush();
    if (lseek(fd, offset, SEEK_SET) < 0)
        return 1;
    while (length != 0) {
        size_t wanted = length < 0 || length > CHUNK ? CHUNK : (size_t)length;
        ssize_t got = read(fd, chunk, wanted);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return got < 0;
        if (write_all(1, chunk, (size_t)got) < 0)
            return 1;
        length -= length < 0 ? 0 : got;
    }
    return 0;
}

/* mkdir -p of all that is before the last slash. */
static int make_parents(const char *path)
{
    char copy[PATH_MAX];
    if (strlen(path) >= sizeof copy) {
        errno = ENAMETOOLONG;
        return -1;
    }
    strcpy(copy, path);
    for (char *slash = strchr(copy + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdir(copy, 0755) < 0 && errno != EEXIST && errno != EROFS && errno != EACCES)
            return -1;
        *slash = '/';
    }
    return 0;
}

static int copy_in(int fd)
{
    for (;;) {
        ssize_t got = read(0, chunk, sizeof chunk);
        if (got == 0)
            return 0;
        if (got < 0 && errno != EINTR)
            return -1;
        if (got > 0 && write_all(fd, chunk, (size_t)got) < 0)
            return -1;
    }
}

/* What is not whole yet stands beside the place where it will be, under a name that nobody else uses. */
#define PART ".cloche-part-"

static bool is_part(const char *name)
{
    return strncmp(name, PART, strlen(PART)) == 0 && strlen(name) == strlen(PART "XXXXXX");
}

static int put(const char *path)
{
    char part[PATH_MAX];
    const char *slash = strrchr(path, '/');
    int folder = slash ? (int)(slash + 1 - path) : 0;
    if (make_parents(path) < 0)
        return lines_fail(path, errno);
    if (snprintf(part, sizeof part, "%.*s" PART "XXXXXX", folder, path) >= (int)sizeof part)
        return lines_fail(path, ENAMETOOLONG);
    int fd = mkostemp(part, O_CLOEXEC);
    if (fd < 0)
        return lines_fail(path, errno);
    struct stat status;
    mode_t mode = stat(path, &status) == 0 ? status.st_mode & 0777 : 0644;
    if (copy_in(fd) < 0 || fchmod(fd, mode) < 0 || rename(part, path) < 0 || fstat(fd, &status) < 0) {
        int code = errno;
        unlink(part);
        return lines_fail(path, code);
    }
    lines_entry(path, &status);
    return 0;
}

static int entries_left = ENTRIES_MAX;

static int list(const char *path, int depth)
{
    DIR *directory = opendir(path);
    if (!directory)
        return errno;
    struct dirent *entry;
    while ((entry = readdir(directory)) && entries_left > 0) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        char below[PATH_MAX];
        struct stat status;
        const char *slash = path[strlen(path) - 1] == '/' ? "" : "/";
        if (snprintf(below, sizeof below, "%s%s%s", path, slash, entry->d_name) >= (int)sizeof below ||
            lstat(below, &status) < 0)
            continue; /* it has gone meanwhile */
        entries_left--;
        lines_entry(below, &status);
        if (S_ISDIR(status.st_mode) && depth > 1)
            list(below, depth - 1); /* what cannot be opened is an entry without any below it */
    }
    closedir(directory);
    return 0;
}

static int list_all(const char *path, int depth)
{
    int code = list(path, depth < 1 ? 1 : depth > DEPTH_MAX ? DEPTH_MAX : depth);
    if (code)
        return lines_fail(path, code);
    if (entries_left == 0)
        lines_cut(ENTRIES_MAX);
    return 0;
}

/* ---- changed ---- */

static int64_t changed_since_ns;
static int changed_most, changed_count, visits;

/* By the time of change, which the kernel sets and no program can choose. */
static int tell_changed(const char *path, const struct stat *status, int kind, struct FTW *place)
{
    (void)place;
    int64_t changed_ns = (int64_t)status->st_ctim.tv_sec * 1000000000 + status->st_ctim.tv_nsec;
    bool is_one = kind == FTW_F && S_ISREG(status->st_mode) && changed_ns >= changed_since_ns;
    if (++visits > VISITS_MAX || (is_one && changed_count == changed_most)) {
        lines_cut(changed_count);
        return 1;
    }
    if (is_one) {
        changed_count++;
        lines_entry(path, status);
    }
    return 0;
}

static int changed(const char *path, int64_t since_ns, int most)
{
    changed_since_ns = since_ns;
    changed_most = most;
    return nftw(path, tell_changed, OPEN_MAX, FTW_PHYS) < 0 ? lines_fail(path, errno) : 0;
}

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *place)
{
    (void)status, (void)kind, (void)place;
    return remove(path) < 0 && errno != ENOENT ? -1 : 0;
}

static int report(const char *path, int result)
{
    struct stat status;
    if (result < 0 || lstat(path, &status) < 0)
        return lines_fail(path, errno);
    lines_entry(path, &status);
    return 0;
}

static int remove_all(const char *path)
{
    struct stat status;
    if (lstat(path, &status) < 0 || nftw(path, remove_one, OPEN_MAX, FTW_DEPTH | FTW_PHYS) < 0)
        return lines_fail(path, errno);
    lines_change("removed", path);
    return 0;
}

static int make_directory(const char *path)
{
    if (make_parents(path) < 0)
        return lines_fail(path, errno);
    return report(path, mkdir(path, 0755) < 0 && errno != EEXIST ? -1 : 0);
}

static int move(const char *from, const char *to)
{
    struct stat status;
    if (lstat(from, &status) < 0) /* else it would look as if `to` were missing */
        return lines_fail(from, errno);
    if (make_parents(to) < 0)
        return lines_fail(to, errno);
    return report(to, rename(from, to));
}

/* ---- watch ---- */

static struct watch {
    int number;
    char *path;
} watches[WATCHES_MAX];
static int watch_count, inotify_fd;

static int add_watch(const char *path, const struct stat *status, int kind, struct FTW *place)
{
    (void)status, (void)place;
    if (kind != FTW_D || watch_count == WATCHES_MAX)
        return 0;
    int number = inotify_add_watch(inotify_fd, path,
                                   IN_CREATE | IN_CLOSE_WRITE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO |
                                       IN_ONLYDIR | IN_DONT_FOLLOW);
    if (number >= 0)
        watches[watch_count++] = (struct watch){number, strdup(path)};
    return 0;
}

static void tell(const struct inotify_event *event)
{
    static const struct {
        uint32_t mask;
        const char *name;
    } names[] = {{IN_CREATE, "created"},
                 {IN_CLOSE_WRITE, "written"},
                 {IN_DELETE, "removed"},
                 {IN_MOVED_FROM, "removed"},
                 {IN_MOVED_TO, "created"}};
    for (int i = 0; i < watch_count; i++) {
        if (watches[i].number != event->wd || !watches[i].path || event->len == 0)
            continue;
        if (is_part(event->name))
            return; /* it is told when it is there */
        char path[PATH_MAX];
        if (snprintf(path, sizeof path, "%s/%s", watches[i].path, event->name) >= (int)sizeof path)
            return;
        for (size_t k = 0; k < sizeof names / sizeof *names; k++)
            if (event->mask & names[k].mask)
                lines_change(names[k].name, path);
        if (event->mask & IN_ISDIR && event->mask & (IN_CREATE | IN_MOVED_TO))
            nftw(path, add_watch, OPEN_MAX, FTW_PHYS);
        return;
    }
}

static int watch(const char *path)
{
    struct stat status;
    inotify_fd = inotify_init1(IN_CLOEXEC);
    if (inotify_fd < 0 || lstat(path, &status) < 0)
        return lines_fail(path, errno);
    if (!S_ISDIR(status.st_mode))
        return lines_fail(path, ENOTDIR);
    nftw(path, add_watch, OPEN_MAX, FTW_PHYS);
    lines_change("watching", path);
    lines_flush();
    for (;;) {
        static char events[65536] __attribute__((aligned(8)));
        ssize_t length = read(inotify_fd, events, sizeof events);
        if (length < 0 && errno != EINTR)
            return lines_fail(path, errno);
        for (ssize_t at = 0; at < length;) {
            const struct inotify_event *event = (const struct inotify_event *)(events + at);
            tell(event);
            at += (ssize_t)(sizeof *event + event->len);
        }
        if (lines_flush() < 0)
            return 1;
    }
}

static int act(int count, char **words)
{
    const char *verb = words[1], *path = words[2];
    struct stat status;
    if (strcmp(verb, "get") == 0 && count == 5)
        return get(path, atoll(words[3]), atoll(words[4]));
    if (strcmp(verb, "put") == 0 && count == 3)
        return put(path);
    if (strcmp(verb, "list") == 0 && count == 4)
        return list_all(path, atoi(words[3]));
    if (strcmp(verb, "changed") == 0 && count == 5)
        return changed(path, atoll(words[3]), atoi(words[4]));
    if (strcmp(verb, "stat") == 0 && count == 3)
        return lstat(path, &status) < 0 ? lines_fail(path, errno) : (lines_entry(path, &status), 0);
    if (strcmp(verb, "mkdir") == 0 && count == 3)
        return make_directory(path);
    if (strcmp(verb, "move") == 0 && count == 4)
        return move(path, words[3]);
    if (strcmp(verb, "remove") == 0 && count == 3)
        return remove_all(path);
    if (strcmp(verb, "watch") == 0 && count == 3)
        return watch(path);
    return lines_fail(path, ENOSYS);
}

int main(int count, char **words)
{
    if (count < 3 || !words[2][0])
        return lines_fail("", EINVAL), lines_flush(), 1;
    int result = act(count, words);
    return lines_flush() < 0 ? 1 : result;
}
