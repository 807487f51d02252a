/* Conversations with the tool that works on a box's files (guest/files/files.c). Where a function returns a
 * negative errno, the exchange has its answer already. `context`: in whose box; NULL: the first. */
#pragma once

#include "server/exchange.h"

#include <stdint.h>

/* One line is expected; to be freed. */
int file_talk_ask(struct exchange *exchange, const char *context, const char *const *words, json_t **ret);

/* All lines, as an array. */
int file_talk_ask_all(struct exchange *exchange, const char *context, const char *const *words, json_t **ret);

/* The regular files below a path that were made, written or moved there since (nanoseconds since 1970), as an
 * array of {path, size}, the path relative; to be freed. *ret_is_cut: there are more. NULL: the box cannot be
 * asked; the exchange has no answer from that. */
json_t *file_talk_changed(struct exchange *exchange, const char *context, const char *path, int64_t since_ns,
                          bool *ret_is_cut);

/* What of a file is asked for. */
struct file_range {
    bool is_part;
    int64_t offset, length; /* length -1: to the end */
    int64_t size;           /* of the file, when it is a part */
};
int file_talk_range(struct exchange *exchange, const char *context, const char *path, struct file_range *ret);

/* Passes on what the command (taken) writes; `has_line`: after a line that says what it is, or why not. */
int file_talk_stream(struct exchange *exchange, json_t *request, bool has_line, int status, const char *type);

/* A line becomes an event. */
int file_talk_watch(struct exchange *exchange, const char *context, const char *const *words);

/* A command that reads the request's body. NULL: the exchange has its answer. */
void *file_talk_put(struct exchange *exchange, json_t *request);

/* Waits while the box does not take it; negative when it never will. */
int file_talk_put_more(void *put, struct slice bytes);

/* Everything was given. `has_line`: *ret is what the tool says of the file. */
int file_talk_put_end(struct exchange *exchange, void *put, bool has_line, json_t **ret);
void file_talk_put_free(void *put);
