#include "server/route.h"

const struct route_family routes_run = {0};
