#include "keeper/vetting.h"

#include "base/json_text.h"
#include "base/scope.h"
#include "runtime/runner.h"

#include <ctype.h>
#include <errno.h>
#include <jansson.h>
#include <stdint.h>
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
    if (vet_report_mode(takes_report) == VET_only) {
        snprintf(result->detail, sizeof result->detail, "the code was looked at, and did not run");
    } else {
        struct vet_finding first = {0};
        long long more = vet_report_more(takes_report);
        size_t count = vet_report_warnings(takes_report, &first);
        snprintf(result->detail, sizeof result->detail,
                 "the code did not run: %zu%s finding%s, the first in line %lld: %.300s", count,
                 more ? " or more" : "", count == 1 ? "" : "s", first.line,
                 first.message ? first.message : "");
    }
    result_take_vet(result, takes_report);
}

json_t *vetting_failure(const struct spec *spec, const struct result *ended)
{
    char message[VET_TEXT_MAX];
    snprintf(message, sizeof message, "the parser did not come to an end with the code (%s%s%.300s)",
             cause_names[ended->cause], ended->detail[0] ? ": " : "", ended->detail);
    return vet_report_of_host(
        spec->vet,
        (struct vet_finding){.line = 1,
                             .column = 1,
                             .rule = "parser",
                             .message = message,
                             .advice = "make the code simpler or smaller, so that it can be read"});
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
    if (status < 0)
        return status == -EPIPE ? 1 : -EPROTO;
    return vetting_take(vetting, &event);
}

int vetting_take(struct vetting *vetting, const struct runner_event *event)
{
    if (event->kind == RUNNER_vet)
        vetting->report = vet_report_read(vetting->spec->vet, event->body);
    if (!vetting_holds(vetting->spec))
        return 1;
    if (!vetting->report) /* not a word that a vetter says: nothing is let go on that account */
        return -EPROTO;
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
    if (!vetting_holds(vetting->spec) && !vetting->spec->wants_results &&
        runner_link_hear(vetting->link, &event, &ignored) > 0 && event.kind == RUNNER_vet)
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

/* ---- what is said of code that nobody has read ---- */

/* How interpreters complain of what they cannot import. */
static const struct complaint {
    const char *mark, *code_name;
    bool is_last; /* nothing comes after it */
    const char *letters;
} complaints[] = {
    {"ModuleNotFoundError: No module named '", "main.py", true, "_."},
    {"Error: Cannot find module '", "main.js", false, "_.-/@"},
    {"Error [ERR_MODULE_NOT_FOUND]: Cannot find package '", "main.js", false, "_.-/@"},
};

/* The name in a line that is such a complaint; these are words of a guest. */
static const struct complaint *read_complaint(const char *line, bool is_last, char *name, size_t size)
{
    for (size_t i = 0; i < sizeof complaints / sizeof *complaints; i++) {
        const struct complaint *complaint = &complaints[i];
        const char *from = line + strlen(complaint->mark);
        if (strncmp(line, complaint->mark, strlen(complaint->mark)) != 0 || (complaint->is_last && !is_last))
            continue;
        size_t length = strcspn(from, "'\n");
        bool is_name =
            length > 0 && length < size && from[length] == '\'' && from[0] != '.' && from[0] != '/';
        for (size_t k = 0; is_name && k < length; k++)
            is_name = isalnum((unsigned char)from[k]) || strchr(complaint->letters, from[k]);
        if (!is_name)
            return NULL;
        snprintf(name, size, "%.*s", (int)length, from);
        return complaint;
    }
    return NULL;
}

/* The first line of the program itself that the complaint names: main.py", line 3 or main.js:3:11. */
static long long line_of_program(const char *text, const char *code_name)
{
    static const char *const seams[] = {"\", line ", ":"};
    for (const char *at = strstr(text, code_name); at; at = strstr(at + 1, code_name)) {
        for (size_t i = 0; i < sizeof seams / sizeof *seams; i++) {
            const char *number = at + strlen(code_name) + strlen(seams[i]);
            if (strncmp(at + strlen(code_name), seams[i], strlen(seams[i])) != 0)
                continue;
            long line = strtol(number, NULL, 10);
            if (isdigit((unsigned char)*number) && line > 0 && line <= INT32_MAX)
                return line;
        }
    }
    return 1;
}

/* A program that was not read, and ended for want of a package: the same advice, only later. */
static void tell_missing(const struct spec *spec, struct result *result)
{
    enum { TAIL_BYTES = 4096 };
    char tail[TAIL_BYTES + 1], name[129], message[256];
    const struct buffer *said = &result->errors.kept;
    size_t length = said->length < TAIL_BYTES ? said->length : TAIL_BYTES;
    if (result->cause != CAUSE_exit || result->exit_code != 1 || result->errors.dropped_bytes || !length)
        return;
    memcpy(tail, said->data + said->length - length, length);
    for (size_t i = 0; i < length; i++)
        if (!tail[i])
            tail[i] = ' ';
    while (length && isspace((unsigned char)tail[length - 1]))
        length--;
    tail[length] = '\0';
    const struct complaint *found = NULL;
    for (const char *line = tail; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        const struct complaint *complaint = read_complaint(line, !strchr(line, '\n'), name, sizeof name);
        found = complaint ? complaint : found;
    }
    if (!found)
        return;
    bool is_wasm = result->isolation == ISOLATION_WASM;
    snprintf(message, sizeof message, "needs package %s, which %s", name,
             is_wasm ? "the engine wasm does not have" : "is not in the image");
    const struct vet_finding finding = {
        .line = line_of_program(tail, spec->code_name ? spec->code_name : found->code_name),
        .column = 1,
        .rule = "missing",
        .message = message,
        .advice = is_wasm ? "use the standard library, or another engine"
                          : "use a package that the image has, or an image that has this one",
        .is_note = true};
    result_take_vet(result, vet_report_of_host(spec->vet, finding));
}

void vetting_conclude(const struct spec *spec, const char *language, struct result *result)
{
    char message[128];
    if (spec->vet == VET_off || result->vet)
        return;
    if (!spec->has_vet || (language && runner_vetter(language).length)) {
        tell_missing(spec, result);
        return;
    }
    snprintf(message, sizeof message, "not read: %.64s has no reader", language ? language : "a command");
    result_take_vet(result, vet_report_of_host(
                                spec->vet, (struct vet_finding){.line = 1,
                                                                .column = 1,
                                                                .rule = "unread",
                                                                .message = message,
                                                                .advice = "python and javascript can be read "
                                                                          "before they run",
                                                                .is_note = true}));
}

int vetting_write_input(const struct spec *spec, const struct policy *policy, struct buffer *into)
{
    json_t *order = vet_order(spec->vet, true, &policy->vetting);
    if (order && spec->isolation == ISOLATION_WASM) /* another engine reads it, which has other packages */
        json_object_set_new(order, "engine", json_string(isolation_names[ISOLATION_WASM]));
    scope_free char *text = order ? json_text(order, JSON_COMPACT) : NULL;
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
