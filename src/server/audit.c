#include "server/audit.h"

#include "base/bytes.h"
#include "base/file.h"
#include "base/json_text.h"
#include "base/scope.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const char audit_name[] = "runs.jsonl";

/* Free: `taken` is 0. It is set last and cleared first, so a slot that is taken is whole. */
struct audit_slot {
    atomic_uint taken;
    char run_id[60];
    char text[AUDIT_SLOT_SIZE - 64]; /* JSON, NUL-terminated; empty: it was too long */
};

struct audit {
    pthread_mutex_t lock;
    int directory_fd, fd;
    int64_t size, file_max;
    struct audit_slot *slots;
};

void audit_time(char into[AUDIT_TIME_SIZE])
{
    struct timespec now;
    struct tm parts;
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &parts);
    size_t length = strftime(into, AUDIT_TIME_SIZE, "%Y-%m-%dT%H:%M:%S", &parts);
    snprintf(into + length, AUDIT_TIME_SIZE - length, ".%03dZ", (int)(now.tv_nsec / 1000000) % 1000);
}

/* ---- the file ---- */

static int audit_open_file(struct audit *audit)
{
    const int how = O_RDWR | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
    int fd = openat(audit->directory_fd, audit_name, how, 0600);
    struct stat status;
    if (fd < 0)
        return -errno;
    if (fstat(fd, &status) < 0 || !S_ISREG(status.st_mode)) {
        close(fd);
        return -EINVAL;
    }
    if (audit->fd >= 0)
        close(audit->fd);
    audit->fd = fd;
    audit->size = status.st_size;
    return 0;
}

static void audit_rotate(struct audit *audit)
{
    char from[32], to[32];
    for (int i = AUDIT_FILES_KEPT; i >= 1; i--) {
        snprintf(to, sizeof to, "%s.%d", audit_name, i);
        snprintf(from, sizeof from, i == 1 ? "%s" : "%s.%d", audit_name, i - 1);
        renameat(audit->directory_fd, from, audit->directory_fd, to);
    }
    if (audit_open_file(audit) < 0)
        fprintf(stderr, "cloche-server: a new audit file: %m\n");
}

/* With the lock held. */
static void audit_write(struct audit *audit, const char *text, size_t length)
{
    if (audit->size > 0 && audit->size + (int64_t)length > audit->file_max)
        audit_rotate(audit);
    int status = file_write_all(audit->fd, text, length);
    if (status < 0) {
        fprintf(stderr, "cloche-server: writing the audit log: %s\n", strerror(-status));
        if (ftruncate(audit->fd, audit->size) < 0)
            fprintf(stderr, "cloche-server: the audit log has a torn line\n");
        return;
    }
    audit->size += (int64_t)length;
}

static void audit_write_line(struct audit *audit, const json_t *line)
{
    char *text = json_text(line, JSON_COMPACT | JSON_REAL_PRECISION(12));
    if (!text)
        return;
    size_t length = strlen(text);
    text[length++] = '\n'; /* in the place of the NUL */
    audit_write(audit, text, length);
    free(text);
}

/* ---- slots ---- */

int audit_begin(struct audit *audit, const char *run_id, struct slice fields)
{
    int found = -1;
    pthread_mutex_lock(&audit->lock);
    for (int i = 0; found < 0 && i < AUDIT_SLOTS;
         i++) /* low numbers again and again: few pages are touched */
        if (!atomic_load(&audit->slots[i].taken))
            found = i;
    if (found >= 0) {
        struct audit_slot *slot = &audit->slots[found];
        size_t length = fields.length < sizeof slot->text ? fields.length : 0;
        snprintf(slot->run_id, sizeof slot->run_id, "%s", run_id);
        memcpy(slot->text, fields.data, length);
        slot->text[length] = '\0';
        atomic_store(&slot->taken, 1);
    }
    pthread_mutex_unlock(&audit->lock);
    return found;
}

void audit_end(struct audit *audit, int slot, struct slice line)
{
    pthread_mutex_lock(&audit->lock);
    audit_write(audit, line.data, line.length);
    if (slot >= 0)
        atomic_store(&audit->slots[slot].taken, 0);
    pthread_mutex_unlock(&audit->lock);
}

/* ---- the start ---- */

/* The lines of the present file and the one before it: a run that has its line must not get another. */
static bool audit_has_line(struct audit *audit, const char *run_id)
{
    static const char *const names[] = {"runs.jsonl", "runs.jsonl.1"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        scope_buffer text = {0};
        if (file_read_whole(audit->directory_fd, names[i], 2 * AUDIT_FILE_MAX, &text) < 0)
            continue;
        if (memmem(text.data, text.length, run_id, strlen(run_id)))
            return true;
    }
    return false;
}

