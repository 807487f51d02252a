/* Other processes, looked at through /proc. Three kinds of them: a process of the host, process 1, and
 * whichever can be found. */
#include "probe.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Is the secret in a block of NUL-separated strings? The variable by which the runner tells it does not
 * count. */
static bool block_has_secret(const char *block, size_t size, const char *secret)
{
    static const char told_by[] = "CLOCHE_PROBE_SECRET_ENV=";
    for (const char *at = block; at < block + size; at += strlen(at) + 1)
        if (strstr(at, secret) && strncmp(at, told_by, sizeof told_by - 1) != 0)
            return true;
    return false;
}

static bool environment_has_secret(const char *pid, const char *secret)
{
    static char block[256 * 1024];
    char path[64];
    snprintf(path, sizeof path, "/proc/%.16s/environ", pid);
    ssize_t size = file_read(path, block, sizeof block);
    return size > 0 && block_has_secret(block, (size_t)size, secret);
}

static enum verdict own_environment_has_no_secret(const void *unused)
{
    (void)unused;
    const char *secret = host_value("SECRET_ENV");
    if (!secret)
        return undecided("the runner told no secret");
    for (char **entry = environ; *entry; entry++)
        if (block_has_secret(*entry, strlen(*entry), secret))
            return broke("the environment has the launcher's secret: %.*s", (int)strcspn(*entry, "="),
                         *entry);
    return held("the environment does not have the launcher's secret");
}

static enum verdict init_environment_has_no_secret(const void *unused)
{
    (void)unused;
    const char *secret = host_value("SECRET_ENV");
    char byte[2];
    if (!secret)
        return undecided("the runner told no secret");
    if (environment_has_secret("1", secret))
        return broke("the environment of process 1 has the launcher's secret");
    ssize_t size = file_read("/proc/1/environ", byte, sizeof byte);
    return held("/proc/1/environ: %s", size < 0 ? error_name(errno) : "no secret");
}

static enum verdict no_environment_has_the_secret(const void *unused)
{
    (void)unused;
    const char *secret = host_value("SECRET_ENV");
    DIR *proc = opendir("/proc");
    if (!secret)
        return undecided("the runner told no secret");
    if (!proc)
        return held("/proc: %s", error_name(errno));
    const struct dirent *entry;
    int processes = 0;
    while ((entry = readdir(proc))) {
        if (!isdigit((unsigned char)entry->d_name[0]) || atoi(entry->d_name) == getpid())
            continue;
        processes++;
        if (environment_has_secret(entry->d_name, secret))
            return broke("the environment of process %s has the launcher's secret", entry->d_name);
    }
    closedir(proc);
    return held("no secret in the environments of %d processes", processes);
}

static enum verdict host_process_is_not_listed(const void *unused)
{
    (void)unused;
    DIR *proc = opendir("/proc");
    if (!host_pid())
        return undecided("the runner named no process");
    if (!proc)
        return held("/proc: %s", error_name(errno));
    const struct dirent *entry;
    while ((entry = readdir(proc)))
        if (atoi(entry->d_name) == host_pid())
            return broke("process %s of the host is listed", entry->d_name);
    closedir(proc);
    return held("the process of the host is not listed");
}

/* Open to all that can see the process. */
#define VISIBLE HOST_PIDS ",landlock"
/* Open to those that could trace it. */
#define TRACEABLE "pid_namespace," ANY_LANDLOCK "," HOST_ROOT
#define INIT      ANY_LANDLOCK "," HOST_ROOT

/* Process 1 of a container has the uid and the (lack of) privileges of the box; that it cannot be dumped is
 * what protects it, and no root is needed to prove it. */
#define OWN_INIT "init_dumpable," ANY_LANDLOCK

#define ROW(name, controls, attack, path, description)                                                       \
    {                                                                                                        \
        name, ON_BOTH, RETURNS, controls, attack, path, description                                          \
    }

