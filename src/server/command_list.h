/* The commands that requests have started and that still run: so that other requests can signal them, and the
 * tenant's quotas and the audit log know of them. */
#pragma once

#include "server/command_link.h"

struct command_entry;

/* Asks at the gate (gate.h) whether it may run, as any run is asked, starts it, and enters it in the list;
 * takes the request. The command must be there until it is removed. NULL: the exchange has its answer
 * already, or there is no memory. */
struct command_entry *command_list_start(struct exchange *exchange, json_t *request,
                                         struct command_link *command);

/* `end` is the keeper's last word about it, or NULL. Closes the command. NULL is fine. */
void command_list_remove(struct command_entry *entry, const json_t *end);

/* "exec_…" */
const char *command_list_id(const struct command_entry *entry);

/* False: the tenant who asks has none of that name in that sandbox. */
bool command_list_signal(struct exchange *exchange, const char *sandbox, const char *id, int number);

/* The cause of an end, as of a run's. */
const char *command_list_cause(const json_t *end);
