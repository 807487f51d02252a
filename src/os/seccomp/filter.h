/* Installing the generated filters. */
#pragma once

#include "os/seccomp/policy.h"

/* Installs the filter of a variant on the calling thread; no_new_privs must be on already. With
 * `ret_listener` the supervisor's descriptor is made, and killing calls wait for it; where a listener cannot
 * be had (an outer sandbox holds one: -EBUSY) pass NULL: the kernel then kills by itself, and what would ask
 * is refused. 0 or a negative errno. */
int seccomp_filter_install(enum policy_variant variant, int *ret_listener);

/* The name of a system call of the native ABI, or NULL. */
const char *seccomp_call_name(int number);

/* What the table says of a number, for a call without conditions. */
enum policy_verdict seccomp_call_verdict(enum policy_variant variant, int number);
