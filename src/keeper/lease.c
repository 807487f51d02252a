#include "keeper/lease.h"

#include "base/file.h"
#include "base/scope.h"
#include "keeper/collect.h"
#include "os/directory.h"
#include "os/process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { END_MS = 5000 };

/* Inputs are copied for a box that has a user of its own, and no limit of the box is for them. */
static bool inputs_are_small(const struct spec *spec)
{
    enum { MOST_BYTES = 1 << 20 };
    int64_t bytes = 0;
    for (size_t i = 0; i < spec->grant_count; i++) {
        struct stat what;
        if (spec->grants[i].kind != GRANT_INPUT)
            continue;
        if (stat(spec->grants[i].host_path, &what) < 0 || !S_ISREG(what.st_mode))
            return false;
        bytes += what.st_size < MOST_BYTES ? what.st_size : MOST_BYTES + 1;
    }
    return bytes <= MOST_BYTES;
}

/* The memory of a box must be enough for its files, which are part of it then. And it must be a group that
 * counts them: what only a mapping or a message holds cannot be seen from outside. */
static bool fits_into_memory(const struct lease *lease)
{
    const int64_t *limit = lease->limits.value;
    const struct box *box = &lease->box;
    bool is_counted =
        !box->engine->uses_groups || (box->cgroups && cgroup_layout_has(box->cgroups, CGROUP_MEMORY));
    return is_counted && limit[LIMIT_disk] <= limit[LIMIT_memory] / 2 &&
           (!lease->record.identity.has_uid || inputs_are_small(lease->box.spec)) &&
           record_fits_into_memory(limit[LIMIT_disk], limit[LIMIT_inodes]);
}

int lease_open(struct lease *lease, const struct lease_terms *terms, struct error *err)
{
    *lease = (struct lease){.record = RECORD_UNSET, .limits = *terms->limits};
    box_init(&lease->box);
    int status = record_take(&lease->record, err);
    if (status < 0)
        return status;
    lease->is_open = true;
    struct box *box = &lease->box;
    box->engine = engine_of(terms->spec->isolation);
    box->spec = terms->spec;
    box->image = terms->image;
    box->cgroups = terms->cgroups;
    box->limits = &lease->limits;
    box->identity = &lease->record.identity;
    box->program = &lease->program;
    if (terms->lifetime_ms) {
        int64_t *limit = lease->limits.value;
        limit[LIMIT_wall] = terms->lifetime_ms;
        limit[LIMIT_cpu] = terms->lifetime_ms * (limit[LIMIT_cpus] / 1000 + 1);
    }
    if (box->engine->in_directory)
        record_name_directory(&lease->record, terms->limits_stay && fits_into_memory(lease));
    return 0;
}

/* A fork is not our child: its own parent reaps it, and its descriptor tells when it has ended. */
static bool wait_for_end(const struct box *box)
{
    struct pollfd polled = {.fd = box->pidfd, .events = POLLIN};
    int ended = 1;
    if (box->is_fork)
        while ((ended = poll(&polled, 1, END_MS)) < 0 && errno == EINTR)
            ;
    else
        while (waitpid(box->pid, NULL, __WALL) < 0 && errno == EINTR)
            ;
    return ended > 0;
}

int lease_collect(struct lease *lease, int target_fd, struct result *result, struct error *err)
{
    if (lease->box.scratch_fd < 0)
        return 0;
    /* The guest may have closed it: that is no reason to lose its result. */
    scope_fd output = file_open_directory(lease->box.scratch_fd, "output");
    if (output < 0)
        return result_add_omission(result, ".", "the output directory cannot be opened");
    /* Nobody is to change what we look at: if it may still run, it has made nothing or is waited for. */
    if (directory_is_empty(output))
        return 0;
    if (lease->box.is_ending && !wait_for_end(&lease->box))
        return result_add_omission(result, ".", "the box did not end");
    return collect_files(output, target_fd, &lease->limits, result, err);
}

void lease_add_last_words(const struct lease *lease, struct error *err)
{
    char words[4096];
    ssize_t length = lease->box.stderr_fd >= 0 ? read(lease->box.stderr_fd, words, sizeof words - 1) : 0;
    if (length <= 0 || !err)
        return;
    words[length] = '\0';
    const char *from = length > 300 ? words + length - 300 : words;
    size_t used = strlen(err->text);
    snprintf(err->text + used, sizeof err->text - used, "; it said: %s", from);
}

static int box_close(struct box *box)
{
    if (box->pid > 0 && !box->is_reaped) {
        box->engine->stop(box);
        process_pidfd_kill(box->pidfd, SIGKILL);
        cgroup_read_no_more(&box->group); /* meanwhile */
        wait_for_end(box);
        box->is_reaped = true;
    }
    int status = box->engine ? box->engine->destroy(box) : 0;
    int *fds[] = {&box->pidfd,     &box->control_fd,  &box->stdin_fd,   &box->stdout_fd,
                  &box->stderr_fd, &box->listener_fd, &box->scratch_fd, &box->channel_fd,
                  &box->oom_fd,    &box->ruleset_fd,  &box->program_fd, &box->init_fd};
    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++)
        scope_close_fd(fds[i]);
    return status;
}

int lease_close(struct lease *lease)
{
    if (!lease->is_open)
        return 0;
    int status = box_close(&lease->box);
    int given_back = record_give_back(&lease->record);
    program_free(&lease->program);
    /* What is closed is not closed again: its number, and with it its uid, may be another box's by now, whose
     * processes would be taken for what is left of this one. */
    lease->is_open = status < 0 || given_back < 0;
    return status < 0 ? status : given_back;
}

/* The last attempt: whatever came of it, the lock goes, so that a reaper can have what is left. */
void lease_close_at_scope_end(struct lease *lease)
{
    lease_close(lease);
    scope_close_fd(&lease->record.lock_fd);
    scope_close_fd(&lease->record.state_fd);
    lease->is_open = false;
}
