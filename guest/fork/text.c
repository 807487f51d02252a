/* The interpreter's own code in huge pages.
 *
 * It is used by every fork, all over, after a wait in which the caches of addresses have forgotten it; and
 * with small pages of a file each fork has to map it anew. So a zygote puts a copy in its place, which its
 * forks have with two entries. What is code is not changed by it; that it is in no file any more is seen in
 * /proc/self/maps only. */
#include "memory.h"

#include "os/raw.h"

#include <sys/syscall.h>

enum {
    PROT_READ_EXEC = 5,
    MADV_HUGEPAGE_ = 14,
    MADV_COLLAPSE_ = 25,
    MREMAP_TO = 3, /* may move, to the address that is given */
};

static void copy(void *to, const void *from, size_t length)
{
    __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(length) : : "memory");
}

/* We are not in what is exchanged: between the two we only wait for the kernel. */
static int move_chunk(char *chunk)
{
    char *room = memory_map(2 * HUGE, MEMORY_PRIVATE);
    if (!room)
        return 0;
    char *aligned = memory_align(room);
    raw_call(SYS_madvise, RAW(aligned), HUGE, MADV_HUGEPAGE_, 0, 0);
    copy(aligned, chunk, HUGE);
    long status = raw_call(SYS_madvise, RAW(aligned), HUGE, MADV_COLLAPSE_, 0, 0);
    if (status == 0)
        status = raw_call(SYS_mprotect, RAW(aligned), HUGE, PROT_READ_EXEC, 0, 0);
    if (status == 0)
        status = raw_call(SYS_mremap, RAW(aligned), HUGE, HUGE, MREMAP_TO, RAW(chunk));
    raw_call(SYS_munmap, RAW(room), 2 * HUGE, 0, 0, 0);
    return status == RAW(chunk);
}

/* Of code that can be read and is not written to. Where it does not work, all stays as it is. Returns how
 * many huge pages it became. */
__attribute__((visibility("default"))) int cloche_text_enlarge(char *start, char *end);
int cloche_text_enlarge(char *start, char *end)
{
    int moved = 0;
    for (char *chunk = memory_align(start); chunk + HUGE <= end && move_chunk(chunk); chunk += HUGE)
        moved++;
    return moved;
}
