/* What the files of the public API share. */
#pragma once

#include <cloche/cloche.h>

#include "base/error.h"
#include "engine/supervise.h"
#include "spec/policy.h"
#include "spec/result.h"
#include "spec/spec.h"

#define API __attribute__((visibility("default")))

void library_give_error(const struct error *from, struct cloche_error *into);

/* The streams and the cancelling of a run as its caller wants them; `options` must live as long. */
struct supervise_io library_io(const struct cloche_options *options);

/* Never NULL. */
const struct cloche_options *library_options(const struct cloche_options *options);
