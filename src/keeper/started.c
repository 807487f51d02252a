#include "keeper/started.h"

#include "base/clock.h"
#include "base/scope.h"
#include "os/process_tree.h"
#include "runtime/program.h"
#include "runtime/runner.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { READY_MS = 20000, PRELOAD_MS = 120000 };

struct started {
    struct spec *spec;
    struct image *image;
    struct cgroup_layout cgroups;
    const char *runtime; /* the row's */
};

void started_free(struct started *started)
{
    if (!started)
        return;
    spec_free(started->spec);
    image_free(started->image);
    free(started);
}

static int make_spec(const struct started_terms *terms, struct spec **ret, struct error *err)
{
    scope_spec *spec = spec_new();
    if (!spec)
        return error_host(err, -ENOMEM, "no memory for a spare");
    spec->limits = terms->kind->lowers ? *terms->highest : *terms->usual;
    for (int i = 0; i < LIMIT_FIELDS; i++)
        spec->limit_set[i] = true;
    int status = spec_set(spec, "isolation", isolation_names[terms->kind->isolation], err);
    if (status == 0)
        status = spec_set(spec, "language", terms->kind->language, err);
    if (status == 0)
        status = spec_set(spec, "image", terms->image, err);
    if (status == 0)
        status = runner_prepare_spare(spec, err);
    if (status == 0)
        status = spec_validate(spec, terms->policy, err);
    if (status < 0)
        return status;
    *ret = spec;
    spec = NULL;
    return 0;
}

/* The row that a cold run would take; it must know how to wait. */
static int find_language(struct spare *spare, struct error *err)
{
    struct started *started = spare->started;
    const char *compiler;
    const struct language_wanted wanted = {.name = spare->kind->language, .image = started->image};
    int index = language_find(spare->languages, &wanted, 0, &started->runtime, &compiler);
    if (index < 0)
        return language_explain_missing(spare->languages, &wanted, err);
    spare->language = &spare->languages->rows[index];
    return spare->language->spare.run.count
               ? 0
               : error_spec(err, "language", "language: the operator's own '%s' has no spares",
                            spare->language->name);
}

static int open_box(struct spare *spare, struct error *err)
{
    struct started *started = spare->started;
    const struct language *row = spare->language;
    struct lease *lease = &spare->lease;
    if (engine_of(started->spec->isolation)->uses_groups)
        cgroup_layout_find(&started->cgroups);
    int status = lease_open(lease,
                            &(struct lease_terms){.spec = started->spec,
                                                  .image = started->image,
                                                  .cgroups = &started->cgroups,
                                                  .limits = &started->spec->limits},
                            err);
    struct box *box = &lease->box;
    box->wants_channel = box->is_spare = true;
    const struct program_paths paths = {.runtime = started->runtime, .code_name = row->spare_file};
    if (status == 0)
        status =
            program_from_language(box, &row->spare, &paths, &started->spec->arguments, &lease->program, err);
    lease->program.code = (struct slice){started->spec->code.data, started->spec->code.length};
    lease->program.code_executable = strcmp(row->spare.run.items[0], "{code}") == 0;
    if (status == 0)
        status = box->engine->start(box, spare->result, err);
    if (status < 0)
        return status;
    spare->link.fd = take_fd(&box->channel_fd);
    return 0;
}

/* There is no supervisor yet: calls that the filter asks about are answered here. */
static int await_ready(struct spare *spare, int timeout_ms, struct error *err)
{
    struct box *box = &spare->lease.box;
    int64_t deadline_us = clock_monotonic_us() + (int64_t)timeout_ms * 1000;
    int listener_fd = box->listener_fd;
    for (;;) {
        struct pollfd polled[] = {{.fd = spare->link.fd, .events = POLLIN},
                                  {.fd = listener_fd, .events = POLLIN}};
        int64_t left_ms = (deadline_us - clock_monotonic_us()) / 1000;
        if (left_ms <= 0)
            return error_host(err, -ETIMEDOUT, "%s was not ready in time", spare->kind->name);
        if (poll(polled, 2, (int)left_ms) < 0 && errno != EINTR)
            return error_host(err, -errno, "cannot wait for a spare");
        const char *call = NULL;
        if (polled[1].revents & POLLIN && box->engine->answer(box, &call))
            return error_host(err, -EPERM, "%s made a call that ends a box: %s", spare->kind->name,
                              call ? call : "");
        if (polled[1].revents & ~POLLIN)
            listener_fd = -1; /* nobody is left under the filter */
        if (polled[0].revents)
            return runner_link_await_ready(&spare->link, (int)left_ms, err);
    }
}

