#include "remote/http.h"

#include "cli/ending_signals.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/json_text.h"
#include "base/scope.h"

#include <curl/curl.h>
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

enum {
    CONNECT_MS = 10000,
    ANSWER_MAX = 512 << 20,
    ERROR_MAX = 1 << 20,
    GENTLE_MS = 3000, /* for an answer after a signal */
    POLL_MS = 1000,
};

struct http {
    CURLM *multi;
    CURL *easy;
    char *url, *key_header;
    int cancel_fd;
    int socket_fd; /* curl's, which does not tell it while a transfer is under way */
};

struct transfer {
    struct http *http;
    struct http_call *call;
    int broken; /* why we broke it off */
    size_t first_sent;
};

/* ---- open and close ---- */

static bool is_loopback(const char *url)
{
    static const char *const hosts[] = {"://127.", "://localhost", "://[::1]"};
    for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++)
        if (strstr(url, hosts[i]))
            return true;
    return false;
}

static int set_address(struct http *http, const char *url, struct error *err)
{
    bool has_scheme = strstr(url, "://");
    size_t length = strlen(url);
    while (length && url[length - 1] == '/')
        length--;
    if (has_scheme && strncmp(url, "http://", 7) != 0 && strncmp(url, "https://", 8) != 0)
        return error_spec(err, "server", "server: '%.128s' is not an address such as http://127.0.0.1:8420",
                          url);
    if (asprintf(&http->url, "%s%.*s", has_scheme ? "" : "http://", (int)length, url) < 0)
        return error_host(err, -ENOMEM, "server");
    return 0;
}

int http_open(const char *url, const char *key, int cancel_fd, struct http **ret, struct error *err)
{
    struct http *http = calloc(1, sizeof *http);
    if (!http)
        return error_host(err, -ENOMEM, "server");
    http->cancel_fd = cancel_fd;
    http->socket_fd = -1;
    int status = set_address(http, url, err);
    if (status == 0 && key && strpbrk(key, "\r\n"))
        status = error_spec(err, "key", "CLOCHE_KEY: holds more than one line");
    if (status == 0 && key && key[0] && asprintf(&http->key_header, "Authorization: Bearer %s", key) < 0)
        status = error_host(err, -ENOMEM, "server");
    if (status == 0 && (curl_global_init(CURL_GLOBAL_DEFAULT) != 0 || !(http->multi = curl_multi_init()) ||
                        !(http->easy = curl_easy_init())))
        status = error_host(err, -ENOMEM, "cannot set up HTTP");
    if (status < 0)
        http_close(http);
    else
        *ret = http;
    return status;
}

void http_close(struct http *http)
{
    if (!http)
        return;
    curl_easy_cleanup(http->easy);
    if (http->multi)
        curl_multi_cleanup(http->multi);
    free(http->url);
    free(http->key_header);
    free(http);
}

int http_cancel_fd(const struct http *http)
{
    return http->cancel_fd;
}

/* ---- errors ---- */

static int fill(struct error *err, enum error_kind kind, int code, const char *text, const char *hint)
{
    *err = (struct error){.kind = kind, .code = code};
    size_t length = strlen(text);
    while (length && text[length - 1] == '.')
        length--;
    snprintf(err->text, sizeof err->text, "%.*s%s%s", (int)length, text, hint && hint[0] ? "; " : "",
             hint ? hint : "");
    return code;
}

