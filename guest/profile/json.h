/* JSON lines, and JSON documents that are an array: each object is a row, each of its names a column. */
#pragma once

#include "table.h"

/* Is the first line a whole object, and does another one follow? */
bool json_is_lines(const char *data, size_t length);

void json_read_lines(struct table *table, const char *data, size_t length);
void json_read_document(struct table *table, const char *data, size_t length);
