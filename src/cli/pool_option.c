#include "cli/pool_option.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

static int add_words(struct string_list *into, const char *text)
{
    while (*text) {
        size_t length = strcspn(text, ", ");
        char name[128];
        if (length >= sizeof name)
            return -EINVAL;
        memcpy(name, text, length);
        name[length] = '\0';
        int status = length ? string_list_add(into, name) : 0;
        if (status < 0)
            return status;
        text += length;
        text += strspn(text, ", ");
    }
    return 0;
}

static int take_number(const struct option_row *row, const char *value, int least, int *into,
                       struct error *err)
{
    char *end;
    long number = strtol(value, &end, 10);
    if (*end || end == value || number < least || number > 1000000)
        return error_spec(err, row->name, "%s: '%.32s' is not a number from %d to 1000000", row->name, value,
                          least);
    *into = (int)number;
    return 0;
}

static int take_languages(const char *value, bool *into, struct error *err)
{
    struct string_list names = {0};
    int status = add_words(&names, value);
    for (size_t i = 0; status == 0 && i < names.count; i++) {
        int kind = kind_by_name(names.items[i]);
        if (kind >= 0)
            into[kind] = true;
        else
            status =
                error_spec(err, "language", "language: nothing is kept ready for '%.64s'; there are: %s",
                           names.items[i], "python, javascript, bash, each also with /process or /gvisor");
    }
    string_list_free(&names);
    return status;
}

int pool_option_take(struct pool_choice *choice, const struct option_row *row, const char *value,
                     struct error *err)
{
    const char *name = row->name;
    struct pool_options *options = &choice->options;
    int status = 0;
    if (strcmp(name, "spares") == 0)
        choice->has_minimum = (status = take_number(row, value, 0, &options->minimum, err)) == 0;
    else if (strcmp(name, "spares-max") == 0)
        choice->has_maximum = (status = take_number(row, value, 0, &options->maximum, err)) == 0;
    else if (strcmp(name, "rotate") == 0)
        status = take_number(row, value, 1, &options->rotate_forks, err);
    else if (strcmp(name, "language") == 0)
        status = take_languages(value, options->is_wanted, err);
    else if (strcmp(name, "image") == 0)
        options->image = value;
    else if (strcmp(name, "preload") != 0)
        return 0;
    else if (add_words(&choice->preload, value) < 0)
        return error_spec(err, "preload", "preload: '%.64s' is not a list of modules", value);
    else
        options->preload = &choice->preload;
    return status < 0 ? status : 1;
}

int pool_option_finish(struct pool_choice *choice, struct error *err)
{
    struct pool_options *options = &choice->options;
    /* 0 of them is a choice of its own: then every run waits for a fork. */
    if (choice->has_minimum && choice->has_maximum && options->maximum && options->maximum < options->minimum)
        return error_spec(err, "spares-max", "spares-max: %d is less than --spares, which is %d",
                          options->maximum, options->minimum);
    if (options->maximum && options->maximum < options->minimum) /* one of them alone: that counts */
        *(choice->has_maximum ? &options->minimum : &options->maximum) =
            choice->has_maximum ? options->maximum : options->minimum;
    return 0;
}

void pool_option_free(struct pool_choice *choice)
{
    string_list_free(&choice->preload);
}

void pool_option_allow_descriptors(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit); /* if not: fewer boxes */
    }
}
