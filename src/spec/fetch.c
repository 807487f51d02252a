#include "spec/fetch.h"

#include "base/scope.h"
#include "base/text.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LABEL_MAX = 63, NAME_MAX_LENGTH = 253, PORT_MAX = 65535 };

const char *const fetch_limit_names[FETCH_LIMITS] = {
#define X(name, normal, least, most, parse, example, help) #name,
    FETCH_LIMIT_ROWS(X)
#undef X
};

static const struct {
    const char *key;
    int64_t normal, least, most;
    bool (*parse)(const char *text, int64_t *ret);
    const char *example;
} limit_table[FETCH_LIMITS] = {
#define X(name, normal, least, most, parse, example, help)                                                   \
    {"fetch." #name, normal, least, most, parse, example},
    FETCH_LIMIT_ROWS(X)
#undef X
};

static const struct {
    const char *name;
    int port;
} schemes[] = {{"http", 80}, {"https", 443}};

void fetch_policy_init(struct fetch_policy *policy)
{
    *policy = (struct fetch_policy){0};
    for (int i = 0; i < FETCH_LIMITS; i++)
        policy->limits.value[i] = limit_table[i].normal;
}

void fetch_policy_free(struct fetch_policy *policy)
{
    string_list_free(&policy->hosts);
    free(policy->ca);
    policy->ca = NULL;
}

/* Several with spaces or commas. */
static int add_hosts(struct fetch_policy *policy, const char *value, struct error *err)
{
    scope_free char *words = strdup(value);
    int status = words ? 0 : -ENOMEM;
    for (char *rest = words, *word; status == 0 && (word = strsep(&rest, ", \t"));) {
        struct fetch_rule rule;
        const char *fault = *word ? fetch_rule_read(word, &rule) : NULL;
        if (fault)
            return error_spec(err, "fetch.hosts", "fetch.hosts: '%.64s' %s", word, fault);
        if (*word && policy->hosts.count == FETCH_RULES_MAX)
            return error_spec(err, "fetch.hosts", "fetch.hosts: more than %d hosts", FETCH_RULES_MAX);
        status = *word ? string_list_add(&policy->hosts, word) : 0;
    }
    return status;
}

int fetch_policy_set(struct fetch_policy *policy, const char *key, const char *value, struct error *err)
{
    if (strcmp(key, "fetch.hosts") == 0) {
        int status = add_hosts(policy, value, err);
        return status < 0 ? status : 1;
    }
    if (strcmp(key, "fetch.ca") == 0) {
        if (value[0] != '/')
            return error_spec(err, key, "fetch.ca: '%.64s' is not an absolute path of a file in PEM format",
                              value);
        free(policy->ca);
        policy->ca = strdup(value);
        return policy->ca ? 1 : -ENOMEM;
    }
    for (int i = 0; i < FETCH_LIMITS; i++) {
        if (strcmp(key, limit_table[i].key) != 0)
            continue;
        int64_t number;
        if (!limit_table[i].parse(value, &number) || number < limit_table[i].least ||
            number > limit_table[i].most)
            return error_spec(err, key, "%s: '%.64s' is not a valid value; give %s, from %lld to %lld", key,
                              value, limit_table[i].example, (long long)limit_table[i].least,
                              (long long)limit_table[i].most);
        policy->limits.value[i] = number;
        return 1;
    }
    return 0;
}

/* What a resolver would take for a number, and so the whole for an address: WHATWG's rule, which is the
 * widest. */
static bool is_number(const char *label)
{
    size_t digits = strspn(label, "0123456789");
    if (digits && !label[digits])
        return true;
    return label[0] == '0' && label[1] == 'x' && !label[2 + strspn(label + 2, "0123456789abcdef")];
}

static const char *check_name(const char *host)
{
    const char *label = host;
    for (;;) {
        size_t length = strspn(label, "abcdefghijklmnopqrstuvwxyz0123456789-_");
        if (length == 0 || length > LABEL_MAX || label[0] == '-' || (label[length] && label[length] != '.'))
            return "is not a host name";
        if (!label[length])
            return NULL;
        label += length + 1;
    }
}

static bool is_as_printed(int family, const char *host)
{
    struct in6_addr address;
    char printed[INET6_ADDRSTRLEN];
    return inet_pton(family, host, &address) == 1 && inet_ntop(family, &address, printed, sizeof printed) &&
           strcmp(host, printed) == 0;
}

const char *fetch_host_read(struct slice text, char into[FETCH_HOST_SIZE], enum fetch_host_kind *ret_kind)
{
    bool in_brackets = text.length > 2 && text.data[0] == '[' && text.data[text.length - 1] == ']';
    if (in_brackets)
        text = (struct slice){text.data + 1, text.length - 2};
    if (text.length == 0 || text.length > NAME_MAX_LENGTH + 1)
        return "is not a host name";
    for (size_t i = 0; i < text.length; i++) {
        unsigned char letter = (unsigned char)text.data[i];
        if (letter > 0x7e)
            return "is not ASCII: write an international name as its xn-- form";
        if (letter <= ' ')
            return "has a space or a control character in it";
        into[i] = (char)tolower(letter);
    }
    into[text.length] = '\0';
    *ret_kind = FETCH_IPV6;
    if (in_brackets)
        return is_as_printed(AF_INET6, into) ? NULL
                                             : "is not an IPv6 address in its usual spelling, such as [::1]";
    bool has_dot = into[text.length - 1] == '.';
    if (has_dot)
        into[text.length - 1] = '\0';
    const char *fault = check_name(into), *dot = strrchr(into, '.');
    *ret_kind = FETCH_NAME;
    if (fault || !is_number(dot ? dot + 1 : into))
        return fault ? fault : strlen(into) > NAME_MAX_LENGTH ? "is longer than a name can be" : NULL;
    *ret_kind = FETCH_IPV4;
    return !has_dot && is_as_printed(AF_INET, into) ? NULL : "is an address in another spelling than a.b.c.d";
}

static bool read_port(const char *text, int *ret)
{
    size_t digits = strspn(text, "0123456789");
    if (digits == 0 || digits > 5 || text[digits])
        return false;
    *ret = atoi(text);
    return *ret >= 1 && *ret <= PORT_MAX;
}

/* A number, or the name of the scheme whose usual one it is. */
static bool read_rule_port(const char *text, struct fetch_rule *ret)
{
    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++)
        if (strcmp(text, schemes[i].name) == 0) {
            ret->port = schemes[i].port;
            ret->is_of_scheme = true;
            return true;
        }
    return read_port(text, &ret->port);
}

