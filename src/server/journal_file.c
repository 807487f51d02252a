/* The journal's lines: written, read at the start, written anew without those that no longer count.
 *
 *   {"event":"accepted","at":SECONDS,"tenant":NAME,"key":HASH,"hash":HASH}
 *   {"event":"outcome","key":HASH,"status":200,"type":TEXT,"bytes":N,"body":TEXT}     no body: it was too
 * long
 *   {"event":"released","key":HASH} */
#include "server/journal_inside.h"

#include "base/file.h"
#include "base/json_text.h"
#include "base/scope.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static const char journal_name[] = "journal", journal_name_new[] = ".journal.new";

/* ---- writing ---- */

/* Takes the object. A line that was written in part is taken back: the next one must start a line. */
static int journal_append(struct journal *journal, json_t *object, size_t *ret_length, struct error *err)
{
    char *text = object ? json_text(object, JSON_COMPACT) : NULL;
    json_decref(object);
    if (!text)
        return error_host(err, -ENOMEM, "the journal");
    size_t length = strlen(text);
    text[length++] = '\n'; /* in the place of the NUL */
    int status = file_write_all(journal->fd, text, length);
    free(text);
    if (status < 0) {
        if (ftruncate(journal->fd, journal->size) < 0)
            fprintf(stderr, "cloche-server: the journal has a torn line: %m\n");
        return error_host(err, status, "writing the journal");
    }
    journal->size += (int64_t)length;
    journal->written += (int64_t)length;
    *ret_length = length;
    return 0;
}

static json_t *accepted_to_json(const struct journal_entry *entry)
{
    return json_pack("{s:s,s:I,s:s,s:s,s:s}", "event", "accepted", "at", (json_int_t)entry->at_s, "tenant",
                     entry->owner->name, "key", entry->id, "hash", entry->hash);
}

int journal_write_accepted(struct journal *journal, struct journal_entry *entry, int64_t *ret_written,
                           struct error *err)
{
    int status = journal_append(journal, accepted_to_json(entry), &entry->accepted, err);
    if (status == 0)
        journal->useful += (int64_t)entry->accepted;
    *ret_written = journal->written;
    return status;
}

int journal_write_outcome(struct journal *journal, struct journal_entry *entry,
                          const struct journal_outcome *outcome, int64_t *ret_written, struct error *err)
{
    const struct buffer *body = &outcome->body;
    json_t *object = json_pack("{s:s,s:s,s:i,s:s,s:I}", "event", "outcome", "key", entry->id, "status",
                               outcome->status, "type", outcome->type, "bytes",
                               (json_int_t)(outcome->kept ? (int64_t)body->length : outcome->body_bytes));
    bool is_kept = outcome->kept && body->length <= JOURNAL_BODY_MAX &&
                   text_is_utf8(body->data, body->length) &&
                   entry->owner->body_bytes + (int64_t)body->length <= JOURNAL_BYTES_MAX;
    if (object && is_kept &&
        json_object_set_new(object, "body", json_stringn(body->data ? body->data : "", body->length)) < 0) {
        json_decref(object);
        object = NULL;
    }
    off_t place = journal->size;
    int status = journal_append(journal, object, &entry->length, err);
    *ret_written = journal->written;
    if (status < 0) { /* done all the same: it must not run again while we live */
        entry->done = true;
        entry->length = 0;
        return status;
    }
    entry->place = place;
    entry->done = true;
    entry->owner->body_bytes += (int64_t)entry->length;
    journal->useful += (int64_t)entry->length;
    return 0;
}

void journal_write_released(struct journal *journal, const struct journal_entry *entry)
{
    size_t length;
    struct error err = {0};
    json_t *object = json_pack("{s:s,s:s}", "event", "released", "key", entry->id);
    if (journal_append(journal, object, &length, &err) < 0)
        fprintf(stderr, "cloche-server: %s\n", err.text);
}

