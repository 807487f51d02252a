#include "os/cgroup/cgroup.h"

#include "base/file.h"
#include "base/scope.h"
#include "os/hardening.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CPU_PERIOD_US = 100000 };

static int group_open_directories(struct cgroup *group, bool make)
{
    for (int i = 0; i < CGROUP_CONTROLLERS; i++) {
        if (!group->base[i][0] || (group->version == CGROUP_V2 && i != CGROUP_MEMORY))
            continue;
        char path[400];
        snprintf(path, sizeof path, "%s/%s", group->base[i], group->name);
        if (make && mkdir(path, 0700) < 0 && errno != EEXIST) /* nobody else may hold it: see group_hold */
            return -errno; /* EEXIST: cpu and cpuacct are often one hierarchy */
        group->dir_fd[i] = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (group->dir_fd[i] < 0 && make)
            return -errno;
        if (make && group->version == CGROUP_V1) {
            group->join_fd[i] = openat(group->dir_fd[i], "tasks", O_WRONLY | O_CLOEXEC);
            if (group->join_fd[i] < 0)
                return -errno;
        }
    }
    return 0;
}

/* Who holds it is its owner: a lock on its first directory, which ends with him, however he ends. */
static int group_hold(const struct cgroup *group)
{
    for (int i = 0; i < CGROUP_CONTROLLERS; i++)
        if (group->dir_fd[i] >= 0)
            return flock(group->dir_fd[i], LOCK_EX | LOCK_NB) < 0 ? -errno : 0;
    return 0;
}

static void group_close(struct cgroup *group)
{
    for (int i = 0; i < CGROUP_CONTROLLERS; i++) {
        scope_close_fd(&group->dir_fd[i]);
        scope_close_fd(&group->join_fd[i]);
    }
}

static int group_dir(const struct cgroup *group, enum cgroup_controller controller)
{
    return group->version == CGROUP_V2 ? group->dir_fd[CGROUP_MEMORY] : group->dir_fd[controller];
}

struct attribute {
    enum cgroup_controller controller;
    const char *file;
    bool may_be_missing; /* the kernel was built without it, and that is harmless */
    bool is_proof;       /* read back by cgroup_verify */
    char value[32];
};

static bool host_has_swap(void)
{
    char text[512];
    if (file_read_attribute(AT_FDCWD, "/proc/swaps", text, sizeof text) <= 0)
        return true;
    const char *second_line = strchr(text, '\n');
    return second_line && second_line[1];
}

/* The limits as files and values, in the order in which they must be written (v1 wants the memory limit
 * before the limit of memory and swap). Returns how many. */
static int group_attributes(const struct cgroup *group, const struct cgroup_limits *limits, bool verifying,
                            struct attribute *into)
{
    (void)verifying; /* differs only in the test program: a removed limit may still be looked for */
    int count = 0;
    bool v2 = group->version == CGROUP_V2;
#define WANTED(step) (verifying ? hardening_verified(step) : !hardening_removed(step))
#define ADD(ctl, name, missing, proof, ...)                                                                  \
    do {                                                                                                     \
        into[count] = (struct attribute){ctl, name, missing, proof, ""};                                     \
        snprintf(into[count].value, sizeof into[count].value, __VA_ARGS__);                                  \
        count++;                                                                                             \
    } while (0)
    if (limits->memory_bytes && WANTED(cgroup_memory)) {
        /* Whole pages: the kernel rounds down, and the proof compares. */
        long long bytes = (long long)(limits->memory_bytes & ~(int64_t)4095);
        ADD(CGROUP_MEMORY, v2 ? "memory.max" : "memory.limit_in_bytes", false, true, "%lld", bytes);
        if (v2) {
            ADD(CGROUP_MEMORY, "memory.swap.max", !host_has_swap(), true, "0");
            ADD(CGROUP_MEMORY, "memory.oom.group", true, false, "1");
        } else {
            ADD(CGROUP_MEMORY, "memory.memsw.limit_in_bytes", !host_has_swap(), true, "%lld", bytes);
        }
    }
    if (limits->pids && WANTED(cgroup_pids))
        ADD(CGROUP_PIDS, "pids.max", false, true, "%lld", (long long)limits->pids);
    if (limits->millicpus && WANTED(cgroup_cpu)) {
        long long quota = (long long)limits->millicpus * CPU_PERIOD_US / 1000;
        if (v2) {
            ADD(CGROUP_CPU, "cpu.max", false, true, "%lld %d", quota, CPU_PERIOD_US);
        } else {
            ADD(CGROUP_CPU, "cpu.cfs_period_us", false, false, "%d", CPU_PERIOD_US);
            ADD(CGROUP_CPU, "cpu.cfs_quota_us", false, true, "%lld", quota);
        }
    }
#undef ADD
#undef WANTED
    return count;
}

