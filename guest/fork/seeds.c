#include "seeds.h"

#include "os/raw.h"

#include <sys/syscall.h>

enum { SEEDS_MAX = 8 };

static struct {
    char *address;
    long length;
} seeds[SEEDS_MAX];
static int seed_count;

int cloche_seeds_add(void *address, long length)
{
    if (seed_count == SEEDS_MAX)
        return 0;
    seeds[seed_count].address = address;
    seeds[seed_count++].length = length;
    return 1;
}

long seeds_renew(void)
{
    for (int i = 0; i < seed_count; i++)
        for (long done = 0; done < seeds[i].length;) {
            long got = raw_call(SYS_getrandom, RAW(seeds[i].address + done), seeds[i].length - done, 0, 0, 0);
            if (got == -4 /* EINTR */)
                continue;
            if (got <= 0)
                return got < 0 ? got : -5;
            done += got;
        }
    return 0;
}
