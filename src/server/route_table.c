#include "server/route.h"

const struct route_family *const route_families[] = {
    &routes_system,    &routes_run,   &routes_sandbox, &routes_context, &routes_fork, &routes_exec,
    &routes_box_files, &routes_files, &routes_web,     &routes_state,   NULL};
