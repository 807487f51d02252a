/* Any bytes as the operator's configuration: read whole, or refused with the line that is wrong. */
#include "fuzz.h"

#include "base/file.h"
#include "base/scope.h"
#include "spec/policy.h"

#include <string.h>
#include <sys/mman.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    scope_fd fd = memfd_create("config", MFD_CLOEXEC);
    check(fd >= 0 && file_write_all(fd, data, size) == 0, "the input can be put into a file");
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    struct policy policy;
    struct error err = {0};
    if (policy_load(path, &policy, &err) < 0) {
        check(err.kind == ERROR_SPEC && err.code < 0, "a refusal is the operator's fault");
        check(strstr(err.text, path) != NULL, "a refusal names the file");
        return 0;
    }
    check(!memchr(data, '\0', size), "no line is hidden behind a zero byte");
    for (int i = 0; i < LIMIT_FIELDS; i++) {
        check(policy.defaults.value[i] >= 0 && policy.ceilings.value[i] >= 0, "no limit is negative");
        check(policy.defaults.value[i] <= policy.ceilings.value[i], "no default is above its ceiling");
    }
    check(policy.isolation < ISOLATION_COUNT && policy.isolation_min < ISOLATION_COUNT,
          "engines are of the table");
    check(policy.image != NULL, "there is an image");
    check(strcmp(policy.source, path) == 0, "the policy knows where it is from");
    policy_free(&policy);
    return 0;
}
