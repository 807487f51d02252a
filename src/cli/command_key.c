/* cloche key: who may use the server, and how much of it. */
#include "cli/command.h"
#include "cli/report.h"

#include "base/scope.h"
#include "keeper/data_directory.h"
#include "server/keys.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const struct option_row options[] = {
    {"tenant", 't', "NAME", NULL, "whose key it is; remove: all keys of that tenant"},
    {"operator", 0, NULL, NULL, "add: a key that also sees the figures of all tenants (/metrics, /v1/stats)"},
    {"data", 0, "DIRECTORY", NULL,
     "the server's data directory (/var/lib/cloche/server, or ~/.local/share/cloche/server)"},
#define X(field, option, unit, placeholder, normal, help)                                                    \
    {option, 0, placeholder, NULL, help " (" normal ")"},
    QUOTA_ROWS(X)
#undef X
        {"help", 'h', NULL, NULL, "this text"},
};

struct key_options {
    const char *action, *subject, *tenant, *data;
    bool is_operator;
    struct quotas quotas;
};

/* ---- actions: each returns 1 when the file is to be saved ---- */

static bool has_quotas(const struct key_options *given)
{
    for (int i = 0; i < QUOTA_FIELDS; i++)
        if (given->quotas.value[i] != QUOTA_UNSET)
            return true;
    return false;
}

static int set_quotas(struct key_file *file, const struct key_options *given, struct error *err)
{
    struct key_tenant *tenant = keys_tenant(file, given->tenant);
    if (!tenant)
        return error_host(err, -ENOMEM, "the keys");
    for (int i = 0; i < QUOTA_FIELDS; i++)
        if (given->quotas.value[i] != QUOTA_UNSET)
            tenant->quotas.value[i] = given->quotas.value[i];
    return 1;
}

static int need_tenant(const struct key_options *given, struct error *err)
{
    return given->tenant
               ? 0
               : error_spec(err, "tenant", "give the tenant: cloche key %s --tenant NAME", given->action);
}

static int add_key(struct key_file *file, const struct key_options *given, char *ret_text, struct error *err)
{
    char id[KEY_ID_SIZE];
    int status = need_tenant(given, err);
    if (status == 0)
        status = keys_add(file, given->tenant, ret_text, id, err);
    if (status == 0)
        file->keys[file->key_count - 1].is_operator = given->is_operator;
    return status < 0 ? status : set_quotas(file, given, err);
}

static int limit_tenant(struct key_file *file, const struct key_options *given, struct error *err)
{
    int status = need_tenant(given, err);
    if (status < 0)
        return status;
    if (!has_quotas(given))
        return error_spec(err, "quota",
                          "give at least one quota, such as --boxes 10; see `cloche key --help`");
    for (size_t i = 0; i < file->key_count; i++)
        if (strcmp(file->keys[i].tenant, given->tenant) == 0)
            return set_quotas(file, given, err);
    return error_spec(err, "tenant", "tenant '%.64s' has no key", given->tenant);
}

static int remove_key(struct key_file *file, const struct key_options *given, struct error *err)
{
    if (!given->subject == !given->tenant)
        return error_spec(
            err, "key", "give the id of a key (see `cloche key list`), or --tenant NAME for all of a tenant");
    int removed = keys_remove(file, given->subject, given->tenant);
    if (!removed)
        return error_spec(err, "key", "there is no key of %s'%.64s'", given->subject ? "the id " : "tenant ",
                          given->subject ? given->subject : given->tenant);
    printf("removed %d key%s\n", removed, removed == 1 ? "" : "s");
    return 1;
}

static void list_keys(struct key_file *file)
{
    printf("%-16s %-20s %-9s %s\n", "KEY", "CREATED", "SEES", "TENANT");
    for (size_t i = 0; i < file->key_count; i++) {
        char created[32] = "-";
        time_t at = (time_t)file->keys[i].created_s;
        struct tm local;
        if (localtime_r(&at, &local))
            strftime(created, sizeof created, "%Y-%m-%d %H:%M", &local);
        printf("%-16s %-20s %-9s %s\n", file->keys[i].id, created,
               file->keys[i].is_operator ? "all" : "its own", file->keys[i].tenant);
    }
    for (size_t i = 0; i < file->tenant_count; i++) {
        printf("\nquotas of %s:\n", file->tenants[i].name);
        for (int field = 0; field < QUOTA_FIELDS; field++) {
            char value[32];
            int64_t amount = quotas_get(&file->tenants[i].quotas, (enum quota_field)field);
            printf("  %-12s %-10s %s%s\n", quota_rows[field].option,
                   quota_format((enum quota_field)field, amount, value, sizeof value), quota_rows[field].help,
                   file->tenants[i].quotas.value[field] == QUOTA_UNSET ? " (default)" : "");
        }
    }
}

