#include "keeper/wasm_pool.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/scope.h"
#include "engine/wasm/order.h"
#include "engine/wasm/served.h"
#include "keeper/collect.h"
#include "keeper/lease.h"
#include "os/process_tree.h"
#include "runtime/program.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

enum { IDLE_MAX = 16 /* of 1.4 MB each */, RUNS_MAX = 20000, LIFETIME_MS = 24 * 3600 * 1000 };

struct worker {
    struct worker *next;
    struct spec *spec; /* of its box, not of a run */
    struct image *image;
    struct lease lease;
    struct result *layers; /* that were proved when it was made */
    int output_fd, tmp_fd; /* its directories */
    int runs;
    int row; /* of the language that ran last, with what was found for it */
    struct program_paths paths;
};

struct wasm_pool {
    const struct policy *policy;
    const struct language_table *languages;
    pthread_mutex_t lock;
    struct worker *idle;
    int idle_count;
    int64_t hits, misses;
};

struct wasm_pool *wasm_pool_new(const struct policy *policy, const struct language_table *languages)
{
    struct wasm_pool *pool = calloc(1, sizeof *pool);
    if (!pool)
        return NULL;
    pool->policy = policy;
    pool->languages = languages;
    pthread_mutex_init(&pool->lock, NULL);
    return pool;
}

static void worker_free(struct worker *worker)
{
    if (!worker)
        return;
    scope_close_fd(&worker->output_fd);
    scope_close_fd(&worker->tmp_fd);
    lease_close_at_scope_end(&worker->lease);
    image_free(worker->image);
    spec_free(worker->spec);
    result_free(worker->layers);
    free(worker);
}

void wasm_pool_free(struct wasm_pool *pool)
{
    if (!pool)
        return;
    while (pool->idle) {
        struct worker *next = pool->idle->next;
        worker_free(pool->idle);
        pool->idle = next;
    }
    pthread_mutex_destroy(&pool->lock);
    free(pool);
}

