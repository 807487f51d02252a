/* What waits in a box that was started before there is code for it, and becomes the program. */
#pragma once

/* Waits for the order `main` on that socket, puts on its limits, and executes its command. */
__attribute__((noreturn)) void wait_for_program(int channel_fd);
