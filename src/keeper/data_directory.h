/* The one directory that a server keeps everything in. Under root it belongs to the server's own user, so
 * that the server needs no right on anything else. */
#pragma once

#include "base/error.h"

#include <sys/types.h>

/* The default place: /var/lib/cloche/server for root, else $XDG_DATA_HOME/cloche/server or
 * ~/.local/share/cloche/server. */
int data_directory_default(char *into, size_t size);

/* The user that the server runs as: its own under root, else ours. Never one of a box. */
uid_t data_directory_owner(void);

/* Makes it if need be, and opens it. What exists and is not a server's is refused: it would change hands. */
int data_directory_open(const char *path, struct error *err);

/* For who serves from it: -EBUSY when another server does. Held until the descriptor and its copies are
 * closed. */
int data_directory_lock(int fd, const char *path, struct error *err);
