/* What `cloche keep` and its clients say to each other, over a socket in the state directory: frames of a
 * JSON header and a body of bytes, descriptors with the first byte. Both ends are the same program of the
 * same user; a client of another version is refused. */
#pragma once

#include "base/bytes.h"
#include "base/error.h"
#include "spec/result.h"
#include "spec/spec.h"

#include <jansson.h>
#include <stddef.h>

/* Three streams, a directory for files, and inputs. */
enum { WIRE_DESCRIPTORS = 4 + SPEC_GRANTS_MAX, WIRE_HEADER_MAX = 8 << 20, WIRE_BODY_MAX = 256 << 20 };

/* The socket's path: $CLOCHE_KEEPER, or this user's own in the state directory; true then. */
bool wire_path(char *into, size_t size);

/* Takes the header. */
int wire_send(int fd, json_t *header, struct slice body, const int *fds, size_t count);

/* The same in two steps: the first does not block, and what the socket had no room for is left to the second.
 * The caller frees it. */
int wire_send_begin(int fd, json_t *header, struct slice body, struct buffer *ret_unsent);
/* More of what is left, without blocking. */
int wire_send_some(int fd, struct buffer *unsent);
int wire_send_rest(int fd, const struct buffer *unsent);

/* -EPIPE at the end. Places in `fds` (WIRE_DESCRIPTORS of them; NULL: none are taken) for which none came are
 * -1. The caller frees what it gets. */
int wire_receive(int fd, json_t **ret_header, struct buffer *ret_body, int *fds);

/* A validated spec without its code, and back. */
json_t *wire_from_spec(const struct spec *spec);
int wire_to_spec(const json_t *object, struct spec *into, struct error *err);

/* A result but for its files and texts, which are in its JSON, and back. */
json_t *wire_from_result(const struct result *result);
int wire_to_result(const json_t *object, struct result *into);

json_t *wire_from_error(const struct error *err);
void wire_to_error(const json_t *object, struct error *into);
