/* The gateway's own box: it reads what names are looked up by, connects to the ports of its rules, and does
 * nothing else that a program can do. */
#pragma once

#include "base/error.h"
#include "spec/fetch.h"

/* None of its layers is left out. Where the kernel's Landlock knows no ports (before ABI 4), TCP is open to
 * it as UDP is, which the layers of a run tell. */
int gateway_confine(const struct fetch_rule *rules, size_t count, const struct fetch_limits *limits,
                    struct error *err);
