#include "keeper/vetting.h"

#include "base/scope.h"
#include "runtime/runner.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

int vetting_check(const struct spec *spec, const char *language, struct error *err)
{
    if (!spec->vet_thorough || spec->vet <= VET_warn)
        return 0;
    if (!runner_vetter(language).length)
        return error_spec(
            err, "vet",
            "vet: '%s' needs code that can be read before it runs: python or javascript, not '%.64s'",
            vet_mode_names[spec->vet], language);
    if (spec->vet == VET_restricted && spec->isolation == ISOLATION_WASM)
        return error_spec(err, "vet",
                          "vet: 'restricted' needs a package of the image, which the engine wasm has not");
    if (spec->vet == VET_restricted && strcmp(language, "python") != 0)
        return error_spec(err, "vet", "vet: 'restricted' is for python, not '%.64s'", language);
    return 0;
}

bool vetting_is_due(const struct spec *spec, const char *language, bool is_warm)
{
    bool is_free = is_warm && strcmp(language, "python") == 0;
    return spec->vet != VET_off && (spec->vet_thorough || is_free) && runner_vetter(language).length;
}

bool vetting_holds(const struct spec *spec)
{
    return spec->vet > VET_warn;
}

void vetting_stop(struct result *result, json_t *takes_report)
{
    result->cause = CAUSE_vetted;
    result->exit_code = -1;
    result->signal = 0;
    result->timed_out = false;
    result->denied_syscall[0] = '\0';
    size_t count = vet_report_count(takes_report);
    if (vet_report_mode(takes_report) == VET_only) {
        snprintf(result->detail, sizeof result->detail, "the code was looked at, and did not run");
    } else {
        struct vet_finding first = vet_report_finding(takes_report, 0);
        snprintf(result->detail, sizeof result->detail,
                 "the code did not run: %lld finding%s, the first in line %lld: %.300s",
                 (long long)count + vet_report_more(takes_report), count == 1 ? "" : "s", first.line,
                 first.message ? first.message : "");
    }
    result_take_vet(result, takes_report);
}

json_t *vetting_failure(const struct spec *spec, const struct result *ended)
{
    char message[VET_TEXT_MAX];
    snprintf(message, sizeof message, "the parser did not come to an end with the code (%s%s%.300s)",
             cause_names[ended->cause], ended->detail[0] ? ": " : "", ended->detail);
    return vet_report_failure(spec->vet, message);
}

/* Called when the vetter has said something, or has ended. */
static int hear(void *data)
{
    struct vetting *vetting = data;
    struct runner_event event;
    struct error ignored = {0};
    int status = runner_link_hear(vetting->link, &event, &ignored);
    if (status == 0)
        return 0;
    if (status > 0 && event.kind == RUNNER_vet)
        vetting->report = vet_report_read(vetting->spec->vet, event.body);
    if (!vetting->report) /* not a word that a vetter says: nothing is let go on that account */
        return status == -EPIPE ? 1 : -EPROTO;
    if (vetting->spec->vet == VET_only || vet_report_blocks(vetting->report))
        return -EPERM;
    return send(vetting->link->fd, "g", 1, MSG_NOSIGNAL) == 1 ? 1 : -errno;
}

void vetting_open(struct vetting *vetting, const struct spec *spec, const struct policy *policy,
                  const char *language, struct runner_link *link)
{
    *vetting = (struct vetting){.spec = spec, .link = link};
    if (vetting_is_due(spec, language, true)) {
        vetting->order = vet_order(spec->vet, spec->vet_thorough, &policy->vetting);
        vetting->word = (struct supervise_word){.fd = link->fd, .hear = hear, .data = vetting};
    }
}

void vetting_close(struct vetting *vetting)
{
    json_decref(vetting->order);
    json_decref(vetting->report);
}

void vetting_finish(struct vetting *vetting, struct result *result)
{
    struct runner_event event;
    struct error ignored = {0};
    if (!vetting->order)
        return;
    if (!vetting_holds(vetting->spec) && runner_link_hear(vetting->link, &event, &ignored) > 0 &&
        event.kind == RUNNER_vet)
        vetting->report = vet_report_read(vetting->spec->vet, event.body);
    json_t *report = vetting->report;
    vetting->report = NULL;
    if (!vetting_holds(vetting->spec)) {
        result_take_vet(result, report);
    } else if (!report) {
        if (result->cause != CAUSE_cancelled && result->cause != CAUSE_host_failure)
            vetting_stop(result, vetting_failure(vetting->spec, result));
    } else if (result->cause == CAUSE_vetted) {
        vetting_stop(result, report);
    } else {
        result_take_vet(result, report);
    }
}

int vetting_write_input(const struct spec *spec, const struct policy *policy, struct buffer *into)
{
    json_t *order = vet_order(spec->vet, true, &policy->vetting);
    scope_free char *text = order ? json_dumps(order, JSON_COMPACT) : NULL;
    json_decref(order);
    int status = text ? buffer_print(into, "%s\n", text) : -ENOMEM;
    return status < 0 ? status
                      : buffer_append(into, spec->code.data ? spec->code.data : "", spec->code.length);
}

int vetting_write_restricted(const struct spec *spec, const char *name, struct buffer *into)
{
    struct slice world = runner_restricted();
    int status = buffer_append(into, world.data, world.length);
    if (status == 0) /* the name is a file name that was checked; it comes in quotes all the same */
        status = buffer_append_text(into, "\n\nrun(bytes.fromhex(\"");
    for (size_t i = 0; status == 0 && i < spec->code.length; i++)
        status = buffer_print(into, "%02x", (unsigned char)spec->code.data[i]);
    if (status == 0)
        status = buffer_append_text(into, "\"), bytes.fromhex(\"");
    for (; status == 0 && *name; name++)
        status = buffer_print(into, "%02x", (unsigned char)*name);
    return status < 0 ? status : buffer_append_text(into, "\").decode(\"utf-8\", \"replace\"))\n");
}
