/* Memory for the interpreter's objects from one stretch of huge pages.
 *
 * CPython takes arenas of a megabyte, which end up scattered between libraries: a fork then copies an entry
 * for each of their small pages, and the end of the copy takes each away. Side by side they are huge pages,
 * and there are five hundred times fewer. Called with the interpreter's lock held. */
#include "memory.h"

#include "os/raw.h"

enum {
    ARENA = 1 << 20,
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
    return memory_map(size, MEMORY_PRIVATE);
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
    char *mapped = memory_map(STRETCH + HUGE, MEMORY_PRIVATE | MAP_NORESERVE_);
    if (!mapped)
        return 0;
    stretch = unused = kept = memory_align(mapped);
    raw_call(SYS_madvise, RAW(stretch), (long)STRETCH, MADV_HUGEPAGE_, 0, 0);
    return 1;
}

/* What comes from now on is a fork's own: it is counted for its box, so it comes in small pages. */
__attribute__((visibility("default"))) void cloche_arenas_end(void);
void cloche_arenas_end(void)
{
    if (!stretch)
        return;
    kept = memory_align(unused);
    raw_call(SYS_madvise, RAW(kept), (long)(stretch + STRETCH - kept), MADV_NOHUGEPAGE_, 0, 0);
}
