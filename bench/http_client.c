/* Sends one HTTP request again and again over connections that stay, and prints how long each answer took:
 * for bench/server. One thread and epoll, so that the server has the machine to itself.
 *
 *   http_client latency COUNT PAUSE_MS    PORT EXPECT PATH [BODY]   one client, spaced
 *   http_client load    CLIENTS SECONDS   PORT EXPECT PATH [BODY]   clients that go on at once
 *
 * A line an answer, "US", from the request's first byte sent to the answer's last byte received; then
 * "ran N failed M in US". An answer counts when its status is 200 and EXPECT stands in its body. With a BODY
 * (JSON) the method is POST, else GET. A server that closes its connections is connected to anew, within the
 * time that is measured. */
#include "base/bytes.h"
#include "base/clock.h"
#include "base/scope.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ANSWER_MAX = 256 << 10, COMPLAINTS_MAX = 5, READY_MAX = 64, WAIT_MS = 1000, PATIENCE_S = 60 };

struct target {
    struct sockaddr_in address;
    struct buffer request;
    const char *expect;
};

struct visitor {
    int fd; /* -1: not connected */
    int64_t started_us;
    size_t length;
    char *answer;
};

struct tally {
    int64_t *times_us;
    size_t count, room;
    int64_t failed;
};

static void complain(struct tally *tally, const char *what, const struct visitor *visitor)
{
    if (tally->failed++ < COMPLAINTS_MAX)
        fprintf(stderr, "http_client: %s: %.*s\n", what, (int)(visitor->length < 400 ? visitor->length : 400),
                visitor->answer);
}

static void note(struct tally *tally, int64_t took_us)
{
    if (tally->count == tally->room) {
        tally->room = tally->room ? tally->room * 2 : 4096;
        tally->times_us = realloc(tally->times_us, tally->room * sizeof *tally->times_us);
        if (!tally->times_us)
            abort();
    }
    tally->times_us[tally->count++] = took_us;
}

static int connect_to(const struct target *target)
{
    const int yes = 1;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    struct timeval patience = {.tv_sec = PATIENCE_S};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    if (connect(fd, (const struct sockaddr *)&target->address, sizeof target->address) < 0) {
        int status = -errno;
        close(fd);
        return status;
    }
    return fd;
}

/* Connects where needed. The requests are small: they fit into the socket at once. */
static int ask(struct visitor *visitor, const struct target *target)
{
    visitor->length = 0;
    visitor->started_us = clock_monotonic_us();
    if (visitor->fd < 0 && (visitor->fd = connect_to(target)) < 0)
        return visitor->fd;
    ssize_t sent = send(visitor->fd, target->request.data, target->request.length, MSG_NOSIGNAL);
    return sent == (ssize_t)target->request.length ? 0 : -EPIPE;
}

static const char *header_value(const char *headers, size_t length, const char *name)
{
    size_t name_length = strlen(name);
    for (const char *at = headers; (at = memmem(at, length - (size_t)(at - headers), "\r\n", 2)); at += 2)
        if ((size_t)(at - headers) + 2 + name_length < length && strncasecmp(at + 2, name, name_length) == 0)
            return at + 2 + name_length + strspn(at + 2 + name_length, " ");
    return NULL;
}

/* 1: whole and right; 0: more is to come; negative: wrong. */
static int judge(const struct visitor *visitor, const struct target *target, bool *ret_closes)
{
    const char *end = memmem(visitor->answer, visitor->length, "\r\n\r\n", 4);
    if (!end)
        return visitor->length == ANSWER_MAX ? -EMSGSIZE : 0;
    size_t head = (size_t)(end - visitor->answer) + 4;
    const char *length = header_value(visitor->answer, head - 2, "Content-Length:");
    const char *connection = header_value(visitor->answer, head - 2, "Connection:");
    if (!length)
        return -EBADMSG;
    size_t body = strtoull(length, NULL, 10);
    if (body > ANSWER_MAX - head)
        return -EMSGSIZE;
    if (visitor->length < head + body)
        return 0;
    *ret_closes = connection && strncasecmp(connection, "close", 5) == 0;
    bool is_right = strncmp(visitor->answer + 8, " 200", 4) == 0 &&
                    memmem(visitor->answer + head, body, target->expect, strlen(target->expect));
    return is_right && visitor->length == head + body ? 1 : -EBADMSG;
}

/* As judge(), after what is there was received. `flags`: whether to wait for it. */
static int hear(struct visitor *visitor, const struct target *target, int flags, bool *ret_closes)
{
    ssize_t got = recv(visitor->fd, visitor->answer + visitor->length, ANSWER_MAX - visitor->length, flags);
    if (got == 0)
        return -EPIPE;
    if (got < 0)
        return flags && errno == EAGAIN ? 0 : -errno;
    visitor->length += (size_t)got;
    return judge(visitor, target, ret_closes);
}

