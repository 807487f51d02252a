#define SCRATCH_ROOT "/dev/shm" /* fsync costs nothing there */
#include "harness.h"

#include "server/store.h"
#include "server/upload.h"

#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <time.h>

/* SHA-256 of "hello". */
#define HELLO "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"

static struct store *opened(struct scratch *scratch)
{
    struct store *store = NULL;
    struct error err = {0};
    assert_int_equal(store_open(scratch->fd, &store, &err), 0);
    return store;
}

static struct upload_terms terms_of(const char *tenant, const char *name, int64_t total)
{
    return (struct upload_terms){.tenant = tenant,
                                 .name = name,
                                 .total_bytes = total,
                                 .body_bytes = -1,
                                 .lifetime_s = 3600,
                                 .quota_bytes = 1 << 30};
}

static struct upload *begun(struct store *store, const struct upload_terms *terms)
{
    struct upload *upload = NULL;
    struct error err = {0};
    int64_t offset;
    if (upload_begin(store, terms, &upload, &offset, &err) < 0)
        fail_msg("%s", err.text);
    return upload;
}

static int added(struct upload *upload, const char *text)
{
    struct error err = {0};
    int status = upload_add(upload, (struct slice){text, strlen(text)}, false, &err);
    assert_true((status < 0) == (err.kind != ERROR_NONE));
    return status;
}

static struct stored put(struct store *store, const char *tenant, const char *name, const char *text)
{
    struct upload_terms terms = terms_of(tenant, name, (int64_t)strlen(text));
    struct upload *upload = begun(store, &terms);
    struct stored stored;
    struct error err = {0};
    int64_t offset;
    assert_int_equal(added(upload, text), 0);
    assert_int_equal(upload_finish(upload, &stored, &offset, &err), 0);
    return stored;
}

static bool has_content(struct scratch *scratch, const char *sha256)
{
    char path[STORE_PATH_MAX];
    store_content_path(sha256, path);
    return exists(scratch->fd, path);
}

static void file_is_stored_by_its_hash(void **state)
{
    struct store *store = opened(*state);
    struct stored stored = put(store, "anna", "a.txt", "hello"), found;
    assert_string_equal(stored.sha256, HELLO);
    assert_int_equal(store_find(store, "anna", "a.txt", &found), 0);
    assert_memory_equal(&found, &stored, sizeof found);
    assert_int_equal(found.size_bytes, 5);
    scope_fd fd = store_open_content(store, HELLO);
    char text[8] = "";
    assert_int_equal(read(fd, text, sizeof text), 5);
    assert_string_equal(text, "hello");
    assert_int_equal(store_find(store, "bert", "a.txt", &found), -ENOENT);
    assert_false(exists(((struct scratch *)*state)->fd, "partial/anna/a.txt"));
    store_close(store);
}

/* Stands for a disk that is full at so many bytes; -1: there is room again. */
static void fill_disk_at(int64_t bytes)
{
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = bytes < 0 ? limit.rlim_max : (rlim_t)bytes;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

enum { LONG_UPLOAD = 300000, SLICE = 8192 };

/* Sends what is gathered first and then `direct` bytes that are not, up to where the disk is full. */
static int added_until_full(struct upload *upload, const char *data, size_t gathered, size_t direct)
{
    int status = 0;
    for (size_t at = 0; status == 0 && at < gathered + direct; at += SLICE) {
        struct error err = {0};
        size_t left = gathered + direct - at;
        status =
            upload_add(upload, (struct slice){data + at, left < SLICE ? left : SLICE}, at < gathered, &err);
    }
    return status;
}

static void upload_goes_on_after_a_disk_was_full(void **state)
{
    static const struct {
        const char *name;
        int64_t full_at;
        size_t gathered, direct;
    } rows[] = {{"in what was gathered", 50000, 204800, 95200},
                {"in what was not", 40960, 0, LONG_UPLOAD},
                {"in a part of what was not", 43000, 0, LONG_UPLOAD}};
    struct store *store = opened(*state);
    char *data = malloc(LONG_UPLOAD), *got = malloc(LONG_UPLOAD);
    for (int i = 0; i < LONG_UPLOAD; i++)
        data[i] = (char)('A' + i / 1000 % 26);
    signal(SIGXFSZ, SIG_IGN);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct upload_terms terms = terms_of("anna", rows[i].name, LONG_UPLOAD);
        struct upload *upload = begun(store, &terms);
        fill_disk_at(rows[i].full_at);
        assert_true(added_until_full(upload, data, rows[i].gathered, rows[i].direct) < 0);
        fill_disk_at(-1);
        upload_abandon(upload);
        int64_t offset, total;
        assert_int_equal(upload_find(store, "anna", rows[i].name, &offset, &total), 0);
        terms.offset_bytes = offset;
        upload = begun(store, &terms);
        struct error err = {0};
        struct stored stored;
        assert_int_equal(
            upload_add(upload, (struct slice){data + offset, (size_t)(LONG_UPLOAD - offset)}, false, &err),
            0);
        assert_int_equal(upload_finish(upload, &stored, &offset, &err), 0);
        scope_fd fd = store_open_content(store, stored.sha256);
        assert_int_equal(read(fd, got, LONG_UPLOAD), LONG_UPLOAD);
        assert_memory_equal(got, data, LONG_UPLOAD);
    }
    free(data);
    free(got);
    store_close(store);
}

