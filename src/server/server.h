/* The server as its parts see it. One of it exists, made by main.c before any thread. */
#pragma once

#include "server/metrics.h"
#include "spec/policy.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

struct MHD_Daemon;
struct store;
struct tenants;
struct sandbox_journal;

enum { SERVER_IDLE_LINKS = 64 };

struct server {
    int listen_fd;
    int door_fd;        /* to the keeper, see keeper/door.h */
    int data_fd;        /* the data directory; everything in it is opened relative to this */
    int pyodide_fd;     /* Python for browsers, see web_python.c; -1: not installed */
    bool is_local;      /* listens on loopback only: requests must name it so */
    bool may_be_single; /* nobody is asked for a key as long as there is none */
    bool is_secure;     /* TLS */
    struct policy policy;
    struct MHD_Daemon *daemon;
    struct tenants *tenants; /* of tenant.h */
    struct admission *admission;
    struct journal *journal;
    struct audit *audit;
    struct sandbox_journal *sandboxes;
    struct store *store; /* uploaded files */
    struct metrics metrics;
    atomic_int connections_most; /* lately */
    atomic_bool is_draining;
    atomic_int exchanges; /* under way, but for health and the like */
    /* Connections to the keeper that no thread uses now, see keeper_link.h. */
    pthread_mutex_t links_lock;
    int idle_links[SERVER_IDLE_LINKS];
    int idle_link_count;
    int64_t started_us;
    int memory_fd; /* /proc/self/statm, opened while it could be */
};
