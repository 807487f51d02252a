/* What the endpoints of uploaded files share. */
#pragma once

#include "server/exchange.h"

/* ISO 8601, UTC. */
void files_format_time(int64_t time_s, char into[32]);

/* 404, for what is not there and for what belongs to somebody else. */
int files_refuse_name(struct exchange *exchange, const char *name);

/* GET /v1/files/{name}/profile */
int files_get_profile(struct exchange *exchange);