/* Counts an answer, or that there is none. */
static void finish(struct visitor *visitor, struct tally *tally, int status, bool closes)
{
    if (status > 0)
        note(tally, clock_monotonic_us() - visitor->started_us);
    else
        complain(tally, strerror(-status), visitor);
    if (closes || status < 0)
        scope_close_fd(&visitor->fd);
}

static void measure_latency(const struct target *target, int count, int pause_ms, struct tally *tally)
{
    struct visitor visitor = {.fd = -1, .answer = malloc(ANSWER_MAX)};
    for (int i = 0; visitor.answer && i < count; i++) {
        bool closes = false;
        usleep((useconds_t)pause_ms * 1000);
        int status = ask(&visitor, target);
        while (status == 0)
            status = hear(&visitor, target, 0, &closes);
        finish(&visitor, tally, status, closes);
    }
    scope_close_fd(&visitor.fd);
    free(visitor.answer);
}

static void begin(struct visitor *visitor, const struct target *target, int epoll, struct tally *tally)
{
    bool is_new = visitor->fd < 0;
    int status = ask(visitor, target);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = visitor};
    if (status == 0 && is_new && epoll_ctl(epoll, EPOLL_CTL_ADD, visitor->fd, &event) < 0)
        status = -errno;
    if (status < 0) {
        finish(visitor, tally, status, true);
        usleep(1000); /* a server that is away is not asked as fast as we can */
    }
}

static void measure_load(const struct target *target, int clients, int seconds, struct tally *tally)
{
    struct visitor *visitors = calloc((size_t)clients, sizeof *visitors);
    scope_fd epoll = epoll_create1(EPOLL_CLOEXEC);
    int64_t until_us = clock_monotonic_us() + (int64_t)seconds * 1000000;
    int64_t give_up_us = until_us + (int64_t)PATIENCE_S * 1000000;
    for (int i = 0; i < clients; i++)
        visitors[i] = (struct visitor){.fd = -1, .answer = malloc(ANSWER_MAX)};
    for (int i = 0; i < clients; i++)
        begin(&visitors[i], target, epoll, tally);
    int under_way = clients;
    while (under_way > 0 && clock_monotonic_us() < give_up_us) {
        struct epoll_event ready[READY_MAX];
        int count = epoll_wait(epoll, ready, READY_MAX, WAIT_MS);
        for (int i = 0; i < count; i++) {
            struct visitor *visitor = ready[i].data.ptr;
            bool closes = false;
            int status = hear(visitor, target, MSG_DONTWAIT, &closes);
            if (status == 0)
                continue;
            finish(visitor, tally, status, closes);
            bool goes_on = clock_monotonic_us() < until_us;
            if (goes_on)
                begin(visitor, target, epoll, tally);
            under_way -= !goes_on || visitor->fd < 0;
        }
    }
    tally->failed += under_way;
    for (int i = 0; i < clients; i++) {
        scope_close_fd(&visitors[i].fd);
        free(visitors[i].answer);
    }
    free(visitors);
}

static void read_target(struct target *target, int port, char **arguments)
{
    char head[512];
    const char *body = arguments[2] ? arguments[2] : "";
    target->address = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    target->address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    target->expect = arguments[0];
    int length = snprintf(head, sizeof head, "%s %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n",
                          arguments[2] ? "POST" : "GET", arguments[1], port);
    buffer_append(&target->request, head, (size_t)length);
    length = snprintf(head, sizeof head, "Content-Type: application/json\r\nContent-Length: %zu\r\n",
                      strlen(body));
    if (arguments[2])
        buffer_append(&target->request, head, (size_t)length);
    buffer_append(&target->request, "\r\n", 2);
    buffer_append(&target->request, body, strlen(body));
}

int main(int argc, char **argv)
{
    bool is_load = argc > 1 && strcmp(argv[1], "load") == 0;
    if (argc < 7 || argc > 8 || (!is_load && strcmp(argv[1], "latency") != 0)) {
        fprintf(stderr, "usage: http_client latency COUNT PAUSE_MS PORT EXPECT PATH [BODY]\n"
                        "       http_client load CLIENTS SECONDS PORT EXPECT PATH [BODY]\n");
        return 2;
    }
    struct target target = {0};
    struct tally tally = {0};
    read_target(&target, atoi(argv[4]), argv + 5);
    int64_t started_us = clock_monotonic_us();
    (is_load ? measure_load : measure_latency)(&target, atoi(argv[2]), atoi(argv[3]), &tally);
    int64_t took_us = clock_monotonic_us() - started_us;
    for (size_t i = 0; i < tally.count; i++)
        printf("%lld\n", (long long)tally.times_us[i]);
    printf("ran %zu failed %lld in %lld\n", tally.count, (long long)tally.failed, (long long)took_us);
    buffer_free(&target.request);
    free(tally.times_us);
    return tally.failed ? 1 : 0;
}
