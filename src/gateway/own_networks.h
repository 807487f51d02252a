/* What this machine takes for its own by its routes: not only the addresses that it wears. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

struct own_network {
    int family; /* AF_INET, AF_INET6 */
    int bits;
    uint8_t bytes[16]; /* in the order of the network */
};

/* Reads all that routes call local, anycast or broadcast, and that matter; how many there are, or a negative
 * errno, -E2BIG of more than there is room for. */
int own_networks_read(struct own_network *into, size_t room,
                      bool (*matters)(const struct own_network *network));

bool own_network_has(const struct own_network *network, const struct sockaddr *address);
