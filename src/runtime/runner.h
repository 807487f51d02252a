/* The runner of a language as a program for a box: a spec that runs it. */
#pragma once

#include "base/error.h"
#include "spec/spec.h"

/* Fills in the code and its arguments. The spec must not have code or a command of its own. */
int runner_prepare_spec(struct spec *spec, struct error *err);
