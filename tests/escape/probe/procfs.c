/* The kernel's own files in /proc: read for what they tell, opened for what they would do. Nothing is ever
 * written, and what is consumed by reading (/proc/kmsg) is only opened. */
#include "probe.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* What programs need and what tells nothing that must be hidden. */
static const char *const declared[] = {"cpuinfo",     "meminfo", "stat", "loadavg", "uptime",      "version",
                                       "filesystems", "mounts",  "net",  "self",    "thread-self", NULL};

static bool is_declared(const char *name)
{
    for (size_t i = 0; declared[i]; i++)
        if (strcmp(declared[i], name) == 0)
            return true;
    return false;
}

static bool tells_something(const char *path)
{
    char byte[2];
    struct stat status;
    if (stat(path, &status) < 0)
        return false;
    if (!S_ISDIR(status.st_mode))
        /* The log is taken away from others by reading it. */
        return strcmp(path, "/proc/kmsg") != 0 && file_read(path, byte, sizeof byte) > 0;
    DIR *directory = opendir(path);
    int entries = 0;
    while (directory && readdir(directory))
        entries++;
    if (directory)
        closedir(directory);
    return entries > 2;
}

/* The list of what a kernel puts there grows with every version: what is not declared must be masked,
 * whatever it is called. */
static enum verdict only_declared_entries_tell(const void *unused)
{
    (void)unused;
    DIR *proc = opendir("/proc");
    if (!proc)
        return held("/proc: %s", error_name(errno));
    const struct dirent *entry;
    while ((entry = readdir(proc))) {
        char path[300];
        if (entry->d_name[0] == '.' || isdigit((unsigned char)entry->d_name[0]) || is_declared(entry->d_name))
            continue;
        snprintf(path, sizeof path, "/proc/%s", entry->d_name);
        if (tells_something(path))
            return broke("%s is not masked", path);
    }
    closedir(proc);
    return held("all but the declared entries are masked");
}

/* Readable for all, or only for root. */
#define FOR_ALL  "proc_mask,landlock"
#define FOR_ROOT "proc_mask,landlock," HOST_ROOT
/* Their owner may use them without any capability. */
#define FOR_OWNER "proc_mask,landlock," HOST_USER

#define ROW(name, controls, attack, paths, description)                                                      \
    {                                                                                                        \
        name, ON_BOTH, RETURNS, controls, attack, paths, description                                         \
    }
#define SETTING(name, path)                                                                                  \
    ROW(name, FOR_OWNER, file_cannot_be_opened_for_writing, "/proc/sys/" path,                               \
        "The setting " path " cannot be written.")

