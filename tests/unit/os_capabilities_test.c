/* Capabilities, given up in children of root's. */
#include "harness.h"

#include "os/capabilities.h"

#include <linux/capability.h>
#include <sys/prctl.h>

static bool capabilities_have(int capability)
{
    uint64_t held;
    return capabilities_effective(&held) == 0 && (held >> capability & 1);
}

static void given_up_body(void *data)
{
    (void)data;
    must(capabilities_have(CAP_CHOWN) && capabilities_have(CAP_SETPCAP));
    must(!capabilities_are_none() && !capabilities_bounding_is_empty());
    must(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, CAP_CHOWN, 0, 0) == 0);
    must(capabilities_drop_bounding() == 0);
    must(capabilities_bounding_is_empty() && !capabilities_are_none());
    must(capabilities_drop_all() == 0);
    must(capabilities_are_none());
    for (int capability = 0; capability <= CAP_LAST_CAP; capability++)
        must(!capabilities_have(capability));
    must(chown("/", 0, 0) == 0 || errno == EPERM || errno == EROFS);
    must(setresuid(SOME_USER, SOME_USER, SOME_USER) < 0 && errno == EPERM);
}

static void all_are_given_up_for_good(void **state)
{
    (void)state;
    need_root();
    in_child(given_up_body, NULL);
}

static void inherited_body(void *data)
{
    (void)data;
    /* Inheritable and ambient ones survive an exec: they count. */
    must(prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) == 0);
    must(setresuid(SOME_USER, SOME_USER, SOME_USER) == 0);
    must(!capabilities_have(CAP_CHOWN));
    must(!capabilities_are_none()); /* still permitted */
    must(capabilities_raise() == 0);
    must(capabilities_have(CAP_CHOWN));
    must(capabilities_drop_all() == 0);
    must(capabilities_are_none());
    must(capabilities_raise() == 0 && capabilities_are_none()); /* there is nothing to raise */
}

static void permitted_ones_can_be_raised_until_they_are_dropped(void **state)
{
    (void)state;
    need_root();
    in_child(inherited_body, NULL);
}

static void kept_body(void *data)
{
    const uint64_t kept = UINT64_C(1) << CAP_SETUID | UINT64_C(1) << CAP_SETGID;
    (void)data;
    must(capabilities_inherit(kept) == 0 && prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) == 0);
    must(capabilities_drop_bounding() == 0);
    must(setresuid(SOME_USER, SOME_USER, SOME_USER) == 0);
    must(capabilities_keep(kept) == 0);
    must(capabilities_are(kept) && !capabilities_are(kept | UINT64_C(1) << CAP_CHOWN) &&
         !capabilities_are_none());
    must(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, CAP_SETUID, 0, 0) == 1); /* so it outlives an exec */
    must(capabilities_keep(kept) == 0);                                        /* again, by init's child */
    must(capabilities_keep(kept | UINT64_C(1) << CAP_CHOWN) == -EPERM);
    must(setresuid(SOME_USER + 1, SOME_USER + 1, SOME_USER + 1) == 0);
    must(capabilities_drop_all() == 0 && capabilities_are_none());
    must(setresuid(SOME_USER, SOME_USER, SOME_USER) < 0 && errno == EPERM);
}

static void some_are_kept_without_the_others(void **state)
{
    (void)state;
    need_root();
    in_child(kept_body, NULL);
}

static void user_body(void *data)
{
    (void)data;
    become_some_user();
    must(capabilities_are_none());
    must(!capabilities_have(CAP_SYS_ADMIN));
    must(capabilities_drop_all() == 0);
    must(capabilities_bounding_is_empty() || capabilities_drop_bounding() == -EPERM);
}

static void ordinary_user_has_none_and_may_say_so(void **state)
{
    (void)state;
    in_child(user_body, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_are_given_up_for_good),
        cmocka_unit_test(permitted_ones_can_be_raised_until_they_are_dropped),
        cmocka_unit_test(some_are_kept_without_the_others),
        cmocka_unit_test(ordinary_user_has_none_and_may_say_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
