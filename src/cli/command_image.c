/* cloche image: the file trees that boxes see. */
#include "cli/command.h"
#include "cli/report.h"

#include "base/text.h"
#include "image/image.h"
#include "spec/policy.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const struct option_row options[] = {
    {"name", 'n', "NAME", NULL, "name of the new image (build: data; import: from the archive's file name)"},
    {"packages", 'p', "LIST", NULL, "build: Debian packages, comma-separated, instead of the default set"},
    {"suite", 0, "NAME", NULL, "build: the Debian suite (bookworm)"},
    {"max-size", 0, "SIZE", NULL, "import: bytes that the archive may unpack to (20 GiB)"},
    {"config", 0, "FILE", NULL, "the operator's configuration instead of /etc/cloche.conf"},
    {"help", 'h', NULL, NULL, "this text"},
};

struct image_options {
    const char *name, *suite, *config_path, *action, *subject;
    struct string_list packages;
    int64_t max_size;
};

static void image_options_free(struct image_options *given)
{
    string_list_free(&given->packages);
}

static void show_progress(void *data, const char *what, double fraction)
{
    (void)data;
    if (!isatty(STDERR_FILENO)) {
        fprintf(stderr, "%s\n", what);
        return;
    }
    if (fraction >= 0)
        fprintf(stderr, "\r\033[K%3.0f %% %.120s", fraction * 100, what);
    else
        fprintf(stderr, "\r\033[K%.120s", what);
    fflush(stderr);
}

static void end_progress(void)
{
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "\r\033[K");
}

static int list_images(const struct policy *policy, struct error *err)
{
    struct image_summary *images;
    size_t count;
    int status = image_list(policy->image_store, &images, &count, err);
    if (status < 0)
        return status;
    printf("%-20s %10s  %-17s %s\n", "NAME", "SIZE", "CREATED", "FROM");
    printf("%-20s %10s  %-17s %s\n", "host", "-", "-", "the host's /usr and what it needs, read-only");
    for (size_t i = 0; i < count; i++) {
        char size[32], created[32] = "-";
        time_t at = (time_t)images[i].created_s;
        struct tm local;
        if (localtime_r(&at, &local))
            strftime(created, sizeof created, "%Y-%m-%d %H:%M", &local);
        printf("%-20s %10s  %-17s %s\n", images[i].name,
               text_format_size(images[i].size_bytes, size, sizeof size), created,
               images[i].source ? images[i].source : "");
    }
    image_summaries_free(images, count);
    return 0;
}

static int build_image(const struct policy *policy, const struct image_options *given, struct error *err)
{
    const char *name = given->name ? given->name : given->subject ? given->subject : "data";
    struct image_progress progress = {.report = show_progress};
    int status = image_build(policy->image_store, name, given->suite,
                             given->packages.count ? &given->packages : NULL, &progress, err);
    end_progress();
    if (status == 0)
        printf("built image '%s'; use it with: cloche run --image %s …\n", name, name);
    return status;
}

/* "path/python-3.12.tar.gz" gives "python-3.12". */
static void name_from_path(const char *path, char *into, size_t size)
{
    const char *slash = strrchr(path, '/');
    snprintf(into, size, "%s", slash ? slash + 1 : path);
    static const char *const endings[] = {".gz", ".zst", ".tgz", ".tar"};
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        size_t length = strlen(into), ending = strlen(endings[i]);
        if (length > ending && strcmp(into + length - ending, endings[i]) == 0)
            into[length - ending] = '\0';
    }
}

static int import_image(const struct policy *policy, const struct image_options *given, struct error *err)
{
    if (!given->subject)
        return error_spec(err, "archive", "give the archive: cloche image import FILE.tar [--name NAME]");
    char from_path[128];
    name_from_path(given->subject, from_path, sizeof from_path);
    const char *name = given->name ? given->name : from_path;
    struct image_import_limits limits = {
        .unpacked_bytes = given->max_size, .entries = 1000000, .layers = 128};
    struct image_progress progress = {.report = show_progress};
    int status = image_import(policy->image_store, name, given->subject, &limits, &progress, err);
    end_progress();
    if (status == 0)
        printf("imported image '%s'; use it with: cloche run --image %s …\n", name, name);
    return status;
}

