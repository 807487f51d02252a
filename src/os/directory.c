#include "os/directory.h"

#include "os/raw.h"

#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

struct kernel_entry {
    uint64_t inode;
    int64_t offset;
    uint16_t length;
    uint8_t type;
    char name[];
};

void directory_reader_start(struct directory_reader *reader, int fd)
{
    reader->fd = fd;
    reader->length = reader->at = 0;
    raw_call(SYS_lseek, fd, 0, SEEK_SET, 0, 0);
}

int directory_reader_next(struct directory_reader *reader, const char **ret_name)
{
    for (;;) {
        if (reader->at >= reader->length) {
            reader->at = 0;
            reader->length =
                raw_call(SYS_getdents64, reader->fd, RAW(reader->block), sizeof reader->block, 0, 0);
            if (reader->length < 0)
                return (int)reader->length;
            if (reader->length == 0)
                return 0;
        }
        const struct kernel_entry *entry = (const struct kernel_entry *)(reader->block + reader->at);
        reader->at += entry->length;
        if (strcmp(entry->name, ".") == 0 || strcmp(entry->name, "..") == 0)
            continue;
        *ret_name = entry->name;
        return 1;
    }
}

bool directory_is_empty(int fd)
{
    struct directory_reader reader;
    const char *name;
    directory_reader_start(&reader, fd);
    return directory_reader_next(&reader, &name) == 0;
}
