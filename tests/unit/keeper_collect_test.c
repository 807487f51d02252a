/* Files out: trees as a hostile guest would leave them, and output directories as a trap would be laid. */
#define SCRATCH_ROOT "/dev/shm"
#include "harness.h"

#include "base/file.h"
#include "keeper/collect.h"

#include <dirent.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/sysmacros.h>
#include <sys/un.h>

static const char canary_text[] = "nobody touches me";

struct place {
    struct scratch *scratch;
    int box;  /* the guest's directory */
    int into; /* the caller's */
    char into_path[96], canary[96];
    struct limits limits;
    struct result *result;
    struct error err;
};

static int open_new(int dir_fd, const char *name)
{
    assert_int_equal(mkdirat(dir_fd, name, 0777), 0);
    assert_int_equal(fchmodat(dir_fd, name, 0777, 0), 0);
    int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(fd >= 0);
    return fd;
}

static int place_setup(void **state)
{
    struct place *place = calloc(1, sizeof *place);
    void *scratch;
    scratch_setup(&scratch);
    place->scratch = scratch;
    place->box = open_new(place->scratch->fd, "box");
    place->into = open_new(place->scratch->fd, "into");
    snprintf(place->into_path, sizeof place->into_path, "%s/into", place->scratch->path);
    snprintf(place->canary, sizeof place->canary, "%s/canary", place->scratch->path);
    write_text(place->scratch->fd, "canary", canary_text);
    for (int i = 0; i < LIMIT_FIELDS; i++)
        place->limits.value[i] = limit_rows[i].normal;
    place->result = result_new();
    assert_non_null(place->result);
    *state = place;
    return 0;
}

static int place_teardown(void **state)
{
    struct place *place = *state;
    void *scratch = place->scratch;
    close(place->box);
    close(place->into);
    result_free(place->result);
    free(place);
    return scratch_teardown(&scratch);
}

/* ---- asking ---- */

static const struct result_file *collected(const struct place *place, const char *path)
{
    for (size_t i = 0; i < place->result->file_count; i++)
        if (strcmp(place->result->files[i].path, path) == 0)
            return &place->result->files[i];
    return NULL;
}

static const char *omitted(const struct place *place, const char *path)
{
    for (size_t i = 0; i < place->result->omission_count; i++)
        if (strcmp(place->result->omissions[i].path, path) == 0)
            return place->result->omissions[i].reason;
    return NULL;
}

static void assert_omitted(const struct place *place, const char *path, const char *reason)
{
    const char *given = omitted(place, path);
    if (!given)
        fail_msg("'%s' is not among what was left out", path);
    if (!strstr(given, reason))
        fail_msg("'%s' was left out because '%s', not '%s'", path, given, reason);
    assert_null(collected(place, path));
}