static void empty_file_is_a_file(void **state)
{
    struct store *store = opened(*state);
    assert_int_equal(put(store, "anna", "empty", "").size_bytes, 0);
    store_close(store);
}

static void names_are_plain(void **state)
{
    (void)state;
    char longest[STORE_NAME_MAX + 2];
    memset(longest, 'x', sizeof longest);
    longest[STORE_NAME_MAX + 1] = '\0';
    assert_false(store_is_name(longest));
    assert_true(store_is_name(longest + 1));
    static const char *const good[] = {"a", "sales 2026.csv", "größe.csv", "a:b", "a..b", "-rf"};
    static const char *const bad[] = {"", ".", "..", ".hidden", "a/b", "a\nb", "\xff", "a\x7f"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        assert_true(store_is_name(good[i]));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(store_is_name(bad[i]));
}

static void content_stays_as_long_as_a_name_refers_to_it(void **state)
{
    struct scratch *scratch = *state;
    struct store *store = opened(scratch);
    put(store, "anna", "a", "hello");
    put(store, "anna", "b", "hello");
    put(store, "bert", "a", "hello");
    assert_int_equal(store_delete(store, "anna", "a"), 0);
    assert_int_equal(store_delete(store, "anna", "a"), -ENOENT);
    assert_int_equal(store_delete(store, "bert", "a"), 0);
    assert_true(has_content(scratch, HELLO));
    put(store, "anna", "b", "other");
    assert_false(has_content(scratch, HELLO));
    store_close(store);
}

static void content_stays_while_it_is_held(void **state)
{
    struct scratch *scratch = *state;
    struct store *store = opened(scratch);
    struct stored held;
    put(store, "anna", "a", "hello");
    assert_int_equal(store_hold(store, "bert", "a", &held), -ENOENT);
    assert_int_equal(store_hold(store, "anna", "a", &held), 0);
    assert_int_equal(store_hold(store, "anna", "a", &held), 0);
    assert_int_equal(store_delete(store, "anna", "a"), 0);
    store_release(store, held.sha256);
    assert_true(has_content(scratch, HELLO));
    store_release(store, held.sha256);
    assert_false(has_content(scratch, HELLO));
    store_close(store);
}

static void list_goes_by_pages_and_by_tenant(void **state)
{
    struct store *store = opened(*state);
    static const char *const names[] = {"c", "a", "b", "d"};
    for (size_t i = 0; i < 4; i++)
        put(store, "anna", names[i], names[i]);
    put(store, "ann", "z", "z");
    put(store, "bert", "a", "z");
    struct stored *found;
    size_t count;
    assert_int_equal(store_list(store, "anna", NULL, 3, &found, &count), 0);
    assert_int_equal(count, 3);
    assert_string_equal(found[0].name, "a");
    assert_string_equal(found[2].name, "c");
    free(found);
    assert_int_equal(store_list(store, "anna", "c", 3, &found, &count), 0);
    assert_int_equal(count, 1);
    assert_string_equal(found[0].name, "d");
    free(found);
    assert_int_equal(store_used_bytes(store, "anna"), 4);
    store_close(store);
}

static void all_is_there_after_a_restart(void **state)
{
    struct scratch *scratch = *state;
    struct store *store = opened(scratch);
    struct stored before = put(store, "anna", "a", "hello"), after;
    store_close(store);
    /* Of a start that ended between content and name: nobody knows it. */
    must(mkdirat(scratch->fd, "store/00", 0700) == 0);
    write_text(scratch->fd, "store/00/00ab", "nobody's");
    /* A name without content, and one whose content was cut. */
    write_text(scratch->fd, "files/anna/ghost",
               "{\"sha256\":\"" HELLO "\",\"size\":4,\"created\":1,\"expires\":9999999999}");
    write_text(scratch->fd, "files/anna/broken", "{");
    store = opened(scratch);
    assert_int_equal(store_find(store, "anna", "a", &after), 0);
    assert_memory_equal(&before, &after, sizeof after);
    assert_false(exists(scratch->fd, "store/00/00ab"));
    assert_int_equal(store_find(store, "anna", "ghost", &after), -ENOENT);
    assert_int_equal(store_find(store, "anna", "broken", &after), -ENOENT);
    store_close(store);
}

static void broken_upload_goes_on_where_it_stopped(void **state)
{
    struct scratch *scratch = *state;
    struct store *store = opened(scratch);
    struct upload_terms terms = terms_of("anna", "a", 5);
    struct upload *upload = begun(store, &terms);
    struct stored stored;
    struct error err = {0};
    int64_t offset, total;
    assert_int_equal(added(upload, "hel"), 0);
    upload_abandon(upload);
    assert_int_equal(store_find(store, "anna", "a", &stored), -ENOENT);
    store_close(store);
    store = opened(scratch);
    assert_int_equal(upload_find(store, "anna", "a", &offset, &total), 0);
    assert_int_equal(offset, 3);
    assert_int_equal(total, 5);
    assert_int_equal(upload_find(store, "bert", "a", &offset, &total), -ENOENT);
    terms.offset_bytes = 4; /* a gap */
    assert_int_equal(upload_begin(store, &terms, &upload, &offset, &err), -ERANGE);
    assert_int_equal(offset, 3);
    terms.offset_bytes = 2; /* what overlaps is written anew */
    terms.body_bytes = 2;
    upload = begun(store, &terms);
    assert_int_equal(added(upload, "ll"), 0);
    assert_int_equal(upload_finish(upload, &stored, &offset, &err), 1);
    assert_int_equal(offset, 4);
    terms.offset_bytes = 4;
    terms.body_bytes = 1;
    upload = begun(store, &terms);
    assert_int_equal(added(upload, "o"), 0);
    assert_int_equal(upload_finish(upload, &stored, &offset, &err), 0);
    assert_string_equal(stored.sha256, HELLO);
    assert_int_equal(upload_find(store, "anna", "a", &offset, &total), -ENOENT);
    store_close(store);
}

/* The bytes of another start of the machine count as far as they are known to be on the disk. */
static void crash_of_the_machine_costs_what_was_not_synced(void **state)
{
    struct scratch *scratch = *state;
    struct store *store = opened(scratch);
    struct upload_terms terms = terms_of("anna", "a", 5);
    struct upload *upload = begun(store, &terms);
    int64_t offset, total;
    assert_int_equal(added(upload, "hell"), 0);
    upload_abandon(upload);
    store_close(store);
    write_text(scratch->fd, "partial/anna/.a", "{\"total\":5,\"synced\":2,\"boot\":\"another\"}");
    store = opened(scratch);
    assert_int_equal(upload_find(store, "anna", "a", &offset, &total), 0);
    assert_int_equal(offset, 2);
    store_close(store);
}

static void later_upload_takes_the_name(void **state)
{
    struct store *store = opened(*state);
    struct upload_terms terms = terms_of("anna", "a", 5);
    struct upload *first = begun(store, &terms);
    struct stored stored;
    struct error err = {0};
    int64_t offset;
    assert_int_equal(added(first, "hel"), 0);
    terms.offset_bytes = 3;
    struct upload *second = begun(store, &terms);
    assert_int_equal(added(first, "XX"), -ECANCELED);
    assert_int_equal(added(second, "lo"), 0);
    assert_int_equal(upload_finish(second, &stored, &offset, &err), 0);
    assert_string_equal(stored.sha256, HELLO);
    upload_abandon(first);
    assert_int_equal(store_find(store, "anna", "a", &stored), 0);
    store_close(store);
}

static void old_file_stays_until_the_new_one_is_whole(void **state)
{
    struct store *store = opened(*state);
    put(store, "anna", "a", "hello");
    struct upload_terms terms = terms_of("anna", "a", 8);
    struct upload *upload = begun(store, &terms);
    struct stored stored;
    assert_int_equal(added(upload, "new"), 0);
    assert_int_equal(store_find(store, "anna", "a", &stored), 0);
    assert_string_equal(stored.sha256, HELLO);
    upload_abandon(upload);
    assert_int_equal(store_find(store, "anna", "a", &stored), 0);
    store_close(store);
}

static void more_than_was_told_is_refused(void **state)
{
    struct store *store = opened(*state);
    struct upload_terms terms = terms_of("anna", "a", 3);
    struct upload *upload = begun(store, &terms);
    assert_int_equal(added(upload, "hello"), -EFBIG);
    upload_abandon(upload);
    store_close(store);
}

static void bytes_that_must_be_others_are_refused(void **state)
{
    struct store *store = opened(*state);
    struct upload_terms terms = terms_of("anna", "a", 5);
    terms.sha256 = HELLO;
    struct upload *upload = begun(store, &terms);
    struct stored stored;
    struct error err = {0};
    int64_t offset, total;
    assert_int_equal(added(upload, "jello"), 0);
    assert_int_equal(upload_finish(upload, &stored, &offset, &err), -EILSEQ);
    assert_error(&err, ERROR_SPEC, "X-Content-SHA256", "SHA-256");
    assert_int_equal(upload_find(store, "anna", "a", &offset, &total), -ENOENT);
    store_close(store);
}

static void quota_counts_files_and_parts(void **state)
{
    struct store *store = opened(*state);
    put(store, "anna", "a", "hello");
    struct upload_terms terms = terms_of("anna", "b", 6);
    struct upload *upload = NULL, *unknown = NULL;
    struct error err = {0};
    int64_t offset;
    terms.quota_bytes = 10;
    assert_int_equal(upload_begin(store, &terms, &upload, &offset, &err), -EDQUOT);
    terms.name = "a"; /* the new one goes in the place of the old one */
    upload = begun(store, &terms);
    upload_abandon(upload);
    terms.name = "c";
    terms.total_bytes = -1;
    unknown = begun(store, &terms);
    assert_int_equal(added(unknown, "12345"), 0);
    assert_int_equal(added(unknown, "6"), -EDQUOT);
    upload_abandon(unknown);
    assert_int_equal(store_used_bytes(store, "anna"), 10);
    assert_int_equal(store_delete(store, "anna", "c"), 0);
    assert_int_equal(store_used_bytes(store, "anna"), 5);
    terms.tenant = "bert";
    upload = begun(store, &terms);
    upload_abandon(upload);
    store_close(store);
}

static void files_and_parts_expire(void **state)
{
    struct scratch *scratch = *state;
    struct store *store = opened(scratch);
    struct stored stored = put(store, "anna", "a", "hello");
    struct upload_terms terms = terms_of("anna", "p", 5);
    upload_abandon(begun(store, &terms));
    int64_t offset, total;
    store_sweep(store, stored.expires_s - 1);
    assert_int_equal(store_find(store, "anna", "a", &stored), 0);
    store_sweep(store, stored.expires_s);
    assert_int_equal(store_find(store, "anna", "a", &stored), -ENOENT);
    assert_false(has_content(scratch, HELLO));
    assert_int_equal(upload_find(store, "anna", "p", &offset, &total), 0);
    store_sweep(store, time(NULL) + 48 * 3600);
    assert_int_equal(upload_find(store, "anna", "p", &offset, &total), -ENOENT);
    store_close(store);
}

static void profile_goes_with_the_last_name(void **state)
{
    struct store *store = opened(*state);
    scope_buffer text = {0}, none = {0};
    put(store, "anna", "a", "hello");
    put(store, "bert", "a", "hello");
    assert_int_equal(store_write_profile(store, "anna", HELLO, "{}"), 0);
    assert_int_equal(store_read_profile(store, "anna", HELLO, &text), 0);
    assert_string_equal(text.data, "{}");
    assert_int_equal(store_read_profile(store, "bert", HELLO, &none), -ENOENT);
    assert_int_equal(store_delete(store, "anna", "a"), 0);
    assert_int_equal(store_read_profile(store, "anna", HELLO, &none), -ENOENT);
    store_close(store);
}

/* ---- ends at any moment ---- */

struct killed {
    int fd;
    int after; /* pieces */
};

enum { PIECES = 40, PIECE = 3000 };

static void fill_piece(char *piece, int number)
{
    for (int i = 0; i < PIECE; i++)
        piece[i] = (char)('a' + (number * 7 + i) % 26);
}

static void upload_body(void *data)
{
    const struct killed *killed = data;
    struct store *store = NULL;
    struct upload *upload = NULL;
    struct error err = {0};
    struct stored stored;
    int64_t offset;
    must(store_open(killed->fd, &store, &err) == 0);
    struct upload_terms terms = terms_of("anna", "a", PIECES * PIECE);
    must(upload_begin(store, &terms, &upload, &offset, &err) == 0);
    char piece[PIECE];
    for (int i = 0; i < PIECES; i++) {
        if (i == killed->after)
            _exit(0);
        fill_piece(piece, i);
        must(upload_add(upload, (struct slice){piece, PIECE}, i + 1 != killed->after, &err) == 0);
    }
    must(upload_finish(upload, &stored, &offset, &err) == 0);
}

static void upload_that_ends_anywhere_can_go_on(void **state)
{
    struct scratch *scratch = *state;
    char hashes[2][STORE_HASH_LENGTH + 1] = {"", ""};
    for (int after = 0; after <= PIECES; after += 13) {
        struct killed killed = {scratch->fd, after};
        in_child(upload_body, &killed);
        struct store *store = opened(scratch);
        int64_t offset = 0, total;
        struct stored stored;
        if (upload_find(store, "anna", "a", &offset, &total) == 0) {
            assert_int_equal(offset, after * PIECE);
            struct upload_terms terms = terms_of("anna", "a", PIECES * PIECE);
            terms.offset_bytes = offset;
            struct upload *upload = begun(store, &terms);
            struct error err = {0};
            char piece[PIECE];
            for (int i = after; i < PIECES; i++) {
                fill_piece(piece, i);
                assert_int_equal(upload_add(upload, (struct slice){piece, PIECE}, i % 3 == 0, &err), 0);
            }
            assert_int_equal(upload_finish(upload, &stored, &offset, &err), 0);
        }
        assert_int_equal(store_find(store, "anna", "a", &stored), 0);
        memcpy(hashes[after > 0], stored.sha256, sizeof hashes[0]);
        assert_string_equal(hashes[0], hashes[after > 0]);
        assert_int_equal(store_delete(store, "anna", "a"), 0);
        store_close(store);
    }
}

struct worker {
    struct store *store;
    const char *tenant;
};

static void *upload_and_delete(void *data)
{
    const struct worker *worker = data;
    for (int i = 0; i < 50; i++) {
        put(worker->store, worker->tenant, i % 2 ? "x" : "y", "hello");
        store_delete(worker->store, worker->tenant, "x");
    }
    return NULL;
}

static void many_at_once_leave_no_name_without_content(void **state)
{
    struct scratch *scratch = *state;
    struct store *store = opened(scratch);
    pthread_t threads[2];
    struct worker workers[] = {{store, "anna"}, {store, "carl"}};
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, upload_and_delete, &workers[i]), 0);
    for (int i = 0; i < 100; i++) {
        put(store, "bert", "b", i % 2 ? "hello" : "other");
        struct stored stored;
        assert_int_equal(store_find(store, "bert", "b", &stored), 0);
        assert_true(has_content(scratch, stored.sha256));
    }
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    store_close(store);
}

