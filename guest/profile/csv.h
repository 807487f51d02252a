/* Tables of text with a delimiter: as Python's csv module reads them, so that what is told here is what a
 * program will see. */
#pragma once

#include "table.h"

/* Fills the table from the file, whatever it holds. */
void csv_read(struct table *table, const char *data, size_t length);