static const struct probe rows[] = {
    ROW("host_process_is_not_listed", VISIBLE, host_process_is_not_listed, NULL,
        "A process of the host is not listed in /proc."),
    ROW("host_process_status_cannot_be_read", VISIBLE, file_has_no_content,
        "/proc/{pid}/status:/proc/{pid}/stat", "The state of a process of the host is hidden."),
    ROW("host_process_command_line_cannot_be_read", VISIBLE, file_has_no_content,
        "/proc/{pid}/cmdline:/proc/{pid}/comm", "The command line of a process of the host is hidden."),
    ROW("host_process_environment_cannot_be_read", TRACEABLE, file_has_no_content, "/proc/{pid}/environ",
        "The environment of a process of the host is hidden."),
    ROW("host_process_map_cannot_be_read", TRACEABLE, file_has_no_content, "/proc/{pid}/maps",
        "The address space of a process of the host is hidden."),
    ROW("host_process_memory_file_cannot_be_opened", TRACEABLE, file_cannot_be_opened, "/proc/{pid}/mem",
        "The memory of a process of the host cannot be opened."),
    ROW("host_process_memory_file_cannot_be_written", TRACEABLE, file_cannot_be_opened_for_writing,
        "/proc/{pid}/mem", "The memory of a process of the host cannot be opened for writing."),
    ROW("host_process_descriptors_cannot_be_listed", TRACEABLE, directory_cannot_be_listed, "/proc/{pid}/fd",
        "The descriptors of a process of the host are hidden."),
    ROW("host_process_program_cannot_be_opened", TRACEABLE, file_cannot_be_opened, "/proc/{pid}/exe",
        "The program of a process of the host cannot be opened."),
    ROW("host_process_score_cannot_be_changed", VISIBLE "," HOST_USER, file_cannot_be_opened_for_writing,
        "/proc/{pid}/oom_score_adj", "Who dies first when memory is short cannot be changed for the host."),

    {"init_root_link_cannot_be_read", ON_CONTAINER, RETURNS, OWN_INIT, link_cannot_be_read,
     "/proc/1/root:/proc/1/cwd", "The links of the box's init are closed to the box."},
    {"init_environment_has_no_secret", ON_CONTAINER, RETURNS, OWN_INIT ",clean_environment",
     init_environment_has_no_secret, NULL, "The environment of the box's init does not tell the launcher's."},
    {"init_memory_cannot_be_opened", ON_CONTAINER, RETURNS, OWN_INIT, file_cannot_be_opened_for_writing,
     "/proc/1/mem", "The memory of the box's init cannot be opened."},
    {"init_descriptors_cannot_be_listed", ON_CONTAINER, RETURNS, OWN_INIT, directory_cannot_be_listed,
     "/proc/1/fd", "The descriptors of the box's init are closed to the box."},
    ROW("init_program_cannot_be_rewritten", INIT ",root_read_only,code_read_only",
        file_cannot_be_opened_for_writing, "/proc/1/exe:/proc/{parent}/exe",
        "The program above the box cannot be written (runc, CVE-2019-5736)."),
    ROW("init_map_cannot_be_read", INIT, file_has_no_content, "/proc/1/maps:/proc/{parent}/maps",
        "The address spaces of process 1 and of the supervisor are hidden."),
    ROW("init_calls_cannot_be_read", INIT, file_has_no_content, "/proc/1/syscall:/proc/{parent}/syscall",
        "What process 1 and the supervisor are doing in the kernel is hidden."),
    ROW("supervisor_memory_cannot_be_opened", INIT, file_cannot_be_opened_for_writing, "/proc/{parent}/mem",
        "The memory of the supervisor cannot be written."),
    ROW("supervisor_descriptors_cannot_be_listed", INIT, directory_cannot_be_listed, "/proc/{parent}/fd",
        "The descriptors of the supervisor are hidden."),
    ROW("supervisor_environment_cannot_be_read", INIT ",clean_environment", file_has_no_content,
        "/proc/{parent}/environ", "The environment of the supervisor is hidden."),

    /* The box's own, by every rule but Landlock's. */
    ROW("own_process_settings_cannot_be_written", "landlock", file_cannot_be_opened_for_writing,
        "/proc/self/oom_score_adj:/proc/self/coredump_filter:/proc/self/clear_refs",
        "How the kernel treats the box when memory is short or a program dies cannot be changed."),

    ROW("own_environment_has_no_secret", "clean_environment", own_environment_has_no_secret, NULL,
        "The launcher's environment is not passed on."),
    ROW("no_environment_has_the_secret", TRACEABLE ",init_dumpable", no_environment_has_the_secret, NULL,
        "No process that can be seen tells the launcher's environment."),
};

PROBE_GROUP(inspection, rows);