static int write_attribute(const struct cgroup *group, const struct attribute *attribute)
{
    return file_write_attribute(group_dir(group, attribute->controller), attribute->file, attribute->value);
}

int cgroup_limit(const struct cgroup *group, const struct cgroup_limits *limits, struct error *err)
{
    struct attribute attributes[8];
    int count = group_attributes(group, limits, false, attributes);
    for (int i = 0; i < count; i++) {
        int status = write_attribute(group, &attributes[i]);
        /* v1: memory may not be above memory and swap together, which come next; where limits that stand are
         * raised, those go first. */
        if (status == -EINVAL && group->version == CGROUP_V1 && i + 1 < count &&
            attributes[i].controller == CGROUP_MEMORY && write_attribute(group, &attributes[i + 1]) == 0)
            status = write_attribute(group, &attributes[i]);
        if (status < 0 && !(attributes[i].may_be_missing && status == -ENOENT))
            return error_layer(err, "cgroup", status, "cannot set %s to %s", attributes[i].file,
                               attributes[i].value);
    }
    return 0;
}

int cgroup_create(const struct cgroup_layout *layout, const char *name, const struct cgroup_limits *limits,
                  struct cgroup *ret, struct error *err)
{
    struct cgroup group = CGROUP_UNSET;
    group.version = layout->version;
    snprintf(group.name, sizeof group.name, "%s", name);
    memcpy(group.base, layout->base, sizeof group.base);
    int status = group_open_directories(&group, true);
    if (status == 0 && group_hold(&group) == -EWOULDBLOCK) {
        group_close(&group); /* nothing of it is ours to take back */
        return error_host(err, -EBUSY, "the control group %s/%s is another's", group.base[CGROUP_MEMORY],
                          name);
    }
    if (status < 0) {
        cgroup_destroy(&group);
        return error_host(err, status, "cannot make the control group %s/%s", group.base[CGROUP_MEMORY],
                          name);
    }
    status = limits ? cgroup_limit(&group, limits, err) : 0;
    if (status < 0) {
        cgroup_destroy(&group);
        return status;
    }
    *ret = group;
    return 0;
}

