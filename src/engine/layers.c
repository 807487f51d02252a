#include "engine/layers.h"

const char *const layer_names[LAYER_COUNT] = {
#define X(name, purpose) #name,
    LAYER_ROWS(X)
#undef X
};

const char *const layer_purposes[LAYER_COUNT] = {
#define X(name, purpose) purpose,
    LAYER_ROWS(X)
#undef X
};
