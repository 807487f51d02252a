#include "gateway/request.h"

#include "base/scope.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

static const struct {
    const char *name;
    bool has_body;
} methods[] = {{"GET", false}, {"HEAD", false}, {"POST", true},
               {"PUT", true},  {"PATCH", true}, {"DELETE", true}};

/* What says how a message goes over the wire is the gateway's business. */
static const char *const own_headers[] = {"host",           "content-length",   "transfer-encoding",
                                          "connection",     "keep-alive",       "te",
                                          "trailer",        "upgrade",          "expect",
                                          "http2-settings", "proxy-connection", "proxy-authorization"};

void request_free(struct request *request)
{
    string_list_free(&request->headers);
    buffer_free(&request->target);
}

bool request_head_is_sound(const struct fetch_request_head *head)
{
    return head->magic == FETCH_MAGIC && head->method_length <= FETCH_METHOD_MAX &&
           head->url_length <= FETCH_URL_MAX && head->headers_length <= FETCH_HEADERS_MAX;
}

#define REFUSE(...) (snprintf(reason, reason_size, __VA_ARGS__), FETCH_MALFORMED)

static bool is_text(struct slice slice, const char *text)
{
    return slice.length == strlen(text) && memcmp(slice.data, text, slice.length) == 0;
}

static int read_method(struct slice method, struct request *ret, char *reason, size_t reason_size)
{
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
        if (!is_text(method, methods[i].name))
            continue;
        ret->method = methods[i].name;
        ret->wants_head_only = strcmp(ret->method, "HEAD") == 0;
        ret->has_body = methods[i].has_body;
        if (ret->body.length && !ret->has_body)
            return REFUSE("a %s has no body", ret->method);
        return 0;
    }
    return REFUSE("the method is none of GET, HEAD, POST, PUT, PATCH, DELETE");
}

static bool take_scheme(struct slice *url, const char *scheme)
{
    size_t length = strlen(scheme);
    if (url->length < length || strncasecmp(url->data, scheme, length) != 0)
        return false;
    *url = (struct slice){url->data + length, url->length - length};
    return true;
}

static size_t find_any(struct slice text, const char *letters)
{
    size_t at = 0;
    while (at < text.length && (!text.data[at] || !strchr(letters, text.data[at])))
        at++;
    return at;
}

static int read_port(struct slice text, int *ret, char *reason, size_t reason_size)
{
    int port = 0;
    bool is_number = text.length >= 1 && text.length <= 5;
    for (size_t i = 0; is_number && i < text.length; i++) {
        is_number = text.data[i] >= '0' && text.data[i] <= '9';
        port = port * 10 + text.data[i] - '0';
    }
    if (!is_number || port < 1 || port > 65535)
        return REFUSE("the port is not a number from 1 to 65535");
    *ret = port;
    return 0;
}

/* [user@]host[:port], of which the first part is refused: it is where one host is made to look like another.
 */
static int read_authority(struct slice text, struct request *ret, char *reason, size_t reason_size)
{
    if (find_any(text, "@") < text.length)
        return REFUSE("the address has a user in it ('@'); send credentials as a header");
    size_t end = 0;
    if (text.length && text.data[0] == '[')
        end = find_any(text, "]") + 1;
    else
        end = find_any(text, ":");
    if (end > text.length || (end < text.length && text.data[end] != ':'))
        return REFUSE("the address has no host that can be read");
    const struct slice host = {text.data, end};
    const char *fault = fetch_host_read(host, ret->host, &ret->kind);
    if (fault) {
        bool is_spelling = ret->kind != FETCH_NAME; /* of what would be an address */
        snprintf(reason, reason_size, "the host %s", fault);
        return is_spelling ? FETCH_DENIED : FETCH_MALFORMED;
    }
    const int usual = ret->is_secure ? 443 : 80;
    ret->port = usual;
    if (end < text.length) {
        int status = read_port((struct slice){text.data + end + 1, text.length - end - 1}, &ret->port, reason,
                               reason_size);
        if (status < 0)
            return status;
    }
    ret->is_usual_port = ret->port == usual;
    return 0;
}

