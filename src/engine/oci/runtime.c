#include "engine/oci/runtime.h"

#include "base/file.h"
#include "base/scope.h"
#include "os/process.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* Its groups are ours; the box has no network, and no disk but the scratch space. Errors go to the box's
 * stderr, which nobody but us reads before the program runs. It opens files itself (directfs) instead of
 * asking a process beside it for each: all that it could reach is the stage, and imports take two thirds of
 * the time. */
static const char *const runsc_arguments[] = {
    "--root=" STAGE_STATE, "--rootless", "--network=none",  "--ignore-cgroups",
    "--overlay2=none",     "--directfs", "--host-uds=none", NULL};
static const char *const other_arguments[] = {"--root", STAGE_STATE, NULL};
static const char *const crun_arguments[] = {"--root", STAGE_STATE, "--cgroup-manager=disabled", NULL};

static const struct runtime_row rows[] = {
    {.name = "runsc",
     .least = "20240729", /* the oldest that was tested; before 2023 there is no systrap, nor --pass-fd */
     .counts_itself = true,
     .is_alone = true,
     .has_platform = true,
     .numbers_fds = true,
     .waits_at_start = true,
     .memory_bytes = 128 << 20,
     .threads = 512,
     .before_run = runsc_arguments},
    {.name = "crun", .least = "1.8", .memory_bytes = 16 << 20, .threads = 16, .before_run = crun_arguments},
    {.sees_groups = true, .memory_bytes = 64 << 20, .threads = 64, .before_run = other_arguments},
};

static const struct runtime_row *row_of(const char *name)
{
    const struct runtime_row *row = rows;
    while (row->name && strcmp(row->name, name) != 0)
        row++;
    return row;
}

static bool is_program(const char *path, struct stat *ret)
{
    return stat(path, ret) == 0 && S_ISREG(ret->st_mode) && access(path, X_OK) == 0;
}

/* Not the caller's PATH: who may set that must not choose what isolates. */
static bool find_program(const char *name, char *into, size_t size, struct stat *ret)
{
    static const char *const places[] = {"/usr/local/bin", "/usr/bin", "/usr/local/sbin", "/usr/sbin"};
    if (name[0] == '/')
        return snprintf(into, size, "%s", name) < (int)size && is_program(into, ret);
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        if (!strchr(name, '/') && snprintf(into, size, "%s/%s", places[i], name) < (int)size &&
            is_program(into, ret))
            return true;
    return false;
}

/* Numbers of a text, one after the other: 0.0~20240729.0 has 0, 0, 20240729, 0. */
static bool next_number(const char **at, long long *ret)
{
    while (**at && !isdigit((unsigned char)**at))
        (*at)++;
    if (!**at)
        return false;
    char *end;
    *ret = strtoll(*at, &end, 10);
    *at = end;
    return true;
}

bool runtime_version_reaches(const char *version, const char *least)
{
    long long wanted, given;
    bool is_date = strlen(least) == 8 && !strchr(least, '.');
    if (is_date) { /* runsc: release-20240729.0, or Debian's 0.0~20240729.0 */
        while (next_number(&version, &given))
            if (given >= 20000101)
                return given >= strtoll(least, NULL, 10);
        return false;
    }
    while (next_number(&least, &wanted)) {
        if (!next_number(&version, &given))
            return false;
        if (given != wanted)
            return given > wanted;
    }
    return true;
}

/* "runsc X", of its line "runsc version X". */
static int read_version(const char *output, char *into, size_t size)
{
    static const char between[] = " version ";
    const char *middle = strstr(output, between), *name = middle;
    if (!middle)
        return -EPROTO;
    while (name > output && !strchr(" \n", name[-1]))
        name--;
    const char *version = middle + strlen(between);
    const int lengths[] = {(int)(middle - name), (int)strcspn(version, " \n")};
    return lengths[0] && lengths[1] &&
                   snprintf(into, size, "%.*s %.*s", lengths[0], name, lengths[1], version) < (int)size
               ? 0
               : -EPROTO;
}

static int ask_version(const char *path, char *into, size_t size)
{
    enum { LONGEST_MS = 5000 };
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return -errno;
    scope_fd ours = ends[0], theirs = ends[1], pidfd = -1;
    pid_t pid = process_clone(0, -1, &pidfd);
    if (pid == 0) {
        char *arguments[] = {(char *)(uintptr_t)path, (char[]){"--version"}, NULL};
        char *environment[] = {NULL};
        sigset_t none;
        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL);
        if (dup2(theirs, 1) >= 0)
            execve(path, arguments, environment);
        _exit(127);
    }
    scope_close_fd(&theirs);
    if (pid < 0)
        return pid;
    char output[512];
    size_t length = 0;
    struct pollfd polled = {.fd = ours, .events = POLLIN};
    while (length < sizeof output - 1 && poll(&polled, 1, LONGEST_MS) > 0) {
        ssize_t more = read(ours, output + length, sizeof output - 1 - length);
        if (more <= 0)
            break;
        length += (size_t)more;
    }
    output[length] = '\0';
    process_pidfd_kill(pidfd, SIGKILL);
    while (waitpid(pid, NULL, __WALL) < 0 && errno == EINTR)
        ;
    return read_version(output, into, size);
}

