/* Who asks: the owner of a key, or the only user there is. */
#pragma once

#include "base/error.h"

#include <stdbool.h>

struct server;
struct tenants;

struct tenant {
    char name[64];
};

/* Reads DATA/keys; without keys there is one tenant, and nobody is asked for a key. */
int tenants_open(struct server *server, struct error *err);
void tenants_close(struct server *server);

/* No keys: everyone who can reach the server is its user. */
bool tenants_is_single_user(const struct server *server);

/* The owner of a key (NULL: none was given); NULL: nobody. Lives as long as the server. */
const struct tenant *tenant_of_key(struct server *server, const char *key);
