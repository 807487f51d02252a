#pragma once

/* "TERM" for SIGTERM; NULL for a number that is none, or has no name (those of real time). */
const char *signal_name(int number);
