/* Copies the files of a guest for another: a snapshot of the scratch space of a box that is forked. */
#pragma once

#include <sys/types.h>

/* What is below one directory, into another one that is empty; the copies belong to uid and gid. Files,
 * directories, links and pipes, with their modes and times; sockets are left out, since nobody would answer.
 * Links are not followed, neither here nor there. Both sides may be the guest's: names are single components
 * below descriptors that were opened before. -ELOOP for a tree that is deeper than anyone needs. */
int copy_tree(int from_fd, int to_fd, uid_t uid, gid_t gid);
