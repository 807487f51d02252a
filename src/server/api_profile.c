/* What a file of data holds. The file is hostile, so it is looked at inside a box, by guest/profile; of what
 * comes back only what the answer is made of is taken, and kept for the next who asks. */
#include "server/api_files.h"

#include "base/bytes.h"
#include "base/scope.h"
#include "server/route.h"
#include "server/server.h"
#include "server/store.h"
#include "server/tenant.h"

#include <errno.h>
#include <string.h>

int files_get_profile(struct exchange *exchange)
{
    return exchange_reply_error(exchange, 501, "layer_missing", NULL, NULL, "not yet");
}
