/* A command on a terminal; a row of api_exec.c's table. */
#pragma once

#include "server/exchange.h"

int terminal_open(struct exchange *exchange);