/* Whatever was in the box: nothing outside changed, nothing half-made or of another kind is in the output. */
static size_t check_directory(const struct place *place, int dir_fd)
{
    size_t files = 0;
    DIR *dir = fdopendir(dir_fd);
    struct dirent *entry;
    assert_non_null(dir);
    while ((entry = readdir(dir))) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        struct stat status;
        assert_int_equal(fstatat(dirfd(dir), entry->d_name, &status, AT_SYMLINK_NOFOLLOW), 0);
        assert_int_equal(status.st_mode & 07000, 0);
        if (S_ISDIR(status.st_mode))
            files +=
                check_directory(place, openat(dirfd(dir), entry->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
        else if (S_ISREG(status.st_mode))
            files++;
    }
    closedir(dir);
    return files;
}

static void check_outside(const struct place *place)
{
    struct stat status;
    assert_int_equal(lstat(place->canary, &status), 0);
    assert_true(S_ISREG(status.st_mode) && status.st_nlink == 1);
    assert_file_holds(place->scratch->fd, "canary", canary_text);
    int entries = 0;
    DIR *dir = opendir(place->scratch->path);
    while (dir && readdir(dir))
        entries++;
    closedir(dir);
    assert_int_equal(entries, 5); /* ".", "..", box, into, canary */
}

static int collect_to_path(int box, const char *path, const struct limits *limits, struct result *result,
                           struct error *err)
{
    scope_fd target = file_open_target(path, err);
    return target < 0 ? target : collect_files(box, target, limits, result, err);
}

static void collect(struct place *place)
{
    int before = open_descriptors();
    if (collect_to_path(place->box, place->into_path, &place->limits, place->result, &place->err) < 0)
        fail_msg("%s", place->err.text);
    assert_int_equal(open_descriptors(), before);
    check_outside(place);
}

static void collect_into_empty(struct place *place)
{
    collect(place);
    scope_fd into = open(place->into_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(check_directory(place, take_fd(&into)), place->result->file_count);
}

static void start_again(struct place *place)
{
    result_free(place->result);
    place->result = result_new();
}

/* ---- what is well-meant ---- */

static void files_are_saved_with_size_and_hash(void **state)
{
    struct place *place = *state;
    write_text(place->box, "plot.png", "abc");
    write_text(place->box, "empty", "");
    close(open_new(place->box, "a"));
    close(open_new(place->box, "a/b"));
    write_text(place->box, "a/b/deep.csv", "1,2\n");
    close(open_new(place->box, "nothing in here"));
    collect_into_empty(place);
    assert_int_equal(place->result->file_count, 3);
    assert_int_equal(place->result->omission_count, 0);
    const struct result_file *file = collected(place, "plot.png");
    assert_int_equal(file->size, 3);
    assert_string_equal(file->sha256, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert_int_equal(collected(place, "empty")->size, 0);
    assert_file_holds(place->into, "plot.png", "abc");
    assert_file_holds(place->into, "a/b/deep.csv", "1,2\n");
}

static void without_a_directory_files_are_only_hashed(void **state)
{
    struct place *place = *state;
    write_text(place->box, "a\nb", "abc");
    assert_int_equal(collect_files(place->box, -1, &place->limits, place->result, &place->err), 0);
    assert_int_equal(collected(place, "a\nb")->size, 3);
    assert_false(exists(place->into, "a\nb"));
    check_outside(place);
}

static void directory_is_made_where_it_is_missing(void **state)
{
    struct place *place = *state;
    write_text(place->box, "file", "x");
    strcat(place->into_path, "/new/below");
    assert_int_equal(
        collect_to_path(place->box, place->into_path, &place->limits, place->result, &place->err), 0);
    assert_file_holds(place->into, "new/below/file", "x");
}

static void directory_that_is_none_is_told(void **state)
{
    struct place *place = *state;
    write_text(place->into, "file", "x");
    strcat(place->into_path, "/file");
    assert_true(collect_to_path(place->box, place->into_path, &place->limits, place->result, &place->err) <
                0);
    assert_error(&place->err, ERROR_SPEC, "output", "not a directory", place->into_path);
}

static void only_the_permission_to_run_is_kept(void **state)
{
    struct place *place = *state;
    mode_t former = umask(022);
    static const struct {
        const char *name;
        unsigned mode, saved;
    } rows[] = {{"plain", 0644, 0644},   {"program", 0755, 0755}, {"setuid", 04755, 0755},
                {"setgid", 02711, 0755}, {"sticky", 01666, 0644}, {"group-only", 0010, 0755}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        write_text(place->box, rows[i].name, "x");
        assert_int_equal(fchmodat(place->box, rows[i].name, rows[i].mode | 0400, 0), 0);
    }
    collect_into_empty(place);
    umask(former);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct stat status;
        assert_int_equal(fstatat(place->into, rows[i].name, &status, 0), 0);
        assert_int_equal(status.st_mode & 07777, rows[i].saved);
    }
}

/* ---- what is not a file ---- */

static void only_regular_files_are_taken(void **state)
{
    struct place *place = *state;
    write_text(place->box, "file", "x");
    assert_int_equal(symlinkat("../canary", place->box, "link"), 0);
    assert_int_equal(symlinkat("/etc/passwd", place->box, "absolute"), 0);
    assert_int_equal(symlinkat("nowhere", place->box, "dangling"), 0);
    assert_int_equal(symlinkat("/", place->box, "directory"), 0);
    assert_int_equal(symlinkat("loop", place->box, "loop"), 0);
    assert_int_equal(symlinkat("/dev/zero", place->box, "endless"), 0);
    assert_int_equal(mkfifoat(place->box, "fifo", 0666), 0);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s/box/socket", place->scratch->path);
    scope_fd listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&address, sizeof address), 0);
    static const char *const others[] = {"link", "absolute", "dangling", "directory",
                                         "loop", "endless",  "fifo",     "socket"};
    collect_into_empty(place);
    assert_int_equal(place->result->file_count, 1);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_omitted(place, others[i], "not a regular file");
}

