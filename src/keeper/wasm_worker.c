#include "keeper/wasm_worker.h"

#include "base/clock.h"
#include "base/scope.h"
#include "engine/wasm/order.h"
#include "engine/wasm/served.h"
#include "keeper/collect.h"
#include "os/hardening.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    LIFETIME_MS = 24 * 3600 * 1000,
    HELD_BYTES_MAX = 32 << 20, /* of memory; 2 MB are usual, the rest is modules that it has compiled */
    MEASURED_US = 2000,     /* of CPU time from one measurement to the next: memory takes time to be taken */
    RESTING_US_MAX = 50000, /* of CPU time: it may have had something to tidy up */
};

/* As the kernel puts them on, once: engine/launch.c. */
static const enum limit_field worn[] = {LIMIT_open_files, LIMIT_disk, LIMIT_pids};

static bool wears(const struct limits *has, const struct limits *wanted)
{
    for (size_t i = 0; i < sizeof worn / sizeof *worn; i++)
        if (has->value[worn[i]] != wanted->value[worn[i]])
            return false;
    return true;
}

void wasm_worker_free(struct wasm_worker *worker)
{
    if (!worker)
        return;
    for (int i = 0; i < WASM_PLACES; i++) {
        scope_close_fd(&worker->places[i].fd);
        scope_close_fd(&worker->places[i].around_fd);
    }
    scope_close_fd(&worker->scratch_fd);
    lease_close_at_scope_end(&worker->lease);
    image_free(worker->image);
    spec_free(worker->spec);
    result_free(worker->layers);
    free(worker);
}

static const struct {
    const char *name;
    bool is_writable;
} place_rows[WASM_PLACES] = {[WASM_OUTPUT] = {"output", true}, [WASM_INPUT] = {"input", false}};

/* The directory around it is ours: who has taken the process over can put nothing in its place. Our own looks
 * leave no trace, or a run would see it. */
static int make_place(struct wasm_worker *worker, enum wasm_place_kind which)
{
    const struct box_identity *identity = worker->lease.box.identity;
    struct wasm_place *place = &worker->places[which];
    const bool is_writable = place_rows[which].is_writable;
    scope_close_fd(&place->fd);
    if (unlinkat(place->around_fd, WASM_RUN_PLACE, AT_REMOVEDIR) < 0 && errno != ENOENT)
        return -errno;
    if (mkdirat(place->around_fd, WASM_RUN_PLACE, 0700) < 0)
        return -errno;
    place->fd =
        openat(place->around_fd, WASM_RUN_PLACE, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NOATIME | O_CLOEXEC);
    if (place->fd < 0 || fchmod(place->fd, is_writable ? 0700 : 0755) < 0 || /* whatever our umask is */
        (is_writable && identity->has_uid && !hardening_removed(box_uid) &&
         fchown(place->fd, identity->uid, identity->uid) < 0) ||
        fstat(place->fd, &place->untouched) < 0)
        return -errno;
    return 0;
}

