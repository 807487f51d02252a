/* Which sandboxes there are, in a file of the data directory: one line when one is made, one when it goes.
 * Sandboxes end with the server or its keeper; those that have a first line and no second when the next
 * server starts were lost, and who asks for them is told so, for a day. */
#pragma once

#include "base/error.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct server;

int sandbox_journal_open(struct server *server, struct error *err);
void sandbox_journal_close(struct server *server);

/* The disk may be full: then a loss could not be told from a sandbox that never was. */
int sandbox_journal_add(struct server *server, const char *tenant, const char *id, int64_t expires_ms);
void sandbox_journal_extend(struct server *server, const char *id, int64_t expires_ms);
void sandbox_journal_remove(struct server *server, const char *id);

/* The ids of a tenant's lost ones as an array of {id, lost_ms}, from the one with this number on (0: the
 * first), at most so many; *ret_next is where to go on, or 0. To be freed. */
json_t *sandbox_journal_list_lost(struct server *server, const char *tenant, size_t from, size_t limit,
                                  size_t *ret_next);

bool sandbox_journal_lost(struct server *server, const char *tenant, const char *id);