/* ---- large ones, whose hash is taken by a thread ---- */

enum { LARGE_PIECE = 100000, LARGE_PIECES = 120 };

static void add_pieces(struct upload *upload, int first, int last)
{
    static char piece[LARGE_PIECE];
    struct error err = {0};
    for (int i = first; i < last; i++) {
        memset(piece, 'a' + i % 26, sizeof piece);
        assert_int_equal(upload_add(upload, (struct slice){piece, sizeof piece}, i % 3 != 2, &err), 0);
    }
}

static void large_upload_has_the_same_hash_in_parts(void **state)
{
    struct store *store = opened(*state);
    struct upload_terms terms = terms_of("anna", "whole", (int64_t)LARGE_PIECE * LARGE_PIECES);
    struct upload *upload = begun(store, &terms);
    struct stored whole, parts;
    struct error err = {0};
    int64_t offset;
    add_pieces(upload, 0, LARGE_PIECES);
    assert_int_equal(upload_finish(upload, &whole, &offset, &err), 0);
    terms.name = "parts";
    int at = 0;
    static const int stops[] = {1, 50, 99, LARGE_PIECES};
    for (size_t i = 0; i < sizeof stops / sizeof *stops; i++) {
        terms.offset_bytes = (int64_t)at * LARGE_PIECE;
        upload = begun(store, &terms);
        add_pieces(upload, at, stops[i]);
        at = stops[i];
        if (at < LARGE_PIECES)
            upload_abandon(upload);
        else
            assert_int_equal(upload_finish(upload, &parts, &offset, &err), 0);
    }
    assert_string_equal(parts.sha256, whole.sha256);
    store_close(store);
}

