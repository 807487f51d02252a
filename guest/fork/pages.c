/* The pages that every fork of a zygote uses.
 *
 * A copy shares its memory with the zygote until it writes: then each page is copied in a fault of its own.
 * Of files, its program's code among them, it has no pages at all until it uses them. Which pages those are
 * is known from a trial: a copy of the very state that all forks begin with, without a line of the
 * interpreter's in between, or it would find its free memory elsewhere. A new fork has them made ready in few
 * calls, while it waits for its box to be made. */
#include "pages.h"

#include "memory.h"
#include "os/raw.h"

#include <poll.h>
#include <stdint.h>
#include <sys/syscall.h>

enum {
    MADV_POPULATE_READ_ = 22,
    MADV_POPULATE_WRITE_ = 23,
    PAGE = 4096,
    CHUNK = 4096,
    ENTRIES = CHUNK / 8,
    STRETCHES_MAX = 8192,
    STRETCHES_BETWEEN_LOOKS = 8,
};

struct stretch {
    uint64_t start, length; /* whole pages */
    uint64_t advice;        /* for madvise: to have them for writing, or for reading */
};

struct found {
    long count;
    struct stretch stretches[STRETCHES_MAX];
};

/* Of an entry in /proc/self/pagemap. */
#define PRESENT     (UINT64_C(1) << 63)
#define FILE_BACKED (UINT64_C(1) << 61)
#define EXCLUSIVE   (UINT64_C(1) << 56)

static const struct found *remembered; /* the zygote's, in every fork; never written to again */
static struct found *reported;         /* in a trial: shared with the zygote */

/* What fails costs only time: the fault comes later. */
static void take_stretch(const struct stretch *stretch)
{
    raw_call(SYS_madvise, (long)stretch->start, (long)stretch->length, (long)stretch->advice, 0, 0);
}

void pages_take(void)
{
    for (long i = 0; remembered && i < remembered->count; i++)
        take_stretch(&remembered->stretches[i]);
}

void pages_take_until_called(int channel)
{
    for (long i = 0; remembered && i < remembered->count; i++) {
        struct pollfd called = {.fd = channel, .events = POLLIN};
        if (i % STRETCHES_BETWEEN_LOOKS == 0 && raw_call(SYS_poll, RAW(&called), 1, 0, 0, 0) != 0)
            return;
        take_stretch(&remembered->stretches[i]);
    }
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

/* The memory that this process shares with no other, and what it has used of files. Nothing of the
 * interpreter is used for it: what it would write to is not to be counted. */
static long list_pages(struct stretch *into, long room)
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

/* A copy for ourselves: what is shared with one fork would be with all. */
static void remember(const struct found *found)
{
    struct found *own = memory_map(sizeof *own, MEMORY_PRIVATE);
    if (!own)
        return;
    own->count = found->count;
    for (long i = 0; i < found->count; i++)
        own->stretches[i] = found->stretches[i];
    remembered = own;
}

static void hear_nothing(const int *ends, int channel)
{
    long nowhere = raw_call(SYS_open, RAW("/dev/null"), 1 /* to write */, 0, 0, 0);
    raw_call(SYS_dup2, nowhere, 1, 0, 0, 0);
    raw_call(SYS_dup2, nowhere, 2, 0, 0, 0);
    raw_call(SYS_close, nowhere, 0, 0, 0, 0);
    raw_call(SYS_dup2, ends[0], channel, 0, 0, 0);
    raw_call(SYS_close, ends[0], 0, 0, 0, 0); /* the other stays, or nobody would be there to speak to */
}

int pages_try(const int *ends, int channel)
{
    struct found *found = memory_map(sizeof *found, MEMORY_SHARED);
    long pid = found ? raw_call(SYS_fork, 0, 0, 0, 0, 0) : -1;
    if (pid == 0) {
        reported = found;
        hear_nothing(ends, channel);
        return 1;
    }
    for (int i = 0; i < 2; i++)
        raw_call(SYS_close, ends[i], 0, 0, 0, 0);
    while (pid > 0 && raw_call(SYS_wait4, pid, 0, 0, 0, 0) == -4 /* EINTR */)
        ;
    if (found && found->count > 0 && found->count <= STRETCHES_MAX)
        remember(found);
    if (found)
        raw_call(SYS_munmap, RAW(found), sizeof *found, 0, 0, 0);
    return 0;
}

void pages_end_trial(void)
{
    if (!reported)
        return;
    reported->count = list_pages(reported->stretches, STRETCHES_MAX);
    raw_call(SYS_exit_group, 0, 0, 0, 0, 0);
}
