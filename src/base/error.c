#include "base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

__attribute__((format(printf, 5, 0))) static int error_fill(struct error *err, enum error_kind kind,
                                                            const char *subject, int code, const char *format,
                                                            va_list arguments)
{
    if (code > 0)
        code = -code;
    if (code == 0)
        code = -EIO;
    if (!err)
        return code;
    err->kind = kind;
    err->code = code;
    snprintf(err->subject, sizeof err->subject, "%s", subject);
    vsnprintf(err->text, sizeof err->text, format, arguments);
    return code;
}

static void error_append_errno(struct error *err, int code)
{
    if (!err)
        return;
    size_t length = strlen(err->text);
    snprintf(err->text + length, sizeof err->text - length, ": %s", strerror(code < 0 ? -code : code));
}

int error_host(struct error *err, int code, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    code = error_fill(err, ERROR_HOST, "", code, format, arguments);
    va_end(arguments);
    error_append_errno(err, code);
    return code;
}

int error_host_told(struct error *err, int code, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    code = error_fill(err, ERROR_HOST, "", code, format, arguments);
    va_end(arguments);
    return code;
}

int error_spec(struct error *err, const char *field, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int code = error_fill(err, ERROR_SPEC, field, -EINVAL, format, arguments);
    va_end(arguments);
    return code;
}

int error_layer(struct error *err, const char *layer, int code, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int filled = error_fill(err, ERROR_LAYER, layer, code ? code : -ENOTSUP, format, arguments);
    va_end(arguments);
    if (code)
        error_append_errno(err, code);
    return filled;
}

int error_context(struct error *err, const char *format, ...)
{
    if (!err)
        return -EIO;
    char context[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(context, sizeof context, format, arguments);
    va_end(arguments);
    char rest[sizeof err->text];
    memcpy(rest, err->text, sizeof rest);
    size_t length = (size_t)snprintf(err->text, sizeof err->text, "%s: ", context);
    if (length < sizeof err->text) {
        size_t room = sizeof err->text - length - 1;
        size_t take = strnlen(rest, room);
        memcpy(err->text + length, rest, take);
        err->text[length + take] = '\0';
    }
    return err->code;
}

const char *error_kind_name(enum error_kind kind)
{
    switch (kind) {
    case ERROR_SPEC:
        return "bad_spec";
    case ERROR_LAYER:
        return "layer_missing";
    case ERROR_HOST:
        return "host_failure";
    case ERROR_NONE:
        break;
    }
    return "none";
}