static int read_url(struct slice url, struct request *ret, char *reason, size_t reason_size)
{
    for (size_t i = 0; i < url.length; i++) {
        unsigned char letter = (unsigned char)url.data[i];
        if (letter <= ' ' || letter >= 0x7f || letter == '\\')
            return REFUSE("the address has a byte in it that must be written as %%%02X", letter);
    }
    ret->is_secure = take_scheme(&url, "https://");
    if (!ret->is_secure && !take_scheme(&url, "http://"))
        return REFUSE("the address does not begin with http:// or https://");
    size_t end = find_any(url, "/?#");
    int status = read_authority((struct slice){url.data, end}, ret, reason, reason_size);
    if (status < 0)
        return status;
    struct slice target = {url.data + end, find_any(url, "#") - end}; /* the rest is not sent */
    status = target.length && target.data[0] == '/' ? 0 : buffer_append_text(&ret->target, "/");
    if (status == 0)
        status = buffer_append(&ret->target, target.data, target.length);
    return status < 0 ? REFUSE("no memory") : 0;
}

static bool is_header_name(struct slice name)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                  "!#$%&'*+-.^_`|~";
    for (size_t i = 0; i < name.length; i++)
        if (!name.data[i] || !strchr(letters, name.data[i]))
            return false;
    return name.length > 0;
}

static int read_header(struct slice line, struct request *ret, char *reason, size_t reason_size)
{
    size_t colon = find_any(line, ":");
    const struct slice name = {line.data, colon};
    if (colon == line.length || !is_header_name(name))
        return REFUSE("a header line is not `Name: value`");
    for (size_t i = 0; i < sizeof own_headers / sizeof *own_headers; i++)
        if (strlen(own_headers[i]) == colon && strncasecmp(own_headers[i], name.data, colon) == 0)
            return REFUSE("the header '%s' is not for a module to set", own_headers[i]);
    struct slice value = {line.data + colon + 1, line.length - colon - 1};
    while (value.length && (value.data[0] == ' ' || value.data[0] == '\t'))
        value = (struct slice){value.data + 1, value.length - 1};
    for (size_t i = 0; i < value.length; i++) {
        unsigned char letter = (unsigned char)value.data[i];
        if ((letter < ' ' && letter != '\t') || letter == 0x7f)
            return REFUSE("the value of header '%.*s' has a control character in it",
                          (int)(colon < 64 ? colon : 64), name.data);
    }
    if (ret->headers.count == REQUEST_HEADERS_MAX)
        return REFUSE("more than %d headers", REQUEST_HEADERS_MAX);
    /* libcurl's way to say that a header has no value. */
    int status = value.length ? string_list_print(&ret->headers, "%.*s: %.*s", (int)name.length, name.data,
                                                  (int)value.length, value.data)
                              : string_list_print(&ret->headers, "%.*s;", (int)name.length, name.data);
    return status < 0 ? REFUSE("no memory") : 0;
}

static int read_headers(struct slice text, struct request *ret, char *reason, size_t reason_size)
{
    while (text.length) {
        size_t end = find_any(text, "\n");
        int status = end ? read_header((struct slice){text.data, end}, ret, reason, reason_size) : 0;
        if (status < 0)
            return status;
        end += end < text.length;
        text = (struct slice){text.data + end, text.length - end};
    }
    return 0;
}

int request_read(struct slice method, struct slice url, struct slice headers, struct slice body,
                 struct request *ret, char *reason, size_t reason_size)
{
    *ret = (struct request){.method = "", .body = body};
    int status = read_method(method, ret, reason, reason_size);
    if (status == 0)
        status = read_url(url, ret, reason, reason_size);
    return status < 0 ? status : read_headers(headers, ret, reason, reason_size);
}

const char *request_site(const struct request *request, char *into, size_t size)
{
    bool is_long = request->kind == FETCH_IPV6;
    snprintf(into, size, "%s://%s%s%s:%d", request->is_secure ? "https" : "http", is_long ? "[" : "",
             request->host, is_long ? "]" : "", request->port);
    return into;
}

const struct fetch_rule *request_find_rule(const struct request *request, const struct fetch_rule *rules,
                                           size_t count, char *reason, size_t reason_size)
{
    size_t length;
    for (size_t i = 0; i < count; i++)
        if (fetch_rule_fits(&rules[i], request->host, request->kind, request->port, request->is_usual_port))
            return &rules[i];
    length =
        (size_t)snprintf(reason, reason_size,
                         "'%.160s:%d' is not among the hosts of this run: ", request->host, request->port);
    for (size_t i = 0; i < count && length < reason_size; i++) {
        char text[FETCH_RULE_SIZE];
        fetch_rule_show(&rules[i], text);
        length += (size_t)snprintf(reason + length, reason_size - length, "%s%s", i ? ", " : "", text);
    }
    return NULL;
}
