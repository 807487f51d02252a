/* System calls that touch nothing but the kernel: for a child that shares our memory while we go on running.
 * The C library's own would write to the errno of both. */
#pragma once

static inline long raw_call(long number, long first, long second, long third, long fourth, long fifth)
{
    long result;
    register long r10 __asm__("r10") = fourth;
    register long r8 __asm__("r8") = fifth;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(first), "S"(second), "d"(third), "r"(r10), "r"(r8)
                     : "rcx", "r11", "memory");
    return result; /* a negative errno on failure */
}

#define RAW(pointer) ((long)(uintptr_t)(pointer))
