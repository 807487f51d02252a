/* The process engine: no namespaces and no privileges needed, so that it works inside an unprivileged
 * container.
 *
 * What holds: the filter, Landlock, rlimits, no_new_privs, and a private directory. What a kernel would do
 * with namespaces and groups is done from outside here: a watchdog sums memory, processes, CPU time and disk;
 * init is a subreaper, so that nothing escapes by forking twice. Started by root, the box has a uid of its
 * own; started by an ordinary user it shares that user's uid, and calls that could reach the user's other
 * files or processes go through the supervisor (mediate.c). */
#include "base/file.h"
#include "base/scope.h"
#include "engine/engine.h"
#include "engine/launch.h"
#include "engine/layers.h"
#include "engine/process/mediate.h"
#include "engine/watchdog.h"
#include "image/host_view.h"
#include "os/capabilities.h"
#include "os/copy_tree.h"
#include "os/hardening.h"
#include "os/landlock.h"
#include "os/process.h"
#include "os/process_tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *process_path_of(const struct box *box, const char *which, char *into, size_t size)
{
    snprintf(into, size, "%s/%s", box->identity->directory, which);
    return into;
}

static int make_private_places(struct box *box)
{
    static const struct {
        const char *name;
        bool writable;
    } places[] = {{"tmp", true}, {"home", true}, {"output", true}, {"code", false}, {"input", false}};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
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
    scope_fd fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return -errno;
    int status = file_write_all(fd, data, length);
    return status < 0 ? status : fchmod(fd, mode) < 0 ? -errno : 0;
}