static const struct probe rows[] = {
    {"proc_tells_only_the_declared", ON_CONTAINER, RETURNS, "proc_mask", only_declared_entries_tell, NULL,
     "Every entry of /proc that is not declared is masked."},
    /* Some kernels have no core file; the count of each physical page's uses is as much root's own. */
    ROW("kcore_cannot_be_opened", FOR_ROOT, file_cannot_be_opened, "/proc/kcore:/proc/kpagecount",
        "The kernel's memory cannot be opened."),
    ROW("kmsg_cannot_be_opened", FOR_ROOT, file_cannot_be_opened, "/proc/kmsg",
        "The kernel's log cannot be opened."),
    ROW("keys_are_hidden", FOR_ALL ",user_namespace,box_uid", file_has_no_content,
        "/proc/keys:/proc/key-users", "The kernel's keys, which no namespace divides, are not listed."),
    ROW("sysrq_trigger_cannot_be_opened", FOR_OWNER, file_cannot_be_opened_for_writing,
        "/proc/sysrq-trigger:/proc/sys/kernel/sysrq:/proc/sys/kernel/panic",
        "The file that reboots the machine cannot be opened."),
    ROW("kernel_command_line_is_hidden", FOR_ALL, file_has_no_content, "/proc/cmdline:/proc/bootconfig",
        "The kernel's command line is not told."),
    ROW("kernel_configuration_is_hidden", FOR_ALL, file_has_no_content, "/proc/config.gz",
        "How the kernel was built is not told."),
    ROW("timer_list_is_hidden", FOR_OWNER, file_has_no_content, "/proc/timer_list",
        "The timers of the host's processes are not listed."),
    ROW("slabs_are_hidden", FOR_OWNER, file_has_no_content, "/proc/slabinfo:/proc/vmallocinfo",
        "The kernel's heap, which exploits are tuned by, is not told."),
    ROW("page_flags_are_hidden", FOR_OWNER, file_has_no_content, "/proc/kpageflags:/proc/kpagecgroup",
        "The state of physical pages is not told."),
    ROW("page_types_are_hidden", FOR_OWNER, file_has_no_content, "/proc/pagetypeinfo",
        "The order of physical memory is not told."),
    ROW("memory_map_is_hidden", FOR_ALL, file_has_no_content, "/proc/iomem:/proc/ioports",
        "The map of physical memory is not told."),
    ROW("interrupts_are_hidden", FOR_ALL, file_has_no_content, "/proc/interrupts:/proc/softirqs",
        "The counts of interrupts, which tell what the host does, are hidden."),
    ROW("disks_are_hidden", FOR_ALL, file_has_no_content, "/proc/partitions:/proc/diskstats:/proc/swaps",
        "The host's disks are not listed."),
    ROW("devices_are_not_listed", FOR_ALL, file_has_no_content, "/proc/devices:/proc/misc:/proc/consoles",
        "The host's drivers are not listed."),
    ROW("modules_are_hidden", FOR_ALL, file_has_no_content, "/proc/modules:/proc/crypto:/proc/execdomains",
        "What the kernel has loaded is not listed."),
    ROW("memory_zones_are_hidden", FOR_ALL, file_has_no_content,
        "/proc/zoneinfo:/proc/vmstat:/proc/buddyinfo",
        "The state of the host's memory is not told in detail."),
    ROW("pressure_is_hidden", FOR_ALL, directory_cannot_be_listed, "/proc/pressure",
        "The host's load is not told in detail."),
    ROW("ipc_objects_are_hidden", FOR_ALL, directory_cannot_be_listed, "/proc/sysvipc",
        "Shared memory of others is not listed."),
    ROW("buses_are_hidden", FOR_ALL, directory_cannot_be_listed, "/proc/bus:/proc/acpi:/proc/scsi",
        "The machine's buses are not listed."),
    ROW("file_systems_are_hidden", FOR_ALL, directory_cannot_be_listed, "/proc/fs",
        "The state of the host's file systems is not told."),
    ROW("irq_affinity_cannot_be_written", FOR_OWNER, file_cannot_be_opened_for_writing,
        "/proc/irq/default_smp_affinity:/proc/mtrr", "Interrupts and memory types cannot be set."),
    ROW("terminals_are_not_listed", FOR_ALL, directory_cannot_be_listed, "/proc/tty",
        "The terminal drivers are not listed."),
    ROW("settings_are_not_listed", FOR_ALL, directory_cannot_be_listed, "/proc/sys:/proc/sys/kernel",
        "The kernel's settings are not listed."),
    ROW("kernel_hardening_is_not_told", FOR_ALL, file_has_no_content,
        "/proc/sys/kernel/randomize_va_space:/proc/sys/kernel/kptr_restrict",
        "Which protections the kernel has on is not told."),

    /* Each of these is a program that the kernel runs as the host's root, or a protection to be turned off.
     */
    SETTING("core_pattern_cannot_be_written", "kernel/core_pattern"),
    /* The helper that loads modules, or, where the kernel has none, the one that starts programs of new
       kinds. */
    ROW("kernel_helpers_cannot_be_written", FOR_OWNER, file_cannot_be_opened_for_writing,
        "/proc/sys/kernel/modprobe:/proc/sys/kernel/hotplug:/proc/sys/kernel/poweroff_cmd:"
        "/proc/sys/fs/binfmt_misc/register:/proc/sys/kernel/core_pipe_limit",
        "The programs that the kernel starts cannot be chosen."),
    SETTING("address_randomization_cannot_be_written", "kernel/randomize_va_space"),
    SETTING("memory_overcommit_cannot_be_written", "vm/overcommit_memory"),
    /* Its owner is that of the pid namespace. */
    ROW("process_limit_cannot_be_written", FOR_OWNER ",user_namespace", file_cannot_be_opened_for_writing,
        "/proc/sys/kernel/pid_max", "The setting kernel/pid_max cannot be written."),
    SETTING("host_name_setting_cannot_be_written", "kernel/hostname"),
    ROW("network_settings_cannot_be_written", FOR_OWNER, file_cannot_be_opened_for_writing,
        "/proc/sys/net/ipv4/ip_forward:/proc/sys/net/ipv4/ping_group_range:/proc/sys/net/core/somaxconn",
        "The network's settings cannot be written."),
};

PROBE_GROUP(procfs, rows);
