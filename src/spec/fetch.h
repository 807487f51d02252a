/* What a module may fetch, and how much of it: rules, each of which is a host, and limits of the operator's.
 *
 * A rule is HOST[:PORT][=ADDRESS]. HOST is a name (`api.example.com`), a name whose first label may be any
 * one (`*.example.com`: not example.com, not a.b.example.com), or an address as the kernel would print it
 * (`192.0.2.7`, `[2001:db8::7]`). Without a port it stands for 80 of http and 443 of https; PORT may be
 * `http` or `https`, which is one of the two; a number is that port with either of them. A name's addresses
 * are asked for, and must be public ones; with =ADDRESS nobody is asked, and the name is at that address,
 * which may be any, as may one that is a rule itself: that is for networks of one's own, and for tests. */
#pragma once

#include "base/bytes.h"
#include "base/error.h"

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

enum { FETCH_HOST_SIZE = 256, FETCH_RULES_MAX = 256, FETCH_RULE_SIZE = 320 };

/* name, default, least, most, what it is counted in, and what it limits: keys `fetch.NAME` of the
 * configuration. */
#define FETCH_LIMIT_ROWS(X)                                                                                  \
    X(requests, 100, 0, 1000000, text_parse_count, "a whole number such as 100", "requests of a run")        \
    X(body, 1 << 20, 0, 64 << 20, text_parse_size, "a size such as 1M", "bytes of what a request sends")     \
    X(response, 8 << 20, 0, 64 << 20, text_parse_size, "a size such as 8M", "bytes of what is answered")     \
    X(wall, 10000, 10, 600000, text_parse_duration, "a time such as 10s", "time of one request")

enum fetch_limit {
#define X(name, normal, least, most, parse, example, help) FETCH_##name,
    FETCH_LIMIT_ROWS(X)
#undef X
        FETCH_LIMITS,
};

extern const char *const fetch_limit_names[FETCH_LIMITS];

struct fetch_limits {
    int64_t value[FETCH_LIMITS];
};

/* What the operator says. */
struct fetch_policy {
    struct string_list hosts;
    struct fetch_limits limits;
    char *ca; /* a file of certificates, instead of the system's; NULL: none */
    /* Who runs code is the operator: a command line without a configuration. */
    bool is_callers;
};

void fetch_policy_init(struct fetch_policy *policy);
void fetch_policy_free(struct fetch_policy *policy);

/* 1: the key is one of these; 0: it is none. */
int fetch_policy_set(struct fetch_policy *policy, const char *key, const char *value, struct error *err);

enum fetch_host_kind { FETCH_NAME, FETCH_IPV4, FETCH_IPV6 };

/* A host as it is written in an address, in brackets if it is IPv6, to the one way in which it is compared:
 * small letters, no dot at the end, no brackets. NULL, or a few words on why it is none. */
const char *fetch_host_read(struct slice text, char into[FETCH_HOST_SIZE], enum fetch_host_kind *ret_kind);

struct fetch_rule {
    char host[FETCH_HOST_SIZE]; /* of a wildcard: what follows its star and dot */
    enum fetch_host_kind kind;
    bool is_wildcard;
    int port;                       /* 0: the usual one of the scheme */
    bool is_of_scheme;              /* port, and only with the scheme whose usual one it is */
    char address[INET6_ADDRSTRLEN]; /* "": it has to be asked for */
};

/* NULL, or a few words on why it is none. */
const char *fetch_rule_read(const char *text, struct fetch_rule *ret);

/* Writes it as it is read. */
void fetch_rule_write(const struct fetch_rule *rule, char into[FETCH_RULE_SIZE]);

/* The same for those whom it concerns where a name may be reached, but not where that is. */
void fetch_rule_show(const struct fetch_rule *rule, char into[FETCH_RULE_SIZE]);

/* Is it about this host, and this port of it? */
bool fetch_rule_fits(const struct fetch_rule *rule, const char *host, enum fetch_host_kind kind, int port,
                     bool is_usual_port);

/* The rules that are asked for, as the operator's have them: each lies within one of those, and takes over
 * its address. `source` is where they come from, for the sentence. */
int fetch_rules_validate(struct string_list *rules, const struct fetch_policy *policy, const char *source,
                         struct error *err);
