#include "keeper/run.h"

#include "base/file.h"
#include "base/scope.h"
#include "keeper/choose.h"
#include "keeper/collect.h"
#include "keeper/lease.h"
#include "keeper/shown.h"
#include "keeper/vetting.h"
#include "runtime/language.h"
#include "runtime/program.h"
#include "runtime/runner.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ARTIFACT_MAX = 128 << 20, VETTER_MS = 10000 };

/* Ends of a run before its own program: not failures, but all that there is. */
enum { STEP_NOT_COMPILED = 1, STEP_VETTED };

/* All that the steps of one run share. */
struct run {
    struct spec *spec;
    const struct policy *policy;
    const struct supervise_io *io;
    struct image *image;
    struct language_table languages;
    struct cgroup_layout cgroups;
    const struct language *language;
    struct program_paths paths;
    int target_fd; /* where collected files go; -1: nowhere */
};

struct step {
    const struct limits *limits;
    const struct language_step *row; /* NULL: the spec's command */
    struct slice code;
    bool code_executable;
    const char *artifact; /* of a compile step: what to take instead of collecting */
    struct buffer *ret_artifact;
    const struct supervise_io *io;
    struct shown *shown;                 /* NULL: it shows nothing */
    const struct string_list *arguments; /* NULL: the spec's */
};

static const struct supervise_io silent_io = {.forward_fd = {-1, -1}, .cancel_fd = -1};

/* The artifact of a compile step, or the files of a run. */
static int collect_step(const struct run *run, const struct step *step, struct lease *lease,
                        struct result *result, struct error *err)
{
    if (!step->artifact) {
        scope_fd chosen = step->io->target ? step->io->target(step->io->data) : -1;
        return lease_collect(lease, chosen >= 0 ? chosen : run->target_fd, result, err);
    }
    if (lease->box.scratch_fd < 0 || result->cause != CAUSE_exit || result->exit_code != 0)
        return 0;
    scope_fd output = file_open_directory(lease->box.scratch_fd, "output");
    if (output < 0)
        return error_host(err, output, "cannot open the output directory of the box");
    return collect_one(output, step->artifact, ARTIFACT_MAX, step->ret_artifact, err);
}

static int prepare_program(const struct run *run, const struct step *step, struct box *box,
                           struct program *ret, struct error *err)
{
    if (!step->row)
        return program_from_command(box, ret, err);
    struct program_paths paths = run->paths;
    int status = program_from_language(box, step->row, &paths,
                                       step->artifact    ? NULL
                                       : step->arguments ? step->arguments
                                                         : &run->spec->arguments,
                                       ret, err);
    if (status == 0) {
        ret->code = step->code;
        ret->code_executable = step->code_executable;
    }
    return status;
}

/* One box: made, run, collected, gone. */
static int run_step(const struct run *run, const struct step *step, struct result *result, struct error *err)
{
    scope_lease lease;
    int status = lease_open(&lease,
                            &(struct lease_terms){.spec = run->spec,
                                                  .image = run->image,
                                                  .cgroups = &run->cgroups,
                                                  .limits = step->limits,
                                                  .lifetime_ms = step->io->lifetime_ms,
                                                  .limits_stay = !step->io->lifetime_ms},
                            err);
    struct box *box = &lease.box;
    box->wants_channel = step->io->with_channel;
    box->is_forkable = step->io->forkable;
    box->is_for_others = step->io->is_for_others;
    result->isolation = run->spec->isolation;
    if (status == 0)
        status = prepare_program(run, step, box, &lease.program, err);
    if (status == 0)
        status = box->engine->start(box, result, err);
    if (status == 0 && step->shown)
        status = shown_order(step->shown, box, run->paths.code_name, err);
    if (status == 0 && step->io->started)
        step->io->started(step->io->data, box);
    if (status == 0)
        status = supervise_run(box, step->io, result, err);
    if (status == 0 && step->shown)
        shown_finish(step->shown);
    if (status == 0)
        status = collect_step(run, step, &lease, result, err);
    if (step->io->ended) {
        if (box->is_forkable && box->engine)
            box->engine->stop(box); /* or a zygote's forks would not end, which are waited for */
        step->io->ended(step->io->data, box, status == 0 ? result : NULL);
    }
    if (lease_close(&lease) < 0)
        result->left_behind = true;
    return status;
}

/* A step of ours before the user's own: it must not eat the program's stdin. */
static int run_step_without_stdin(const struct run *run, const struct step *step, struct result *result,
                                  struct error *err)
{
    enum stdin_kind kept = run->spec->stdin_kind;
    run->spec->stdin_kind = STDIN_NONE;
    int status = run_step(run, step, result, err);
    run->spec->stdin_kind = kept;
    return status;
}

