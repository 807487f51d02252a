#include "engine/oci/stage.h"

#include "base/file.h"
#include "base/scope.h"
#include "engine/furnish.h"
#include "engine/oci/bundle.h"
#include "os/capabilities.h"
#include "os/hardening.h"
#include "os/mount.h"
#include "os/process.h"
#include "os/seccomp/filter.h"
#include "os/user_namespace.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { USER_INSIDE = 1000 };

unsigned stage_user(const struct box *box)
{
    return box->identity->has_uid ? USER_INSIDE : 0;
}

/* Above the range of the boxes' own uids, one for one. */
uid_t stage_owner(const struct box *box)
{
    const struct box_identity *identity = box->identity;
    return identity->has_uid ? identity->uid + identity->uid_count : 0;
}

static int make_places(const char *const *places)
{
    int status = 0;
    for (size_t i = 0; status == 0 && places[i]; i++)
        status = furnish_directory(places[i], 0755);
    return status;
}

/* One file of the host's at a name of ours. */
static int show_file(const char *host_path, const char *name, unsigned flags)
{
    int status = furnish_file(name, NULL, 0, 0444);
    return status < 0 ? status : mount_bind(AT_FDCWD, host_path, AT_FDCWD, name, flags);
}

static int make_devices(const struct box *box)
{
    static const char *const devices[] = {"null", "zero", "full", "random", "urandom", "tty", "kvm"};
    bool with_kvm = strcmp(box->spec->oci_platform, "kvm") == 0;
    int status = 0;
    for (size_t i = 0; status == 0 && i < sizeof devices / sizeof *devices - !with_kvm; i++) {
        char from[32], to[32];
        snprintf(from, sizeof from, "/dev/%s", devices[i]);
        snprintf(to, sizeof to, "dev/%s", devices[i]);
        status = furnish_file(to, NULL, 0, 0666);
        if (status == 0)
            status = mount_cover(from, to);
    }
    return status;
}

static int furnish_stage(const struct stage *stage, struct error *err)
{
    static const char *const places[] = {"proc",   "sys", "dev",     "tmp", "state",
                                         "bundle", "box", "scratch", "old", NULL};
    static const struct image host = {.root = (char *)(uintptr_t) "/", .is_host = true};
    const struct box *box = stage->box;
    uid_t runtime_uid = box->identity->has_uid ? box->identity->uid : 0;
    int status = furnish_make_private(err);
    if (status < 0)
        return status;
    status = mount_new("tmpfs", "/proc", MOUNT_NO_SUID | MOUNT_NO_DEVICES, "mode=0755,size=16m");
    if (status < 0 || chdir("/proc") < 0)
        return error_host(err, status < 0 ? status : -errno, "cannot mount the root of the runtime");
    umask(0);
    status = make_places(places);
    if (status == 0 &&
        (chmod("tmp", 01777) < 0 || chmod("state", 0700) < 0 || chown("state", runtime_uid, runtime_uid) < 0))
        status = -errno;
    if (status == 0 && !stage->runtime->row->is_alone)
        status = furnish_image(&host);
    if (status == 0 && stage->runtime->row->sees_groups)
        status =
            mount_bind(AT_FDCWD, "/sys", AT_FDCWD, "sys",
                       MOUNT_RECURSIVE | MOUNT_READ_ONLY | MOUNT_NO_SUID | MOUNT_NO_DEVICES | MOUNT_NO_EXEC);
    else if (status == 0) /* crun looks there, and refuses hybrid layouts, although it is told to use none */
        status = file_make_directories("sys/fs/cgroup", 0755);
    if (status == 0)
        status =
            show_file(stage->runtime->path, "runtime", MOUNT_READ_ONLY | MOUNT_NO_SUID | MOUNT_NO_DEVICES);
    if (status == 0)
        status = make_devices(box);
    if (status == 0)
        status = furnish_file("bundle/config.json", stage->config.data, stage->config.length, 0444);
    return status < 0 ? error_host(err, status, "cannot make the root of the runtime") : 0;
}

