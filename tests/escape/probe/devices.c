/* Devices: a box has the harmless ones, and cannot make others. They are opened without blocking and closed
 * again. /dev/watchdog is not among them: opening it starts a countdown to the machine's reset. */
#include "probe.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

static const char *const harmless[] = {".",       "..",     "null",   "zero",   "full", "random",
                                       "urandom", "tty",    "pts",    "ptmx",   "shm",  "fd",
                                       "stdin",   "stdout", "stderr", "mqueue", NULL};

static enum verdict only_harmless_devices(const void *unused)
{
    (void)unused;
    DIR *directory = opendir("/dev");
    if (!directory)
        return held("/dev: %s", error_name(errno));
    const struct dirent *entry;
    while ((entry = readdir(directory))) {
        size_t i = 0;
        while (harmless[i] && strcmp(harmless[i], entry->d_name) != 0)
            i++;
        if (!harmless[i])
            return broke("/dev/%s exists", entry->d_name);
    }
    closedir(directory);
    return held("/dev has nothing but the harmless devices");
}

struct device {
    mode_t type;
    unsigned major_number, minor_number;
};

static enum verdict device_cannot_be_made(const void *target)
{
    const struct device *device = target;
    char path[PATH_MAX];
    scratch_path(path, sizeof path, "device");
    int result = mknod(path, device->type | 0600, makedev(device->major_number, device->minor_number));
    int error = errno;
    if (result == 0)
        unlink(path);
    errno = error;
    return judge_reach("a device of our own", result);
}

static enum verdict made_device_cannot_be_opened(const void *unused)
{
    (void)unused;
    char path[PATH_MAX];
    scratch_path(path, sizeof path, "device");
    if (mknod(path, S_IFCHR | 0600, makedev(1, 3)) < 0)
        return held("mknod: %s", error_name(errno));
    int fd = open(path, O_RDWR | O_CLOEXEC), error = errno;
    unlink(path);
    errno = error;
    return judge_reach("a device of our own, opened", fd);
}

#define MADE(type, major, minor) device_cannot_be_made, (&(const struct device){type, major, minor})

#define OWNED "minimal_dev,landlock," HOST_USER
#define ROOTS "minimal_dev,landlock," HOST_ROOT
#define MAKES "seccomp,landlock," HOST_ROOT

#define OPENS(name, controls, paths, description)                                                            \
    {                                                                                                        \
        name, ON_BOTH, RETURNS, controls, file_cannot_be_opened, paths, description                          \
    }

static const struct probe rows[] = {
    {"only_harmless_devices_exist", ON_CONTAINER, RETURNS, "minimal_dev", only_harmless_devices, NULL,
     "/dev has the null, zero, full, random and terminal devices, and nothing else."},
    OPENS("disks_cannot_be_opened", OWNED,
          "/dev/vda:/dev/sda:/dev/nvme0n1:/dev/xvda:/dev/mmcblk0:/dev/dm-0:/dev/zram0:/dev/loop0",
          "The host's disks cannot be read below their file systems."),
    /* /dev/mem and its like are gone from many kernels; the identity of a processor is still there. */
    OPENS("memory_and_registers_cannot_be_opened", ROOTS,
          "/dev/mem:/dev/kmem:/dev/port:/dev/nvram:/dev/cpu/0/msr:/dev/cpu/0/cpuid",
          "Physical memory, ports and processor registers cannot be opened."),
    OPENS("kernel_log_device_cannot_be_opened", ROOTS, "/dev/kmsg",
          "The kernel's log cannot be read or forged."),
    OPENS("kvm_cannot_be_opened", OWNED, "/dev/kvm:/dev/vhost-net:/dev/vhost-vsock:/dev/sev:/dev/sgx_enclave",
          "The hypervisor's interface is closed."),
    OPENS("vsock_device_cannot_be_opened", OWNED, "/dev/vsock:/dev/vhost-vsock",
          "The way to the hypervisor's host is closed."),
    OPENS("fuse_cannot_be_opened", OWNED, "/dev/fuse:/dev/cuse",
          "No file system can be served from the box."),
    OPENS("tunnel_device_cannot_be_opened", OWNED, "/dev/net/tun:/dev/ppp",
          "No network interface can be made."),
    OPENS("loop_control_cannot_be_opened", OWNED, "/dev/loop-control:/dev/loop0:/dev/mapper/control",
          "No file can be made a disk."),
    OPENS("file_system_controls_cannot_be_opened", OWNED, "/dev/btrfs-control:/dev/autofs",
          "The controls of file systems are closed."),
    OPENS("userfault_device_cannot_be_opened", OWNED, "/dev/userfaultfd",
          "Page faults cannot be handled by device where the call is refused."),
    OPENS("consoles_cannot_be_opened", OWNED, "/dev/console:/dev/tty0:/dev/tty1",
          "The host's consoles cannot be opened."),
    OPENS("screens_cannot_be_opened", OWNED, "/dev/vcs:/dev/vcsa:/dev/vcs1:/dev/fb0:/dev/dri/card0",
          "What is on the host's screens cannot be read."),
    OPENS("input_devices_cannot_be_opened", OWNED,
          "/dev/uinput:/dev/uhid:/dev/input/event0:/dev/input/mice:/dev/hidraw0:/dev/snd/timer:/dev/"
          "vga_arbiter",
          "No key can be faked, no keyboard listened to."),
    OPENS("processor_sleep_cannot_be_controlled", OWNED, "/dev/cpu_dma_latency",
          "The processor's sleep states are closed."),
    OPENS("hardware_random_cannot_be_opened", OWNED, "/dev/hwrng:/dev/tpm0:/dev/tpmrm0:/dev/rtc0",
          "The machine's own sources of keys and time are closed."),

    {"character_device_cannot_be_made", ON_BOTH, RETURNS, MAKES, MADE(S_IFCHR, 1, 3),
     "No character device can be made."},
    {"block_device_cannot_be_made", ON_BOTH, RETURNS, MAKES, MADE(S_IFBLK, 7, 0),
     "No block device can be made."},
    /* 0:0 is what overlay file systems hide files with; anyone may make it. */
    {"whiteout_cannot_be_made", ON_BOTH, RETURNS, "seccomp,landlock", MADE(S_IFCHR, 0, 0),
     "No whiteout can be made."},
    {"made_device_cannot_be_opened", ON_PROCESS, RETURNS, MAKES, made_device_cannot_be_opened, NULL,
     "A device that was made all the same cannot be opened."},
};

PROBE_GROUP(devices, rows);
