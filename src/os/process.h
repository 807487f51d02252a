/* Processes by descriptor: clone3, pidfds, waiting, passing descriptors over a socket. */
#pragma once

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* All signals of the calling thread, as the kernel counts them. */
struct process_signals {
    uint64_t mask;
};
void process_signals_block(struct process_signals *ret_former);
void process_signals_restore(const struct process_signals *former);
/* The kernel's own answer to every signal, also to those that a C library keeps to itself. */
void process_signals_reset(void);

/* clone3 like fork, with a pidfd. cgroup_fd -1: none. Returns 0 in the child, the pid in the parent, or a
 * negative errno. In the child all signals are blocked. */
pid_t process_clone(uint64_t flags, int cgroup_fd, int *ret_pidfd);

/* Calls a function in a child that shares our memory and our descriptors, and waits for its end: for what a
 * process can do only to itself. We sleep meanwhile, so that it may use our errno; it must end by a raw
 * exit_group, and close what it has opened. (Descriptors of its own would all be copied and closed again:
 * thousands, where many boxes wait.) `flags` of clone beside those. */
int process_call_apart_with(int flags, int (*call)(void *data), void *data);
static inline int process_call_apart(int (*call)(void *data), void *data)
{
    return process_call_apart_with(0, call, data);
}

/* Moves a child that was just cloned to another CPU than ours, which it may leave again at once. The kernel
 * often puts it into our own queue, where it would wait until we sleep, although another CPU is idle. Only a
 * hint: without it all works, later. `among`: CPUs that it may have; NULL: ours. */
void process_place_elsewhere(pid_t pid, const cpu_set_t *among);

/* `pid` sleeps, and is about to be woken by us, who then wait for its word. The kernel may wake it on our
 * CPU, and us on its own, where we would wait for it to pause: a virtual CPU that has nothing to do looks to
 * it as if it were taken. So it begins on another CPU than ours, where we stay. Restored in two steps: it as
 * soon as it is awake, and we when the word is there. What cannot be had is left as it is. */
struct process_apart {
    pid_t pid;
    bool they_are, we_are;
    cpu_set_t all;
};
void process_stay_apart(struct process_apart *apart, pid_t pid);
/* The two halves of it, for who wakes it before there is a word to wait for. */
void process_send_away(struct process_apart *apart, pid_t pid);
void process_stay(struct process_apart *apart, pid_t pid);

/* While we stay: another one begins elsewhere too, and for good. */
void process_keep_off(const struct process_apart *apart, pid_t other);
/* The other way round: it gets the CPU that we stay on, because we are about to sleep. */
void process_bring_here(struct process_apart *apart);
void process_let_roam(struct process_apart *apart);
void process_roam(struct process_apart *apart);

/* Closes every descriptor above 2 but these. For a child that goes on running before it executes anything: it
 * must not hold sockets, locks and pipes of its parent's other boxes. At most 64 of them; unset ones (-1) are
 * skipped. */
int process_close_all_but(const int *kept, size_t count);

/* Takes a uid and gid for good, without supplementary groups. Raw system calls: the C library's own functions
 * try to bring along the threads of the process, which a child of clone does not have. */
int process_take_ids(uid_t uid, gid_t gid);

/* Kills everything that has this uid, by a child that takes it for a moment. Needs root. */
int process_kill_uid(uid_t uid);

int process_pidfd_open(pid_t pid);
int process_pidfd_kill(int pidfd, int signal_number);

/* Sends bytes with at most one descriptor (-1: none); receives the same. Receiving returns the number of
 * bytes, 0 at the end, or a negative errno; *ret_fd is -1 when none came. */
int process_send(int socket_fd, const void *data, uint32_t length, int fd);
int process_receive(int socket_fd, void *into, uint32_t size, int *ret_fd);

/* The same with several descriptors; places in `fds` for which none came are -1. */
enum { PROCESS_DESCRIPTORS_MAX = 72 };
int process_send_many(int socket_fd, const void *data, uint32_t length, const int *fds, size_t count);
/* As much as goes into a stream at once, with the descriptors: returns the number of bytes. */
int64_t process_send_some(int socket_fd, const void *data, size_t length, const int *fds, size_t count);
int process_receive_many(int socket_fd, void *into, uint32_t size, int *fds, size_t room);
