/* One run in a process of the wasm engine that stays, as a box that the supervisor can watch. */
#pragma once

#include "engine/engine.h"

struct wasm_served {
    struct box box;
    struct box *home;     /* of the process */
    struct limits limits; /* a little above the run's: first Wasmtime has the chance to end it, and goes on */
    int64_t cpu_before_us;
};

/* Gives it its order. The run's spec and program must outlive it; its limits are those of the spec. */
int wasm_served_open(struct wasm_served *served, struct box *home, const struct spec *spec,
                     const struct program *program, struct error *err);

/* After the supervisor; false: the process has ended, or is not to be used again. */
bool wasm_served_close(struct wasm_served *served);

/* For looks at one that waits: the CPU time that it has used, the memory that is its own (INT64_MAX: nobody
 * tells), and whether it is the only one in its box. */
int64_t wasm_served_cpu_us(const struct box *home);
int64_t wasm_served_held_bytes(const struct box *home);
bool wasm_served_is_alone(const struct box *home);

/* Ends the process, and waits until nothing of it runs any more. */
void wasm_served_end(struct box *home);
