/* Where the other programs and files of ours are: beside this program, as after a build, or where they are
 * installed, as seen from there. */
#pragma once

#include "base/error.h"

/* Opens a program, such as cloche-server. */
int install_find_program(const char *name, struct error *err);

/* Opens a directory of files. -1: it is not there. */
int install_find_directory(const char *name);

/* Becomes another program of ours; a last item NULL, argv[0] is its name. Returns only when that fails, with
 * an error. */
int install_become(const char *program, char *const argv[], struct error *err);
