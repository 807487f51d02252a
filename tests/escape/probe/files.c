/* The canary: one file of the host, in a directory that was not granted, world-readable so that nothing but
 * the box protects it. It is read, changed and looked for in every way that a path can be spelt. */
#include "probe.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

static const char not_said[] = "the runner named no canary";

/* Gives the file the mode, owner and times that it has. Landlock knows nothing of these calls: in a box
 * without a root of its own, only the uid stands against them. */
static enum verdict mode_cannot_be_changed(const void *unused)
{
    (void)unused;
    struct stat status;
    if (!host_canary())
        return undecided(not_said);
    if (stat(host_canary(), &status) < 0)
        return judge_reach(host_canary(), -1);
    return judge_reach("chmod of the canary", chmod(host_canary(), status.st_mode & 0777));
}

static enum verdict owner_cannot_be_changed(const void *unused)
{
    (void)unused;
    struct stat status;
    if (!host_canary())
        return undecided(not_said);
    if (stat(host_canary(), &status) < 0)
        return judge_reach(host_canary(), -1);
    return judge_reach("chown of the canary", chown(host_canary(), status.st_uid, status.st_gid));
}

static enum verdict times_cannot_be_changed(const void *unused)
{
    (void)unused;
    struct stat status;
    if (!host_canary())
        return undecided(not_said);
    if (stat(host_canary(), &status) < 0)
        return judge_reach(host_canary(), -1);
    struct timespec times[2] = {status.st_atim, status.st_mtim};
    return judge_reach("utimensat of the canary", utimensat(AT_FDCWD, host_canary(), times, 0));
}

/* Removes an attribute that is not there: ENODATA comes after the permission. */
static enum verdict attributes_cannot_be_changed(const void *unused)
{
    (void)unused;
    if (!host_canary())
        return undecided(not_said);
    int result = removexattr(host_canary(), "user.cloche-probe");
    return judge_reach("removexattr of the canary", result < 0 && errno == ENODATA ? 0 : result);
}

static enum verdict canary_cannot_be_linked(const void *unused)
{
    (void)unused;
    char name[PATH_MAX];
    if (!host_canary())
        return undecided(not_said);
    snprintf(name, sizeof name, "%s/cloche-probe-link.%d", host_directory(), (int)getpid());
    int result = link(host_canary(), name);
    if (result == 0)
        unlink(name);
    return judge_reach("a second name for the canary", result);
}

static enum verdict directory_cannot_be_watched(const void *unused)
{
    (void)unused;
    if (!host_directory())
        return undecided(not_said);
    int watcher = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (watcher < 0)
        return held("inotify_init1: %s", error_name(errno));
    return judge_reach("inotify of the canary's directory",
                       inotify_add_watch(watcher, host_directory(), IN_ALL_EVENTS));
}

static enum verdict symlink_does_not_reach(const void *unused)
{
    (void)unused;
    char name[PATH_MAX];
    if (!host_canary())
        return undecided(not_said);
    scratch_path(name, sizeof name, "link");
    if (symlink(host_canary(), name) < 0)
        return undecided("no symbolic link can be made in %s: %s", name, error_name(errno));
    int fd = open(name, O_RDONLY | O_CLOEXEC), error = errno;
    unlink(name);
    errno = error;
    return judge_reach("the canary, by a symbolic link", fd);
}

/* Climbs by one name at a time from a directory that is held open: a root that was only switched by chroot
 * ends the climb at a name, not at a descriptor. */
