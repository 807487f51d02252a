#include "base/identifier.h"
#include "server/sandbox_journal.h"

#include "base/file.h"
#include "base/scope.h"
#include "base/base64.h"
#include "server/server.h"
#include "server/tenant.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define NAME     "sandboxes"
#define NAME_NEW "sandboxes.new"

enum { FILE_MAX = 256 << 20, REMEMBER_MS = 24 * 3600 * 1000 };

struct entry {
    char id[IDENTIFIER_SIZE];
    char tenant[sizeof((struct tenant *)0)->name];
    int64_t expires_ms;
    bool is_lost; /* of an earlier start already; then expires_ms is when it was found to be */
};

/* Read once, before any thread: no lock. */
struct sandbox_journal {
    int fd;
    struct entry *lost; /* sorted by id */
    size_t count;
};

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static int by_id(const void *one, const void *other)
{
    return strcmp(((const struct entry *)one)->id, ((const struct entry *)other)->id);
}

struct reading {
    struct entry *entries;
    size_t count, room;
};

static struct entry *find(const struct reading *reading, const char *id)
{
    for (size_t i = reading->count; i > 0; i--) /* the last ones are likeliest */
        if (strcmp(reading->entries[i - 1].id, id) == 0)
            return &reading->entries[i - 1];
    return NULL;
}

static int add(struct reading *reading, const struct entry *entry)
{
    if (reading->count == reading->room) {
        size_t room = reading->room ? reading->room * 2 : 64;
        struct entry *grown = reallocarray(reading->entries, room, sizeof *grown);
        if (!grown)
            return -ENOMEM;
        reading->entries = grown;
        reading->room = room;
    }
    reading->entries[reading->count++] = *entry;
    return 0;
}

/* A line that is cut, by a full disk or a crash, is passed over. */
static int take_line(struct reading *reading, const char *line)
{
    struct entry entry = {0};
    long long when = 0;
    char kind = line[0];
    _Static_assert(sizeof entry.id == 32 && sizeof entry.tenant == 64, "the widths below");
    int fields = sscanf(line + 1, " %31s %lld %63s", entry.id, &when, entry.tenant);
    struct entry *known = (kind == '-' || kind == '~') && fields > 0 ? find(reading, entry.id) : NULL;
    entry.expires_ms = when;
    entry.is_lost = kind == '!';
    if ((kind == '+' || kind == '!') && fields == 3)
        return add(reading, &entry);
    if (kind == '-' && known)
        *known = reading->entries[--reading->count];
    else if (kind == '~' && fields >= 2 && known)
        known->expires_ms = when;
    return 0;
}

static int read_all(int data_fd, struct reading *ret)
{
    scope_buffer text = {0};
    int status = file_read_whole(data_fd, NAME, FILE_MAX, &text);
    if (status == -ENOENT)
        return 0;
    char *rest = NULL;
    for (char *line = status == 0 && text.data ? strtok_r(text.data, "\n", &rest) : NULL; line && status == 0;
         line = strtok_r(NULL, "\n", &rest))
        status = take_line(ret, line);
    return status;
}

/* Only what was alive when the last server went is lost; what it outlived by its time is nobody's business.
 */
static void keep_lost(struct reading *reading)
{
    int64_t now = now_ms();
    size_t kept = 0;
    for (size_t i = 0; i < reading->count; i++) {
        struct entry entry = reading->entries[i];
        if (entry.is_lost ? now - entry.expires_ms > REMEMBER_MS : entry.expires_ms < now)
            continue;
        if (!entry.is_lost)
            entry.expires_ms = now;
        entry.is_lost = true;
        reading->entries[kept++] = entry;
    }
    reading->count = kept;
    if (kept)
        qsort(reading->entries, kept, sizeof *reading->entries, by_id);
}

/* In one step: a crash leaves the old one or the new one. Returns its descriptor. */
static int write_anew(int data_fd, const struct reading *reading)
{
    scope_buffer text = {0};
    scope_fd fd =
        openat(data_fd, NAME_NEW, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
    int status = fd < 0 ? -errno : 0;
    for (size_t i = 0; status == 0 && i < reading->count; i++) {
        const struct entry *entry = &reading->entries[i];
        status =
            buffer_print(&text, "! %s %lld %s\n", entry->id, (long long)entry->expires_ms, entry->tenant);
    }
    if (status == 0 && text.length)
        status = file_write_all(fd, text.data, text.length);
    if (status == 0 && (fdatasync(fd) < 0 || renameat(data_fd, NAME_NEW, data_fd, NAME) < 0))
        status = -errno;
    return status < 0 ? status : take_fd(&fd);
}

int sandbox_journal_open(struct server *server, struct error *err)
{
    struct reading reading = {0};
    struct sandbox_journal *journal = calloc(1, sizeof *journal);
    int status = journal ? read_all(server->data_fd, &reading) : -ENOMEM;
    if (status == 0) {
        keep_lost(&reading);
        status = journal->fd = write_anew(server->data_fd, &reading);
    }
    if (status < 0) {
        free(reading.entries);
        free(journal);
        return error_host(err, status, "cannot keep the list of sandboxes in the data directory");
    }
    journal->lost = reading.entries;
    journal->count = reading.count;
    server->sandboxes = journal;
    return 0;
}

void sandbox_journal_close(struct server *server)
{
    if (!server->sandboxes)
        return;
    close(server->sandboxes->fd);
    free(server->sandboxes->lost);
    free(server->sandboxes);
    server->sandboxes = NULL;
}

static int append(struct server *server, const char *line, int length)
{
    ssize_t written = write(server->sandboxes->fd, line, (size_t)length); /* O_APPEND: lines stay whole */
    return written == length ? 0 : written < 0 ? -errno : -ENOSPC;
}

int sandbox_journal_add(struct server *server, const char *tenant, const char *id, int64_t expires_ms)
{
    char line[160];
    return append(server, line,
                  snprintf(line, sizeof line, "+ %.31s %lld %.63s\n", id, (long long)expires_ms, tenant));
}

void sandbox_journal_extend(struct server *server, const char *id, int64_t expires_ms)
{
    char line[96];
    append(server, line, snprintf(line, sizeof line, "~ %.31s %lld\n", id, (long long)expires_ms));
}

void sandbox_journal_remove(struct server *server, const char *id)
{
    char line[64];
    append(server, line, snprintf(line, sizeof line, "- %.31s\n", id));
}

json_t *sandbox_journal_list_lost(struct server *server, const char *tenant, size_t from, size_t limit,
                                  size_t *ret_next)
{
    const struct sandbox_journal *journal = server->sandboxes;
    json_t *list = json_array();
    *ret_next = 0;
    for (size_t i = from ? from - 1 : 0; i < journal->count && !*ret_next; i++) {
        if (strcmp(journal->lost[i].tenant, tenant) != 0)
            continue;
        if (json_array_size(list) == limit)
            *ret_next = i + 1;
        else
            json_array_append_new(list, json_pack("{s:s, s:I}", "id", journal->lost[i].id, "lost_ms",
                                                  (json_int_t)journal->lost[i].expires_ms));
    }
    return list;
}

bool sandbox_journal_lost(struct server *server, const char *tenant, const char *id)
{
    const struct sandbox_journal *journal = server->sandboxes;
    struct entry wanted = {0};
    if (!journal->count || strlen(id) >= sizeof wanted.id)
        return false;
    memcpy(wanted.id, id, strlen(id));
    const struct entry *found = bsearch(&wanted, journal->lost, journal->count, sizeof wanted, by_id);
    return found && strcmp(found->tenant, tenant) == 0;
}
