#include "short/constants.h"

#include <elf.h>
#include <errno.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

/* Where the linker has put the header of the program. */
extern const Elf64_Ehdr program_start __asm__("__ehdr_start") __attribute__((visibility("hidden")));

int constants_seal(void)
{
    const char *base = (const char *)&program_start;
    const Elf64_Phdr *segments = (const Elf64_Phdr *)(base + program_start.e_phoff);
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    for (int i = 0; i < program_start.e_phnum; i++) {
        if (segments[i].p_type != PT_GNU_RELRO)
            continue;
        uintptr_t from = (uintptr_t)base + segments[i].p_vaddr, to = from + segments[i].p_memsz;
        from -= from % page; /* the segment's own beginning is before it */
        to -= to % page;     /* what follows on its last page is written to */
        return mprotect((void *)from, to - from, PROT_READ) < 0 ? -errno : 0;
    }
    return -ENOENT;
}
