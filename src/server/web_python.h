/* Python for browsers: Pyodide, whose files are installed beside the program (setup/install-pyodide), for
 * they are larger than all the rest of it. */
#pragma once

#include "server/exchange.h"

int web_python_answer(struct exchange *exchange);
