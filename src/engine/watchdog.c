#include "engine/watchdog.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/scope.h"
#include "os/hardening.h"
#include "os/process_tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DISK_PERIOD_US = 100000, DISK_DEPTH = 64 };

/* Fields of /proc/PID/stat behind the name, which may hold anything, spaces and parentheses included. */
static bool read_stat(pid_t pid, int64_t *ret_user_ticks, int64_t *ret_system_ticks, int64_t *ret_threads)
{
    char path[48], text[1024];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    if (file_read_attribute(AT_FDCWD, path, text, sizeof text) <= 0)
        return false;
    const char *rest = strrchr(text, ')');
    unsigned long user, system;
    long children_user, children_system, threads;
    if (!rest || sscanf(rest + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu %ld %ld %*d %*d %ld",
                        &user, &system, &children_user, &children_system, &threads) != 5)
        return false;
    *ret_user_ticks += (int64_t)user + children_user;
    *ret_system_ticks += (int64_t)system + children_system;
    *ret_threads += threads;
    return true;
}

static int64_t read_kilobytes(pid_t pid, const char *file, const char *const *keys)
{
    char path[48], text[4096];
    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, file);
    if (file_read_attribute(AT_FDCWD, path, text, sizeof text) <= 0)
        return 0;
    int64_t sum = 0;
    for (; *keys; keys++) {
        const char *line = strstr(text, *keys);
        if (line)
            sum += strtoll(line + strlen(*keys), NULL, 10) * 1024;
    }
    return sum;
}

/* Private and shared memory, without what is mapped from files. Pages that forked processes share are counted
 * once for each at first, which is cheap; only when that is over the limit, by their proportional share. */
static int64_t sum_memory(const pid_t *pids, size_t count, int64_t limit)
{
    static const char *const plain[] = {"\nRssAnon:", "\nRssShmem:", "\nVmPTE:", NULL};
    static const char *const proportional[] = {"\nPss_Anon:", "\nPss_Shmem:", NULL};
    int64_t sum = 0, exact = 0;
    for (size_t i = 0; i < count; i++)
        sum += read_kilobytes(pids[i], "status", plain);
    if (sum <= limit || count == 1)
        return sum;
    for (size_t i = 0; i < count; i++)
        exact += read_kilobytes(pids[i], "smaps_rollup", proportional);
    return exact > 0 ? exact : sum;
}

static void sum_directory(int dir_fd, int depth, struct watchdog *watchdog, int64_t entries_max)
{
    int copy = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    scope_dir *dir = copy < 0 ? NULL : fdopendir(copy);
    struct dirent *entry;
    while (dir && (entry = readdir(dir)) && watchdog->disk_entries <= entries_max) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        struct stat status;
        if (fstatat(copy, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) < 0)
            continue;
        watchdog->disk_entries++;
        watchdog->disk_bytes += (int64_t)status.st_blocks * 512;
        if (!S_ISDIR(status.st_mode))
            continue;
        scope_fd below = -1;
        if (depth < DISK_DEPTH)
            below = openat(copy, entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (below >= 0)
            sum_directory(below, depth + 1, watchdog, entries_max);
        else if (depth == DISK_DEPTH || errno == EACCES) /* what cannot be counted counts as too much */
            watchdog->disk_entries = entries_max + 1;
    }
}

static void look_at_disk(struct watchdog *watchdog, const struct box *box)
{
    static const char *const places[] = {"tmp", "home", "output"};
    int64_t now_us = clock_monotonic_us();
    if (!box->is_reaped && now_us - watchdog->disk_looked_us < DISK_PERIOD_US)
        return;
    watchdog->disk_bytes = watchdog->disk_entries = 0;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        scope_fd place = openat(box->scratch_fd, places[i], O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (place >= 0)
            sum_directory(place, 0, watchdog, box->limits->value[LIMIT_inodes]);
    }
    /* A walk that takes long is made less often: it must not become a load itself. */
    watchdog->disk_looked_us = clock_monotonic_us() + 5 * (clock_monotonic_us() - now_us);
}

void watchdog_measure(struct watchdog *watchdog, const struct box *box, struct measurement *now)
{
    pid_t *pids = watchdog->pids;
    enum { PIDS_MAX = sizeof watchdog->pids / sizeof *watchdog->pids };
    int64_t user = 0, system = 0, threads = 0;
    if (box->is_reaped) {
        now->cpu_user_us = box->reaped_user_us;
        now->cpu_system_us = box->reaped_system_us;
        now->pids = 0;
        now->memory_bytes = 0;
    } else {
        size_t count = process_tree_list(watchdog->init, pids, PIDS_MAX);
        for (size_t i = 0; i < count; i++)
            read_stat(pids[i], &user, &system, &threads);
        int64_t init_threads = 0;
        read_stat(watchdog->init, &user, &system, &init_threads);
        long tick_us = 1000000 / sysconf(_SC_CLK_TCK);
        now->cpu_user_us = user * tick_us;
        now->cpu_system_us = system * tick_us;
        now->pids = threads;
        now->memory_bytes = sum_memory(pids, count, box->limits->value[LIMIT_memory]);
    }
    if (now->memory_bytes > now->peak_memory_bytes)
        now->peak_memory_bytes = now->memory_bytes;
    if (now->pids > watchdog->peak_pids)
        watchdog->peak_pids = now->pids;
    now->peak_pids = watchdog->peak_pids;
    if (hardening_removed(watchdog))
        now->memory_bytes = now->pids = now->cpu_user_us = now->cpu_system_us = 0;
}

void watchdog_measure_disk(struct watchdog *watchdog, const struct box *box, struct measurement *now)
{
    look_at_disk(watchdog, box);
    now->disk_bytes = hardening_removed(watchdog) ? 0 : watchdog->disk_bytes;
    now->disk_is_full = !hardening_removed(watchdog) && watchdog->disk_entries > box->limits->value[LIMIT_inodes];
}

bool watchdog_owns(const struct watchdog *watchdog, pid_t pid)
{
    /* Up the line of parents: cheap, and right for threads too, whose Tgid is asked first. */
    for (int depth = 0; pid > 1 && depth < 4096; depth++) {
        static const char *const group[] = {"\nTgid:", NULL}, *const parent[] = {"\nPPid:", NULL};
        char path[48], text[4096];
        snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
        if (file_read_attribute(AT_FDCWD, path, text, sizeof text) <= 0)
            return false;
        const char *line = strstr(text, group[0]);
        pid_t leader = line ? (pid_t)strtol(line + strlen(group[0]), NULL, 10) : 0;
        line = strstr(text, parent[0]);
        pid_t next = line ? (pid_t)strtol(line + strlen(parent[0]), NULL, 10) : 0;
        if (leader != pid && depth == 0) {
            pid = leader;
            continue;
        }
        if (next == watchdog->init)
            return true;
        pid = next;
    }
    return false;
}