int journal_sync(struct journal *journal, int64_t written, struct error *err)
{
    int status = 0;
    pthread_mutex_lock(&journal->sync_lock);
    if (journal->synced < written) {
        pthread_mutex_lock(&journal->lock);
        int64_t covered = journal->written;
        pthread_mutex_unlock(&journal->lock);
        if (fdatasync(journal->fd) < 0)
            status = error_host(err, -errno, "syncing the journal");
        else
            journal->synced = covered;
    }
    pthread_mutex_unlock(&journal->sync_lock);
    return status;
}

/* ---- reading ---- */

static int read_line(int fd, off_t place, size_t length, char **ret)
{
    char *line = malloc(length + 1);
    if (!line)
        return -ENOMEM;
    for (size_t at = 0; at < length;) {
        ssize_t got = pread(fd, line + at, length - at, place + (off_t)at);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0) {
            free(line);
            return got < 0 ? -errno : -EIO;
        }
        at += (size_t)got;
    }
    line[length] = '\0';
    *ret = line;
    return 0;
}

int journal_read_outcome(struct journal *journal, const struct journal_entry *entry,
                         struct journal_outcome *ret, struct error *err)
{
    *ret = (struct journal_outcome){0};
    if (!entry->length)
        return error_host(err, -EIO, "the outcome could not be written down");
    scope_free char *line = NULL;
    int status = read_line(journal->fd, entry->place, entry->length, &line);
    if (status < 0)
        return error_host(err, status, "reading the journal");
    json_t *object = json_loadb(line, entry->length, JSON_ALLOW_NUL, NULL),
           *body = json_object_get(object, "body");
    const char *type = json_string_value(json_object_get(object, "type"));
    ret->status = (int)json_integer_value(json_object_get(object, "status"));
    ret->body_bytes = json_integer_value(json_object_get(object, "bytes"));
    ret->kept = json_is_string(body);
    snprintf(ret->type, sizeof ret->type, "%s", type ? type : "");
    status = ret->kept ? buffer_append(&ret->body, json_string_value(body), json_string_length(body)) : 0;
    if (!object)
        status = -EIO;
    json_decref(object);
    return status < 0 ? error_host(err, status, "reading the journal") : 0;
}

static int take_accepted(struct journal *journal, json_t *object, const char *id, size_t length)
{
    const char *tenant = json_string_value(json_object_get(object, "tenant"));
    const char *hash = json_string_value(json_object_get(object, "hash"));
    if (!tenant || strlen(tenant) >= TENANT_NAME_SIZE || !hash)
        return 0;
    struct journal_entry *before = journal_find(journal, id);
    if (before) /* its day was over, or it could not be accepted again */
        journal_drop(journal, before);
    struct journal_entry *entry = journal_add(journal, id, tenant);
    if (!entry)
        return -ENOMEM;
    snprintf(entry->hash, sizeof entry->hash, "%s", hash);
    entry->at_s = json_integer_value(json_object_get(object, "at"));
    entry->accepted = length;
    journal->useful += (int64_t)length;
    return 0;
}

/* What is not understood is passed over: it counts for nothing, and goes when the file is written anew. */
static int take_line(struct journal *journal, const char *line, size_t length, off_t place)
{
    int status = 0;
    json_t *object = json_loadb(line, length, JSON_ALLOW_NUL, NULL);
    const char *event = json_string_value(json_object_get(object, "event"));
    const char *id = json_string_value(json_object_get(object, "key"));
    if (event && id && strlen(id) == JOURNAL_HASH_SIZE - 1) {
        struct journal_entry *entry = journal_find(journal, id);
        if (strcmp(event, "accepted") == 0) {
            status = take_accepted(journal, object, id, length);
        } else if (strcmp(event, "released") == 0 && entry && !entry->done) {
            journal_drop(journal, entry);
        } else if (strcmp(event, "outcome") == 0 && entry && !entry->done) {
            entry->done = true;
            entry->place = place;
            entry->length = length;
            entry->owner->body_bytes += (int64_t)length;
            journal->useful += (int64_t)length;
        }
    }
    json_decref(object);
    return status;
}

