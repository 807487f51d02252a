#include "report.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

enum { VALUE_MAX = 4000 };

/* What has no room is left out. */
void report_add(struct report *report, const char *name, const char *format, ...)
{
    char value[VALUE_MAX];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(value, sizeof value, format, arguments);
    va_end(arguments);
    size_t name_size = strlen(name) + 1, value_size = length < 0 ? 1 : strlen(value) + 1;
    if (length < 0 || report->length + name_size + value_size > sizeof report->bytes)
        return;
    memcpy(report->bytes + report->length, name, name_size);
    memcpy(report->bytes + report->length + name_size, value, value_size);
    report->length += (uint32_t)(name_size + value_size);
}

void report_words(struct report *report, const char *name, wasmtime_error_t *error, wasm_trap_t *trap)
{
    wasm_byte_vec_t words = {0};
    if (error)
        wasmtime_error_message(error, &words);
    else if (trap)
        wasm_trap_message(trap, &words);
    size_t number = 0; /* of the cause, which Wasmtime puts before the words */
    while (trap && number < words.size && words.data[number] >= '0' && words.data[number] <= '9')
        number++;
    bool is_numbered = number && words.size - number > 2 && memcmp(words.data + number, ": ", 2) == 0;
    size_t from = is_numbered ? number + 2 : 0, length = words.size - from;
    report_add(report, name, "%.*s", (int)(length < 2000 ? length : 2000),
               words.data ? words.data + from : "");
    if (error || trap)
        wasm_byte_vec_delete(&words);
    if (error)
        wasmtime_error_delete(error);
    if (trap)
        wasm_trap_delete(trap);
}

void report_send(const struct report *report, int fd)
{
    struct report_head head = {report->length};
    struct iovec parts[] = {{&head, sizeof head}, {(void *)report->bytes, report->length}};
    while (writev(fd, parts, 2) < 0 && errno == EINTR)
        ;
}