static bool probe_passes(const struct run *run, const struct language *row)
{
    struct language_step probe = {.run = row->probe};
    struct run probing = *run;
    probing.paths.code_name = NULL;
    struct step step = {.limits = &run->spec->compile_limits, .row = &probe, .io = &silent_io};
    struct result *result = result_new();
    struct error ignored = {0};
    bool passes = result && run_step_without_stdin(&probing, &step, result, &ignored) == 0 &&
                  result->cause == CAUSE_exit && result->exit_code == 0;
    result_free(result);
    return passes;
}

static int choose_language(struct run *run, struct error *err)
{
    const char *name = language_of_spec(&run->languages, run->spec);
    if (!name)
        return error_spec(err, "language",
                          "language: cannot tell from the name '%.64s', nor from a first line \"#!…\"; give "
                          "--language, or run it as a command: -- PROGRAM…",
                          run->spec->code_name);
    const struct language_wanted wanted = {
        .name = name, .image = run->image, .is_wasm = run->spec->isolation == ISOLATION_WASM};
    int index = -1;
    do {
        index = language_find(&run->languages, &wanted, (size_t)(index + 1), &run->paths.runtime,
                              &run->paths.compiler);
        if (index < 0)
            return language_explain_missing(&run->languages, &wanted, err);
        run->language = &run->languages.rows[index];
    } while (run->language->probe.count && !probe_passes(run, run->language));
    run->paths.artifact = run->language->artifact;
    run->paths.code_name = language_code_name(&run->languages, run->language, run->spec->code_name);
    return 0;
}

/* A context's code is the runner of its language, which may be started in another way than code is. */
static const struct language_step *choose_step(struct run *run)
{
    if (!run->io->with_channel || !run->language->context.run.count)
        return &run->language->run;
    run->paths.code_name = run->language->context_file;
    return &run->language->context;
}

/* A vetter is a program of the image, and the engine wasm runs none. */
static enum isolation engine_of_vetter(const struct run *run)
{
    enum isolation wanted = run->spec->isolation, usual = run->policy->isolation;
    if (wanted != ISOLATION_WASM)
        return wanted;
    if (usual != ISOLATION_WASM && usual >= run->policy->isolation_min)
        return usual;
    return run->policy->isolation_min == ISOLATION_WASM ? ISOLATION_CONTAINER : run->policy->isolation_min;
}

/* The row whose vetter reads the code; false: there is none. */
static bool find_vetter(struct run *vetting)
{
    if (vetting->spec->isolation == ISOLATION_WASM) {
        const struct language_wanted wanted = {.name = vetting->language->name, .image = vetting->image};
        int index =
            language_find(&vetting->languages, &wanted, 0, &vetting->paths.runtime, &vetting->paths.compiler);
        if (index < 0)
            return false;
        vetting->language = &vetting->languages.rows[index];
        cgroup_layout_find(&vetting->cgroups);
    }
    vetting->paths.code_name = vetting->language->vet_file;
    return vetting->language->vet.run.count > 0;
}

/* The vetter's own terms: nothing of the run's is in its box but the code, as its input, which it only reads.
 * A variable or a file of the user's could make another vetter of it. */
static int make_vetter_spec(const struct run *run, struct spec *into, struct error *err)
{
    const struct spec *spec = run->spec;
    into->isolation = engine_of_vetter(run);
    into->limits = spec->compile_limits;
    into->is_ours = true;
    static const enum limit_field times[] = {LIMIT_wall, LIMIT_cpu};
    for (size_t i = 0; i < sizeof times / sizeof *times; i++)
        if (into->limits.value[times[i]] > VETTER_MS)
            into->limits.value[times[i]] = VETTER_MS;
    into->stdin_kind = STDIN_BYTES;
    if (string_list_copy(&into->accepted, &spec->accepted) < 0 || !(into->image = strdup(spec->image)) ||
        vetting_write_input(spec, run->policy, &into->stdin_bytes) < 0)
        return error_host(err, -ENOMEM, "no memory for a vetter");
    into->has_isolation = into->has_code = true;
    for (int i = 0; i < LIMIT_FIELDS; i++)
        into->limit_set[i] = true;
    return spec_validate(into, run->policy, err); /* for what engines want to know of the operator */
}

/* How the vetter ended decides: its report, or that there is none. */
static int judge(const struct run *run, const struct result *vetter, struct result *result)
{
    const struct spec *spec = run->spec;
    const struct buffer *said = &vetter->output.kept;
    struct json_t *report =
        vetter->cause == CAUSE_exit && vetter->exit_code == 0
            ? vet_report_read(spec->vet, (struct slice){said->data ? said->data : "", said->length})
            : NULL;
    if (vetter->cause == CAUSE_cancelled) {
        result->cause = CAUSE_cancelled;
        result->signal = vetter->signal;
        return STEP_VETTED;
    }
    if (!report && vetting_holds(spec))
        report = vetting_failure(spec, vetter);
    if (vetting_holds(spec) && (spec->vet == VET_only || vet_report_blocks(report))) {
        vetting_stop(result, report);
        result->isolation = spec->isolation;
        result->usage = vetter->usage;
        result->times = vetter->times;
        return STEP_VETTED;
    }
    result_take_vet(result, report);
    return 0;
}