static int act(int data_fd, const struct key_options *given, struct error *err)
{
    scope_fd lock = keys_lock(data_fd, err);
    if (lock < 0)
        return lock;
    struct key_file file;
    char text[KEY_TEXT_SIZE] = "";
    int status = keys_load(data_fd, &file, NULL, err);
    if (status < 0)
        return status;
    if (strcmp(given->action, "add") == 0)
        status = add_key(&file, given, text, err);
    else if (strcmp(given->action, "list") == 0)
        list_keys(&file);
    else if (strcmp(given->action, "limit") == 0)
        status = limit_tenant(&file, given, err);
    else
        status = remove_key(&file, given, err);
    if (status > 0)
        status = keys_save(data_fd, &file, err);
    if (status == 0 && text[0]) { /* only what is stored is shown */
        printf("%s\n", text);
        if (isatty(STDOUT_FILENO))
            fprintf(stderr,
                    "This is the only time that the key is shown. Use it as: Authorization: Bearer KEY\n");
    }
    explicit_bzero(text, sizeof text);
    keys_free(&file);
    return status;
}

/* ---- the line ---- */

static int take_option(struct key_options *into, const struct option_row *row, const char *value,
                       struct error *err)
{
    int field = quota_find_option(row->name);
    if (field >= 0)
        return quota_parse((enum quota_field)field, value, &into->quotas.value[field], err);
    if (strcmp(row->name, "tenant") == 0)
        into->tenant = value;
    else if (strcmp(row->name, "data") == 0)
        into->data = value;
    else if (strcmp(row->name, "operator") == 0)
        into->is_operator = true;
    return 0;
}

static int open_data(const char *given, struct error *err)
{
    char path[400];
    if (given && strlen(given) < sizeof path)
        snprintf(path, sizeof path, "%s", given);
    else if (given || data_directory_default(path, sizeof path) < 0)
        return error_spec(err, "data", "data: give --data DIRECTORY, at most %zu characters",
                          sizeof path - 1);
    return data_directory_open(path, err);
}

static int check_and_act(struct key_options *given, struct error *err)
{
    static const char *const actions[] = {"add", "list", "limit", "remove"};
    bool known = false;
    for (size_t i = 0; i < sizeof actions / sizeof *actions; i++)
        known |= strcmp(given->action, actions[i]) == 0;
    if (!known)
        return error_spec(err, "action", "there is no `cloche key %.32s`; there are add, list, limit, remove",
                          given->action);
    if (given->is_operator && strcmp(given->action, "add") != 0)
        return error_spec(err, "operator", "--operator is for a key that is added");
    if (given->subject && strcmp(given->action, "remove") != 0)
        return error_spec(err, "action", "'%.64s' was not expected; see `cloche key --help`", given->subject);
    scope_fd data_fd = open_data(given->data, err);
    return data_fd < 0 ? data_fd : act(data_fd, given, err);
}

static int key_main(int argc, char **argv)
{
    struct key_options given = {0};
    struct error err = {0};
    struct option_parser parser = {.argc = argc, .argv = argv, .at = 1};
    const struct option_row *row;
    const char *value;
    int status = 0;
    quotas_unset(&given.quotas);
    for (enum option_kind kind;
         status == 0 && (kind = option_next(&parser, &command_key, &row, &value)) != OPTION_END;) {
        if (kind == OPTION_WRONG || kind == OPTION_REST)
            return option_refuse(&parser, &command_key);
        if (kind == OPTION_ROW && strcmp(row->name, "help") == 0) {
            help_print(&command_key);
            return 0;
        }
        if (kind == OPTION_ROW)
            status = take_option(&given, row, value, &err);
        else if (!given.action)
            given.action = value;
        else if (!given.subject)
            given.subject = value;
        else
            return option_refuse(&parser, &command_key);
    }
    if (status == 0 && !given.action) {
        help_print(&command_key);
        return EXIT_STATUS_BAD_SPEC;
    }
    if (status == 0)
        status = check_and_act(&given, &err);
    if (status == 0)
        return 0;
    report_error("%s", err.text);
    return report_error_status(&err);
}

const struct command command_key = {
    .name = "key",
    .usage = "key add|list|limit|remove",
    .summary = "who may use the server, and how much of it",
    .description =
        "add --tenant NAME      makes a key and prints it, this once; only its hash is stored.\n"
        "list                   shows the keys there are, and the quotas of their tenants.\n"
        "limit --tenant NAME    changes quotas of a tenant; add takes them too.\n"
        "remove ID              removes a key; with --tenant NAME all keys of that tenant.\n\n"
        "A server that is running sees changes at once. All keys of a tenant reach the same sandboxes and\n"
        "files, and share its quotas; `none` as a value takes a bound away.",
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .main = key_main,
};