int cgroup_join_open(struct cgroup *group, struct error *err)
{
    if (group->version != CGROUP_V2)
        return 0;
    int fd = openat(group->dir_fd[CGROUP_MEMORY], "cgroup.procs", O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return error_layer(err, "cgroup", -errno, "cannot open the control group for joining");
    group->join_fd[CGROUP_MEMORY] = fd;
    return 0;
}

int cgroup_join_self(const struct cgroup *group)
{
    for (int i = 0; i < CGROUP_CONTROLLERS; i++)
        if (group->join_fd[i] >= 0 && write(group->join_fd[i], "0", 1) != 1)
            return -errno;
    return 0;
}

/* In how many hierarchies does the process say it is in a group of this name? Its path ends in it. */
static int count_memberships(const char *name, pid_t pid)
{
    char path[32], text[4096];
    snprintf(path, sizeof path, "/proc/%d/cgroup", (int)pid);
    if (file_read_attribute(AT_FDCWD, path, text, sizeof text) <= 0)
        return 0;
    int count = 0;
    size_t length = strlen(name);
    for (char *line = text; line && *line; line = strchr(line, '\n'), line += line ? 1 : 0) {
        size_t end = strcspn(line, "\n");
        count +=
            end > length && memcmp(line + end - length, name, length) == 0 && line[end - length - 1] == '/';
    }
    return count;
}

/* How many hierarchies the group is made in; v1 often has cpu and cpuacct in one. */
static int count_hierarchies(const struct cgroup *group)
{
    int count = 0;
    for (int i = 0; i < CGROUP_CONTROLLERS; i++) {
        bool first = group->dir_fd[i] >= 0;
        for (int j = 0; first && j < i; j++)
            first = group->dir_fd[j] < 0 || strcmp(group->base[i], group->base[j]) != 0;
        count += first;
    }
    return count;
}

int cgroup_verify_member(const struct cgroup *group, pid_t pid, struct error *err)
{
    int inside = count_memberships(group->name, pid), wanted = count_hierarchies(group);
    if (inside < wanted)
        return error_layer(err, "cgroup", 0, "the box is not inside all of its control groups: %d of %d",
                           inside, wanted);
    return 0;
}

int cgroup_verify_limits(const struct cgroup *group, const struct cgroup_limits *limits, struct error *err)
{
    struct attribute attributes[8];
    int count = group_attributes(group, limits, true, attributes);
    for (int i = 0; i < count; i++) {
        if (!attributes[i].is_proof)
            continue;
        char seen[64];
        int dir_fd = group_dir(group, attributes[i].controller);
        int length = file_read_attribute(dir_fd, attributes[i].file, seen, sizeof seen);
        if (length == -ENOENT && attributes[i].may_be_missing)
            continue;
        if (length < 0)
            return error_layer(err, "cgroup", length, "cannot read %s back", attributes[i].file);
        seen[strcspn(seen, "\n")] = '\0';
        if (strcmp(seen, attributes[i].value) != 0)
            return error_layer(err, "cgroup", 0, "%s is %s after %s was written", attributes[i].file, seen,
                               attributes[i].value);
    }
    return 0;
}

int cgroup_verify(const struct cgroup *group, const struct cgroup_limits *limits, pid_t pid,
                  struct error *err)
{
    int status = cgroup_verify_limits(group, limits, err);
    return status < 0 ? status : cgroup_verify_member(group, pid, err);
}

/* Where each figure of a group stands: a file with one number, or the line of it that starts with a key. */
struct usage_row {
    enum cgroup_controller controller;
    const char *file, *key;
    int64_t unit;
    size_t place; /* in struct cgroup_usage */
};

#define PLACE(member) offsetof(struct cgroup_usage, member)
/* v1 tells user and system apart by what ran at each tick of the clock, so who sleeps through the ticks is
 * not seen at all; the whole (cpuacct.usage) is exact. It stands in the place of user's part until the rest
 * is known. */
static const struct usage_row usage_rows_v1[CGROUP_USAGE_ROWS] = {
    {CGROUP_PIDS, "pids.current", NULL, 1, PLACE(pids_now)},
    {CGROUP_PIDS, "pids.peak", NULL, 1, PLACE(pids_peak)},
    {CGROUP_PIDS, "pids.events", "max", 1, PLACE(pids_refused)},
    {CGROUP_MEMORY, "memory.usage_in_bytes", NULL, 1, PLACE(memory_bytes)},
    {CGROUP_MEMORY, "memory.max_usage_in_bytes", NULL, 1, PLACE(memory_peak_bytes)},
    {CGROUP_MEMORY, "memory.oom_control", "oom_kill", 1, PLACE(oom_kills)},
    {CGROUP_CPUACCT, "cpuacct.usage", NULL, 1000, PLACE(cpu_user_us)},
    {CGROUP_CPUACCT, "cpuacct.usage_sys", NULL, 1000, PLACE(cpu_system_us)},
};
static const struct usage_row usage_rows_v2[CGROUP_USAGE_ROWS] = {
    {CGROUP_PIDS, "pids.current", NULL, 1, PLACE(pids_now)},
    {CGROUP_PIDS, "pids.peak", NULL, 1, PLACE(pids_peak)},
    {CGROUP_PIDS, "pids.events", "max", 1, PLACE(pids_refused)},
    {CGROUP_MEMORY, "memory.current", NULL, 1, PLACE(memory_bytes)},
    {CGROUP_MEMORY, "memory.peak", NULL, 1, PLACE(memory_peak_bytes)},
    {CGROUP_MEMORY, "memory.events", "oom_kill", 1, PLACE(oom_kills)},
    {CGROUP_CPU, "cpu.stat", "user_usec", 1, PLACE(cpu_user_us)},
    {CGROUP_CPU, "cpu.stat", "system_usec", 1, PLACE(cpu_system_us)},
};
#undef PLACE

static const struct usage_row *usage_rows(const struct cgroup *group)
{
    return group->version == CGROUP_V2 ? usage_rows_v2 : usage_rows_v1;
}

int cgroup_usage_open(struct cgroup *group, struct error *err)
{
    for (int i = 0; i < CGROUP_USAGE_ROWS && group->version != CGROUP_NONE; i++) {
        const struct usage_row *row = &usage_rows(group)[i];
        int dir_fd = group_dir(group, row->controller);
        if (dir_fd >= 0)
            group->usage_fd[i] = openat(dir_fd, row->file, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
        /* What an older kernel does not count is known to be missing; what cannot be opened must not read as
         * 0. */
        if (dir_fd >= 0 && group->usage_fd[i] < 0 && errno != ENOENT)
            return error_layer(err, "cgroup", -errno, "cannot open %s of the control group", row->file);
    }
    return 0;
}

/* The figure, or `otherwise` where the kernel does not tell. */
static int64_t usage_read_row(int fd, const struct usage_row *row, int64_t otherwise)
{
    char text[2048];
    ssize_t length = fd < 0 ? -1 : pread(fd, text, sizeof text - 1, 0);
    if (length <= 0)
        return otherwise;
    text[length] = '\0';
    if (!row->key)
        return strtoll(text, NULL, 10) / row->unit;
    size_t key_length = strlen(row->key);
    for (const char *line = text; line && *line; line = strchr(line, '\n'), line += line ? 1 : 0)
        if (strncmp(line, row->key, key_length) == 0 && line[key_length] == ' ')
            return strtoll(line + key_length + 1, NULL, 10) / row->unit;
    return otherwise;
}

void cgroup_usage_read(const struct cgroup *group, struct cgroup_usage *ret)
{
    *ret = (struct cgroup_usage){.pids_peak = -1, .memory_peak_bytes = -1};
    for (int i = 0; i < CGROUP_USAGE_ROWS && group->version != CGROUP_NONE; i++) {
        const struct usage_row *row = &usage_rows(group)[i];
        int64_t *value = (int64_t *)((char *)ret + row->place);
        *value = usage_read_row(group->usage_fd[i], row, *value);
    }
    if (group->version == CGROUP_V1) {
        int64_t whole_us = ret->cpu_user_us;
        ret->cpu_system_us = ret->cpu_system_us < whole_us ? ret->cpu_system_us : whole_us;
        ret->cpu_user_us = whole_us - ret->cpu_system_us;
    }
    if (ret->memory_peak_bytes < 0) /* kernels before 5.19 keep none in v2 */
        ret->memory_peak_bytes = ret->memory_bytes;
}

int64_t cgroup_pids_now(const struct cgroup *group)
{
    for (int i = 0; i < CGROUP_USAGE_ROWS && group->version != CGROUP_NONE; i++)
        if (usage_rows(group)[i].place == offsetof(struct cgroup_usage, pids_now))
            return usage_read_row(group->usage_fd[i], &usage_rows(group)[i], -1);
    return -1;
}

bool cgroup_exists(const struct cgroup *group)
{
    char path[400];
    snprintf(path, sizeof path, "%s/%s", group->base[CGROUP_MEMORY], group->name);
    return access(path, F_OK) == 0;
}

int cgroup_watch_oom(const struct cgroup *group, short *ret_events)
{
    if (group->version == CGROUP_V2) {
        *ret_events = POLLPRI;
        return openat(group->dir_fd[CGROUP_MEMORY], "memory.events", O_RDONLY | O_CLOEXEC);
    }
    *ret_events = POLLIN;
    scope_fd control = openat(group->dir_fd[CGROUP_MEMORY], "memory.oom_control", O_RDONLY | O_CLOEXEC);
    scope_fd event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    char order[32];
    snprintf(order, sizeof order, "%d %d", event, control);
    if (control < 0 || event < 0 ||
        file_write_attribute(group->dir_fd[CGROUP_MEMORY], "cgroup.event_control", order) < 0)
        return -1;
    return take_fd(&event);
}

static void group_signal_members(int dir_fd, pid_t spared)
{
    scope_buffer members = {0};
    if (dir_fd < 0 || file_read_whole(dir_fd, "cgroup.procs", 1 << 20, &members) < 0)
        return;
    for (char *at = members.data; *at;) {
        pid_t pid = (pid_t)strtol(at, &at, 10);
        if (pid > 1 && pid != getpid() && pid != spared)
            kill(pid, SIGKILL);
        at += strspn(at, "\n");
    }
}

void cgroup_kill(const struct cgroup *group)
{
    if (group->version == CGROUP_V2) {
        if (group->dir_fd[CGROUP_MEMORY] >= 0 &&
            file_write_attribute(group->dir_fd[CGROUP_MEMORY], "cgroup.kill", "1") < 0)
            group_signal_members(group->dir_fd[CGROUP_MEMORY], 0); /* kernels before 5.14 */
        return;
    }
    cgroup_kill_all_but(group, 0);
}

void cgroup_kill_all_but(const struct cgroup *group, pid_t spared)
{
    int pids = group_dir(group, CGROUP_PIDS);
    if (group->version == CGROUP_NONE || pids < 0)
        return;
    /* Who cannot fork any more cannot escape the list; a fork that was under way is on the second. */
    file_write_attribute(pids, "pids.max", "0");
    group_signal_members(pids, spared);
    group_signal_members(pids, spared);
}

void cgroup_end_singly(const struct cgroup *group)
{
    if (group->version == CGROUP_V2)
        file_write_attribute(group->dir_fd[CGROUP_MEMORY], "memory.oom.group", "0");
}

static int group_remove_directory(const struct cgroup *group, int controller)
{
    char path[400];
    snprintf(path, sizeof path, "%s/%s", group->base[controller], group->name);
    for (int attempt = 0; attempt < 200; attempt++) {
        if (rmdir(path) == 0 || errno == ENOENT)
            return 0;
        if (errno != EBUSY)
            return -errno;
        if (attempt == 0)
            cgroup_kill(group);
        usleep(attempt < 20 ? 500 : 10000); /* a killed member leaves the group only when it is reaped */
    }
    return -EBUSY;
}

void cgroup_read_no_more(struct cgroup *group)
{
    for (int i = 0; i < CGROUP_CONTROLLERS; i++)
        scope_close_fd(&group->join_fd[i]);
    for (int i = 0; i < CGROUP_USAGE_ROWS; i++)
        scope_close_fd(&group->usage_fd[i]);
}

int cgroup_destroy(struct cgroup *group)
{
    int result = 0;
    cgroup_read_no_more(group);
    for (int i = 0; i < CGROUP_CONTROLLERS && group->version != CGROUP_NONE; i++) {
        if (!group->base[i][0] || (group->version == CGROUP_V2 && i != CGROUP_MEMORY))
            continue;
        int status = group_remove_directory(group, i);
        if (status < 0)
            status =
                group_remove_directory(group, i); /* once more: a passing failure must not leave a group */
        if (status < 0)
            result = status;
    }
    for (int i = 0; i < CGROUP_CONTROLLERS; i++)
        scope_close_fd(&group->dir_fd[i]);
    group->version = CGROUP_NONE;
    return result;
}

bool cgroup_open_leftover(const struct cgroup_layout *layout, const char *name, struct cgroup *ret)
{
    *ret = (struct cgroup)CGROUP_UNSET;
    ret->version = layout->version;
    snprintf(ret->name, sizeof ret->name, "%s", name);
    memcpy(ret->base, layout->base, sizeof ret->base);
    group_open_directories(ret, false);
    if (group_hold(ret) != -EWOULDBLOCK)
        return true;
    group_close(ret);
    *ret = (struct cgroup)CGROUP_UNSET;
    return false;
}

void cgroup_each(const struct cgroup_layout *layout, const char *prefix,
                 void (*visit)(void *data, const char *name), void *data)
{
    for (int i = 0; i < CGROUP_CONTROLLERS; i++) {
        if (!layout->base[i][0] || (layout->version == CGROUP_V2 && i != CGROUP_MEMORY))
            continue;
        scope_dir *dir = opendir(layout->base[i]);
        struct dirent *entry;
        while (dir && (entry = readdir(dir)))
            if (entry->d_type == DT_DIR && strncmp(entry->d_name, prefix, strlen(prefix)) == 0)
                visit(data, entry->d_name);
    }
}