static const char *scheme_of(int port)
{
    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++)
        if (schemes[i].port == port)
            return schemes[i].name;
    return NULL;
}

/* Where the port begins: behind the brackets, where there are some. */
static char *find_port(char *text)
{
    char *bracket = strchr(text, ']');
    return text[0] == '[' ? bracket ? strchr(bracket, ':') : NULL : strchr(text, ':');
}

const char *fetch_rule_read(const char *text, struct fetch_rule *ret)
{
    char copy[FETCH_RULE_SIZE];
    *ret = (struct fetch_rule){0};
    if ((size_t)snprintf(copy, sizeof copy, "%s", text) >= sizeof copy)
        return "is longer than a host can be";
    char *equals = strchr(copy, '='), *port, *host = copy;
    if (equals) {
        struct in6_addr unused;
        *equals++ = '\0';
        if (strlen(equals) >= sizeof ret->address ||
            (inet_pton(AF_INET, equals, &unused) != 1 && inet_pton(AF_INET6, equals, &unused) != 1))
            return "has no address behind its '=', such as 10.0.0.7 or fd00::7";
        memcpy(ret->address, equals, strlen(equals) + 1);
    }
    if ((port = find_port(host))) {
        *port++ = '\0';
        if (!read_rule_port(port, ret))
            return "has a port that is not a number from 1 to 65535, http or https";
    }
    ret->is_wildcard = strncmp(host, "*.", 2) == 0;
    host += ret->is_wildcard ? 2 : 0;
    const char *fault = fetch_host_read((struct slice){host, strlen(host)}, ret->host, &ret->kind);
    if (fault)
        return fault;
    if (ret->kind != FETCH_NAME && (ret->is_wildcard || ret->address[0]))
        return "is an address already: there is nothing to be said of its parts";
    return ret->is_wildcard && !strchr(ret->host, '.') ? "would be all names below a top one" : NULL;
}

