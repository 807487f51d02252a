/* Files of the caller's, on their way to a server. */
#pragma once

#include "remote/http.h"

/* An upload under a name of its own, which is the last of *temporary afterwards; those are to be removed,
 * also when it fails. kind: "input" or "stdin". */
int upload_temporary(struct http *http, const struct http_source *source, const char *kind,
                     struct string_list *temporary, struct error *err);
void upload_remove(struct http *http, const struct string_list *names);

/* PUT of a file ("-": stdin); ret: the server's answer, to be freed. resumes: goes on with what an upload
 * that was broken off has left there, if that is the beginning of this file. */
int upload_file(struct http *http, const char *path, const char *target, bool resumes, json_t **ret,
                struct error *err);
