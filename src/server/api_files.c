#include "server/route.h"

const struct route_family routes_files = {0};
