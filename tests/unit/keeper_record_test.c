/* Records: who owns which box, and what becomes of boxes whose owner is dead.
 *
 * Each test is a child that is another user with a state directory of its own, so that no box of this machine
 * is touched; what only root can see is tested in namespaces of its own. */
#define SCRATCH_ROOT "/dev/shm"
#include "harness.h"

#include "keeper/record.h"

#include <dirent.h>
#include <sched.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mount.h>

static const struct cgroup_layout no_groups = {.version = CGROUP_NONE};
static char state_path[128], boxes_path[128];

static void become_owner(const struct scratch *scratch)
{
    become_some_user();
    must(setenv("XDG_RUNTIME_DIR", scratch_path(scratch, "run"), 1) == 0);
    must(setenv("TMPDIR", scratch_path(scratch, "tmp"), 1) == 0);
    must(mkdirat(scratch->fd, "run", 0700) == 0 && mkdirat(scratch->fd, "tmp", 0700) == 0);
    snprintf(state_path, sizeof state_path, "%s/run/cloche", scratch->path);
    snprintf(boxes_path, sizeof boxes_path, "%s/tmp/cloche-%u-box", scratch->path, (unsigned)geteuid());
}

static int entries_in(const char *path)
{
    DIR *dir = opendir(path);
    int count = 0;
    struct dirent *entry;
    while (dir && (entry = readdir(dir)))
        count += entry->d_name[0] != '.';
    if (dir)
        closedir(dir);
    return count;
}

static bool is_there(const char *directory, const char *name)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    return access(path, F_OK) == 0;
}

static void take(struct record *record)
{
    struct error err = {0};
    if (record_take(record, &err) < 0) {
        fprintf(stderr, "%s\n", err.text);
        _exit(1);
    }
}

static void make_directory(struct record *record)
{
    struct error err = {0};
    must(record_make_directory(record, &err) == 0);
}

static struct reap_report reap(void)
{
    struct reap_report report;
    struct error err = {0};
    must(record_reap_all(&no_groups, &report, &err) == 0);
    return report;
}

static void put_file(const char *directory, const char *name)
{
    char path[2048]; /* room for what put_directory makes */
    snprintf(path, sizeof path, "%s/%s", directory, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    must(fd >= 0);
    close(fd);
}

static void put_directory(const char *directory, const char *name)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    must(file_make_directories(path, 0700) == 0);
    put_file(path, "content");
}

static int open_records(void)
{
    char path[512];
    must(file_make_directories(state_path, 0700) == 0);
    snprintf(path, sizeof path, "%s/boxes", state_path);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    must(fd >= 0);
    return fd;
}

static bool is_taken(int number)
{
    int fd = open_records();
    char byte = 0;
    must(pread(fd, &byte, 1, number) >= 0);
    close(fd);
    return byte != 0;
}

static int taken(void)
{
    int fd = open_records(), count = 0;
    char bytes[65536];
    ssize_t length = pread(fd, bytes, sizeof bytes, 0);
    for (ssize_t i = 0; i < length; i++)
        count += bytes[i] != 0;
    close(fd);
    return count;
}

/* As a box whose owner was killed leaves it. */
static void leave_taken(int number)
{
    int fd = open_records();
    must(pwrite(fd, "\1", 1, number) == 1);
    close(fd);
}

static void box_name(int number, char *into, size_t size)
{
    snprintf(into, size, "box-%u-%d", (unsigned)geteuid(), number);
}

/* ---- taking and giving back ---- */

static void take_body(void *data)
{
    become_owner(data);
    int before = open_descriptors();
    struct record record;
    char name[64];
    take(&record);
    must(record.number >= 0 && record.number < 65536);
    must(!record.identity.has_uid && record.identity.directory_fd == -1 && !record.identity.directory[0]);
    box_name(record.number, name, sizeof name);
    must(strcmp(record.identity.name, name) == 0);
    must(is_taken(record.number) && taken() == 1);
    must(fcntl(record.lock_fd, F_GETFD) & FD_CLOEXEC);
    struct stat status;
    must(stat(state_path, &status) == 0 && (status.st_mode & 0777) == 0700);
    must(record_give_back(&record) == 0);
    must(taken() == 0);
    must(record_give_back(&record) == 0);
    must(open_descriptors() == before);
}

static void record_is_there_as_long_as_its_owner_wants(void **state)
{
    in_child(take_body, *state);
}

