#include "server/keys.h"

#include "base/bytes.h"
#include "base/file.h"
#include "base/json_text.h"
#include "base/scope.h"
#include "base/sha256.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

enum { KEYS_FILE_MAX = 8 << 20 };

static const char keys_name[] = "keys", keys_name_new[] = ".keys.new";

/* ---- making and finding ---- */

int keys_random(char *into, size_t count, struct error *err)
{
    static const char alphabet[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    unsigned char bytes[64];
    for (size_t filled = 0; filled < count;) {
        if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes)
            return error_host(err, -errno, "random numbers");
        for (size_t i = 0; i < sizeof bytes && filled < count; i++)
            if (bytes[i] < 62 * 4) /* what is above would make the first characters likelier */
                into[filled++] = alphabet[bytes[i] % 62];
    }
    into[count] = '\0';
    explicit_bzero(bytes, sizeof bytes);
    return 0;
}

static bool keys_hash(const char *text, char ret_hex[65])
{
    struct sha256 *hash = sha256_new();
    if (!hash)
        return false;
    sha256_add(hash, text, strlen(text));
    sha256_finish(hash, ret_hex);
    return true;
}

/* All 64 digits are looked at, so the time says nothing of how many are right. */
static bool keys_same(const char *one, const char *other)
{
    volatile unsigned char differs = 0;
    for (size_t i = 0; i < 64; i++)
        differs |= (unsigned char)(one[i] ^ other[i]);
    return differs == 0;
}

const struct key *keys_find(const struct key_file *file, const char *text)
{
    char hash[65];
    if (strnlen(text, KEY_TEXT_SIZE) != KEY_TEXT_SIZE - 1 || !keys_hash(text, hash))
        return NULL;
    const struct key *found = NULL;
    for (size_t i = 0; i < file->key_count; i++)
        if (keys_same(file->keys[i].sha256, hash))
            found = &file->keys[i];
    return found;
}

/* It becomes the name of directories, too. */
static bool is_tenant_name(const char *text)
{
    return text_is_plain_name(text) && strlen(text) < TENANT_NAME_SIZE;
}

/* One more key, zeroed; NULL without memory. */
static struct key *keys_append(struct key_file *file)
{
    struct key *keys = realloc(file->keys, (file->key_count + 1) * sizeof *keys);
    if (!keys)
        return NULL;
    file->keys = keys;
    keys[file->key_count] = (struct key){0};
    return &keys[file->key_count++];
}

struct key_tenant *keys_tenant(struct key_file *file, const char *name)
{
    for (size_t i = 0; i < file->tenant_count; i++)
        if (strcmp(file->tenants[i].name, name) == 0)
            return &file->tenants[i];
    struct key_tenant *tenants = realloc(file->tenants, (file->tenant_count + 1) * sizeof *tenants);
    if (!tenants)
        return NULL;
    file->tenants = tenants;
    struct key_tenant *fresh = &tenants[file->tenant_count++];
    snprintf(fresh->name, sizeof fresh->name, "%s", name);
    quotas_unset(&fresh->quotas);
    return fresh;
}

int keys_add(struct key_file *file, const char *tenant, char ret_text[KEY_TEXT_SIZE],
             char ret_id[KEY_ID_SIZE], struct error *err)
{
    if (!is_tenant_name(tenant))
        return error_spec(err, "tenant",
                          "tenant: '%.64s' is no name: letters, digits, '-', '_' and '.', at most %d", tenant,
                          TENANT_NAME_SIZE - 1);
    struct key *key = keys_append(file);
    if (!key || !keys_tenant(file, tenant))
        return error_host(err, -ENOMEM, "a key");
    memcpy(key->id, "key_", 4);
    memcpy(ret_text, "cl_", 3);
    int status = keys_random(key->id + 4, KEY_ID_SIZE - 5, err);
    if (status == 0)
        status = keys_random(ret_text + 3, KEY_TEXT_SIZE - 4, err);
    if (status < 0)
        return status;
    if (!keys_hash(ret_text, key->sha256))
        return error_host(err, -ENOMEM, "a key");
    snprintf(key->tenant, sizeof key->tenant, "%s", tenant);
    key->created_s = time(NULL);
    memcpy(ret_id, key->id, KEY_ID_SIZE);
    return 0;
}