static int remove_image(const struct policy *policy, const struct image_options *given, struct error *err)
{
    if (!given->subject)
        return error_spec(err, "name", "give the name of the image to remove");
    int status = image_remove(policy->image_store, given->subject, err);
    if (status == 0)
        printf("removed image '%s'\n", given->subject);
    return status;
}

static int take_option(struct image_options *into, const struct option_row *row, const char *value,
                       struct error *err)
{
    if (strcmp(row->name, "name") == 0)
        into->name = value;
    else if (strcmp(row->name, "suite") == 0)
        into->suite = value;
    else if (strcmp(row->name, "config") == 0)
        into->config_path = value;
    else if (strcmp(row->name, "max-size") == 0 && !text_parse_size(value, &into->max_size))
        return error_spec(err, "max-size", "max-size: '%.64s' is not a size such as 20G", value);
    else if (strcmp(row->name, "packages") == 0) {
        while (*value) {
            size_t length = strcspn(value, ",");
            if (length && string_list_print(&into->packages, "%.*s", (int)length, value) < 0)
                return error_host(err, -12, "packages");
            value += length + (value[length] == ',');
        }
    }
    return 0;
}

static int act(const struct image_options *given, struct error *err)
{
    struct policy policy;
    int status = policy_load(given->config_path, &policy, err);
    if (status < 0)
        return status;
    if (strcmp(given->action, "list") == 0)
        status = list_images(&policy, err);
    else if (strcmp(given->action, "build") == 0)
        status = build_image(&policy, given, err);
    else if (strcmp(given->action, "import") == 0)
        status = import_image(&policy, given, err);
    else if (strcmp(given->action, "remove") == 0)
        status = remove_image(&policy, given, err);
    else
        status = error_spec(err, "action",
                            "there is no `cloche image %.32s`; there are list, build, import, remove",
                            given->action);
    policy_free(&policy);
    return status;
}

static int image_main(int argc, char **argv)
{
    struct image_options given __attribute__((cleanup(image_options_free))) = {
        .action = NULL, .suite = "bookworm", .max_size = INT64_C(20) << 30};
    struct error err = {0};
    struct option_parser parser = {.argc = argc, .argv = argv, .at = 1};
    const struct option_row *row;
    const char *value;
    int status = 0;
    for (enum option_kind kind;
         status == 0 && (kind = option_next(&parser, &command_image, &row, &value)) != OPTION_END;) {
        if (kind == OPTION_WRONG)
            return option_refuse(&parser, &command_image);
        if (kind == OPTION_ROW && strcmp(row->name, "help") == 0) {
            help_print(&command_image);
            return 0;
        }
        if (kind == OPTION_ROW)
            status = take_option(&given, row, value, &err);
        else if (kind == OPTION_POSITIONAL && !given.action)
            given.action = value;
        else if (kind == OPTION_POSITIONAL && !given.subject)
            given.subject = value;
        else if (kind == OPTION_POSITIONAL)
            status = error_spec(&err, given.action, "image: '%.128s' is one word too many", value);
    }
    if (status == 0 && given.subject && strcmp(given.action, "list") == 0)
        status = error_spec(&err, "list", "image: list takes no '%.128s'", given.subject);
    if (!given.action) {
        help_print(&command_image);
        return EXIT_STATUS_BAD_SPEC;
    }
    if (status == 0)
        status = act(&given, &err);
    if (status == 0)
        return 0;
    report_error("%s", err.text);
    return report_error_status(&err);
}

const struct command command_image = {
    .name = "image",
    .usage = "image list|build|import|remove",
    .summary = "the file trees that boxes see",
    .description =
        "list             shows the images there are.\n"
        "build [NAME]     makes one from Debian's packages with mmdebstrap: python3 with numpy, pandas, "
        "matplotlib,\n"
        "                 scikit-learn and scipy, nodejs, golang, gcc, bash and tools; no file is shared "
        "with the host.\n"
        "import FILE      takes a `docker save` archive or an OCI layout tar (plain, gzip or zstd).\n"
        "remove NAME      removes one.",
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .main = image_main,
};
