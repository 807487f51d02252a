#include "server/tenant.h"

#include "server/server.h"

static const struct tenant only_user = {.name = "user"};

int tenants_open(struct server *server, struct error *err)
{
    (void)server;
    (void)err;
    return 0;
}

void tenants_close(struct server *server)
{
    (void)server;
}

bool tenants_is_single_user(const struct server *server)
{
    (void)server;
    return true;
}

const struct tenant *tenant_of_key(struct server *server, const char *key)
{
    (void)server;
    (void)key;
    return &only_user;
}