static int make_scratch(const struct stage *stage)
{
    static const char *const later[] = {"scratch/" BOX_CODE, "scratch/" BOX_INPUT, NULL};
    const struct box *box = stage->box;
    uid_t owner = stage_owner(box);
    int status = furnish_scratch(box, "scratch", owner, owner);
    scope_fd scratch = status < 0 ? -1 : open("scratch", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (status == 0 && scratch < 0)
        status = -errno;
    struct init_message message = {.kind = INIT_SCRATCH};
    if (status == 0)
        status = process_send(stage->launch->child_control, &message, sizeof message, scratch);
    if (status == 0 && box->is_spare)
        status = make_places(later);
    if (status == 0 && box->is_spare)
        status = furnish_code(box->program, later[0]);
    return status;
}

/* What covers the scratch space in a few places has places there. */
static int make_grant_places(const struct stage *stage, struct error *err)
{
    int status = chdir("../scratch") < 0 ? -errno : 0;
    for (size_t i = 0; status == 0 && i < stage->grants.count; i++) {
        const struct grant_shown *grant = &stage->grants.shown[i];
        char path[PATH_MAX];
        if (!bundle_scratch_path(grant->path, path, sizeof path))
            continue;
        scope_fd place = grant_make_place(path, grant->is_directory);
        if (place < 0)
            return grant_error(grant, place, err);
    }
    if (status < 0 || chdir("../box") < 0)
        return error_host(err, status < 0 ? status : -errno, "cannot make the places of grants");
    return 0;
}

/* The root of the box itself; what is mounted over it by the runtime are places only. */
static int furnish_box(const struct stage *stage, struct error *err)
{
    static const char *const places[] = {"proc", "sys",       "dev",     "tmp",        "run",
                                         "home", "home/user", "data",    "data/input", "data/output",
                                         "code", "dev/shm",   "dev/pts", NULL};
    const struct box *box = stage->box;
    struct slice init = launch_init_program();
    char options[96];
    snprintf(options, sizeof options, "mode=0755,nr_inodes=4096,size=%zu",
             box->program->code.length + init.length + (1 << 20));
    int status = mount_new("tmpfs", "box", MOUNT_NO_DEVICES | MOUNT_NO_SUID, options);
    if (status < 0 || chdir("box") < 0)
        return error_host(err, status < 0 ? status : -errno, "cannot mount the root of the box");
    if ((status = make_places(places)) < 0 || (status = furnish_image(box->image)) < 0)
        return error_host(err, status, "cannot show the image '%s'", box->image->name);
    if ((status = furnish_identity(box->image)) < 0)
        return error_host(err, status, "cannot write the files of /etc");
    status = furnish_file(&STAGE_INIT[1], init.data, init.length, 0555);
    if (status == 0 && !box->is_spare)
        status = furnish_code(box->program, "code");
    if (status < 0)
        return error_host(err, status, "cannot write the code into the box");
    if ((status = grants_show(&stage->grants, err)) < 0 || (status = make_grant_places(stage, err)) < 0)
        return status;
    status = mount_restrict(AT_FDCWD, ".", MOUNT_READ_ONLY);
    if (status < 0 || chdir("..") < 0)
        return error_host(err, status < 0 ? status : -errno, "cannot make the root read-only");
    return 0;
}

/* The host's tree is gone when this returns. It has to be: nobody can make a user namespace while a helper
 * shares its memory. */
static int leave_host(struct error *err)
{
    int status = mount_new("proc", "proc", MOUNT_NO_SUID | MOUNT_NO_DEVICES | MOUNT_NO_EXEC, NULL);
    if (status == 0)
        status = mount_pivot(".", "old", NULL, NULL);
    if (status < 0)
        return error_host(err, status, "cannot change into the root of the runtime");
    int how;
    pid_t helper;
    do
        helper = waitpid(-1, &how, __WALL);
    while (helper < 0 && errno == EINTR);
    if (helper < 0 || how != 0)
        return error_layer(err, "root", 0, "the host's root could not be detached");
    return 0;
}

static int become_nobody(const struct stage *stage, struct error *err)
{
    const struct box_identity *identity = stage->box->identity;
    if (!identity->has_uid)
        return 0; /* it was born in a user namespace */
    char lines[96];
    snprintf(lines, sizeof lines, "0 %u 1\n%u %u 1\n", identity->uid, USER_INSIDE, stage_owner(stage->box));
    int status =
        prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) < 0 ? -errno : process_take_ids(identity->uid, identity->uid);
    if (status < 0)
        return error_layer(err, "box_uid", status, "cannot take the box's own uid %u", identity->uid);
    status = capabilities_raise();
    prctl(PR_SET_DUMPABLE, 1, 0, 0, 0); /* as in engine/container/identity.c */
    if (status == 0)
        status = user_namespace_enter(lines);
    return status < 0 ? error_layer(err, "namespaces", status, "cannot make a user namespace") : 0;
}

