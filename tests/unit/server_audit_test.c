#include "unit/harness.h"

#include "server/audit.h"

#include <jansson.h>

static struct audit *open_audit(struct scratch *scratch, int *ret_lost)
{
    struct audit *audit;
    struct error err = {0};
    int lost = -1;
    if (audit_open(scratch->fd, &audit, &lost, &err) < 0)
        fail_msg("%s", err.text);
    if (ret_lost)
        *ret_lost = lost;
    return audit;
}

static int begin(struct audit *audit, const char *id)
{
    char fields[128];
    snprintf(fields, sizeof fields, "{\"run\":\"%s\",\"tenant\":\"acme\"}", id);
    return audit_begin(audit, id, (struct slice){fields, strlen(fields)});
}

static void end(struct audit *audit, int slot, const char *id)
{
    char line[128];
    snprintf(line, sizeof line, "{\"run\":\"%s\",\"cause\":\"exit\"}\n", id);
    audit_end(audit, slot, (struct slice){line, strlen(line)});
}

static int count_lines(struct scratch *scratch, const char *name, const char *word)
{
    scope_buffer text = {0};
    int count = 0;
    if (file_read_whole(scratch->fd, name, 1 << 24, &text) < 0)
        return -1;
    for (char *line = strtok(text.data, "\n"); line; line = strtok(NULL, "\n")) {
        json_t *object = json_loads(line, 0, NULL);
        assert_non_null(object);
        json_decref(object);
        count += strstr(line, word) != NULL;
    }
    return count;
}

static void each_run_has_one_line(void **state)
{
    struct scratch *scratch = *state;
    struct audit *audit = open_audit(scratch, NULL);
    int one = begin(audit, "run_1"), two = begin(audit, "run_2");
    assert_true(one >= 0 && two >= 0 && one != two);
    assert_int_equal(count_lines(scratch, "audit/runs.jsonl", "run"), 0);
    end(audit, one, "run_1");
    assert_int_equal(begin(audit, "run_3"), one); /* its slot is free again */
    end(audit, two, "run_2");
    assert_int_equal(count_lines(scratch, "audit/runs.jsonl", "run"), 2);
    audit_close(audit);
}

static void a_run_whose_server_died_is_a_host_failure(void **state)
{
    struct scratch *scratch = *state;
    int lost;
    struct audit *audit = open_audit(scratch, NULL);
    end(audit, begin(audit, "run_1"), "run_1");
    begin(audit, "run_2");
    begin(audit, "run_3");
    audit_close(audit); /* as good as a death: it looks at no slot */
    audit = open_audit(scratch, &lost);
    assert_int_equal(lost, 2);
    assert_int_equal(count_lines(scratch, "audit/runs.jsonl", "host_failure"), 2);
    assert_int_equal(count_lines(scratch, "audit/runs.jsonl", "acme"), 2);
    assert_int_equal(count_lines(scratch, "audit/runs.jsonl", "run_2"), 1);
    audit_close(audit);
    audit = open_audit(scratch, &lost);
    assert_int_equal(lost, 0);
    assert_int_equal(count_lines(scratch, "audit/runs.jsonl", "run"), 3);
    audit_close(audit);
}

/* Death between the line and the slot: the line is there, and no other comes. */
static void a_line_that_was_written_is_not_written_again(void **state)
{
    struct scratch *scratch = *state;
    int lost;
    struct audit *audit = open_audit(scratch, NULL);
    begin(audit, "run_1");
    end(audit, -1, "run_1");
    audit_close(audit);
    audit = open_audit(scratch, &lost);
    assert_int_equal(lost, 0);
    assert_int_equal(count_lines(scratch, "audit/runs.jsonl", "run_1"), 1);
    audit_close(audit);
}

static void a_torn_line_is_written_anew(void **state)
{
    struct scratch *scratch = *state;
    int lost;
    struct audit *audit = open_audit(scratch, NULL);
    end(audit, begin(audit, "run_1"), "run_1");
    begin(audit, "run_2");
    audit_close(audit);
    scope_fd fd = openat(scratch->fd, "audit/runs.jsonl", O_WRONLY | O_APPEND | O_CLOEXEC);
    assert_int_equal(file_write_all(fd, "{\"run\":\"run_2\",\"ca", 18), 0);
    audit = open_audit(scratch, &lost);
    assert_int_equal(lost, 1);
    assert_int_equal(count_lines(scratch, "audit/runs.jsonl", "run_2"), 1);
    assert_int_equal(count_lines(scratch, "audit/runs.jsonl", "run_1"), 1);
    audit_close(audit);
}

static void files_are_rotated_and_eight_are_kept(void **state)
{
    struct scratch *scratch = *state;
    struct audit *audit = open_audit(scratch, NULL);
    audit_set_file_max(audit, 100);
    for (int i = 0; i < 60; i++) {
        char id[32];
        snprintf(id, sizeof id, "run_%d", i);
        end(audit, begin(audit, id), id);
    }
    audit_close(audit);
    char name[64];
    int lines = count_lines(scratch, "audit/runs.jsonl", "run");
    for (int i = 1; i <= 8; i++) {
        snprintf(name, sizeof name, "audit/runs.jsonl.%d", i);
        lines += count_lines(scratch, name, "run");
        struct stat status;
        assert_int_equal(fstatat(scratch->fd, name, &status, 0), 0);
        assert_true(status.st_size <= 100);
    }
    assert_int_equal(count_lines(scratch, "audit/runs.jsonl.9", "run"), -1);
    assert_in_range(lines, 17, 30);
}

static void more_runs_than_slots_go_on_without(void **state)
{
    struct audit *audit = open_audit(*state, NULL);
    for (int i = 0; i < AUDIT_SLOTS; i++)
        assert_int_equal(begin(audit, "run_x"), i);
    assert_int_equal(begin(audit, "run_y"), -1);
    end(audit, -1, "run_y");
    audit_close(audit);
}

#define test(name) cmocka_unit_test_setup_teardown(name, scratch_setup, scratch_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        test(each_run_has_one_line),
        test(a_run_whose_server_died_is_a_host_failure),
        test(a_line_that_was_written_is_not_written_again),
        test(a_torn_line_is_written_anew),
        test(files_are_rotated_and_eight_are_kept),
        test(more_runs_than_slots_go_on_without),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
