/* Processes by descriptor: clone3, pidfds, waiting, passing descriptors over a socket. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* clone3 like fork, with a pidfd. cgroup_fd -1: none. Returns 0 in the child, the pid in the parent, or a
 * negative errno. */
pid_t process_clone(uint64_t flags, int cgroup_fd, int *ret_pidfd);

/* Takes a uid and gid for good, without supplementary groups. Raw system calls: the C library's own functions
 * try to bring along the threads of the process, which a child of clone does not have. */
int process_take_ids(uid_t uid, gid_t gid);

/* Kills everything that has this uid, by a child that takes it for a moment. Needs root. */
void process_kill_uid(uid_t uid);

int process_pidfd_open(pid_t pid);
int process_pidfd_kill(int pidfd, int signal_number);

/* Sends bytes with at most one descriptor (-1: none); receives the same. Receiving returns the number of
 * bytes, 0 at the end, or a negative errno; *ret_fd is -1 when none came. */
int process_send(int socket_fd, const void *data, uint32_t length, int fd);
int process_receive(int socket_fd, void *into, uint32_t size, int *ret_fd);
