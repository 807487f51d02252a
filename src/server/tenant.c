#include "server/tenant.h"

#include "base/clock.h"
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct bucket {
    double level;
    int64_t at_us; /* 0: never looked at, so full */
};

struct tenant_usage {
    pthread_mutex_t lock;
    struct quotas quotas; /* none unset */
    int64_t used[QUOTA_FIELDS];
    int64_t elsewhere[QUOTA_FIELDS]; /* as the keeper told it last */
    int64_t boxes_released;          /* how often */
    struct bucket buckets[QUOTA_FIELDS];
};

/* Seconds in which a bucket fills; 0: a level. */
static const int quota_period_s[QUOTA_FIELDS] = {[QUOTA_runs_minute] = 60, [QUOTA_cpu_hour] = 3600};

/* ---- claims ---- */

static void bucket_fill(struct bucket *bucket, int64_t most, int period_s)
{
    int64_t now_us = clock_monotonic_us();
    if (!bucket->at_us)
        bucket->level = (double)most;
    else
        bucket->level += (double)most / period_s * (double)(now_us - bucket->at_us) / 1e6;
    if (bucket->level > (double)most)
        bucket->level = (double)most;
    bucket->at_us = now_us;
}

static bool refuse_quota(struct refusal *ret, enum quota_field field, int64_t limit, int64_t wait_ms)
{
    char text[32];
    *ret = (struct refusal){
        .status = 429, .code = "quota", .field = quota_rows[field].name, .retry_after_ms = wait_ms};
    snprintf(ret->message, sizeof ret->message, "the quota of %s is used up: %s", quota_rows[field].help,
             quota_format(field, limit, text, sizeof text));
    snprintf(ret->hint, sizeof ret->hint, "try again later, or ask the operator for more (--%s)",
             quota_rows[field].option);
    return false;
}

/* More than the quota would be if nothing else were there: no waiting helps. */
static bool refuse_for_good(struct refusal *ret, enum quota_field field, int64_t limit, int64_t amount)
{
    char text[32], asked[32];
    *ret = (struct refusal){.status = 422, .code = "unprocessable", .field = quota_rows[field].name};
    if (field == QUOTA_uploads) {
        ret->status = 413;
        ret->code = "too_large";
    }
    snprintf(ret->message, sizeof ret->message, "%s is more than the quota of %s: %s",
             quota_format(field, amount, asked, sizeof asked), quota_rows[field].help,
             quota_format(field, limit, text, sizeof text));
    snprintf(ret->hint, sizeof ret->hint, "ask for less, or ask the operator for more (--%s)",
             quota_rows[field].option);
    return false;
}

static bool check_rate(struct tenant_usage *usage, enum quota_field field, int64_t amount, bool is_run,
                       struct refusal *ret)
{
    int64_t limit = usage->quotas.value[field];
    struct bucket *bucket = &usage->buckets[field];
    bucket_fill(bucket, limit, quota_period_s[field]);
    /* The least that must be there: the tokens, or any CPU time at all. */
    double need = field == QUOTA_cpu_hour ? (is_run ? 1 : 0) : (double)amount;
    if (need == 0 || bucket->level >= need)
        return true;
    double wait_s =
        limit ? (need - bucket->level) * quota_period_s[field] / (double)limit : quota_period_s[field];
    return refuse_quota(ret, field, limit, (int64_t)ceil(wait_s * 1000));
}

static bool check_level(const struct tenant_usage *usage, enum quota_field field, int64_t amount,
                        struct refusal *ret)
{
    enum { RETRY_MS = 1000 }; /* when something of the tenant's ends, nobody knows */
    int64_t limit = usage->quotas.value[field];
    if (amount == 0)
        return true;
    if (amount > limit)
        return refuse_for_good(ret, field, limit, amount);
    return usage->used[field] + usage->elsewhere[field] <= limit - amount ||
           refuse_quota(ret, field, limit, RETRY_MS);
}

/* Less than nothing would make room that is not there, and so would a sum that overflows. */
static bool check_sense(const struct tenant_usage *usage, enum quota_field field, int64_t amount,
                        struct refusal *ret)
{
    int64_t sum;
    if (amount >= 0 && !__builtin_add_overflow(usage->used[field], amount, &sum))
        return true;
    *ret = (struct refusal){.status = 422, .code = "unprocessable", .field = quota_rows[field].name};
    snprintf(ret->message, sizeof ret->message, "%s: there cannot be so many", quota_rows[field].help);
    return false;
}

