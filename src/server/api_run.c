/* Runs: one-shot, in a box of their own. */
#include "base/identifier.h"
#include "base/clock.h"
#include "base/scope.h"
#include "server/gate.h"
#include "server/keeper_link.h"
#include "server/route.h"
#include "server/run_gate.h"
#include "server/run_job.h"
#include "server/run_stream.h"
#include "server/server.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

/* Waits for the result; the client's going away cancels the run. */
static int await(struct run_job *job, struct error *err)
{
    for (;;) {
        struct pollfd polled[] = {
            {.fd = job->link_fd, .events = POLLIN},
            {.fd = job->is_cancelled ? -1 : exchange_client_fd(job->exchange), .events = POLLRDHUP}};
        if (poll(polled, 2, -1) < 0 && errno != EINTR)
            return error_host(err, -errno, "cannot wait for the keeper");
        if (polled[0].revents) {
            const char *event;
            json_t *data = NULL;
            int status = run_job_receive(job, &event, &data, err);
            json_decref(data);
            if (status != 0)
                return status;
        } else if (polled[1].revents) {
            run_job_cancel(job);
        }
    }
}

/* Code that the first filter blocked: nothing of it ran, so it is a refusal; with all that a result has. */
static int reply_vetted(struct run_job *job, struct error *err)
{
    json_t *object = run_job_finish_object(job, err);
    if (!object)
        return exchange_reply_problem(job->exchange, err);
    json_object_set_new(object, "error",
                        json_pack("{s:s, s:s, s:s, s:s}", "code", "vetted", "message",
                                  json_string_value(json_object_get(object, "detail")), "field", "code",
                                  "hint", "vet.findings says what and where, and what to do instead"));
    return exchange_reply_json(job->exchange, 422, object);
}

static bool is_refused(const struct result *result)
{
    return result->cause == CAUSE_vetted && vet_report_mode(result->vet) != VET_only;
}

static int answer_whole(struct run_job *job)
{
    struct error err = {0};
    struct buffer text = {0};
    int status = run_job_start(job, -1, -1, false, &err);
    if (status == 0)
        status = await(job, &err);
    if (status > 0) {
        gate_count_run(job->exchange, job->result->cause, clock_monotonic_us() - job->started_us);
        if (is_refused(job->result)) {
            status = reply_vetted(job, &err);
            run_job_close(job);
            return status;
        }
        status = run_job_finish(job, &text, &err);
    } else {
        gate_count_refused(job->exchange);
        run_gate_refuse(job, &err);
    }
    status = status < 0 ? exchange_reply_problem(job->exchange, &err)
                        : exchange_reply_text(job->exchange, 200, "application/json", &text);
    run_job_close(job);
    return status;
}

static int answer_run(struct exchange *exchange)
{
    struct run_job job = {.exchange = exchange,
                          .server = exchange_server(exchange),
                          .room = {.fd = -1},
                          .link_fd = -1,
                          .started_us = clock_monotonic_us()};
    if (run_request_read(exchange, &job.request) < 0) {
        gate_count_refused(exchange);
        run_job_close(&job);
        return 0;
    }
    identifier_make("run_", job.id);
    exchange_set_header(exchange, "X-Run-Id", job.id);
    if (run_gate_enter(&job) < 0) {
        gate_count_refused(exchange);
        run_job_close(&job);
        return 0;
    }
    return job.request.wants_events ? run_stream_answer(&job) : answer_whole(&job);
}

/* Types that a browser may show; the policy beside them keeps scripts of theirs from running. */
static const char *type_of(const char *path)
{
    static const char *const types[][2] = {
        {".png", "image/png"},       {".jpg", "image/jpeg"}, {".jpeg", "image/jpeg"},
        {".svg", "image/svg+xml"},   {".gif", "image/gif"},  {".webp", "image/webp"},
        {".csv", "text/csv"},        {".txt", "text/plain"}, {".json", "application/json"},
        {".pdf", "application/pdf"}, {".html", "text/html"},
    };
    const char *dot = strrchr(path, '.');
    for (size_t i = 0; dot && i < sizeof types / sizeof *types; i++)
        if (strcasecmp(dot, types[i][0]) == 0)
            return types[i][1];
    return "application/octet-stream";
}

static int answer_file(struct exchange *exchange)
{
    struct run_room room = {.fd = -1};
    struct stat what;
    const char *path = exchange_part(exchange, 1);
    int status = run_room_find(exchange_server(exchange), exchange_part(exchange, 0),
                               exchange_tenant(exchange), &room);
    scope_fd fd = status < 0 ? status : run_room_open_file(&room, path);
    run_room_close(&room, true);
    if (fd < 0 || fstat(fd, &what) < 0)
        return exchange_reply_error(exchange, 404, "not_found", NULL,
                                    "files are kept for an hour, of runs with \"collect\":\"url\"",
                                    "there is no such file");
    exchange_set_header(exchange, "Content-Security-Policy",
                        "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:");
    exchange_set_header(exchange, "X-Content-Type-Options", "nosniff");
    return exchange_reply_fd(exchange, take_fd(&fd), 0, (uint64_t)what.st_size, type_of(path));
}

static const struct route rows[] = {
    {"POST", "/v1/run", answer_run, 0, "run code or a command in a fresh box"},
    {"GET", "/v1/runs/{id}/files/{path...}", answer_file, 0, "a file that a run left in /data/output"},
};

const struct route_family routes_run = ROUTE_FAMILY(rows);
