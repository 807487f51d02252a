/* Sends HTTP requests to a server on loopback and prints how long each took: for bench/serve.
 *
 *   http-client latency PORT REQUESTS PAUSE_MS METHOD PATH [BODY]   one client, spaced: a line a request, in
 * us http-client load PORT CLIENTS SECONDS METHOD PATH [BODY]        clients that go on at once: lines as
 * above, then "ran N failed M in US"
 *
 * Connections are kept. A time is from the first byte sent to the last byte of the answer. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { ANSWER_MAX = 1 << 20, TIMES_MAX = 4 << 20 };

static char request[1 << 16];
static size_t request_length;
static int port;
static int64_t until_us;

struct client {
    pthread_t thread;
    int64_t *times;
    size_t count, failed;
};

static int64_t now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static int open_connection(void)
{
    const int yes = 1;
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) < 0) {
        perror("http-client");
        exit(2);
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    return fd;
}

/* The status of a whole answer with a Content-Length; -1 when the connection broke. */
static int receive_answer(int fd, char *into)
{
    size_t got = 0, needed = 0;
    while (!needed || got < needed) {
        ssize_t step = recv(fd, into + got, ANSWER_MAX - 1 - got, 0);
        if (step <= 0)
            return -1;
        got += (size_t)step;
        into[got] = '\0';
        const char *end = needed ? NULL : strstr(into, "\r\n\r\n");
        const char *length = end ? strcasestr(into, "\r\nContent-Length:") : NULL;
        if (end)
            needed = (size_t)(end - into) + 4 + (length ? strtoul(length + 17, NULL, 10) : 0);
    }
    return atoi(into + 9);
}

static bool request_once(int fd, char *answer, int64_t *ret_us)
{
    int64_t started_us = now_us();
    bool is_well = send(fd, request, request_length, MSG_NOSIGNAL) == (ssize_t)request_length &&
                   receive_answer(fd, answer) == 200;
    *ret_us = now_us() - started_us;
    return is_well;
}

static void *client_main(void *data)
{
    struct client *client = data;
    char *answer = malloc(ANSWER_MAX);
    int fd = open_connection();
    while (now_us() < until_us && client->count < TIMES_MAX) {
        if (request_once(fd, answer, &client->times[client->count])) {
            client->count++;
            continue;
        }
        client->failed++;
        close(fd);
        fd = open_connection();
    }
    close(fd);
    free(answer);
    return NULL;
}

static int measure_latency(int requests, int pause_ms)
{
    char *answer = malloc(ANSWER_MAX);
    int fd = open_connection();
    for (int i = 0; i < requests; i++) {
        int64_t time_us;
        if (!request_once(fd, answer, &time_us)) {
            fprintf(stderr, "http-client: %.300s\n", answer);
            return 1;
        }
        printf("%lld\n", (long long)time_us);
        usleep((useconds_t)pause_ms * 1000);
    }
    free(answer);
    return 0;
}

static int measure_load(int clients, int seconds)
{
    struct client *all = calloc((size_t)clients, sizeof *all);
    int64_t started_us = now_us();
    size_t ran = 0, failed = 0;
    until_us = started_us + (int64_t)seconds * 1000000;
    for (int i = 0; i < clients; i++) {
        all[i].times = malloc(TIMES_MAX * sizeof *all[i].times);
        pthread_create(&all[i].thread, NULL, client_main, &all[i]);
    }
    for (int i = 0; i < clients; i++)
        pthread_join(all[i].thread, NULL);
    int64_t took_us = now_us() - started_us;
    for (int i = 0; i < clients; i++) {
        for (size_t j = 0; j < all[i].count; j++)
            printf("%lld\n", (long long)all[i].times[j]);
        ran += all[i].count;
        failed += all[i].failed;
    }
    printf("ran %zu failed %zu in %lld\n", ran, failed, (long long)took_us);
    return failed > 0;
}

int main(int argc, char **argv)
{
    if (argc < 7 || (strcmp(argv[1], "latency") != 0 && strcmp(argv[1], "load") != 0)) {
        fprintf(stderr,
                "http-client latency|load PORT REQUESTS|CLIENTS PAUSE_MS|SECONDS METHOD PATH [BODY]\n");
        return 2;
    }
    const char *body = argc > 7 ? argv[7] : "";
    port = atoi(argv[2]);
    int length = snprintf(request, sizeof request,
                          "%s %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nContent-Type: application/json\r\n"
                          "Content-Length: %zu\r\n\r\n%s",
                          argv[5], argv[6], port, strlen(body), body);
    if (length < 0 || (size_t)length >= sizeof request)
        return 2;
    request_length = (size_t)length;
    return strcmp(argv[1], "latency") == 0 ? measure_latency(atoi(argv[3]), atoi(argv[4]))
                                           : measure_load(atoi(argv[3]), atoi(argv[4]));
}
