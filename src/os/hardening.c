#include "os/hardening.h"

#include <stdlib.h>
#include <string.h>

const char *const hardening_names[HARDENING_COUNT] = {
#define X(name) #name,
    HARDENING_STEPS(X)
#undef X
};

#ifdef CLOCHE_TEST_HOOKS
uint64_t hardening_removed_mask;
bool hardening_verify_removed;

bool hardening_read_environment(void)
{
    const char *at = getenv("CLOCHE_WEAKEN");
    hardening_verify_removed = getenv("CLOCHE_WEAKEN_VERIFY") != NULL;
    while (at && *at) {
        size_t length = strcspn(at, ",");
        int step = 0;
        while (step < HARDENING_COUNT &&
               (strlen(hardening_names[step]) != length || memcmp(hardening_names[step], at, length) != 0))
            step++;
        if (step == HARDENING_COUNT)
            return false;
        hardening_removed_mask |= UINT64_C(1) << step;
        at += length + (at[length] == ',');
    }
    return true;
}
#endif
