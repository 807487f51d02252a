#include "keeper/wasm_pool.h"

#include "base/condition.h"
#include "base/file.h"
#include "base/scope.h"
#include "base/thread.h"
#include "engine/wasm/served.h"
#include "keeper/wasm_worker.h"
#include "runtime/program.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

enum {
    IDLE_MAX = 16 /* of 2 MB each, as a rule */,
    RUNS_MAX = 20000,
    LOOK_MS = 1000,
    SPENT_MAX = 16, /* that wait for their end; who brings another ends it himself */
    STACK_BYTES = 512 << 10,
};

struct wasm_pool {
    const struct policy *policy;
    const struct language_table *languages;
    int64_t idle_us;
    pthread_mutex_t lock; /* of all that follows */
    pthread_cond_t changed;
    pthread_t thread;
    bool has_thread, is_closing;
    struct wasm_worker *idle;  /* who was used last is first */
    struct wasm_worker *spent; /* to be ended */
    int idle_count, spent_count;
    int living; /* those that run, too */
    int64_t hits, misses;
};

struct wasm_pool *wasm_pool_new(const struct policy *policy, const struct language_table *languages,
                                int64_t idle_ms)
{
    struct wasm_pool *pool = calloc(1, sizeof *pool);
    if (!pool)
        return NULL;
    *pool = (struct wasm_pool){.policy = policy,
                               .languages = languages,
                               .idle_us = idle_ms * 1000,
                               .lock = PTHREAD_MUTEX_INITIALIZER,
                               .changed = PTHREAD_COND_INITIALIZER};
    return pool;
}

static void free_all(struct wasm_worker *list)
{
    while (list) {
        struct wasm_worker *next = list->next;
        wasm_worker_free(list);
        list = next;
    }
}

void wasm_pool_free(struct wasm_pool *pool)
{
    if (!pool)
        return;
    pthread_mutex_lock(&pool->lock);
    pool->is_closing = true;
    pthread_cond_broadcast(&pool->changed);
    pthread_mutex_unlock(&pool->lock);
    if (pool->has_thread)
        pthread_join(pool->thread, NULL);
    free_all(pool->idle);
    free_all(pool->spent);
    pthread_mutex_destroy(&pool->lock);
    pthread_cond_destroy(&pool->changed);
    free(pool);
}

void wasm_pool_read_state(struct wasm_pool *pool, struct wasm_pool_state *ret)
{
    pthread_mutex_lock(&pool->lock);
    *ret = (struct wasm_pool_state){.idle = pool->idle_count, .hits = pool->hits, .misses = pool->misses};
    pthread_mutex_unlock(&pool->lock);
}

/* With the lock held, as the four that follow. */
static struct wasm_worker *remove_idle(struct wasm_pool *pool, struct wasm_worker **at)
{
    struct wasm_worker *worker = *at;
    *at = worker->next;
    pool->idle_count--;
    return worker;
}

static void spend(struct wasm_pool *pool, struct wasm_worker *worker)
{
    worker->next = pool->spent;
    pool->spent = worker;
    pool->spent_count++;
    pthread_cond_broadcast(&pool->changed);
}

/* The oldest that is somebody else's, or else this owner's own. */
static void make_room(struct wasm_pool *pool, const char *owner)
{
    struct wasm_worker **oldest = NULL, **others = NULL;
    for (struct wasm_worker **at = &pool->idle; *at; at = &(*at)->next) {
        oldest = at;
        if (strcmp((*at)->owner, owner) != 0)
            others = at;
    }
    if (oldest)
        spend(pool, remove_idle(pool, others ? others : oldest));
}

static void look_at_idle(struct wasm_pool *pool)
{
    int64_t now_us = clock_monotonic_us();
    for (struct wasm_worker **at = &pool->idle; *at;) {
        if (now_us - (*at)->rests_since_us < pool->idle_us && wasm_worker_rests(*at))
            at = &(*at)->next;
        else
            spend(pool, remove_idle(pool, at));
    }
}

