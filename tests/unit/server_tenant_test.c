#include "unit/harness.h"

#include "base/clock.h"
#include "server/tenant.h"

struct book {
    struct tenants *tenants;
    char key[KEY_TEXT_SIZE], id[KEY_ID_SIZE];
};

/* A file with one key of "acme", quotas as given (QUOTA_UNSET: default). */
static void make_key(struct scratch *scratch, const char *tenant, const struct quotas *quotas, char *ret_key,
                     char *ret_id)
{
    struct key_file file;
    struct error err = {0};
    assert_int_equal(keys_load(scratch->fd, &file, NULL, &err), 0);
    assert_int_equal(keys_add(&file, tenant, ret_key, ret_id, &err), 0);
    if (quotas)
        keys_tenant(&file, tenant)->quotas = *quotas;
    assert_int_equal(keys_save(scratch->fd, &file, &err), 0);
    keys_free(&file);
}

static const struct tenant *acme_with(struct scratch *scratch, struct book *book, enum quota_field field,
                                      int64_t value)
{
    struct quotas quotas;
    struct error err = {0};
    quotas_unset(&quotas);
    quotas.value[field] = value;
    make_key(scratch, "acme", &quotas, book->key, book->id);
    assert_int_equal(tenants_open(scratch->fd, true, &book->tenants, &err), 0);
    char id[KEY_ID_SIZE];
    const struct tenant *tenant = tenants_find(book->tenants, book->key, id, NULL);
    assert_non_null(tenant);
    return tenant;
}

static void without_keys_there_is_a_single_user_without_quotas(void **state)
{
    struct scratch *scratch = *state;
    struct tenants *tenants;
    struct error err = {0};
    char id[KEY_ID_SIZE];
    assert_int_equal(tenants_open(scratch->fd, true, &tenants, &err), 0);
    assert_true(tenants_is_single_user(tenants));
    const struct tenant *local = tenants_find(tenants, NULL, id, NULL);
    assert_non_null(local);
    assert_string_equal(local->name, "local");
    struct tenant_claim much = {.amount = {[QUOTA_boxes] = 1000000, [QUOTA_memory] = INT64_C(1) << 50}};
    struct refusal refusal;
    assert_true(tenant_claim(local, &much, &refusal));
    tenants_close(tenants);
}

static void the_first_key_ends_the_single_user_and_no_removal_brings_him_back(void **state)
{
    struct scratch *scratch = *state;
    struct tenants *tenants;
    struct error err = {0};
    char id[KEY_ID_SIZE], made[KEY_ID_SIZE], key[KEY_TEXT_SIZE];
    assert_int_equal(tenants_open(scratch->fd, true, &tenants, &err), 0);
    assert_non_null(tenants_find(tenants, NULL, id, NULL));
    make_key(scratch, "acme", NULL, key, made);
    assert_null(tenants_find(tenants, NULL, id, NULL));
    assert_false(tenants_is_single_user(tenants));
    assert_string_equal(tenants_find(tenants, key, id, NULL)->name, "acme");
    assert_string_equal(id, made);
    assert_int_equal(unlinkat(scratch->fd, "keys", 0), 0);
    assert_null(tenants_find(tenants, NULL, id, NULL));
    assert_null(tenants_find(tenants, key, id, NULL));
    tenants_close(tenants);
}

static void without_keys_nobody_is_let_in_where_there_is_no_single_user(void **state)
{
    struct scratch *scratch = *state;
    struct tenants *tenants;
    struct error err = {0};
    char id[KEY_ID_SIZE], made[KEY_ID_SIZE], key[KEY_TEXT_SIZE];
    assert_int_equal(tenants_open(scratch->fd, false, &tenants, &err), 0);
    assert_false(tenants_is_single_user(tenants));
    assert_null(tenants_find(tenants, NULL, id, NULL));
    make_key(scratch, "acme", NULL, key, made);
    assert_null(tenants_find(tenants, NULL, id, NULL));
    assert_string_equal(tenants_find(tenants, key, id, NULL)->name, "acme");
    tenants_close(tenants);
}