static enum verdict climbing_does_not_reach(const void *start)
{
    if (!host_canary())
        return undecided(not_said);
    int at = open(start, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (at < 0)
        return held("%s: %s", (const char *)start, error_name(errno));
    for (int steps = 0; steps < 64; steps++) {
        int above = openat(at, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (above < 0)
            break;
        close(at);
        at = above;
    }
    return judge_reach("the canary, by climbing", openat(at, host_canary() + 1, O_RDONLY | O_CLOEXEC));
}

static enum verdict changing_directory_does_not_reach(const void *unused)
{
    (void)unused;
    if (!host_canary())
        return undecided(not_said);
    for (int steps = 0; steps < 64; steps++)
        if (chdir("..") < 0)
            break;
    return judge_reach("the canary, from the top of the working directory",
                       open(host_canary() + 1, O_RDONLY | O_CLOEXEC));
}

/* A directory that is moved away while something stands in it used to let ".." out of a bind mount
 * (CVE-2015-2925); the way is still tried: stand deep, move the top, climb. */
static enum verdict moved_directory_does_not_reach(const void *unused)
{
    (void)unused;
    char deep[PATH_MAX], inner[PATH_MAX + 8], moved[PATH_MAX];
    if (!host_canary())
        return undecided(not_said);
    scratch_path(deep, sizeof deep, "deep");
    scratch_path(moved, sizeof moved, "moved");
    snprintf(inner, sizeof inner, "%s/inner", deep);
    if (mkdir(deep, 0700) < 0 || mkdir(inner, 0700) < 0 || chdir(inner) < 0)
        return undecided("no directories can be made: %s", error_name(errno));
    rename(inner, moved);
    enum verdict verdict = changing_directory_does_not_reach(NULL);
    rmdir(moved);
    rmdir(inner);
    rmdir(deep);
    return verdict;
}

#define SEEN    "private_root,landlock"
#define CHANGED "private_root,root_read_only,landlock," HOST_USER
/* Landlock says nothing to these. */
#define META "private_root,root_read_only," HOST_USER
/* Reached through another process: it must be visible, and traceable. Its root is the host's, whatever ours
 * is. */
#define THROUGH_PROCESS "pid_namespace," ANY_LANDLOCK "," HOST_ROOT

/* The parent is always visible: in a container it is the box's init, without one the launcher. */
#define THROUGH_PARENT "private_root," ANY_LANDLOCK "," HOST_ROOT

static const struct probe rows[] = {
    {"host_canary_cannot_be_seen", ON_CONTAINER, RETURNS, "private_root", path_cannot_be_seen, "{canary}",
     "A file of the host does not exist in the box."},
    {"host_canary_cannot_be_read", ON_BOTH, RETURNS, SEEN, file_cannot_be_opened, "{canary}",
     "A world-readable file of the host cannot be read."},
    {"host_canary_cannot_be_opened_for_writing", ON_BOTH, RETURNS, CHANGED, file_cannot_be_opened_for_writing,
     "{canary}", "A file of the host cannot be written."},
    {"host_canary_cannot_be_deleted", ON_BOTH, RETURNS, CHANGED, entry_cannot_be_deleted, "{canary}",
     "A file of the host cannot be deleted."},
    {"host_canary_cannot_be_linked", ON_BOTH, RETURNS, CHANGED, canary_cannot_be_linked, NULL,
     "A file of the host cannot be given a second name."},
    {"host_canary_mode_cannot_be_changed", ON_BOTH, RETURNS, META, mode_cannot_be_changed, NULL,
     "The mode of a file of the host cannot be set."},
    {"host_canary_owner_cannot_be_changed", ON_BOTH, RETURNS, META, owner_cannot_be_changed, NULL,
     "The owner of a file of the host cannot be set."},
    {"host_canary_times_cannot_be_changed", ON_BOTH, RETURNS, META ",seccomp", times_cannot_be_changed, NULL,
     "The times of a file of the host cannot be set."},
    {"host_canary_attributes_cannot_be_changed", ON_BOTH, RETURNS, META ",seccomp",
     attributes_cannot_be_changed, NULL, "The extended attributes of a file of the host cannot be set."},
    {"host_directory_cannot_be_listed", ON_BOTH, RETURNS, SEEN, directory_cannot_be_listed, "{directory}",
     "A directory of the host cannot be listed."},
    {"host_directory_cannot_be_written", ON_BOTH, RETURNS, CHANGED, directory_cannot_be_written,
     "{directory}", "No file can be made in a directory of the host."},
    {"host_directory_cannot_be_watched", ON_BOTH, RETURNS, "private_root,seccomp",
     directory_cannot_be_watched, NULL,
     "What happens in a directory of the host cannot be watched; Landlock does not control inotify."},

    {"symbolic_link_does_not_reach_the_host", ON_BOTH, RETURNS, SEEN, symlink_does_not_reach, NULL,
     "A symbolic link that the box makes does not lead to the host."},
    {"dot_dot_does_not_reach_the_host", ON_BOTH, RETURNS, SEEN, file_cannot_be_opened,
     "/../../../../../../../..{canary}:/usr/../../../../..{canary}:/tmp/../../../..{canary}",
     "Climbing above the root in a path does not lead to the host."},
    {"held_root_does_not_reach_the_host", ON_BOTH, RETURNS, SEEN, climbing_does_not_reach, "/",
     "Climbing from a descriptor of the root does not lead to the host."},
    {"held_working_directory_does_not_reach_the_host", ON_BOTH, RETURNS, SEEN, climbing_does_not_reach, ".",
     "Climbing from a descriptor of the working directory does not lead to the host."},
    {"working_directory_does_not_reach_the_host", ON_BOTH, RETURNS, SEEN, changing_directory_does_not_reach,
     NULL, "The working directory was not left outside of the root (runc, CVE-2024-21626)."},
    {"moved_directory_does_not_reach_the_host", ON_BOTH, RETURNS, SEEN, moved_directory_does_not_reach, NULL,
     "Climbing out of a directory that was moved does not lead to the host."},
    {"own_root_link_does_not_reach_the_host", ON_BOTH, RETURNS, SEEN, file_cannot_be_opened,
     "/proc/self/root{canary}:/proc/thread-self/root{canary}:/proc/self/task/../root{canary}",
     "The root link of the own process does not lead to the host."},
    {"own_cwd_link_does_not_reach_the_host", ON_BOTH, RETURNS, SEEN, file_cannot_be_opened,
     "/proc/self/cwd/../../../../../../../..{canary}",
     "The cwd link of the own process does not lead to the host."},
    {"standard_descriptor_links_do_not_reach_the_host", ON_BOTH, RETURNS, SEEN, file_cannot_be_opened,
     "/dev/fd/../root{canary}:/proc/self/fd/../root{canary}:/proc/self/map_files/../root{canary}",
     "The descriptor directory of the own process does not lead to the host."},
    {"init_root_link_does_not_reach_the_host", ON_BOTH, RETURNS, THROUGH_PARENT, file_cannot_be_opened,
     "/proc/1/root{canary}:/proc/1/task/1/root{canary}:/proc/{parent}/root{canary}",
     "The roots of process 1 and of the supervisor do not lead to the host."},
    {"init_cwd_link_does_not_reach_the_host", ON_BOTH, RETURNS, THROUGH_PARENT, file_cannot_be_opened,
     "/proc/1/cwd/../../../../../../../..{canary}:/proc/{parent}/cwd/../../../../../../../..{canary}",
     "The working directories of process 1 and of the supervisor do not lead to the host."},
    {"host_process_root_link_does_not_reach_the_host", ON_BOTH, RETURNS, THROUGH_PROCESS,
     file_cannot_be_opened, "/proc/{pid}/root{canary}", "The root of a process of the host cannot be used."},
    {"host_process_cwd_link_does_not_reach_the_host", ON_BOTH, RETURNS, THROUGH_PROCESS,
     file_cannot_be_opened, "/proc/{pid}/cwd/../../../../../../../..{canary}",
     "The working directory of a process of the host cannot be used."},
};

PROBE_GROUP(files, rows);
