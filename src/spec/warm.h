/* What the operator keeps warm: sets of modules that an interpreter has imported before its run comes, and
 * images for which boxes are kept ready from the start. See docs/warm.md, "Images and sets". */
#pragma once

#include "base/bytes.h"
#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

/* The name of the set that is there without a word of the operator's. */
#define WARM_SET_DEFAULT "default"

struct warm_set {
    char *name;
    struct string_list modules;
};

struct warm_kept {
    char *image, *set;
};

struct warm_policy {
    struct string_list modules; /* of the default set */
    bool modules_set;           /* by the operator */
    struct warm_set *sets;      /* the others */
    size_t set_count;
    struct warm_kept *kept; /* ready from the start */
    size_t kept_count;
    int64_t images_max; /* how many more are kept at a time, because runs ask for them */
    int64_t idle_ms;    /* after which one of those goes */
};

int warm_policy_init(struct warm_policy *policy);
void warm_policy_free(struct warm_policy *policy);

/* Takes a setting (preload, preload.NAME, warm, warm.images, warm.idle); 1: it is one, 0: it is not. */
int warm_policy_set(struct warm_policy *policy, const char *key, const char *value, struct error *err);

/* Does every `warm` name a set that there is? When all is read: order does not matter. */
int warm_policy_check(const struct warm_policy *policy, struct error *err);

/* The modules of a set; NULL: there is none of that name, and the error lists those that there are. */
const struct string_list *warm_policy_modules(const struct warm_policy *policy, const char *set,
                                              struct error *err);

/* The set of a run in this image: that which it asks for (NULL: none), else that of the image's first `warm`
 * line, else the default one. */
const char *warm_policy_choose(const struct warm_policy *policy, const char *image, const char *asked);
