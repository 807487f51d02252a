/* cloche-fetch: does the requests of a module that was granted some, and nothing else.
 *
 * Theory of operation. It is started for one run, by who starts the run's box (engine/wasm/gateway.c), with a
 * user of its own where there are such, no privileges, no environment, and three or four descriptors
 * (talk.h). It reads its rules and what certificates are verified by, puts on its own box (confine.h), and
 * says that it is ready. From then on it takes requests of the program that runs the module, one at a time,
 * each of which is a stranger's bytes: they are taken apart and checked (request.h), a rule must allow the
 * host (spec/fetch.h), every address of it is looked at (resolve.h), and libcurl connects to one of those and
 * no other (transfer.h).
 *
 * It ends when either of the others does: at the end of the requests, when the control socket closes, and by
 * a signal of the kernel's when who started it ends. It is killed with the box in any case. */
#include "base/clock.h"
#include "base/file.h"
#include "base/scope.h"
#include "gateway/address.h"
#include "gateway/confine.h"
#include "gateway/transfer.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CERTIFICATES_MAX = 8 << 20, REASON_SIZE = 512 };

#define SYSTEM_CERTIFICATES "/etc/ssl/certs/ca-certificates.crt"

struct gateway {
    struct fetch_rule rules[FETCH_RULES_MAX];
    size_t rule_count;
    struct fetch_limits limits;
    int64_t request_count;
    struct buffer certificates;
};

/* Waits for one of them to have something; both ends of all that we do. */
static void await(short events)
{
    struct pollfd polled[] = {{.fd = GATEWAY_REQUESTS, .events = events}, {.fd = GATEWAY_CONTROL}};
    while (poll(polled, 2, -1) < 0 && errno == EINTR)
        ;
    if (polled[1].revents)
        _exit(0);
}

/* Without a place to put them they are read all the same. There is nobody left to talk to after the end. */
static void receive(void *into, uint64_t length)
{
    static char thrown_away[65536];
    for (uint64_t done = 0; done < length;) {
        uint64_t left = length - done;
        size_t piece = into || left < sizeof thrown_away ? (size_t)left : sizeof thrown_away;
        await(POLLIN);
        ssize_t got = recv(GATEWAY_REQUESTS, into ? (char *)into + done : thrown_away, piece, MSG_DONTWAIT);
        if (got == 0 || (got < 0 && errno != EINTR && errno != EAGAIN))
            _exit(0);
        done += got > 0 ? (uint64_t)got : 0;
    }
}

static void reply(const void *data, size_t length)
{
    for (size_t done = 0; done < length;) {
        await(POLLOUT);
        ssize_t sent =
            send(GATEWAY_REQUESTS, (const char *)data + done, length - done, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && errno != EINTR && errno != EAGAIN)
            _exit(0);
        done += sent > 0 ? (size_t)sent : 0;
    }
}

/* Where there is no room it waits for some: who listens does so a hundred times a second, and every request
 * is told. */
