/* Entries of a directory, read without the heap. */
#define SCRATCH_ROOT "/dev/shm"
#include "harness.h"

#include "os/directory.h"

static void empty_directory_has_no_entries(void **state)
{
    struct scratch *scratch = *state;
    struct directory_reader reader;
    const char *name = NULL;
    directory_reader_start(&reader, scratch->fd);
    assert_int_equal(directory_reader_next(&reader, &name), 0);
    assert_int_equal(directory_reader_next(&reader, &name), 0);
}

static void every_entry_comes_once(void **state)
{
    struct scratch *scratch = *state;
    enum { COUNT = 3000 }; /* more than fit into one block */
    static bool seen[COUNT];
    char text[64];
    for (int i = 0; i < COUNT; i++) {
        snprintf(text, sizeof text, "%d-%.*s", i, i % 40, "a name of one of many different lengths......");
        write_text(scratch->fd, text, "");
    }
    for (int round = 0; round < 2; round++) { /* a second time from the beginning */
        struct directory_reader reader;
        const char *name;
        int status, count = 0;
        memset(seen, 0, sizeof seen);
        directory_reader_start(&reader, scratch->fd);
        while ((status = directory_reader_next(&reader, &name)) > 0) {
            int number = atoi(name);
            assert_true(number >= 0 && number < COUNT && !seen[number]);
            seen[number] = true;
            count++;
        }
        assert_int_equal(status, 0);
        assert_int_equal(count, COUNT);
    }
}

static void longest_and_oddest_names_come_whole(void **state)
{
    struct scratch *scratch = *state;
    char longest[256];
    memset(longest, 'x', 255);
    longest[255] = '\0';
    const char *const names[] = {longest, "...", "..x", ".hidden", "a\nb", "\xff"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        write_text(scratch->fd, names[i], "");
    struct directory_reader reader;
    const char *name;
    size_t found = 0;
    directory_reader_start(&reader, scratch->fd);
    while (directory_reader_next(&reader, &name) > 0)
        for (size_t i = 0; i < sizeof names / sizeof *names; i++)
            found += strcmp(name, names[i]) == 0;
    assert_int_equal(found, sizeof names / sizeof *names);
}

static void what_is_no_directory_is_told(void **state)
{
    struct scratch *scratch = *state;
    write_text(scratch->fd, "file", "x");
    scope_fd fd = openat(scratch->fd, "file", O_RDONLY | O_CLOEXEC);
    struct directory_reader reader;
    const char *name;
    directory_reader_start(&reader, fd);
    assert_int_equal(directory_reader_next(&reader, &name), -ENOTDIR);
    directory_reader_start(&reader, -1);
    assert_int_equal(directory_reader_next(&reader, &name), -EBADF);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCRATCH_TEST(empty_directory_has_no_entries),
        SCRATCH_TEST(every_entry_comes_once),
        SCRATCH_TEST(longest_and_oddest_names_come_whole),
        SCRATCH_TEST(what_is_no_directory_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
