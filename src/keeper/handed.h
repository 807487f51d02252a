/* Files that the server hands to the keeper, and back.
 *
 * The server is not trusted with the keeper's rights: a path of its choice would be opened by root. It hands
 * over descriptors instead, which it can have of nothing but its own. A box needs a path all the same, for
 * mounts cannot be made from a descriptor of another mount namespace: the path is asked from the kernel, and
 * the grant pinned to the file, so that what the server puts at its place meanwhile is not shown. */
#pragma once

#include "base/error.h"
#include "spec/spec.h"

#include <jansson.h>

/* Which of the descriptors that came along a number of a request means; -1: none. */
int handed_place(const json_t *number);

/* Inputs of a spec from [{name, fd}]. NULL: none. */
int handed_take_inputs(const json_t *list, const int *fds, struct spec *into, struct error *err);

/* Makes "files" in the directory: the keeper's own until it is given, so that nobody plays tricks in it while
 * files are written there. */
int handed_make_output(int parent_fd, struct error *err);

/* Now it is the server's, with all that is in it. */
int handed_give_output(int fd);