static void devices_are_not_read(void **state)
{
    struct place *place = *state;
    need_root();
    assert_int_equal(mknodat(place->box, "zero", S_IFCHR | 0666, makedev(1, 5)), 0);
    assert_int_equal(mknodat(place->box, "terminal", S_IFCHR | 0666, makedev(5, 0)), 0);
    assert_int_equal(mknodat(place->box, "disk", S_IFBLK | 0666, makedev(7, 200)), 0);
    collect_into_empty(place);
    assert_int_equal(place->result->file_count, 0);
    assert_omitted(place, "zero", "not a regular file");
    assert_non_null(omitted(place, "terminal"));
    assert_non_null(omitted(place, "disk"));
}

static void hard_links_count_each_time(void **state)
{
    struct place *place = *state;
    char name[16];
    write_text(place->box, "0", "0123456789");
    for (int i = 1; i < 10; i++) {
        snprintf(name, sizeof name, "%d", i);
        assert_int_equal(linkat(place->box, "0", place->box, name, 0), 0);
    }
    place->limits.value[LIMIT_collect] = 55;
    collect_into_empty(place);
    assert_int_equal(place->result->file_count, 5);
    assert_int_equal(place->result->omission_count, 5);
}

/* ---- limits ---- */

static void bytes_have_a_limit_and_what_still_fits_is_taken(void **state)
{
    struct place *place = *state;
    char large[1001];
    memset(large, 'x', sizeof large);
    write_bytes(place->box, "large", large, 1001);
    write_text(place->box, "small", "x");
    place->limits.value[LIMIT_collect] = 1000;
    collect_into_empty(place);
    assert_non_null(collected(place, "small"));
    assert_omitted(place, "large", "more bytes than collect allows");
    start_again(place);
    write_bytes(place->box, "large", large, 999);
    collect(place);
    assert_int_equal(place->result->file_count, 2);
}

static void limit_of_no_bytes_takes_empty_files(void **state)
{
    struct place *place = *state;
    write_text(place->box, "empty", "");
    write_text(place->box, "one", "x");
    place->limits.value[LIMIT_collect] = 0;
    collect_into_empty(place);
    assert_non_null(collected(place, "empty"));
    assert_omitted(place, "one", "more bytes");
}

static void files_have_a_limit(void **state)
{
    struct place *place = *state;
    char name[16];
    for (int i = 0; i < 50; i++) {
        snprintf(name, sizeof name, "%d", i);
        write_text(place->box, name, "x");
    }
    place->limits.value[LIMIT_collect_files] = 20;
    collect_into_empty(place);
    assert_int_equal(place->result->file_count, 20);
    assert_int_equal(place->result->omission_count, 30);
    assert_non_null(strstr(place->result->omissions[0].reason, "collect_files"));
    start_again(place);
    place->limits.value[LIMIT_collect_files] = 0;
    collect(place);
    assert_int_equal(place->result->file_count, 0);
}