void fetch_rule_write(const struct fetch_rule *rule, char into[FETCH_RULE_SIZE])
{
    bool is_long = rule->kind == FETCH_IPV6;
    char port[16] = "";
    if (rule->is_of_scheme)
        snprintf(port, sizeof port, ":%s", scheme_of(rule->port));
    else if (rule->port)
        snprintf(port, sizeof port, ":%d", rule->port);
    snprintf(into, FETCH_RULE_SIZE, "%s%s%s%s%s%s%s", rule->is_wildcard ? "*." : "", is_long ? "[" : "",
             rule->host, is_long ? "]" : "", port, rule->address[0] ? "=" : "", rule->address);
}

void fetch_rule_show(const struct fetch_rule *rule, char into[FETCH_RULE_SIZE])
{
    struct fetch_rule shown = *rule;
    shown.address[0] = '\0';
    fetch_rule_write(&shown, into);
}

static bool host_fits(const struct fetch_rule *rule, const char *host, enum fetch_host_kind kind)
{
    if (rule->kind != kind)
        return false;
    if (!rule->is_wildcard)
        return strcmp(rule->host, host) == 0;
    const char *dot = strchr(host, '.');
    return dot && dot != host && strcmp(dot + 1, rule->host) == 0;
}

bool fetch_rule_fits(const struct fetch_rule *rule, const char *host, enum fetch_host_kind kind, int port,
                     bool is_usual_port)
{
    bool port_fits = !rule->port || rule->port == port, needs_usual = !rule->port || rule->is_of_scheme;
    return host_fits(rule, host, kind) && port_fits && (is_usual_port || !needs_usual);
}

/* Which of the ports that are allowed with their schemes alone a rule may ask for. */
static bool port_is_within(const struct fetch_rule *asked, const struct fetch_rule *allowed)
{
    if (!allowed->port)
        return !asked->port || scheme_of(asked->port);
    return asked->port == allowed->port;
}

static bool is_within(const struct fetch_rule *asked, const struct fetch_rule *allowed)
{
    bool same_host = asked->is_wildcard ? allowed->is_wildcard && strcmp(asked->host, allowed->host) == 0
                                        : host_fits(allowed, asked->host, asked->kind);
    return same_host && port_is_within(asked, allowed) &&
           (!asked->address[0] || strcmp(asked->address, allowed->address) == 0);
}

static int refuse(const char *asked, const struct fetch_policy *policy, const char *source, struct error *err)
{
    scope_buffer names = {0};
    for (size_t i = 0; i < policy->hosts.count && names.length < 400; i++)
        buffer_print(&names, "%s%.*s", i ? ", " : "", (int)strcspn(policy->hosts.items[i], "="),
                     policy->hosts.items[i]);
    return error_spec(err, "fetch",
                      "fetch: '%.64s' is not among the hosts that the operator allows; allowed (fetch.hosts, "
                      "%s): %.420s",
                      asked, source, names.data ? names.data : "none");
}

/* The operator's rule that it lies within says where the name is, and whether a port is for one scheme only:
 * who allows https on 443 does not allow http there. */
static bool narrow(struct fetch_rule *asked, const struct fetch_policy *policy)
{
    if (policy->is_callers && !policy->hosts.count)
        return true;
    for (size_t i = 0; i < policy->hosts.count; i++) {
        struct fetch_rule allowed;
        if (fetch_rule_read(policy->hosts.items[i], &allowed) || !is_within(asked, &allowed))
            continue;
        memcpy(asked->address, allowed.address, sizeof asked->address);
        asked->is_of_scheme |= asked->port && (!allowed.port || allowed.is_of_scheme);
        return true;
    }
    return false;
}

int fetch_rules_validate(struct string_list *rules, const struct fetch_policy *policy, const char *source,
                         struct error *err)
{
    if (rules->count > FETCH_RULES_MAX)
        return error_spec(err, "fetch", "fetch: more than %d hosts", FETCH_RULES_MAX);
    for (size_t i = 0; i < rules->count; i++) {
        struct fetch_rule rule;
        char written[FETCH_RULE_SIZE];
        const char *fault = fetch_rule_read(rules->items[i], &rule);
        if (fault)
            return error_spec(err, "fetch", "fetch: '%.64s' %s; give HOST or HOST:PORT", rules->items[i],
                              fault);
        if (!narrow(&rule, policy))
            return refuse(rules->items[i], policy, source, err);
        fetch_rule_write(&rule, written);
        char *text = strdup(written);
        if (!text)
            return error_host(err, -ENOMEM, "fetch");
        free(rules->items[i]);
        rules->items[i] = text;
    }
    return 0;
}
