/* Which layers work here, proved from inside a real box of each engine. */
#include "cli/command.h"
#include "cli/doctor.h"
#include "cli/report.h"

#include "keeper/run.h"
#include "os/landlock.h"

#include <errno.h>
#include <string.h>

struct finding {
    enum isolation engine;
    struct result *result; /* NULL: refused */
    struct error err;
    bool works;
};

static const struct supervise_io silent = {.forward_fd = {-1, -1}, .cancel_fd = -1};

static void examine(enum isolation engine, const struct policy *policy, struct finding *ret)
{
    *ret = (struct finding){.engine = engine};
    scope_spec *spec = spec_new();
    if (!spec)
        return;
    spec->is_ours = true;
    int status = spec_set_proof(spec, engine, &ret->err);
    if (status == 0)
        status = spec_set(spec, "image", "host", &ret->err);
    struct policy relaxed = *policy;
    relaxed.isolation_min = ISOLATION_PROCESS;
    if (status == 0)
        status = keeper_run(spec, &relaxed, &silent, &ret->result, &ret->err);
    ret->works = status == 0 && ret->result->cause == CAUSE_exit && ret->result->exit_code == 0;
    if (status == 0 && !ret->works)
        error_host(&ret->err, -EIO, "the proof run ended with cause %s", cause_names[ret->result->cause]);
}

static json_t *finding_to_json(const struct finding *finding)
{
    json_t *layers = json_array();
    for (size_t i = 0; finding->works && i < finding->result->layer_count; i++) {
        const struct result_layer *layer = &finding->result->layers[i];
        json_array_append_new(layers, json_pack("{s:s,s:b,s:s}", "name", layer->name, "active", layer->active,
                                                "detail", layer->detail));
    }
    return doctor_finding(isolation_names[finding->engine], layers,
                          finding->works ? NULL : finding->err.subject, finding->err.text);
}

int doctor_main(int argc, char **argv)
{
    struct doctor_options given = {0};
    int status = doctor_parse(argc, argv, &given);
    if (status != 0)
        return status > 0 ? 0 : -status;
    struct policy policy;
    struct error err = {0};
    if (policy_load(given.config_path, &policy, &err) < 0) {
        report_error("%s", err.text);
        return report_error_status(&err);
    }
    json_t *engines = json_array();
    bool works = false;
    for (int i = 0; i < ISOLATION_COUNT; i++) {
        struct finding finding;
        examine((enum isolation)i, &policy, &finding);
        if (i == (int)policy.isolation)
            works = finding.works;
        json_array_append_new(engines, finding_to_json(&finding));
        result_free(finding.result);
    }
    json_t *findings = json_pack("{s:s,s:b,s:i,s:o}", "default", isolation_names[policy.isolation], "works",
                                 works, "landlock_abi", landlock_abi(), "engines", engines);
    status = doctor_print(findings, given.json);
    json_decref(findings);
    policy_free(&policy);
    return status;
}
