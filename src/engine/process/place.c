#include "engine/process/place.h"

#include "base/file.h"
#include "base/scope.h"
#include "base/text.h"
#include "engine/grants.h"
#include "engine/launch.h"
#include "engine/process/fork_server.h"
#include "engine/process/memory_group.h"
#include "image/host_view.h"
#include "os/copy_tree.h"
#include "os/hardening.h"
#include "os/landlock.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static const struct {
    const char *name;
    bool writable;
} places[] = {{"tmp", true}, {"home", true}, {"output", true}, {"code", false}, {"input", false}};
enum { PLACES = sizeof places / sizeof *places };

static int make_private_places(struct box *box)
{
    for (size_t i = 0; i < PLACES; i++) {
        mode_t mode = places[i].writable ? 0700 : 0755;
        if (mkdirat(box->scratch_fd, places[i].name, mode) < 0 ||
            fchmodat(box->scratch_fd, places[i].name, mode, 0) < 0)
            return -errno; /* twice, because the caller's umask counts for the first */
        if (places[i].writable && box->identity->has_uid && !hardening_removed(box_uid) &&
            fchownat(box->scratch_fd, places[i].name, box->identity->uid, box->identity->uid,
                     AT_SYMLINK_NOFOLLOW) < 0)
            return -errno;
    }
    return 0;
}

static int write_private_file(int dir_fd, const char *name, const void *data, size_t length, mode_t mode)
{
    if (!text_is_file_name(name, strlen(name)))
        return -EINVAL; /* it was checked before; but this is where it would matter */
    scope_fd fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return -errno;
    int status = file_write_all(fd, data, length);
    return status < 0 ? status : fchmod(fd, mode) < 0 ? -errno : 0;
}

static int open_input(const struct grant *grant)
{
    /* Who gave us the path may change what is on the way: it is opened for reading, which can have effects
     * and take time, only when it is known to be what was looked at. */
    struct open_how how = {.flags = O_PATH | O_CLOEXEC,
                           .resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS};
    scope_fd fd = (int)syscall(SYS_openat2, AT_FDCWD, grant->host_path, &how, sizeof how);
    struct stat what;
    if (fd < 0 || fstat(fd, &what) < 0)
        return -errno;
    if (grant->is_pinned && (what.st_dev != grant->device || what.st_ino != grant->inode))
        return -ESTALE;
    if (!S_ISREG(what.st_mode) && !S_ISDIR(what.st_mode))
        return -EINVAL;
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    int opened = open(path, O_RDONLY | O_CLOEXEC);
    return opened < 0 ? -errno : opened;
}

/* What a server has made for the box. The copies are ours, with the modes that it gave them: nothing can be
 * read in the box that not everybody could read who gets there. */
