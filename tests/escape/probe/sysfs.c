/* /sys: the machine as a tree of files. A box needs next to nothing of it. */
#include "probe.h"

#define FOR_ALL   "sys_mask,landlock"
#define FOR_OWNER FOR_ALL ",root_read_only," HOST_USER

/* A box without a mask may mount a /sys of its own, where the control groups, a mount below, would be
 * missing. */
#define GROUPS       FOR_ALL ",private_root"
#define GROUPS_OWNER FOR_OWNER ",private_root"

#define ROW(name, controls, attack, paths, description)                                                      \
    {                                                                                                        \
        name, ON_BOTH, RETURNS, controls, attack, paths, description                                         \
    }

static const struct probe rows[] = {
    ROW("sys_kernel_is_hidden", FOR_ALL, directory_cannot_be_listed, "/sys/kernel",
        "The kernel's part of /sys is hidden."),
    ROW("sys_modules_are_hidden", FOR_ALL, directory_cannot_be_listed, "/sys/module",
        "The kernel's modules are not listed."),
    ROW("sys_disks_are_hidden", FOR_ALL, directory_cannot_be_listed, "/sys/block:/sys/class/block",
        "The host's disks are not listed."),
    ROW("sys_network_is_hidden", FOR_ALL, directory_cannot_be_listed, "/sys/class/net",
        "The host's network cards, with their addresses, are not listed."),
    ROW("sys_firmware_is_hidden", FOR_ALL, directory_cannot_be_listed, "/sys/firmware",
        "The firmware's tables are hidden."),
    ROW("sys_devices_are_hidden", FOR_ALL, directory_cannot_be_listed,
        "/sys/devices/virtual:/sys/bus/pci/devices:/sys/dev/char", "The machine's devices are not listed."),
    ROW("machine_serial_numbers_are_hidden", FOR_ALL, file_has_no_content,
        "/sys/class/dmi/id/product_uuid:/sys/class/dmi/id/product_serial:/sys/kernel/notes:/sys/kernel/"
        "vmcoreinfo",
        "Nothing that names this one machine or kernel is told."),
    ROW("kernel_notes_are_hidden", FOR_ALL, file_has_no_content,
        "/sys/kernel/notes:/sys/kernel/boot_params/data",
        "The build of the kernel and its boot parameters are not told."),
    ROW("slab_settings_are_hidden", FOR_ALL, directory_cannot_be_listed, "/sys/kernel/slab",
        "The kernel's heap is not told."),
    ROW("type_information_is_hidden", FOR_ALL, file_has_no_content, "/sys/kernel/btf/vmlinux",
        "The layout of the kernel's structures is not told."),
    /* Often not mounted, and then empty whoever looks: the table of interrupts stands by. */
    ROW("tracing_is_hidden", FOR_OWNER, directory_cannot_be_listed,
        "/sys/kernel/tracing:/sys/kernel/debug:/sys/kernel/security:/sys/kernel/irq",
        "The kernel's tracing and debugging are closed."),
    ROW("uevent_helper_cannot_be_written", FOR_OWNER, file_cannot_be_opened_for_writing,
        "/sys/kernel/uevent_helper:/sys/kernel/profiling:/sys/kernel/rcu_expedited",
        "The program that the kernel starts for devices cannot be chosen."),
    ROW("huge_pages_cannot_be_set", FOR_OWNER, file_cannot_be_opened_for_writing,
        "/sys/kernel/mm/transparent_hugepage/enabled:/sys/kernel/mm/ksm/run:/sys/kernel/mm/lru_gen/enabled",
        "The host's memory management cannot be changed."),
    ROW("power_state_cannot_be_written", FOR_OWNER, file_cannot_be_opened_for_writing,
        "/sys/power/state:/sys/kernel/reboot/mode:/sys/power/pm_async",
        "The machine cannot be put to sleep."),
    ROW("processors_cannot_be_taken_offline", FOR_OWNER, file_cannot_be_opened_for_writing,
        "/sys/devices/system/cpu/cpu1/online:/sys/devices/system/cpu/smt/control",
        "No processor can be taken away from the host."),
    ROW("release_agent_cannot_be_written", GROUPS_OWNER, file_cannot_be_opened_for_writing,
        "/sys/fs/cgroup/release_agent:/sys/fs/cgroup/memory/release_agent:/sys/fs/cgroup/cpu/release_agent:"
        "/sys/fs/cgroup/systemd/release_agent:/sys/fs/cgroup/unified/cgroup.procs:/sys/fs/cgroup/"
        "cgroup.procs",
        "The program that the kernel starts for an emptied control group cannot be chosen (CVE-2022-0492)."),
    ROW("control_groups_cannot_be_joined", GROUPS_OWNER, file_cannot_be_opened_for_writing,
        "/sys/fs/cgroup/cgroup.procs:/sys/fs/cgroup/memory/cgroup.procs:/sys/fs/cgroup/pids/cgroup.procs:"
        "/sys/fs/cgroup/cpu/cgroup.procs:/sys/fs/cgroup/unified/cgroup.procs",
        "The box cannot leave its limits for another control group."),
    ROW("control_group_limits_cannot_be_written", GROUPS_OWNER, file_cannot_be_opened_for_writing,
        "/sys/fs/cgroup/memory.max:/sys/fs/cgroup/pids.max:/sys/fs/cgroup/cpu.max:/sys/fs/cgroup/memory.high:"
        "/sys/fs/cgroup/memory/memory.limit_in_bytes:/sys/fs/cgroup/cpu/cpu.shares:/sys/fs/cgroup/unified/"
        "cgroup.subtree_control:"
        "/sys/fs/cgroup/cgroup.subtree_control",
        "The box cannot raise its own limits."),
    ROW("control_groups_cannot_be_made", GROUPS_OWNER, directory_cannot_be_made,
        "/sys/fs/cgroup/unified:/sys/fs/cgroup/memory:/sys/fs/cgroup", "The box cannot make control groups."),
    ROW("control_groups_are_not_listed", GROUPS, directory_cannot_be_listed, "/sys/fs/cgroup",
        "The control groups of neighbours are not listed."),
};

PROBE_GROUP(sysfs, rows);
