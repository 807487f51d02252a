/* Processes of the wasm engine that stay: each has Wasmtime and its modules ready, and runs one order after
 * the other, every one in a store of its own.
 *
 * Theory of operation. Unlike a spare, such a process outlives its run: what keeps runs apart is WebAssembly,
 * and around it stands a box of the process engine. So it serves one owner alone (who, is said by who asks
 * for the run): who breaks out of Wasmtime reaches later runs of his own. It is taken by one run at a time,
 * which the usual supervisor watches as if it were a box: its streams are pipes that the order carries, its
 * end is told over a socket of its own, and to stop it is to end the process, which is then not used again;
 * nor is one that has left files, has refused its order, holds much memory, or has had many runs.
 *
 * So many wait at most, of all owners together: when there is no room, the one of somebody else that waits
 * longest goes. A thread looks at those that wait once a second, ends who does anything but wait, and who has
 * waited for long; and it ends what is not used again, so that no run waits for that. */
#pragma once

#include "engine/supervise.h"
#include "runtime/language.h"
#include "spec/policy.h"

struct wasm_pool;

/* idle_ms: how long one waits before it ends. The others must live as long. */
struct wasm_pool *wasm_pool_new(const struct policy *policy, const struct language_table *languages,
                                int64_t idle_ms);

/* Like keeper_run_validated. -EAGAIN: it is not for such a process, and nothing of it ran. */
int wasm_pool_serve(struct wasm_pool *pool, struct spec *spec, const struct supervise_io *io,
                    struct result **ret, struct error *err);

struct wasm_pool_state {
    int idle;
    int64_t hits, misses;
};
void wasm_pool_read_state(struct wasm_pool *pool, struct wasm_pool_state *ret);

/* Ends those that wait. NULL is fine. */
void wasm_pool_free(struct wasm_pool *pool);
