/* Buffers that grow and lists that own. */
#include "harness.h"

#include "base/bytes.h"

static void buffer_grows_and_stays_terminated(void **state)
{
    (void)state;
    scope_buffer buffer = {0};
    for (int i = 0; i < 5000; i++) {
        char byte = (char)('a' + i % 26);
        assert_int_equal(buffer_append(&buffer, &byte, 1), 0);
        assert_int_equal(buffer.length, i + 1);
        assert_int_equal(buffer.data[buffer.length], '\0');
        assert_true(buffer.capacity > buffer.length);
    }
    for (int i = 0; i < 5000; i++)
        assert_int_equal(buffer.data[i], 'a' + i % 26);
}

static void nothing_appended_is_an_empty_text(void **state)
{
    (void)state;
    scope_buffer buffer = {0};
    assert_int_equal(buffer_append(&buffer, "", 0), 0);
    assert_non_null(buffer.data);
    assert_string_equal(buffer.data, "");
    assert_int_equal(buffer_append(&buffer, NULL, 0), 0);
    assert_int_equal(buffer.length, 0);
}

static void bytes_may_be_zero(void **state)
{
    (void)state;
    scope_buffer buffer = {0};
    assert_int_equal(buffer_append(&buffer, "a\0b", 3), 0);
    assert_int_equal(buffer_append_text(&buffer, "c"), 0);
    assert_int_equal(buffer.length, 4);
    assert_memory_equal(buffer.data, "a\0bc", 5);
}

static void printing_appends(void **state)
{
    (void)state;
    scope_buffer buffer = {0};
    assert_int_equal(buffer_print(&buffer, "%d-%s", 7, "x"), 0);
    assert_int_equal(buffer_print(&buffer, "%600d", 1), 0);
    assert_int_equal(buffer.length, 603);
    assert_memory_equal(buffer.data, "7-x   ", 6);
}

static void absurd_length_is_refused_and_changes_nothing(void **state)
{
    (void)state;
    scope_buffer buffer = {0};
    buffer_append_text(&buffer, "kept");
    alarm(5); /* growing by doubling must not go round for ever */
    assert_int_equal(buffer_append(&buffer, "", SIZE_MAX), -ENOMEM);
    assert_int_equal(buffer_append(&buffer, "", SIZE_MAX - 4), -ENOMEM);
    assert_int_equal(buffer_append(&buffer, "", SIZE_MAX / 2 + 2), -ENOMEM);
    alarm(0);
    assert_string_equal(buffer.data, "kept");
    assert_int_equal(buffer.length, 4);
}

static void freed_buffer_can_be_used_again(void **state)
{
    (void)state;
    struct buffer buffer = {0};
    buffer_free(&buffer);
    buffer_append_text(&buffer, "x");
    buffer_free(&buffer);
    assert_null(buffer.data);
    assert_int_equal(buffer.length + buffer.capacity, 0);
    buffer_append_text(&buffer, "y");
    assert_string_equal(buffer.data, "y");
    buffer_free(&buffer);
}

static void list_is_always_terminated(void **state)
{
    (void)state;
    scope_string_list list = {0};
    for (size_t i = 0; i < 300; i++) {
        assert_int_equal(string_list_print(&list, "item %zu", i), 0);
        assert_int_equal(list.count, i + 1);
        assert_null(list.items[list.count]);
    }
    assert_string_equal(list.items[299], "item 299");
}

static void list_owns_copies(void **state)
{
    (void)state;
    char text[] = "before";
    scope_string_list list = {0}, other = {0};
    assert_int_equal(string_list_add(&list, text), 0);
    memcpy(text, "after!", sizeof text);
    assert_string_equal(list.items[0], "before");
    assert_int_equal(string_list_add(&other, "first"), 0);
    assert_int_equal(string_list_copy(&other, &list), 0);
    string_list_free(&list);
    assert_int_equal(other.count, 2);
    assert_string_equal(other.items[1], "before");
    assert_null(other.items[2]);
    assert_null(list.items);
    string_list_free(&list);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buffer_grows_and_stays_terminated),
        cmocka_unit_test(nothing_appended_is_an_empty_text),
        cmocka_unit_test(bytes_may_be_zero),
        cmocka_unit_test(printing_appends),
        cmocka_unit_test(absurd_length_is_refused_and_changes_nothing),
        cmocka_unit_test(freed_buffer_can_be_used_again),
        cmocka_unit_test(list_is_always_terminated),
        cmocka_unit_test(list_owns_copies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
