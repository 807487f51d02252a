/* cloche serve: a keeper, and an unprivileged server in front of it. */
#include "cli/command.h"
#include "cli/ending_signals.h"
#include "cli/pool_option.h"
#include "cli/report.h"

#include "base/clock.h"
#include "base/install.h"
#include "base/scope.h"
#include "base/thread.h"
#include "keeper/data_directory.h"
#include "keeper/front.h"
#include "keeper/record.h"
#include "keeper/session.h"
#include "server/keys.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct option_row options[] = {
    {"listen", 0, "ADDRESS", NULL, "address and port (127.0.0.1:8420); port 0: any that is free"},
    {"data", 0, "DIRECTORY", NULL,
     "where everything is kept (/var/lib/cloche/server, or ~/.local/share/cloche/server)"},
    {"tls-cert", 0, "FILE", NULL, "certificate chain in PEM format: serve https"},
    {"tls-key", 0, "FILE", NULL, "its private key"},
    {"spares", 0, "NUMBER", NULL, "boxes that are kept ready when nothing runs (2)"},
    {"spares-max", 0, "NUMBER", NULL, "how many they may become when there is demand (32)"},
    {"language", 0, "LANGUAGES", NULL,
     "kept ready from the start, beside python: javascript, bash; python/process …"},
    {"preload", 0, "MODULES", NULL,
     "what the interpreter has imported, with commas (numpy,pandas,matplotlib.pyplot)"},
    {"image", 0, "NAME", NULL,
     "image of the boxes that are ready from the start (the configuration's); others as runs ask for them"},
    {"rotate", 0, "NUMBER", NULL, "boxes after which a new interpreter is loaded (20000)"},
    {"config", 0, "FILE", NULL, "the operator's configuration instead of /etc/cloche.conf"},
    {"quiet", 'q', NULL, NULL, "no remarks"},
    {"help", 'h', NULL, NULL, "this text"},
};

enum { DRAIN_MS = 10000, BACKLOG = 1024, PORT_DEFAULT = 8420 };

#define CONFIG_DEFAULT "/etc/cloche.conf"

struct serve_options {
    struct pool_choice pool;
    const char *listen, *data, *certificate, *key, *config_path;
    bool quiet;
};

union address {
    struct sockaddr any;
    struct sockaddr_in four;
    struct sockaddr_in6 six;
};

struct place {
    union address address;
    socklen_t size;
    char data[400];
};

/* 1: help was printed. */
static int take_option(void *data, const struct option_row *row, const char *value, struct error *err)
{
    struct serve_options *into = data;
    const struct {
        const char *name;
        const char **into;
    } texts[] = {{"listen", &into->listen},
                 {"data", &into->data},
                 {"tls-cert", &into->certificate},
                 {"tls-key", &into->key},
                 {"config", &into->config_path}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (strcmp(row->name, texts[i].name) == 0) {
            *texts[i].into = value;
            return 0;
        }
    if (strcmp(row->name, "help") == 0) {
        help_print(&command_serve);
        return 1;
    }
    if (strcmp(row->name, "quiet") == 0)
        into->quiet = true;
    int taken = pool_option_take(&into->pool, row, value, err);
    return taken < 0 ? taken : 0;
}

/* "127.0.0.1:8420", "[::1]:8420", "localhost", "8420", ":8420" (all addresses). No names: they would be
 * looked up, and an address that is meant to be private could turn out not to be. */
static int read_address(const char *text, struct place *into, struct error *err)
{
    char host[64] = "127.0.0.1";
    const char *port = text;
    const char *colon = strrchr(text, ':');
    size_t length = 0;
    if (text[0] == '[') {
        length = strcspn(text, "]");
        colon = text[length] == ']' && text[length + 1] == ':' ? text + length + 1 : NULL;
        snprintf(host, sizeof host, "%.*s", (int)(length > 0 ? length - 1 : 0), text + 1);
        port = colon ? colon + 1 : text[length] && !text[length + 1] ? "" : "?";
    } else if (colon) {
        snprintf(host, sizeof host, "%.*s", (int)(colon - text), text);
        port = colon + 1;
    } else if (strspn(text, "0123456789") != strlen(text)) {
        snprintf(host, sizeof host, "%s", text);
        port = "";
    }
    if (!host[0])
        snprintf(host, sizeof host, "0.0.0.0");
    if (strcmp(host, "localhost") == 0)
        snprintf(host, sizeof host, "127.0.0.1");
    char *end;
    unsigned long number = port[0] ? strtoul(port, &end, 10) : PORT_DEFAULT;
    bool is_number = !port[0] || (!*end && strspn(port, "0123456789") == strlen(port));
    into->address = (union address){0};
    if (is_number && number <= 65535 && inet_pton(AF_INET, host, &into->address.four.sin_addr) == 1) {
        into->address.four.sin_family = AF_INET;
        into->address.four.sin_port = htons((uint16_t)number);
        into->size = sizeof into->address.four;
        return 0;
    }
    if (is_number && number <= 65535 && inet_pton(AF_INET6, host, &into->address.six.sin6_addr) == 1) {
        into->address.six.sin6_family = AF_INET6;
        into->address.six.sin6_port = htons((uint16_t)number);
        into->size = sizeof into->address.six;
        return 0;
    }
    return error_spec(err, "listen", "listen: '%.64s' is not ADDRESS:PORT, such as 127.0.0.1:8420 or [::1]:0",
                      text);
}

static bool is_loopback(const struct place *place)
{
    if (place->address.any.sa_family == AF_INET)
        return ntohl(place->address.four.sin_addr.s_addr) >> 24 == 127;
    return IN6_IS_ADDR_LOOPBACK(&place->address.six.sin6_addr);
}

/* A server that was killed a moment ago may still be on its way out, with the address. */
enum { LEFTOVER_MS = 1000 };

static int open_socket(struct place *place, struct error *err)
{
    const int yes = 1;
    scope_fd fd = socket(place->address.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) < 0)
        return error_host(err, -errno, "cannot make a socket");
    int64_t until_us = clock_monotonic_us() + LEFTOVER_MS * 1000;
    int bound;
    do
        bound = bind(fd, &place->address.any, place->size);
    while (bound < 0 && errno == EADDRINUSE && clock_monotonic_us() < until_us && usleep(20000) == 0);
    if (bound < 0 || listen(fd, BACKLOG) < 0)
        return error_host(err, -errno, "cannot listen there");
    if (getsockname(fd, &place->address.any, &place->size) < 0)
        return error_host(err, -errno, "cannot tell the port");
    return take_fd(&fd);
}