static int open_place(struct wasm_worker *worker, enum wasm_place_kind which)
{
    const struct box *box = &worker->lease.box;
    int fd = openat(box->scratch_fd, place_rows[which].name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    worker->places[which].around_fd = fd;
    if (fd < 0 || fchmod(fd, 0755) < 0 || (box->identity->has_uid && fchown(fd, geteuid(), getegid()) < 0))
        return -errno;
    return make_place(worker, which);
}

static int start_box(const struct policy *policy, const struct spec *like, struct wasm_worker *worker,
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
        status = spec_validate(worker->spec, policy, err);
    if (status == 0)
        status = image_open(policy->image_store, worker->spec->image, &worker->image, err);
    if (status == 0)
        status = lease_open(lease,
                            &(struct lease_terms){.spec = worker->spec,
                                                  .image = worker->image,
                                                  .limits = &like->limits,
                                                  .lifetime_ms = LIFETIME_MS},
                            err);
    if (status < 0)
        return status;
    lease->box.is_spare = true;
    status = lease->box.engine->start(&lease->box, worker->layers, err);
    if (status == 0 && (worker->scratch_fd = openat(lease->box.scratch_fd, "tmp",
                                                    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)) < 0)
        status = error_host(err, -errno, "cannot open a box's files");
    for (int i = 0; status == 0 && i < WASM_PLACES; i++)
        if ((status = open_place(worker, (enum wasm_place_kind)i)) < 0)
            error_host(err, status, "cannot open a box's files");
    return status;
}

int wasm_worker_start(const struct policy *policy, const char *owner, const struct spec *like,
                      struct wasm_worker **ret, struct error *err)
{
    struct wasm_worker *worker = malloc(sizeof *worker);
    size_t length = strlen(owner);
    if (worker)
        *worker = (struct wasm_worker){.places = {{.around_fd = -1, .fd = -1}, {.around_fd = -1, .fd = -1}},
                                       .scratch_fd = -1,
                                       .row = -1};
    int status = !worker                     ? error_host(err, -ENOMEM, "no memory for a box")
                 : length >= WASM_OWNER_SIZE ? error_host(err, -ENAMETOOLONG, "whose run is it?")
                                             : 0;
    if (status == 0) {
        memcpy(worker->owner, owner, length + 1);
        status = start_box(policy, like, worker, err);
    }
    if (status < 0)
        wasm_worker_free(worker);
    else
        *ret = worker;
    return status;
}

bool wasm_worker_fits(const struct wasm_worker *worker, const char *owner, const struct spec *spec)
{
    return strcmp(worker->owner, owner) == 0 && strcmp(worker->spec->image, spec->image) == 0 &&
           wears(&worker->lease.limits, &spec->limits);
}

bool wasm_worker_is_dead(const struct wasm_worker *worker)
{
    struct pollfd polled[] = {{.fd = worker->lease.box.pidfd, .events = POLLIN},
                              {.fd = worker->lease.box.channel_fd, .events = POLLIN}};
    return poll(polled, 2, 0) != 0; /* it has nothing to say while it waits */
}

void wasm_worker_take_limits(struct wasm_worker *worker, const struct limits *limits)
{
    worker->lease.limits = *limits;
}

/* Is there more than the directory itself and the one above? */
static bool has_entries(int fd)
{
    _Alignas(struct dirent64) char entries[512];
    ssize_t length = lseek(fd, 0, SEEK_SET) < 0 ? -1 : 1;
    int count = 0;
    while (length > 0 && count <= 2) {
        length = getdents64(fd, entries, sizeof entries);
        for (ssize_t at = 0; at < length; count++)
            at += ((struct dirent64 *)(entries + at))->d_reclen;
    }
    return length < 0 || count > 2;
}

bool wasm_worker_has_files(const struct wasm_worker *worker)
{
    return has_entries(worker->places[WASM_OUTPUT].fd);
}

int wasm_worker_collect(const struct wasm_worker *worker, const struct spec *spec, struct result *result,
                        struct error *err)
{
    scope_fd target = collect_open_target_of(spec, err);
    if (target < 0 && (spec->output_directory || spec->output_fd >= 0))
        return target;
    return collect_files(worker->places[WASM_OUTPUT].fd, target, &spec->limits, result, err);
}

static bool is_same_time(struct timespec one, struct timespec other)
{
    return one.tv_sec == other.tv_sec && one.tv_nsec == other.tv_nsec;
}

/* All that can be seen of an empty directory. */
static bool is_untouched(const struct wasm_place *place)
{
    const struct stat *then = &place->untouched;
    struct stat now;
    return fstat(place->fd, &now) == 0 && now.st_mode == then->st_mode && now.st_nlink == then->st_nlink &&
           now.st_size == then->st_size && now.st_blocks == then->st_blocks &&
           is_same_time(now.st_atim, then->st_atim) && is_same_time(now.st_mtim, then->st_mtim) &&
           is_same_time(now.st_ctim, then->st_ctim);
}

bool wasm_worker_rest(struct wasm_worker *worker)
{
    const struct box *box = &worker->lease.box;
    worker->rests_since_us = clock_monotonic_us();
    worker->cpu_us = wasm_served_cpu_us(box);
    if (has_entries(worker->scratch_fd)) /* what a run had of its own there, /tmp and /code, should be gone */
        return false;
    for (int i = 0; i < WASM_PLACES; i++)
        if (!is_untouched(&worker->places[i]) && make_place(worker, (enum wasm_place_kind)i) < 0)
            return false;
    if (worker->cpu_us - worker->measured_cpu_us < MEASURED_US)
        return true;
    worker->measured_cpu_us = worker->cpu_us;
    return wasm_served_held_bytes(box) <= HELD_BYTES_MAX;
}

bool wasm_worker_rests(const struct wasm_worker *worker)
{
    const struct box *box = &worker->lease.box;
    return !wasm_worker_is_dead(worker) && wasm_served_is_alone(box) &&
           wasm_served_cpu_us(box) - worker->cpu_us <= RESTING_US_MAX &&
           wasm_served_held_bytes(box) <= HELD_BYTES_MAX;
}
