/* Filters on top of another one, each time in a child that wears it. */
#include "harness.h"

#include "os/seccomp/filter.h"

#include <sys/prctl.h>
#include <sys/syscall.h>

static void ids_body(void *data)
{
    const uint32_t first = 2000000, own = first + 5, foreign = first + 100;
    (void)data;
    must(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    must(seccomp_ids_install(first, 100) == 0);
    must(syscall(SYS_setgroups, 1, &own) < 0 && errno == EPERM);
    must(syscall(SYS_setgroups, 0, NULL) == 0);
    must(syscall(SYS_setresgid, own, own, foreign) < 0 && errno == EPERM);
    must(syscall(SYS_setresgid, own, 0, own) < 0 && errno == EPERM);
    must(syscall(SYS_setresgid, first - 1, own, own) < 0 && errno == EPERM);
    must(syscall(SYS_setregid, own, foreign) < 0 && errno == EPERM);
    must(syscall(SYS_setgid, 0) < 0 && errno == EPERM);
    must(syscall(SYS_setfsuid, foreign) < 0 && errno == EPERM);
    must(syscall(SYS_setresgid, first, own, first + 99) == 0);
    must(syscall(SYS_setreuid, own, -1) == 0 && syscall(SYS_setresuid, own, own, own) == 0);
    must(getuid() == own && geteuid() == own && getegid() == own);
}

static void only_ids_of_the_range_can_be_taken(void **state)
{
    (void)state;
    if (geteuid() != 0)
        skip_because("only root can take ids");
    in_child(ids_body, NULL);
}

static void removed_body(void *data)
{
    (void)data;
    must(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    must(seccomp_call_remove(SYS_membarrier) == 0);
    must(syscall(SYS_membarrier, 0, 0, 0) < 0 && errno == ENOSYS);
    must(getppid() > 0);
    must(seccomp_filter_install(POLICY_CONTAINER, NULL) == 0);
    must(syscall(SYS_membarrier, 0, 0, 0) < 0 && errno == ENOSYS);
}

static void call_that_is_removed_stays_so_and_is_the_only_one(void **state)
{
    (void)state;
    in_child(removed_body, NULL);
}

static void unprepared_body(void *data)
{
    (void)data;
    become_some_user();
    must(seccomp_call_remove(SYS_membarrier) == -EACCES);
}

static void failure_to_remove_is_told(void **state)
{
    (void)state;
    in_child(unprepared_body, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_ids_of_the_range_can_be_taken),
        cmocka_unit_test(call_that_is_removed_stays_so_and_is_the_only_one),
        cmocka_unit_test(failure_to_remove_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
