/* The public API, over the inner objects. */
#include "library/library_inside.h"

#include "keeper/run.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static struct spec *inner_spec(struct cloche_spec *spec)
{
    return (struct spec *)spec;
}

static const struct result *inner_result(const struct cloche_result *result)
{
    return (const struct result *)result;
}

void library_give_error(const struct error *from, struct cloche_error *into)
{
    if (!into)
        return;
    into->kind = (enum cloche_error_kind)from->kind; /* same numbers; checked by a unit test */
    into->code = from->code;
    memcpy(into->subject, from->subject, sizeof into->subject);
    memcpy(into->text, from->text, sizeof into->text);
}

API struct cloche_spec *cloche_spec_new(void)
{
    return (struct cloche_spec *)spec_new();
}

API void cloche_spec_free(struct cloche_spec *spec)
{
    spec_free(inner_spec(spec));
}

API int cloche_spec_set(struct cloche_spec *spec, const char *field, const char *value,
                        struct cloche_error *err)
{
    struct error error = {0};
    int status = spec_set(inner_spec(spec), field, value, &error);
    if (status < 0)
        library_give_error(&error, err);
    return status;
}

API int cloche_spec_set_code(struct cloche_spec *spec, const void *code, size_t length,
                             struct cloche_error *err)
{
    struct error error = {0};
    int status = spec_set(inner_spec(spec), "code", "", &error);
    if (status == 0 && buffer_append(&inner_spec(spec)->code, code, length) < 0)
        status = error_host(&error, -ENOMEM, "code");
    if (status < 0)
        library_give_error(&error, err);
    return status;
}

API int cloche_spec_read_json(struct cloche_spec *spec, const char *json, size_t length,
                              struct cloche_error *err)
{
    struct error error = {0};
    int status = spec_read_json(inner_spec(spec), json, length, &error);
    if (status < 0)
        library_give_error(&error, err);
    return status;
}

API void cloche_spec_set_stdin_fd(struct cloche_spec *spec, int fd)
{
    inner_spec(spec)->stdin_kind = STDIN_DESCRIPTOR;
    inner_spec(spec)->stdin_fd = fd;
}

static void bridge_output(void *data, enum supervise_stream stream, const char *bytes, size_t length)
{
    const struct cloche_options *options = data;
    options->output(options->data, stream == STREAM_STDOUT ? 1 : 2, bytes, length);
}

const struct cloche_options *library_options(const struct cloche_options *options)
{
    static const struct cloche_options none;
    return options ? options : &none;
}

struct supervise_io library_io(const struct cloche_options *options)
{
    return (struct supervise_io){
        .forward_fd = {-1, -1},
        .output = options->output ? bridge_output : NULL,
        .data = (void *)(uintptr_t)options,
        .owner = "", /* all of its runs are the caller's */
        .cancel_fd = options->cancel_fd > 0 ? options->cancel_fd : -1,
    };
}

API int cloche_run(struct cloche_spec *spec, const struct cloche_options *options,
                   struct cloche_result **ret_result, struct cloche_error *err)
{
    options = library_options(options);
    struct error error = {0};
    struct policy policy;
    int status = policy_load(options->config_path, &policy, &error);
    if (status == 0) {
        policy_trust_caller(&policy);
        const struct supervise_io io = library_io(options);
        struct result *result = NULL;
        status = keeper_run(inner_spec(spec), &policy, &io, &result, &error);
        if (status == 0)
            *ret_result = (struct cloche_result *)result;
        policy_free(&policy);
    }
    if (status < 0)
        library_give_error(&error, err);
    return status;
}

API void cloche_result_free(struct cloche_result *result)
{
    result_free((struct result *)result);
}

API const char *cloche_result_cause(const struct cloche_result *result)
{
    return cause_names[inner_result(result)->cause];
}

API const char *cloche_result_detail(const struct cloche_result *result)
{
    return inner_result(result)->detail;
}

API int64_t cloche_result_peak_memory_bytes(const struct cloche_result *result)
{
    return inner_result(result)->usage.peak_memory_bytes;
}

API int64_t cloche_result_cpu_us(const struct cloche_result *result)
{
    return inner_result(result)->usage.cpu_user_us + inner_result(result)->usage.cpu_system_us;
}

API int cloche_result_exit_code(const struct cloche_result *result)
{
    return inner_result(result)->exit_code;
}

API int cloche_result_signal(const struct cloche_result *result)
{
    return inner_result(result)->signal;
}

static const char *stream_bytes(const struct result_stream *stream, size_t *ret_length)
{
    if (ret_length)
        *ret_length = stream->kept.length;
    return stream->kept.data ? stream->kept.data : "";
}

API const char *cloche_result_stdout(const struct cloche_result *result, size_t *ret_length)
{
    return stream_bytes(&inner_result(result)->output, ret_length);
}

API const char *cloche_result_stderr(const struct cloche_result *result, size_t *ret_length)
{
    return stream_bytes(&inner_result(result)->errors, ret_length);
}

API size_t cloche_result_file_count(const struct cloche_result *result)
{
    return inner_result(result)->file_count;
}

API const char *cloche_result_file_path(const struct cloche_result *result, size_t index)
{
    return index < inner_result(result)->file_count ? inner_result(result)->files[index].path : NULL;
}

API int64_t cloche_result_file_size(const struct cloche_result *result, size_t index)
{
    return index < inner_result(result)->file_count ? inner_result(result)->files[index].size : -1;
}

API char *cloche_result_to_json(const struct cloche_result *result)
{
    return result_to_json(inner_result(result), false);
}
