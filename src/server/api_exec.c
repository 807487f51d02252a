#include "server/route.h"

const struct route_family routes_exec = {0};
