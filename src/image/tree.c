#include "image/tree.h"
#include "image/entry_name.h"
#include "image/in_root.h"
#include "base/file.h"
#include "base/scope.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Past this, further directories keep the time of their making: times are a courtesy, memory is not. */
enum { TIME_NAME_BYTES_MAX = 64 * 1024 * 1024 };

struct tree_directory_time {
    char *name;
    struct timespec modified;
};

int tree_make(struct tree *tree, int dir_fd, const char *name, const struct image_import_limits *limits,
              struct error *err)
{
    *tree = (struct tree){.root_fd = -1, .parent_fd = -1, .limits = *limits};
    if (mkdirat(dir_fd, name, 0755) < 0 || fchmodat(dir_fd, name, 0755, 0) < 0)
        return error_host(err, -errno, "cannot make the image's tree");
    tree->root_fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (tree->root_fd < 0)
        return error_host(err, -errno, "cannot open the image's tree");
    return 0;
}

static void tree_forget_times(struct tree *tree)
{
    for (size_t i = 0; i < tree->time_count; i++)
        free(tree->times[i].name);
    free(tree->times);
    tree->times = NULL;
    tree->time_count = tree->time_name_bytes = 0;
}

void tree_close(struct tree *tree)
{
    scope_close_fd(&tree->root_fd);
    scope_close_fd(&tree->parent_fd);
    free(tree->parent_name);
    tree->parent_name = NULL;
    tree_forget_times(tree);
}

/* An error of the host about an entry. */
static int tree_fail(struct error *err, int code, const char *what, const char *name)
{
    char quoted[ENTRY_QUOTED_MAX];
    return error_host(err, code, "cannot %s \"%s\"", what, entry_name_quote(name, quoted));
}

int tree_take_bytes(struct tree *tree, int64_t bytes, const char *name, struct error *err)
{
    if (bytes <= tree->limits.unpacked_bytes - tree->bytes) {
        tree->bytes += bytes;
        return 0;
    }
    char quoted[ENTRY_QUOTED_MAX], size[32];
    return error_spec(err, "archive", "entry \"%s\" takes the image past the allowed %s unpacked",
                      entry_name_quote(name, quoted),
                      text_format_size(tree->limits.unpacked_bytes, size, sizeof size));
}

int tree_take_entry(struct tree *tree, struct error *err)
{
    if (tree->entries >= tree->limits.entries)
        return error_spec(err, "archive", "more than the allowed %lld entries",
                          (long long)tree->limits.entries);
    tree->entries++;
    return 0;
}

static int tree_parent_fail(const char *name, int code, struct error *err)
{
    char quoted[ENTRY_QUOTED_MAX];
    entry_name_quote(name, quoted);
    if (code == -ENOTDIR)
        return error_spec(err, "archive", "entry \"%s\" has a parent that is not a directory", quoted);
    if (code == -ELOOP)
        return error_spec(err, "archive", "entry \"%s\" has a parent that is a loop of links", quoted);
    if (code == -EEXIST)
        return error_spec(err, "archive", "entry \"%s\" has a parent that is a link to nowhere", quoted);
    if (code == -ENAMETOOLONG)
        return error_spec(err, "archive", "entry \"%s\" has a parent whose links are too long", quoted);
    return error_host(err, code, "cannot open the parent of entry \"%s\"", quoted);
}

/* Makes one directory that no entry named, in the open directory at_fd; returns it opened. */
static int tree_make_parent(struct tree *tree, int at_fd, const char *part, const char *name,
                            struct error *err)
{
    int status = tree_take_entry(tree, err);
    if (status < 0)
        return status;
    if (mkdirat(at_fd, part, 0755) < 0)
        return tree_parent_fail(name, -errno, err);
    int fd = openat(at_fd, part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fchmod(fd, 0755) < 0) {
        status = tree_parent_fail(name, -errno, err);
        scope_close_fd(&fd);
        return status;
    }
    return fd;
}

