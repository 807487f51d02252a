/* Where random numbers come from in a zygote: memory that is filled anew in each fork. */
#pragma once

#include <stdint.h>

/* `length` bytes at `address` are a generator's state, any value of which is as good as another. 0: no room.
 */
__attribute__((visibility("default"))) int cloche_seeds_add(void *address, long length);

__attribute__((visibility("hidden"))) long seeds_renew(void);