static void half_made_body(void *data)
{
    become_owner(data);
    struct record record = RECORD_UNSET;
    must(record_give_back(&record) == 0);
}

static void half_made_record_can_be_given_back(void **state)
{
    in_child(half_made_body, *state);
}

static void several_body(void *data)
{
    become_owner(data);
    struct record records[20];
    for (int i = 0; i < 20; i++) {
        take(&records[i]);
        for (int j = 0; j < i; j++)
            must(records[j].number != records[i].number);
    }
    must(taken() == 20);
    must(reap().boxes == 0);
    for (int i = 0; i < 20; i++)
        must(record_give_back(&records[i]) == 0);
    must(taken() == 0);
}

static void boxes_of_one_owner_have_numbers_of_their_own(void **state)
{
    in_child(several_body, *state);
}

static void directory_body(void *data)
{
    become_owner(data);
    struct record record;
    struct stat status;
    take(&record);
    make_directory(&record);
    must(record.identity.directory_fd >= 0);
    must(stat(record.identity.directory, &status) == 0 && (status.st_mode & 0777) == 0700);
    must(strncmp(record.identity.directory, boxes_path, strlen(boxes_path)) == 0);
    put_directory(record.identity.directory, "output");
    must(record_give_back(&record) == 0);
    must(entries_in(boxes_path) == 0 && taken() == 0);
}

static void private_directory_goes_with_the_record(void **state)
{
    in_child(directory_body, *state);
}

static void stale_directory_body(void *data)
{
    become_owner(data);
    struct record record;
    take(&record);
    put_directory(boxes_path, record.identity.name); /* somebody's, long dead */
    make_directory(&record);
    must(entries_in(record.identity.directory) == 0);
    must(record_give_back(&record) == 0);
}

static void private_directory_starts_empty(void **state)
{
    in_child(stale_directory_body, *state);
}

/* A number of its own for each process: the one that it would try first. */
static int first_number(void)
{
    return (int)((unsigned)getpid() * 7919U % 65536);
}

/* ---- other owners ---- */

static pid_t start_owner(bool with_directory, bool stays)
{
    int ready[2];
    char byte;
    must(pipe2(ready, O_CLOEXEC) == 0);
    pid_t owner = fork();
    must(owner >= 0);
    if (owner == 0) {
        struct record record;
        take(&record);
        if (with_directory) {
            make_directory(&record);
            put_directory(record.identity.directory, "output");
        }
        must(write(ready[1], "x", 1) == 1);
        if (stays)
            pause();
        _exit(0); /* without giving anything back */
    }
    close(ready[1]);
    must(read(ready[0], &byte, 1) == 1);
    close(ready[0]);
    if (!stays)
        must(waitpid(owner, NULL, 0) == owner);
    return owner;
}

static void dead_owner_body(void *data)
{
    become_owner(data);
    start_owner(true, false);
    leave_taken(first_number());
    must(taken() == 2 && entries_in(boxes_path) == 1);
    struct reap_report report = reap();
    must(report.boxes == 2 && report.directories == 1 && report.failures == 0 && report.groups == 0);
    must(taken() == 0 && entries_in(boxes_path) == 0);
    report = reap();
    must(report.boxes == 0 && report.directories == 0);
}

static void what_a_dead_owner_left_is_reaped(void **state)
{
    in_child(dead_owner_body, *state);
}

static void next_box_body(void *data)
{
    struct record record;
    become_owner(data);
    start_owner(true, false);
    leave_taken((first_number() + 7) % 65536);
    pid_t living = start_owner(true, true); /* who has swept already, all but what lives */
    must(taken() == 1 && entries_in(boxes_path) == 1);
    take(&record);
    must(taken() == 2 && entries_in(boxes_path) == 1);
    must(kill(living, SIGKILL) == 0 && waitpid(living, NULL, 0) == living);
    struct record next;
    take(&next);
    must(taken() == 2 && entries_in(boxes_path) == 0);
    must(record_give_back(&record) == 0 && record_give_back(&next) == 0 && taken() == 0);
}

static void what_dead_owners_left_goes_with_the_next_box(void **state)
{
    in_child(next_box_body, *state);
}

