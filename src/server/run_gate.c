#include "server/run_gate.h"

#include "server/admission.h"
#include "server/gate.h"
#include "server/problem.h"
#include "server/run_job.h"
#include "server/server.h"

#include <string.h>

/* The code as it runs, or the command line: what tells one run from another. */
static struct slice code_of(const struct run_job *job, struct buffer *command)
{
    const struct spec *spec = job->request.spec;
    const json_t *words = json_object_get(job->request.body, "command");
    if (spec->has_code)
        return (struct slice){spec->code.data ? spec->code.data : "", spec->code.length};
    for (size_t i = 0; i < json_array_size(words); i++) {
        const json_t *word = json_array_get(words, i);
        if (buffer_append(command, json_string_value(word), json_string_length(word) + 1) < 0)
            break;
    }
    return (struct slice){command->data ? command->data : "", command->length};
}

/* A command has none, unless it says so. */
static const char *language_of(const struct spec *spec)
{
    return spec->language ? spec->language : spec->has_code ? "python" : NULL;
}

/* What it may leave on our disk is known only at its end: until then it is the most that can be. */
static int64_t kept_most(const struct run_job *job, const struct limits *limits)
{
    return job->request.collect == RUN_COLLECT_LIST
               ? 0
               : limits->value[LIMIT_collect] + limits->value[LIMIT_collect_files] * RUN_ROOM_FILE_BYTES;
}

int run_gate_enter(struct run_job *job)
{
    struct limits limits;
    int status = gate_limits(job->exchange, job->request.spec, &limits);
    if (status < 0)
        return status;
    const struct admission_need need = {.memory_bytes = limits.value[LIMIT_memory],
                                        .claimed_memory_bytes = limits.value[LIMIT_memory],
                                        .millicpus = limits.value[LIMIT_cpus],
                                        .disk_bytes = limits.value[LIMIT_disk],
                                        .kept_bytes = kept_most(job, &limits)};
    status = gate_enter(job->exchange, &need, &job->pass);
    if (status < 0)
        return status;
    scope_buffer command = {0};
    const json_t *body = job->request.body;
    const char *image = json_string_value(json_object_get(body, "image"));
    const struct gate_run run = {
        .id = job->id,
        .language = language_of(job->request.spec),
        .isolation = isolation_names[job->request.spec->isolation],
        .image = image ? image : job->server->policy.image,
        .code = code_of(job, &command),
        .limits = &limits,
    };
    gate_note(job->pass, job->exchange, &run);
    return 0;
}

/* The list of files is in the keeper's text only; most runs have none, and need no look at it. */
static json_t *files_of(const struct run_job *job)
{
    static const char none[] = "\"files\":[]";
    if (memmem(job->json.data, job->json.length, none, sizeof none - 1))
        return NULL;
    json_t *object = json_loadb(job->json.data, job->json.length, JSON_ALLOW_NUL, NULL);
    json_t *files = json_incref(json_object_get(object, "files"));
    json_decref(object);
    return files;
}

void run_gate_refuse(struct run_job *job, const struct error *err)
{
    const char *code = problem_code(err);
    if (strcmp(code, "host_failure") == 0)
        return; /* which is what is written if nothing is said */
    const struct gate_outcome outcome = {.refusal = code, .detail = err->text, .exit_code = -1};
    gate_end(job->pass, 0, &outcome);
}

void run_gate_leave(struct run_job *job)
{
    if (job->pass && job->json.length) { /* there is a result */
        json_t *files = files_of(job);
        const struct gate_outcome outcome = {.cause = cause_names[job->result->cause],
                                             .detail = job->result->detail,
                                             .isolation = isolation_names[job->result->isolation],
                                             .exit_code = job->result->exit_code,
                                             .usage = &job->result->usage,
                                             .files = files};
        gate_end(job->pass, 0, &outcome);
        json_decref(files);
    }
    gate_leave(&job->pass);
}
