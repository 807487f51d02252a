/* The three ways into an x86-64 kernel, without the C library between: the result is the kernel's own, a
 * negative errno on failure. */
#pragma once

#define ABI_X32_BIT 0x40000000L

long abi_call_native(long number, const long arguments[6]);

/* For calls that return twice (fork, vfork, clone): the child ends at once, without touching the stack that
 * it may share. */
long abi_call_forking(long number, const long arguments[6]);

/* int 0x80: arguments are cut to 32 bits. On a kernel without 32-bit emulation the process gets SIGSEGV. */
long abi_call_i386(long number, const long arguments[6]);
long abi_call_i386_forking(long number, const long arguments[6]);
