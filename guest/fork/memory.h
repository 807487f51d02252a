/* Memory from the kernel, without a C library. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>

enum { HUGE = 2 << 20 };

/* Zeroed, private, to be read and written; NULL: none is to be had. */
static inline void *memory_map(size_t size, long more_flags)
{
    enum { READ_WRITE = 3, PRIVATE_ANONYMOUS = 0x22 };
    register long r9 __asm__("r9") = 0;
    register long r10 __asm__("r10") = PRIVATE_ANONYMOUS | more_flags;
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
