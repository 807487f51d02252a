/* Where groups can be made on this machine. */
#include "os/cgroup/cgroup.h"

#include "base/file.h"
#include "base/scope.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

const char *const cgroup_controller_names[CGROUP_CONTROLLERS] = {"memory", "pids", "cpu", "cpuacct"};

static bool word_in_list(const char *list, const char *word, const char *separators)
{
    size_t length = strlen(word);
    for (const char *at = list; *at;) {
        at += strspn(at, separators);
        size_t here = strcspn(at, separators);
        if (here == length && memcmp(at, word, length) == 0)
            return true;
        at += here;
    }
    return false;
}

/* A usable v1 hierarchy: ours to make groups in, under a directory of our own. */
static void layout_take_v1(struct cgroup_layout *layout, const char *mount_point, const char *super_options)
{
    for (int i = 0; i < CGROUP_CONTROLLERS; i++) {
        if (layout->base[i][0] || !word_in_list(super_options, cgroup_controller_names[i], ","))
            continue;
        char base[256];
        if (snprintf(base, sizeof base, "%s/cloche", mount_point) >= (int)sizeof base)
            continue;
        bool writable = access(base, W_OK) == 0;
        if (!writable && errno == ENOENT && (mkdir(base, 0755) == 0 || errno == EEXIST))
            writable = access(base, W_OK) == 0;
        if (writable)
            snprintf(layout->base[i], sizeof layout->base[i], "%s", base);
    }
}

/* Most machines with v1 have its hierarchies in the usual places, and ours in them from the first run on:
 * then there is no need to go through all mounts. What lies there is asked, since a name alone proves
 * nothing. */
static bool layout_find_usual_v1(struct cgroup_layout *layout)
{
    static const char *const own_files[CGROUP_CONTROLLERS] = {"memory.limit_in_bytes", "pids.max",
                                                              "cpu.cfs_quota_us", "cpuacct.usage"};
    for (int i = 0; i < CGROUP_CONTROLLERS; i++) {
        struct statfs status;
        char path[300];
        char *base = layout->base[i];
        snprintf(base, sizeof layout->base[i], "/sys/fs/cgroup/%s/cloche", cgroup_controller_names[i]);
        snprintf(path, sizeof path, "%s/%s", base, own_files[i]);
        if (statfs(path, &status) < 0 || status.f_type != CGROUP_SUPER_MAGIC || access(base, W_OK) < 0) {
            memset(layout->base, 0, sizeof layout->base);
            return false;
        }
    }
    layout->version = CGROUP_V1;
    return true;
}

static bool layout_enable_v2(const char *directory)
{
    char path[PATH_MAX], available[256], enabled[256];
    snprintf(path, sizeof path, "%s/cgroup.controllers", directory);
    if (file_read_attribute(AT_FDCWD, path, available, sizeof available) < 0 ||
        !word_in_list(available, "memory", " \n") || !word_in_list(available, "pids", " \n"))
        return false;
    snprintf(path, sizeof path, "%s/cgroup.subtree_control", directory);
    static const char *const wanted[] = {"memory", "pids", "cpu"};
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        if (file_read_attribute(AT_FDCWD, path, enabled, sizeof enabled) < 0)
            return false;
        if (word_in_list(enabled, wanted[i], " \n") || !word_in_list(available, wanted[i], " \n"))
            continue;
        char order[16];
        snprintf(order, sizeof order, "+%s", wanted[i]);
        int status =
            file_write_attribute(AT_FDCWD, path, order); /* EBUSY: processes live in this group itself */
        if (status < 0 && i < 2)
            return false;
    }
    return true;
}

/* Groups are made in the nearest group, from our own upwards, in which that is possible: our own group
 * usually has processes in it, and then cannot have controllers for children ("no internal processes"). */
