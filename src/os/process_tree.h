/* The descendants of a process, where there is no pid namespace to hold them. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Lists all descendants of `root` (without it), at most `size` of them; returns how many there are. */
size_t process_tree_list(pid_t root, pid_t *into, size_t size);

/* How many descend from the calling subreaper, without those of its children that have ended. */
size_t process_tree_count_children(void);

/* Sends all that descends from us a signal: with `own_uid` all that it reaches, which must be nobody else. */
void process_tree_signal_children(bool own_uid, int signal_number);

/* Kills and reaps all descendants of the calling subreaper. own_uid: no other process has our uid, so that
 * one kill(-1) reaches them all at once. Otherwise they are stopped first, so that they cannot fork away.
 * Gives up after about half a minute; false then. */
bool process_tree_kill_children(bool own_uid);