/* In a box of its own, before there is one for the code. STEP_VETTED: there will be none. */
static int vet_code(const struct run *run, struct result *result, struct error *err)
{
    const char *language = run->language->name;
    int status = vetting_check(run->spec, language, err);
    if (status < 0 || !vetting_is_due(run->spec, language, false))
        return status;
    struct run vetting = *run;
    if (!find_vetter(&vetting))
        return !vetting_holds(run->spec)
                   ? 0
                   : error_spec(
                         err, "vet",
                         "vet: nothing here reads '%s' before it runs: the image lacks it, or its row is "
                         "the operator's own",
                         language);
    scope_spec *spec = spec_new();
    struct result *vetter = result_new();
    status = spec && vetter ? make_vetter_spec(run, spec, err)
                            : error_host(err, -ENOMEM, "no memory for a vetter");
    if (status == 0) {
        struct supervise_io io = silent_io;
        io.cancel_fd = run->io->cancel_fd;
        vetting.spec = spec;
        vetting.target_fd = -1;
        struct step step = {.limits = &spec->limits,
                            .row = &vetting.language->vet,
                            .code = runner_vetter(language),
                            .io = &io};
        status = run_step(&vetting, &step, vetter, err);
    }
    if (status == 0)
        status = judge(run, vetter, result);
    result_free(vetter);
    return status;
}

/* A cell of a notebook: the program is the runner, which gets the code over its channel. */
static int run_cell(const struct run *run, const struct step *script, struct result *result,
                    struct error *err)
{
    struct runner_link link = RUNNER_LINK_UNSET; /* the descriptor is the box's */
    struct shown shown __attribute__((cleanup(shown_close))) = {0};
    struct string_list arguments __attribute__((cleanup(string_list_free))) = {0};
    struct supervise_io io = *run->io;
    struct step step = *script;
    char channel[16];
    snprintf(channel, sizeof channel, "%d", BOX_CHANNEL_FD);
    int status = string_list_add(&arguments, channel);
    if (status < 0)
        return error_host(err, status, "no memory for a runner");
    status = shown_open(&shown, run->spec, run->io, result, &link, NULL, err);
    io.word = &shown.word;
    io.with_channel = true;
    step.io = &io;
    step.code = runner_find(run->language->name)->code;
    step.arguments = &arguments;
    step.shown = &shown;
    if (status == 0)
        status = run_step(run, &step, result, err);
    link.fd = -1;
    runner_link_close(&link);
    return status;
}

static int run_code(struct run *run, struct result *result, struct error *err)
{
    int status = choose_language(run, err);
    if (status == 0)
        status = shown_check(run->spec, run->language->name, err);
    if (status == 0 && !run->spec->is_ours)
        status = vet_code(run, result, err);
    if (status != 0)
        return status;
    scope_buffer restricted = {0};
    scope_buffer artifact = {0};
    const struct language_step *row = choose_step(run);
    struct step step = {.limits = &run->spec->limits,
                        .row = row,
                        .code = {run->spec->code.data ? run->spec->code.data : "", run->spec->code.length},
                        /* A row that names no program of the image runs the code itself, or has it run. */
                        .code_executable = row->find.count == 0 || strcmp(row->run.items[0], "{code}") == 0,
                        .io = run->io};
    if (run->spec->vet == VET_restricted) {
        if (vetting_write_restricted(run->spec, run->paths.code_name, &restricted) < 0)
            return error_host(err, -ENOMEM, "no memory for the code");
        step.code = (struct slice){restricted.data, restricted.length};
    }
    if (run->language->has_compile) {
        result->compile = result_new();
        if (!result->compile)
            return error_host(err, -ENOMEM, "no memory for a result");
        struct supervise_io io = silent_io;
        io.cancel_fd = run->io->cancel_fd;
        struct step compile = {.limits = &run->spec->compile_limits,
                               .row = &run->language->compile,
                               .code = step.code,
                               .artifact = run->language->artifact,
                               .ret_artifact = &artifact,
                               .io = &io};
        status = run_step_without_stdin(run, &compile, result->compile, err);
        if (status < 0)
            return status;
        if (result->compile->cause != CAUSE_exit || result->compile->exit_code != 0)
            return STEP_NOT_COMPILED;
        step.code = (struct slice){artifact.data ? artifact.data : "", artifact.length};
        run->paths.code_name = run->language->artifact;
    }
    status = run->spec->wants_results ? run_cell(run, &step, result, err) : run_step(run, &step, result, err);
    if (status == 0)
        vetting_conclude(run->spec, run->language->name, result);
    return status;
}

