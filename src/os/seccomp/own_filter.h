/* The filter of a program of ours that meets strangers, as a table. A filter of libseccomp's is enough here:
 * it is made once, and has few conditions. What has no row answers EPERM. */
#pragma once

#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#define OWN_FILTER_ALL (~UINT64_C(0))

enum { OWN_FILTER_ARGUMENTS = 3 };

/* The bits `mask` of an argument are `value`. */
struct own_filter_bits {
    unsigned argument;
    uint64_t mask, value;
};

#define OWN_FILTER_IS(number, wanted)                                                                        \
    {                                                                                                        \
        .argument = (number), .mask = OWN_FILTER_ALL, .value = (wanted)                                      \
    }
#define OWN_FILTER_CLEAR(number, unwanted)                                                                   \
    {                                                                                                        \
        .argument = (number), .mask = (unwanted)                                                             \
    }

/* A socket's type; beside it are flags. */
#define OWN_FILTER_TYPE(number, type)                                                                        \
    {                                                                                                        \
        .argument = (number), .mask = 0xf, .value = (type)                                                   \
    }

/* Allowed, or answered with this errno, where all of these hold: up to the first without a mask, each of
 * another argument. Of several rows for a call one is enough. */
struct own_filter_condition {
    const char *name;
    int code; /* 0: allowed */
    struct own_filter_bits bits[OWN_FILTER_ARGUMENTS];
};

/* A pair of sockets of a type that stays connected. One of datagrams can send to any name, and so to the
 * host's daemons, whatever is said of socket and connect. */
#define OWN_FILTER_PAIR(type)                                                                                \
    {                                                                                                        \
        "socketpair", 0,                                                                                     \
        {                                                                                                    \
            OWN_FILTER_IS(0, AF_UNIX), OWN_FILTER_TYPE(1, type)                                              \
        }                                                                                                    \
    }

/* fcntl, as far as it is about a descriptor itself. With an owner and a signal of one's choice (F_SETOWN,
 * F_SETSIG) it signals any process of the same user. */
#define OWN_FILTER_DESCRIPTORS                                                                               \
    OWN_FILTER_FCNTL(F_GETFD), OWN_FILTER_FCNTL(F_SETFD), OWN_FILTER_FCNTL(F_GETFL),                         \
        OWN_FILTER_FCNTL(F_SETFL), OWN_FILTER_FCNTL(F_DUPFD), OWN_FILTER_FCNTL(F_DUPFD_CLOEXEC)
#define OWN_FILTER_FCNTL(command)                                                                            \
    {                                                                                                        \
        "fcntl", 0,                                                                                          \
        {                                                                                                    \
            OWN_FILTER_IS(1, command)                                                                        \
        }                                                                                                    \
    }

struct own_filter {
    const char *const *allowed;
    size_t allowed_count;
    const char *const *fatal; /* end the process */
    size_t fatal_count;
    const struct own_filter_condition *conditions;
    size_t condition_count;
};

/* On the calling thread, and those that it starts; no_new_privs must be on, or comes on. What abort() needs
 * is allowed in any case. */
int own_filter_install(const struct own_filter *table);