int http_refusal(const json_t *error, int status, struct error *err)
{
    /* Those that are not about what was asked; all others are. */
    static const struct {
        const char *code;
        enum error_kind kind;
        int code_number;
    } rows[] = {
        {"layer_missing", ERROR_LAYER, -ENOSYS}, {"host_failure", ERROR_HOST, -EIO},
        {"overloaded", ERROR_HOST, -EAGAIN},     {"quota", ERROR_HOST, -EDQUOT},
        {"unauthorized", ERROR_HOST, -EACCES},   {"not_found", ERROR_SPEC, -ENOENT},
        {"conflict", ERROR_SPEC, -EBUSY},
    };
    const char *code = json_string_value(json_object_get(error, "code"));
    const char *text = json_string_value(json_object_get(error, "message"));
    const char *field = json_string_value(json_object_get(error, "field"));
    const char *hint = json_string_value(json_object_get(error, "hint"));
    char unknown[96];
    snprintf(unknown, sizeof unknown, "the server answered %d and did not say why: is it one of cloche's?",
             status);
    if (!text)
        return fill(err, ERROR_HOST, -EPROTO, unknown, NULL);
    if (code && strcmp(code, "unauthorized") == 0)
        hint = "the key is taken from $CLOCHE_KEY; `cloche key add` makes one on the server";
    enum error_kind kind = status >= 500 ? ERROR_HOST : ERROR_SPEC;
    int number = kind == ERROR_SPEC ? -EINVAL : -EIO;
    for (size_t i = 0; code && i < sizeof rows / sizeof *rows; i++)
        if (strcmp(code, rows[i].code) == 0) {
            kind = rows[i].kind;
            number = rows[i].code_number;
        }
    fill(err, kind, number, text, hint);
    snprintf(err->subject, sizeof err->subject, "%s", field ? field : "");
    return number;
}

static int refuse_answer(const struct http_call *call, struct error *err)
{
    json_t *answer = json_loadb(call->answer.data ? call->answer.data : "", call->answer.length, 0, NULL);
    int status = http_refusal(json_object_get(answer, "error"), call->status, err);
    json_decref(answer);
    return status;
}

static int explain(const struct http *http, const struct transfer *transfer, CURLcode code, struct error *err)
{
    char text[400];
    const char *hint = NULL;
    if (transfer->broken == -ECANCELED)
        return fill(err, ERROR_HOST, -ECANCELED, "cancelled", NULL);
    if (transfer->broken < 0)
        return err->kind ? transfer->broken : error_host(err, transfer->broken, "cannot take the answer");
    snprintf(text, sizeof text, "%.200s: %s", http->url, curl_easy_strerror(code));
    if (code == CURLE_COULDNT_CONNECT) {
        snprintf(text, sizeof text, "no server answers at %.200s", http->url);
        hint = "`cloche serve` starts one, --server or $CLOCHE_SERVER names another";
    } else if (code == CURLE_COULDNT_RESOLVE_HOST) {
        snprintf(text, sizeof text, "there is no host of that name: %.200s", http->url);
    } else if (code == CURLE_URL_MALFORMAT) {
        snprintf(text, sizeof text, "server: '%.128s' is not an address such as http://127.0.0.1:8420",
                 http->url);
        return fill(err, ERROR_SPEC, -EINVAL, text, NULL);
    } else if (code == CURLE_PEER_FAILED_VERIFICATION) {
        snprintf(text, sizeof text, "the certificate of %.200s is not one that is trusted", http->url);
        hint = "$SSL_CERT_FILE names those that are";
    } else if (code == CURLE_GOT_NOTHING || code == CURLE_RECV_ERROR || code == CURLE_PARTIAL_FILE) {
        snprintf(text, sizeof text, "the server at %.200s broke off its answer", http->url);
    } else if (code == CURLE_WEIRD_SERVER_REPLY || code == CURLE_UNSUPPORTED_PROTOCOL) {
        snprintf(text, sizeof text, "what answers at %.200s does not speak HTTP", http->url);
    }
    return fill(err, ERROR_HOST, -EIO, text, hint);
}

/* ---- one request ---- */

static size_t take_bytes(char *bytes, size_t one, size_t count, void *data)
{
    (void)one;
    struct transfer *transfer = data;
    struct http_call *call = transfer->call;
    long status = 0;
    curl_easy_getinfo(transfer->http->easy, CURLINFO_RESPONSE_CODE, &status);
    bool is_good = status >= 200 && status < 300;
    if (is_good && call->take)
        transfer->broken = call->take(call->data, (struct slice){bytes, count});
    else if (call->answer.length + count > (is_good ? ANSWER_MAX : ERROR_MAX))
        transfer->broken = -EFBIG;
    else
        transfer->broken = buffer_append(&call->answer, bytes, count);
    return transfer->broken < 0 ? 0 : count;
}

