/* What a program of ours does first. */
#pragma once

void begin_process(void);