/* Opens `parent`, whose missing parts are made. */
static int tree_make_parents(struct tree *tree, char *parent, const char *name, struct error *err)
{
    scope_fd at = fcntl(tree->root_fd, F_DUPFD_CLOEXEC, 0);
    if (at < 0)
        return tree_fail(err, -errno, "open the parent of", name);
    char *part = parent;
    for (;;) {
        size_t length = strcspn(part, "/");
        bool is_last = !part[length];
        part[length] = '\0';
        int next = in_root_open(tree->root_fd, parent, O_PATH | O_DIRECTORY);
        if (next == -ENOENT)
            next = tree_make_parent(tree, at, part, name, err);
        else if (next < 0)
            next = tree_parent_fail(name, next, err);
        if (next < 0)
            return next;
        close(at);
        at = next;
        if (is_last)
            return take_fd(&at);
        part[length] = '/';
        part += length + 1;
    }
}

static bool tree_is_nothing_there(int code)
{
    return code == -ENOENT || code == -ENOTDIR || code == -ELOOP;
}

/* The directory that holds `name`, which stays the tree's, and the last part of the name. Without `make`, one
 * that is not there or no directory gives a code of tree_is_nothing_there, and err is untouched. */
static int tree_parent(struct tree *tree, const char *name, bool make, int *ret_fd, const char **ret_last,
                       struct error *err)
{
    const char *slash = strrchr(name, '/');
    size_t length = slash ? (size_t)(slash - name) : 0;
    *ret_last = slash ? slash + 1 : name;
    if (!length) {
        *ret_fd = tree->root_fd;
        return 0;
    }
    if (tree->parent_fd >= 0 && !tree->parent_is_stale && strlen(tree->parent_name) == length &&
        memcmp(tree->parent_name, name, length) == 0) {
        *ret_fd = tree->parent_fd;
        return 0;
    }
    scope_close_fd(&tree->parent_fd);
    free(tree->parent_name);
    tree->parent_is_stale = false;
    tree->parent_name = strndup(name, length);
    if (!tree->parent_name)
        return tree_fail(err, -ENOMEM, "open the parent of", name);
    int fd = in_root_open(tree->root_fd, tree->parent_name, O_PATH | O_DIRECTORY);
    if (!make && tree_is_nothing_there(fd))
        return fd;
    if (fd == -ENOENT)
        fd = tree_make_parents(tree, tree->parent_name, name, err);
    else if (fd < 0)
        fd = tree_parent_fail(name, fd, err);
    if (fd < 0)
        return fd;
    *ret_fd = tree->parent_fd = fd;
    return 0;
}

/* Removes what stands at a place, if anything. A directory or link that goes may be part of the remembered
 * parent's name. */
static int tree_clear_place(struct tree *tree, int parent_fd, const char *last, const char *name,
                            struct error *err)
{
    tree->parent_is_stale = true;
    int status = file_remove_tree(parent_fd, last);
    return status < 0 ? tree_fail(err, status, "replace", name) : 0;
}

static int tree_refuse_top(const char *what, struct error *err)
{
    return error_spec(err, "archive", "the entry for the image's top is a %s; only a directory is allowed",
                      what);
}

static void tree_remember_time(struct tree *tree, const char *name, struct timespec modified)
{
    size_t length = strlen(name) + 1;
    if (tree->time_name_bytes + length > TIME_NAME_BYTES_MAX)
        return;
    size_t count = tree->time_count;
    if ((count & (count - 1)) == 0) {
        struct tree_directory_time *times = realloc(tree->times, (count ? count * 2 : 1) * sizeof *times);
        if (!times)
            return;
        tree->times = times;
    }
    char *copy = strdup(name);
    if (!copy)
        return;
    tree->times[tree->time_count++] = (struct tree_directory_time){.name = copy, .modified = modified};
    tree->time_name_bytes += length;
}

