/* The hash, against the vectors of FIPS 180-4. */
#include "harness.h"

#include "base/sha256.h"

static void check_hash(const char *data, size_t length, size_t step, const char *wanted)
{
    struct sha256 *hash = sha256_new();
    char hex[65];
    assert_non_null(hash);
    for (size_t at = 0; at < length; at += step)
        sha256_add(hash, data + at, length - at < step ? length - at : step);
    sha256_finish(hash, hex);
    assert_string_equal(hex, wanted);
}

static void known_texts_have_their_known_hashes(void **state)
{
    (void)state;
    check_hash("", 0, 1, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    check_hash("abc", 3, 3, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    static const char two_blocks[] = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
    check_hash(two_blocks, strlen(two_blocks), 64,
               "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

static void pieces_hash_as_the_whole(void **state)
{
    (void)state;
    static char million[1000000];
    static const char wanted[] = "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0";
    memset(million, 'a', sizeof million);
    static const size_t steps[] = {sizeof million, 65536, 63, 7};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
        check_hash(million, sizeof million, steps[i], wanted);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_texts_have_their_known_hashes),
        cmocka_unit_test(pieces_hash_as_the_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
