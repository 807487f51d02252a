#include "server/command_list.h"

#include "base/clock.h"
#include "base/identifier.h"
#include "base/scope.h"
#include "server/gate.h"
#include "server/sandbox_gate.h"
#include "server/tenant.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct command_entry {
    struct command_entry *next;
    struct command_link *command;
    struct gate_pass *pass;
    int64_t started_us;
    char id[IDENTIFIER_SIZE], sandbox[IDENTIFIER_SIZE], owner[64];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct command_entry *entries;

static const char *id_of(const void *data, size_t number)
{
    (void)number;
    return ((const struct command_entry *)data)->id;
}

/* The log has the hash of a run's code: of a command that is the hash of its words. */
static int enter_gate(struct exchange *exchange, const json_t *request, struct command_entry *entry)
{
    scope_free char *words = json_dumps(json_object_get(request, "command"), JSON_COMPACT);
    return words ? sandbox_gate_enter(exchange, NULL, (struct slice){words, strlen(words)}, id_of, entry,
                                      &entry->pass)
                 : -ENOMEM;
}

struct command_entry *command_list_start(struct exchange *exchange, json_t *request,
                                         struct command_link *command)
{
    *command = (struct command_link)COMMAND_LINK_UNSET;
    struct command_entry *entry = request ? calloc(1, sizeof *entry) : NULL;
    if (!entry || identifier_make("exec_", entry->id) < 0 || enter_gate(exchange, request, entry) < 0) {
        json_decref(request);
        free(entry);
        return NULL;
    }
    if (command_link_open(exchange, request, command) < 0) {
        gate_leave(entry->pass);
        free(entry);
        return NULL;
    }
    entry->command = command;
    entry->started_us = clock_monotonic_us();
    snprintf(entry->sandbox, sizeof entry->sandbox, "%s", exchange_part(exchange, 0));
    snprintf(entry->owner, sizeof entry->owner, "%s", exchange_tenant(exchange)->name);
    pthread_mutex_lock(&lock);
    entry->next = entries;
    entries = entry;
    pthread_mutex_unlock(&lock);
    return entry;
}

const char *command_list_cause(const json_t *end)
{
    return json_is_true(json_object_get(end, "lost"))                ? "host_failure"
           : json_is_true(json_object_get(end, "timed_out"))         ? "wall_time"
           : json_integer_value(json_object_get(end, "signal")) != 0 ? "signal"
                                                                     : "exit";
}

static void note_end(struct command_entry *entry, const json_t *end)
{
    const struct result_usage usage = {.wall_us = clock_monotonic_us() - entry->started_us};
    const json_t *code = json_object_get(end, "exit_code");
    const struct gate_outcome outcome = {.cause = end ? command_list_cause(end) : "cancelled",
                                         .exit_code =
                                             json_is_integer(code) ? (int)json_integer_value(code) : -1,
                                         .usage = &usage};
    gate_end(entry->pass, 0, &outcome);
}

void command_list_remove(struct command_entry *entry, const json_t *end)
{
    if (!entry)
        return;
    pthread_mutex_lock(&lock);
    for (struct command_entry **at = &entries; *at; at = &(*at)->next)
        if (*at == entry) {
            *at = entry->next;
            break;
        }
    pthread_mutex_unlock(&lock);
    command_link_close(entry->command);
    note_end(entry, end);
    gate_leave(entry->pass);
    free(entry);
}

const char *command_list_id(const struct command_entry *entry)
{
    return entry->id;
}

bool command_list_signal(struct exchange *exchange, const char *sandbox, const char *id, int number)
{
    bool is_found = false;
    pthread_mutex_lock(&lock);
    for (struct command_entry *entry = entries; entry && !is_found; entry = entry->next) {
        is_found = strcmp(entry->id, id) == 0 && strcmp(entry->sandbox, sandbox) == 0 &&
                   strcmp(entry->owner, exchange_tenant(exchange)->name) == 0;
        if (is_found)
            command_link_signal(entry->command, number);
    }
    pthread_mutex_unlock(&lock);
    return is_found;
}