/* The open directory at a place where one is wanted: what is there already when it is a directory. */
static int tree_place_directory(struct tree *tree, const char *name, struct error *err)
{
    int parent_fd;
    const char *last;
    int status = tree_parent(tree, name, true, &parent_fd, &last, err);
    if (status < 0)
        return status;
    for (int attempt = 0; attempt < 2; attempt++) {
        if (mkdirat(parent_fd, last, 0700) < 0 && errno != EEXIST)
            return tree_fail(err, -errno, "make directory", name);
        int fd = openat(parent_fd, last, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd >= 0)
            return fd;
        if (errno != ENOTDIR && errno != ELOOP)
            return tree_fail(err, -errno, "open directory", name);
        status = tree_clear_place(tree, parent_fd, last, name, err);
        if (status < 0)
            return status;
    }
    return tree_fail(err, -EEXIST, "make directory", name);
}

int tree_add_directory(struct tree *tree, const char *name, mode_t mode, struct timespec modified,
                       struct error *err)
{
    scope_fd fd = *name ? tree_place_directory(tree, name, err) : fcntl(tree->root_fd, F_DUPFD_CLOEXEC, 0);
    if (fd < 0)
        return *name ? fd : tree_fail(err, -errno, "open directory", name);
    /* The importing user must be able to fill, read and remove it. */
    if (fchmod(fd, (mode & 01777) | 0700) < 0)
        return tree_fail(err, -errno, "set the mode of", name);
    tree_remember_time(tree, *name ? name : ".", modified);
    return 0;
}

int tree_add_symlink(struct tree *tree, const char *name, const char *target, struct error *err)
{
    if (!*name)
        return tree_refuse_top("symbolic link", err);
    char quoted[ENTRY_QUOTED_MAX];
    if (!*target || strnlen(target, PATH_MAX) >= PATH_MAX)
        return error_spec(err, "archive",
                          "symbolic link \"%s\" has a target of %s; 1 to 4095 bytes are allowed",
                          entry_name_quote(name, quoted), *target ? "more than 4095 bytes" : "no bytes");
    int parent_fd;
    const char *last;
    int status = tree_parent(tree, name, true, &parent_fd, &last, err);
    if (status < 0)
        return status;
    if (symlinkat(target, parent_fd, last) == 0)
        return 0;
    if (errno != EEXIST)
        return tree_fail(err, -errno, "make symbolic link", name);
    status = tree_clear_place(tree, parent_fd, last, name, err);
    if (status < 0)
        return status;
    return symlinkat(target, parent_fd, last) < 0 ? tree_fail(err, -errno, "make symbolic link", name) : 0;
}

/* Opens the directory of a hard link's target and makes sure that the target is a regular file in it. */
static int tree_open_hardlink_target(struct tree *tree, const char *name, const char *target,
                                     const char **ret_last, struct stat *ret_status, struct error *err)
{
    char directory[PATH_MAX], quoted[ENTRY_QUOTED_MAX], quoted_target[ENTRY_QUOTED_MAX];
    const char *slash = strrchr(target, '/');
    size_t length = slash ? (size_t)(slash - target) : 0;
    memcpy(directory, target, length);
    directory[length] = '\0';
    *ret_last = slash ? slash + 1 : target;
    scope_fd fd = in_root_open(tree->root_fd, length ? directory : ".", O_PATH | O_DIRECTORY);
    if (fd >= 0 && **ret_last && fstatat(fd, *ret_last, ret_status, AT_SYMLINK_NOFOLLOW) == 0 &&
        S_ISREG(ret_status->st_mode))
        return take_fd(&fd);
    return error_spec(
        err, "archive",
        "hard link \"%s\" points to \"%s\", which is not a file of this or an earlier layer; only "
        "regular files inside the image are allowed",
        entry_name_quote(name, quoted), entry_name_quote(target, quoted_target));
}