static size_t take_header(char *line, size_t one, size_t count, void *data)
{
    (void)one;
    struct http_call *call = ((struct transfer *)data)->call;
    size_t length = call->wanted_header ? strlen(call->wanted_header) : count;
    if (length < count && strncasecmp(line, call->wanted_header, length) == 0)
        snprintf(call->header, sizeof call->header, "%.*s", (int)strcspn(line + length, "\r\n"),
                 line + length);
    return count;
}

/* Whoever waits for a slow source can still be told to end. */
static int await_source(const struct transfer *transfer)
{
    struct pollfd polled[] = {{.fd = transfer->call->source->fd, .events = POLLIN},
                              {.fd = transfer->http->cancel_fd, .events = POLLIN}};
    while (poll(polled, 2, -1) < 0)
        if (errno != EINTR)
            return -errno;
    return polled[1].revents && ending_signals_take(transfer->http->cancel_fd) ? -ECANCELED : 0;
}

static size_t give_first(struct transfer *transfer, char *into, size_t size)
{
    struct slice first = transfer->call->source->first;
    size_t left = first.length - transfer->first_sent, count = left < size ? left : size;
    if (count)
        memcpy(into, first.data + transfer->first_sent, count);
    transfer->first_sent += count;
    return count;
}

static size_t give_bytes(char *into, size_t one, size_t count, void *data)
{
    struct transfer *transfer = data;
    size_t given = give_first(transfer, into, one * count);
    if (given)
        return given;
    if (transfer->broken == 0) /* a signal may have been seen before */
        transfer->broken = await_source(transfer);
    ssize_t got = transfer->broken < 0 ? -1 : read(transfer->call->source->fd, into, one * count);
    if (got >= 0)
        return (size_t)got;
    if (transfer->broken == 0)
        transfer->broken = -errno;
    return CURL_READFUNC_ABORT;
}

static struct curl_slist *gather_headers(const struct http *http, const struct http_call *call)
{
    struct curl_slist *headers = NULL;
    if (http->key_header)
        headers = curl_slist_append(headers, http->key_header);
    if (call->body.data)
        headers = curl_slist_append(headers, "Content-Type: application/json");
    if (call->source)
        headers = curl_slist_append(headers, "Content-Type: application/octet-stream");
    else
        headers = curl_slist_append(headers, "Expect:"); /* a small body does not wait for a leave */
    for (size_t i = 0; i < sizeof call->headers / sizeof *call->headers && call->headers[i]; i++)
        headers = curl_slist_append(headers, call->headers[i]);
    return headers;
}

static int note_socket(void *data, curl_socket_t socket, curlsocktype purpose)
{
    (void)purpose;
    *(int *)data = socket;
    return CURL_SOCKOPT_OK;
}

static void set_options(struct http *http, struct transfer *transfer, const char *url,
                        struct curl_slist *headers)
{
    const struct http_call *call = transfer->call;
    CURL *easy = http->easy;
    curl_easy_reset(easy);
    curl_easy_setopt(easy, CURLOPT_URL, url);
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_MS);
    curl_easy_setopt(easy, CURLOPT_USERAGENT, "cloche/" CLOCHE_VERSION);
    curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    const char *certificates = getenv("SSL_CERT_FILE"); /* which curl itself does not look at */
    if (certificates && certificates[0])
        curl_easy_setopt(easy, CURLOPT_CAINFO, certificates);
    if (is_loopback(http->url))
        curl_easy_setopt(easy, CURLOPT_PROXY, ""); /* whatever the environment says */
    if (call->source) {
        curl_easy_setopt(easy, CURLOPT_UPLOAD, 1L);
        curl_easy_setopt(easy, CURLOPT_READFUNCTION, give_bytes);
        curl_easy_setopt(easy, CURLOPT_READDATA, transfer);
        curl_easy_setopt(easy, CURLOPT_INFILESIZE_LARGE, (curl_off_t)call->source->size_bytes);
        curl_easy_setopt(easy, CURLOPT_UPLOAD_BUFFERSIZE, 1L << 20);
    } else if (call->body.data) {
        curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)call->body.length);
        curl_easy_setopt(easy, CURLOPT_POSTFIELDS, call->body.data);
    }
    if (strcmp(call->method, "HEAD") == 0)
        curl_easy_setopt(easy, CURLOPT_NOBODY, 1L);
    else
        curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, call->method);
    curl_easy_setopt(easy, CURLOPT_SOCKOPTFUNCTION, note_socket);
    curl_easy_setopt(easy, CURLOPT_SOCKOPTDATA, &http->socket_fd);
    curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, 256L << 10);
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, take_header);
    curl_easy_setopt(easy, CURLOPT_HEADERDATA, transfer);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, take_bytes);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, transfer);
}