static int journal_load(struct journal *journal, struct error *err)
{
    int copy = fcntl(journal->fd, F_DUPFD_CLOEXEC, 0);
    scope_file *file = copy >= 0 ? fdopen(copy, "r") : NULL;
    if (!file) {
        int code = -errno;
        if (copy >= 0)
            close(copy);
        return error_host(err, code, "reading the journal");
    }
    scope_free char *line = NULL;
    size_t capacity = 0;
    off_t place = 0;
    for (ssize_t length; (length = getline(&line, &capacity, file)) > 0; place += length) {
        if (line[length - 1] != '\n')
            break; /* torn: its writer died */
        if (take_line(journal, line, (size_t)length, place) < 0)
            return error_host(err, -ENOMEM, "reading the journal");
    }
    if (ferror(file))
        return error_host(err, -EIO, "reading the journal");
    if (ftruncate(journal->fd, place) < 0)
        return error_host(err, -errno, "cutting the journal");
    journal->size = place;
    return 0;
}

int journal_file_open(struct journal *journal, struct error *err)
{
    const int how = O_RDWR | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
    journal->fd = openat(journal->data_fd, journal_name, how, 0600);
    struct stat status;
    if (journal->fd < 0 || fstat(journal->fd, &status) < 0 || !S_ISREG(status.st_mode))
        return error_host(err, journal->fd < 0 ? -errno : -EINVAL, "opening the journal");
    if (flock(journal->fd, LOCK_EX | LOCK_NB) < 0)
        return error_host(err, -errno, "another server has this data directory");
    return journal_load(journal, err);
}

/* ---- a new file ---- */

static int copy_line(struct journal *journal, int fd, struct journal_entry *entry, off_t *place)
{
    char *text = NULL;
    json_t *object = accepted_to_json(entry);
    text = object ? json_text(object, JSON_COMPACT) : NULL;
    json_decref(object);
    if (!text)
        return -ENOMEM;
    size_t accepted = strlen(text);
    text[accepted++] = '\n';
    int status = file_write_all(fd, text, accepted);
    free(text);
    scope_free char *line = NULL;
    if (status == 0 && entry->length)
        status = read_line(journal->fd, entry->place, entry->length, &line);
    if (status == 0 && line)
        status = file_write_all(fd, line, entry->length);
    *place += (off_t)(accepted + entry->length);
    return status;
}

/* The same walk as when it was written gives the new places. */
static void take_new_places(struct journal *journal)
{
    off_t place = 0;
    for (size_t i = 0; i < JOURNAL_BUCKETS; i++)
        for (struct journal_entry *entry = journal->buckets[i]; entry; entry = entry->next) {
            json_t *object = accepted_to_json(entry);
            entry->accepted = json_dumpb(object, NULL, 0, JSON_COMPACT) + 1;
            json_decref(object);
            entry->place = place + (off_t)entry->accepted;
            place = entry->place + (off_t)entry->length;
        }
    journal->size = journal->useful = place;
}

int journal_rewrite(struct journal *journal, struct error *err)
{
    unlinkat(journal->data_fd, journal_name_new, 0);
    const int how = O_RDWR | O_APPEND | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
    scope_fd fd = openat(journal->data_fd, journal_name_new, how, 0600);
    if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0)
        return error_host(err, -errno, "a new journal");
    off_t place = 0;
    int status = 0;
    for (size_t i = 0; i < JOURNAL_BUCKETS; i++)
        for (struct journal_entry *entry = journal->buckets[i]; status == 0 && entry; entry = entry->next)
            status = copy_line(journal, fd, entry, &place);
    if (status == 0 && (fdatasync(fd) < 0 ||
                        renameat(journal->data_fd, journal_name_new, journal->data_fd, journal_name) < 0))
        status = -errno;
    if (status < 0) {
        unlinkat(journal->data_fd, journal_name_new, 0);
        return error_host(err, status, "a new journal");
    }
    scope_fd directory = openat(journal->data_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory >= 0)
        fsync(directory);
    close(journal->fd);
    journal->fd = take_fd(&fd);
    journal->synced = journal->written;
    take_new_places(journal);
    return 0;
}
