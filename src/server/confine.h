/* The server's own box: from here on it can open nothing outside of its directories, start no program,
 * connect to nothing, and see no other process. Before the first thread, which inherit it. */
#pragma once

#include "base/error.h"

/* data_fd: the data directory; shown_fd: one that is only read, or -1. Layers that the kernel does not have
 * are left out, but for the filter. */
int confine_self(int data_fd, int shown_fd, struct error *err);