static void changes_of_the_file_are_seen_at_once(void **state)
{
    struct scratch *scratch = *state;
    struct book book;
    const struct tenant *acme = acme_with(scratch, &book, QUOTA_boxes, 1);
    char other[KEY_TEXT_SIZE], id[KEY_ID_SIZE], found[KEY_ID_SIZE];
    make_key(scratch, "other", NULL, other, id);
    assert_string_equal(tenants_find(book.tenants, other, found, NULL)->name, "other");
    assert_ptr_equal(tenants_find(book.tenants, book.key, found, NULL), acme);

    struct key_file file;
    struct error err = {0};
    assert_int_equal(keys_load(scratch->fd, &file, NULL, &err), 0);
    assert_int_equal(keys_remove(&file, book.id, NULL), 1);
    assert_int_equal(keys_save(scratch->fd, &file, &err), 0);
    keys_free(&file);
    assert_null(tenants_find(book.tenants, book.key, found, NULL));
    assert_non_null(tenants_find(book.tenants, other, found, NULL));

    /* A file that is broken leaves what was there. */
    unlinkat(scratch->fd, "keys", 0);
    scope_fd fd = openat(scratch->fd, "keys", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(file_write_all(fd, "{", 1), 0);
    assert_non_null(tenants_find(book.tenants, other, found, NULL));
    tenants_close(book.tenants);
}

static void levels_are_claimed_and_released(void **state)
{
    struct book book;
    const struct tenant *acme = acme_with(*state, &book, QUOTA_boxes, 2);
    struct tenant_claim box = {.amount = {[QUOTA_boxes] = 1}}, three = {.amount = {[QUOTA_boxes] = 3}};
    struct refusal refusal = {0};
    assert_true(tenant_claim(acme, &box, &refusal));
    assert_true(tenant_claim(acme, &box, &refusal));
    assert_false(tenant_claim(acme, &box, &refusal));
    assert_int_equal(refusal.status, 429);
    assert_string_equal(refusal.code, "quota");
    assert_string_equal(refusal.field, "boxes");
    assert_true(refusal_retry_after_s(&refusal) >= 1);
    assert_non_null(strstr(refusal.message, "boxes of live sandboxes"));
    tenant_release(acme, &box, false);
    assert_true(tenant_claim(acme, &box, &refusal));
    assert_false(tenant_claim(acme, &three, &refusal));
    assert_int_equal(refusal.status, 422);
    tenant_release(acme, &box, false);
    tenant_note_boxes(acme, &box); /* beside the one that is claimed */
    assert_false(tenant_claim(acme, &box, &refusal));
    assert_int_equal(refusal.status, 429);
    tenants_close(book.tenants);
}

static void a_box_that_the_keeper_counts_meanwhile_is_asked_for_again(void **state)
{
    struct book book;
    const struct tenant *acme = acme_with(*state, &book, QUOTA_boxes, 1);
    const struct tenant_claim box = {.amount = {[QUOTA_boxes] = 1}}, none = {{0}};
    struct refusal refusal = {0};
    int64_t early = tenant_boxes_number(acme); /* asked, and answered: there is none */
    assert_int_equal(tenant_claim_boxes(acme, early, &none, &box, &refusal), 0);
    assert_int_equal(tenant_claim_boxes(acme, early, &none, &box, &refusal), -EBUSY);
    tenant_release(acme, &box, true); /* it is made: the answer from before is not true any more */
    assert_int_equal(tenant_claim_boxes(acme, early, &none, &box, &refusal), -EAGAIN);
    assert_int_equal(tenant_claim_boxes(acme, tenant_boxes_number(acme), &box, &box, &refusal), -EBUSY);
    tenants_close(book.tenants);
}

static void less_than_nothing_cannot_be_claimed(void **state)
{
    struct book book;
    const struct tenant *acme = acme_with(*state, &book, QUOTA_boxes, 2);
    struct tenant_claim less = {.amount = {[QUOTA_boxes] = -1000}}, runs = {.amount = {[QUOTA_runs] = -1}};
    struct tenant_claim all = {.amount = {[QUOTA_memory] = INT64_MAX}};
    struct refusal refusal = {0};
    assert_false(tenant_claim(acme, &less, &refusal));
    assert_int_equal(refusal.status, 422);
    assert_string_equal(refusal.field, "boxes");
    assert_false(tenant_claim(acme, &runs, &refusal));
    int64_t used;
    tenant_quota(acme, QUOTA_boxes, &used);
    assert_int_equal(used, 0);

    struct quotas none;
    quotas_none(&none);
    make_key(*state, "acme", &none, book.key, book.id);
    assert_ptr_equal(tenants_find(book.tenants, book.key, book.id, NULL), acme);
    assert_true(tenant_claim(acme, &all, &refusal));
    assert_false(tenant_claim(acme, &all, &refusal)); /* a sum that there is no number for */
    tenants_close(book.tenants);
}

static void a_claim_is_all_or_nothing(void **state)
{
    struct book book;
    const struct tenant *acme = acme_with(*state, &book, QUOTA_disk, 100);
    struct tenant_claim both = {.amount = {[QUOTA_runs_minute] = 600, [QUOTA_disk] = 101}};
    struct tenant_claim runs = {.amount = {[QUOTA_runs_minute] = 600, [QUOTA_disk] = 100}};
    struct refusal refusal;
    assert_false(tenant_claim(acme, &both, &refusal));
    assert_true(tenant_claim(acme, &runs, &refusal));
    tenants_close(book.tenants);
}

/* Runs, one after the other, until there are no more to be had. */
static int claim_all(const struct tenant *tenant, struct tenant_claim *run, struct refusal *refusal)
{
    int count = 0;
    for (; tenant_claim(tenant, run, refusal); count++)
        tenant_release(tenant, run, false);
    return count;
}

static void runs_a_minute_come_back_with_time(void **state)
{
    struct book book;
    const struct tenant *acme = acme_with(*state, &book, QUOTA_runs_minute, 600); /* ten a second */
    struct tenant_claim run = {.amount = {[QUOTA_runs] = 1, [QUOTA_runs_minute] = 1}};
    struct refusal refusal;
    int64_t began_us = clock_monotonic_us();
    int started = claim_all(acme, &run, &refusal);
    assert_in_range(started, 600, 601 + (clock_monotonic_us() - began_us) / 100000);
    assert_string_equal(refusal.field, "runs_minute");
    assert_in_range(refusal.retry_after_ms, 1, 100);
    began_us = clock_monotonic_us();
    usleep(120000);
    started = claim_all(acme, &run, &refusal);
    assert_in_range(started, 1, 1 + (clock_monotonic_us() - began_us) / 100000);
    while (!tenant_claim(acme, &run, &refusal))
        usleep(10000);
    tenant_release(acme, &run, true); /* nothing was done for it */
    assert_true(tenant_claim(acme, &run, &refusal));
    tenants_close(book.tenants);
}

static void spent_cpu_time_is_paid_off_before_the_next_run(void **state)
{
    struct book book;
    const struct tenant *acme = acme_with(*state, &book, QUOTA_cpu_hour, 3600000); /* one second a second */
    struct tenant_claim run = {.amount = {[QUOTA_runs] = 1, [QUOTA_runs_minute] = 1}},
                        file = {.amount = {[QUOTA_uploads] = 1}};
    struct refusal refusal;
    assert_true(tenant_claim(acme, &run, &refusal));
    tenant_charge_cpu(acme, INT64_C(3610) * 1000000);
    assert_false(tenant_claim(acme, &run, &refusal));
    assert_string_equal(refusal.field, "cpu_hour");
    assert_in_range(refusal_retry_after_s(&refusal), 9, 11);
    assert_true(tenant_claim(acme, &file, &refusal)); /* needs none */
    tenants_close(book.tenants);
}

static void a_quota_of_nothing_lets_nothing_in(void **state)
{
    struct book book;
    const struct tenant *acme = acme_with(*state, &book, QUOTA_runs_minute, 0);
    struct tenant_claim run = {.amount = {[QUOTA_runs] = 1, [QUOTA_runs_minute] = 1}};
    struct refusal refusal;
    assert_false(tenant_claim(acme, &run, &refusal));
    assert_int_equal(refusal.status, 429);
    tenants_close(book.tenants);
}

static void usage_is_told(void **state)
{
    struct book book;
    const struct tenant *acme = acme_with(*state, &book, QUOTA_memory, QUOTA_NONE);
    struct tenant_claim files = {.amount = {[QUOTA_uploads] = 5}};
    struct refusal refusal;
    int64_t used;
    assert_true(tenant_claim(acme, &files, &refusal));
    assert_int_equal(tenant_quota(acme, QUOTA_uploads, &used), INT64_C(10) << 30);
    assert_int_equal(used, 5);
    json_t *object = tenant_to_json(acme), *quotas = json_object_get(object, "quotas");
    assert_int_equal(json_object_size(quotas), QUOTA_FIELDS);
    assert_int_equal(json_integer_value(json_object_get(json_object_get(quotas, "uploads"), "used")), 5);
    assert_true(json_is_null(json_object_get(json_object_get(quotas, "memory"), "limit")));
    json_decref(object);
    tenants_close(book.tenants);
}

#define test(name) cmocka_unit_test_setup_teardown(name, scratch_setup, scratch_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        test(without_keys_there_is_a_single_user_without_quotas),
        test(the_first_key_ends_the_single_user_and_no_removal_brings_him_back),
        test(without_keys_nobody_is_let_in_where_there_is_no_single_user),
        test(changes_of_the_file_are_seen_at_once),
        test(levels_are_claimed_and_released),
        test(a_box_that_the_keeper_counts_meanwhile_is_asked_for_again),
        test(less_than_nothing_cannot_be_claimed),
        test(a_claim_is_all_or_nothing),
        test(runs_a_minute_come_back_with_time),
        test(spent_cpu_time_is_paid_off_before_the_next_run),
        test(a_quota_of_nothing_lets_nothing_in),
        test(usage_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