static bool claim_locked(struct tenant_usage *usage, const struct tenant_claim *claim, struct refusal *ret)
{
    bool fits = true, is_run = claim->amount[QUOTA_runs] > 0;
    for (int i = 0; fits && i < QUOTA_FIELDS; i++) {
        fits = check_sense(usage, (enum quota_field)i, claim->amount[i], ret);
        if (!fits || usage->quotas.value[i] == QUOTA_NONE)
            continue;
        fits = quota_period_s[i] ? check_rate(usage, (enum quota_field)i, claim->amount[i], is_run, ret)
                                 : check_level(usage, (enum quota_field)i, claim->amount[i], ret);
    }
    for (int i = 0; fits && i < QUOTA_FIELDS; i++) {
        if (quota_period_s[i])
            usage->buckets[i].level -= (double)claim->amount[i];
        else
            usage->used[i] += claim->amount[i];
    }
    return fits;
}

bool tenant_claim(const struct tenant *tenant, const struct tenant_claim *claim, struct refusal *ret)
{
    pthread_mutex_lock(&tenant->usage->lock);
    bool fits = claim_locked(tenant->usage, claim, ret);
    pthread_mutex_unlock(&tenant->usage->lock);
    return fits;
}

void tenant_note_boxes(const struct tenant *tenant, const struct tenant_claim *there)
{
    pthread_mutex_lock(&tenant->usage->lock);
    memcpy(tenant->usage->elsewhere, there->amount, sizeof there->amount);
    pthread_mutex_unlock(&tenant->usage->lock);
}

int64_t tenant_boxes_number(const struct tenant *tenant)
{
    pthread_mutex_lock(&tenant->usage->lock);
    int64_t number = tenant->usage->boxes_released;
    pthread_mutex_unlock(&tenant->usage->lock);
    return number;
}

int tenant_claim_boxes(const struct tenant *tenant, int64_t number, const struct tenant_claim *there,
                       const struct tenant_claim *claim, struct refusal *ret)
{
    struct tenant_usage *usage = tenant->usage;
    int status = -EAGAIN;
    pthread_mutex_lock(&usage->lock);
    if (usage->boxes_released == number) {
        memcpy(usage->elsewhere, there->amount, sizeof there->amount);
        status = claim_locked(usage, claim, ret) ? 0 : -EBUSY;
    }
    pthread_mutex_unlock(&usage->lock);
    return status;
}

void tenant_release(const struct tenant *tenant, const struct tenant_claim *claim, bool refund)
{
    struct tenant_usage *usage = tenant->usage;
    pthread_mutex_lock(&usage->lock);
    usage->boxes_released += claim->amount[QUOTA_boxes] > 0;
    for (int i = 0; i < QUOTA_FIELDS; i++) {
        if (!quota_period_s[i])
            usage->used[i] -= claim->amount[i];
        else if (refund)
            usage->buckets[i].level += (double)claim->amount[i];
    }
    pthread_mutex_unlock(&usage->lock);
}

void tenant_adjust(const struct tenant *tenant, enum quota_field field, int64_t amount)
{
    pthread_mutex_lock(&tenant->usage->lock);
    tenant->usage->used[field] += amount;
    pthread_mutex_unlock(&tenant->usage->lock);
}

void tenant_charge_cpu(const struct tenant *tenant, int64_t cpu_us)
{
    struct tenant_usage *usage = tenant->usage;
    pthread_mutex_lock(&usage->lock);
    usage->buckets[QUOTA_cpu_hour].level -= (double)cpu_us / 1000;
    pthread_mutex_unlock(&usage->lock);
}

int64_t tenant_quota(const struct tenant *tenant, enum quota_field field, int64_t *ret_used)
{
    pthread_mutex_lock(&tenant->usage->lock);
    int64_t limit = tenant->usage->quotas.value[field];
    *ret_used = tenant->usage->used[field];
    pthread_mutex_unlock(&tenant->usage->lock);
    return limit;
}

json_t *tenant_to_json(const struct tenant *tenant)
{
    struct tenant_usage *usage = tenant->usage;
    json_t *quotas = json_object();
    pthread_mutex_lock(&usage->lock);
    for (int i = 0; i < QUOTA_FIELDS; i++) {
        int64_t limit = usage->quotas.value[i], used = usage->used[i];
        if (quota_period_s[i] && limit != QUOTA_NONE) {
            bucket_fill(&usage->buckets[i], limit, quota_period_s[i]);
            used = limit - (int64_t)usage->buckets[i].level;
        }
        json_object_set_new(quotas, quota_rows[i].name,
                            json_pack("{s:I,s:o}", "used", (json_int_t)used, "limit",
                                      limit == QUOTA_NONE ? json_null() : json_integer(limit)));
    }
    pthread_mutex_unlock(&usage->lock);
    return json_pack("{s:s,s:o}", "name", tenant->name, "quotas", quotas);
}

/* ---- the book ---- */

struct tenant_entry {
    struct tenant tenant;
    struct tenant_usage usage;
    struct metrics metrics;
    struct tenant_entry *next;
};

