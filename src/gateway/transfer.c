#include "gateway/transfer.h"

#include "base/text.h"

#include <curl/curl.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

static CURL *curl;
static struct curl_blob trusted = {.flags = CURL_BLOB_NOCOPY};

struct under_way {
    const struct transfer *terms;
    const struct request *request;
    const struct addresses *addresses;
    struct response *response;
    bool is_elsewhere, is_too_large, is_out_of_memory, headers_are_too_large, is_coded;
    bool headers_have_ended;
};

void response_free(struct response *response)
{
    buffer_free(&response->headers);
    buffer_free(&response->body);
}

int transfer_prepare(struct slice certificates)
{
    trusted.data = (void *)(uintptr_t)certificates.data;
    trusted.len = certificates.length;
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK || !(curl = curl_easy_init()))
        return -ENOMEM;
    return 0;
}

/* The last look before something is connected to. */
static curl_socket_t open_socket(void *data, curlsocktype purpose, struct curl_sockaddr *address)
{
    struct under_way *self = data;
    if (purpose != CURLSOCKTYPE_IPCXN ||
        !addresses_have(self->addresses, &address->addr, self->request->port)) {
        self->is_elsewhere = true;
        return CURL_SOCKET_BAD;
    }
    return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

static size_t take_body(char *bytes, size_t size, size_t count, void *data)
{
    struct under_way *self = data;
    size_t length = size * count;
    if (self->response->body.length + length > (size_t)self->terms->response_max) {
        self->is_too_large = true;
        return 0;
    }
    self->is_out_of_memory = buffer_append(&self->response->body, bytes, length) < 0;
    return self->is_out_of_memory ? 0 : length;
}

/* Of the codings for the way libcurl undoes more than the one that every answer may have: an answer of a
 * kilobyte could become one of any size, and its length would say neither. */
static bool is_coded_for_the_way(const char *line, size_t length)
{
    static const char name[] = "transfer-encoding:", plain[] = "chunked";
    if (length < sizeof name - 1 || strncasecmp(line, name, sizeof name - 1) != 0)
        return false;
    const char *at = line + sizeof name - 1, *end = line + length;
    while (at < end && (*at == ' ' || *at == '\t'))
        at++;
    while (end > at && (end[-1] == ' ' || end[-1] == '\t'))
        end--;
    return (size_t)(end - at) != sizeof plain - 1 || strncasecmp(at, plain, sizeof plain - 1) != 0;
}

/* Lines as they came, those of the last answer only: a status of 100 to 199 comes before it. */
static size_t take_header(char *bytes, size_t size, size_t count, void *data)
{
    struct under_way *self = data;
    struct buffer *headers = &self->response->headers;
    size_t length = size * count, shown = length;
    while (shown && (bytes[shown - 1] == '\n' || bytes[shown - 1] == '\r'))
        shown--;
    if (shown > 5 && memcmp(bytes, "HTTP/", 5) == 0) {
        headers->length = 0;
        self->headers_have_ended = false;
        return length;
    }
    if (!shown) {
        self->headers_have_ended = true;
        return length;
    }
    if (is_coded_for_the_way(bytes, shown)) {
        self->is_coded = true;
        return 0;
    }
    if (headers->length + shown + 1 > FETCH_TEXT_MAX) {
        self->headers_are_too_large = true;
        return 0;
    }
    self->is_out_of_memory = buffer_append(headers, bytes, shown) < 0 || buffer_append(headers, "\n", 1) < 0;
    return self->is_out_of_memory ? 0 : length;
}

/* Asked about once a second at least: is there anybody left who waits for it? */
static int is_given_up(void *data, curl_off_t total, curl_off_t now, curl_off_t up, curl_off_t up_now)
{
    (void)total, (void)now, (void)up, (void)up_now;
    const struct under_way *self = data;
    struct pollfd control = {.fd = self->terms->control_fd};
    return poll(&control, 1, 0) > 0 && control.revents;
}

static bool has_header(const struct request *request, const char *name)
{
    size_t length = strlen(name);
    for (size_t i = 0; i < request->headers.count; i++)
        if (strncasecmp(request->headers.items[i], name, length) == 0 &&
            strchr(":;", request->headers.items[i][length]))
            return true;
    return false;
}

static struct curl_slist *list_headers(const struct request *request)
{
    struct curl_slist *list = curl_slist_append(NULL, "Expect:"); /* those that libcurl would add: none */
    if (list && request->has_body && !has_header(request, "Content-Type"))
        list = curl_slist_append(list, "Content-Type:");
    for (size_t i = 0; list && i < request->headers.count; i++)
        list = curl_slist_append(list, request->headers.items[i]);
    return list;
}

/* What holds for every transfer. */
static void set_surroundings(struct under_way *self, char *words)
{
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(curl, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(curl, CURLOPT_HTTP09_ALLOWED, 0L);
    curl_easy_setopt(curl, CURLOPT_PROXY, "");
    curl_easy_setopt(curl, CURLOPT_NOPROXY, "*");
    curl_easy_setopt(curl, CURLOPT_NETRC, (long)CURL_NETRC_IGNORED);
    curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(curl, CURLOPT_DISALLOW_USERNAME_IN_URL, 1L);
    curl_easy_setopt(curl, CURLOPT_PATH_AS_IS, 1L);
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_SSL_VERIFYPEER, 1L);
    curl_easy_setopt(curl, CURLOPT_SSL_VERIFYHOST, 2L);
    curl_easy_setopt(curl, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    curl_easy_setopt(curl, CURLOPT_CAINFO, NULL);
    curl_easy_setopt(curl, CURLOPT_CAPATH, NULL);
    curl_easy_setopt(curl, CURLOPT_CAINFO_BLOB, &trusted);
    curl_easy_setopt(curl, CURLOPT_USERAGENT, "cloche/" CLOCHE_VERSION);
    curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, words);
    curl_easy_setopt(curl, CURLOPT_OPENSOCKETFUNCTION, open_socket);
    curl_easy_setopt(curl, CURLOPT_OPENSOCKETDATA, self);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take_body);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, self);
    curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, take_header);
    curl_easy_setopt(curl, CURLOPT_HEADERDATA, self);
    curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, is_given_up);
    curl_easy_setopt(curl, CURLOPT_XFERINFODATA, self);
    curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, (long)self->terms->left_ms);
    /* What HEAD is told of does not come. */
    curl_easy_setopt(curl, CURLOPT_MAXFILESIZE_LARGE,
                     (curl_off_t)(self->request->wants_head_only ? 0 : self->terms->response_max));
}

