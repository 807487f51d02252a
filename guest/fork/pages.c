/* The pages that every fork of a zygote uses.
 *
 * A copy shares its memory with the zygote until it writes: then each page is copied in a fault of its own.
 * Of files, its program's code among them, it has no pages at all until it uses them. Which pages those are
 * is known from a fork that was made to find out (guest/python/cloche/pages.py). A new one has them made
 * ready in few calls, while it waits for its box to be made. */
#include "pages.h"

#include "os/raw.h"

#include <sys/syscall.h>

enum { MADV_POPULATE_READ_ = 22, MADV_POPULATE_WRITE_ = 23, PAGE = 4096, CHUNK = 4096, ENTRIES = CHUNK / 8 };

/* Of an entry in /proc/self/pagemap. */
#define PRESENT     (UINT64_C(1) << 63)
#define FILE_BACKED (UINT64_C(1) << 61)
#define EXCLUSIVE   (UINT64_C(1) << 56)

static const struct stretch *remembered; /* the zygote's, in every fork; never written to again */
static long remembered_count;

void cloche_pages_remember(const struct stretch *stretches, long count)
{
    remembered = stretches;
    remembered_count = count;
}

/* What fails costs only time: the fault comes later. */
void pages_take(void)
{
    for (long i = 0; i < remembered_count; i++)
        raw_call(SYS_madvise, (long)remembered[i].start, (long)remembered[i].length,
                 (long)remembered[i].advice, 0, 0);
}

struct listing {
    struct stretch *into;
    long count, room;
    int pagemap;
};

static void add_page(struct listing *listing, uint64_t address, uint64_t advice)
{
    struct stretch *last = listing->count ? &listing->into[listing->count - 1] : 0;
    if (last && last->start + last->length == address && last->advice == advice)
        last->length += PAGE;
    else if (listing->count < listing->room)
        listing->into[listing->count++] = (struct stretch){address, PAGE, advice};
}

static void add_mapping(struct listing *listing, uint64_t start, uint64_t end, int is_writable)
{
    static uint64_t entries[ENTRIES];
    const uint64_t looked_at = PRESENT | (is_writable ? FILE_BACKED | EXCLUSIVE : 0);
    const uint64_t wanted = PRESENT | (is_writable ? EXCLUSIVE : 0);
    const uint64_t advice = is_writable ? MADV_POPULATE_WRITE_ : MADV_POPULATE_READ_;
    while (start < end) {
        long got = raw_call(SYS_pread64, listing->pagemap, RAW(entries), CHUNK, (long)(start / PAGE * 8), 0);
        if (got < 8)
            return;
        for (long i = 0; i < got / 8 && start < end; i++, start += PAGE)
            if ((entries[i] & looked_at) == wanted)
                add_page(listing, start, advice);
    }
}

/* A line of /proc/self/maps as far as it matters: "start-end rw-p". */
struct line {
    uint64_t number[2];
    char rights[4];
    int at; /* 0, 1: in that number; 2…5: at that right; 6: past them */
};

static void take_character(struct listing *listing, struct line *line, char c)
{
    if (c == '\n') {
        if (line->rights[0] == 'r' && line->rights[3] == 'p' && !(line->number[1] >> 63))
            add_mapping(listing, line->number[0], line->number[1], line->rights[1] == 'w');
        *line = (struct line){0};
    } else if (line->at < 2) {
        if (c == '-' || c == ' ')
            line->at++;
        else
            line->number[line->at] =
                line->number[line->at] << 4 | (uint64_t)(c <= '9' ? c - '0' : c - 'a' + 10);
    } else if (line->at < 6) {
        line->rights[line->at++ - 2] = c;
    }
}

/* Nothing of the interpreter is used for it: what it would write to is not to be counted. */
long cloche_pages_list(struct stretch *into, long room)
{
    static char text[CHUNK];
    long maps = raw_call(SYS_open, RAW("/proc/self/maps"), 0, 0, 0, 0);
    long pagemap = raw_call(SYS_open, RAW("/proc/self/pagemap"), 0, 0, 0, 0);
    struct listing listing = {.into = into, .room = room, .pagemap = (int)pagemap};
    struct line line = {0};
    for (long got; maps >= 0 && pagemap >= 0 && (got = raw_call(SYS_read, maps, RAW(text), CHUNK, 0, 0)) > 0;)
        for (long i = 0; i < got; i++)
            take_character(&listing, &line, text[i]);
    raw_call(SYS_close, maps, 0, 0, 0, 0);
    raw_call(SYS_close, pagemap, 0, 0, 0, 0);
    return listing.count;
}