/* To ask costs as much as a tenth of a start: what a file answered is kept beside the records, under all that
 * the kernel says of the file. */
static void describe_file(const char *path, const struct stat *file, char *into, size_t size)
{
    snprintf(into, size, "%s %llx %llu %lld %lld.%09ld %lld.%09ld", path, (unsigned long long)file->st_dev,
             (unsigned long long)file->st_ino, (long long)file->st_size, (long long)file->st_mtim.tv_sec,
             file->st_mtim.tv_nsec, (long long)file->st_ctim.tv_sec, file->st_ctim.tv_nsec);
}

#define KNOWN "oci-runtime"

static bool recall_version(int state_fd, const char *description, char *into, size_t size)
{
    char text[8192];
    if (state_fd < 0 || file_read_attribute(state_fd, KNOWN, text, sizeof text) <= 0)
        return false;
    char *line = strchr(text, '\n');
    if (!line)
        return false;
    *line++ = '\0';
    snprintf(into, size, "%.*s", (int)strcspn(line, "\n"), line);
    return strcmp(text, description) == 0 && *into;
}

static void keep_version(int state_fd, const char *description, const char *version)
{
    char name[64], text[8192];
    int length = snprintf(text, sizeof text, "%s\n%s\n", description, version);
    snprintf(name, sizeof name, KNOWN "-%d", (int)getpid());
    scope_fd fd = state_fd < 0
                      ? -1
                      : openat(state_fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd >= 0 && length < (int)sizeof text && file_write_all(fd, text, (size_t)length) == 0)
        renameat(state_fd, name, state_fd, KNOWN);
    else if (fd >= 0)
        unlinkat(state_fd, name, 0);
}

static int refuse(const struct runtime *runtime, struct error *err)
{
    return error_layer(
        err, "oci_runtime", 0,
        "%s is version %s, older than %s, the oldest that boxes are made with. Debian 12 has a "
        "newer one in bookworm-backports: apt-get install -t bookworm-backports %s",
        runtime->path, runtime->version, runtime->row->least, runtime->row->name);
}

int runtime_find(const struct box *box, struct runtime *ret, struct error *err)
{
    const char *name = box->spec->oci_runtime;
    struct stat file;
    if (!find_program(name, ret->path, sizeof ret->path, &file))
        return error_layer(
            err, "oci_runtime", 0,
            "there is no OCI runtime '%s' on this host. Install it (Debian 12 has runsc in its backports: "
            "setup/install-runsc fetches it), or name another with oci_runtime = PATH in the "
            "operator's file",
            name);
    char description[4600], told[sizeof ret->version];
    describe_file(ret->path, &file, description, sizeof description);
    if (!recall_version(box->identity->state_fd, description, told, sizeof told) || !strchr(told, ' ')) {
        int status = ask_version(ret->path, told, sizeof told);
        if (status < 0)
            return error_layer(err, "oci_runtime", status, "%s does not tell its version (--version)",
                               ret->path);
        keep_version(box->identity->state_fd, description, told);
    }
    /* What it is, it says itself: a file can have any name. */
    char *version = strchr(told, ' ');
    *version++ = '\0';
    ret->row = row_of(told);
    snprintf(ret->version, sizeof ret->version, "%s", version);
    return ret->row->least && !runtime_version_reaches(ret->version, ret->row->least) ? refuse(ret, err) : 0;
}

static int add_descriptors(const struct runtime_row *row, const struct box *box, struct string_list *ret)
{
    if (!row->numbers_fds) /* 3 to 4, or to 6 */
        return string_list_add(ret, box->wants_channel ? "--preserve-fds=4" : "--preserve-fds=2");
    int status = string_list_add(ret, "--pass-fd=3:3");
    if (status == 0)
        status = string_list_add(ret, "--pass-fd=4:4");
    if (status == 0 && box->wants_channel)
        status = string_list_add(ret, "--pass-fd=6:6");
    return status;
}

int runtime_arguments(const struct runtime *runtime, const struct box *box, struct string_list *ret)
{
    const struct runtime_row *row = runtime->row;
    char platform[64];
    snprintf(platform, sizeof platform, "--platform=%s", box->spec->oci_platform);
    int status = string_list_add(ret, row->name ? row->name : "runtime");
    for (size_t i = 0; status == 0 && row->before_run[i]; i++)
        status = string_list_add(ret, row->before_run[i]);
    if (status == 0 && row->has_platform)
        status = string_list_add(ret, platform);
    if (status == 0)
        status = string_list_add(ret, "run");
    if (status == 0)
        status = add_descriptors(row, box, ret);
    if (status == 0)
        status = string_list_add(ret, "--bundle=" STAGE_BUNDLE);
    return status == 0 ? string_list_add(ret, box->identity->name) : status;
}
