/* Interpreters that were warmed up for sessions: a python context that has imported what most code needs, and
 * never gets anybody's code. A session's context is a fork of it (context.h), which is a tenth of the time
 * that a start takes, and can be forked again; a spare of the pool could not, it has given that up.
 *
 * There is one for each image and set of modules, made when the first session asks, behind its back, and
 * exchanged after an hour. The old one goes with its last fork. Those of images that the operator does not
 * keep warm are bounded as the pool's are (housing.h): so many at a time, the one that nobody asked for
 * during some seconds gives way, and what is idle for long goes. One is for one tree of files: when an image
 * is made anew, so is its interpreter. */
#include "keeper/session_inside.h"

#include "base/condition.h"
#include "base/scope.h"
#include "base/thread.h"
#include "image/image.h"
#include "keeper/context_inside.h"
#include "runtime/runner.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum {
    ROTATE_MS = 3600 * 1000,
    RETRY_MS = 10000,
    LOOK_MS = 1000,
    SETTLED_US = 5 * 1000 * 1000, /* nobody asked for it so long: it may give way to another */
};

struct origin {
    struct origin *next;
    struct warm *warm;
    char *image, *set, *place;
    bool is_kept;
    int64_t used_us;
    int64_t retry_us;               /* not before; 0: at once */
    int64_t opened_us;              /* these with both locks held: */
    struct context *context;        /* NULL: none yet */
    struct image_identity identity; /* of the tree that it sees */
};

struct warm {
    const struct policy *policy;
    struct string_list preload; /* of the default set */

    pthread_mutex_t fork_lock; /* one fork at a time; before the other lock */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool is_closing;
    int threads;            /* one for each origin, also for those that are leaving */
    int leaving;            /* of those that are not kept: off the list, and not gone yet */
    struct origin *origins; /* only its own thread takes one off */
};

int warm_open(const struct policy *policy, const struct string_list *preload, struct warm **ret,
              struct error *err)
{
    struct warm *warm = calloc(1, sizeof *warm);
    if (!warm)
        return error_host(err, -ENOMEM, "no memory for sandboxes");
    *warm = (struct warm){.policy = policy,
                          .fork_lock = PTHREAD_MUTEX_INITIALIZER,
                          .lock = PTHREAD_MUTEX_INITIALIZER,
                          .changed = PTHREAD_COND_INITIALIZER};
    if (string_list_copy(&warm->preload, preload ? preload : &policy->warm.modules) < 0) {
        warm_close(warm);
        return error_host(err, -ENOMEM, "no memory for sandboxes");
    }
    *ret = warm;
    return 0;
}

static void free_origin(struct origin *origin)
{
    if (!origin)
        return;
    context_close(origin->context);
    free(origin->image);
    free(origin->set);
    free(origin->place);
    free(origin);
}

/* Where there are no groups, its forks' processes would be limited by a watchdog alone: then all are cold. */
static bool is_fit(struct context *context)
{
    pthread_mutex_lock(&context->lock);
    bool is_fit = context->box && !context->box->is_watched;
    pthread_mutex_unlock(&context->lock);
    return is_fit;
}

static int make_spec(const struct warm *warm, const struct origin *origin, struct spec **ret)
{
    scope_spec *spec = spec_new();
    if (!spec)
        return -ENOMEM;
    int status = spec_set(spec, "language", "python", NULL);
    if (status == 0)
        status = spec_set(spec, "isolation", "container", NULL);
    if (status == 0)
        status = spec_set(spec, "image", origin->image, NULL);
    spec->limits.value[LIMIT_disk] =
        warm->policy->ceilings.value[LIMIT_disk]; /* files of a fork may be as large */
    spec->limit_set[LIMIT_disk] = true;
    if (status == 0)
        *ret = take_pointer(spec);
    return status;
}

static int make_context(const struct warm *warm, const struct origin *origin, struct context **ret)
{
    const struct context_options options = {.lifetime_ms = INT_MAX, /* of ms: 24 days */
                                            .idle_ms = INT_MAX,
                                            .runs_max = INT_MAX,
                                            .is_for_others = true};
    const struct string_list *modules = strcmp(origin->set, WARM_SET_DEFAULT) == 0
                                            ? &warm->preload
                                            : warm_policy_modules(&warm->policy->warm, origin->set, NULL);
    struct error err = {0};
    struct spec *spec = NULL;
    struct context *context = NULL;
    int status = modules ? make_spec(warm, origin, &spec) : -ENOENT;
    if (status == 0)
        status = context_open(spec, warm->policy, &options, &context, &err);
    if (status == 0)
        status = is_fit(context) ? context_preload(context, modules, &err) : -ENOTSUP;
    if (status < 0) {
        context_close(context);
        return status;
    }
    *ret = context;
    return 0;
}