static int copy_input_tree(int input_fd, const struct grant *grant)
{
    scope_fd from = open_input(grant);
    if (from < 0)
        return from;
    if (mkdirat(input_fd, grant->name, 0755) < 0)
        return -errno;
    scope_fd into = openat(input_fd, grant->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return into < 0 || fchmod(into, 0755) < 0 ? -errno : copy_tree(from, into, geteuid(), getegid());
}

static int copy_input(int input_fd, const struct grant *grant)
{
    scope_fd from = open_input(grant);
    struct stat what;
    if (from < 0 || fstat(from, &what) < 0)
        return from < 0 ? from : -errno;
    mode_t mode = (hardening_removed(input_read_only) ? 0666 : 0444) | (what.st_mode & 0111 ? 0111 : 0);
    scope_fd into = openat(input_fd, grant->name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (into < 0)
        return -errno;
    for (;;) {
        ssize_t moved = copy_file_range(from, NULL, into, NULL, 1 << 30, 0);
        if (moved == 0)
            return fchmod(into, mode) < 0 ? -errno : 0;
        if (moved < 0 && errno != EINTR)
            break;
    }
    char chunk[65536]; /* between file systems of different kinds */
    if (lseek(from, 0, SEEK_SET) < 0 || ftruncate(into, 0) < 0 || lseek(into, 0, SEEK_SET) < 0)
        return -errno;
    for (;;) {
        ssize_t length = read(from, chunk, sizeof chunk);
        int status = length < 0 ? -errno : file_write_all(into, chunk, (size_t)length);
        if (status < 0)
            return status;
        if (length == 0)
            return fchmod(into, mode) < 0 ? -errno : 0;
    }
}

/* Can a uid that owns nothing read this path? All directories above must let everyone through. */
static bool stranger_can_read(const char *path)
{
    char partial[PATH_MAX];
    snprintf(partial, sizeof partial, "%s", path);
    struct stat status;
    for (char *slash = strchr(partial + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (stat(partial, &status) < 0 || !(status.st_mode & S_IXOTH))
            return false;
        *slash = '/';
    }
    mode_t needed = S_IROTH;
    if (stat(partial, &status) < 0)
        return false;
    if (S_ISDIR(status.st_mode))
        needed |= S_IXOTH;
    return (status.st_mode & needed) == needed;
}

/* What was pinned is never linked to, whatever is at its path by now: a rule would be for that. */
static bool is_copied(const struct box *box, const struct grant *grant, const struct stat *what)
{
    return box->identity->has_uid && grant->kind == GRANT_INPUT &&
           (S_ISREG(what->st_mode) || grant->is_pinned);
}

static int link_input(int input_fd, const struct grant *grant, struct plan_lists *lists)
{
    scope_fd pinned = grant->is_pinned ? open_input(grant) : -1;
    if (grant->is_pinned && pinned < 0)
        return pinned;
    if (symlinkat(grant->host_path, input_fd, grant->name) < 0)
        return -errno;
    return string_list_add(&lists->read_paths, grant->host_path);
}

/* Inputs appear below input/. Another uid cannot read what only the caller can, so root's are copied; a
 * caller's own are linked to, and Landlock opens just them. The path is looked at once: what is found the
 * next time may be something else, for which the other way would be the right one. */
static int place_grant(const struct box *box, int input_fd, const struct grant *grant,
                       struct plan_lists *lists, struct error *err)
{
    struct stat what;
    int status = stat(grant->host_path, &what) < 0 ? -errno : 0;
    bool copied = status == 0 && is_copied(box, grant, &what);
    if (box->identity->has_uid && !copied && !stranger_can_read(grant->host_path))
        return error_layer(err, "box_uid", 0,
                           "'%s' is not readable for the box's own uid, and without mount namespaces "
                           "that cannot be mapped; use --isolation container",
                           grant_name(grant));
    if (grant->kind == GRANT_WRITE && box->identity->has_uid)
        return error_layer(err, "box_uid", 0,
                           "'%s' cannot be made writable for the box's own uid without mount "
                           "namespaces; use --isolation container",
                           grant_name(grant));
    if (grant->kind != GRANT_INPUT)
        status = string_list_add(grant->kind == GRANT_WRITE ? &lists->write_paths : &lists->read_paths,
                                 grant->host_path);
    else if (copied)
        status = S_ISREG(what.st_mode) ? copy_input(input_fd, grant) : copy_input_tree(input_fd, grant);
    else if (status == 0)
        status = link_input(input_fd, grant, lists);
    return status < 0 ? error_host(err, status, "cannot give '%s' to the box", grant_name(grant)) : 0;
}

static int place_grants(struct box *box, struct plan_lists *lists, struct error *err)
{
    scope_fd input_fd = openat(box->scratch_fd, "input", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (input_fd < 0)
        return error_host(err, -errno, "cannot open the input directory");
    int status = 0;
    for (size_t i = 0; status == 0 && i < box->spec->grant_count; i++)
        status = place_grant(box, input_fd, &box->spec->grants[i], lists, err);
    return status;
}

/* File rules cannot be added to: only what is copied can come later. */
int place_show_inputs(struct box *box, struct error *err)
{
    struct plan_lists none = {0};
    if (!box->identity->has_uid)
        return error_host(err, -EPERM, "inputs can be shown only when a box is started");
    return place_grants(box, &none, err);
}

/* Of a merged /usr, where /bin and its like are links into it: the rule for /usr is theirs too. */
static bool leads_into_usr(const char *path)
{
    char target[8];
    ssize_t length = readlink(path, target, sizeof target);
    return length > 4 && (memcmp(target, "usr/", 4) == 0 || (length > 5 && memcmp(target, "/usr/", 5) == 0));
}

static int list_trees(struct plan_lists *lists)
{
    int status = 0;
    for (size_t i = 0; status == 0 && host_view_trees[i]; i++) {
        char path[16];
        snprintf(path, sizeof path, "/%s", host_view_trees[i]);
        if (!leads_into_usr(path))
            status = string_list_add(&lists->read_paths, path);
    }
    return status;
}

/* Mapped shared, /dev/zero is memory that stays when it is unmapped, all but a page: only a group counts
 * that. */
static int list_files(const struct box *box, struct plan_lists *lists)
{
    static const char *const devices[] = {"/dev/null", "/dev/full", "/dev/random", "/dev/urandom",
                                          "/dev/zero"};
    const size_t shown = sizeof devices / sizeof *devices - !memory_group_can_be_had(box);
    static const char *const facts[] = {"/proc/cpuinfo",     "/proc/meminfo",          "/proc/stat",
                                        "/proc/loadavg",     "/proc/uptime",           "/proc/version",
                                        "/proc/filesystems", "/sys/devices/system/cpu"};
    int status = 0;
    for (size_t i = 0; status == 0 && host_view_etc[i]; i++)
        status = string_list_print(&lists->read_paths, "/etc/%s", host_view_etc[i]);
    for (size_t i = 0; status == 0 && i < sizeof facts / sizeof *facts; i++)
        status = string_list_add(&lists->read_paths, facts[i]);
    for (size_t i = 0; status == 0 && i < shown; i++)
        status = string_list_add(&lists->device_paths, devices[i]);
    return status;
}

static int list_own(const struct box *box, struct plan_lists *lists)
{
    static const char *const writable[] = {"tmp", "home", "output"}, *const readable[] = {"code", "input"};
    int status = 0;
    for (size_t i = 0; status == 0 && i < sizeof writable / sizeof *writable; i++)
        status = string_list_print(&lists->write_paths, "%s/%s", box->identity->directory, writable[i]);
    for (size_t i = 0; status == 0 && i < sizeof readable / sizeof *readable; i++)
        status =
            string_list_print(hardening_removed(code_read_only) ? &lists->write_paths : &lists->read_paths,
                              "%s/%s", box->identity->directory, readable[i]);
    return status;
}

/* What boxes are forked from must be able to do what any of them may: their own rules come on top of these.
 * It looks at processes to bring order into its memory (guest/python/cloche/preload.py, guest/fork/pages.c).
 */
static int list_view_of_zygote(const struct box *box, struct plan_lists *lists)
{
    const char *directory = box->identity->directory, *last = strrchr(directory, '/');
    int status = string_list_print(&lists->write_paths, "%.*s", (int)(last - directory), directory);
    return status < 0 ? status : string_list_add(&lists->read_paths, "/proc");
}

static int grant_all(const struct box *box, int ruleset_fd, const struct plan_lists *lists, struct error *err)
{
    const struct landlock_paths groups[] = {
        {lists->read_paths.items, lists->read_paths.count, LANDLOCK_READ_EXEC},
        {lists->write_paths.items, lists->write_paths.count, LANDLOCK_READ_WRITE},
        {lists->device_paths.items, lists->device_paths.count, LANDLOCK_DEVICE},
    };
    const char *path = NULL;
    if (ruleset_fd < 0)
        return 0;
    int status = landlock_ruleset_grant_all(ruleset_fd, box->landlock_abi, groups,
                                            sizeof groups / sizeof *groups, &path);
    return status < 0 ? error_layer(err, "landlock", status, "cannot make the file rules%s%s",
                                    path ? " for " : "", path ? path : "")
                      : 0;
}

int place_rules_open(const struct box *box, struct place_rules *rules, struct error *err)
{
    if (hardening_removed(landlock) && hardening_removed(landlock_scope))
        return 0;
    rules->ruleset_fd = landlock_ruleset_of_box(box->landlock_abi);
    return rules->ruleset_fd < 0 ? error_layer(err, "landlock", rules->ruleset_fd, "cannot make file rules")
                                 : 0;
}

void place_rules_close(struct place_rules *rules)
{
    scope_close_fd(&rules->ruleset_fd);
}

int place_furnish(struct box *box, const struct place_rules *rules, struct error *err)
{
    scope_plan_lists own = {0};
    int status = box->identity->make_directory(box->identity, err);
    if (status < 0)
        return status;
    box->scratch_fd = fcntl(box->identity->directory_fd, F_DUPFD_CLOEXEC, 0);
    status = box->scratch_fd < 0 ? -errno : make_private_places(box);
    if (status == 0)
        status = list_trees(&own);
    if (status == 0)
        status = list_files(box, &own);
    if (status == 0)
        status = list_own(box, &own);
    if (status == 0 && fork_server_is_zygote(box))
        status = list_view_of_zygote(box, &own);
    if (status < 0)
        return error_host(err, status, "cannot furnish the private directory %s", box->identity->directory);
    status = place_grants(box, &own, err);
    return status < 0 ? status : grant_all(box, rules->ruleset_fd, &own, err);
}

int place_write_code(const struct box *box, struct error *err)
{
    const struct program *program = box->program;
    if (!program->code_name)
        return 0;
    scope_fd code = openat(box->scratch_fd, "code", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    mode_t mode = program->code_executable ? 0555 : 0444;
    int status = code < 0
                     ? -errno
                     : write_private_file(code, program->code_name, program->code.data, program->code.length,
                                          hardening_removed(code_read_only) ? mode | 0222 : mode);
    return status < 0 ? error_host(err, status, "cannot put the code into %s", box->identity->directory) : 0;
}

/* To remove what one knows takes a call for each; to find out what is there takes eight for each directory.
 */
void place_clear(const struct box *box)
{
    if (box->scratch_fd < 0)
        return;
    scope_fd code = openat(box->scratch_fd, "code", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (code >= 0 && box->program->code_name)
        unlinkat(code, box->program->code_name, 0);
    for (size_t i = 0; i < PLACES; i++)
        unlinkat(box->scratch_fd, places[i].name, AT_REMOVEDIR);
}