static void living_owner_body(void *data)
{
    become_owner(data);
    pid_t owner = start_owner(true, true);
    must(reap().boxes == 0);
    must(taken() == 1 && entries_in(boxes_path) == 1);
    must(kill(owner, SIGKILL) == 0 && waitpid(owner, NULL, 0) == owner);
    must(reap().boxes == 1);
    must(taken() == 0 && entries_in(boxes_path) == 0);
}

static void living_owner_is_left_alone_until_he_is_killed(void **state)
{
    in_child(living_owner_body, *state);
}

static void meeting_body(void *data)
{
    become_owner(data);
    struct record record;
    char name[64];
    leave_taken(first_number());
    box_name(first_number(), name, sizeof name);
    put_directory(boxes_path, name);
    take(&record);
    must(record.number == first_number());
    must(entries_in(boxes_path) == 0);
    must(record_give_back(&record) == 0 && taken() == 0);
}

static void leftover_that_is_met_is_swept_and_its_number_taken(void **state)
{
    in_child(meeting_body, *state);
}

static void held_body(void *data)
{
    become_owner(data);
    int number = first_number(), ready[2], done[2];
    char byte;
    must(pipe2(ready, O_CLOEXEC) == 0 && pipe2(done, O_CLOEXEC) == 0);
    pid_t holder = fork();
    must(holder >= 0);
    if (holder == 0) { /* holds the very number that we would take */
        struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = number, .l_len = 1};
        must(fcntl(open_records(), F_OFD_SETLK, &lock) == 0 && write(ready[1], "x", 1) == 1);
        (void)!read(done[0], &byte, 1);
        _exit(0);
    }
    must(read(ready[0], &byte, 1) == 1);
    struct record record;
    char name[64];
    box_name(number, name, sizeof name);
    put_directory(boxes_path, name);
    take(&record);
    must(record.number != number);
    must(reap().boxes == 0);
    must(is_there(boxes_path, name)); /* the directory of a living box */
    must(write(done[1], "x", 1) == 1 && waitpid(holder, NULL, 0) == holder);
    must(reap().boxes == 1 && !is_there(boxes_path, name));
    must(record_give_back(&record) == 0);
}

static void number_that_another_process_holds_is_passed_over(void **state)
{
    in_child(held_body, *state);
}

static void orphan_body(void *data)
{
    become_owner(data);
    char name[64];
    box_name(4711, name, sizeof name);
    put_directory(boxes_path, name); /* a kill between removing the record and the directory */
    struct reap_report report = reap();
    must(report.boxes == 1 && report.directories == 1);
    must(entries_in(boxes_path) == 0 && taken() == 0);
}

static void directory_without_a_record_is_reaped(void **state)
{
    in_child(orphan_body, *state);
}

static void overlong_body(void *data)
{
    become_owner(data);
    const int past_last = 65536;
    leave_taken(past_last - 1);
    leave_taken(past_last);
    int fd = open_records();
    must(ftruncate(fd, INT64_C(5) << 30) == 0); /* more than an int counts */
    close(fd);
    must(reap().boxes == 1);
    must(!is_taken(past_last - 1) && is_taken(past_last));
}

static void file_of_records_that_is_too_long_is_not_read_to_its_end(void **state)
{
    in_child(overlong_body, *state);
}

static void stranger_body(void *data)
{
    become_owner(data);
    static const char *const names[] = {"box-1-5", "box-", "box", "other", "box-x-5", "BOX-0-1"};
    char name[64];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        put_directory(boxes_path, names[i]);
    for (int i = 0; i < 2; i++) {
        box_name(i == 0 ? 65536 : -5, name, sizeof name);
        put_directory(boxes_path, name);
    }
    struct reap_report report = reap();
    must(report.boxes == 0 && report.failures == 0);
    must(entries_in(boxes_path) == 8 && taken() == 0);
}

static void names_that_are_not_ours_are_left_alone(void **state)
{
    in_child(stranger_body, *state);
}

static void directory_in_use_body(void *data)
{
    const struct scratch *scratch = data;
    struct record record;
    become_owner(scratch);
    take(&record);
    make_directory(&record);
    /* As after a change of the environment: the record that says who lives is looked for elsewhere. */
    must(mkdirat(scratch->fd, "other", 0700) == 0);
    must(setenv("XDG_RUNTIME_DIR", scratch_path(scratch, "other"), 1) == 0);
    reap();
    must(access(record.identity.directory, F_OK) == 0);
    char directory[sizeof record.identity.directory];
    snprintf(directory, sizeof directory, "%s", record.identity.directory);
    scope_close_fd(&record.identity.directory_fd); /* its owner is dead */
    reap();
    must(access(directory, F_OK) < 0);
}