static void exchange(struct warm *warm, struct origin *origin, struct context *context,
                     const struct image_identity *identity)
{
    pthread_mutex_lock(&warm->fork_lock);
    pthread_mutex_lock(&warm->lock);
    struct context *former = origin->context;
    origin->context = context;
    origin->identity = *identity;
    origin->opened_us = clock_monotonic_us();
    pthread_mutex_unlock(&warm->lock);
    pthread_mutex_unlock(&warm->fork_lock);
    context_close(former);
}

static bool is_current(const struct origin *origin)
{
    struct image_identity now;
    return image_identify(origin->place, &now) && image_is_same(&now, &origin->identity);
}

/* ---- its thread ---- */

static bool is_wanted(const struct origin *origin, int64_t now_us)
{
    return now_us >= origin->retry_us &&
           (!origin->context || context_result(origin->context) || !is_current(origin) ||
            now_us - origin->opened_us > (int64_t)ROTATE_MS * 1000);
}

static bool is_idle(const struct warm *warm, const struct origin *origin, int64_t now_us)
{
    return !origin->is_kept && now_us - origin->used_us > warm->policy->warm.idle_ms * 1000;
}

/* With the lock held, which it lets go of. */
static void renew(struct warm *warm, struct origin *origin)
{
    struct context *context = NULL;
    struct image_identity identity;
    pthread_mutex_unlock(&warm->lock);
    bool is_there =
        image_identify(origin->place, &identity); /* first: what is made is of this tree, or newer */
    int status = is_there ? make_context(warm, origin, &context) : -ENOENT;
    if (status == 0 || !is_there)
        exchange(warm, origin, context, &identity);
    pthread_mutex_lock(&warm->lock);
    origin->retry_us = status < 0 ? clock_monotonic_us() + (int64_t)RETRY_MS * 1000 : 0;
}

/* Nobody forks it any more, and nobody finds it. */
static void unlink_origin(struct warm *warm, struct origin *origin)
{
    pthread_mutex_lock(&warm->fork_lock);
    pthread_mutex_lock(&warm->lock);
    for (struct origin **at = &warm->origins; *at; at = &(*at)->next)
        if (*at == origin) {
            *at = origin->next;
            break;
        }
    warm->leaving += !origin->is_kept;
    pthread_mutex_unlock(&warm->lock);
    pthread_mutex_unlock(&warm->fork_lock);
}

/* One for each origin: an image that hangs is in nobody else's way. */
static void *keep_warm(void *data)
{
    struct origin *origin = data;
    struct warm *warm = origin->warm;
    pthread_mutex_lock(&warm->lock);
    while (!warm->is_closing && !is_idle(warm, origin, clock_monotonic_us())) {
        if (is_wanted(origin, clock_monotonic_us()))
            renew(warm, origin);
        if (!warm->is_closing)
            clock_wait(&warm->changed, &warm->lock, LOOK_MS);
    }
    pthread_mutex_unlock(&warm->lock);
    unlink_origin(warm, origin);
    bool was_kept = origin->is_kept;
    free_origin(origin);
    pthread_mutex_lock(&warm->lock);
    warm->leaving -= !was_kept;
    warm->threads--;
    pthread_cond_broadcast(&warm->changed);
    pthread_mutex_unlock(&warm->lock);
    return NULL;
}

/* ---- for sessions ---- */

/* The one that gives way is only told to be idle: its thread closes it, and until then it takes its room. */
static bool make_room(struct warm *warm, int64_t now_us)
{
    int64_t count = warm->leaving;
    struct origin *oldest = NULL;
    for (struct origin *origin = warm->origins; origin; origin = origin->next) {
        count += !origin->is_kept;
        if (!origin->is_kept && (!oldest || origin->used_us < oldest->used_us))
            oldest = origin;
    }
    if (count < warm->policy->warm.images_max)
        return true;
    if (oldest && now_us - oldest->used_us > SETTLED_US) {
        oldest->used_us = INT64_MIN / 2;
        pthread_cond_broadcast(&warm->changed);
    }
    return false;
}

