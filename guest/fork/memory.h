/* Memory from the kernel, without a C library. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>

enum { HUGE = 2 << 20 };

enum { MEMORY_SHARED = 1, MEMORY_PRIVATE = 2 };

/* Zeroed, to be read and written; shared: with the forks that there will be. NULL: none is to be had. */
static inline void *memory_map(size_t size, long flags)
{
    enum { READ_WRITE = 3, ANONYMOUS = 0x20 };
    register long r9 __asm__("r9") = 0;
    register long r10 __asm__("r10") = ANONYMOUS | flags;
    register long r8 __asm__("r8") = -1;
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(SYS_mmap), "D"(0L), "S"(size), "d"((long)READ_WRITE), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result < 0 && result > -4096 ? NULL : (void *)result;
}

/* The first huge page that begins there or behind. */
static inline char *memory_align(char *address)
{
    return (char *)(((uintptr_t)address + HUGE - 1) & ~(uintptr_t)(HUGE - 1));
}
