#include "engine/oci/bundle.h"

#include "base/json_text.h"
#include "base/scope.h"
#include "engine/oci/runtime.h"

#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

static json_t *mount_row(const char *destination, const char *type, const char *source, const char *options)
{
    json_t *list = json_array();
    while (*options) {
        size_t length = strcspn(options, ",");
        json_array_append_new(list, json_stringn(options, length));
        options += length + (options[length] == ',');
    }
    return json_pack("{s:s,s:s,s:s,s:o}", "destination", destination, "type", type, "source", source,
                     "options", list);
}

static const struct {
    const char *place, *name; /* in the box, and of the scratch space */
} writable[] = {{"tmp", "tmp"}, {"home/user", "home"}, {"data/output", "output"}, {"dev/shm", "shm"}};

bool bundle_scratch_path(const char *path, char *into, size_t size)
{
    for (size_t i = 0; i < sizeof writable / sizeof *writable; i++) {
        size_t length = strlen(writable[i].place);
        if (strncmp(path, writable[i].place, length) == 0 && path[length] == '/')
            return snprintf(into, size, "%s%s", writable[i].name, path + length) < (int)size;
    }
    return false;
}

bool bundle_mounts_grant(const struct grant_shown *grant)
{
    char path[PATH_MAX];
    return grant->writable || bundle_scratch_path(grant->path, path, sizeof path);
}

static void add_grants(const struct grants *grants, json_t *list)
{
    for (size_t i = 0; i < grants->count; i++) {
        const struct grant_shown *grant = &grants->shown[i];
        char source[PATH_MAX + 16], destination[PATH_MAX + 1];
        snprintf(source, sizeof source, STAGE_ROOT "/%s", grant->path);
        snprintf(destination, sizeof destination, "/%s", grant->path);
        if (bundle_mounts_grant(grant))
            json_array_append_new(
                list, mount_row(destination, "bind", source,
                                grant->writable ? "bind,rw,nosuid,nodev" : "bind,ro,nosuid,nodev"));
    }
}

static json_t *mounts(const struct box *box, const struct grants *grants)
{
    static const struct {
        const char *destination, *type, *source, *options;
        bool for_spare;
    } rows[] = {
        {"/proc", "proc", "proc", "nosuid,nodev,noexec"},
        {"/dev", "tmpfs", "tmpfs", "nosuid,strictatime,mode=755,size=65536k"},
        {"/dev/pts", "devpts", "devpts", "nosuid,noexec,newinstance,ptmxmode=0666,mode=0620"},
        {"/sys", "sysfs", "sysfs", "nosuid,nodev,noexec,ro"},
        {"/tmp", "bind", STAGE_SCRATCH "/tmp", "bind,rw,nosuid,nodev"},
        {"/home/user", "bind", STAGE_SCRATCH "/home", "bind,rw,nosuid,nodev"},
        {"/data/output", "bind", STAGE_SCRATCH "/output", "bind,rw,nosuid,nodev"},
        {"/dev/shm", "bind", STAGE_SCRATCH "/shm", "bind,rw,nosuid,nodev"},
        {"/code", "bind", STAGE_SCRATCH "/" BOX_CODE, "bind,ro,nosuid,nodev", .for_spare = true},
        {"/data/input", "bind", STAGE_SCRATCH "/" BOX_INPUT, "bind,ro,nosuid,nodev", .for_spare = true},
    };
    json_t *list = json_array();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (!rows[i].for_spare || box->is_spare)
            json_array_append_new(
                list, mount_row(rows[i].destination, rows[i].type, rows[i].source, rows[i].options));
    add_grants(grants, list);
    return list;
}

static json_t *namespaces(void)
{
    static const char *const kinds[] = {"pid", "mount", "network", "ipc", "uts"};
    json_t *list = json_array();
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        json_array_append_new(list, json_pack("{s:s}", "type", kinds[i]));
    return list;
}

/* None of them is in the bounding set, which is empty from the first instruction on: init holds what it was
 * started with, no program gets any of it, and nobody needs the power (nor the forty calls) to empty it. */
static const char *const init_powers[] = {"CAP_SETUID", "CAP_SETGID", "CAP_KILL"};

/* Init puts on limits and filter, and makes the program's environment: nothing of it is here. */
int bundle_write(const struct box *box, const struct grants *grants, unsigned uid, struct buffer *ret,
                 struct error *err)
{
    /* In a kernel of the box's own init begins as root, with the power to give programs another user. */
    json_t *powers = json_array();
    for (size_t i = 0; box->counts_itself && i < sizeof init_powers / sizeof *init_powers; i++)
        json_array_append_new(powers, json_string(init_powers[i]));
    if (box->counts_itself)
        uid = 0;
    json_t *config = json_pack(
        "{s:s, s:{s:b, s:{s:i,s:i}, s:[s], s:[], s:s, s:b, s:{s:[],s:O,s:o,s:[],s:[]}},"
        " s:{s:s,s:b}, s:s, s:o, s:{s:o}}",
        "ociVersion", "1.0.2", "process", "terminal", 0, "user", "uid", (int)uid, "gid", (int)uid, "args",
        STAGE_INIT, "env", "cwd", "/", "noNewPrivileges", 1, "capabilities", "bounding", "effective", powers,
        "permitted", powers, "inheritable", "ambient", "root", "path", STAGE_ROOT, "readonly", 1, "hostname",
        "cloche", "mounts", mounts(box, grants), "linux", "namespaces", namespaces());
    scope_free char *text = config ? json_text(config, JSON_COMPACT) : NULL;
    json_decref(config);
    int status = text ? buffer_append(ret, text, strlen(text)) : -ENOMEM;
    return status < 0 ? error_host(err, status, "cannot write the bundle of a box") : 0;
}
