/* Has the client gone, while its thread waits for something else? */
#pragma once

#include <poll.h>
#include <stdbool.h>

enum { HANGUP_LOOK_MS = 250 }; /* how often one who waits looks */

/* A descriptor of -1 never hangs up. */
static inline bool hangup_is_seen(int client_fd)
{
    struct pollfd client = {.fd = client_fd, .events = POLLRDHUP};
    return client_fd >= 0 && poll(&client, 1, 0) > 0 && (client.revents & (POLLRDHUP | POLLHUP | POLLERR));
}