static int enter(const struct stage *stage, struct error *err)
{
    int status = 0;
    if (!stage->box->identity->has_uid)
        status = user_namespace_map_self(0, stage->caller_uid, 0, stage->caller_gid);
    if (status < 0)
        return error_layer(err, "namespaces", status, "cannot map the user of the box");
    status = cgroup_join_self(&stage->box->group);
    if (status < 0)
        return error_layer(err, "cgroup", status, "cannot join the control group");
    if ((status = furnish_stage(stage, err)) < 0)
        return status;
    if ((status = make_scratch(stage)) < 0)
        return error_host(err, status, "cannot make the scratch space");
    if ((status = furnish_box(stage, err)) < 0 || (status = leave_host(err)) < 0 ||
        (status = become_nobody(stage, err)) < 0)
        return status;
    if (sethostname("cloche", 6) < 0 && errno != EPERM)
        return error_layer(err, "namespaces", -errno, "cannot set the host name");
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return error_layer(err, "no_new_privs", -errno, "cannot set no_new_privs");
    return 0;
}

static void keep_own_descriptors(const struct stage *stage)
{
    const struct launch *launch = stage->launch;
    int kept[7 + CGROUP_CONTROLLERS + SPEC_GRANTS_MAX] = {
        launch->child_stdin, launch->child_stdout, launch->child_stderr, launch->child_control,
        launch->init_fd,     launch->plan_fd,      launch->child_channel};
    size_t count = 7;
    for (int i = 0; i < CGROUP_CONTROLLERS; i++)
        kept[count++] = stage->box->group.join_fd[i];
    for (size_t i = 0; i < stage->grants.count; i++)
        kept[count++] = stage->grants.shown[i].userns_fd;
    if (process_close_all_but(kept, count) < 0)
        _exit(70);
}

/* A program with threads waits for an RCU grace period, 5 to 15 ms, in two calls that runsc makes at its
 * start. One is membarrier, to register for barriers within a process: it does so each of the six times that
 * its program is executed for one box. Where there is no such call it does without (and says so in the box,
 * where a barrier would have been such a wait, too). The other puts a descriptor to a number that is not in
 * the table of descriptors yet, which then grows: runsc moves the streams to 256. A table is made as large as
 * the highest descriptor needs, before there are threads: this one is of no use otherwise, and gives nobody
 * anything. Where either cannot be had, the runtime starts later. */
static void spare_waits(void)
{
    enum { LARGE_TABLE = 511 };
    seccomp_call_remove(SYS_membarrier);
    scope_fd nothing = open("/dev/null", O_PATH | O_CLOEXEC);
    if (nothing >= 0)
        dup2(nothing, LARGE_TABLE);
}

void stage_main(const struct stage *stage)
{
    struct error err = {0};
    setsid();
    signal(SIGCHLD, SIG_DFL);
    keep_own_descriptors(stage);
    if (enter(stage, &err) < 0)
        launch_child_fail(stage->launch, &err);
    struct init_message entered = {.kind = INIT_ENTERED};
    int status = process_send(stage->launch->child_control, &entered, sizeof entered, -1);
    if (status == 0)
        status = launch_take_places(stage->launch);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    char *environment[] = {(char[]){"PATH=/usr/sbin:/usr/bin"}, NULL};
    if (status == 0 && stage->runtime->row->waits_at_start)
        spare_waits();
    if (status == 0)
        execve(STAGE_PROGRAM, stage->arguments.items, environment);
    error_host(&err, status < 0 ? status : -errno, "cannot start the runtime");
    launch_child_fail(stage->launch, &err);
}