static void directory_in_use_is_not_reaped(void **state)
{
    in_child(directory_in_use_body, *state);
}

/* ---- state directories that are traps ---- */

static void foreign_directory_body(void *data)
{
    const struct scratch *scratch = data;
    struct record record;
    struct error err = {0};
    become_some_user();
    must(setenv("XDG_RUNTIME_DIR", scratch_path(scratch, "foreign"), 1) == 0);
    must(unsetenv("HOME") == 0);
    must(record_take(&record, &err) < 0);
    must(err.kind == ERROR_HOST && strstr(err.text, "belongs to another user"));
    /* Whoever has a home is not kept from working by a stranger's mkdir. */
    must(setenv("HOME", scratch_path(scratch, "home"), 1) == 0);
    take(&record);
    must(entries_in(scratch_path(scratch, "home/.cache/cloche/state")) == 1);
    must(entries_in(scratch_path(scratch, "foreign/cloche")) == 0);
    must(record_give_back(&record) == 0);
}

static void state_directory_of_another_user_is_refused(void **state)
{
    const struct scratch *scratch = *state;
    need_root();
    assert_int_equal(file_make_directories(scratch_path(scratch, "foreign/cloche"), 0777), 0);
    assert_int_equal(chmod(scratch_path(scratch, "foreign/cloche"), 0777), 0);
    assert_int_equal(file_make_directories(scratch_path(scratch, "home"), 0777), 0);
    assert_int_equal(chmod(scratch_path(scratch, "home"), 0777), 0);
    in_child(foreign_directory_body, *state);
}

static void link_body(void *data)
{
    const struct scratch *scratch = data;
    struct record record;
    struct error err = {0};
    become_owner(scratch);
    must(mkdirat(scratch->fd, "elsewhere", 0700) == 0);
    must(symlinkat("../elsewhere", scratch->fd, "run/cloche") == 0);
    must(record_take(&record, &err) < 0 && err.kind == ERROR_HOST);
    must(entries_in(scratch_path(scratch, "elsewhere")) == 0);
    must(unlinkat(scratch->fd, "run/cloche", 0) == 0);
    take(&record);
    char name[64];
    snprintf(name, sizeof name, "tmp/cloche-%u-box", (unsigned)geteuid());
    must(symlinkat("../elsewhere", scratch->fd, name) == 0);
    must(record_make_directory(&record, &err) < 0 && err.kind == ERROR_HOST);
    must(entries_in(scratch_path(scratch, "elsewhere")) == 0);
    must(record_give_back(&record) == 0);
}

static void state_directory_that_is_a_link_is_refused(void **state)
{
    in_child(link_body, *state);
}

static void record_is_a_link_body(void *data)
{
    const struct scratch *scratch = data;
    become_owner(scratch);
    must(file_make_directories(state_path, 0700) == 0);
    put_file(scratch->path, "target");
    char path[300];
    snprintf(path, sizeof path, "%s/boxes", state_path);
    must(symlink("../../target", path) == 0);
    struct record record;
    struct error err = {0};
    if (record_take(&record, &err) == 0) /* refusing and passing over are both right */
        must(record_give_back(&record) == 0);
    must(is_there(scratch->path, "target"));
}

static void record_that_is_a_link_is_not_followed(void **state)
{
    in_child(record_is_a_link_body, *state);
}

static void long_path_body(void *data)
{
    const struct scratch *scratch = data;
    become_owner(scratch);
    char longer[300];
    snprintf(longer, sizeof longer, "%s/tmp/", scratch->path);
    memset(longer + strlen(longer), 'x', 180);
    longer[strlen(scratch->path) + 5 + 180] = '\0';
    must(mkdir(longer, 0700) == 0 && setenv("TMPDIR", longer, 1) == 0);
    struct record record;
    struct error err = {0};
    take(&record);
    if (record_make_directory(&record, &err) == 0) { /* refusing it is right too */
        must(strncmp(record.identity.directory, longer, strlen(longer)) == 0);
        must(access(record.identity.directory, F_OK) == 0);
    }
    must(entries_in(scratch_path(scratch, "tmp")) == 1); /* a cut path would be beside it */
    must(record_give_back(&record) == 0);
    must(taken() == 0);
}

