/* What a doctor finds is one JSON object, whether found here or by a server. */
#pragma once

#include <jansson.h>
#include <stdbool.h>

struct doctor_options {
    const char *config_path;
    bool json;
};

/* 1: help was printed. Negative: the exit status of a line that is wrong, which was told. */
int doctor_parse(int argc, char **argv, struct doctor_options *into);

/* Of one engine: its layers {name, active, detail}, to which is added what they are for, and what the engine
 * cannot promise. missing: the layer that it lacks, may be ""; NULL: it works. */
json_t *doctor_finding(const char *engine, json_t *takes_layers, const char *missing, const char *reason);

/* Returns the exit status. */
int doctor_print(const json_t *findings, bool as_json);