static int open_input(const struct grant *grant)
{
    scope_fd fd = open(grant->host_path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    struct stat what;
    if (fd < 0 || fstat(fd, &what) < 0)
        return -errno;
    bool is_other = grant->is_pinned && (what.st_dev != grant->device || what.st_ino != grant->inode);
    return is_other ? -ESTALE : take_fd(&fd);
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

static bool is_copied(const struct box *box, const struct grant *grant, const struct stat *what)
{
    return box->identity->has_uid && grant->kind == GRANT_INPUT &&
           (S_ISREG(what->st_mode) || (S_ISDIR(what->st_mode) && grant->is_pinned));
}

/* Inputs appear below input/. Another uid cannot read what only the caller can, so root's are copied; a
 * caller's own are linked to, and Landlock opens just them. */
static int place_input(struct box *box, int input_fd, const struct grant *grant, struct plan_lists *lists)
{
    struct stat status;
    if (stat(grant->host_path, &status) < 0)
        return -errno;
    if (is_copied(box, grant, &status))
        return S_ISREG(status.st_mode) ? copy_input(input_fd, grant) : copy_input_tree(input_fd, grant);
    if (symlinkat(grant->host_path, input_fd, grant->name) < 0)
        return -errno;
    return string_list_add(&lists->read_paths, grant->host_path);
}

static int place_grants(struct box *box, struct plan_lists *lists, struct error *err)
{
    scope_fd input_fd = openat(box->scratch_fd, "input", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (input_fd < 0)
        return error_host(err, -errno, "cannot open the input directory");
    for (size_t i = 0; i < box->spec->grant_count; i++) {
        const struct grant *grant = &box->spec->grants[i];
        int status;
        struct stat what;
        bool copied = stat(grant->host_path, &what) == 0 && is_copied(box, grant, &what);
        if (box->identity->has_uid && !copied && !stranger_can_read(grant->host_path))
            return error_layer(err, "box_uid", 0,
                               "'%s' is not readable for the box's own uid, and without mount namespaces "
                               "that cannot be mapped; use --isolation container",
                               grant->host_path);
        if (grant->kind == GRANT_INPUT)
            status = place_input(box, input_fd, grant, lists);
        else if (grant->kind == GRANT_WRITE && box->identity->has_uid)
            return error_layer(err, "box_uid", 0,
                               "'%s' cannot be made writable for the box's own uid without mount "
                               "namespaces; use --isolation container",
                               grant->host_path);
        else
            status = string_list_add(grant->kind == GRANT_WRITE ? &lists->write_paths : &lists->read_paths,
                                     grant->host_path);
        if (status < 0)
            return error_host(err, status, "cannot give '%s' to the box", grant->host_path);
    }
    return 0;
}

/* File rules cannot be added to: only what is copied can come later. */
static int process_show_inputs(struct box *box, struct error *err)
{
    struct plan_lists none = {0};
    if (!box->identity->has_uid)
        return error_host(err, -EPERM, "inputs can be shown only when a box is started");
    return place_grants(box, &none, err);
}

static int list_view(struct box *box, struct plan_lists *lists)
{
    static const char *const devices[] = {"/dev/null", "/dev/zero", "/dev/full", "/dev/random",
                                          "/dev/urandom"};
    static const char *const facts[] = {"/proc/cpuinfo",     "/proc/meminfo",          "/proc/stat",
                                        "/proc/loadavg",     "/proc/uptime",           "/proc/version",
                                        "/proc/filesystems", "/sys/devices/system/cpu"};
    static const char *const private_write[] = {"tmp", "home", "output"}, *const private_read[] = {"code",
                                                                                                   "input"};
    int status = 0;
    for (size_t i = 0; status == 0 && host_view_trees[i]; i++)
        status = string_list_print(&lists->read_paths, "/%s", host_view_trees[i]);
    for (size_t i = 0; status == 0 && host_view_etc[i]; i++)
        status = string_list_print(&lists->read_paths, "/etc/%s", host_view_etc[i]);
    for (size_t i = 0; status == 0 && i < sizeof facts / sizeof *facts; i++)
        status = string_list_add(&lists->read_paths, facts[i]);
    for (size_t i = 0; status == 0 && i < sizeof devices / sizeof *devices; i++)
        status = string_list_add(&lists->device_paths, devices[i]);
    for (size_t i = 0; status == 0 && i < sizeof private_write / sizeof *private_write; i++)
        status = string_list_print(&lists->write_paths, "%s/%s", box->identity->directory, private_write[i]);
    for (size_t i = 0; status == 0 && i < sizeof private_read / sizeof *private_read; i++)
        status =
            string_list_print(hardening_removed(code_read_only) ? &lists->write_paths : &lists->read_paths,
                              "%s/%s", box->identity->directory, private_read[i]);
    return status;
}

/* The file rules, made here while init is being started, and given to it. */
static int give_ruleset(const struct box *box, const struct plan_lists *lists, struct error *err)
{
    const struct landlock_paths groups[] = {
        {lists->read_paths.items, lists->read_paths.count, LANDLOCK_READ_EXEC},
        {lists->write_paths.items, lists->write_paths.count, LANDLOCK_READ_WRITE},
        {lists->device_paths.items, lists->device_paths.count, LANDLOCK_DEVICE},
    };
    const char *path = NULL;
    bool is_removed = hardening_removed(landlock) && hardening_removed(landlock_scope);
    scope_fd ruleset =
        is_removed ? -1
                   : landlock_ruleset_build(box->landlock_abi, groups, sizeof groups / sizeof *groups, &path);
    if (ruleset < 0 && !is_removed)
        return error_layer(err, "landlock", ruleset, "cannot make the file rules%s%s", path ? " for " : "",
                           path ? path : "");
    char order = INIT_ENTER;
    int status = process_send(box->control_fd, &order, 1, ruleset);
    /* An init that has failed meanwhile says why itself. */
    return status < 0 && status != -EPIPE ? error_host(err, status, "cannot give init its file rules") : 0;
}

static int furnish(struct box *box, struct error *err)
{
    scope_plan_lists lists = {0};
    int status = make_private_places(box);
    if (status == 0 && box->program->code_name) {
        scope_fd code = openat(box->scratch_fd, "code", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        mode_t mode = box->program->code_executable ? 0555 : 0444;
        status = code < 0 ? -errno
                          : write_private_file(code, box->program->code_name, box->program->code.data,
                                               box->program->code.length,
                                               hardening_removed(code_read_only) ? mode | 0222 : mode);
    }
    if (status == 0)
        status = list_view(box, &lists);
    if (status < 0)
        return error_host(err, status, "cannot furnish the private directory %s", box->identity->directory);
    status = place_grants(box, &lists, err);
    return status < 0 ? status : give_ruleset(box, &lists, err);
}

__attribute__((noreturn)) static void child_main(const struct box *box, struct launch *launch)
{
    struct error err = {0};
    int status = 0;
    if (!hardening_removed(new_session))
        setsid();
    if (box->identity->has_uid && !hardening_removed(bounding_set) &&
        (status = capabilities_drop_bounding()) < 0)
        error_layer(&err, "bounding_set", status,
                    "cannot empty the capability bounding set (CAP_SETPCAP is needed)");
    if (status == 0 && box->identity->has_uid && !hardening_removed(box_uid)) {
        uid_t uid = box->identity->uid;
        status = process_take_ids(uid, uid);
        if (status < 0)
            error_layer(&err, "box_uid", status,
                        "cannot take the box's own uid %u (CAP_SETUID and "
                        "CAP_SETGID are needed when started by root)",
                        uid);
    }
    if (status == 0 && !hardening_removed(capabilities) && (status = capabilities_drop_all()) < 0)
        error_layer(&err, "capabilities", status, "cannot give up capabilities");
    if (status == 0) {
        status = launch_exec_init(launch);
        error_host(&err, status, "cannot start init");
    }
    launch_child_fail(launch, &err);
}

static void list_layers(const struct box *box, struct result *result)
{
    bool own_uid = box->identity->has_uid;
    result_add_layer(result, layer_names[LAYER_box_uid], own_uid, "%s",
                     own_uid ? "own uid on the host"
                             : "the caller's uid; files and processes go through the supervisor");
    result_add_layer(result, layer_names[LAYER_capabilities], true, "none");
    result_add_layer(result, layer_names[LAYER_no_new_privs], true, "on");
    result_add_layer(result, layer_names[LAYER_seccomp], true, "%s%s",
                     box->policy_variant == POLICY_PROCESS ? "process" : "process, shared uid",
                     box->listener_fd >= 0 ? "" : ", no listener");
    result_add_layer(result, layer_names[LAYER_landlock], true, "abi %d", box->landlock_abi);
    result_add_layer(result, layer_names[LAYER_landlock_scope], box->landlock_scoped, "%s",
                     box->landlock_scoped ? "on"
                     : own_uid            ? "not in this kernel; own uid and supervisor do it"
                                          : "not in this kernel; the supervisor does it");
    result_add_layer(result, layer_names[LAYER_rlimits], true, "on");
    result_add_layer(result, layer_names[LAYER_watchdog], true, "every 10 ms: memory pids cpu disk");
}

static int check_possible(struct box *box, struct error *err)
{
    if (!box->image->is_host)
        return error_spec(err, "image",
                          "image: '%s' needs a root of its own; the process engine has none and shows "
                          "the host's programs: use --image host, or --isolation container",
                          box->image->name);
    box->landlock_abi = landlock_abi();
    if (box->landlock_abi < 0)
        return error_layer(err, "landlock", box->landlock_abi, "cannot ask the kernel for Landlock");
    if (box->landlock_abi == 0)
        return error_layer(
            err, "landlock", 0,
            "the kernel has no Landlock (or an outer container's filter hides "
            "it), and without it nothing keeps the box from the host's files. Linux 5.13 or newer "
            "with landlock in its lsm= list is needed");
    return 0;
}

/* Threads that the caller's uid has now, with some room for what it starts meanwhile. */
static int64_t count_threads_of_caller(void)
{
    scope_dir *processes = opendir("/proc");
    struct dirent *entry;
    int64_t threads = 0;
    while (processes && (entry = readdir(processes))) {
        struct stat owner;
        if (entry->d_name[0] < '0' || entry->d_name[0] > '9' ||
            fstatat(dirfd(processes), entry->d_name, &owner, 0) < 0 || owner.st_uid != geteuid())
            continue;
        char path[64];
        snprintf(path, sizeof path, "/proc/%.20s/task", entry->d_name);
        threads += stat(path, &owner) == 0 && owner.st_nlink > 2 ? (int64_t)owner.st_nlink - 2 : 1;
    }
    return threads + 64;
}

/* Boxes of this process that are alive now, by their init: a library caller may have several. */
static struct {
    pthread_mutex_t lock;
    pid_t inits[256];
    size_t count;
} living = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void living_add(pid_t init)
{
    pthread_mutex_lock(&living.lock);
    if (living.count < sizeof living.inits / sizeof *living.inits)
        living.inits[living.count++] = init;
    pthread_mutex_unlock(&living.lock);
}

static void living_remove(pid_t init)
{
    pthread_mutex_lock(&living.lock);
    for (size_t i = 0; i < living.count; i++)
        if (living.inits[i] == init)
            living.inits[i--] = living.inits[--living.count];
    pthread_mutex_unlock(&living.lock);
}

static int start_init(struct box *box, bool own_uid, struct error *err)
{
    scope_launch launch = LAUNCH_UNSET;
    const struct plan_lists no_paths = {.flags = PLAN_LISTENER | PLAN_LANDLOCK | PLAN_RULESET_COMES |
                                                 (own_uid ? PLAN_OWN_UID : 0) |
                                                 (box->landlock_abi >= 6 ? PLAN_SIGNAL_SCOPE : 0)};
    int status = launch_prepare(box, &launch, err);
    if (status == 0)
        status = launch_write_plan(box, &no_paths, &launch, err);
    if (status < 0)
        return status;
    pid_t pid = process_clone(0, -1, &box->pidfd);
    if (pid < 0)
        return error_host(err, pid, "cannot start a process");
    if (pid == 0)
        child_main(box, &launch);
    process_place_elsewhere(pid); /* it becomes init while we furnish its place */
    box->pid = ((struct watchdog *)box->engine_data)->init = pid;
    living_add(pid);
    return 0;
}

static int process_start(struct box *box, struct result *result, struct error *err)
{
    int status = check_possible(box, err);
    if (status < 0)
        return status;
    bool own_uid = box->identity->has_uid && !hardening_removed(box_uid);
    struct watchdog *watchdog = calloc(1, sizeof *watchdog);
    box->is_watched = true;
    box->engine_data = watchdog;
    box->scratch_fd = fcntl(box->identity->directory_fd, F_DUPFD_CLOEXEC, 0);
    if (!watchdog || box->scratch_fd < 0)
        return error_host(err, watchdog ? -errno : -ENOMEM, "cannot start a box");
    box->threads_beside = own_uid ? 0 : count_threads_of_caller();
    /* Init has the box's uid too: where Landlock does not keep signals from it, the supervisor does. */
    bool apart = (own_uid && box->landlock_abi >= 6) || hardening_removed(box_uid);
    box->policy_variant = apart ? POLICY_PROCESS : POLICY_PROCESS_SHARED_UID;
    /* If init should die, its orphans come to us and not to the host's pid 1. */
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    watchdog->known_count = own_uid ? 0
                                    : process_tree_list(getpid(), watchdog->known,
                                                        sizeof watchdog->known / sizeof *watchdog->known);
    status = start_init(box, own_uid, err);
    if (status == 0)
        status = furnish(box, err);
    if (status < 0)
        return status;
    status = launch_await_verified(box, 20000, NULL, NULL, err);
    if (status == 0)
        list_layers(box, result);
    return status;
}

static void process_measure(struct box *box, struct measurement *now)
{
    if (!box->engine_data)
        return;
    watchdog_measure(box->engine_data, box, now);
    watchdog_measure_disk(box->engine_data, box, now);
}

static bool process_answer(struct box *box, const char **ret_call)
{
    return mediate_answer(box, box->engine_data, ret_call);
}

/* Init ends the box and waits for all that was in it. An init that does not (a guest of the same uid may have
 * stopped it, on kernels without signal scope) is asked a second time, and then there is no asking. */
static void process_stop(struct box *box)
{
    char order = INIT_STOP;
    bool asked_before = box->stops++ > 0;
    if (!asked_before && box->control_fd >= 0 && process_send(box->control_fd, &order, 1, -1) == 0)
        return;
    if (box->identity->has_uid && !hardening_removed(box_uid)) {
        process_kill_uid(box->identity->uid);
        return;
    }
    struct watchdog *watchdog = box->engine_data;
    pid_t *pids = watchdog->pids;
    size_t count = process_tree_list(box->pid, pids, sizeof watchdog->pids / sizeof *pids);
    for (size_t i = 0; i < count; i++)
        kill(pids[i], SIGKILL);
    process_pidfd_kill(box->pidfd, SIGKILL);
}

/* When init was killed, its children came to us, the next subreaper: those of the box's uid are ours to bury.
 */
static void bury_orphans(uid_t uid)
{
    pid_t pids[1024];
    for (int attempt = 0; attempt < 100; attempt++) {
        size_t count = process_tree_list(getpid(), pids, sizeof pids / sizeof *pids), left = 0;
        for (size_t i = 0; i < count; i++) {
            char path[32];
            struct stat owner;
            snprintf(path, sizeof path, "/proc/%d", (int)pids[i]);
            if (stat(path, &owner) == 0 && owner.st_uid == uid)
                left += waitpid(pids[i], NULL, WNOHANG | __WALL) == 0;
        }
        if (!left)
            return;
        process_kill_uid(uid);
        usleep(1000);
    }
}

static bool wears_our_layers(pid_t pid)
{
    char path[32], text[4096];
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    return file_read_attribute(AT_FDCWD, path, text, sizeof text) > 0 && strstr(text, "\nNoNewPrivs:\t1") &&
           strstr(text, "\nSeccomp:\t2");
}

/* Is it (below) the init of a box that is alive? Its line of parents leads to one. */
static bool belongs_to_the_living(pid_t pid)
{
    bool found = false;
    pthread_mutex_lock(&living.lock);
    for (size_t i = 0; i < living.count && !found; i++) {
        found = pid == living.inits[i] || watchdog_is_below(living.inits[i], pid);
    }
    pthread_mutex_unlock(&living.lock);
    return found;
}

/* The same where the box shares our uid: children that we did not have before it, that wear its layers, and
 * that belong to no other box. */
static void bury_strangers(const struct watchdog *watchdog)
{
    pid_t pids[1024];
    for (int attempt = 0; attempt < 500; attempt++) {
        size_t count = process_tree_list(getpid(), pids, sizeof pids / sizeof *pids), left = 0;
        for (size_t i = 0; i < count; i++) {
            bool known = false;
            for (size_t k = 0; k < watchdog->known_count; k++)
                known |= watchdog->known[k] == pids[i];
            if (known || !wears_our_layers(pids[i]) || belongs_to_the_living(pids[i]))
                continue;
            kill(pids[i], SIGKILL);
            left++;
            waitpid(pids[i], NULL, WNOHANG | __WALL);
        }
        if (!left)
            return;
        usleep(1000);
    }
}

static int process_destroy(struct box *box)
{
    living_remove(box->pid);
    if (box->identity->has_uid && !hardening_removed(box_uid) && box->pid > 0)
        bury_orphans(box->identity->uid);
    else if (box->pid > 0 && box->engine_data && !box->ended_by_itself)
        bury_strangers(box->engine_data);
    free(box->engine_data);
    box->engine_data = NULL;
    return 0;
}

const struct engine engine_process = {
    .isolation = ISOLATION_PROCESS,
    .name = "process",
    .in_directory = true,
    .path_of = process_path_of,
    .start = process_start,
    .show_inputs = process_show_inputs,
    .measure = process_measure,
    .answer = process_answer,
    .stop = process_stop,
    .destroy = process_destroy,
};
