/* Memory for the interpreter's objects from one stretch of huge pages.
 *
 * CPython takes arenas of a megabyte, which end up scattered between libraries: a fork then copies an entry
 * for each of their small pages, and the end of the copy takes each away. Side by side they are huge pages,
 * and there are five hundred times fewer. Called with the interpreter's lock held. */
#include "os/raw.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>

enum {
    ARENA = 1 << 20,
    HUGE = 2 << 20,
    PROT_READ_WRITE = 3,
    MAP_PRIVATE_ANONYMOUS = 0x22,
    MAP_NORESERVE_ = 0x4000,
    MADV_DONTNEED_ = 4,
    MADV_HUGEPAGE_ = 14,
    MADV_NOHUGEPAGE_ = 15,
};

#define STRETCH ((size_t)1 << 30)

static char *stretch, *unused; /* NULL: none */
static char *kept;             /* up to here it is the zygote's, in every fork */

struct free_arena {
    struct free_arena *next;
};
static struct free_arena *free_arenas;

static void *map(size_t size, long flags)
{
    register long r9 __asm__("r9") = 0;
    register long r10 __asm__("r10") = MAP_PRIVATE_ANONYMOUS | flags;
    register long r8 __asm__("r8") = -1;
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(SYS_mmap), "D"(0L), "S"(size), "d"((long)PROT_READ_WRITE), "r"(r10), "r"(r8),
                       "r"(r9)
                     : "rcx", "r11", "memory");
    return result < 0 && result > -4096 ? NULL : (void *)result;
}

static int is_ours(const void *arena)
{
    return stretch && (const char *)arena >= stretch && (const char *)arena < stretch + STRETCH;
}

__attribute__((visibility("default"))) void *cloche_arena_take(void *context, size_t size);
void *cloche_arena_take(void *context, size_t size)
{
    (void)context;
    if (size == ARENA && free_arenas) {
        struct free_arena *arena = free_arenas;
        free_arenas = arena->next;
        return arena;
    }
    if (size == ARENA && stretch && unused + ARENA <= stretch + STRETCH) {
        char *arena = unused;
        unused += ARENA;
        return arena;
    }
    return map(size, 0);
}

__attribute__((visibility("default"))) void cloche_arena_give(void *context, void *arena, size_t size);
void cloche_arena_give(void *context, void *arena, size_t size)
{
    (void)context;
    if (!is_ours(arena)) {
        raw_call(SYS_munmap, RAW(arena), (long)size, 0, 0, 0);
        return;
    }
    if ((char *)arena >= kept) /* given back to the box, not only to the interpreter */
        raw_call(SYS_madvise, RAW(arena), (long)size, MADV_DONTNEED_, 0, 0);
    struct free_arena *freed = arena;
    freed->next = free_arenas;
    free_arenas = freed;
}

/* Before anything is imported. 0 when it did not work; then all stays as it is. */
__attribute__((visibility("default"))) int cloche_arenas_begin(void);
int cloche_arenas_begin(void)
{
    char *mapped = map(STRETCH + HUGE, MAP_NORESERVE_);
    if (!mapped)
        return 0;
    stretch = unused = kept = (char *)(((uintptr_t)mapped + HUGE - 1) & ~(uintptr_t)(HUGE - 1));
    raw_call(SYS_madvise, RAW(stretch), (long)STRETCH, MADV_HUGEPAGE_, 0, 0);
    return 1;
}

/* What comes from now on is a fork's own: it is counted for its box, so it comes in small pages. */
__attribute__((visibility("default"))) void cloche_arenas_end(void);
void cloche_arenas_end(void)
{
    if (!stretch)
        return;
    kept = (char *)(((uintptr_t)unused + HUGE - 1) & ~(uintptr_t)(HUGE - 1));
    raw_call(SYS_madvise, RAW(kept), (long)(stretch + STRETCH - kept), MADV_NOHUGEPAGE_, 0, 0);
}
