/* What is constant once it is relocated, above all the tables of functions. */
#pragma once

/* Lets nobody write to it any more. musl's loader does that for what it loads, but nobody does for a program
 * that relocates itself, whatever the linker was asked for. 0 or a negative errno. */
int constants_seal(void);