static void sparse_file_is_judged_by_its_length(void **state)
{
    struct place *place = *state;
    scope_fd fd = openat(place->box, "sparse", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    assert_int_equal(ftruncate(fd, 4LL << 30), 0);
    write_text(place->box, "file", "x");
    collect_into_empty(place);
    assert_omitted(place, "sparse", "more bytes");
    assert_non_null(collected(place, "file"));
}

static void very_many_entries_do_not_take_for_ever(void **state)
{
    struct place *place = *state;
    char name[16];
    for (int i = 0; i < 12000; i++) {
        snprintf(name, sizeof name, "%d", i);
        assert_int_equal(symlinkat("x", place->box, name), 0);
    }
    place->limits.value[LIMIT_collect_files] = 10;
    collect_into_empty(place);
    assert_in_range(place->result->omission_count, 100, 101);
    /* That it stopped is said among what is listed, about a path that can be shown. */
    bool said = false;
    for (size_t i = 0; i < place->result->omission_count; i++) {
        assert_true(place->result->omissions[i].path[0] != '\0');
        said |= strstr(place->result->omissions[i].reason, "too many entries") != NULL;
    }
    assert_true(said);
}

static void many_directories_count_as_entries(void **state)
{
    struct place *place = *state;
    char name[32];
    for (int i = 0; i < 110; i++) {
        snprintf(name, sizeof name, "%d", i);
        assert_int_equal(mkdirat(place->box, name, 0755), 0);
        for (int j = 0; j < 110; j++) {
            snprintf(name, sizeof name, "%d/%d", i, j);
            assert_int_equal(mkdirat(place->box, name, 0755), 0);
        }
    }
    place->limits.value[LIMIT_collect_files] = 10;
    collect_into_empty(place);
    assert_true(place->result->omission_count > 0);
    for (size_t i = 0; i < place->result->omission_count; i++)
        assert_non_null(strstr(place->result->omissions[i].reason, "too many entries"));
}

/* ---- depth ---- */

static void make_chain(int dir_fd, int depth, const char *name)
{
    int at = dup(dir_fd);
    for (int i = 0; i < depth; i++) {
        assert_int_equal(mkdirat(at, name, 0755), 0);
        int next = openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        assert_true(next >= 0);
        close(at);
        at = next;
    }
    write_text(at, "bottom", "x");
    close(at);
}

static void deep_directories_are_left_out(void **state)
{
    struct place *place = *state;
    make_chain(place->box, 3000, "d");
    close(open_new(place->box, "shallow"));
    make_chain(place->box, 40, "e");
    collect_into_empty(place);
    assert_int_equal(place->result->file_count, 1);
    assert_int_equal(strlen(place->result->files[0].path), 40 * 2 + strlen("bottom"));
    assert_int_equal(place->result->omission_count, 1);
    assert_non_null(strstr(place->result->omissions[0].reason, "nested too deep"));
}

static void paths_that_are_too_long_are_left_out(void **state)
{
    struct place *place = *state;
    char name[251];
    memset(name, 'n', 250);
    name[250] = '\0';
    make_chain(place->box, 30, name);
    collect_into_empty(place);
    assert_int_equal(place->result->file_count, 0);
    assert_int_equal(place->result->omission_count, 1);
    assert_non_null(strstr(place->result->omissions[0].reason, "path is too long"));
}

/* ---- names ---- */

static void odd_names_are_saved_as_they_are(void **state)
{
    struct place *place = *state;
    char longest[256];
    memset(longest, 'x', 255);
    longest[255] = '\0';
    const char *const names[] = {" ",        "-rf",   "...",        "..x",        "a b",          "*",
                                 "$(id)",    "`id`",  "a\\b",       "~",          "a'b",          "\xff\xfe",
                                 "\xc3\xa9", "\"",    "&|;<>",      "%s%n",       "\xe2\x80\xae", ".hidden",
                                 "con",      longest, "NAME=value", "name:stream"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        write_text(place->box, names[i], names[i]);
    collect_into_empty(place);
    assert_int_equal(place->result->omission_count, 0);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        assert_non_null(collected(place, names[i]));
        assert_file_holds(place->into, names[i], names[i]);
    }
}

static void names_that_drive_terminals_or_scripts_are_not_saved(void **state)
{
    struct place *place = *state;
    static const char *const names[] = {"a\nb",     "\n",    "\x1b[31mred", "bell\a",       "back\b\bspace",
                                        "return\r", "tab\t", "delete\x7f",  "c1 \xc2\x9b[", "nel \xc2\x85"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        write_text(place->box, names[i], "x");
    close(open_new(place->box, "directory\n"));
    write_text(place->box, "directory\n/file", "x");
    collect_into_empty(place);
    for (size_t i = 0; i < place->result->file_count; i++) {
        scope_buffer shown = {0};
        buffer_print(&shown, "%s", place->result->files[i].path);
        for (char *at = shown.data; *at; at++)
            if ((unsigned char)*at < 0x20)
                *at = '?';
        fail_msg("'%s' was saved", shown.data);
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_omitted(place, names[i], "control characters");
    assert_omitted(place, "directory\n/file", "control characters");
}

/* The temporary names under which we save are no secret: a guest may have taken all of them. */
static void our_own_temporary_names_may_be_taken_by_the_guest(void **state)
{
    struct place *place = *state;
    char name[64];
    place->limits.value[LIMIT_collect_files] = 40;
    for (int i = 40; i >= 0; i--) /* a tmpfs lists the newest first: 0 is saved before its name is needed */ {
        snprintf(name, sizeof name, ".cloche-%d-%d", (int)getpid(), i);
        write_text(place->box, name, name);
    }
    collect_into_empty(place);
    assert_int_equal(place->result->file_count, 40);
}

static void our_own_temporary_names_may_be_left_from_an_earlier_run(void **state)
{
    struct place *place = *state;
    char name[64];
    write_text(place->box, "file", "new");
    for (int i = 0; i <= 1000; i++) {
        snprintf(name, sizeof name, ".cloche-%d-%d", (int)getpid(), i);
        write_text(place->into, name, "left");
    }
    collect(place);
    assert_file_holds(place->into, "file", "new");
}

/* ---- permissions ---- */

static void unreadable_body(void *data)
{
    struct place *place = data;
    become_some_user();
    must(collect_to_path(place->box, place->into_path, &place->limits, place->result, &place->err) == 0);
    must(place->result->file_count == 1 && place->result->omission_count == 2);
    must(omitted(place, "closed") && strcmp(omitted(place, "closed"), "not readable") == 0);
    must(omitted(place, "closed-directory") &&
         strcmp(omitted(place, "closed-directory"), "not readable") == 0);
}

static void what_cannot_be_read_is_named(void **state)
{
    struct place *place = *state;
    need_root(); /* to be two users */
    write_text(place->box, "open", "x");
    write_text(place->box, "closed", "x");
    assert_int_equal(fchmodat(place->box, "closed", 0, 0), 0);
    close(open_new(place->box, "closed-directory"));
    assert_int_equal(fchmodat(place->box, "closed-directory", 0, 0), 0);
    in_child(unreadable_body, place);
}

/* ---- traps in the caller's directory ---- */

static void link_at_a_files_place_is_replaced_and_not_written_through(void **state)
{
    struct place *place = *state;
    write_text(place->box, "file", "from the box");
    assert_int_equal(symlinkat("../canary", place->into, "file"), 0);
    collect(place);
    struct stat status;
    assert_int_equal(fstatat(place->into, "file", &status, AT_SYMLINK_NOFOLLOW), 0);
    assert_true(S_ISREG(status.st_mode));
    assert_file_holds(place->into, "file", "from the box");
}

static void hard_link_at_a_files_place_keeps_its_other_name(void **state)
{
    struct place *place = *state;
    write_text(place->box, "file", "from the box");
    assert_int_equal(linkat(place->scratch->fd, "canary", place->into, "file", 0), 0);
    assert_int_equal(
        collect_to_path(place->box, place->into_path, &place->limits, place->result, &place->err), 0);
    assert_file_holds(place->into, "file", "from the box");
    check_outside(place);
}

static void link_at_a_directorys_place_is_not_followed(void **state)
{
    struct place *place = *state;
    static const char *const targets[] = {"..", "/", "../box", "nowhere"};
    close(open_new(place->box, "sub"));
    write_text(place->box, "sub/canary", "from the box");
    write_text(place->box, "other", "x");
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
        assert_int_equal(symlinkat(targets[i], place->into, "sub"), 0);
        collect(place);
        assert_omitted(place, "sub/canary", "something else is at its place");
        assert_non_null(collected(place, "other"));
        assert_int_equal(unlinkat(place->into, "sub", 0), 0);
        start_again(place);
    }
}

static void files_and_directories_in_the_way_are_told(void **state)
{
    struct place *place = *state;
    close(open_new(place->box, "directory"));
    write_text(place->box, "directory/file", "x");
    write_text(place->box, "file", "x");
    write_text(place->into, "directory", "a file of the caller's");
    close(open_new(place->into, "file"));
    write_text(place->into, "file/kept", "kept");
    collect(place);
    assert_omitted(place, "directory/file", "something else is at its place");
    assert_omitted(place, "file", "something else is at its place");
    assert_file_holds(place->into, "directory", "a file of the caller's");
    assert_file_holds(place->into, "file/kept", "kept");
}

static void former_files_are_replaced_and_others_kept(void **state)
{
    struct place *place = *state;
    write_text(place->into, "file", "a former run left more than this one will");
    write_text(place->into, "other", "kept");
    assert_int_equal(mkfifoat(place->into, "fifo", 0600), 0);
    write_text(place->box, "file", "new");
    write_text(place->box, "fifo", "no longer");
    collect(place);
    assert_file_holds(place->into, "file", "new");
    assert_file_holds(place->into, "other", "kept");
    assert_file_holds(place->into, "fifo", "no longer");
}

static void failure_to_save_is_a_failure_of_the_host(void **state)
{
    struct place *place = *state;
    need_root();
    if (unshare(CLONE_NEWNS) < 0)
        skip_because("no mount namespace can be had");
    assert_int_equal(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
    assert_int_equal(mount("tmpfs", place->into_path, "tmpfs", 0, "size=16k"), 0);
    static char large[100000];
    write_bytes(place->box, "large", large, sizeof large);
    assert_true(collect_to_path(place->box, place->into_path, &place->limits, place->result, &place->err) <
                0);
    assert_error(&place->err, ERROR_HOST, "", "large", "No space left");
    scope_fd into = open(place->into_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(check_directory(place, take_fd(&into)), 0); /* nothing half-made */
    assert_int_equal(umount2(place->into_path, MNT_DETACH), 0);
}

/* ---- one file ---- */

static void one_artifact_is_taken_whole_or_not_at_all(void **state)
{
    struct place *place = *state;
    struct error err = {0};
    scope_buffer bytes = {0}, none = {0};
    write_bytes(place->box, "program",
                "\x7f"
                "ELF\0x",
                6);
    assert_int_equal(collect_one(place->box, "program", 6, &bytes, &err), 0);
    assert_int_equal(bytes.length, 6);
    assert_memory_equal(bytes.data,
                        "\x7f"
                        "ELF\0x",
                        6);
    assert_true(collect_one(place->box, "program", 5, &none, &err) < 0);
    assert_error(&err, ERROR_SPEC, "code", "larger than 5 bytes");
    assert_int_equal(symlinkat("/etc/passwd", place->box, "link"), 0);
    assert_int_equal(mkfifoat(place->box, "fifo", 0666), 0);
    close(open_new(place->box, "directory"));
    static const char *const others[] = {"absent", "link", "fifo", "directory"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        err = (struct error){0};
        assert_true(collect_one(place->box, others[i], 100, &none, &err) < 0);
        assert_int_equal(err.kind, ERROR_SPEC);
    }
    assert_int_equal(none.length, 0);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, place_setup, place_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(files_are_saved_with_size_and_hash),
        TEST(without_a_directory_files_are_only_hashed),
        TEST(directory_is_made_where_it_is_missing),
        TEST(directory_that_is_none_is_told),
        TEST(only_the_permission_to_run_is_kept),
        TEST(only_regular_files_are_taken),
        TEST(devices_are_not_read),
        TEST(hard_links_count_each_time),
        TEST(bytes_have_a_limit_and_what_still_fits_is_taken),
        TEST(limit_of_no_bytes_takes_empty_files),
        TEST(files_have_a_limit),
        TEST(sparse_file_is_judged_by_its_length),
        TEST(very_many_entries_do_not_take_for_ever),
        TEST(many_directories_count_as_entries),
        TEST(deep_directories_are_left_out),
        TEST(paths_that_are_too_long_are_left_out),
        TEST(odd_names_are_saved_as_they_are),
        TEST(names_that_drive_terminals_or_scripts_are_not_saved),
        TEST(our_own_temporary_names_may_be_taken_by_the_guest),
        TEST(our_own_temporary_names_may_be_left_from_an_earlier_run),
        TEST(what_cannot_be_read_is_named),
        TEST(link_at_a_files_place_is_replaced_and_not_written_through),
        TEST(hard_link_at_a_files_place_keeps_its_other_name),
        TEST(link_at_a_directorys_place_is_not_followed),
        TEST(files_and_directories_in_the_way_are_told),
        TEST(former_files_are_replaced_and_others_kept),
        TEST(one_artifact_is_taken_whole_or_not_at_all),
        TEST(failure_to_save_is_a_failure_of_the_host), /* last: it changes the mount namespace */
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
