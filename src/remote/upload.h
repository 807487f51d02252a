/* Files of the caller's, on their way to a server. */
#pragma once

#include "remote/http.h"
#include "spec/spec.h"

/* The inputs of a run as the field `files`: small ones in it, large ones uploaded before. Names of uploads
 * are added to *temporary, to be removed afterwards, whatever comes of it. */
int upload_inputs(struct http *http, const struct spec *spec, json_t **ret_files,
                  struct string_list *temporary, struct error *err);
void upload_remove(struct http *http, const struct string_list *names);

/* PUT of a file ("-": stdin); ret: the server's answer, to be freed. resumes: goes on with what an upload
 * that was broken off has left there, if that is the beginning of this file. */
int upload_file(struct http *http, const char *path, const char *target, bool resumes, json_t **ret,
                struct error *err);