struct tenants {
    pthread_mutex_t lock;
    int data_fd;
    bool single;
    struct key_file file;
    struct stat version; /* of the file that was read last */
    struct tenant_entry *entries;
};

static struct tenant_entry *book_entry(struct tenants *book, const char *name)
{
    for (struct tenant_entry *entry = book->entries; entry; entry = entry->next)
        if (strcmp(entry->tenant.name, name) == 0)
            return entry;
    struct tenant_entry *entry = calloc(1, sizeof *entry);
    if (!entry)
        return NULL;
    snprintf(entry->tenant.name, sizeof entry->tenant.name, "%s", name);
    entry->tenant.usage = &entry->usage;
    entry->tenant.metrics = &entry->metrics;
    pthread_mutex_init(&entry->usage.lock, NULL);
    quotas_default(&entry->usage.quotas);
    entry->next = book->entries;
    book->entries = entry;
    return entry;
}

static int book_apply(struct tenants *book, struct error *err)
{
    for (size_t i = 0; i < book->file.tenant_count; i++) {
        struct tenant_entry *entry = book_entry(book, book->file.tenants[i].name);
        if (!entry)
            return error_host(err, -ENOMEM, "tenants");
        pthread_mutex_lock(&entry->usage.lock);
        for (int field = 0; field < QUOTA_FIELDS; field++)
            entry->usage.quotas.value[field] =
                quotas_get(&book->file.tenants[i].quotas, (enum quota_field)field);
        pthread_mutex_unlock(&entry->usage.lock);
    }
    return 0;
}

/* A file that cannot be read leaves what was read before: the operator's next edit mends it. */
static int book_read(struct tenants *book, struct error *err)
{
    struct key_file file;
    struct stat version;
    int status = keys_load(book->data_fd, &file, &version, err);
    if (status < 0)
        return status;
    keys_free(&book->file);
    book->file = file;
    book->version = version;
    return book_apply(book, err);
}

/* One stat a request is a microsecond, and a key that is removed is refused from the next request on. */
static void book_refresh(struct tenants *book)
{
    struct stat now = {0};
    if (fstatat(book->data_fd, "keys", &now, AT_SYMLINK_NOFOLLOW) < 0)
        now = (struct stat){0};
    if (file_is_same_version(&now, &book->version))
        return;
    struct error err = {0};
    if (book_read(book, &err) < 0) {
        fprintf(stderr, "cloche-server: %s; the keys from before stay\n", err.text);
        book->version = now; /* said once */
    }
    if (book->file.key_count)
        book->single = false;
}

int tenants_open(int data_fd, bool may_be_single, struct tenants **ret, struct error *err)
{
    struct tenants *book = calloc(1, sizeof *book);
    if (!book)
        return error_host(err, -ENOMEM, "tenants");
    pthread_mutex_init(&book->lock, NULL);
    book->data_fd = data_fd;
    int status = book_read(book, err);
    if (status < 0) {
        tenants_close(book);
        return status;
    }
    book->single = may_be_single && book->file.key_count == 0;
    if (book->single) {
        struct tenant_entry *local = book_entry(book, "local");
        if (local)
            quotas_none(&local->usage.quotas);
    }
    *ret = book;
    return 0;
}

void tenants_close(struct tenants *book)
{
    if (!book)
        return;
    for (struct tenant_entry *entry = book->entries, *next; entry; entry = next) {
        next = entry->next;
        pthread_mutex_destroy(&entry->usage.lock);
        free(entry);
    }
    keys_free(&book->file);
    pthread_mutex_destroy(&book->lock);
    free(book);
}

bool tenants_is_single_user(struct tenants *book)
{
    pthread_mutex_lock(&book->lock);
    book_refresh(book);
    bool single = book->single;
    pthread_mutex_unlock(&book->lock);
    return single;
}

const struct tenant *tenants_find(struct tenants *book, const char *key, char ret_key_id[KEY_ID_SIZE],
                                  bool *ret_is_operator)
{
    struct tenant_entry *entry = NULL;
    ret_key_id[0] = '\0';
    pthread_mutex_lock(&book->lock);
    book_refresh(book);
    const struct key *found = key && !book->single ? keys_find(&book->file, key) : NULL;
    if (found)
        memcpy(ret_key_id, found->id, KEY_ID_SIZE);
    if (ret_is_operator)
        *ret_is_operator = book->single || (found && found->is_operator);
    if (found || book->single)
        entry = book_entry(book, book->single ? "local" : found->tenant);
    pthread_mutex_unlock(&book->lock);
    return entry ? &entry->tenant : NULL;
}

const struct tenant *tenants_name(struct tenants *book, const char *name)
{
    pthread_mutex_lock(&book->lock);
    struct tenant_entry *entry = book_entry(book, name);
    pthread_mutex_unlock(&book->lock);
    return entry ? &entry->tenant : NULL;
}
