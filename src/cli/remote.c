#include "cli/remote.h"

#include "cli/command.h"
#include "cli/report.h"

#include "base/bytes.h"
#include "base/install.h"

#include <stdlib.h>

const char *remote_from_environment(void)
{
    const char *url = getenv("CLOCHE_SERVER");
    return url && url[0] ? url : NULL;
}

/* HTTP and TLS are a program of their own, which commands that ask nobody need not load. */
int remote_become(const char *url, int argc, char **argv)
{
    struct error err = {0};
    scope_string_list line = {0};
    int status = string_list_add(&line, "cloche-remote");
    if (status == 0)
        status = string_list_add(&line, url);
    for (int i = 0; i < argc && status == 0; i++)
        status = string_list_add(&line, argv[i]);
    if (status == 0)
        install_become("cloche-remote", line.items, &err);
    report_error("%s", err.kind ? err.text : "no memory");
    return EXIT_STATUS_HOST_FAILURE;
}

static int ask_server(int argc, char **argv)
{
    const char *url = remote_from_environment();
    return remote_become(url ? url : REMOTE_URL_DEFAULT, argc, argv);
}

int sandbox_main(int argc, char **argv)
{
    return ask_server(argc, argv);
}

int files_main(int argc, char **argv)
{
    return ask_server(argc, argv);
}

int fork_main(int argc, char **argv)
{
    return ask_server(argc, argv);
}

int top_main(int argc, char **argv)
{
    return ask_server(argc, argv);
}
