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
#include "engine/process/fork_server.h"
#include "engine/process/memory_group.h"
#include "engine/living.h"
#include "engine/process/mediate.h"
#include "engine/process/place.h"
#include "engine/watchdog.h"
#include "os/capabilities.h"
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

/* While init is being started. */
static int furnish(struct box *box, const struct place_rules *rules, struct error *err)
{
    int status = place_furnish(box, rules, err);
    if (status < 0)
        return status;
    const char order = INIT_ENTER;
    int gifts[2];
    size_t count = 0;
    if (memory_group_join_fd(box) >= 0)
        gifts[count++] = memory_group_join_fd(box);
    if (rules->ruleset_fd >= 0)
        gifts[count++] = rules->ruleset_fd;
    status = process_send_many(box->control_fd, &order, 1, gifts, count);
    /* An init that has failed meanwhile says why itself. */
    if (status < 0 && status != -EPIPE)
        return error_host(err, status, "cannot give init its file rules");
    if ((status = memory_group_verify(box, err)) < 0)
        return status;
    return place_write_code(box, err); /* the program waits for the word to go */
}

__attribute__((noreturn)) static void child_main(const struct box *box, struct launch *launch)
{
    struct error err = {0};
    /* Of the launcher's end of the socket we must see the end; and all that a caller with several threads has
     * open for its other boxes would outlive it with us. */
    int status = hardening_removed(close_descriptors) ? 0 : process_close_all_but(&launch->child_control, 1);
    if (status < 0)
        _exit(70);
    /* What boxes are forked from gives each a user of its own; its filter bounds which (guest/init/layers.c).
     */
    bool gives_users = fork_server_gives_users(box);
    if (!hardening_removed(new_session))
        setsid();
    if (status == 0 && gives_users &&
        ((status = capabilities_inherit(GIVEN_CAPABILITIES)) < 0 || prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) < 0))
        error_layer(&err, "capabilities", status < 0 ? status : -errno,
                    "cannot keep what gives boxes their users");
    if (status == 0 && box->identity->has_uid && !hardening_removed(bounding_set) &&
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
    if (status == 0 && !hardening_removed(capabilities) &&
        (status = gives_users ? capabilities_keep(GIVEN_CAPABILITIES) : capabilities_drop_all()) < 0)
        error_layer(&err, "capabilities", status, "cannot give up capabilities");
    if (status == 0) {
        status = launch_take(launch);
        if (status == 0)
            status = launch_exec_init(launch);
        error_host(&err, status, "cannot start init");
    }
    launch_child_fail(launch, &err);
}

void process_list_layers(const struct box *box, struct result *result)
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
    memory_group_list_layer(box, result);
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

/* A child that becomes init; what it is to be is made while it is on its way. */
static int start_init(struct box *box, bool own_uid, struct error *err)
{
    scope_launch launch = LAUNCH_UNSET;
    bool is_born_inside = memory_group_comes_first(box);
    bool joins = memory_group_can_be_had(box) && !is_born_inside;
    const struct plan_lists no_paths = {
        .flags = PLAN_LANDLOCK | PLAN_RULESET_COMES |
                 (fork_server_is_zygote(box) ? PLAN_ZYGOTE : PLAN_LISTENER) | (own_uid ? PLAN_OWN_UID : 0) |
                 (joins ? PLAN_JOINS_GROUP : 0) | (box->landlock_abi >= 6 ? PLAN_SIGNAL_SCOPE : 0)};
    int status = launch_open(box, &launch, err);
    if (status < 0)
        return status;
    if (is_born_inside && (status = memory_group_make(box, err)) < 0)
        return status;
    pid_t pid = process_clone(0, is_born_inside ? box->group.dir_fd[CGROUP_MEMORY] : -1, &box->pidfd);
    if (pid < 0)
        return error_host(err, pid, "cannot start a process");
    if (pid == 0)
        child_main(box, &launch);
    process_place_elsewhere(pid, NULL);
    scope_close_fd(&launch.child_control);
    box->pid = ((struct watchdog *)box->engine_data)->init = pid;
    status = living_add(pid);
    if (status < 0)
        return error_host(err, status, "no memory for a box");
    status = launch_prepare(box, NULL, &launch, err);
    if (status == 0)
        status = launch_write_plan(box, &no_paths, &launch, err);
    if (status == 0)
        status = launch_give(box, &launch, err);
    return status == 0 && joins ? memory_group_make(box, err) : status;
}

