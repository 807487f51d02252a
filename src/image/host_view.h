/* The `host` image: which of the host's files a box may see. Programs and what they need; nothing of /home,
 * /root, /var, /run, /srv, and of /etc only what is listed, none of it secret. */
#pragma once

#include <stdbool.h>

/* Top-level directories, or links to them on a merged-/usr system. */
extern const char *const host_view_trees[];

/* Single files and directories of /etc. */
extern const char *const host_view_etc[];

/* Does the view show this absolute path? */
bool host_view_shows(const char *path);