static int run_command(struct run *run, struct result *result, struct error *err)
{
    struct step step = {.limits = &run->spec->limits, .io = run->io};
    int status = shown_check(run->spec, NULL, err);
    if (status == 0)
        status = run_step(run, &step, result, err);
    if (status == 0)
        vetting_conclude(run->spec, NULL, result);
    return status;
}

/* A failed compile is the result: its messages are what the user needs, in the place where they look. */
static void take_compile_failure(struct result *result, const struct supervise_io *io)
{
    struct result *compile = result->compile;
    result->cause = compile->cause;
    result->exit_code = compile->exit_code;
    result->signal = compile->signal;
    result->timed_out = compile->timed_out;
    result->isolation = compile->isolation;
    result->usage = compile->usage;
    snprintf(result->denied_syscall, sizeof result->denied_syscall, "%s", compile->denied_syscall);
    snprintf(result->detail, sizeof result->detail, "the code could not be compiled%s%.400s",
             compile->detail[0] ? ": " : "", compile->detail);
    const struct buffer *texts[] = {&compile->output.kept, &compile->errors.kept};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        if (!texts[i]->length)
            continue;
        buffer_append(&result->errors.kept, texts[i]->data, texts[i]->length);
        if (io->output)
            io->output(io->data, STREAM_STDERR, texts[i]->data, texts[i]->length);
    }
}

int keeper_run(struct spec *spec, const struct policy *policy, const struct supervise_io *io,
               struct result **ret, struct error *err)
{
    int status = spec_validate(spec, policy, err);
    if (status < 0 || !spec->is_auto)
        return status < 0 ? status : keeper_run_validated(spec, policy, io, ret, err);
    struct choice choice;
    status = choose_engine(spec, policy, &choice, err);
    choice_free(&choice);
    if (status == 0)
        status = spec_take_isolation(spec, policy, choice.isolation, err);
    if (status == 0)
        status = keeper_run_validated(spec, policy, io, ret, err);
    if (status == 0)
        snprintf((*ret)->chosen, sizeof(*ret)->chosen, "%s", choice.reason);
    return status;
}

/* Nothing was asked for: then it is what the image was made to run. */
static int take_images_command(struct spec *spec, const struct image *image, struct error *err)
{
    if (spec->has_code || spec->command.count)
        return 0;
    if (!image->own_command.count)
        return error_spec(
            err, "command",
            "nothing to run: image '%s' does not name a command of its own; give a FILE, -e CODE, "
            "or -- COMMAND",
            image->name);
    const char *directory = image->own_directory;
    if (!spec->working_directory && directory && directory[0] == '/' &&
        !(spec->working_directory = strdup(directory)))
        return error_host(err, -ENOMEM, "no memory for a command");
    int status = string_list_copy(&spec->command, &image->own_command);
    return status < 0 ? error_host(err, status, "no memory for a command") : 0;
}

int keeper_run_validated(struct spec *spec, const struct policy *policy, const struct supervise_io *io,
                         struct result **ret, struct error *err)
{
    struct run run = {.spec = spec, .policy = policy, .io = io};
    scope_image *image = NULL;
    if (spec->isolation == ISOLATION_WASM && io->with_channel)
        return error_spec(err, "isolation",
                          "isolation: wasm keeps nothing from run to run: it has no contexts");
    int status = image_open(policy->image_store, spec->image, &image, err);
    if (status == 0)
        status = take_images_command(spec, image, err);
    if (status < 0)
        return status;
    run.image = image;
    scope_fd target = collect_open_target_of(spec, err);
    if (target < 0 && (spec->output_directory || spec->output_fd >= 0))
        return target;
    run.target_fd = target;
    if (engine_of(spec->isolation)->uses_groups)
        cgroup_layout_find(&run.cgroups);
    struct result *result = result_new();
    if (!result)
        return error_host(err, -ENOMEM, "no memory for a result");
    if (spec->wants_results) /* also of code that does not run */
        result->shown = json_array();
    if (spec->command.count) {
        status = run_command(&run, result, err);
    } else {
        status = language_table_load(&policy->languages, &run.languages, err);
        if (status == 0)
            status = run_code(&run, result, err);
        if (status == STEP_NOT_COMPILED)
            take_compile_failure(result, io);
        language_table_free(&run.languages);
    }
    if (status < 0) {
        result_free(result);
        return status;
    }
    *ret = result;
    return 0;
}