/* A signal came. True: go on for a while, there may be an answer. */
static bool end_gently(const struct http *http, const struct http_call *call)
{
    return call->ends_gently && http->socket_fd >= 0 && shutdown(http->socket_fd, SHUT_WR) == 0;
}

static void transfer_run(struct http *http, struct transfer *transfer, CURLcode *ret_code)
{
    int64_t deadline_us = 0;
    int running = 1;
    while (curl_multi_perform(http->multi, &running) == CURLM_OK && running && transfer->broken == 0) {
        struct curl_waitfd signals = {.fd = http->cancel_fd, .events = CURL_WAIT_POLLIN};
        curl_multi_poll(http->multi, &signals, 1, POLL_MS, NULL);
        bool came = signals.revents && ending_signals_take(http->cancel_fd);
        bool is_late = deadline_us && clock_monotonic_us() > deadline_us;
        if (is_late || (came && (deadline_us || !end_gently(http, transfer->call))))
            transfer->broken = -ECANCELED;
        else if (came)
            deadline_us = clock_monotonic_us() + GENTLE_MS * 1000;
    }
    *ret_code = CURLE_ABORTED_BY_CALLBACK;
    int left;
    for (CURLMsg *message; (message = curl_multi_info_read(http->multi, &left));)
        if (message->msg == CURLMSG_DONE)
            *ret_code = message->data.result;
    if (deadline_us && *ret_code != CURLE_OK) /* the server did not answer any more */
        transfer->broken = -ECANCELED;
}

int http_perform(struct http *http, struct http_call *call, struct error *err)
{
    struct transfer transfer = {.http = http, .call = call};
    scope_buffer url = {0};
    int status = buffer_print(&url, "%s%s", http->url, call->path);
    if (status < 0)
        return error_host(err, status, "server");
    struct curl_slist *headers = gather_headers(http, call);
    set_options(http, &transfer, url.data, headers);
    CURLcode code = CURLE_OUT_OF_MEMORY;
    if (curl_multi_add_handle(http->multi, http->easy) == CURLM_OK) {
        transfer_run(http, &transfer, &code);
        long answered = 0;
        curl_easy_getinfo(http->easy, CURLINFO_RESPONSE_CODE, &answered);
        call->status = (int)answered;
        curl_multi_remove_handle(http->multi, http->easy);
    }
    curl_slist_free_all(headers);
    bool is_refused = call->status >= 300;
    /* A refusal may come before all of a body was sent, and end the connection. */
    if (is_refused && transfer.broken == 0 && (code == CURLE_OK || code == CURLE_SEND_ERROR))
        return refuse_answer(call, err);
    return code == CURLE_OK && transfer.broken == 0 ? 0 : explain(http, &transfer, code, err);
}

int http_ask(struct http *http, const char *method, const char *path, json_t *takes, json_t **ret,
             struct error *err)
{
    struct http_call call = {.method = method, .path = path};
    scope_free char *body = takes ? json_text(takes, JSON_COMPACT) : NULL;
    json_decref(takes);
    if (body)
        call.body = (struct slice){body, strlen(body)};
    else if (strcmp(method, "POST") == 0)
        call.body = (struct slice){"{}", 2};
    int status = http_perform(http, &call, err);
    if (status == 0 && ret) {
        *ret = json_loadb(call.answer.data ? call.answer.data : "", call.answer.length, JSON_ALLOW_NUL, NULL);
        if (!*ret)
            status =
                fill(err, ERROR_HOST, -EPROTO, "the server's answer is not JSON", "is it one of cloche's?");
    }
    buffer_free(&call.answer);
    return status;
}

int http_append_encoded(struct buffer *into, const char *text)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~";
    int status = 0;
    for (; *text && status == 0; text++)
        status = strchr(plain, *text) ? buffer_append(into, text, 1)
                                      : buffer_print(into, "%%%02X", (unsigned char)*text);
    return status;
}
