#include "verify.h"

#include "proofs.h"

#include "os/capabilities.h"
#include "os/hardening.h"
#include "os/seccomp/policy.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* The probes are calls that a box may make and survive: those that kill are not tried. */
static bool x32_is_refused(void)
{
    return syscall(0x40000000 | SYS_getpid) < 0 && errno == ENOSYS;
}

/* An outer container's filter may answer a foreign ABI by killing: a child tries it. */
static bool x32_is_refused_to_child(void)
{
    int status = 0;
    pid_t child = fork();
    if (child == 0)
        _exit(x32_is_refused() ? 0 : 1);
    if (child < 0 || waitpid(child, &status, 0) != child)
        return false;
    return (WIFEXITED(status) && WEXITSTATUS(status) == 0) ||
           (WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS);
}

static int verify_seccomp(const struct init_plan *plan, const struct layers_state *state,
                          struct layers_fault *fault)
{
    const char *wrong = proof_of_seccomp();
    if (!wrong && !(plan->flags & (PLAN_CONTAINER | PLAN_ZYGOTE)))
        wrong = proof_of_process_filter();
    if (wrong)
        return layers_fail(fault, "seccomp", 0, wrong);
    if (state->under_outer_filter ? !x32_is_refused_to_child() : !x32_is_refused())
        return layers_fail(fault, "seccomp", 0, "the x32 ABI was not refused");
    return 0;
}

static int verify_privileges(const struct init_plan *plan, struct layers_fault *fault)
{
    /* Without any privilege of the launcher's the bounding set cannot be emptied, and means nothing. */
    if (plan->flags & PLAN_TAKES_USER) /* each program proves it for itself: layers_take_program_user */
        return prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1
                   ? 0
                   : layers_fail(fault, "no_new_privs", 0, "no_new_privs is not set");
    bool emptied = plan->flags & (PLAN_CONTAINER | PLAN_OWN_UID);
    if (emptied && hardening_verified(bounding_set) && !capabilities_bounding_is_empty())
        return layers_fail(fault, "bounding_set", 0, "the capability bounding set is not empty");
    const char *wrong = hardening_verified(no_new_privs) ? proof_of_no_new_privs() : NULL;
    if (wrong)
        return layers_fail(fault, "no_new_privs", 0, wrong);
    if (hardening_verified(capabilities) && !capabilities_are(layers_kept_capabilities(plan)))
        return layers_fail(fault, "capabilities", 0, "some capability is still held");
    return 0;
}

/* Landlock has no query; the proof is a place that the rules leave out. The control directory of the kernel's
 * own process list is one in the process engine; in a container the root directory is readable but not
 * writable, and so is every place outside the writable list. */