static void bury(struct wasm_pool *pool)
{
    struct wasm_worker *list = pool->spent;
    pool->living -= pool->spent_count;
    pool->spent = NULL;
    pool->spent_count = 0;
    pthread_mutex_unlock(&pool->lock);
    free_all(list);
    pthread_mutex_lock(&pool->lock);
}

/* It is woken for what is spent, and when there is the first to look at; not by runs. */
static void *attend(void *data)
{
    struct wasm_pool *pool = data;
    int64_t looked_us = clock_monotonic_us();
    pthread_mutex_lock(&pool->lock);
    while (!pool->is_closing) {
        int64_t left_ms = LOOK_MS - (clock_monotonic_us() - looked_us) / 1000;
        if (pool->spent) {
            bury(pool);
        } else if (pool->living == 0) {
            pthread_cond_wait(&pool->changed, &pool->lock);
        } else if (left_ms > 0) {
            clock_wait(&pool->changed, &pool->lock, left_ms);
        } else {
            look_at_idle(pool);
            looked_us = clock_monotonic_us();
        }
    }
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

/* Stdin is read to its end before a module begins: that must not be somebody who types. */
static bool stdin_fits(struct spec *spec)
{
    struct stat what;
    struct pollfd polled = {.fd = spec->stdin_fd, .events = POLLIN};
    if (spec->stdin_kind != STDIN_DESCRIPTOR)
        return true;
    if (fstat(spec->stdin_fd, &what) < 0)
        return false;
    if (S_ISCHR(what.st_mode) && what.st_rdev == makedev(1, 3)) /* /dev/null */
        spec->stdin_kind = STDIN_NONE;
    if (S_ISREG(what.st_mode) || spec->stdin_kind == STDIN_NONE)
        return true;
    if (S_ISCHR(what.st_mode))
        return !isatty(spec->stdin_fd);
    return poll(&polled, 1, 0) == 1 && polled.revents & POLLHUP; /* all that will come is there */
}

/* File rules cannot be added to a process, fuel needs code that was compiled for it, and a gateway is of one
 * run. */
static bool fits(struct spec *spec)
{
    return spec->grant_count == 0 && spec->fetch.count == 0 && spec->fuel < 0 && spec->has_code &&
           !spec->command.count && stdin_fits(spec);
}

static struct wasm_worker *find_idle(struct wasm_pool *pool, const char *owner, const struct spec *spec)
{
    for (struct wasm_worker **at = &pool->idle; *at; at = &(*at)->next)
        if (wasm_worker_fits(*at, owner, spec))
            return remove_idle(pool, at);
    return NULL;
}

/* Without somebody who looks at it, none is kept. */
static int count_living(struct wasm_pool *pool)
{
    int status = 0;
    pthread_mutex_lock(&pool->lock);
    if (!pool->has_thread && (status = thread_start(&pool->thread, STACK_BYTES, attend, pool)) == 0)
        pool->has_thread = true;
    if (status == 0 && pool->living++ == 0)
        pthread_cond_broadcast(&pool->changed);
    pthread_mutex_unlock(&pool->lock);
    return status;
}

static int take(struct wasm_pool *pool, const char *owner, const struct spec *spec, struct wasm_worker **ret,
                struct error *err)
{
    pthread_mutex_lock(&pool->lock);
    struct wasm_worker *worker = find_idle(pool, owner, spec);
    if (worker && wasm_worker_is_dead(worker)) {
        spend(pool, worker);
        worker = NULL;
    }
    pool->hits += worker != NULL;
    pool->misses += worker == NULL;
    pthread_mutex_unlock(&pool->lock);
    *ret = worker;
    if (worker)
        return 0;
    int status = wasm_worker_start(pool->policy, owner, spec, ret, err);
    if (status == 0 && (status = count_living(pool)) < 0)
        wasm_worker_free(*ret);
    return status;
}

static void put_back(struct wasm_pool *pool, struct wasm_worker *worker, bool is_usable)
{
    is_usable = is_usable && worker->runs < RUNS_MAX && wasm_worker_rest(worker);
    pthread_mutex_lock(&pool->lock);
    bool is_crowded = pool->spent_count >= SPENT_MAX;
    is_usable = is_usable && !(pool->idle_count == IDLE_MAX && is_crowded);
    bool is_ours = !is_usable && is_crowded;
    if (is_usable) {
        if (pool->idle_count == IDLE_MAX)
            make_room(pool, worker->owner);
        worker->next = pool->idle;
        pool->idle = worker;
        pool->idle_count++;
    } else if (!is_ours) {
        spend(pool, worker);
    } else {
        pool->living--;
    }
    pthread_mutex_unlock(&pool->lock);
    if (is_ours)
        wasm_worker_free(worker);
}

static int prepare_program(const struct language_table *languages, const struct spec *spec,
                           struct wasm_worker *worker, struct program *ret, struct error *err)
{
    const struct box *box = &worker->lease.box;
    struct program_paths *paths = &worker->paths;
    const char *name = language_of_spec(languages, spec);
    if (!name)
        return -EAGAIN; /* the cold way says what is wrong */
    const struct language_wanted wanted = {.name = name, .image = box->image, .is_wasm = true};
    if (worker->row < 0 || strcmp(languages->rows[worker->row].name, name) != 0)
        worker->row = language_find(languages, &wanted, 0, &paths->runtime, &paths->compiler);
    if (worker->row < 0)
        return -EAGAIN;
    const struct language *row = &languages->rows[worker->row];
    paths->code_name = language_code_name(languages, row, spec->code_name);
    int status = program_from_language(box, &row->run, paths, &spec->arguments, ret, err);
    ret->code = (struct slice){spec->code.data ? spec->code.data : "", spec->code.length};
    return status;
}

static int copy_layers(const struct result *from, struct result *into)
{
    int status = 0;
    for (size_t i = 0; status == 0 && i < from->layer_count; i++)
        status = result_add_layer(into, from->layers[i].name, from->layers[i].active, "%s",
                                  from->layers[i].detail);
    return status;
}

static int run_in(struct wasm_worker *worker, const struct program *program, const struct spec *spec,
                  const struct supervise_io *io, struct result *result, bool *ret_is_usable,
                  struct error *err)
{
    struct wasm_served served;
    wasm_worker_take_limits(worker, &spec->limits);
    int status = wasm_served_open(&served, &worker->lease.box, spec, program, err);
    if (status == 0) {
        worker->runs++;
        status = supervise_run(&served.box, io, result, err);
        *ret_is_usable = wasm_served_close(&served) && status == 0; /* also who refuses has run something */
    }
    if (status < 0 || !wasm_worker_has_files(worker))
        return status;
    if (*ret_is_usable) { /* it must not change what is looked at */
        *ret_is_usable = false;
        wasm_served_end(&worker->lease.box);
    }
    return wasm_worker_collect(worker, spec, result, err);
}

int wasm_pool_serve(struct wasm_pool *pool, struct spec *spec, const struct supervise_io *io,
                    struct result **ret, struct error *err)
{
    if (!io->owner || !fits(spec))
        return -EAGAIN;
    struct wasm_worker *worker;
    int status = take(pool, io->owner, spec, &worker, err);
    if (status < 0)
        return -EAGAIN; /* a cold run says why, if it cannot either */
    struct program program = {0};
    struct result *result = result_new();
    struct box *box = &worker->lease.box;
    const struct spec *own = box->spec;
    bool is_usable = true;
    box->spec = spec; /* whose environment and arguments the program is made of */
    status = result ? prepare_program(pool->languages, spec, worker, &program, err)
                    : error_host(err, -ENOMEM, "no memory for a result");
    box->spec = own;
    if (status == 0)
        status = copy_layers(worker->layers, result);
    if (status == 0) {
        is_usable = false;
        result->isolation = ISOLATION_WASM;
        status = run_in(worker, &program, spec, io, result, &is_usable, err);
    }
    program_free(&program);
    put_back(pool, worker, is_usable);
    if (status < 0) {
        result_free(result);
        return status;
    }
    *ret = result;
    return 0;
}
