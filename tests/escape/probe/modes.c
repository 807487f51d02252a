/* Modes and arguments with a second meaning: the filter must look at them, not only at the number of the
 * call. */
#include "probe.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <linux/memfd.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#define CALL_FCHMODAT2 452

/* A setuid file in a directory that the host shares with the box is setuid on the host, with the box's uid.
 */
enum way { BY_CHMOD, BY_FCHMOD, BY_FCHMODAT, BY_FCHMODAT2, BY_HIGH_BITS };

struct setting {
    enum way way;
    mode_t mode;
};

static long set_mode(enum way way, const char *path, int fd, mode_t mode)
{
    switch (way) {
    case BY_CHMOD:
        return syscall(SYS_chmod, path, mode);
    case BY_FCHMOD:
        return syscall(SYS_fchmod, fd, mode);
    case BY_FCHMODAT:
        return syscall(SYS_fchmodat, AT_FDCWD, path, mode);
    case BY_FCHMODAT2:
        return syscall(CALL_FCHMODAT2, AT_FDCWD, path, mode, 0);
    case BY_HIGH_BITS:
        break;
    }
    /* The kernel keeps 16 bits of a mode; the rest is there to make it look like another. */
    return syscall(SYS_chmod, path, (long)mode | (1L << 20) | (1L << 40));
}

static enum verdict mode_cannot_be_set(const void *target)
{
    const struct setting *setting = target;
    char path[PATH_MAX];
    scratch_path(path, sizeof path, "mode");
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0700);
    if (fd < 0)
        return undecided("%s: %s", path, error_name(errno));
    enum verdict verdict = judge_call("setting that mode", set_mode(setting->way, path, fd, setting->mode));
    unlink(path);
    return verdict;
}

enum maker { MAKE_OPEN, MAKE_OPENAT, MAKE_CREAT, MAKE_UNNAMED, MAKE_MKNOD, MAKE_MKNODAT };

struct making {
    enum maker maker;
    mode_t mode;
};

static long make_file(enum maker maker, const char *path, mode_t mode)
{
    switch (maker) {
    case MAKE_OPEN:
        return syscall(SYS_open, path, O_RDWR | O_CREAT | O_EXCL, mode);
    case MAKE_OPENAT:
        return syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CREAT | O_EXCL, mode);
    case MAKE_CREAT:
        return syscall(SYS_creat, path, mode);
    case MAKE_MKNOD:
        return syscall(SYS_mknod, path, S_IFREG | mode, 0);
    case MAKE_MKNODAT:
        return syscall(SYS_mknodat, AT_FDCWD, path, S_IFREG | mode, 0);
    case MAKE_UNNAMED:
        break;
    }
    char directory[PATH_MAX];
    snprintf(directory, sizeof directory, "%.*s", (int)(strrchr(path, '/') - path), path);
    return syscall(SYS_open, directory, O_RDWR | O_TMPFILE, mode);
}

static enum verdict file_cannot_be_made(const void *target)
{
    const struct making *making = target;
    char path[PATH_MAX];
    scratch_path(path, sizeof path, "made");
    long result = make_file(making->maker, path, making->mode);
    enum verdict verdict = judge_call("making a file with that mode", result);
    unlink(path);
    return verdict;
}

/* CAP_NET_RAW, permitted and effective, as the kernel stores it: version 2, little endian. */
static enum verdict file_capability_cannot_be_set(const void *unused)
{
    (void)unused;
    static const uint32_t value[5] = {0x02000001, 1U << CAP_NET_RAW, 0, 0, 0};
    char path[PATH_MAX];
    scratch_path(path, sizeof path, "capable");
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0700);
    if (fd < 0)
        return undecided("%s: %s", path, error_name(errno));
    enum verdict verdict =
        judge_call("setxattr", fsetxattr(fd, "security.capability", value, sizeof value, 0));
    unlink(path);
    return verdict;
}

#define SETS(name, way, mode, description)                                                                   \
    {                                                                                                        \
        name, ON_BOTH, RETURNS, "seccomp", mode_cannot_be_set, (&(const struct setting){way, mode}),         \
            description                                                                                      \
    }
#define MAKES(name, maker, mode, description)                                                                \
    {                                                                                                        \
        name, ON_BOTH, RETURNS, "seccomp", file_cannot_be_made, (&(const struct making){maker, mode}),       \
            description                                                                                      \
    }
#define CALLS(name, call, description)                                                                       \
    {                                                                                                        \
        name, ON_BOTH, RETURNS, "seccomp", call_is_refused, call, description                                \
    }