static int verify_landlock(const struct init_plan *plan, struct layers_fault *fault)
{
    if (!(plan->flags & PLAN_CONTAINER)) {
        /* A zygote may look at processes, to bring order into its memory. */
        const char *wrong = proof_of_file_rules(plan->flags & PLAN_ZYGOTE ? "/" : "/proc/self/status");
        if (wrong)
            return layers_fail(fault, "landlock", 0, wrong);
    } else {
        /* /run is a writable directory of the scratch space that no rule names: only Landlock forbids it. */
        int fd = open("/run/landlock-proof", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        if (fd >= 0 || errno != EACCES)
            return layers_fail(fault, "landlock", 0, "a file could be made outside the rules");
    }
    return 0;
}

/* Without namespaces our parent is outside the domain, and must be out of reach of signals. A container
 * shares the domain with its init, so nothing outside can be named to try it on. */
static int verify_scope(const struct init_plan *plan, const struct layers_state *state,
                        struct layers_fault *fault)
{
    const char *wrong = plan->flags & PLAN_CONTAINER ? NULL : proof_of_scope();
    if (!state->landlock_scopes)
        wrong = "there is no scope for signals";
    return wrong ? layers_fail(fault, "landlock_scope", 0, wrong) : 0;
}

static int verify_root(struct layers_fault *fault)
{
    struct statvfs root;
    if (statvfs("/", &root) < 0 || !(root.f_flag & ST_RDONLY))
        return layers_fail(fault, "root_read_only", 0, "the root is not read-only");
    if (hardening_verified(mount_nosuid) && !(root.f_flag & ST_NOSUID))
        return layers_fail(fault, "mount_nosuid", 0, "the root is not mounted nosuid");
    struct statvfs programs;
    if (statvfs("/usr", &programs) == 0 && !(programs.f_flag & ST_RDONLY))
        return layers_fail(fault, "root_read_only", 0, "/usr is not read-only");
    if (hardening_verified(mount_nosuid) && statvfs("/usr", &programs) == 0 && !(programs.f_flag & ST_NOSUID))
        return layers_fail(fault, "mount_nosuid", 0, "/usr is not mounted nosuid");
    return 0;
}

/* The view of the host's programs leaves these out; that they are not there proves which tree this is. */
static int verify_host_view(struct layers_fault *fault)
{
    static const char *const left_out[] = {"/var", "/root", "/boot", "/srv", "/etc/shadow", "/etc/ssh"};
    for (size_t i = 0; i < sizeof left_out / sizeof *left_out; i++)
        if (access(left_out[i], F_OK) == 0)
            return layers_fail(fault, "private_root", 0, "something of the host is seen that no box may see");
    return 0;
}

static int verify_proc(struct layers_fault *fault)
{
    if (access("/proc/sys/kernel", F_OK) == 0 || access("/proc/sysrq-trigger", W_OK) == 0)
        return layers_fail(fault, "proc_mask", 0, "/proc is not masked");
    int fd = open("/proc/cmdline", O_RDONLY | O_CLOEXEC);
    char byte;
    bool readable = fd >= 0 && read(fd, &byte, 1) == 1;
    if (fd >= 0)
        close(fd);
    return readable ? layers_fail(fault, "proc_mask", 0, "/proc/cmdline can be read") : 0;
}

/* /dev and /sys are directories of our own root; a mount of the host's would have another device number. */
static int verify_places(struct layers_fault *fault)
{
    struct stat root, dev, sys;
    if (stat("/", &root) < 0 || stat("/dev", &dev) < 0 || stat("/sys", &sys) < 0)
        return layers_fail(fault, "root", -errno, "a place of the root is missing");
    if (hardening_verified(minimal_dev) && dev.st_dev != root.st_dev)
        return layers_fail(fault, "minimal_dev", 0, "/dev is not the box's own");
    if (hardening_verified(sys_mask) && sys.st_dev != root.st_dev)
        return layers_fail(fault, "sys_mask", 0, "/sys is not the box's own");
    return 0;
}

static int verify_runtime_root(const struct init_plan *plan, struct layers_fault *fault)
{
    static const char *const places[] = {"/cloche-proof", "/usr/cloche-proof", "/code/cloche-proof"};
    for (size_t i = 0; hardening_verified(root_read_only) && i < sizeof places / sizeof *places; i++) {
        int fd = open(places[i], O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        if (fd >= 0 || (errno != EROFS && errno != EACCES && errno != ENOENT && errno != EPERM))
            return layers_fail(fault, "root_read_only", fd >= 0 ? 0 : -errno, "the root is not read-only");
    }
    char name[65] = "";
    if (gethostname(name, sizeof name) < 0 || strcmp(name, "cloche") != 0)
        return layers_fail(fault, "uts_namespace", 0, "the host name is not the box's own");
    if (getpid() != 1)
        return layers_fail(fault, "pid_namespace", 0, "init is not the first process of the box");
    return plan->flags & PLAN_HOST_VIEW && hardening_verified(private_root) ? verify_host_view(fault) : 0;
}

static int verify_init(const struct init_plan *plan, struct layers_fault *fault)
{
    extern char **environ;
    /* A runtime adds a home to the environment that it is told; nothing of it is the launcher's. */
    if (plan->flags & PLAN_RUNTIME_ROOT && environ && *environ && strncmp(*environ, "HOME=", 5) == 0)
        environ++;
    if (hardening_verified(init_dumpable) && prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) != 0)
        return layers_fail(fault, "init_dumpable", 0, "init could be looked into");
    if (hardening_verified(clean_environment) && environ && *environ)
        return layers_fail(fault, "clean_environment", 0, "init has an environment");
    return 0;
}

static int verify_namespaces(struct layers_fault *fault)
{
    char name[65] = "";
    if (hardening_verified(uts_namespace) &&
        (gethostname(name, sizeof name) < 0 || strcmp(name, "cloche") != 0))
        return layers_fail(fault, "uts_namespace", 0, "the host name is not the box's own");
    if (hardening_verified(pid_namespace) && getpid() != 1)
        return layers_fail(fault, "pid_namespace", 0, "init is not the first process of its namespace");
    char line[512] = "";
    int fd = open("/proc/self/cgroup", O_RDONLY | O_CLOEXEC);
    ssize_t length = fd >= 0 ? read(fd, line, sizeof line - 1) : 0;
    if (fd >= 0)
        close(fd);
    line[length > 0 ? length : 0] = '\0';
    if (hardening_verified(cgroup_namespace) && strstr(line, "cloche"))
        return layers_fail(fault, "cgroup_namespace", 0, "the group's path on the host can be seen");
    return 0;
}

static int verify_limits(const struct init_plan *plan, struct layers_fault *fault)
{
    for (uint32_t i = 0; i < plan->rlimit_count && i < PLAN_RLIMITS; i++) {
        struct rlimit now;
        if (getrlimit((int)plan->rlimits[i].resource, &now) < 0 || now.rlim_max > plan->rlimits[i].value)
            return layers_fail(fault, "rlimits", 0, "a resource limit is not in force");
    }
    return 0;
}

/* 0, 1, 2, the control socket, and the channel of a context. */
int verify_descriptors(const struct init_plan *plan, struct layers_fault *fault)
{
    enum { LOOKED_AT = 256 };
    struct pollfd descriptors[LOOKED_AT];
    struct rlimit limit = {.rlim_cur = LOOKED_AT};
    getrlimit(RLIMIT_NOFILE, &limit);
    nfds_t at_once = limit.rlim_cur < LOOKED_AT ? (nfds_t)limit.rlim_cur : LOOKED_AT;
    for (int fd = 0; fd < LOOKED_AT; fd++)
        descriptors[fd] = (struct pollfd){.fd = fd};
    if (poll(descriptors, at_once, 0) < 0) /* one call tells of all which are open */
        return layers_fail(fault, "close_descriptors", -errno, "cannot look at the descriptors");
    for (int fd = 3; fd < LOOKED_AT; fd++) {
        if (fd == INIT_CONTROL_FD || descriptors[fd].revents & POLLNVAL ||
            (fd == INIT_CHANNEL_FD && plan->flags & PLAN_CHANNEL))
            continue;
        int flags = fcntl(fd, F_GETFD);
        if (flags >= 0 && !(flags & FD_CLOEXEC))
            return layers_fail(fault, "close_descriptors", 0, "a descriptor of the launcher is still open");
    }
    return 0;
}

int verify_layers(const struct init_plan *plan, const struct layers_state *state, struct layers_fault *fault)
{
    if (hardening_verified(seccomp) && verify_seccomp(plan, state, fault) < 0)
        return -1;
    if (verify_privileges(plan, fault) < 0)
        return -1;
    if (hardening_verified(rlimits) && verify_limits(plan, fault) < 0)
        return -1;
    if (verify_init(plan, fault) < 0)
        return -1;
    /* Without a root of its own the box has no place for the proof. */
    if (plan->flags & PLAN_LANDLOCK && !(plan->flags & PLAN_SCOPES_ONLY) && hardening_verified(landlock) &&
        !hardening_removed(private_root) && verify_landlock(plan, fault) < 0)
        return -1;
    if (plan->flags & PLAN_SIGNAL_SCOPE && hardening_verified(landlock_scope) &&
        verify_scope(plan, state, fault) < 0)
        return -1;
    if (plan->flags & PLAN_RUNTIME_ROOT)
        return verify_runtime_root(plan, fault);
    if (!(plan->flags & PLAN_MOUNTED_ROOT))
        return 0;
    if (hardening_verified(root_read_only) && verify_root(fault) < 0)
        return -1;
    if (plan->flags & PLAN_HOST_VIEW && hardening_verified(private_root) && verify_host_view(fault) < 0)
        return -1;
    if (hardening_verified(proc_mask) && verify_proc(fault) < 0)
        return -1;
    if (verify_places(fault) < 0)
        return -1;
    return verify_namespaces(fault);
}