static bool keys_has_any(const struct key_file *file, const char *tenant)
{
    for (size_t i = 0; i < file->key_count; i++)
        if (strcmp(file->keys[i].tenant, tenant) == 0)
            return true;
    return false;
}

int keys_remove(struct key_file *file, const char *id, const char *tenant)
{
    size_t kept = 0, tenants = 0;
    for (size_t i = 0; i < file->key_count; i++) {
        const struct key *key = &file->keys[i];
        if ((id && strcmp(key->id, id) == 0) || (tenant && strcmp(key->tenant, tenant) == 0))
            continue;
        file->keys[kept++] = *key;
    }
    int removed = (int)(file->key_count - kept);
    file->key_count = kept;
    for (size_t i = 0; i < file->tenant_count; i++)
        if (keys_has_any(file, file->tenants[i].name))
            file->tenants[tenants++] = file->tenants[i];
    file->tenant_count = tenants;
    return removed;
}

void keys_free(struct key_file *file)
{
    free(file->keys);
    free(file->tenants);
    *file = (struct key_file){0};
}

/* ---- reading ---- */

static int keys_take_limits(struct key_file *file, const char *tenant, json_t *limits, size_t line,
                            struct error *err)
{
    struct key_tenant *entry = keys_tenant(file, tenant);
    if (!entry)
        return error_host(err, -ENOMEM, "the keys");
    const char *name;
    json_t *value;
    json_object_foreach(limits, name, value)
    {
        int field = quota_find(name);
        if (field < 0 || (!json_is_null(value) && (!json_is_integer(value) || json_integer_value(value) < 0)))
            return error_spec(err, "keys", "keys: line %zu: '%.32s' is no quota, or not a whole number", line,
                              name);
        entry->quotas.value[field] = json_is_null(value) ? QUOTA_NONE : json_integer_value(value);
    }
    return 0;
}

static int keys_take_key(struct key_file *file, const char *id, const char *tenant, json_t *object,
                         size_t line, struct error *err)
{
    const char *hash = json_string_value(json_object_get(object, "sha256"));
    if (strlen(id) >= KEY_ID_SIZE || !text_is_plain_name(id) || !hash || strlen(hash) != 64 ||
        strspn(hash, "0123456789abcdef") != 64)
        return error_spec(err, "keys", "keys: line %zu: a key needs an id and a sha256", line);
    struct key *key = keys_append(file);
    if (!key || !keys_tenant(file, tenant))
        return error_host(err, -ENOMEM, "the keys");
    snprintf(key->id, sizeof key->id, "%s", id);
    snprintf(key->tenant, sizeof key->tenant, "%s", tenant);
    memcpy(key->sha256, hash, sizeof key->sha256);
    key->created_s = json_integer_value(json_object_get(object, "created_at"));
    key->is_operator = json_is_true(json_object_get(object, "operator"));
    return 0;
}

static int keys_take_line(struct key_file *file, const char *text, size_t length, size_t line,
                          struct error *err)
{
    json_t *object = json_loadb(text, length, JSON_REJECT_DUPLICATES, NULL);
    const char *tenant = json_string_value(json_object_get(object, "tenant"));
    const char *id = json_string_value(json_object_get(object, "key"));
    json_t *limits = json_object_get(object, "limits");
    int status = 0;
    if (!tenant || !is_tenant_name(tenant) || (!id && !json_is_object(limits)))
        status = error_spec(err, "keys", "keys: line %zu is neither a key nor the limits of a tenant", line);
    else if (id)
        status = keys_take_key(file, id, tenant, object, line, err);
    else
        status = keys_take_limits(file, tenant, limits, line, err);
    json_decref(object);
    return status;
}

static int keys_read(int fd, struct buffer *ret, struct error *err)
{
    char chunk[16384];
    for (;;) {
        ssize_t length = read(fd, chunk, sizeof chunk);
        if (length == 0)
            return 0;
        if (length < 0 && errno == EINTR)
            continue;
        if (length < 0 || ret->length + (size_t)length > KEYS_FILE_MAX ||
            buffer_append(ret, chunk, (size_t)length) < 0)
            return error_host(err, length < 0 ? -errno : -EFBIG, "reading the keys");
    }
}

