#include "engine/watchdog.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/scope.h"
#include "engine/nameless.h"
#include "os/directory.h"
#include "os/hardening.h"
#include "os/process_tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    CLOSE_LOOK_HOLDS_US = 50000,
    CLOSE_LOOK_MOST_US = 20000,
    NEIGHBOURS = 8, /* who shares memory weighs the same, and so stands beside */
    DISK_PERIOD_US = 100000,
    DISK_PAUSE_MOST_US = 200000,
    DISK_DEPTH = 64
};

/* Fields of /proc/PID/stat behind the name, which may hold anything, spaces and parentheses included. */
static bool read_stat(pid_t pid, struct watched_process *ret, int64_t *ret_waited_ticks, int64_t *ret_threads)
{
    char path[48], text[1024];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    if (file_read_attribute(AT_FDCWD, path, text, sizeof text) <= 0)
        return false;
    const char *rest = strrchr(text, ')');
    unsigned long user, system;
    long children_user, children_system, threads;
    unsigned long long started;
    if (!rest ||
        sscanf(rest + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu %ld %ld %*d %*d %ld %*d %llu",
               &user, &system, &children_user, &children_system, &threads, &started) != 6)
        return false;
    *ret =
        (struct watched_process){.pid = pid, .started = started, .user_ticks = user, .system_ticks = system};
    *ret_waited_ticks += children_user + children_system;
    *ret_threads += threads;
    return true;
}

static int64_t read_kilobytes(const char *path, const char *const *keys, bool *ret_found)
{
    char text[4096];
    *ret_found = false;
    if (file_read_attribute(AT_FDCWD, path, text, sizeof text) <= 0)
        return 0;
    int64_t sum = 0;
    for (; *keys; keys++) {
        const char *line = strstr(text, *keys);
        sum += line ? strtoll(line + strlen(*keys), NULL, 10) * 1024 : 0;
        *ret_found |= line != NULL;
    }
    return sum;
}

/* The memory of a process whose first thread has ended is told by its other threads only. -1: nobody tells.
 */
static int64_t read_memory(pid_t pid, const char *file, const char *const *keys)
{
    char path[96];
    bool found;
    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, file);
    int64_t bytes = read_kilobytes(path, keys, &found);
    if (found)
        return bytes;
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    scope_dir *threads = opendir(path);
    struct dirent *entry;
    while (!found && threads && (entry = readdir(threads))) {
        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "/proc/%.20s/%s", entry->d_name, file);
        bytes = read_kilobytes(path, keys, &found);
    }
    return found ? bytes : -1;
}

static const char *const plain_keys[] = {"\nRssAnon:", "\nRssShmem:", "\nVmPTE:", "\nVmSwap:", NULL};

static int compare_heavier(const void *one, const void *other)
{
    int64_t a = ((const struct watched_weight *)one)->bytes,
            b = ((const struct watched_weight *)other)->bytes;
    return a < b ? 1 : a > b ? -1 : 0;
}

/* Two that share their memory, as a child does until it has executed its program. */
static bool shares_memory(pid_t one, pid_t other)
{
    enum { KCMP_VM_ = 1 };
    return syscall(SYS_kcmp, one, other, KCMP_VM_, 0, 0) == 0;
}

/* Marks who shares the memory of the one at `at` now, of those behind it; returns whether anybody does. */
static bool mark_twins(struct watched_weight *weights, size_t count, size_t at)
{
    bool has_twins = false;
    const pid_t pid = weights[at].pid;
    for (size_t i = at + 1; i < count && i - at < NEIGHBOURS; i++) {
        if (weights[i].twin_of && weights[i].twin_of != pid)
            continue;
        weights[i].twin_of = shares_memory(pid, weights[i].pid) ? pid : 0;
        has_twins |= weights[i].twin_of != 0;
    }
    return has_twins;
}

/* -1: nobody tells. */
static int64_t read_share(pid_t pid)
{
    static const char *const proportional[] = {"\nPss_Anon:", "\nPss_Shmem:", "\nSwapPss:", NULL};
    static const char *const page_tables[] = {"\nVmPTE:", NULL};
    int64_t share = read_memory(pid, "smaps_rollup", proportional);
    int64_t tables = share < 0 ? 0 : read_memory(pid, "status", page_tables);
    return share < 0 ? share : share + (tables > 0 ? tables : 0);
}

