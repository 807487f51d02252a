/* What the operator set: defaults and ceilings of limits, where images are, which languages there are more.
 *
 * One file, /etc/cloche.conf or --config FILE, `name = value` a line, # for comments:
 *   memory = 1G              the default of a limit
 *   memory.max = 8G          its ceiling
 *   image = data             the default image
 *   isolation = container    the default engine, or auto: chosen per run (keeper/choose.h)
 *   isolation.min = container              which the default engine follows up
 *   vet = warn               the mode of the first filter (spec/vet.h) for runs that name none
 *   vet.min = block          the least strict that a run may ask for
 *   vet.block_modules = os, shutil     what it finds beside the built-in lists; also vet.allow_modules, which
 *                            takes from those, vet.only_modules (all others are found), vet.block_calls and
 *                            vet.allow_calls (may be given several times)
 *   accept = memory          every run does without this limit where the host cannot enforce it, or cpus, or
 *                            without a kernel of its own where the runtime has none
 *   oci_runtime = /usr/bin/runsc           what makes the boxes of the engine gvisor
 *   oci_platform = systrap   how that one catches system calls: or kvm, ptrace
 *   fetch.hosts = api.example.com, *.example.org
 *                            what modules may be allowed to fetch from (spec/fetch.h); also fetch.requests,
 *                            fetch.body, fetch.response, fetch.wall, fetch.ca
 *   image_store = /srv/images
 *   languages = /etc/cloche/ruby.json      (may be given several times)
 *   preload = numpy, pandas  what warm interpreters have imported
 *   preload.ml = numpy, sklearn            another such set, for runs that ask for it
 *   warm = data ml           an image, and its usual set, for which boxes are ready from the start (may be
 *                            given several times); warm.images = 4 how many images more, while runs ask for
 *                            them, and warm.idle = 10m how long after the last
 *   server.memory = 8G       what runs of `cloche serve` may use at one time; server.cpus the same
 *   server.queue = 256       how many may wait for that; server.queue_wait = 30s how long
 *   server.names = box.example, other.example
 *                            under which a server on loopback is reached, through a proxy
 *   server.sandbox_runs = 100000
 *                            how many runs a live sandbox may have at most
 *   upload_quota = 16G       of the files that one tenant of a server keeps
 *   upload_lifetime = 168h   after which they go, at the latest */
#pragma once

#include "base/bytes.h"
#include "base/error.h"
#include "spec/fetch.h"
#include "spec/limits.h"
#include "spec/vet.h"
#include "spec/warm.h"

#include <stdbool.h>

enum isolation {
    ISOLATION_PROCESS, /* in order of strength */
    ISOLATION_WASM,    /* a process box around Wasmtime */
    ISOLATION_CONTAINER,
    ISOLATION_GVISOR, /* any OCI runtime, see engine/oci */
    ISOLATION_COUNT,
};

extern const char *const isolation_names[ISOLATION_COUNT];
int isolation_find(const char *name, struct error *err);

/* For a server: its budget for runs (0: by the machine), and who may wait for it. */
struct policy_server {
    int64_t memory_bytes, millicpus, queue_depth, queue_wait_ms;
    int64_t sandbox_runs;     /* of one live sandbox, at most */
    struct string_list names; /* hosts, without a port */
};

struct policy {
    struct limits defaults;
    bool default_set[LIMIT_FIELDS]; /* by the operator: must then be below the ceiling */
    struct limits ceilings;
    enum isolation isolation; /* the usual one, also of runs that choose */
    enum isolation isolation_min;
    bool isolation_set; /* by the operator: must then not be below the minimum */
    bool is_auto;       /* runs that name no engine choose */
    enum vet_mode vet, vet_min;
    bool vet_set; /* by the operator: runs are vetted also where it costs time */
    struct vet_policy vetting;
    struct warm_policy warm;
    struct string_list accepted; /* of spec_acceptable */
    char *image;
    char *image_store; /* NULL: the default place */
    struct string_list languages;
    char *oci_runtime, *oci_platform; /* of gvisor boxes; NULL: runsc, and its systrap */
    struct fetch_policy fetch;
    struct policy_server server;
    int64_t upload_quota_bytes, upload_lifetime_ms;
    char source[256]; /* the file that it came from, or "built-in" */
};

/* path NULL: /etc/cloche.conf if it is there. A wrong line is an error that names file, line, key and value.
 */
int policy_load(const char *path, struct policy *ret, struct error *err);
/* Who runs code and who configures is one, where there is no configuration: for what the caller starts by
 * itself, never for what others ask of us. */
void policy_trust_caller(struct policy *policy);
void policy_free(struct policy *policy);

/* Is the value within the least and the operator's ceiling? The error names field, value, bounds and source.
 */
int policy_check_limit(const struct policy *policy, enum limit_field field, int64_t value, struct error *err);