static const struct probe rows[] = {
    SETS("chmod_to_setuid_is_denied", BY_CHMOD, 04755, "chmod does not make a file setuid."),
    SETS("chmod_to_setgid_is_denied", BY_CHMOD, 02755, "chmod does not make a file setgid."),
    SETS("fchmod_to_setuid_is_denied", BY_FCHMOD, 04755, "fchmod does not make a file setuid."),
    SETS("fchmodat_to_setuid_is_denied", BY_FCHMODAT, 04755, "fchmodat does not make a file setuid."),
    SETS("fchmodat2_to_setuid_is_denied", BY_FCHMODAT2, 04755, "fchmodat2 does not make a file setuid."),
    SETS("chmod_to_setuid_with_high_bits_is_denied", BY_HIGH_BITS, 04755,
         "chmod does not make a file setuid by a mode that only looks different."),
    MAKES("open_of_a_setuid_file_is_denied", MAKE_OPEN, 04755, "open does not make a setuid file."),
    MAKES("openat_of_a_setuid_file_is_denied", MAKE_OPENAT, 04755, "openat does not make a setuid file."),
    MAKES("openat_of_a_setgid_file_is_denied", MAKE_OPENAT, 02755, "openat does not make a setgid file."),
    MAKES("creat_of_a_setuid_file_is_denied", MAKE_CREAT, 04755, "creat does not make a setuid file."),
    MAKES("unnamed_setuid_file_is_denied", MAKE_UNNAMED, 04755, "O_TMPFILE does not make a setuid file."),
    MAKES("mknod_of_a_setuid_file_is_denied", MAKE_MKNOD, 04755, "mknod does not make a setuid file."),
    MAKES("mknodat_of_a_setuid_file_is_denied", MAKE_MKNODAT, 04755, "mknodat does not make a setuid file."),
    {"file_capability_cannot_be_set", ON_BOTH, RETURNS, "seccomp," HOST_ROOT, file_capability_cannot_be_set,
     NULL, "No file can be given capabilities."},
    CALLS("personality_without_randomization_is_denied",
          CALL("personality", SYS_personality, ADDR_NO_RANDOMIZE),
          "Address randomization cannot be turned off."),
    CALLS("personality_with_executable_data_is_denied",
          CALL("personality", SYS_personality, READ_IMPLIES_EXEC),
          "Data cannot be made executable by default."),
    /* The kernel refuses these for their last argument, before it asks for a capability. */
    CALLS("memory_layout_cannot_be_faked", CALL("PR_SET_MM", SYS_prctl, PR_SET_MM, 999, 0, 0, 1),
          "What /proc says of the program's memory cannot be changed."),
    CALLS("memory_layout_cannot_be_faked_with_a_high_bit",
          CALL("PR_SET_MM", SYS_prctl, PR_SET_MM | (1L << 32), 999, 0, 0, 1),
          "Nor by an option that only looks different."),
    CALLS("speculation_control_is_denied",
          CALL("PR_SET_SPECULATION_CTRL", SYS_prctl, PR_SET_SPECULATION_CTRL, 999, 0, 0, 0),
          "Protections against speculative execution cannot be turned off."),
    CALLS("huge_memory_file_is_denied",
          CALL("memfd_create", SYS_memfd_create, (long)"cloche-probe", MFD_HUGETLB),
          "Huge pages, which the memory limit does not count, cannot be had as a file."),
    CALLS("huge_pages_are_denied",
          CALL("mmap", SYS_mmap, 0, 2 << 20, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0),
          "Nor as memory."),
    {"huge_segments_are_denied", ON_CONTAINER, RETURNS, "seccomp," HOST_ROOT, call_is_refused,
     CALL("shmget", SYS_shmget, IPC_PRIVATE, 2 << 20, SHM_HUGETLB | 0600), "Nor as shared memory."},
    {"pages_cannot_be_given_to_pipes", ON_PROCESS, RETURNS, "seccomp", call_is_refused,
     CALL("vmsplice", SYS_vmsplice, -1, 0, 0, 0),
     "Pipes, which no watchdog looks into, hold no pages but their own."},
    {"file_rules_cannot_be_hoarded", ON_PROCESS, RETURNS, "seccomp", call_is_refused,
     CALL("landlock_create_ruleset", SYS_landlock_create_ruleset, 0, 0, 0),
     "Rules for files are memory of the kernel that no watchdog sees."},
    {"snapshots_are_denied", ON_PROCESS, RETURNS, "seccomp", call_is_refused,
     CALL("BTRFS_IOC_SNAP_CREATE", SYS_ioctl, -1, 0x50009401, BAD_ADDRESS),
     "What was opened for reading cannot be copied by the file system."},
};

PROBE_GROUP(modes, rows);
