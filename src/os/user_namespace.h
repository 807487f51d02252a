/* Making user namespaces, and saying who is who in them. */
#pragma once

#include <sys/types.h>

/* In a process that is in a new user namespace: one uid and one gid, its own outside. */
int user_namespace_map_self(uid_t uid, uid_t outside_uid, gid_t gid, gid_t outside_gid);

/* From outside, with the power to: the lines are for uids and gids both. */
int user_namespace_map(pid_t pid, const char *lines);

/* Makes a user namespace with these maps and enters it. Only one who still has power outside may map more
 * than himself: a child that stays there for so long. */
int user_namespace_enter(const char *lines);
