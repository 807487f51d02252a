#include "task.h"

#include "imports.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

static bool add(const char **list, size_t *count, const char *value)
{
    if (*count == TASK_LIST_MAX)
        return false;
    list[(*count)++] = value;
    return true;
}

static bool take_field(struct task *task, const char *name, const char *value)
{
    const struct {
        const char *name;
        const char **into;
    } texts[] = {{FIELD_RUNTIME, &task->runtime},    {FIELD_NAME, &task->name},
                 {FIELD_CALL, &task->call},          {FIELD_INPUT, &task->input},
                 {FIELD_OUTPUT, &task->output},      {FIELD_SCRATCH, &task->scratch},
                 {FIELD_DIRECTORY, &task->directory}};
    const struct {
        const char *name;
        int64_t *into;
    } numbers[] = {{FIELD_MEMORY, &task->memory_bytes},
                   {FIELD_CPU, &task->cpu_ms},
                   {FIELD_WALL, &task->wall_ms},
                   {FIELD_FUEL, &task->fuel}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (strcmp(name, texts[i].name) == 0)
            return (*texts[i].into = value) != NULL;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (strcmp(name, numbers[i].name) == 0)
            return (*numbers[i].into = strtoll(value, NULL, 10)) >= 0;
    if (strcmp(name, FIELD_ARGUMENT) == 0)
        return add(task->arguments, &task->argument_count, value);
    if (strcmp(name, FIELD_ENVIRONMENT) == 0)
        return add(task->environment, &task->environment_count, value);
    if (strcmp(name, FIELD_HOST) == 0)
        return imports_group(value, &task->host_groups);
    return false;
}

bool task_parse(const char *bytes, size_t length, struct task *ret)
{
    *ret = (struct task){
        .fuel = -1, .stdin_fd = 0, .stdout_fd = 1, .stderr_fd = 2, .fetch_fd = -1, .name = "main"};
    if (length < sizeof(struct order_head))
        return false;
    const struct order_head *head = (const struct order_head *)bytes;
    const char *at = bytes + sizeof *head, *end = at + head->fields_length;
    if (head->magic != ORDER_MAGIC || head->fields_length > length - sizeof *head ||
        head->code_length != length - sizeof *head - head->fields_length ||
        (head->fields_length && end[-1] != '\0'))
        return false;
    ret->code = (const uint8_t *)end;
    ret->code_length = (size_t)head->code_length;
    while (at < end) {
        const char *value = at + strlen(at) + 1;
        if (value >= end || !take_field(ret, at, value))
            return false;
        at = value + strlen(value) + 1;
    }
    return true;
}

bool task_read(int order_fd, struct task *ret)
{
    struct stat status;
    if (fstat(order_fd, &status) < 0)
        return false;
    size_t length = (size_t)status.st_size;
    char *bytes = mmap(NULL, length, PROT_READ, MAP_PRIVATE, order_fd, 0);
    if (bytes == MAP_FAILED)
        return false;
    bool is_read = task_parse(bytes, length, ret);
    ret->mapped = bytes;
    ret->mapped_length = length;
    return is_read;
}

void task_release(struct task *task)
{
    if (task->mapped)
        munmap(task->mapped, task->mapped_length);
    task->mapped = NULL;
}
