/* The trees that a box shares with others: the image, the code, the input. They are read, never changed. */
#include "probe.h"

#include <errno.h>
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/syscall.h>
#include <unistd.h>

static bool file_copy(const char *from_path, const char *to_path)
{
    int from = open(from_path, O_RDONLY | O_CLOEXEC);
    int to = open(to_path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0700);
    ssize_t copied = -1;
    while (from >= 0 && to >= 0 && (copied = sendfile(to, from, NULL, 1 << 20)) > 0)
        ;
    close(from);
    close(to);
    return copied == 0;
}

/* A running program cannot be written by anyone. To tell whether its file could be, the probe goes on as a
 * copy of it (main.c has the second half), and the file runs no more. */
static enum verdict program_cannot_be_rewritten(const void *unused)
{
    (void)unused;
    char path[PATH_MAX];
    scratch_path(path, sizeof path, "copy");
    bool copied = file_copy(own_program(), path);
    int copy = open(path, O_RDONLY | O_CLOEXEC), error = errno;
    unlink(path);
    if (!copied || copy < 0)
        return undecided("no copy of the program can be made: %s", error_name(error));
    const char *const arguments[] = {"probe", "--open-for-writing", own_program(), NULL};
    syscall(SYS_execveat, copy, "", arguments, environ, AT_EMPTY_PATH);
    return undecided("the copy of the program cannot be started: %s", error_name(errno));
}

static enum verdict input_file_cannot_be_written(const void *unused)
{
    (void)unused;
    const char *input = getenv("CLOCHE_INPUT");
    DIR *directory = input ? opendir(input) : NULL;
    if (!directory)
        return undecided("there is no input directory");
    char path[PATH_MAX] = "";
    const struct dirent *entry;
    while (!*path && (entry = readdir(directory)))
        if (entry->d_type == DT_REG)
            snprintf(path, sizeof path, "%s/%s", input, entry->d_name);
    closedir(directory);
    if (!*path)
        return undecided("there is no input file");
    return file_cannot_be_opened_for_writing(path);
}

/* A second name in the scratch directory would be a way to a file of the image that is open to writing. */
static enum verdict file_cannot_be_linked(const void *path)
{
    char name[PATH_MAX];
    scratch_path(name, sizeof name, "second-name");
    int result = link(path, name);
    if (result == 0)
        unlink(name);
    return judge_reach("a second name for a file of the image", result);
}

/* Read-only rights to a descriptor are not to be exchanged for more by opening it once again. */
static enum verdict descriptor_cannot_be_reopened(const void *path)
{
    char link_name[64];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return undecided("%s: %s", (const char *)path, error_name(errno));
    snprintf(link_name, sizeof link_name, "/proc/self/fd/%d", fd);
    return judge_reach("a read-only descriptor, opened once more for writing",
                       open(link_name, O_WRONLY | O_CLOEXEC));
}

#define IMAGE "root_read_only,landlock," HOST_USER
#define WRITES(name, path)                                                                                   \
    {                                                                                                        \
        name, ON_BOTH, RETURNS, IMAGE, directory_cannot_be_written, path, "No file can be made in " path "." \
    }

static const struct probe rows[] = {
    WRITES("root_directory_is_not_writable", "/"),
    WRITES("usr_is_not_writable", "/usr"),
    WRITES("programs_directory_is_not_writable", "/usr/bin"),
    WRITES("libraries_directory_is_not_writable", "/usr/lib"),
    WRITES("local_programs_directory_is_not_writable", "/usr/local"),
    WRITES("etc_is_not_writable", "/etc"),
    {"var_is_not_writable", ON_BOTH, RETURNS, "private_root,root_read_only,landlock",
     directory_cannot_be_written, "/var:/var/tmp:/var/lib",
     "No file can be made in /var, not even in its world-writable part."},
    {"home_is_not_writable", ON_BOTH, RETURNS, IMAGE, directory_cannot_be_written, "/home:/root",
     "No file can be made in the homes of others."},
    {"run_is_not_writable", ON_BOTH, RETURNS, "private_root," IMAGE, directory_cannot_be_written,
     "/run:/run/lock", "No file can be made where the host's services meet."},
    {"boot_is_not_writable", ON_BOTH, RETURNS, "private_root," IMAGE, directory_cannot_be_written,
     "/boot:/opt:/srv:/mnt", "No file can be made in the lesser directories of the root."},
    {"system_program_cannot_be_rewritten", ON_BOTH, RETURNS, IMAGE, file_cannot_be_opened_for_writing,
     "/usr/bin/true:/bin/true", "A program of the image cannot be written."},
    {"system_program_cannot_be_deleted", ON_BOTH, RETURNS, IMAGE, entry_cannot_be_deleted,
     "/usr/bin/true:/bin/true", "A program of the image cannot be deleted."},
    {"loader_cannot_be_rewritten", ON_BOTH, RETURNS, IMAGE, file_cannot_be_opened_for_writing,
     "/lib64/ld-linux-x86-64.so.2:/etc/ld.so.cache:/etc/passwd",
     "What decides over the next program's start cannot be written."},
    {"read_descriptor_cannot_be_reopened_for_writing", ON_BOTH, RETURNS, IMAGE, descriptor_cannot_be_reopened,
     "/usr/bin/true", "A descriptor that was opened to read cannot be turned into one to write."},
    /* A container's scratch is another mount than its image, where links do not reach with any step removed.
     */
    {"system_file_cannot_be_linked_into_scratch", ON_PROCESS, RETURNS, "landlock,box_uid",
     file_cannot_be_linked, "/usr/bin/true",
     "A file of the image cannot be given a name in the scratch directory."},
    {"own_program_cannot_be_rewritten", ON_BOTH, RETURNS, "code_read_only,root_read_only,landlock," HOST_USER,
     program_cannot_be_rewritten, NULL,
     "The program's own file cannot be changed after its start (runc, CVE-2019-5736)."},
    {"program_directory_is_not_writable", ON_BOTH, RETURNS,
     "code_read_only,root_read_only,landlock," HOST_USER, directory_cannot_be_written, "{program_directory}",
     "No file can be added to the code."},
    {"input_directory_is_not_writable", ON_BOTH, RETURNS,
     "input_read_only,root_read_only,landlock," HOST_USER, directory_cannot_be_written, "{input}",
     "No file can be added to the input."},
    {"input_file_cannot_be_rewritten", ON_BOTH, RETURNS, "input_read_only,landlock," HOST_USER,
     input_file_cannot_be_written, NULL, "A file of the input cannot be changed."},
    {"shared_memory_directory_is_not_writable", ON_PROCESS, RETURNS, "landlock", directory_cannot_be_written,
     "/dev/shm", "A box without a tree of its own leaves nothing in the host's /dev/shm."},
    {"temporary_directory_is_not_writable", ON_PROCESS, RETURNS, "landlock", directory_cannot_be_written,
     "/tmp:/var/tmp", "A box without a tree of its own leaves nothing in the host's /tmp."},
};

PROBE_GROUP(trees, rows);
