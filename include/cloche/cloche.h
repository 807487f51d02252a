/* libcloche: runs untrusted code in a box. */
#ifndef CLOCHE_CLOCHE_H
#define CLOCHE_CLOCHE_H

#include <cloche/context.h>
#include <cloche/error.h>
#include <cloche/pool.h>
#include <cloche/result.h>
#include <cloche/run.h>
#include <cloche/spec.h>

#endif
