#include "keeper/spare.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/scope.h"
#include "base/text.h"
#include "engine/launch.h"
#include "keeper/shown.h"
#include "keeper/started.h"
#include "keeper/vetting.h"
#include "os/mount.h"
#include "os/process.h"
#include "runtime/program.h"
#include "runtime/runner.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

struct spare *spare_new(const struct kind *kind, const struct language_table *languages)
{
    struct spare *spare = calloc(1, sizeof *spare);
    struct result *result = result_new();
    if (!spare || !result) {
        free(spare);
        result_free(result);
        return NULL;
    }
    *spare = (struct spare){.kind = kind,
                            .languages = languages,
                            .language = language_named(languages, kind->language),
                            .lease = {.record = RECORD_UNSET},
                            .link = RUNNER_LINK_UNSET,
                            .result = result};
    box_init(&spare->lease.box);
    return spare;
}

int spare_make(const struct kind *kind, struct zygote *zygote, const struct limits *limits,
               enum runner_haste haste, const struct language_table *languages, struct spare **ret,
               struct error *err)
{
    struct spare *spare = spare_new(kind, languages);
    if (!spare)
        return error_host(err, -ENOMEM, "no memory for a spare");
    int status = zygote_fork(zygote, limits, haste, &spare->lease, &spare->link, spare->result, err);
    if (status < 0) {
        spare_destroy(spare);
        return status;
    }
    spare->zygote = zygote;
    spare->made_us = clock_monotonic_us();
    supervise_prepare(&spare->lease.box);
    *ret = spare;
    return 0;
}

int spare_make_place(const struct kind *kind, struct zygote *zygote, const struct limits *limits,
                     const struct language_table *languages, struct spare **ret, struct error *err)
{
    struct spare *spare = spare_new(kind, languages);
    if (!spare)
        return error_host(err, -ENOMEM, "no memory for a spare");
    int status = zygote_make_place(zygote, limits, &spare->lease, err);
    if (status < 0) {
        spare_destroy(spare);
        return status;
    }
    spare->zygote = zygote;
    supervise_prepare(&spare->lease.box);
    *ret = spare;
    return 0;
}

int spare_fill_place(struct spare *spare, enum runner_haste haste, struct error *err)
{
    int status = zygote_fill_place(spare->zygote, haste, &spare->lease, &spare->link, spare->result, err);
    spare->made_us = clock_monotonic_us();
    return status;
}

bool spare_is_dead(const struct spare *spare)
{
    /* Its init, or its program, which has nothing to say while it waits. */
    struct pollfd polled[] = {{.fd = spare->lease.box.pidfd, .events = POLLIN},
                              {.fd = spare->link.fd, .events = POLLIN}};
    return poll(polled, 2, 0) != 0;
}

enum { RLIMITS_OF_FORK = 6, SIGNALS_MAX = 1024 };

/* What a box has of it when it is started, which is what we have. */
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
static size_t list_fork_rlimits(const struct limits *limits, struct runner_rlimit *into)
{
    const int64_t *limit = limits->value;
    const struct runner_rlimit rows[RLIMITS_OF_FORK] = {
        {RLIMIT_NOFILE, limit[LIMIT_open_files]},
        {RLIMIT_FSIZE, limit[LIMIT_disk] + (1 << 20)},
        {RLIMIT_CPU, limit[LIMIT_cpu] / 1000 + 2},
        {RLIMIT_NPROC, at_most(RLIMIT_NPROC, 2 * limit[LIMIT_pids] + 64)},
        {RLIMIT_SIGPENDING, at_most(RLIMIT_SIGPENDING, SIGNALS_MAX)},
        {RLIMIT_MSGQUEUE, 0},
    };
    memcpy(into, rows, sizeof rows);
    return RLIMITS_OF_FORK;
}

/* What the program of a cold run finds. A fork that has namespaces has all of it but the spec's own from its
 * zygote. */
static int find_surroundings(const struct spare *spare, struct program *ret, struct error *err)
{
    const struct box *box = &spare->lease.box;
    if (spare->started)
        return started_program(spare, ret, err);
    const struct program_paths none = {.runtime = ""};
    return program_from_language(box, &spare->language->run, &none, NULL, ret, err);
}