int keys_load(int data_fd, struct key_file *ret, struct stat *ret_status, struct error *err)
{
    *ret = (struct key_file){0};
    struct stat status = {0};
    if (ret_status)
        *ret_status = status;
    scope_fd fd = openat(data_fd, keys_name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT)
        return 0;
    if (fd < 0 || fstat(fd, &status) < 0 || !S_ISREG(status.st_mode))
        return error_host(err, fd < 0 ? -errno : -EINVAL, "opening the keys");
    if (ret_status)
        *ret_status = status;
    scope_buffer text = {0};
    int result = keys_read(fd, &text, err);
    size_t line = 1;
    for (size_t at = 0; result == 0 && at < text.length; line++) {
        const char *end = memchr(text.data + at, '\n', text.length - at);
        size_t length = end ? (size_t)(end - text.data) - at : text.length - at;
        if (length)
            result = keys_take_line(ret, text.data + at, length, line, err);
        at += length + 1;
    }
    if (result < 0)
        keys_free(ret);
    return result;
}

/* ---- writing ---- */

static int keys_print_tenant(struct buffer *text, const struct key_tenant *tenant)
{
    json_t *limits = json_object();
    for (int i = 0; i < QUOTA_FIELDS; i++) {
        int64_t value = tenant->quotas.value[i];
        if (value != QUOTA_UNSET)
            json_object_set_new(limits, quota_rows[i].name,
                                value == QUOTA_NONE ? json_null() : json_integer(value));
    }
    int status = 0;
    if (json_object_size(limits)) {
        char *encoded = json_text(limits, JSON_COMPACT);
        status = encoded ? buffer_print(text, "{\"tenant\":\"%s\",\"limits\":%s}\n", tenant->name, encoded)
                         : -ENOMEM;
        free(encoded);
    }
    json_decref(limits);
    return status;
}

/* The lines need no escapes: ids, names and hashes are plain by what keys_add and keys_take_line let in. */
static int keys_print(const struct key_file *file, struct buffer *text)
{
    int status = buffer_append(text, "", 0);
    for (size_t i = 0; status == 0 && i < file->tenant_count; i++)
        status = keys_print_tenant(text, &file->tenants[i]);
    for (size_t i = 0; status == 0 && i < file->key_count; i++) {
        const struct key *key = &file->keys[i];
        status =
            buffer_print(text, "{\"key\":\"%s\",\"tenant\":\"%s\",\"sha256\":\"%s\",\"created_at\":%lld%s}\n",
                         key->id, key->tenant, key->sha256, (long long)key->created_s,
                         key->is_operator ? ",\"operator\":true" : "");
    }
    return status;
}

int keys_lock(int data_fd, struct error *err)
{
    enum { TRIES = 100, STEP_US = 100000 };
    int fd = openat(data_fd, ".keys.lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
    int code = fd < 0 ? -errno : -EWOULDBLOCK;
    for (int i = 0; fd >= 0 && i < TRIES; i++) {
        if (flock(fd, LOCK_EX | LOCK_NB) == 0)
            return fd;
        code = -errno;
        usleep(STEP_US);
    }
    if (fd >= 0)
        close(fd);
    return error_host(err, code, "locking the keys");
}

int keys_save(int data_fd, const struct key_file *file, struct error *err)
{
    scope_buffer text = {0};
    if (keys_print(file, &text) < 0)
        return error_host(err, -ENOMEM, "the keys");
    unlinkat(data_fd, keys_name_new, 0); /* of an editor that was killed: the lock is ours */
    /* Hashes of random keys are no secret, and the server's user is another than the operator's. */
    scope_fd fd = openat(data_fd, keys_name_new, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0444);
    if (fd < 0)
        return error_host(err, -errno, "writing the keys");
    int status = file_write_all(fd, text.data, text.length);
    if (status == 0 &&
        (fchmod(fd, 0444) < 0 || fsync(fd) < 0 || renameat(data_fd, keys_name_new, data_fd, keys_name) < 0))
        status = -errno;
    if (status < 0) {
        unlinkat(data_fd, keys_name_new, 0);
        return error_host(err, status, "writing the keys");
    }
    scope_fd directory = openat(data_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory >= 0)
        fsync(directory);
    return 0;
}
