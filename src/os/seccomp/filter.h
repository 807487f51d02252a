/* Installing the generated filters. */
#pragma once

#include "os/seccomp/policy.h"

#include <stdbool.h>

/* Installs the filter of a variant on the calling thread; no_new_privs must be on already. With
 * `ret_listener` the supervisor's descriptor is made, and killing calls wait for it; where a listener cannot
 * be had (an outer sandbox holds one: -EBUSY) pass NULL: the kernel then kills by itself, and what would ask
 * is refused. 0 or a negative errno. */
int seccomp_filter_install(enum policy_variant variant, int *ret_listener);

/* The same as a program, for somebody else to install: `into` gets it, and room for SECCOMP_FILTER_MAX steps
 * must be there. Returns how many there are. */
struct sock_filter;
enum { SECCOMP_FILTER_MAX = 2048 };
size_t seccomp_filter_write(enum policy_variant variant, bool has_listener, struct sock_filter *into);

/* On top of another filter: of all calls that change the caller's user or groups, only those to ids of this
 * range are let through, and those that drop all groups. */
int seccomp_ids_install(uint32_t first, uint32_t count);

/* On top of another filter, or alone: this call of the native ABI answers ENOSYS, as on a kernel without it.
 * No layer: everything else is let through. */
int seccomp_call_remove(int number);

/* The name of a system call of the native ABI, or NULL. */
const char *seccomp_call_name(int number);

/* What the table says of a number, for a call without conditions. */
enum policy_verdict seccomp_call_verdict(enum policy_variant variant, int number);
