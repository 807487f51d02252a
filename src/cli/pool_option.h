/* Options of a pool, which `cloche keep` and `cloche serve` share. */
#pragma once

#include "cli/command.h"
#include "keeper/pool.h"

struct pool_choice {
    struct pool_options options;
    struct string_list preload;
    bool has_minimum, has_maximum;
};

#define POOL_CHOICE_DEFAULT                                                                                  \
    {                                                                                                        \
        .options = {.minimum = POOL_SPARES_DEFAULT, .maximum = POOL_SPARES_MAX_DEFAULT }                     \
    }

/* 1: it was one of them (spares, spares-max, language, preload, image, rotate); 0: it was not. */
int pool_option_take(struct pool_choice *choice, const struct option_row *row, const char *value,
                     struct error *err);

/* After the last option: what was not said, and what does not go together. */
int pool_option_finish(struct pool_choice *choice, struct error *err);
void pool_option_free(struct pool_choice *choice);

/* A box that waits has some thirty descriptors open; the usual soft limit would end at thirty boxes. */
void pool_option_allow_descriptors(void);
