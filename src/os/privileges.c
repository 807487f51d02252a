#include "os/privileges.h"

#include "os/capabilities.h"
#include "os/process.h"

#include <errno.h>
#include <sys/prctl.h>
#include <sys/resource.h>

int privileges_give_up(bool takes_user, uid_t user)
{
    const struct rlimit no_core = {0, 0};
    int status = 0;
    if (takes_user) {
        status = capabilities_drop_bounding();
        if (status == 0)
            status = process_take_ids(user, user);
    }
    if (status == 0)
        status = capabilities_drop_all();
    if (status == 0 && (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || setrlimit(RLIMIT_CORE, &no_core) < 0))
        status = -errno;
    return status;
}
