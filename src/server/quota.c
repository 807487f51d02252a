#include "server/quota.h"

#include "base/text.h"

#include <stdio.h>
#include <string.h>

const struct quota_row quota_rows[QUOTA_FIELDS] = {
#define X(field, option, unit, placeholder, normal, help) {#field, option, unit, normal, help},
    QUOTA_ROWS(X)
#undef X
};

int quota_find(const char *name)
{
    for (int i = 0; i < QUOTA_FIELDS; i++)
        if (strcmp(quota_rows[i].name, name) == 0)
            return i;
    return -1;
}

int quota_find_option(const char *option)
{
    for (int i = 0; i < QUOTA_FIELDS; i++)
        if (strcmp(quota_rows[i].option, option) == 0)
            return i;
    return -1;
}

static bool quota_scan(enum quota_unit unit, const char *text, int64_t *ret)
{
    switch (unit) {
    case QUOTA_BYTES:
        return text_parse_size(text, ret);
    case QUOTA_MS:
        return text_parse_duration(text, ret);
    case QUOTA_COUNT:
        break;
    }
    return text_parse_count(text, ret);
}

int quota_parse(enum quota_field field, const char *text, int64_t *ret, struct error *err)
{
    const struct quota_row *row = &quota_rows[field];
    static const char *const examples[] = {
        [QUOTA_COUNT] = "a whole number such as 20",
        [QUOTA_BYTES] = "a size such as 512M or 8G",
        [QUOTA_MS] = "a time such as 90s or 2h",
    };
    if (strcmp(text, "none") == 0) {
        *ret = QUOTA_NONE;
        return 0;
    }
    if (!quota_scan(row->unit, text, ret))
        return error_spec(err, row->name, "--%s: '%.64s' is not a valid value; give %s, or none", row->option,
                          text, examples[row->unit]);
    return 0;
}

const char *quota_format(enum quota_field field, int64_t value, char *into, size_t size)
{
    if (value == QUOTA_NONE)
        snprintf(into, size, "none");
    else if (quota_rows[field].unit == QUOTA_BYTES)
        text_format_size(value, into, size);
    else if (quota_rows[field].unit == QUOTA_MS)
        text_format_duration(value, into, size);
    else
        snprintf(into, size, "%lld", (long long)value);
    return into;
}

static void quotas_fill(struct quotas *quotas, int64_t value)
{
    for (int i = 0; i < QUOTA_FIELDS; i++)
        quotas->value[i] = value;
}

void quotas_unset(struct quotas *quotas)
{
    quotas_fill(quotas, QUOTA_UNSET);
}

void quotas_none(struct quotas *quotas)
{
    quotas_fill(quotas, QUOTA_NONE);
}

void quotas_default(struct quotas *quotas)
{
    quotas_unset(quotas);
    for (int i = 0; i < QUOTA_FIELDS; i++)
        quotas->value[i] = quotas_get(quotas, (enum quota_field)i);
}

int64_t quotas_get(const struct quotas *quotas, enum quota_field field)
{
    int64_t value = quotas->value[field];
    if (value == QUOTA_UNSET) /* texts of the table: a unit test reads them all */
        quota_scan(quota_rows[field].unit, quota_rows[field].normal, &value);
    return value;
}
