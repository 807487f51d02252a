/* Escape probes: attacks that are run inside a box as an ordinary program.
 *
 * A probe answers one question, "did the boundary hold?", by its exit status and by one line on stdout.
 * Probes are rows of tables, one table a file; a row names the attack, its target, and the hardening steps
 * without which the same attack must succeed (the positive control). README.md says how a probe is written
 * and judged. */
#pragma once

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum verdict {
    VERDICT_HELD = 0,
    VERDICT_BROKE = 1,
    VERDICT_UNDECIDED = 2,
};

/* Which engines promise what the probe attacks. */
#define ON_BOTH      "container,process"
#define ON_CONTAINER "container"
#define ON_PROCESS   "process"

/* What the box does to a program that makes this attack: answers it, or may end it. */
enum ending { RETURNS = 0, MAY_BE_KILLED = 1 };

struct probe {
    const char *name; /* reads as a sentence: what must hold */
    const char *engines;
    enum ending ending;
    const char *controls; /* remove these steps together, and the attack succeeds */
    enum verdict (*attack)(const void *target);
    const void *target;
    const char *description;
};

struct probe_group {
    const char *name;
    const struct probe *probes;
    size_t count;
};

#define PROBE_GROUP(title, array)                                                                            \
    const struct probe_group group_##title = {#title, array, sizeof array / sizeof *array}

extern const struct probe_group group_syscalls, group_filter, group_terminals, group_mounts, group_namespaces,
    group_files, group_trees, group_descriptors, group_processes, group_inspection, group_leaks, group_procfs,
    group_sysfs, group_devices, group_privileges, group_modes, group_network, group_ipc, group_memory;

/* Hardening steps that go together. */

/* The host's root user, without its capabilities: owner of the host's files. In a user namespace too, as
 * files and signals are decided by the uid that the host sees. */
#define HOST_USER "box_uid"

/* The host's root with capabilities. The bounding set belongs to it: with an empty one, even root's exec ends
 * without capabilities. The user namespace and the uid too: a program that is not uid 0 loses its permitted
 * set at exec, and capabilities inside a user namespace do not satisfy capable(). */
#define HOST_ROOT "capabilities,bounding_set,user_namespace,box_uid"

/* The host's processes are visible. A user namespace that does not own its pid namespace cannot mount a
 * /proc, so that the one has to go with the other. */
#define HOST_PIDS "pid_namespace,user_namespace"

/* Landlock in every form: a process in any domain, if only one of scopes, may not trace those outside of it.
 */
#define ANY_LANDLOCK "landlock,landlock_scope"

/* Without no_new_privs the kernel takes a filter or a Landlock ruleset only from a process with
 * CAP_SYS_ADMIN, so these three can only be left out together. */
#define NO_NEW_PRIVS "no_new_privs,seccomp," ANY_LANDLOCK

/* Verdicts (judge.c). Each writes the one line that says what was seen. */
enum verdict held(const char *format, ...) __attribute__((format(printf, 1, 2)));
enum verdict broke(const char *format, ...) __attribute__((format(printf, 1, 2)));
enum verdict undecided(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* "EPERM", or the number where the C library has no name. */
const char *error_name(int error);

/* Is a seccomp filter on this process, ours or an outer one? */
bool filter_in_force(void);

/* A call that must be refused: by EPERM or EACCES, or as unknown by a filter. Any other error, such as
 * EFAULT, was given by the kernel behind the filter and its permission checks. */
enum verdict judge_error(const char *label, int error);
enum verdict judge_call(const char *label, long result); /* takes errno when result is negative */

/* Something by name that must not be reachable: every error holds. */
enum verdict judge_reach(const char *label, long result);

/* Runs in a forked child what would change this process; the function returns 0 or an errno. A child that is
 * killed holds. */
enum verdict judge_in_child(const char *label, int (*attempt)(const void *), const void *argument);

/* One raw system call with fixed arguments, and the attack that makes it and judges the answer. */
struct raw_call {
    const char *label;
    long number;
    long arguments[6];
};
enum verdict call_is_refused(const void *raw_call);

#define CALL(label_, number_, ...) (&(const struct raw_call){label_, number_, {__VA_ARGS__}})

/* An address that is never mapped, for an EFAULT after the permission checks. */
#define BAD_ADDRESS 1L

/* What the runner tells of the host (host.c); NULL or 0 where it does not. */
const char *host_value(const char *name); /* CLOCHE_PROBE_<name> */
const char *host_canary(void);
pid_t host_pid(void);

/* The directory that holds the canary, in a static buffer; NULL without a canary. */
const char *host_directory(void);

/* A name in the box's own scratch directory. */
void scratch_path(char *buffer, size_t size, const char *name);

/* A path with {pid}, {parent} (a pid too), {canary}, {directory} (of the canary), {input}, {scratch},
 * {program_directory} filled in; false where the runner did not say. */
bool path_expand(const char *path, char *buffer, size_t size);

/* How many bytes of a file could be read into the buffer, which ends in a NUL; -1 with errno. */
ssize_t file_read(const char *path, char *buffer, size_t size);

/* The path that this program was started by. */
const char *own_program(void);

/* Attacks on paths (paths.c). The target is a path, or several separated by colons, which path_expand() fills
 * in; one that gives way is enough to break the boundary. */
enum verdict path_cannot_be_seen(const void *paths);
enum verdict file_cannot_be_opened(const void *paths);
enum verdict file_cannot_be_opened_for_writing(const void *paths);
enum verdict file_has_no_content(const void *paths);
enum verdict directory_cannot_be_listed(const void *paths); /* or is empty */
enum verdict directory_cannot_be_written(const void *paths);
enum verdict directory_cannot_be_made(const void *paths); /* below it */
enum verdict entry_cannot_be_deleted(const void *paths);  /* of a file; it is left where it is */
enum verdict link_cannot_be_read(const void *paths);

/* Runs another probe in a fresh image of this program, started from `path` or, with NULL, from a copy in
 * memory (filter.c); its verdict. */
enum verdict probe_in_new_image(const char *path, const char *const arguments[]);

/* Looks up and runs (main.c). */
const struct probe *probe_find(const char *name);

/* probe --syscalls ABI FIRST LAST (syscall_matrix.c); an exit status. */
int syscall_matrix(int count, char *const arguments[]);
