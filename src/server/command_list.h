/* The commands that requests have started and that still run, so that other requests can signal them. */
#pragma once

#include "server/command_link.h"

struct command_entry;

/* The command must be there until it is removed. NULL: no memory. */
struct command_entry *command_list_add(struct exchange *exchange, struct command_link *command,
                                       const char *id);
void command_list_remove(struct command_entry **entry); /* and sets it to NULL, which is fine, too */

/* "exec_…" */
const char *command_list_id(const struct command_entry *entry);

/* False: the tenant who asks has none of that name in that sandbox. */
bool command_list_signal(struct exchange *exchange, const char *sandbox, const char *id, int number);