static void long_path_is_not_cut_to_another(void **state)
{
    in_child(long_path_body, *state);
}

/* ---- root, in namespaces of its own ---- */

static void root_in_namespaces(void)
{
    snprintf(state_path, sizeof state_path, "/run/cloche");
    must(getpid() == 1); /* so that no signal of the code under test can reach the host */
    struct record record, dead;
    struct stat status;
    take(&record);
    must(record.identity.has_uid && record.identity.uid == (uid_t)(0x7d000000 + record.number));
    make_directory(&record);
    must(strncmp(record.identity.directory, "/var/lib/cloche/box/", 20) == 0);
    must(stat(record.identity.directory, &status) == 0 &&
         (status.st_mode & 0766) == 0700); /* at most to pass */
    must(record_give_back(&record) == 0 && taken() == 0 && entries_in("/var/lib/cloche/box") == 0);
    /* A process of a dead owner's box is known by its uid alone. */
    take(&dead);
    uid_t uid = dead.identity.uid;
    int ready[2];
    char byte;
    must(pipe2(ready, O_CLOEXEC) == 0);
    pid_t guest = fork();
    must(guest >= 0);
    if (guest == 0) {
        close(dead.lock_fd); /* as every box does */
        must(setresuid(uid, uid, uid) == 0 && write(ready[1], "x", 1) == 1);
        for (;;)
            pause();
    }
    must(read(ready[0], &byte, 1) == 1);
    close(dead.lock_fd); /* as the kernel does for a dead process */
    struct reap_report report = reap();
    int ended = 0;
    must(report.boxes == 1 && report.failures == 0);
    must(waitpid(guest, &ended, 0) == guest && WIFSIGNALED(ended) && WTERMSIG(ended) == SIGKILL);
    must(taken() == 0);
    _exit(0);
}

static void call_in_namespaces(void (*body)(void))
{
    must(unshare(CLONE_NEWNS | CLONE_NEWPID) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
    must(mount("tmpfs", "/run", "tmpfs", 0, NULL) == 0 && mount("tmpfs", "/var/lib", "tmpfs", 0, NULL) == 0);
    must(mount("tmpfs", "/dev/shm", "tmpfs", 0, "mode=1777") == 0);
    pid_t first = fork();
    must(first >= 0);
    if (first == 0) {
        signal(SIGALRM, SIG_DFL);
        body();
    }
    int status;
    must(waitpid(first, &status, 0) == first && status == 0);
}

static void root_body(void *data)
{
    (void)data;
    call_in_namespaces(root_in_namespaces);
}

static void root_gives_every_box_a_uid_and_kills_by_it(void **state)
{
    need_root();
    in_child(root_body, *state);
}

/* Root of a user namespace that has itself, and so many ids of ours: does it give any to its boxes? */
static bool gives_uids_of(unsigned count)
{
    int made[2], mapped[2], ended;
    char byte, map[64], path[64];
    must(pipe(made) == 0 && pipe(mapped) == 0);
    pid_t child = fork();
    if (child == 0) {
        struct record record;
        must(unshare(CLONE_NEWUSER) == 0 && write(made[1], "x", 1) == 1 && read(mapped[0], &byte, 1) == 1);
        take(&record);
        bool has_uid = record.identity.has_uid;
        must(record_give_back(&record) == 0);
        _exit(has_uid ? 10 : 11);
    }
    must(read(made[0], &byte, 1) == 1);
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "/proc/%d/%s", (int)child, i ? "gid_map" : "uid_map");
        int length = snprintf(map, sizeof map, "0 0 1\n%u %u %u\n", 0x7d000000u, 0x7d000000u, count);
        int fd = open(path, O_WRONLY | O_CLOEXEC);
        must(fd >= 0 && write(fd, map, (size_t)length) == length);
        close(fd);
    }
    must(write(mapped[1], "x", 1) == 1 && waitpid(child, &ended, 0) == child);
    must(WIFEXITED(ended) && (WEXITSTATUS(ended) == 10 || WEXITSTATUS(ended) == 11));
    return WEXITSTATUS(ended) == 10;
}

static void mapped_in_namespaces(void)
{
    must(mount("proc", "/proc", "proc", 0, NULL) == 0);
    must(gives_uids_of(2 * 65536));
    must(!gives_uids_of(2 * 65536 - 1)); /* the last box's gateway would have none */
    must(!gives_uids_of(65536));
    _exit(0);
}