static void audit_write_lost(struct audit *audit, struct audit_slot *slot)
{
    json_t *line = json_loads(slot->text, 0, NULL);
    if (!line)
        line = json_pack("{s:s}", "run", slot->run_id);
    char now[AUDIT_TIME_SIZE];
    audit_time(now);
    json_object_set_new(line, "ended_at", json_string(now));
    json_object_set_new(line, "cause", json_string("host_failure"));
    json_object_set_new(line, "detail", json_string("the server ended while the run was under way"));
    audit_write_line(audit, line);
    json_decref(line);
}

static void audit_recover(struct audit *audit, int *ret_lost)
{
    *ret_lost = 0;
    for (int i = 0; i < AUDIT_SLOTS; i++) {
        struct audit_slot *slot = &audit->slots[i];
        if (!atomic_load(&slot->taken))
            continue;
        slot->run_id[sizeof slot->run_id - 1] = slot->text[sizeof slot->text - 1] = '\0';
        if (slot->run_id[0] && !audit_has_line(audit, slot->run_id)) {
            audit_write_lost(audit, slot);
            ++*ret_lost;
        }
        atomic_store(&slot->taken, 0);
    }
    /* All of it was looked at just now; few slots are in use at one time. What is in the file stays there. */
    madvise(audit->slots, (size_t)AUDIT_SLOTS * sizeof *audit->slots, MADV_DONTNEED);
}

/* A line that was torn by a death is cut off: its slot is still taken, and gives it anew. */
static void audit_mend(struct audit *audit)
{
    enum { TAIL = 256 << 10 }; /* longer than any line */
    int64_t from = audit->size > TAIL ? audit->size - TAIL : 0;
    scope_free char *tail = malloc(TAIL);
    ssize_t length = tail ? pread(audit->fd, tail, TAIL, from) : -1;
    if (length <= 0 || tail[length - 1] == '\n')
        return;
    const char *newline = memrchr(tail, '\n', (size_t)length);
    int64_t size = newline ? from + (newline - tail) + 1 : from;
    if (ftruncate(audit->fd, size) == 0)
        audit->size = size;
}

static int audit_map(struct audit *audit)
{
    const int how = O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
    const off_t size = (off_t)AUDIT_SLOTS * sizeof(struct audit_slot);
    scope_fd fd = openat(audit->directory_fd, "underway", how, 0600);
    if (fd < 0)
        return -errno;
    int status = -posix_fallocate(fd, 0, size); /* a full disk now, not as SIGBUS later */
    if (status < 0)
        return status;
    if (ftruncate(fd, size) < 0)
        return -errno;
    void *map = mmap(NULL, (size_t)size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED)
        return -errno;
    audit->slots = map;
    return 0;
}

int audit_open(int data_fd, struct audit **ret, int *ret_lost, struct error *err)
{
    _Static_assert(sizeof(struct audit_slot) == AUDIT_SLOT_SIZE, "the file's layout");
    struct audit *audit = calloc(1, sizeof *audit);
    if (!audit)
        return error_host(err, -ENOMEM, "the audit log");
    pthread_mutex_init(&audit->lock, NULL);
    audit->fd = -1;
    audit->file_max = AUDIT_FILE_MAX;
    int status = mkdirat(data_fd, "audit", 0700) < 0 && errno != EEXIST ? -errno : 0;
    audit->directory_fd = openat(data_fd, "audit", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (status == 0 && audit->directory_fd < 0)
        status = -errno;
    if (status == 0)
        status = audit_open_file(audit);
    if (status == 0)
        status = audit_map(audit);
    if (status < 0) {
        audit_close(audit);
        return error_host(err, status, "opening the audit log");
    }
    audit_mend(audit);
    audit_recover(audit, ret_lost);
    *ret = audit;
    return 0;
}

void audit_close(struct audit *audit)
{
    if (!audit)
        return;
    if (audit->slots)
        munmap(audit->slots, (size_t)AUDIT_SLOTS * sizeof *audit->slots);
    if (audit->fd >= 0)
        close(audit->fd);
    if (audit->directory_fd >= 0)
        close(audit->directory_fd);
    pthread_mutex_destroy(&audit->lock);
    free(audit);
}

void audit_set_file_max(struct audit *audit, int64_t bytes)
{
    audit->file_max = bytes;
}