static bool is_kept(const struct warm *warm, const char *image, const char *set)
{
    const struct warm_policy *policy = &warm->policy->warm;
    if (strcmp(image, warm->policy->image) == 0 && strcmp(set, warm_policy_choose(policy, image, NULL)) == 0)
        return true;
    for (size_t i = 0; i < policy->kept_count; i++)
        if (strcmp(policy->kept[i].image, image) == 0 && strcmp(policy->kept[i].set, set) == 0)
            return true;
    return false;
}

static struct origin *add_origin(struct warm *warm, const char *image, const char *set)
{
    struct origin *origin = calloc(1, sizeof *origin);
    struct image_identity identity;
    int64_t now_us = clock_monotonic_us();
    if (!origin)
        return NULL;
    *origin = (struct origin){.warm = warm,
                              .image = strdup(image),
                              .set = strdup(set),
                              .is_kept = is_kept(warm, image, set),
                              .used_us = now_us};
    bool is_there = origin->image && origin->set &&
                    image_locate(warm->policy->image_store, image, &origin->place) == 0 &&
                    image_identify(origin->place, &identity);
    if (!is_there || (!origin->is_kept && !make_room(warm, now_us)) ||
        thread_start(NULL, 0, keep_warm, origin) < 0) { /* it waits for the lock */
        free_origin(origin);
        return NULL;
    }
    warm->threads++;
    origin->next = warm->origins;
    return warm->origins = origin;
}

/* With the lock held. NULL: there is none, or none yet. */
static struct origin *find_origin(struct warm *warm, const char *image, const char *set)
{
    struct origin *origin = warm->origins;
    while (origin && (strcmp(origin->image, image) != 0 || strcmp(origin->set, set) != 0))
        origin = origin->next;
    if (!origin && !warm->is_closing)
        origin = add_origin(warm, image, set);
    if (!origin)
        return NULL;
    origin->used_us = clock_monotonic_us();
    if (!origin->context) /* made behind the back of who asks */
        pthread_cond_broadcast(&warm->changed);
    return origin->context && !context_result(origin->context) ? origin : NULL;
}

static bool is_same(const char *one, const char *other)
{
    return strcmp(one ? one : "", other ? other : "") == 0;
}

/* What a fork cannot be given: see context_fork_as. Its files are limited by their own file system, and its
 * processes by its own group. */
static bool suits(const struct spec *spec, const struct spec *origin)
{
    return spec->isolation == origin->isolation && is_same(spec->language, origin->language) &&
           is_same(spec->image, origin->image) &&
           is_same(spec->working_directory, origin->working_directory) &&
           spec->environment.count == origin->environment.count && spec->grant_count == 0 &&
           spec->accepted.count == 0 &&
           spec->limits.value[LIMIT_open_files] == origin->limits.value[LIMIT_open_files];
}

int warm_take(struct warm *warm, struct spec *spec, const struct context_options *options,
              struct context **ret, struct error *err)
{
    scope_spec *own = spec;
    if (strcmp(spec->language, "python") != 0 || spec->environment.count)
        return -EAGAIN;
    if (runner_prepare_spec(own, err) < 0 || spec_validate(own, warm->policy, err) < 0 ||
        own->isolation != ISOLATION_CONTAINER)
        return -EAGAIN;
    const char *set = warm_policy_choose(&warm->policy->warm, own->image, own->preload);
    pthread_mutex_lock(&warm->fork_lock); /* so that it stays, once it is found */
    pthread_mutex_lock(&warm->lock);
    struct origin *origin = find_origin(warm, own->image, set);
    pthread_mutex_unlock(&warm->lock);
    int status = origin && is_current(origin) && suits(own, origin->context->spec)
                     ? context_fork_as(origin->context, take_pointer(own), options, ret, err)
                     : -EAGAIN;
    pthread_mutex_unlock(&warm->fork_lock);
    return status < 0 ? -EAGAIN : 0;
}

void warm_close(struct warm *warm)
{
    if (!warm)
        return;
    pthread_mutex_lock(&warm->lock);
    warm->is_closing = true;
    pthread_cond_broadcast(&warm->changed);
    while (warm->threads > 0)
        pthread_cond_wait(&warm->changed, &warm->lock);
    pthread_mutex_unlock(&warm->lock);
    string_list_free(&warm->preload);
    pthread_mutex_destroy(&warm->fork_lock);
    pthread_mutex_destroy(&warm->lock);
    pthread_cond_destroy(&warm->changed);
    free(warm);
}