static int64_t memory_of(struct box *box)
{
    struct measurement now = {0};
    box->engine->measure(box, &now);
    return now.memory_bytes;
}

/* What is imported beforehand is not what the program takes: where groups count, pages that are there already
 * count too, as a cold interpreter's do. */
static int preload(struct spare *spare, const struct string_list *modules, struct error *err)
{
    struct box *box = &spare->lease.box;
    scope_buffer frame = {0};
    int64_t before = memory_of(box);
    int status = runner_write_preload(&frame, modules, false);
    if (status == 0)
        status = runner_link_send(&spare->link, &frame, NULL, 0);
    if (status < 0)
        return error_host(err, status, "cannot tell a spare what to import");
    status = await_ready(spare, PRELOAD_MS, err);
    if (status == 0 && box->group.version == CGROUP_NONE) {
        int64_t grown = memory_of(box) - before;
        box->debt.memory_bytes = grown > 0 ? grown : 0;
        box->debt.bare_bytes = before;
    }
    return status;
}

static void drop_output(int fd)
{
    char dropped[4096];
    while (fd >= 0 && read(fd, dropped, sizeof dropped) > 0)
        ;
}

/* From here on the box looks like one in which nothing has happened yet. */
static int settle(struct spare *spare, const struct limits *usual, struct error *err)
{
    struct box *box = &spare->lease.box;
    char path[300];
    snprintf(path, sizeof path, BOX_CODE "/%s", spare->language->spare_file);
    if (!spare->language->spare_stays && unlinkat(box->scratch_fd, path, 0) < 0)
        return error_host(err, -errno, "cannot remove the runner of a spare");
    drop_output(box->stdout_fd);
    drop_output(box->stderr_fd);
    if (process_tree_list(box->pid, &box->program_pid, 1) == 0)
        return error_host(err, -ESRCH, "a spare has no program");
    int status = spare_take_limits(spare, usual, err);
    spare_note_debt(spare);
    supervise_prepare(box);
    return status;
}

int started_make(const struct started_terms *terms, struct spare **ret, struct error *err)
{
    struct spare *spare = spare_new(terms->kind, terms->languages);
    struct started *started = calloc(1, sizeof *started);
    if (!spare || !started) {
        spare_destroy(spare);
        free(started);
        return error_host(err, -ENOMEM, "no memory for a spare");
    }
    spare->started = started;
    int status = make_spec(terms, &started->spec, err);
    if (status == 0)
        status = image_open(terms->policy->image_store, started->spec->image, &started->image, err);
    if (status == 0)
        status = find_language(spare, err);
    if (status == 0)
        status = open_box(spare, err);
    if (status == 0)
        status = await_ready(spare, READY_MS, err);
    if (status == 0 && terms->kind->preloads)
        status = preload(spare, terms->preload, err);
    if (status == 0)
        status = settle(spare, terms->usual, err);
    if (status < 0) {
        lease_add_last_words(&spare->lease, err);
        spare_destroy(spare);
        return status;
    }
    spare->made_us = clock_monotonic_us();
    *ret = spare;
    return 0;
}

int started_program(const struct spare *spare, struct program *ret, struct error *err)
{
    const struct spec *spec = spare->lease.box.spec;
    const struct program_paths paths = {
        .runtime = spare->started->runtime,
        .code_name = language_code_name(spare->languages, spare->language, spec->code_name)};
    return program_from_language(&spare->lease.box, &spare->language->run, &paths, &spec->arguments, ret,
                                 err);
}