/* Of one, and of all that share its memory with it, which are passed over. To read it takes milliseconds, in
 * which it may execute another program: then it is not known what was read, and the others are on their own.
 */
static int64_t read_share_of_twins(struct watched_weight *weights, size_t count, size_t at)
{
    bool had_twins = mark_twins(weights, count, at);
    int64_t share = read_share(weights[at].pid);
    return had_twins && !mark_twins(weights, count, at) ? read_share(weights[at].pid) : share;
}

/* Pages that forked processes share are counted by their proportional share. That walks every page of each of
 * them, and a program can make it take a second: so the heaviest come first, and it ends when it has seen
 * enough, or has looked for long enough. Of the rest all that they can see counts as their own. */
static int64_t sum_proportional(struct watched_weight *weights, size_t count, int64_t limit)
{
    const int64_t until_us = clock_monotonic_us() + CLOSE_LOOK_MOST_US;
    int64_t sum = 0;
    qsort(weights, count, sizeof *weights, compare_heavier);
    for (size_t i = 0; i < count && sum <= limit; i++) {
        bool is_late = clock_monotonic_us() > until_us;
        if (weights[i].twin_of)
            continue;
        int64_t share = is_late ? -1 : read_share_of_twins(weights, count, i);
        /* A process can hide its pages from its own user, and then all of them count as its own. One that has
         * ended meanwhile tells nothing here either, but has none any more. */
        if (share < 0)
            share = read_memory(weights[i].pid, "status", plain_keys);
        sum += share > 0 ? share : 0;
    }
    return sum;
}

/* Private and shared memory, without what is mapped from files on a disk. Shared pages are counted once for
 * each process at first, which is cheap. When that is over the limit it is looked at closely; for a short
 * while then, what comes on top of that look counts. Not for longer: pages that stop being shared do not show
 * in the cheap sum. */
static int64_t sum_memory(struct watchdog *watchdog, const pid_t *pids, size_t count, int64_t limit)
{
    int64_t sum = 0;
    for (size_t i = 0; i < count; i++) {
        int64_t one = read_memory(pids[i], "status", plain_keys);
        if (one > limit)
            return one; /* no sharing makes that less */
        watchdog->weights[i] = (struct watched_weight){.pid = pids[i], .bytes = one > 0 ? one : 0};
        sum += watchdog->weights[i].bytes;
    }
    if (sum <= limit)
        return sum;
    int64_t now_us = clock_monotonic_us(), grown = sum - watchdog->plain_at_close_look;
    int64_t estimate = watchdog->close_look_bytes + (grown > 0 ? grown : 0);
    if (now_us - watchdog->close_looked_us >= CLOSE_LOOK_HOLDS_US || estimate > limit) {
        watchdog->close_look_bytes = sum_proportional(watchdog->weights, count, limit);
        watchdog->plain_at_close_look = sum;
        watchdog->close_looked_us = clock_monotonic_us();
        estimate = watchdog->close_look_bytes;
    }
    return estimate;
}

/* CPU time of those that are gone is in their parent's account only if it waited for them: what was last seen
 * of each is added up here. */
static void account_for_the_gone(struct watchdog *watchdog, const struct watched_process *living,
                                 size_t count)
{
    for (size_t i = 0; i < watchdog->seen_count; i++) {
        const struct watched_process *before = &watchdog->seen[i];
        bool lives = false;
        for (size_t j = 0; !lives && j < count; j++)
            lives = living[j].pid == before->pid && living[j].started == before->started;
        if (!lives) {
            watchdog->gone_user_ticks += before->user_ticks;
            watchdog->gone_system_ticks += before->system_ticks;
        }
    }
    memcpy(watchdog->seen, living, count * sizeof *living);
    watchdog->seen_count = count;
}

/* Of the reasons why something cannot be counted: those that a guest can bring about, not the host's own
 * trouble. */
static bool is_the_guests_doing(int error_number)
{
    return error_number == EACCES || error_number == EPERM || error_number == ENAMETOOLONG;
}