struct pushing {
    struct upload *upload;
    int status;
};

static void *push_on(void *data)
{
    struct pushing *pushing = data;
    static char piece[LARGE_PIECE];
    struct error err = {0};
    while (pushing->status == 0)
        pushing->status = upload_add(pushing->upload, (struct slice){piece, sizeof piece}, true, &err);
    return NULL;
}

static void upload_is_taken_over_while_it_writes(void **state)
{
    struct store *store = opened(*state);
    struct upload_terms terms = terms_of("anna", "a", -1);
    for (int i = 0; i < 20; i++) {
        struct pushing pushing = {.upload = begun(store, &terms)};
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, push_on, &pushing), 0);
        usleep(2000);
        struct stored stored = put(store, "anna", "a", "hello");
        assert_string_equal(stored.sha256, HELLO);
        pthread_join(thread, NULL);
        assert_int_equal(pushing.status, -ECANCELED);
        upload_abandon(pushing.upload);
        assert_int_equal(store_used_bytes(store, "anna"), 5);
    }
    store_close(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCRATCH_TEST(file_is_stored_by_its_hash),
        SCRATCH_TEST(empty_file_is_a_file),
        SCRATCH_TEST(upload_goes_on_after_a_disk_was_full),
        cmocka_unit_test(names_are_plain),
        SCRATCH_TEST(content_stays_as_long_as_a_name_refers_to_it),
        SCRATCH_TEST(content_stays_while_it_is_held),
        SCRATCH_TEST(list_goes_by_pages_and_by_tenant),
        SCRATCH_TEST(all_is_there_after_a_restart),
        SCRATCH_TEST(broken_upload_goes_on_where_it_stopped),
        SCRATCH_TEST(crash_of_the_machine_costs_what_was_not_synced),
        SCRATCH_TEST(later_upload_takes_the_name),
        SCRATCH_TEST(old_file_stays_until_the_new_one_is_whole),
        SCRATCH_TEST(more_than_was_told_is_refused),
        SCRATCH_TEST(bytes_that_must_be_others_are_refused),
        SCRATCH_TEST(quota_counts_files_and_parts),
        SCRATCH_TEST(files_and_parts_expire),
        SCRATCH_TEST(profile_goes_with_the_last_name),
        SCRATCH_TEST(upload_that_ends_anywhere_can_go_on),
        SCRATCH_TEST(large_upload_has_the_same_hash_in_parts),
        SCRATCH_TEST(upload_is_taken_over_while_it_writes),
        SCRATCH_TEST(many_at_once_leave_no_name_without_content),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