static void say(const struct gateway_word *word)
{
    while (send(GATEWAY_CONTROL, word, sizeof *word, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
        struct pollfd control = {.fd = GATEWAY_CONTROL, .events = POLLOUT};
        if (errno != EAGAIN && errno != EINTR)
            _exit(0);
        poll(&control, 1, -1);
    }
}

static bool take_setting(struct gateway *gateway, const char *name, const char *value)
{
    if (strcmp(name, GATEWAY_RULE) == 0)
        return gateway->rule_count < FETCH_RULES_MAX &&
               !fetch_rule_read(value, &gateway->rules[gateway->rule_count++]);
    for (int i = 0; i < FETCH_LIMITS; i++)
        if (strcmp(name, fetch_limit_names[i]) == 0)
            return (gateway->limits.value[i] = strtoll(value, NULL, 10)) >= 0;
    return false;
}

static int read_settings(struct gateway *gateway, struct error *err)
{
    static char text[GATEWAY_SETTINGS_MAX];
    ssize_t length = pread(GATEWAY_SETTINGS, text, sizeof text, 0);
    if (length <= 0 || text[length - 1] != '\0')
        return error_host(err, -EPROTO, "the gateway's settings cannot be read");
    for (const char *at = text, *end = text + length; at < end;) {
        const char *value = at + strlen(at) + 1;
        if (value >= end || !take_setting(gateway, at, value))
            return error_host(err, -EPROTO, "the gateway does not understand its setting '%.64s'", at);
        at = value + strlen(value) + 1;
    }
    close(GATEWAY_SETTINGS);
    return 0;
}

/* Where the system has none there is no https. */
static int read_certificates(struct gateway *gateway, struct error *err)
{
    bool is_operators = fcntl(GATEWAY_CA, F_GETFD) >= 0;
    int status = 0;
    if (is_operators) { /* read, and not opened again: it may be root's */
        ssize_t got = 1;
        while (status == 0 && got > 0 && gateway->certificates.length < CERTIFICATES_MAX) {
            char piece[8192];
            got = read(GATEWAY_CA, piece, sizeof piece);
            status = got < 0 ? -errno : buffer_append(&gateway->certificates, piece, (size_t)got);
        }
        close(GATEWAY_CA);
    } else if (access(SYSTEM_CERTIFICATES, R_OK) == 0) {
        status = file_read_whole(AT_FDCWD, SYSTEM_CERTIFICATES, CERTIFICATES_MAX, &gateway->certificates);
    }
    return status < 0 ? error_host(err, status, "the gateway cannot read its certificates") : 0;
}

static int prepare(struct gateway *gateway, struct error *err)
{
    int status = read_settings(gateway, err);
    if (status == 0)
        status = read_certificates(gateway, err);
    if (status < 0)
        return status;
    status = address_learn_own();
    if (status < 0)
        return error_host(err, status, "the gateway cannot learn this machine's own addresses");
    status = resolve_prepare(gateway->limits.value[FETCH_wall]);
    if (status == 0)
        status = transfer_prepare((struct slice){gateway->certificates.data ? gateway->certificates.data : "",
                                                 gateway->certificates.length});
    if (status < 0)
        return error_host(err, status, "the gateway cannot be prepared");
    return gateway_confine(gateway->rules, gateway->rule_count, &gateway->limits, err);
}

/* From a request that can be read to an answer. */
static int perform(const struct gateway *gateway, const struct request *request, struct response *response,
                   char *reason, size_t reason_size)
{
    struct addresses addresses;
    const int64_t started_us = clock_monotonic_us();
    const struct fetch_rule *rule =
        request_find_rule(request, gateway->rules, gateway->rule_count, reason, reason_size);
    int status = rule ? resolve_request(request, rule, &addresses, reason, reason_size) : FETCH_DENIED;
    const int64_t wall_ms = gateway->limits.value[FETCH_wall],
                  left_ms = wall_ms - (clock_monotonic_us() - started_us) / 1000;
    if (status != FETCH_DENIED && left_ms <= 0)
        return transfer_refuse_late(wall_ms, reason, reason_size);
    if (status < 0)
        return status;
    const struct transfer terms = {.response_max = gateway->limits.value[FETCH_response],
                                   .wall_ms = wall_ms,
                                   .left_ms = left_ms,
                                   .control_fd = GATEWAY_CONTROL};
    return transfer_perform(&terms, request, &addresses, response, reason, reason_size);
}

static void answer(int status, const char *reason, const struct response *response)
{
    struct slice text = {reason, strlen(reason)};
    if (status > 0)
        text = (struct slice){response->headers.data, response->headers.length};
    const struct fetch_answer_head head = {.magic = FETCH_MAGIC,
                                           .status = status,
                                           .text_length = (uint32_t)text.length,
                                           .body_length = status > 0 ? response->body.length : 0};
    reply(&head, sizeof head);
    reply(text.data, text.length);
    reply(response->body.data, (size_t)head.body_length);
}

static int serve_request(struct gateway *gateway, struct slice method, struct slice url, struct slice headers,
                         struct slice body, bool is_too_large, struct gateway_word *word)
{
    scope_request request = {0};
    scope_response response = {0};
    char *reason = word->text;
    const int64_t *limit = gateway->limits.value;
    int status = request_read(method, url, headers, body, &request, reason, sizeof word->text);
    snprintf(word->method, sizeof word->method, "%s", request.method);
    if (status == 0)
        request_site(&request, word->site, sizeof word->site);
    if (++gateway->request_count > limit[FETCH_requests]) {
        status = FETCH_LIMITED;
        snprintf(reason, sizeof word->text, "more than %lld requests (fetch.requests)",
                 (long long)limit[FETCH_requests]);
    } else if (status == 0 && is_too_large) {
        status = FETCH_LIMITED;
        snprintf(reason, sizeof word->text, "its body is larger than %lld bytes (fetch.body)",
                 (long long)limit[FETCH_body]);
    }
    if (status == 0)
        status = perform(gateway, &request, &response, reason, sizeof word->text);
    word->status = status < 0 ? status : response.status;
    say(word); /* first: whoever has the answer may end the run at once */
    answer(word->status, reason, &response);
    return word->status;
}

/* A head that cannot be is no request of our own program's: nobody is answered. */
static void serve_one(struct gateway *gateway)
{
    static char method[FETCH_METHOD_MAX], url[FETCH_URL_MAX], headers[FETCH_HEADERS_MAX];
    struct fetch_request_head head;
    struct gateway_word word = {.kind = GATEWAY_FETCHED};
    receive(&head, sizeof head);
    if (!request_head_is_sound(&head))
        _exit(1);
    receive(method, head.method_length);
    receive(url, head.url_length);
    receive(headers, head.headers_length);
    bool is_too_large = head.body_length > (uint64_t)gateway->limits.value[FETCH_body];
    scope_free char *body = is_too_large ? NULL : malloc((size_t)head.body_length + 1);
    receive(body, head.body_length);
    is_too_large |= body == NULL;
    serve_request(gateway, (struct slice){method, head.method_length}, (struct slice){url, head.url_length},
                  (struct slice){headers, head.headers_length},
                  (struct slice){body, is_too_large ? 0 : (size_t)head.body_length}, is_too_large, &word);
}

int main(int count, char **words)
{
    static struct gateway gateway;
    struct error err = {0};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_DUMPABLE, 0);
    signal(SIGPIPE, SIG_IGN);
    (void)words;
    if (count != 1 || fcntl(GATEWAY_CONTROL, F_GETFD) < 0) {
        fprintf(stderr, "cloche-fetch is started by cloche\n");
        return 2;
    }
    int status = prepare(&gateway, &err);
    struct gateway_word word = {.kind = status < 0 ? GATEWAY_UNFIT : GATEWAY_READY};
    snprintf(word.text, sizeof word.text, "%.511s", err.text);
    say(&word);
    while (status == 0)
        serve_one(&gateway);
    return 1;
}