static bool set_request(const struct request *request, const char *url)
{
    bool is_set = curl_easy_setopt(curl, CURLOPT_URL, url) == CURLE_OK;
    if (request->wants_head_only)
        curl_easy_setopt(curl, CURLOPT_NOBODY, 1L);
    if (request->has_body) {
        curl_easy_setopt(curl, CURLOPT_POST, 1L);
        curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->body.length);
        curl_easy_setopt(curl, CURLOPT_POSTFIELDS, request->body.length ? request->body.data : "");
        is_set &= curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, request->method) == CURLE_OK;
    }
    return is_set;
}

int transfer_refuse_late(int64_t wall_ms, char *reason, size_t reason_size)
{
    char bound[32];
    snprintf(reason, reason_size, "it is not done within %s (fetch.wall)",
             text_format_duration(wall_ms, bound, sizeof bound));
    return FETCH_LIMITED;
}

static int explain(const struct under_way *self, CURLcode code, const char *words, char *reason, size_t size)
{
    char bound[32];
    if (self->is_elsewhere) {
        snprintf(reason, size, "what would be connected to is none of the addresses that were looked at");
        return FETCH_DENIED;
    }
    if (self->is_too_large || code == CURLE_FILESIZE_EXCEEDED) {
        snprintf(reason, size, "the answer is larger than %s (fetch.response)",
                 text_format_size(self->terms->response_max, bound, sizeof bound));
        return FETCH_LIMITED;
    }
    if (self->is_coded) {
        snprintf(reason, size,
                 "the answer is coded for the way (Transfer-Encoding) by something else than chunks");
        return FETCH_FAILED;
    }
    if (self->headers_are_too_large) {
        snprintf(reason, size, "the headers of the answer are larger than %d KiB", FETCH_TEXT_MAX >> 10);
        return FETCH_LIMITED;
    }
    if (code == CURLE_OPERATION_TIMEDOUT)
        return transfer_refuse_late(self->terms->wall_ms, reason, size);
    snprintf(reason, size, "%s",
             self->is_out_of_memory ? "no memory"
             : words[0]             ? words
                                    : curl_easy_strerror(code));
    return FETCH_FAILED;
}

int transfer_perform(const struct transfer *terms, const struct request *request,
                     const struct addresses *addresses, struct response *ret, char *reason,
                     size_t reason_size)
{
    struct under_way self = {.terms = terms, .request = request, .addresses = addresses, .response = ret};
    scope_buffer url = {0};
    char site[FETCH_HOST_SIZE + 32], words[CURL_ERROR_SIZE] = "",
                                     places[FETCH_HOST_SIZE + ADDRESSES_MAX * (INET6_ADDRSTRLEN + 3) + 16];
    *ret = (struct response){0};
    curl_easy_reset(curl); /* connections are kept: each was looked at when it was made */
    if (buffer_print(&url, "%s%s", request_site(request, site, sizeof site), request->target.data) < 0)
        url.length = 0;
    addresses_write(addresses, request, places, sizeof places);
    struct curl_slist *pinned = request->kind == FETCH_NAME ? curl_slist_append(NULL, places) : NULL,
                      *headers = list_headers(request);
    CURLcode code = CURLE_OUT_OF_MEMORY;
    if (url.length && headers && (pinned || request->kind != FETCH_NAME)) {
        set_surroundings(&self, words);
        curl_easy_setopt(curl, CURLOPT_RESOLVE, pinned);
        curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
        code = set_request(request, url.data) ? curl_easy_perform(curl) : CURLE_OUT_OF_MEMORY;
    }
    long status = 0;
    if (code == CURLE_OK)
        curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    curl_easy_reset(curl); /* it must not keep what ends with us */
    curl_slist_free_all(pinned);
    curl_slist_free_all(headers);
    ret->status = (int)status;
    if (code == CURLE_OK && !self.headers_have_ended) { /* which libcurl lets pass */
        snprintf(reason, reason_size, "the answer ends within its headers");
        return FETCH_FAILED;
    }
    if (code == CURLE_OK && status >= 100 && status <= 999)
        return 0;
    return explain(&self, code, words, reason, reason_size);
}