/* Without a trace in the access time, by which a guest could tell what has been looked at. */
static int open_for_look(int parent_fd, const char *name)
{
    const int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    int fd = openat(parent_fd, name, flags | O_NOATIME);
    return fd < 0 && errno == EPERM ? openat(parent_fd, name, flags) : fd;
}

/* Counts as too much, or, where it is us who are short of something, as no less than before. */
static void note_unseen(struct watchdog *watchdog, int error_number)
{
    watchdog->is_uncountable |= is_the_guests_doing(error_number);
    watchdog->look_is_partial |= error_number == EMFILE || error_number == ENFILE || error_number == ENOMEM;
}

/* Takes the descriptor. One for each level: a launcher may have few. */
static void sum_directory(int dir_fd, int depth, struct watchdog *watchdog, int64_t entries_max)
{
    scope_dir *dir = fdopendir(dir_fd);
    struct dirent *entry;
    if (!dir) {
        note_unseen(watchdog, errno);
        close(dir_fd);
    } else {
        rewinddir(dir); /* somebody may have looked whether it is empty */
    }
    while (dir && (entry = readdir(dir)) && watchdog->disk_entries <= entries_max &&
           !watchdog->is_uncountable) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        struct stat status;
        if (fstatat(dir_fd, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) < 0) {
            note_unseen(watchdog, errno);
            continue;
        }
        watchdog->disk_entries++;
        /* A file of several names is met once for each; and of one that is being removed the name may be
         * there for a moment longer than its link. */
        int64_t names = S_ISDIR(status.st_mode) || status.st_nlink == 0 ? 1 : (int64_t)status.st_nlink;
        watchdog->disk_bytes += (int64_t)status.st_blocks * 512 / names;
        if (!S_ISDIR(status.st_mode))
            continue;
        int below = depth < DISK_DEPTH ? open_for_look(dir_fd, entry->d_name) : -1;
        if (below >= 0)
            sum_directory(below, depth + 1, watchdog, entries_max);
        else
            note_unseen(watchdog, depth == DISK_DEPTH ? ENAMETOOLONG : errno);
    }
}

/* Where nobody is any more, what can be removed is empty: that is one question instead of ten. What is in the
 * last place is collected. */
static bool has_gone(const struct box *box, const char *place)
{
    return box->is_reaped && strcmp(place, "output") != 0 &&
           unlinkat(box->scratch_fd, place, AT_REMOVEDIR) == 0;
}

/* Files in memory are as fast as memory, and to walk through all of them takes far longer than to ask what
 * the file system has left. */
static struct watched_room ask_room(const struct box *box)
{
    struct statfs space;
    if (!box->identity->is_in_memory || box->is_reaped || fstatfs(box->scratch_fd, &space) < 0)
        return (struct watched_room){0};
    return (struct watched_room){.is_known = true,
                                 .bytes = (int64_t)space.f_bavail * (int64_t)space.f_bsize,
                                 .inodes = (int64_t)space.f_ffree};
}

/* Only if others and the box together took what was left to the box can it have passed its limit. */
static bool can_be_over(const struct watchdog *watchdog, const struct box *box,
                        const struct watched_room *room)
{
    const int64_t *limit = box->limits->value;
    const struct watched_room *before = &watchdog->room_at_look;
    return room->is_known && before->is_known &&
           (before->bytes - room->bytes > limit[LIMIT_disk] - watchdog->disk_bytes ||
            before->inodes - room->inodes > limit[LIMIT_inodes] - watchdog->disk_entries);
}

