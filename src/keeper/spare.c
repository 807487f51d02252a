#include "keeper/spare.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/scope.h"
#include "os/mount.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define CODE_NAME "main.py"

int spare_make(struct zygote *zygote, const struct limits *limits, struct spare **ret, struct error *err)
{
    struct spare *spare = calloc(1, sizeof *spare);
    struct result *result = result_new();
    if (!spare || !result) {
        free(spare);
        result_free(result);
        return error_host(err, -ENOMEM, "no memory for a spare");
    }
    spare->result = result;
    spare->zygote = zygote;
    int status = zygote_fork(zygote, limits, &spare->lease, &spare->link, result, err);
    if (status < 0) {
        result_free(result);
        free(spare);
        return status;
    }
    supervise_prepare(&spare->lease.box);
    *ret = spare;
    return 0;
}

bool spare_is_dead(const struct spare *spare)
{
    /* Its init, or its program, which has nothing to say while it waits. */
    struct pollfd polled[] = {{.fd = spare->lease.box.pidfd, .events = POLLIN},
                              {.fd = spare->link.fd, .events = POLLIN}};
    return poll(polled, 2, 0) != 0;
}

enum { RLIMITS = 6, SIGNALS_MAX = 1024 };

/* What the zygote has of it, which is what we have. */
static int64_t at_most(int resource, int64_t wanted)
{
    struct rlimit own;
    bool is_lower = getrlimit((__rlimit_resource_t)resource, &own) == 0 && own.rlim_max < (rlim_t)wanted;
    return is_lower ? (int64_t)own.rlim_max : wanted;
}

/* Resource limits come from the zygote, whose are the operator's highest; those of the run are lower. The
 * interpreter sets them before it looks at the code: for us, it would take a privilege that root may lack.
 * Processes and signals that wait are counted for all forks of a zygote together, against what it may have
 * itself: no box may have so many that others get none. */
static size_t list_rlimits(const struct limits *limits, struct runner_rlimit *into)
{
    const int64_t *limit = limits->value;
    const struct runner_rlimit rows[RLIMITS] = {
        {RLIMIT_NOFILE, limit[LIMIT_open_files]},
        {RLIMIT_FSIZE, limit[LIMIT_disk] + (1 << 20)},
        {RLIMIT_CPU, limit[LIMIT_cpu] / 1000 + 2},
        {RLIMIT_NPROC, at_most(RLIMIT_NPROC, 2 * limit[LIMIT_pids] + 64)},
        {RLIMIT_SIGPENDING, at_most(RLIMIT_SIGPENDING, SIGNALS_MAX)},
        {RLIMIT_MSGQUEUE, 0},
    };
    memcpy(into, rows, sizeof rows);
    return RLIMITS;
}

static bool differs(const struct limits *one, const struct limits *other, const enum limit_field *fields,
                    size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (one->value[fields[i]] != other->value[fields[i]])
            return true;
    return false;
}

/* A spare was made with the operator's defaults. */
static int take_limits(struct spare *spare, const struct limits *wanted, struct error *err)
{
    static const enum limit_field of_group[] = {LIMIT_memory, LIMIT_pids, LIMIT_cpus},
                                  of_scratch[] = {LIMIT_disk, LIMIT_inodes};
    struct lease *lease = &spare->lease;
    struct limits former = lease->limits;
    lease->limits = *wanted;
    int status = 0;
    if (differs(&former, wanted, of_group, sizeof of_group / sizeof *of_group)) {
        const struct cgroup_limits limits = {.memory_bytes = wanted->value[LIMIT_memory],
                                             .pids = wanted->value[LIMIT_pids] + 1,
                                             .millicpus = wanted->value[LIMIT_cpus]};
        status = cgroup_limit(&lease->box.group, &limits, err);
        if (status == 0)
            status = cgroup_verify(&lease->box.group, &limits, lease->box.program_pid, err);
    }
    if (status == 0 && differs(&former, wanted, of_scratch, sizeof of_scratch / sizeof *of_scratch)) {
        status = mount_resize(lease->box.scratch_fd, wanted->value[LIMIT_disk], wanted->value[LIMIT_inodes]);
        if (status < 0)
            error_host(err, status, "cannot resize the scratch space of a spare");
    }
    return status;
}

/* The directory is ours, below a root that only we can name: nobody can have put anything there. */
static int write_code(const struct spare *spare, const char *name, const struct buffer *code)
{
    char path[300];
    snprintf(path, sizeof path, BOX_CODE "/%s", name);
    scope_fd fd =
        openat(spare->lease.box.scratch_fd, path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0444);
    if (fd < 0)
        return -errno;
    return code->length ? file_write_all(fd, code->data, code->length) : 0;
}

static int give_program(struct spare *spare, const struct spec *spec, struct error *err)
{
    const char *name = spec->code_name && spec->code_name[0] != '.' && strlen(spec->code_name) <= 128 &&
                               !strchr(spec->code_name, '/')
                           ? spec->code_name
                           : CODE_NAME;
    char path[256];
    snprintf(path, sizeof path, "/code/%s", name);
    struct runner_rlimit rlimits[RLIMITS];
    const struct runner_program program = {
        .path = path,
        .code = {spec->code.data ? spec->code.data : "", spec->code.length},
        .arguments = &spec->arguments,
        .environment = &spec->environment,
        .rlimits = rlimits,
        .rlimit_count = list_rlimits(&spec->limits, rlimits)};
    scope_buffer frame = {0};
    int status = write_code(spare, name, &spec->code);
    if (status == 0)
        status = runner_write_main(&frame, &program, false);
    spare->lease.box.started_us = clock_monotonic_us();
    if (status == 0)
        status = runner_link_send(&spare->link, &frame, NULL, 0);
    return status < 0 ? error_host(err, status, "cannot give a spare its program") : 0;
}

int spare_run(struct spare *spare, const struct spec *spec, const struct supervise_io *io, int target_fd,
              struct result **ret, struct error *err)
{
    struct box *box = &spare->lease.box;
    int status = take_limits(spare, &spec->limits, err);
    box->spec = spec;
    if (status == 0 && spec->grant_count)
        status = box->engine->show_inputs(box, err);
    if (status == 0)
        status = give_program(spare, spec, err);
    if (status < 0)
        return -EAGAIN; /* it died while it waited, or cannot serve: nothing of the program has begun */
    spare->result->isolation = spec->isolation;
    status = supervise_run(box, io, spare->result, err);
    if (status == 0)
        status = lease_collect(&spare->lease, target_fd, spare->result, err);
    if (status == 0) {
        *ret = spare->result;
        spare->result = NULL;
    }
    return status;
}

int64_t spare_private_bytes(const struct spare *spare)
{
    char path[64], text[4096];
    snprintf(path, sizeof path, "/proc/%d/smaps_rollup", (int)spare->lease.box.program_pid);
    if (file_read_attribute(AT_FDCWD, path, text, sizeof text) <= 0)
        return 0;
    /* Clean pages are the page cache's: any process that maps the same library has them. */
    const char *at = strstr(text, "Private_Dirty:");
    return at ? strtoll(at + strlen("Private_Dirty:"), NULL, 10) * 1024 : 0;
}

void spare_destroy(struct spare *spare)
{
    if (!spare)
        return;
    runner_link_close(&spare->link);
    lease_close_at_scope_end(&spare->lease);
    zygote_release(spare->zygote);
    result_free(spare->result);
    free(spare);
}