static void mapped_body(void *data)
{
    (void)data;
    call_in_namespaces(mapped_in_namespaces);
}

static void uids_are_given_where_there_are_enough_for_gateways_too(void **state)
{
    need_root();
    in_child(mapped_body, *state);
}

/* ---- root's name in /dev/shm, where anyone can take it ---- */

#define NAME_IN_MEMORY "/dev/shm/cloche-0-box"
enum { STRANGER = 54321, SMALL_BYTES = 1 << 20, SMALL_INODES = 16 };

static void squatted_in_namespaces(void)
{
    must(mkdir("/dev/shm/elsewhere", 0700) == 0 && chown("/dev/shm/elsewhere", STRANGER, STRANGER) == 0);
    put_directory("/dev/shm/elsewhere", "box-0-7");
    must(symlink("elsewhere", NAME_IN_MEMORY) == 0);
    must(!record_fits_into_memory(SMALL_BYTES, SMALL_INODES) && reap().boxes == 0);
    must(unlink(NAME_IN_MEMORY) == 0 && rename("/dev/shm/elsewhere", NAME_IN_MEMORY) == 0);
    must(!record_fits_into_memory(SMALL_BYTES, SMALL_INODES) && reap().boxes == 0);
    must(entries_in(NAME_IN_MEMORY) == 1);
    _exit(0);
}

static void squatted_body(void *data)
{
    (void)data;
    call_in_namespaces(squatted_in_namespaces);
}

static void name_that_a_stranger_has_taken_in_memory_is_left_to_him(void **state)
{
    need_root();
    in_child(squatted_body, *state);
}

static void free_name_in_namespaces(void)
{
    struct stat status;
    /* Between the answer and the use nobody can take it any more. */
    must(record_fits_into_memory(SMALL_BYTES, SMALL_INODES));
    must(lstat(NAME_IN_MEMORY, &status) == 0 && S_ISDIR(status.st_mode) && status.st_uid == 0 &&
         (status.st_mode & 0777) == 0711);
    must(chmod("/dev/shm", 0777) == 0); /* anyone could take it away */
    must(!record_fits_into_memory(SMALL_BYTES, SMALL_INODES));
    _exit(0);
}

static void free_name_body(void *data)
{
    (void)data;
    call_in_namespaces(free_name_in_namespaces);
}

static void name_in_memory_is_ours_before_it_is_counted_on(void **state)
{
    need_root();
    in_child(free_name_body, *state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCRATCH_TEST(record_is_there_as_long_as_its_owner_wants),
        SCRATCH_TEST(half_made_record_can_be_given_back),
        SCRATCH_TEST(boxes_of_one_owner_have_numbers_of_their_own),
        SCRATCH_TEST(private_directory_goes_with_the_record),
        SCRATCH_TEST(private_directory_starts_empty),
        SCRATCH_TEST(what_a_dead_owner_left_is_reaped),
        SCRATCH_TEST(what_dead_owners_left_goes_with_the_next_box),
        SCRATCH_TEST(directory_in_use_is_not_reaped),
        SCRATCH_TEST(living_owner_is_left_alone_until_he_is_killed),
        SCRATCH_TEST(leftover_that_is_met_is_swept_and_its_number_taken),
        SCRATCH_TEST(number_that_another_process_holds_is_passed_over),
        SCRATCH_TEST(directory_without_a_record_is_reaped),
        SCRATCH_TEST(file_of_records_that_is_too_long_is_not_read_to_its_end),
        SCRATCH_TEST(names_that_are_not_ours_are_left_alone),
        SCRATCH_TEST(state_directory_of_another_user_is_refused),
        SCRATCH_TEST(state_directory_that_is_a_link_is_refused),
        SCRATCH_TEST(record_that_is_a_link_is_not_followed),
        SCRATCH_TEST(long_path_is_not_cut_to_another),
        SCRATCH_TEST(root_gives_every_box_a_uid_and_kills_by_it),
        SCRATCH_TEST(uids_are_given_where_there_are_enough_for_gateways_too),
        SCRATCH_TEST(name_that_a_stranger_has_taken_in_memory_is_left_to_him),
        SCRATCH_TEST(name_in_memory_is_ours_before_it_is_counted_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