/* Keys themselves: a file that has only quotas in it lets nobody in. */
static int look_for_keys(struct front *front, struct error *err)
{
    struct key_file file;
    int status = keys_load(front->data_fd, &file, &front->keys_version, err);
    if (status < 0)
        return status;
    front->has_no_keys = file.key_count == 0;
    keys_free(&file);
    if (!front->is_local && front->has_no_keys)
        return error_spec(err, "listen",
                          "listen: whoever reaches this address could run code; make a key first: `cloche "
                          "key add`");
    return 0;
}

struct greeting {
    const struct serve_options *given;
    const struct place *place;
    const struct front *front;
};

static void greet(void *data, int deaths)
{
    const struct greeting *greeting = data;
    if (deaths > 0) {
        report_error("the server died and was started again (%d)", deaths);
        return;
    }
    if (greeting->given->quiet)
        return;
    const union address *address = &greeting->place->address;
    bool is_six = address->any.sa_family == AF_INET6;
    char host[INET6_ADDRSTRLEN] = "";
    inet_ntop(address->any.sa_family,
              is_six ? (const void *)&address->six.sin6_addr : (const void *)&address->four.sin_addr, host,
              sizeof host);
    fprintf(stderr, "cloche: serving on %s://%s%s%s:%u (%s; data in %s)\n",
            greeting->given->certificate ? "https" : "http", is_six ? "[" : "", host, is_six ? "]" : "",
            ntohs(is_six ? address->six.sin6_port : address->four.sin_port),
            greeting->front->has_no_keys ? "single-user: no keys are asked for" : "with keys",
            greeting->place->data);
    fflush(stderr);
}

static int find_data(const struct serve_options *given, struct place *place, struct error *err)
{
    if (given->data && strlen(given->data) >= sizeof place->data)
        return error_spec(err, "data", "data: the path is too long");
    if (given->data)
        snprintf(place->data, sizeof place->data, "%s", given->data);
    else if (data_directory_default(place->data, sizeof place->data) < 0)
        return error_spec(err, "data", "data: no home directory; give --data DIRECTORY");
    return 0;
}

