/* Is there nothing that a copy of this process could not have?
 *
 * The interpreter finds that out too, and can name it (forking.py); but what it makes of three files of /proc
 * touches more memory than all the rest of a fork, and since the last fork each page of that has to be copied
 * first. So it is asked only when the answer here is no. */
#include "alone.h"

#include "os/raw.h"

#include <asm/stat.h>
#include <stdint.h>
#include <sys/syscall.h>

enum { DIRECTORY_LINKS = 2, ENTRY_LENGTH = 16, ENTRY_NAME = 19 /* of struct linux_dirent64 */ };

static int find_status(const char *path, struct stat *ret)
{
    return raw_call(SYS_stat, RAW(path), RAW(ret), 0, 0, 0) == 0;
}

/* The kernel counts each thread as a link of that directory. */
static int has_one_thread(void)
{
    struct stat threads;
    return find_status("/proc/self/task", &threads) && threads.st_nlink == DIRECTORY_LINKS + 1;
}

static long count_children(void)
{
    char text[512];
    long got, count = 0;
    long file = raw_call(SYS_open, RAW("/proc/thread-self/children"), 0, 0, 0, 0);
    while (file >= 0 && (got = raw_call(SYS_read, file, RAW(text), sizeof text, 0, 0)) > 0)
        for (long i = 0; i < got; i++)
            count += text[i] == ' '; /* behind each number */
    if (file < 0)
        return -1;
    raw_call(SYS_close, file, 0, 0, 0, 0);
    return got < 0 ? -1 : count;
}

/* PROCMAP_QUERY of linux/fs.h, which is there since Linux 6.11. */
struct mapping_query {
    uint64_t size, flags, address;
    uint64_t start, end, rights, page_size, offset, inode;
    uint32_t major, minor;
    uint32_t name_size, build_id_size;
    uint64_t name, build_id;
};

enum { MAPPING_WRITABLE = 2, MAPPING_SHARED = 8, MAPPING_NEXT = 16, QUERY = 0xc0686611, NO_MORE = -2 };
_Static_assert(sizeof(struct mapping_query) == 0x68, "the size is part of the request");

/* Of files in /tmp too, if only for reading: those are the parent's, which may go on writing to them. */
static int shares_no_memory(void)
{
    struct stat scratch, system;
    if (!find_status("/tmp", &scratch) || !find_status("/usr", &system))
        return 0;
    long maps = raw_call(SYS_open, RAW("/proc/self/maps"), 0, 0, 0, 0);
    struct mapping_query query = {.size = sizeof query, .flags = MAPPING_SHARED | MAPPING_NEXT};
    long status = maps;
    int is_shared = 0;
    while (maps >= 0 && !is_shared && (status = raw_call(SYS_ioctl, maps, QUERY, RAW(&query), 0, 0)) == 0) {
        uint64_t device = (query.minor & 0xff) | query.major << 8 | (uint64_t)(query.minor & ~0xffU) << 12;
        is_shared = (query.rights & MAPPING_WRITABLE) ||
                    (device == scratch.st_dev && scratch.st_dev != system.st_dev);
        query.address = query.end;
    }
    if (maps >= 0)
        raw_call(SYS_close, maps, 0, 0, 0, 0);
    return !is_shared && status == NO_MORE;
}

long cloche_count_descriptors(void)
{
    char block[1024];
    long got, count = -1; /* but the one that we list them by */
    long list = raw_call(SYS_open, RAW("/proc/self/fd"), 0200000 /* O_DIRECTORY */, 0, 0, 0);
    if (list < 0)
        return list;
    while ((got = raw_call(SYS_getdents64, list, RAW(block), sizeof block, 0, 0)) > 0)
        for (long at = 0; at < got; at += *(unsigned short *)(block + at + ENTRY_LENGTH))
            count += block[at + ENTRY_NAME] != '.';
    raw_call(SYS_close, list, 0, 0, 0, 0);
    return got < 0 ? got : count;
}

int cloche_has_timers(void)
{
    for (long which = 0; which < 3; which++) {
        long timer[4] = {0}; /* interval, and what is left: seconds and microseconds of each */
        if (raw_call(SYS_getitimer, which, RAW(timer), 0, 0, 0) < 0 || timer[2] || timer[3])
            return 1;
    }
    char first;
    long file = raw_call(SYS_open, RAW("/proc/self/timers"), 0, 0, 0, 0);
    if (file < 0)
        return file != NO_MORE; /* not in this kernel */
    long got = raw_call(SYS_read, file, RAW(&first), 1, 0, 0);
    raw_call(SYS_close, file, 0, 0, 0, 0);
    return got != 0;
}

int cloche_is_alone(long known_children)
{
    return has_one_thread() && count_children() == known_children && shares_no_memory();
}
