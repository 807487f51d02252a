/* Files that come from a server, written below a directory of the caller's. */
#pragma once

#include "remote/http.h"

/* Writes all files of a result that have contents or an address, and takes both out of the JSON. One whose
 * place is taken by something else is moved to not_collected, with the reason. */
int saved_files_take(struct http *http, int into_fd, json_t *result, struct error *err);

/* One answer as one file, which appears when it is whole; path "-": on stdout. */
int saved_files_fetch(struct http *http, const char *from, int dir_fd, const char *path, struct error *err);
