#include "keeper/door.h"

#include "os/process.h"

#include <errno.h>

int door_say(int door_fd, enum door_word word, int fd)
{
    char byte = (char)word;
    int sent = process_send(door_fd, &byte, 1, fd);
    return sent < 0 ? sent : 0;
}

int door_pass(int door_fd, int fd)
{
    return door_say(door_fd, DOOR_CONNECTION, fd);
}

int door_hear(int door_fd, enum door_word *ret_word, int *ret_fd)
{
    char byte;
    int got = process_receive(door_fd, &byte, 1, ret_fd);
    if (got <= 0)
        return got < 0 ? got : -EPIPE;
    *ret_word = (enum door_word)byte;
    return 0;
}
