/* A zygote: an interpreter in a box that has imported what most runs need, and is forked for each of them.
 *
 * Theory of operation. It is a box as any other, made by the same code and under the same layers (in the
 * process engine: engine/process/fork_server.h says which), whose program is the runner and never gets any
 * user's code. Each fork of it (engine.fork) is a box with all that a box of its engine has of its own, that
 * waits for its first order. What a fork does never reaches the zygote: there is no descriptor to it, and its
 * processes cannot be named, or not be signalled. Because pid namespaces nest, the forks end with their
 * zygote: one that is retired lives until its last fork is gone. */
#pragma once

#include "keeper/lease.h"
#include "keeper/runner_link.h"
#include "spec/policy.h"

struct zygote;

/* Takes the spec (no code, no command; language, image and limits are the forks' too), also when it fails.
 * Returns when all of `preload` is imported; what the image lacks is left out. A number that is written to
 * stop_fd, an eventfd that it takes, ends it at any time. */
int zygote_open(struct spec *spec, const struct policy *policy, const struct string_list *preload,
                int stop_fd, struct zygote **ret, struct error *err);

/* A fork with these limits, ready for its first order. `ret_layers` gets the layers that were proved. */
int zygote_fork(struct zygote *zygote, const struct limits *limits, enum runner_haste haste,
                struct lease *ret, struct runner_link *ret_link, struct result *ret_layers,
                struct error *err);

/* The same in two steps: a box without a program, which waits for its copy and costs next to nothing; and the
 * copy. A place that is not filled, or could not be, is closed as any lease, and then told of by
 * zygote_release, too. */
bool zygote_can_make_places(struct zygote *zygote);
int zygote_make_place(struct zygote *zygote, const struct limits *limits, struct lease *ret,
                      struct error *err);
int zygote_fill_place(struct zygote *zygote, enum runner_haste haste, struct lease *lease,
                      struct runner_link *ret_link, struct result *ret_layers, struct error *err);

/* A fork is gone, its lease closed: until then it uses the zygote's box, also that of one that has died. */
void zygote_release(struct zygote *zygote);

/* Has it ended, by itself or by somebody's hand? */
bool zygote_is_dead(struct zygote *zygote);

/* Its box, for the pid of its init; only while it lives. */
pid_t zygote_pid(struct zygote *zygote);

/* Ends it and with it all forks that are left. NULL is fine. */
void zygote_close(struct zygote *zygote);