static bool layout_find_v2(struct cgroup_layout *layout, const char *mount_point)
{
    char line[PATH_MAX], directory[PATH_MAX];
    if (file_read_attribute(AT_FDCWD, "/proc/self/cgroup", line, sizeof line) < 0)
        return false;
    char *own = strstr(line, "0::");
    while (own && own != line && own[-1] != '\n')
        own = strstr(own + 1, "0::");
    if (!own)
        return false;
    own += 3;
    own[strcspn(own, "\n")] = '\0';
    if (geteuid() == 0 || strstr(own, "/..")) /* root uses the top; so does a view from inside a namespace */
        own[0] = '\0';
    for (;;) {
        if (strcmp(own, "/") == 0)
            own[0] = '\0';
        if (snprintf(directory, sizeof directory, "%s%s", mount_point, own) >= (int)sizeof directory)
            return false;
        if (access(directory, W_OK) == 0 && layout_enable_v2(directory)) {
            char base[256];
            if (snprintf(base, sizeof base, "%s/cloche", directory) >= (int)sizeof base)
                return false;
            if ((mkdir(base, 0755) < 0 && errno != EEXIST) || !layout_enable_v2(base))
                return false;
            for (int i = 0; i <= CGROUP_CPU; i++)
                snprintf(layout->base[i], sizeof layout->base[i], "%s", base);
            char path[300], enabled[256];
            snprintf(path, sizeof path, "%s/cgroup.subtree_control", base);
            if (file_read_attribute(AT_FDCWD, path, enabled, sizeof enabled) < 0 ||
                !word_in_list(enabled, "cpu", " \n"))
                layout->base[CGROUP_CPU][0] = '\0';
            return true;
        }
        char *slash = strrchr(own, '/');
        if (!slash)
            return false;
        *slash = '\0';
    }
}

bool cgroup_layout_has(const struct cgroup_layout *layout, enum cgroup_controller controller)
{
    return layout->version != CGROUP_NONE && layout->base[controller][0];
}

void cgroup_layout_for_memory(const struct cgroup_layout *all, struct cgroup_layout *ret)
{
    *ret = (struct cgroup_layout){.version = all->version};
    memcpy(ret->base[CGROUP_MEMORY], all->base[CGROUP_MEMORY], sizeof ret->base[CGROUP_MEMORY]);
}

/* Where v1 has them all, v2 may be mounted beside it without them. */
static bool has_memory(const char *v2_mount)
{
    char path[PATH_MAX], text[256];
    snprintf(path, sizeof path, "%s/cgroup.controllers", v2_mount);
    return v2_mount[0] && file_read_attribute(AT_FDCWD, path, text, sizeof text) > 0 &&
           strstr(text, "memory");
}

static void layout_explain(struct cgroup_layout *layout, bool seen_v1, const char *v2_mount)
{
    const char *why = "no cgroup file system is mounted";
    if (geteuid() != 0 && (has_memory(v2_mount) || (v2_mount[0] && !seen_v1)))
        why = "no delegated cgroup v2 subtree with the memory and pids controllers; start cloche inside one: "
              "systemd-run --user --scope -p Delegate=yes cloche …";
    else if (geteuid() != 0 && seen_v1)
        why = "cgroup v1 hierarchies belong to root; run cloche as root, or boot with cgroup v2";
    else if (seen_v1 || v2_mount[0])
        why = "cgroups are mounted, but no group with the memory and pids controllers can be made "
              "(read-only, or an outer container keeps them)";
    snprintf(layout->why_not, sizeof layout->why_not, "%s", why);
}

void cgroup_layout_find(struct cgroup_layout *ret)
{
    *ret = (struct cgroup_layout){.version = CGROUP_NONE};
    if (layout_find_usual_v1(ret))
        return;
    scope_file *mounts = fopen("/proc/self/mountinfo", "re");
    char line[4096], v2_mount[256] = "";
    bool seen_v1 = false;
    while (mounts && fgets(line, sizeof line, mounts)) {
        char mount_point[256], type[32], super_options[512];
        const char *tail = strstr(line, " - cgroup"); /* the type of the file system, and most are another */
        if (!tail || sscanf(line, "%*s %*s %*s %*s %255s", mount_point) != 1 ||
            sscanf(tail, " - %31s %*s %511s", type, super_options) != 2)
            continue;
        if (strcmp(type, "cgroup") == 0) {
            seen_v1 = true;
            layout_take_v1(ret, mount_point, super_options);
        } else if (strcmp(type, "cgroup2") == 0 && !v2_mount[0]) {
            snprintf(v2_mount, sizeof v2_mount, "%s", mount_point);
        }
    }
    if (ret->base[CGROUP_MEMORY][0] && ret->base[CGROUP_PIDS][0]) {
        ret->version = CGROUP_V1;
        return;
    }
    memset(ret->base, 0, sizeof ret->base);
    if (v2_mount[0] && layout_find_v2(ret, v2_mount))
        ret->version = CGROUP_V2;
    else
        layout_explain(ret, seen_v1, v2_mount);
}
