/* Which addresses names may lead to: the first and the last of every range, and their neighbours. */
#include "harness.h"

#include "gateway/address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>

/* In place of the C library's: a machine with as many addresses as a test wants, from 93.0.0.0 on; or none
 * that can be told. */
static struct {
    uint32_t first;
    int count;
    bool is_silent;
} machine;

int getifaddrs(struct ifaddrs **ret)
{
    if (machine.is_silent) {
        errno = EMFILE;
        return -1;
    }
    *ret = NULL;
    for (int i = machine.count; i-- > 0;) {
        struct ifaddrs *item = calloc(1, sizeof *item);
        struct sockaddr_in *address = calloc(1, sizeof *address);
        assert_true(item && address);
        *address = (struct sockaddr_in){.sin_family = AF_INET,
                                        .sin_addr.s_addr = htonl(machine.first + (uint32_t)i)};
        *item = (struct ifaddrs){.ifa_next = *ret, .ifa_addr = (struct sockaddr *)address};
        *ret = item;
    }
    return 0;
}

void freeifaddrs(struct ifaddrs *list)
{
    while (list) {
        struct ifaddrs *next = list->ifa_next;
        free(list->ifa_addr);
        free(list);
        list = next;
    }
}

static const char *fault_of(const char *text)
{
    struct sockaddr_in four = {.sin_family = AF_INET};
    struct sockaddr_in6 six = {.sin6_family = AF_INET6};
    if (inet_pton(AF_INET, text, &four.sin_addr) == 1)
        return address_fault((const struct sockaddr *)&four);
    assert_int_equal(inet_pton(AF_INET6, text, &six.sin6_addr), 1);
    return address_fault((const struct sockaddr *)&six);
}

static void inner_addresses_are_none(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "0.0.0.0",
        "0.255.255.255",
        "10.0.0.0",
        "10.255.255.255",
        "100.64.0.0",
        "100.127.255.255",
        "100.100.100.200",
        "127.0.0.0",
        "127.255.255.255",
        "168.63.129.16",
        "169.254.0.0",
        "169.254.169.254",
        "169.254.255.255",
        "172.16.0.0",
        "172.31.255.255",
        "192.0.0.0",
        "192.0.0.255",
        "192.0.2.0",
        "192.0.2.255",
        "192.88.99.1",
        "192.168.0.0",
        "192.168.255.255",
        "198.18.0.0",
        "198.19.255.255",
        "198.51.100.7",
        "203.0.113.7",
        "224.0.0.0",
        "239.255.255.255",
        "240.0.0.0",
        "255.255.255.255",
        "::",
        "::1",
        "::7f00:1",
        "::ffff:1.1.1.1",
        "::ffff:127.0.0.1",
        "64:ff9b::1.1.1.1",
        "64:ff9b:1::1",
        "100::1",
        "2001::1",
        "2001:1ff:ffff::1",
        "2001:db8::1",
        "2002:7f00:1::",
        "2002:101:101::1",
        "3fff::1",
        "3fff:fff::1",
        "fc00::1",
        "fd00:ec2::254",
        "fe80::1",
        "fec0::1",
        "ff02::1",
        "4000::1",
        "5f00::1",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (!fault_of(texts[i]))
            fail_msg("%s may be led to", texts[i]);
}

static void public_addresses_are_some(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "1.0.0.0",         "1.1.1.1",         "9.255.255.255",  "11.0.0.0",        "100.63.255.255",
        "100.128.0.0",     "168.63.129.15",   "168.63.129.17",  "126.255.255.255", "128.0.0.0",
        "169.253.255.255", "169.255.0.0",     "172.15.255.255", "172.32.0.0",      "192.0.1.0",
        "192.0.3.0",       "192.167.255.255", "192.169.0.0",    "198.17.255.255",  "198.20.0.0",
        "223.255.255.255", "2001:200::1",     "2001:db7::1",    "2001:db9::1",     "2606:4700::1111",
        "2a00::1",         "3ffe::1",         "3fff:1000::1",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (fault_of(texts[i]))
            fail_msg("%s is %s", texts[i], fault_of(texts[i]));
}

static void other_families_are_none(void **state)
{
    (void)state;
    const struct sockaddr local = {.sa_family = AF_UNIX};
    assert_non_null(address_fault(&local));
}

static void own_addresses_are_none(void **state)
{
    (void)state;
    machine.first = 0x5d000000;
    machine.count = 256;
    assert_null(fault_of("93.0.0.255"));
    assert_int_equal(address_learn_own(), 0);
    assert_string_equal(fault_of("93.0.0.0"), "this machine's own");
    assert_string_equal(fault_of("93.0.0.255"), "this machine's own");
    assert_null(fault_of("93.0.1.0"));
}

static void who_does_not_know_its_addresses_is_told(void **state)
{
    (void)state;
    machine.first = 0x5d000000;
    machine.count = 257;
    assert_int_equal(address_learn_own(), -E2BIG);
    machine.is_silent = true;
    assert_int_equal(address_learn_own(), -EMFILE);
    machine.is_silent = false;
}

static void inner_addresses_of_ones_own_take_no_room(void **state)
{
    (void)state;
    machine.first = 0x0a000000; /* bridges of many containers */
    machine.count = 5000;
    assert_int_equal(address_learn_own(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(inner_addresses_are_none),
        cmocka_unit_test(public_addresses_are_some),
        cmocka_unit_test(other_families_are_none),
        cmocka_unit_test(own_addresses_are_none),
        cmocka_unit_test(who_does_not_know_its_addresses_is_told),
        cmocka_unit_test(inner_addresses_of_ones_own_take_no_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
