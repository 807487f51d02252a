#include "server/range.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

int range_read(const char *text, uint64_t length, uint64_t *ret_first, uint64_t *ret_last)
{
    unsigned long long first, last;
    int end = 0;
    if (!text || strncmp(text, "bytes=", 6) != 0 || strchr(text, ','))
        return 0;
    text += 6;
    if (strspn(text, "0123456789-") != strlen(text) ||
        strstr(text, "--")) /* blanks and signs, which sscanf takes */
        return 0;
    if (sscanf(text, "-%llu%n", &last, &end) == 1 && !text[end]) {
        if (last == 0 || length == 0)
            return -ERANGE;
        *ret_first = last < length ? length - last : 0;
        *ret_last = length - 1;
        return 1;
    }
    if (sscanf(text, "%llu-%n", &first, &end) != 1 || end == 0 || text[0] == '-' || text[0] == '+')
        return 0;
    last = UINT64_MAX;
    if (text[end]) {
        int more = 0;
        if (sscanf(text + end, "%llu%n", &last, &more) != 1 || text[end + more] || last < first)
            return 0;
    }
    if (first >= length)
        return -ERANGE;
    *ret_first = first;
    *ret_last = last < length ? last : length - 1;
    return 1;
}

int range_read_content(const char *text, struct range_content *ret)
{
    long long first, last, total;
    int end = 0;
    *ret = (struct range_content){0};
    if (sscanf(text, "bytes */%lld%n", &total, &end) == 1 && !text[end] && total >= 0) {
        *ret = (struct range_content){.is_check = true, .total = total};
        return 0;
    }
    end = 0;
    if (sscanf(text, "bytes %lld-%lld/%lld%n", &first, &last, &total, &end) != 3 || text[end])
        return -EINVAL;
    if (first < 0 || last < first || last >= total)
        return -EINVAL;
    *ret = (struct range_content){.first = first, .last = last, .total = total};
    return 0;
}
