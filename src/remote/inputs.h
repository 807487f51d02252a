/* The inputs of a run, on their way to a server: files, and directories with all that is in them. */
#pragma once

#include "remote/http.h"
#include "spec/spec.h"

/* Sets the field `files` of a body, from grants that are resolved: what is small goes along, the rest is
 * uploaded before. Names of uploads are added to *temporary, to be removed afterwards, whatever comes of it.
 *
 * A directory arrives as a box without a server sees it: hidden files, empty directories, links as they are
 * (they are followed in the box, if at all), names of any bytes, what is executable. Owners, times and other
 * rights do not; pipes, sockets and devices are refused. */
int inputs_send(struct http *http, const struct spec *spec, json_t *body, struct string_list *temporary,
                struct error *err);