int process_prepare(struct box *box, struct error *err)
{
    bool own_uid = box->identity->has_uid && !hardening_removed(box_uid);
    struct watchdog *watchdog = calloc(1, sizeof *watchdog);
    box->is_watched = true;
    box->engine_data = watchdog;
    if (!watchdog)
        return error_host(err, -ENOMEM, "cannot start a box");
    box->threads_beside = own_uid ? 0 : count_threads_of_caller();
    /* Init has the box's uid too: where Landlock does not keep signals from it, the supervisor does. */
    bool apart = (own_uid && box->landlock_abi >= 6) || hardening_removed(box_uid);
    box->policy_variant = fork_server_is_zygote(box) ? POLICY_PROCESS_ZYGOTE
                          : apart                    ? POLICY_PROCESS
                                                     : POLICY_PROCESS_SHARED_UID;
    /* If init should die, its orphans come to us and not to the host's pid 1; so do inits that were forked.
     */
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    watchdog->known_count = own_uid ? 0
                                    : process_tree_list(getpid(), watchdog->known,
                                                        sizeof watchdog->known / sizeof *watchdog->known);
    return 0;
}

static int process_start(struct box *box, struct result *result, struct error *err)
{
    scope_place_rules rules = PLACE_RULES_UNSET;
    int status = check_possible(box, err);
    if (status == 0)
        status = process_prepare(box, err);
    if (status == 0 && fork_server_is_zygote(box))
        status = fork_server_prepare(box, err);
    if (status == 0)
        status = start_init(box, box->identity->has_uid && !hardening_removed(box_uid), err);
    if (status == 0)
        status = place_rules_open(box, &rules, err);
    if (status == 0)
        status = furnish(box, &rules, err);
    if (status < 0)
        return status;
    status = launch_await_verified(box, 20000, NULL, NULL, err);
    if (status < 0)
        return status;
    process_list_layers(box, result);
    return 0;
}

static void process_measure(struct box *box, struct measurement *now)
{
    if (!box->engine_data)
        return;
    watchdog_measure(box->engine_data, box, now);
    memory_group_measure(box, now);
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

/* In how many pid namespaces it is, one below the other. */
static int count_numbers(const char *status)
{
    static const char field[] = "\nNSpid:";
    const char *at = strstr(status, field);
    int count = 0;
    for (at = at ? at + strlen(field) : ""; *at && *at != '\n'; at++)
        count += *at == '\t';
    return count;
}

/* Who is in a pid namespace below ours is of no box of this engine, but may well be of a container of ours.
 */
static bool wears_our_layers(pid_t pid)
{
    char path[32], text[4096], own[4096];
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    return file_read_attribute(AT_FDCWD, path, text, sizeof text) > 0 &&
           file_read_attribute(AT_FDCWD, "/proc/self/status", own, sizeof own) > 0 &&
           count_numbers(text) == count_numbers(own) && strstr(text, "\nNoNewPrivs:\t1") &&
           strstr(text, "\nSeccomp:\t2");
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
            if (known || !wears_our_layers(pids[i]) || living_have(pids[i]))
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

/* Orphans of a box come to us: who has no children at all has none of those. */
static bool has_children(void)
{
    siginfo_t any;
    return waitid(P_ALL, 0, &any, WEXITED | WNOHANG | WNOWAIT | __WALL) == 0 || errno != ECHILD;
}

static int process_destroy(struct box *box)
{
    bool own_uid = box->identity->has_uid && !hardening_removed(box_uid);
    living_remove(box->pid);
    if (box->pid > 0 && own_uid && has_children())
        bury_orphans(box->identity->uid); /* init too, if it was not waited for */
    else if (box->pid > 0 && !own_uid && box->engine_data && !box->ended_by_itself)
        bury_strangers(box->engine_data);
    if (box->is_reaped)
        place_clear(box);
    fork_server_leave(box);
    free(box->engine_data);
    box->engine_data = NULL;
    return cgroup_destroy(&box->group);
}

const struct engine engine_process = {
    .isolation = ISOLATION_PROCESS,
    .name = "process",
    .in_directory = true,
    .uses_groups = true,
    .path_of = process_path_of,
    .start = process_start,
    .fork = fork_server_fork,
    .show_inputs = place_show_inputs,
    .limit = memory_group_limit,
    .measure = process_measure,
    .answer = process_answer,
    .stop = process_stop,
    .destroy = process_destroy,
};
