/* System calls that no program in a box may make, whatever its arguments.
 *
 * Arguments are chosen so that a kernel that is reached refuses the call for them, after its permission
 * checks: nothing here has an effect, even for root without a box. Where the kernel looks at the arguments
 * before it looks at the caller, removing the filter is control enough; else the caller must be the host's
 * root as well.
 *
 * Some kernels are built without kexec, modules, I/O ports, or the long gone lookup_dcookie and nfsservctl.
 * They answer ENOSYS, which holds only when a filter can have said it (judge.c), so that the control works
 * there too. */
#include "probe.h"

#include <fcntl.h>
#include <linux/keyctl.h>
#include <linux/quota.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>

/* Younger than the headers of Debian 12. */
#define CALL_STATMOUNT      457
#define CALL_LISTMOUNT      458
#define CALL_OPEN_TREE_ATTR 467

#define FILTER_ONLY "seccomp"
#define AND_ROOT    "seccomp," HOST_ROOT

#define ROW(name, ending, controls, call, description)                                                       \
    {                                                                                                        \
        name, ON_BOTH, ending, controls, call_is_refused, call, description                                  \
    }

static const struct probe rows[] = {
    ROW("mount_is_filtered", MAY_BE_KILLED, FILTER_ONLY,
        CALL("mount", SYS_mount, BAD_ADDRESS, BAD_ADDRESS, BAD_ADDRESS, 0, BAD_ADDRESS),
        "mount does not reach the kernel."),
    ROW("umount_is_filtered", MAY_BE_KILLED, FILTER_ONLY, CALL("umount2", SYS_umount2, BAD_ADDRESS, 0),
        "umount2 does not reach the kernel."),
    ROW("pivot_root_is_filtered", MAY_BE_KILLED, AND_ROOT,
        CALL("pivot_root", SYS_pivot_root, BAD_ADDRESS, BAD_ADDRESS),
        "The root cannot be switched once more."),
    ROW("fsopen_is_filtered", MAY_BE_KILLED, AND_ROOT, CALL("fsopen", SYS_fsopen, BAD_ADDRESS, 0),
        "The new mount interface is closed: fsopen."),
    ROW("fsconfig_is_filtered", MAY_BE_KILLED, FILTER_ONLY, CALL("fsconfig", SYS_fsconfig, -1, 0, 0, 0, 0),
        "The new mount interface is closed: fsconfig (CVE-2022-0185)."),
    ROW("fsmount_is_filtered", MAY_BE_KILLED, AND_ROOT, CALL("fsmount", SYS_fsmount, -1, 0, 0),
        "The new mount interface is closed: fsmount."),
    ROW("fspick_is_filtered", MAY_BE_KILLED, AND_ROOT, CALL("fspick", SYS_fspick, -1, BAD_ADDRESS, 0),
        "The new mount interface is closed: fspick."),
    ROW("move_mount_is_filtered", MAY_BE_KILLED, AND_ROOT,
        CALL("move_mount", SYS_move_mount, -1, BAD_ADDRESS, -1, BAD_ADDRESS, 0),
        "The new mount interface is closed: move_mount."),
    ROW("open_tree_is_filtered", MAY_BE_KILLED, FILTER_ONLY,
        CALL("open_tree", SYS_open_tree, -1, BAD_ADDRESS, 0),
        "The new mount interface is closed: open_tree."),
    ROW("open_tree_attr_is_filtered", MAY_BE_KILLED, FILTER_ONLY,
        CALL("open_tree_attr", CALL_OPEN_TREE_ATTR, -1, BAD_ADDRESS, 0, 0, 0),
        "The younger twin of open_tree is closed too."),
    /* 32 is the size of the first struct mount_attr; a wrong size would be refused before the permission. */
    ROW("mount_setattr_is_filtered", MAY_BE_KILLED, AND_ROOT,
        CALL("mount_setattr", SYS_mount_setattr, -1, BAD_ADDRESS, 0, BAD_ADDRESS, 32),
        "A read-only mount cannot be made writable by mount_setattr."),
    ROW("statmount_is_filtered", RETURNS, FILTER_ONLY,
        CALL("statmount", CALL_STATMOUNT, BAD_ADDRESS, 0, 0, 0), "Mounts cannot be inspected by number."),
    ROW("listmount_is_filtered", RETURNS, FILTER_ONLY,
        CALL("listmount", CALL_LISTMOUNT, BAD_ADDRESS, 0, 0, 0), "Mounts cannot be listed by number."),
    ROW("setns_is_filtered", MAY_BE_KILLED, FILTER_ONLY, CALL("setns", SYS_setns, -1, 0),
        "No other namespace can be entered."),
    ROW("unshare_is_filtered", RETURNS, FILTER_ONLY, CALL("unshare", SYS_unshare, 0),
        "unshare does not reach the kernel, even for nothing."),
    /* Older kernels check the capability before they look at the handle. */
    ROW("open_by_handle_at_is_filtered", MAY_BE_KILLED, AND_ROOT,
        CALL("open_by_handle_at", SYS_open_by_handle_at, -1, BAD_ADDRESS, 0),
        "Files cannot be opened by inode number, behind every path (\"shocker\")."),
    ROW("name_to_handle_at_is_filtered", RETURNS, FILTER_ONLY,
        CALL("name_to_handle_at", SYS_name_to_handle_at, AT_FDCWD, BAD_ADDRESS, BAD_ADDRESS, BAD_ADDRESS, 0),
        "File handles cannot be asked for."),

    ROW("bpf_is_filtered", MAY_BE_KILLED, AND_ROOT, CALL("bpf", SYS_bpf, 0, BAD_ADDRESS, 16),
        "No program can be loaded into the kernel."),
    ROW("kexec_load_is_filtered", MAY_BE_KILLED, AND_ROOT,
        CALL("kexec_load", SYS_kexec_load, 0, 1L << 20, 0, 0), "No other kernel can be loaded."),
    ROW("kexec_file_load_is_filtered", MAY_BE_KILLED, AND_ROOT,
        CALL("kexec_file_load", SYS_kexec_file_load, -1, -1, 0, BAD_ADDRESS, -1),
        "No other kernel can be loaded from a file."),
    ROW("init_module_is_filtered", MAY_BE_KILLED, AND_ROOT,
        CALL("init_module", SYS_init_module, BAD_ADDRESS, 0, BAD_ADDRESS), "No kernel module can be loaded."),
    ROW("finit_module_is_filtered", MAY_BE_KILLED, AND_ROOT,
        CALL("finit_module", SYS_finit_module, -1, BAD_ADDRESS, -1),
        "No kernel module can be loaded from a file."),
    ROW("delete_module_is_filtered", MAY_BE_KILLED, AND_ROOT,
        CALL("delete_module", SYS_delete_module, BAD_ADDRESS, 0), "No kernel module can be removed."),
    /* Without the magic numbers nothing is rebooted, whoever asks. */
    ROW("reboot_is_filtered", MAY_BE_KILLED, AND_ROOT, CALL("reboot", SYS_reboot, 0, 0, 0, 0),
        "The machine cannot be rebooted."),
    ROW("swapon_is_filtered", MAY_BE_KILLED, AND_ROOT, CALL("swapon", SYS_swapon, BAD_ADDRESS, 0),
        "No swap can be added."),
    ROW("swapoff_is_filtered", MAY_BE_KILLED, AND_ROOT, CALL("swapoff", SYS_swapoff, BAD_ADDRESS),
        "No swap can be taken away."),
    /* These two change the caller alone, and it ends here. */
    ROW("iopl_is_filtered", MAY_BE_KILLED, AND_ROOT, CALL("iopl", SYS_iopl, 3),
        "I/O ports stay closed: iopl."),
    ROW("ioperm_is_filtered", MAY_BE_KILLED, AND_ROOT, CALL("ioperm", SYS_ioperm, 0x80, 1, 1),
        "I/O ports stay closed: ioperm."),
    ROW("quotactl_is_filtered", MAY_BE_KILLED, FILTER_ONLY,
        CALL("quotactl", SYS_quotactl, QCMD(Q_GETINFO, 0), BAD_ADDRESS, 0, BAD_ADDRESS),
        "Quotas of the host's file systems are out of reach."),
    ROW("quotactl_fd_is_filtered", MAY_BE_KILLED, FILTER_ONLY,
        CALL("quotactl_fd", SYS_quotactl_fd, -1, QCMD(Q_GETINFO, 0), 0, BAD_ADDRESS),
        "Quotas are out of reach by descriptor too."),
    /* Never with NULL: that turns accounting off. */
    ROW("acct_is_filtered", MAY_BE_KILLED, AND_ROOT, CALL("acct", SYS_acct, BAD_ADDRESS),
        "Process accounting cannot be pointed at a file."),

    ROW("settimeofday_is_filtered", MAY_BE_KILLED, FILTER_ONLY,
        CALL("settimeofday", SYS_settimeofday, BAD_ADDRESS, 0), "The clock cannot be set: settimeofday."),
    ROW("clock_settime_is_filtered", MAY_BE_KILLED, FILTER_ONLY,
        CALL("clock_settime", SYS_clock_settime, 0, BAD_ADDRESS), "The clock cannot be set: clock_settime."),
    ROW("adjtimex_is_filtered", MAY_BE_KILLED, FILTER_ONLY, CALL("adjtimex", SYS_adjtimex, BAD_ADDRESS),
        "The clock cannot be tuned: adjtimex."),
    ROW("clock_adjtime_is_filtered", MAY_BE_KILLED, FILTER_ONLY,
        CALL("clock_adjtime", SYS_clock_adjtime, 0, BAD_ADDRESS),
        "The clock cannot be tuned: clock_adjtime."),
    ROW("sethostname_is_filtered", MAY_BE_KILLED, AND_ROOT,
        CALL("sethostname", SYS_sethostname, BAD_ADDRESS, 1), "The host name cannot be set."),
    ROW("setdomainname_is_filtered", MAY_BE_KILLED, AND_ROOT,
        CALL("setdomainname", SYS_setdomainname, BAD_ADDRESS, 1), "The domain name cannot be set."),
    ROW("chroot_is_filtered", MAY_BE_KILLED, FILTER_ONLY, CALL("chroot", SYS_chroot, BAD_ADDRESS),
        "chroot does not reach the kernel; a second one is the classic way out of the first."),
    /* Read all, of a buffer of no bytes. */
    ROW("syslog_is_filtered", MAY_BE_KILLED, AND_ROOT, CALL("syslog", SYS_syslog, 3, BAD_ADDRESS, 0),
        "The kernel log, with its addresses, cannot be read."),
    ROW("lookup_dcookie_is_filtered", MAY_BE_KILLED, AND_ROOT,
        CALL("lookup_dcookie", SYS_lookup_dcookie, 0, BAD_ADDRESS, 0), "Directory cookies are closed."),
    ROW("nfsservctl_is_filtered", MAY_BE_KILLED, AND_ROOT, CALL("nfsservctl", SYS_nfsservctl, -1, 0, 0),
        "The kernel's file server cannot be commanded."),

    ROW("add_key_is_filtered", MAY_BE_KILLED, FILTER_ONLY,
        CALL("add_key", SYS_add_key, (long)"user", (long)"cloche-probe", (long)"x", 1,
             KEY_SPEC_PROCESS_KEYRING),
        "Keyrings, which no namespace divides, are closed: add_key."),
    /* Without call-out information the kernel starts no helper on the host. */
    ROW("request_key_is_filtered", MAY_BE_KILLED, FILTER_ONLY,
        CALL("request_key", SYS_request_key, (long)"user", (long)"cloche-probe-none", 0, 0),
        "Keyrings are closed: request_key."),
    ROW("keyctl_is_filtered", RETURNS, FILTER_ONLY,
        CALL("keyctl", SYS_keyctl, KEYCTL_GET_KEYRING_ID, KEY_SPEC_SESSION_KEYRING, 0),
        "Keyrings are closed: keyctl."),
    ROW("user_keyring_is_filtered", RETURNS, FILTER_ONLY,
        CALL("keyctl of the user keyring", SYS_keyctl, KEYCTL_GET_KEYRING_ID, KEY_SPEC_USER_KEYRING, 0),
        "The keyring that all processes of a uid share is closed."),

    ROW("ptrace_is_filtered", RETURNS, FILTER_ONLY, CALL("ptrace", SYS_ptrace, PTRACE_ATTACH, -1, 0, 0),
        "No process can be traced."),
    ROW("process_vm_readv_is_filtered", MAY_BE_KILLED, FILTER_ONLY,
        CALL("process_vm_readv", SYS_process_vm_readv, -1, BAD_ADDRESS, 1, BAD_ADDRESS, 1, 0),
        "No other memory can be read."),
    ROW("process_vm_writev_is_filtered", MAY_BE_KILLED, FILTER_ONLY,
        CALL("process_vm_writev", SYS_process_vm_writev, -1, BAD_ADDRESS, 1, BAD_ADDRESS, 1, 0),
        "No other memory can be written."),
    ROW("process_madvise_is_filtered", RETURNS, FILTER_ONLY,
        CALL("process_madvise", SYS_process_madvise, -1, BAD_ADDRESS, 1, 0, 0),
        "No other memory can be advised upon."),
    ROW("process_mrelease_is_filtered", RETURNS, FILTER_ONLY,
        CALL("process_mrelease", SYS_process_mrelease, -1, 0),
        "No dying process can be stripped of its memory."),
    ROW("pidfd_getfd_is_filtered", RETURNS, FILTER_ONLY, CALL("pidfd_getfd", SYS_pidfd_getfd, -1, -1, 0),
        "No descriptor can be taken out of another process."),
    ROW("kcmp_is_filtered", RETURNS, FILTER_ONLY, CALL("kcmp", SYS_kcmp, -1, -1, 0, 0, 0),
        "Kernel objects of processes cannot be compared."),
    ROW("move_pages_is_filtered", RETURNS, FILTER_ONLY, CALL("move_pages", SYS_move_pages, 0, 0, 0, 0, 0, 0),
        "Pages cannot be moved between nodes."),
    ROW("migrate_pages_is_filtered", RETURNS, FILTER_ONLY,
        CALL("migrate_pages", SYS_migrate_pages, 0, 1, BAD_ADDRESS, BAD_ADDRESS),
        "Pages of a process cannot be migrated."),

    ROW("io_uring_setup_is_filtered", RETURNS, FILTER_ONLY,
        CALL("io_uring_setup", SYS_io_uring_setup, 1, BAD_ADDRESS),
        "io_uring, which passes by the filter, is closed: setup."),
    ROW("io_uring_enter_is_filtered", RETURNS, FILTER_ONLY,
        CALL("io_uring_enter", SYS_io_uring_enter, -1, 0, 0, 0, 0, 0), "io_uring is closed: enter."),
    ROW("io_uring_register_is_filtered", RETURNS, FILTER_ONLY,
        CALL("io_uring_register", SYS_io_uring_register, -1, 0, 0, 0), "io_uring is closed: register."),
    ROW("perf_event_open_is_filtered", RETURNS, FILTER_ONLY,
        CALL("perf_event_open", SYS_perf_event_open, BAD_ADDRESS, 0, -1, -1, 0),
        "Performance events are closed."),
    /* FAN_REPORT_FID: the one mode that needs no privilege. */
    ROW("fanotify_init_is_filtered", RETURNS, FILTER_ONLY, CALL("fanotify_init", SYS_fanotify_init, 0x200, 0),
        "File events of whole mounts are closed."),
    ROW("modify_ldt_is_filtered", RETURNS, FILTER_ONLY, CALL("modify_ldt", SYS_modify_ldt, 0, BAD_ADDRESS, 0),
        "Segment tables, a source of kernel bugs, are closed."),

    ROW("clone3_does_not_exist", RETURNS, FILTER_ONLY, CALL("clone3", SYS_clone3, BAD_ADDRESS, 0),
        "clone3 hides its flags behind a pointer, so it must not exist."),
    ROW("openat2_does_not_exist", RETURNS, FILTER_ONLY,
        CALL("openat2", SYS_openat2, AT_FDCWD, (long)"/", BAD_ADDRESS, 24),
        "openat2 hides its mode behind a pointer, so it must not exist."),
};

PROBE_GROUP(syscalls, rows);
