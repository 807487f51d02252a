#include "server/command_list.h"

#include "base/identifier.h"
#include "server/tenant.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct command_entry {
    struct command_entry *next;
    struct command_link *command;
    char id[IDENTIFIER_SIZE], sandbox[IDENTIFIER_SIZE], owner[64];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct command_entry *entries;

struct command_entry *command_list_add(struct exchange *exchange, struct command_link *command,
                                       const char *id)
{
    struct command_entry *entry = calloc(1, sizeof *entry);
    if (!entry)
        return NULL;
    snprintf(entry->id, sizeof entry->id, "%s", id);
    entry->command = command;
    snprintf(entry->sandbox, sizeof entry->sandbox, "%s", exchange_part(exchange, 0));
    snprintf(entry->owner, sizeof entry->owner, "%s", exchange_tenant(exchange)->name);
    pthread_mutex_lock(&lock);
    entry->next = entries;
    entries = entry;
    pthread_mutex_unlock(&lock);
    return entry;
}

void command_list_remove(struct command_entry **removed)
{
    struct command_entry *entry = *removed;
    *removed = NULL;
    if (!entry)
        return;
    pthread_mutex_lock(&lock);
    for (struct command_entry **at = &entries; *at; at = &(*at)->next)
        if (*at == entry) {
            *at = entry->next;
            break;
        }
    pthread_mutex_unlock(&lock);
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
