/* Opening a path as a process inside an image would see it. */
#pragma once

/* `path`, absolute or relative to `root_fd`, with links followed inside that directory and never out of it,
 * not through the magic links of /proc and, but for the second form, not into other mounts. Returns a
 * close-on-exec descriptor or a negative errno. */
int in_root_open(int root_fd, const char *path, int flags);
int in_root_open_across_mounts(int root_fd, const char *path, int flags);