/* Those of a cold box. Seconds of CPU that its start took are the process's, and not the run's. */
static size_t list_rlimits(const struct spare *spare, struct runner_rlimit *into)
{
    const struct box *box = &spare->lease.box;
    if (spare->zygote && box->engine->isolation == ISOLATION_CONTAINER)
        return list_fork_rlimits(box->limits, into);
    struct launch_rlimit rows[PLAN_RLIMITS];
    size_t listed = launch_list_rlimits(box, rows), count = 0;
    for (size_t i = 0; i < listed; i++) {
        if (rows[i].resource == RLIMIT_CORE) /* it is always the same, and the filter lets nobody touch it */
            continue;
        int64_t used_s = (box->debt.cpu_user_us + box->debt.cpu_system_us) / 1000000;
        int64_t value = rows[i].value + (rows[i].resource == RLIMIT_CPU ? used_s : 0);
        into[count++] = (struct runner_rlimit){rows[i].resource, at_most(rows[i].resource, value)};
    }
    return count;
}

static bool differs(const struct limits *one, const struct limits *other, const enum limit_field *fields,
                    size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (one->value[fields[i]] != other->value[fields[i]])
            return true;
    return false;
}

/* What the watchdog enforces it reads when it looks. */
int spare_take_limits(struct spare *spare, const struct limits *wanted, struct error *err)
{
    static const enum limit_field of_group[] = {LIMIT_memory, LIMIT_pids, LIMIT_cpus},
                                  of_scratch[] = {LIMIT_disk, LIMIT_inodes};
    struct lease *lease = &spare->lease;
    struct limits former = lease->limits;
    lease->limits = *wanted;
    int status = 0;
    if (lease->box.group.version != CGROUP_NONE &&
        differs(&former, wanted, of_group, sizeof of_group / sizeof *of_group))
        status = lease->box.engine->limit(&lease->box, err);
    if (status == 0 && !lease->box.engine->in_directory &&
        differs(&former, wanted, of_scratch, sizeof of_scratch / sizeof *of_scratch)) {
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
    if (!text_is_file_name(name, strlen(name)))
        return -EINVAL; /* it was checked before; but this is where it would matter */
    snprintf(path, sizeof path, BOX_CODE "/%s", name);
    scope_fd fd =
        openat(spare->lease.box.scratch_fd, path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0444);
    if (fd < 0 || fchmod(fd, 0444) < 0) /* whatever our umask is */
        return -errno;
    return code->length ? file_write_all(fd, code->data, code->length) : 0;
}

static int give_program(struct spare *spare, const struct spec *spec, const struct json_t *vet,
                        struct process_apart *ret_apart, struct error *err)
{
    struct box *box = &spare->lease.box;
    const char *name = language_code_name(spare->languages, spare->language, spec->code_name);
    char place[PATH_MAX], path[PATH_MAX + NAME_MAX + 2];
    snprintf(path, sizeof path, "%s/%s", box->engine->path_of(box, "code", place, sizeof place), name);
    struct program program __attribute__((cleanup(program_free))) = {0};
    struct runner_rlimit rlimits[PLAN_RLIMITS];
    struct runner_program order = {.path = path,
                                   .arguments = &spec->arguments,
                                   .environment = &spec->environment,
                                   .rlimits = rlimits,
                                   .rlimit_count = list_rlimits(spare, rlimits)};
    if (spare->kind->preloads) /* it is all there: it need not read its own file */
        order.code = (struct slice){spec->code.data ? spec->code.data : "", spec->code.length};
    else if (vet) /* it brings none of its own, for most have nothing to look at */
        order.code = runner_vetter(spare->kind->language);
    bool is_held = vet && vetting_holds(spec);
    order.vet = vet;
    order.shows = spec->wants_results;
    scope_buffer frame = {0};
    bool is_plain = box->engine->isolation == ISOLATION_PROCESS;
    int status = spare->started || is_plain ? find_surroundings(spare, &program, err) : 0;
    if (spare->started)
        order.command = &program.arguments;
    if (spare->started || is_plain)
        order.environment = &program.environment;
    bool is_late = spare->kind->preloads; /* it has things to do while we write its file */
    order.waits = is_late || is_held;
    if (status == 0 && !is_late)
        status = write_code(spare, name, &spec->code);
    if (status == 0)
        status = runner_write_main(&frame, &order);
    struct process_apart apart = {0};
    /* It is let go before its first line: a program sees all its CPUs. */
    if (spare->is_alone && is_late)
        (spare->is_expecting ? process_stay : process_stay_apart)(&apart, box->program_pid);
    box->started_us = clock_monotonic_us();
    if (status == 0)
        status = runner_link_send(&spare->link, &frame, NULL, 0);
    if (status == 0 && is_late)
        status = write_code(spare, name, &spec->code);
    process_let_roam(&apart);
    if (status == 0 && order.waits && !is_held) /* else when it was looked at */
        status = send(spare->link.fd, "g", 1, MSG_NOSIGNAL) == 1 ? 0 : -errno;
    if (spare->zygote) /* all that init has to do is to end, and not where we are */
        process_keep_off(&apart, box->pid);
    *ret_apart = apart;
    return status < 0 ? error_host(err, status, "cannot give a spare its program") : 0;
}

void spare_note_debt(struct spare *spare)
{
    struct box *box = &spare->lease.box;
    struct measurement now = {0};
    box->engine->measure(box, &now);
    box->debt.cpu_user_us = now.cpu_user_us;
    box->debt.cpu_system_us = now.cpu_system_us;
}

/* Who comes to nothing (a question about our state, a client that goes away) is paid for by nobody: what it
 * took to look out for others is no part of the run that comes at last. And it is told so often at most, for
 * the kernel's own limit of CPU time knows of no debt: together that is less than that limit has to spare. */
void spare_expect(struct spare *spare)
{
    enum { EXPECTATIONS_MAX = 1000 };
    struct process_apart apart;
    struct slice soon = runner_soon();
    spare->is_expecting = false;
    if (spare->expectations >= EXPECTATIONS_MAX || spare_is_dead(spare))
        return;
    if (spare->expectations++ > 0)
        spare_note_debt(spare);
    process_send_away(&apart, spare->lease.box.program_pid);
    if (apart.they_are)
        spare->is_expecting =
            send(spare->link.fd, soon.data, soon.length, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)soon.length;
    process_let_roam(&apart);
}

int spare_run(struct spare *spare, const struct spec *spec, const struct policy *policy,
              const struct supervise_io *io, int target_fd, struct result **ret, struct error *err)
{
    struct box *box = &spare->lease.box;
    struct vetting vetting __attribute__((cleanup(vetting_close)));
    struct shown shown __attribute__((cleanup(shown_close))) = {0};
    struct supervise_io own_io = *io;
    struct process_apart apart = {0};
    int status = spare_take_limits(spare, &spec->limits, err);
    box->spec = spec;
    if (status == 0 && spec->grant_count)
        status = box->engine->show_inputs(box, err);
    if (status == 0 && box->counts_itself)
        spare_note_debt(spare); /* its kernel is never quite idle */
    vetting_open(&vetting, spec, policy, spare->kind->language, &spare->link);
    if (vetting.order && vetting_holds(spec))
        own_io.word = &vetting.word;
    if (status == 0 && spec->wants_results) {
        status =
            shown_open(&shown, spec, io, spare->result, &spare->link, vetting.order ? &vetting : NULL, err);
        own_io.word = &shown.word;
    }
    if (status == 0)
        status = give_program(spare, spec, vetting.order, &apart, err);
    if (status < 0) {
        process_roam(&apart);
        return -EAGAIN; /* it died while it waited, or cannot serve: nothing of the program has begun */
    }
    spare->result->isolation = spec->isolation;
    status = supervise_run(box, &own_io, spare->result, err);
    process_roam(&apart);
    if (status == 0 && spec->wants_results)
        shown_finish(&shown);
    if (status == 0) {
        vetting_finish(&vetting, spare->result);
        vetting_conclude(spec, spare->kind->language, spare->result);
    }
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
    if (spare->zygote)
        zygote_release(spare->zygote);
    started_free(spare->started);
    result_free(spare->result);
    free(spare);
}
