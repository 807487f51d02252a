#include "unit/harness.h"

#include "server/keys.h"

static void write_keys(struct scratch *scratch, const char *text)
{
    unlinkat(scratch->fd, "keys", 0);
    scope_fd fd = openat(scratch->fd, "keys", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(file_write_all(fd, text, strlen(text)), 0);
}

static void a_key_is_shown_once_and_stored_as_a_hash(void **state)
{
    struct scratch *scratch = *state;
    struct key_file file = {0}, again;
    struct error err = {0};
    char text[KEY_TEXT_SIZE], id[KEY_ID_SIZE];
    assert_int_equal(keys_add(&file, "acme", text, id, &err), 0);
    assert_int_equal(strlen(text), 46);
    assert_memory_equal(text, "cl_", 3);
    assert_int_equal(keys_save(scratch->fd, &file, &err), 0);

    scope_buffer stored = {0};
    assert_int_equal(file_read_whole(scratch->fd, "keys", 65536, &stored), 0);
    assert_null(strstr(stored.data, text + 3));
    assert_non_null(strstr(stored.data, id));

    assert_int_equal(keys_load(scratch->fd, &again, NULL, &err), 0);
    const struct key *found = keys_find(&again, text);
    assert_non_null(found);
    assert_string_equal(found->tenant, "acme");
    assert_string_equal(found->id, id);
    keys_free(&file);
    keys_free(&again);
}

static void other_texts_are_nobodys_key(void **state)
{
    (void)state;
    struct key_file file = {0};
    struct error err = {0};
    char text[KEY_TEXT_SIZE], id[KEY_ID_SIZE], other[KEY_TEXT_SIZE + 8];
    assert_int_equal(keys_add(&file, "acme", text, id, &err), 0);
    snprintf(other, sizeof other, "%s ", text);
    assert_null(keys_find(&file, other));
    for (size_t i = 0; i < sizeof text - 1; i++) {
        memcpy(other, text, sizeof text);
        other[i] ^= 1;
        assert_null(keys_find(&file, other));
        memcpy(other, text, sizeof text);
        other[i] = '\0';
        assert_null(keys_find(&file, other));
    }
    assert_null(keys_find(&file, file.keys[0].sha256));
    assert_null(keys_find(&file, ""));
    keys_free(&file);
}

static void keys_differ_and_use_the_whole_alphabet(void **state)
{
    (void)state;
    struct error err = {0};
    int seen[128] = {0};
    char text[62 * 200 + 1];
    assert_int_equal(keys_random(text, sizeof text - 1, &err), 0);
    for (size_t i = 0; i < sizeof text - 1; i++)
        seen[(unsigned char)text[i]]++;
    int characters = 0;
    for (int i = 0; i < 128; i++) {
        characters += seen[i] > 0;
        assert_true(seen[i] == 0 || (seen[i] > 100 && seen[i] < 320)); /* 200 each, seven sigma */
    }
    assert_int_equal(characters, 62);
}

static void quotas_are_of_the_tenant_and_go_with_its_last_key(void **state)
{
    struct scratch *scratch = *state;
    struct key_file file = {0};
    struct error err = {0};
    char text[KEY_TEXT_SIZE], one[KEY_ID_SIZE], two[KEY_ID_SIZE];
    assert_int_equal(keys_add(&file, "acme", text, one, &err), 0);
    assert_int_equal(keys_add(&file, "acme", text, two, &err), 0);
    keys_tenant(&file, "acme")->quotas.value[QUOTA_boxes] = 3;
    keys_tenant(&file, "acme")->quotas.value[QUOTA_memory] = QUOTA_NONE;
    assert_int_equal(keys_save(scratch->fd, &file, &err), 0);
    keys_free(&file);

    assert_int_equal(keys_load(scratch->fd, &file, NULL, &err), 0);
    assert_int_equal(quotas_get(&keys_tenant(&file, "acme")->quotas, QUOTA_boxes), 3);
    assert_true(quotas_get(&keys_tenant(&file, "acme")->quotas, QUOTA_memory) == QUOTA_NONE);
    assert_int_equal(quotas_get(&keys_tenant(&file, "acme")->quotas, QUOTA_runs), 16);
    assert_int_equal(keys_remove(&file, one, NULL), 1);
    assert_int_equal(file.tenant_count, 1);
    assert_int_equal(keys_remove(&file, one, NULL), 0);
    assert_int_equal(keys_remove(&file, NULL, "acme"), 1);
    assert_int_equal(file.tenant_count, 0);
    assert_int_equal(keys_save(scratch->fd, &file, &err), 0);
    struct stat status;
    assert_int_equal(fstatat(scratch->fd, "keys", &status, 0), 0);
    assert_int_equal(status.st_size, 0);
    assert_int_equal(status.st_mode & 0777, 0444);
    keys_free(&file);
}

static void a_wrong_line_is_named(void **state)
{
    struct scratch *scratch = *state;
    static const char *const wrong[] = {
        "\n{\"tenant\":\"a\"}\n",
        "{}\n",
        "[]",
        "\n{",
        "{\"tenant\":\"a\",\"limits\":{\"boxen\":1}}\n",
        "{\"tenant\":\"a\",\"limits\":{\"boxes\":-1}}\n",
        "{\"tenant\":\"../a\",\"limits\":{}}\n",
        "{\"key\":\"key_1\",\"tenant\":\"a\",\"sha256\":\"00\"}\n",
        "{\"key\":\"key\\\"\",\"tenant\":\"a\",\"sha256\":"
        "\"0000000000000000000000000000000000000000000000000000000000000000\"}",
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct key_file file;
        struct error err = {0};
        write_keys(scratch, wrong[i]);
        assert_true(keys_load(scratch->fd, &file, NULL, &err) < 0);
        assert_non_null(strstr(err.text, wrong[i][0] == '\n' ? "line 2" : "line 1"));
        assert_null(file.keys);
    }
}

static void links_and_pipes_are_not_followed(void **state)
{
    struct scratch *scratch = *state;
    struct key_file file;
    struct error err = {0};
    assert_int_equal(symlinkat("/etc/passwd", scratch->fd, "keys"), 0);
    assert_true(keys_load(scratch->fd, &file, NULL, &err) < 0);
    assert_int_equal(unlinkat(scratch->fd, "keys", 0), 0);
    assert_int_equal(mkfifoat(scratch->fd, "keys", 0600), 0);
    assert_true(keys_load(scratch->fd, &file, NULL, &err) < 0);

    /* Saving replaces the name, and touches nothing that a name points to. */
    char target[128];
    snprintf(target, sizeof target, "%s/victim", scratch->path);
    unlinkat(scratch->fd, "keys", 0);
    assert_int_equal(symlinkat(target, scratch->fd, "keys"), 0);
    assert_int_equal(symlinkat(target, scratch->fd, ".keys.new"), 0);
    file = (struct key_file){0};
    assert_int_equal(keys_save(scratch->fd, &file, &err), 0);
    assert_int_equal(access(target, F_OK), -1);
}

static void no_file_is_no_keys(void **state)
{
    struct scratch *scratch = *state;
    struct key_file file;
    struct stat version;
    struct error err = {0};
    assert_int_equal(keys_load(scratch->fd, &file, &version, &err), 0);
    assert_int_equal(file.key_count, 0);
    assert_int_equal(version.st_ino, 0);
}

static void the_table_of_quotas_can_be_read(void **state)
{
    (void)state;
    struct quotas quotas;
    quotas_default(&quotas);
    for (int i = 0; i < QUOTA_FIELDS; i++) {
        struct error err = {0};
        int64_t value;
        char text[32];
        assert_int_equal(quota_parse((enum quota_field)i, quota_rows[i].normal, &value, &err), 0);
        assert_true(quotas.value[i] == value && value > 0);
        assert_true(quota_format((enum quota_field)i, value, text, sizeof text)[0] != '\0');
        assert_int_equal(quota_parse((enum quota_field)i, "none", &value, &err), 0);
        assert_true(value == QUOTA_NONE);
        assert_true(quota_parse((enum quota_field)i, "some", &value, &err) < 0);
        assert_int_equal(quota_find(quota_rows[i].name), i);
        assert_int_equal(quota_find_option(quota_rows[i].option), i);
    }
}

#define test(name) cmocka_unit_test_setup_teardown(name, scratch_setup, scratch_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        test(a_key_is_shown_once_and_stored_as_a_hash),
        test(other_texts_are_nobodys_key),
        test(keys_differ_and_use_the_whole_alphabet),
        test(quotas_are_of_the_tenant_and_go_with_its_last_key),
        test(a_wrong_line_is_named),
        test(links_and_pipes_are_not_followed),
        test(no_file_is_no_keys),
        test(the_table_of_quotas_can_be_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
