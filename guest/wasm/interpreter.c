#include "interpreter.h"

#include <string.h>

enum { VALUES_MAX = 4 };

static bool find(struct interpreter *self, const char *name, uint8_t kind, wasmtime_extern_t *ret)
{
    return wasmtime_instance_export_get(self->context, self->instance, name, strlen(name), ret) &&
           ret->kind == kind;
}

bool interpreter_is_over(const struct interpreter *self)
{
    return self->error || self->trap;
}

uint32_t interpreter_call(struct interpreter *self, const char *name, size_t count, const uint32_t *values,
                          bool returns)
{
    wasmtime_val_t given[VALUES_MAX], result = {0};
    wasmtime_extern_t item;
    if (interpreter_is_over(self))
        return 0;
    if (count > VALUES_MAX || !find(self, name, EXTERN_FUNC, &item)) {
        self->error = wasmtime_error_new("the interpreter is not the one that was expected");
        return 0;
    }
    for (size_t i = 0; i < count; i++)
        given[i] = (wasmtime_val_t){.kind = VAL_I32, .of.i32 = (int32_t)values[i]};
    self->error =
        wasmtime_func_call(self->context, &item.of.func, given, count, &result, returns, &self->trap);
    return (uint32_t)result.of.i32;
}

uint8_t *interpreter_memory(struct interpreter *self, uint32_t at, size_t length)
{
    wasmtime_extern_t memory;
    if (!find(self, "memory", EXTERN_MEMORY, &memory))
        return NULL;
    size_t size = wasmtime_memory_data_size(self->context, &memory.of.memory);
    return at && at <= size && length <= size - at
               ? wasmtime_memory_data(self->context, &memory.of.memory) + at
               : NULL;
}

uint32_t interpreter_constant(struct interpreter *self, const char *name)
{
    wasmtime_extern_t item;
    wasmtime_val_t value = {0};
    if (!find(self, name, EXTERN_GLOBAL, &item))
        return 0;
    wasmtime_global_get(self->context, &item.of.global, &value);
    return value.kind == VAL_I32 ? (uint32_t)value.of.i32 : 0;
}