int tree_add_hardlink(struct tree *tree, const char *name, const char *target, struct error *err)
{
    if (!*name)
        return tree_refuse_top("hard link", err);
    const char *target_last, *last;
    struct stat target_status, status_there;
    scope_fd target_fd = tree_open_hardlink_target(tree, name, target, &target_last, &target_status, err);
    if (target_fd < 0)
        return target_fd;
    int parent_fd;
    int status = tree_parent(tree, name, true, &parent_fd, &last, err);
    if (status < 0)
        return status;
    if (linkat(target_fd, target_last, parent_fd, last, 0) == 0)
        return 0;
    if (errno != EEXIST || fstatat(parent_fd, last, &status_there, AT_SYMLINK_NOFOLLOW) < 0)
        return tree_fail(err, -errno, "make hard link", name);
    if (status_there.st_ino == target_status.st_ino)
        return 0; /* it is that file already; clearing the place could remove the only name it has */
    status = tree_clear_place(tree, parent_fd, last, name, err);
    if (status < 0)
        return status;
    if (linkat(target_fd, target_last, parent_fd, last, 0) < 0)
        return tree_fail(err, -errno, "make hard link", name);
    return 0;
}

int tree_add_file(struct tree *tree, const char *name, int *ret_fd, struct error *err)
{
    if (!*name)
        return tree_refuse_top("file", err);
    int parent_fd;
    const char *last;
    int status = tree_parent(tree, name, true, &parent_fd, &last, err);
    if (status < 0)
        return status;
    const int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
    int fd = openat(parent_fd, last, flags, 0600);
    if (fd < 0 && errno == EEXIST) {
        status = tree_clear_place(tree, parent_fd, last, name, err);
        if (status < 0)
            return status;
        fd = openat(parent_fd, last, flags, 0600);
    }
    if (fd < 0)
        return tree_fail(err, -errno, "make file", name);
    *ret_fd = fd;
    return 0;
}

int tree_finish_file(int fd, const char *name, mode_t mode, struct timespec modified, struct error *err)
{
    if (fchmod(fd, (mode & 0777) | 0400) < 0)
        return tree_fail(err, -errno, "set the mode of", name);
    /* Python compiles its modules anew when their time differs from the one in the compiled file. A time that
     * the file system cannot hold is no reason to refuse the file. */
    futimens(fd, (const struct timespec[2]){modified, modified});
    return 0;
}

int tree_put_file(struct tree *tree, const char *name, const char *text, struct error *err)
{
    scope_fd fd = -1;
    int status = tree_add_file(tree, name, &fd, err);
    if (status < 0)
        return status;
    status = file_write_all(fd, text, strlen(text));
    if (status == 0 && fchmod(fd, 0644) < 0)
        status = -errno;
    return status < 0 ? tree_fail(err, status, "write", name) : 0;
}

int tree_remove(struct tree *tree, const char *name, struct error *err)
{
    if (!*name)
        return 0;
    int parent_fd;
    const char *last;
    int status = tree_parent(tree, name, false, &parent_fd, &last, err);
    if (tree_is_nothing_there(status))
        return 0;
    if (status < 0)
        return status;
    return tree_clear_place(tree, parent_fd, last, name, err);
}

int tree_empty_directory(struct tree *tree, const char *name, struct error *err)
{
    int fd = in_root_open(tree->root_fd, *name ? name : ".", O_RDONLY | O_DIRECTORY);
    if (fd < 0)
        return tree_is_nothing_there(fd) ? 0 : tree_fail(err, fd, "open directory", name);
    scope_dir *dir = fdopendir(fd);
    if (!dir) {
        close(fd);
        return tree_fail(err, -ENOMEM, "read directory", name);
    }
    tree->parent_is_stale = true;
    bool found;
    do { /* until a whole pass finds nothing: some file systems skip entries when others go meanwhile */
        found = false;
        rewinddir(dir);
        struct dirent *entry;
        while (errno = 0, (entry = readdir(dir))) {
            if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
                continue;
            found = true;
            int status = file_remove_tree(dirfd(dir), entry->d_name);
            if (status < 0)
                return tree_fail(err, status, "empty directory", name);
        }
        if (errno)
            return tree_fail(err, -errno, "read directory", name);
    } while (found);
    return 0;
}

void tree_finish_layer(struct tree *tree)
{
    for (size_t i = tree->time_count; i-- > 0;) {
        scope_fd fd = in_root_open(tree->root_fd, tree->times[i].name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
        if (fd >= 0)
            futimens(fd, (const struct timespec[2]){tree->times[i].modified, tree->times[i].modified});
    }
    tree_forget_times(tree);
}
