/* A server does it: hands over to the program cloche-remote. */
#pragma once

#define REMOTE_URL_DEFAULT "http://127.0.0.1:8420"

/* $CLOCHE_SERVER, or NULL. */
const char *remote_from_environment(void);

/* Becomes cloche-remote; returns only with an exit status, when that fails. argv[0] is the command. */
int remote_become(const char *url, int argc, char **argv);
