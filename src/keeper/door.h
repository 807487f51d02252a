/* The door between the keeper and the server in front of it: a pair of SOCK_SEQPACKET sockets. The server has
 * no path to anything and cannot connect: to talk to the keeper it makes a pair of stream sockets, and hands
 * one end through the door; from then on that is a connection like any other of service.h. */
#pragma once

enum door_word {
    DOOR_CONNECTION = 'C', /* server to keeper, with a socket */
    DOOR_READY = 'R',      /* server to keeper: it answers */
    DOOR_STOP = 'S',       /* keeper to server: finish what is under way, and end */
};

/* 0 or a negative errno. fd -1: none. */
int door_say(int door_fd, enum door_word word, int fd);

/* Hands over a connection; the caller closes its copy. */
int door_pass(int door_fd, int fd);

/* Waits for a word. *ret_fd is -1 when no socket came with it. -EPIPE: the other side is gone. */
int door_hear(int door_fd, enum door_word *ret_word, int *ret_fd);
