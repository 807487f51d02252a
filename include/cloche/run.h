/* Running a spec, without any daemon. */
#ifndef CLOCHE_RUN_H
#define CLOCHE_RUN_H

#include <cloche/error.h>
#include <cloche/result.h>
#include <cloche/spec.h>

#ifdef __cplusplus
extern "C" {
#endif

struct cloche_options {
    /* The operator's configuration; NULL: /etc/cloche.conf if it is there. */
    const char *config_path;
    /* Called with output as it comes (stream 1 or 2); must not block. May be NULL. */
    void (*output)(void *data, int stream, const char *bytes, size_t length);
    void *data;
    /* A descriptor whose readability cancels the run; -1 or 0: none. */
    int cancel_fd;
};

/* Runs the spec to its end. On 0, *ret_result is the caller's to free. On a negative errno *err says what is
 * wrong; nothing is left behind. `options` and `err` may be NULL. Safe to call from several threads at once,
 * each with a spec of its own; the process engine makes the calling process a subreaper. */
int cloche_run(struct cloche_spec *spec, const struct cloche_options *options,
               struct cloche_result **ret_result, struct cloche_error *err);

#ifdef __cplusplus
}
#endif
#endif