void wasm_pool_read_state(struct wasm_pool *pool, struct wasm_pool_state *ret)
{
    pthread_mutex_lock(&pool->lock);
    *ret = (struct wasm_pool_state){.idle = pool->idle_count, .hits = pool->hits, .misses = pool->misses};
    pthread_mutex_unlock(&pool->lock);
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

/* File rules cannot be added to a process, and fuel needs code that was compiled for it. */
static bool fits(struct spec *spec)
{
    return spec->grant_count == 0 && spec->fuel < 0 && spec->has_code && !spec->command.count &&
           stdin_fits(spec);
}

static bool is_dead(const struct worker *worker)
{
    struct pollfd polled[] = {{.fd = worker->lease.box.pidfd, .events = POLLIN},
                              {.fd = worker->lease.box.channel_fd, .events = POLLIN}};
    return poll(polled, 2, 0) != 0; /* it has nothing to say while it waits */
}

static int worker_start(const struct wasm_pool *pool, const struct spec *like, struct worker *worker,
                        struct error *err)
{
    struct lease *lease = &worker->lease;
    lease->record = (struct record)RECORD_UNSET;
    box_init(&lease->box);
    worker->spec = spec_new();
    worker->layers = result_new();
    if (!worker->spec || !worker->layers)
        return error_host(err, -ENOMEM, "no memory for a box");
    int status = spec_set_proof(worker->spec, ISOLATION_WASM, err);
    if (status == 0)
        status = spec_set(worker->spec, "image", like->image, err);
    if (status == 0)
        status = spec_validate(worker->spec, pool->policy, err);
    if (status == 0)
        status = image_open(pool->policy->image_store, worker->spec->image, &worker->image, err);
    if (status == 0)
        status = lease_open(lease,
                            &(struct lease_terms){.spec = worker->spec,
                                                  .image = worker->image,
                                                  .limits = &pool->policy->ceilings,
                                                  .lifetime_ms = LIFETIME_MS},
                            err);
    if (status < 0)
        return status;
    lease->box.is_spare = true;
    status = lease->box.engine->start(&lease->box, worker->layers, err);
    if (status < 0)
        return status;
    worker->output_fd = file_open_directory(lease->box.scratch_fd, "output");
    worker->tmp_fd = file_open_directory(lease->box.scratch_fd, "tmp");
    int missing = worker->output_fd < 0 ? worker->output_fd : worker->tmp_fd < 0 ? worker->tmp_fd : 0;
    return missing ? error_host(err, missing, "cannot open a box's files") : 0;
}

static int take(struct wasm_pool *pool, const struct spec *spec, struct worker **ret, struct error *err)
{
    pthread_mutex_lock(&pool->lock);
    struct worker *worker = pool->idle;
    if (worker) {
        pool->idle = worker->next;
        pool->idle_count--;
    }
    pthread_mutex_unlock(&pool->lock);
    if (worker && (is_dead(worker) || strcmp(worker->spec->image, spec->image) != 0)) {
        worker_free(worker);
        worker = NULL;
    }
    pthread_mutex_lock(&pool->lock);
    pool->hits += worker != NULL;
    pool->misses += worker == NULL;
    pthread_mutex_unlock(&pool->lock);
    *ret = worker;
    if (worker)
        return 0;
    worker = malloc(sizeof *worker);
    if (worker)
        *worker = (struct worker){.output_fd = -1, .tmp_fd = -1, .row = -1};
    int status =
        worker ? worker_start(pool, spec, worker, err) : error_host(err, -ENOMEM, "no memory for a box");
    if (status < 0)
        worker_free(worker);
    else
        *ret = worker;
    return status;
}

static void put_back(struct wasm_pool *pool, struct worker *worker, bool is_usable)
{
    pthread_mutex_lock(&pool->lock);
    bool is_kept = is_usable && worker->runs < RUNS_MAX && pool->idle_count < IDLE_MAX;
    if (is_kept) {
        worker->next = pool->idle;
        pool->idle = worker;
        pool->idle_count++;
    }
    pthread_mutex_unlock(&pool->lock);
    if (!is_kept)
        worker_free(worker);
}

static int prepare_program(const struct language_table *languages, const struct spec *spec,
                           struct worker *worker, struct program *ret, struct error *err)
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

/* Is there more than the directory itself and the one above? */
static bool has_files(int directory_fd)
{
    _Alignas(struct dirent64) char entries[512];
    ssize_t length = lseek(directory_fd, 0, SEEK_SET) < 0 ? -1 : 1;
    int count = 0;
    while (length > 0 && count <= 2) {
        length = getdents64(directory_fd, entries, sizeof entries);
        for (ssize_t at = 0; at < length; count++)
            at += ((struct dirent64 *)(entries + at))->d_reclen;
    }
    return length < 0 || count > 2;
}

static int copy_layers(const struct result *from, struct result *into)
{
    int status = 0;
    for (size_t i = 0; status == 0 && i < from->layer_count; i++)
        status = result_add_layer(into, from->layers[i].name, from->layers[i].active, "%s",
                                  from->layers[i].detail);
    return status;
}

/* Its files are those of one run: who has left any is not used again. */
static int collect(struct worker *worker, const struct spec *spec, struct result *result, struct error *err)
{
    scope_fd target = collect_open_target_of(spec, err);
    if (target < 0 && (spec->output_directory || spec->output_fd >= 0))
        return target;
    scope_fd output = file_open_directory(worker->lease.box.scratch_fd, "output");
    if (output < 0)
        return result_add_omission(result, ".", "the output directory cannot be opened");
    return collect_files(output, target, &spec->limits, result, err);
}

static int run_in(struct worker *worker, const struct program *program, const struct spec *spec,
                  const struct supervise_io *io, struct result *result, bool *ret_is_usable,
                  struct error *err)
{
    struct wasm_served served;
    int status = wasm_served_open(&served, &worker->lease.box, spec, program, err);
    bool lives_on = false;
    if (status == 0) {
        worker->runs++;
        status = supervise_run(&served.box, io, result, err);
        lives_on = wasm_served_close(&served);
    }
    bool has_output = has_files(worker->output_fd); /* one that was refused, too: a module starts first */
    *ret_is_usable = lives_on && !has_output && !has_files(worker->tmp_fd);
    if (status < 0 || !has_output)
        return status;
    if (lives_on) /* it must not change what is looked at */
        wasm_served_end(&worker->lease.box);
    return collect(worker, spec, result, err);
}

int wasm_pool_serve(struct wasm_pool *pool, struct spec *spec, const struct supervise_io *io,
                    struct result **ret, struct error *err)
{
    if (!fits(spec))
        return -EAGAIN;
    struct worker *worker;
    int status = take(pool, spec, &worker, err);
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
