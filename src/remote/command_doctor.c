/* cloche --server URL doctor: what a server found out about its machine. */
#include "remote/remote.h"

#include "cli/command.h"
#include "cli/doctor.h"
#include "cli/report.h"

#include <string.h>

/* The server tells less, and in its own words; what is missing is added, so that it is shown as here. */
static json_t *translate(const json_t *told)
{
    const char *normal = remote_text(told, "default");
    const json_t *found = json_object_get(told, "engines");
    json_t *engines = json_array();
    bool works = false;
    for (size_t i = json_array_size(found); i-- > 0;) {
        const json_t *engine = json_array_get(found, i);
        const char *name = remote_text(engine, "isolation");
        bool is_usable = json_is_true(json_object_get(engine, "usable"));
        json_t *layers = json_deep_copy(json_object_get(engine, "layers"));
        works |= is_usable && strcmp(name, normal) == 0;
        json_array_append_new(engines, doctor_finding(name, layers ? layers : json_array(),
                                                      is_usable ? NULL : "", remote_text(engine, "problem")));
    }
    return json_pack("{s:s, s:b, s:o}", "default", normal, "works", works, "engines", engines);
}

int doctor_main(int argc, char **argv)
{
    struct error err = {0};
    struct doctor_options given = {0};
    struct http *http = NULL;
    json_t *told = NULL;
    int status = doctor_parse(argc, argv, &given);
    if (status != 0)
        return status > 0 ? 0 : -status;
    if (given.config_path)
        status = error_spec(&err, "config", "config: a server has its own; leave --server away");
    if (status == 0)
        status = remote_connect(&http, &err);
    if (status == 0)
        status = http_ask(http, "GET", "/v1/doctor", NULL, &told, &err);
    json_t *findings = status == 0 ? translate(told) : NULL;
    status = findings ? doctor_print(findings, given.json) : remote_fail(&err);
    json_decref(findings);
    json_decref(told);
    http_close(http);
    return status;
}
