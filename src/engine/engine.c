#include "engine/engine.h"

const struct engine *engine_of(enum isolation isolation)
{
    static const struct engine *const engines[] = {&engine_process, &engine_wasm, &engine_container,
                                                   &engine_oci};
    _Static_assert(sizeof engines / sizeof *engines == ISOLATION_COUNT, "every level has an engine");
    return engines[isolation];
}