static void look_at_disk(struct watchdog *watchdog, const struct box *box)
{
    static const char *const places[] = {"tmp", "home", "output"};
    int64_t now_us = clock_monotonic_us();
    struct watched_room room = ask_room(box);
    if (!box->is_reaped && now_us - watchdog->disk_looked_us < DISK_PERIOD_US &&
        !can_be_over(watchdog, box, &room))
        return;
    const int64_t bytes_before = watchdog->disk_bytes, entries_before = watchdog->disk_entries;
    watchdog->disk_bytes = watchdog->disk_entries = 0;
    watchdog->look_is_partial = watchdog->is_uncountable = false;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        if (has_gone(box, places[i]))
            continue;
        scope_fd place = open_for_look(box->scratch_fd, places[i]);
        if (place >= 0 && box->is_reaped && directory_is_empty(place))
            continue;
        if (place >= 0)
            sum_directory(take_fd(&place), 0, watchdog, box->limits->value[LIMIT_inodes]);
        else
            note_unseen(watchdog, errno);
    }
    if (!box->is_reaped)
        watchdog->is_uncountable |= !nameless_sum(watchdog, box, &watchdog->disk_bytes);
    if (watchdog->look_is_partial && watchdog->disk_bytes < bytes_before)
        watchdog->disk_bytes = bytes_before;
    if (watchdog->look_is_partial && watchdog->disk_entries < entries_before)
        watchdog->disk_entries = entries_before;
    watchdog->room_at_look = room;
    /* A walk that takes long is made less often: it must not become a load itself. */
    int64_t pause_us = 5 * (clock_monotonic_us() - now_us);
    watchdog->disk_looked_us =
        clock_monotonic_us() + (pause_us < DISK_PAUSE_MOST_US ? pause_us : DISK_PAUSE_MOST_US);
}

static void measure_living(struct watchdog *watchdog, const struct box *box, struct measurement *now)
{
    pid_t *pids = watchdog->pids;
    struct watched_process living[WATCHDOG_PROCESSES];
    int64_t waited_ticks = 0, own_ticks = 0, threads = 0, init_threads = 0;
    size_t count = process_tree_list(watchdog->init, pids, sizeof watchdog->pids / sizeof *pids), known = 0;
    struct watched_process process;
    watchdog->pid_count = count;
    for (size_t i = 0; i < count; i++) {
        if (!read_stat(pids[i], &process, &waited_ticks, &threads))
            continue;
        own_ticks += process.user_ticks + process.system_ticks;
        if (known < WATCHDOG_PROCESSES)
            living[known++] = process;
    }
    if (read_stat(watchdog->init, &process, &waited_ticks, &init_threads))
        own_ticks += process.user_ticks + process.system_ticks;
    account_for_the_gone(watchdog, living, known);
    int64_t user = watchdog->gone_user_ticks, system = watchdog->gone_system_ticks;
    for (size_t i = 0; i < known; i++) {
        user += living[i].user_ticks;
        system += living[i].system_ticks;
    }
    /* Both sums are lower bounds: one misses the short-lived, the other those that nobody waits for. */
    if (own_ticks + waited_ticks > user + system)
        user = own_ticks + waited_ticks - system;
    long tick_us = 1000000 / sysconf(_SC_CLK_TCK);
    now->cpu_user_us = user * tick_us;
    now->cpu_system_us = system * tick_us;
    now->pids = threads;
    if (box->group.version == CGROUP_NONE) /* else that tells, and better */
        now->memory_bytes = sum_memory(watchdog, pids, count, box->limits->value[LIMIT_memory]);
}

void watchdog_measure(struct watchdog *watchdog, const struct box *box, struct measurement *now)
{
    if (box->is_reaped) {
        now->cpu_user_us = box->reaped_user_us;
        now->cpu_system_us = box->reaped_system_us;
        now->pids = 0;
        now->memory_bytes = 0;
    } else {
        measure_living(watchdog, box, now);
    }
    if (now->memory_bytes > now->peak_memory_bytes)
        now->peak_memory_bytes = now->memory_bytes;
    if (now->pids < box->counted_pids) /* by init, when the program had ended */
        now->pids = box->counted_pids;
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
    now->inodes_are_full =
        !hardening_removed(watchdog) && watchdog->disk_entries > box->limits->value[LIMIT_inodes];
    now->disk_is_full = now->inodes_are_full || (!hardening_removed(watchdog) && watchdog->is_uncountable);
}

bool watchdog_owns(const struct watchdog *watchdog, pid_t pid)
{
    return watchdog_is_below(watchdog->init, pid);
}

bool watchdog_is_below(pid_t init, pid_t pid)
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
        if (next == init)
            return true;
        pid = next;
    }
    return false;
}
