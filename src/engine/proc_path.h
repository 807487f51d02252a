/* Where /proc tells of a process. */
#pragma once

#include <stddef.h>
#include <sys/types.h>

/* A file of a process; of another thread when the first has ended, for then its own are empty. */
void proc_path(pid_t pid, const char *file, char *into, size_t size);
