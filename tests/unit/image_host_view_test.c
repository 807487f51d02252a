/* What of the host a box may see. */
#include "harness.h"

#include "image/host_view.h"

static void programs_and_what_they_need_are_shown(void **state)
{
    (void)state;
    static const char *const shown[] = {"/usr",
                                        "/usr/bin/python3",
                                        "/bin/sh",
                                        "/sbin",
                                        "/lib",
                                        "/lib64/ld-linux-x86-64.so.2",
                                        "/etc/ld.so.cache",
                                        "/etc/alternatives/awk",
                                        "/etc/localtime",
                                        "/etc/ssl/certs/ca-certificates.crt",
                                        "/etc/ssl/openssl.cnf",
                                        "/etc/os-release"};
    for (size_t i = 0; i < sizeof shown / sizeof *shown; i++)
        if (!host_view_shows(shown[i]))
            fail_msg("%s is hidden", shown[i]);
}

static void nothing_else_is_shown(void **state)
{
    (void)state;
    static const char *const hidden[] = {
        "/", "", "usr", "usr/bin", "/home", "/home/user", "/root", "/root/.ssh", "/var", "/var/lib", "/run",
        "/srv", "/opt", "/opt/tool", "/tmp", "/proc", "/sys", "/dev", "/boot", "/mnt", "/media", "/etc",
        "/etc/", "/etc/passwd", "/etc/shadow", "/etc/ssl", "/etc/ssl/private", "/etc/ssl/private/key.pem",
        "/etc/hostname", "/etc/hosts", "/etc/machine-id", "/etc/cloche.conf", "/etc/resolv.conf",
        "/etc/sudoers", "/etc/ssh/ssh_host_rsa_key", "/etc/fstab",
        /* names that only begin like a shown one */
        "/usr2", "/usrlocal", "/library", "/binary", "/etc/ld.so.cache~", "/etc/profile.d",
        "/etc/ssl/certs-private", "/etc/magic.key", "/optional"};
    for (size_t i = 0; i < sizeof hidden / sizeof *hidden; i++)
        if (host_view_shows(hidden[i]))
            fail_msg("%s is shown", hidden[i]);
}

static void lists_name_nothing_secret(void **state)
{
    (void)state;
    static const char *const secrets[] = {"passwd",  "shadow",      "gshadow",     "group",      "ssh",
                                          "sudoers", "ssl",         "ssl/private", "machine-id", "hostname",
                                          "hosts",   "cloche.conf", "krb5.keytab"};
    for (size_t i = 0; host_view_etc[i]; i++) {
        assert_true(host_view_etc[i][0] != '/' && !strstr(host_view_etc[i], ".."));
        for (size_t j = 0; j < sizeof secrets / sizeof *secrets; j++)
            if (strcmp(host_view_etc[i], secrets[j]) == 0)
                fail_msg("/etc/%s is in the list", secrets[j]);
    }
    for (size_t i = 0; host_view_trees[i]; i++)
        assert_null(strchr(host_view_trees[i], '/'));
}

static void shown_of_etc_can_be_read_by_everybody(void **state)
{
    (void)state;
    for (size_t i = 0; host_view_etc[i]; i++) {
        char path[256];
        struct stat status;
        snprintf(path, sizeof path, "/etc/%s", host_view_etc[i]);
        assert_true(host_view_shows(path));
        if (stat(path, &status) == 0 && !(status.st_mode & 0004))
            fail_msg("%s is closed to others on this machine, and shown", path);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(programs_and_what_they_need_are_shown),
        cmocka_unit_test(nothing_else_is_shown),
        cmocka_unit_test(lists_name_nothing_secret),
        cmocka_unit_test(shown_of_etc_can_be_read_by_everybody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
