#include "os/capabilities.h"

#include <errno.h>
#include <linux/capability.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { CAPABILITY_NUMBERS = 64 };

int capabilities_drop_bounding(void)
{
    /* The kernel tells where its list ends by EINVAL. */
    for (int capability = 0; capability < CAPABILITY_NUMBERS; capability++)
        if (prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) < 0)
            return errno == EINVAL && capability > 0 ? 0 : -errno;
    return 0;
}

int capabilities_drop_all(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {{0}, {0}};
    /* A kernel that has no such set (gVisor's) does not know the call either. */
    if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0 && errno != EINVAL)
        return -errno;
    return syscall(SYS_capset, &header, data) < 0 ? -errno : 0;
}

int capabilities_inherit(uint64_t mask)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2];
    if (syscall(SYS_capget, &header, data) < 0)
        return -errno;
    for (int i = 0; i < 2; i++)
        data[i].inheritable = (uint32_t)(mask >> (32 * i));
    return syscall(SYS_capset, &header, data) < 0 ? -errno : 0;
}

int capabilities_keep(uint64_t mask)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2];
    for (int i = 0; i < 2; i++)
        data[i].effective = data[i].permitted = data[i].inheritable = (uint32_t)(mask >> (32 * i));
    if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0 ||
        syscall(SYS_capset, &header, data) < 0)
        return -errno;
    for (int capability = 0; capability < CAPABILITY_NUMBERS; capability++)
        if (mask >> capability & 1 && prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, capability, 0, 0) < 0)
            return -errno;
    return 0;
}

int capabilities_raise(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2];
    if (syscall(SYS_capget, &header, data) < 0)
        return -errno;
    data[0].effective = data[0].permitted;
    data[1].effective = data[1].permitted;
    return syscall(SYS_capset, &header, data) < 0 ? -errno : 0;
}

static bool capabilities_read(uint64_t *ret_effective, uint64_t *ret_permitted)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2];
    if (syscall(SYS_capget, &header, data) < 0)
        return false;
    *ret_effective = data[0].effective | (uint64_t)data[1].effective << 32;
    *ret_permitted = data[0].permitted | (uint64_t)data[1].permitted << 32 | data[0].inheritable |
                     (uint64_t)data[1].inheritable << 32;
    return true;
}

bool capabilities_are(uint64_t mask)
{
    uint64_t effective, permitted;
    return capabilities_read(&effective, &permitted) && effective == mask && permitted == mask;
}

bool capabilities_are_none(void)
{
    return capabilities_are(0);
}

bool capabilities_bounding_is_empty(void)
{
    for (int capability = 0; capability < CAPABILITY_NUMBERS; capability++) {
        int held = prctl(PR_CAPBSET_READ, capability, 0, 0, 0);
        if (held < 0)
            return errno == EINVAL && capability > 0;
        if (held)
            return false;
    }
    return true;
}

int capabilities_effective(uint64_t *ret_mask)
{
    uint64_t permitted;
    errno = 0;
    return capabilities_read(ret_mask, &permitted) ? 0 : -errno;
}
