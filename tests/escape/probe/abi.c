#include "abi.h"

#ifndef __x86_64__
#error "the probes know the system call ABIs of x86-64 only"
#endif

long abi_call_native(long number, const long arguments[6])
{
    register long r10 __asm__("r10") = arguments[3];
    register long r8 __asm__("r8") = arguments[4];
    register long r9 __asm__("r9") = arguments[5];
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(arguments[0]), "S"(arguments[1]), "d"(arguments[2]), "r"(r10),
                       "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}

long abi_call_forking(long number, const long arguments[6])
{
    register long r10 __asm__("r10") = arguments[3];
    register long r8 __asm__("r8") = arguments[4];
    register long r9 __asm__("r9") = arguments[5];
    long result;
    __asm__ volatile("syscall\n\t"
                     "test %%rax, %%rax\n\t"
                     "jnz 1f\n\t"
                     "mov $60, %%eax\n\t" /* exit(0): the child of a vfork runs on our stack */
                     "xor %%edi, %%edi\n\t"
                     "syscall\n\t"
                     "1:"
                     : "=a"(result)
                     : "a"(number), "D"(arguments[0]), "S"(arguments[1]), "d"(arguments[2]), "r"(r10),
                       "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}

/* The sixth argument goes in ebp, which the compiler may need: r12 keeps it, as the kernel leaves r12 alone,
 * while older kernels clear r8 to r11. The stack is not touched: a leaf function keeps data below its
 * pointer. */
long abi_call_i386(long number, const long arguments[6])
{
    register long r12 __asm__("r12") = arguments[5] & 0xffffffff;
    int result;
    __asm__ volatile("xchg %%rbp, %%r12\n\t"
                     "int $0x80\n\t"
                     "xchg %%rbp, %%r12"
                     : "=a"(result), "+r"(r12)
                     : "0"((int)number), "b"(arguments[0]), "c"(arguments[1]), "d"(arguments[2]),
                       "S"(arguments[3]), "D"(arguments[4])
                     : "r8", "r9", "r10", "r11", "memory");
    return result;
}

long abi_call_i386_forking(long number, const long arguments[6])
{
    int result;
    __asm__ volatile("int $0x80\n\t"
                     "test %%eax, %%eax\n\t"
                     "jnz 1f\n\t"
                     "mov $60, %%eax\n\t"
                     "xor %%edi, %%edi\n\t"
                     "syscall\n\t"
                     "1:"
                     : "=a"(result)
                     : "0"((int)number), "b"(arguments[0]), "c"(arguments[1]), "d"(arguments[2]),
                       "S"(arguments[3]), "D"(arguments[4])
                     : "r8", "r9", "r10", "r11", "memory");
    return result;
}