/* All that the server gets; what is wrong is told before anything is started. */
static int prepare(const struct serve_options *given, struct place *place, struct front *front,
                   struct error *err)
{
    const char *config = given->config_path                  ? given->config_path
                         : access(CONFIG_DEFAULT, F_OK) == 0 ? CONFIG_DEFAULT
                                                             : NULL;
    if (!given->certificate != !given->key)
        return error_spec(err, "tls-key", "tls-cert and tls-key: give both, or none");
    int status = read_address(given->listen ? given->listen : "", place, err);
    if (status == 0)
        status = find_data(given, place, err);
    if (status < 0)
        return status;
    front->is_local = is_loopback(place);
    front->config_name = config;
    if ((front->program_fd = install_find_program("cloche-server", err)) < 0)
        return front->program_fd;
    front->config_fd = front_copy_file(config, "config", err);
    front->certificate_fd = front_copy_file(given->certificate, "tls-cert", err);
    front->key_fd = front_copy_file(given->key, "tls-key", err);
    if (err->kind)
        return err->code;
    front->pyodide_fd = install_find_directory("pyodide"); /* if not: who asks for it is told */
    if ((front->data_fd = data_directory_open(place->data, err)) < 0)
        return front->data_fd;
    status = data_directory_lock(front->data_fd, place->data, err);
    if (status < 0)
        return status;
    status = look_for_keys(front, err);
    if (status < 0)
        return status;
    front->listen_fd = open_socket(place, err);
    return front->listen_fd < 0 ? error_context(err, "listen: %.64s", given->listen ? given->listen : "") : 0;
}

static void forget(struct front *front)
{
    int *fds[] = {&front->program_fd,     &front->listen_fd, &front->data_fd,   &front->config_fd,
                  &front->certificate_fd, &front->key_fd,    &front->pyodide_fd};
    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++)
        scope_close_fd(fds[i]);
}

/* What a server that was killed left is removed behind, for it may be much. The kernel may still be ending
 * some of it, whose groups are not to be had before: so we look again, soon at first, and then for what
 * others leave meanwhile. */
static void *reap_leftovers(void *data)
{
    (void)data;
    static const int pauses_ms[] = {0, 500, 1000, 2000, 60000};
    enum { LAST = sizeof pauses_ms / sizeof *pauses_ms - 1 };
    struct cgroup_layout layout;
    cgroup_layout_find(&layout);
    for (size_t i = 0;; i += i < LAST) {
        struct reap_report report;
        struct error err = {0};
        poll(NULL, 0, pauses_ms[i]);
        record_reap_all(&layout, &report, &err);
    }
    return NULL;
}

static int serve(struct serve_options *given, struct error *err)
{
    pool_option_allow_descriptors();
    struct policy policy = {0};
    int status = policy_load(given->config_path, &policy, err);
    if (status < 0)
        return status;
    struct place place = {.size = 0};
    struct front front = {.program_fd = -1,
                          .listen_fd = -1,
                          .data_fd = -1,
                          .config_fd = -1,
                          .certificate_fd = -1,
                          .key_fd = -1,
                          .pyodide_fd = -1};
    struct pool *pool = NULL;
    struct service *service = NULL;
    struct session_table *sessions = NULL;
    scope_fd stop_fd = ending_signals_watch(); /* before any thread, which would take them otherwise */
    status = prepare(given, &place, &front, err);
    if (status == 0)
        status = pool_open(&policy, &given->pool.options, &pool, err);
    if (status == 0)
        status = session_table_open(&policy, given->pool.options.preload, &sessions, err);
    if (status == 0)
        status = service_open_inside(pool, &service, err);
    if (status == 0)
        service_keep_sessions(service, sessions);
    struct greeting greeting = {given, &place, &front};
    if (status == 0)
        thread_start(NULL, 0, reap_leftovers, NULL); /* the end does not wait for it */
    if (status == 0)
        status = front_run(&front, service, stop_fd, DRAIN_MS, greet, &greeting, err);
    service_close(service);
    session_table_close(sessions);
    pool_close(pool);
    forget(&front);
    policy_free(&policy);
    return status;
}

static int serve_main(int argc, char **argv)
{
    struct error err = {0};
    struct serve_options given = {.pool = POOL_CHOICE_DEFAULT};
    int status = option_each(argc, argv, &command_serve, take_option, &given, &err);
    if (status == 0)
        status = pool_option_finish(&given.pool, &err);
    if (status == 0)
        status = serve(&given, &err);
    pool_option_free(&given.pool);
    if (status < 0)
        report_error("%s", err.text);
    return status < 0 ? report_error_status(&err) : 0;
}

const struct command command_serve = {
    .name = "serve",
    .usage = "serve [OPTIONS]",
    .summary = "serve runs, sandboxes and files over HTTP",
    .description =
        "Stays, and answers HTTP requests: code is run, boxes are kept for sessions, files are uploaded.\n"
        "The API is described at /v1/openapi.json; `/` is a playground for the browser.\n\n"
        "This process is the keeper, as of `cloche keep`; requests are read by another one, which has no\n"
        "rights. On loopback nobody is asked for a key as long as there are none; on any other address the\n"
        "server starts with keys only. SIGTERM or Ctrl-C lets what is under way finish, and ends both.",
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .main = serve_main,
};
