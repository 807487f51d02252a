/* Any bytes as a request of a module: what is taken is made of harmless letters, is for the host that libcurl
 * reads there too, and is allowed for no host but those of the rules. And any text as a rule. */
#include "fuzz.h"

#include "base/scope.h"
#include "gateway/request.h"

#include <curl/curl.h>
#include <string.h>

enum { PARTS = 4 };

static const char *const rule_texts[] = {"a.test", "*.b.test", "c.test:8080=10.0.0.1", "127.0.0.1:8080",
                                         "[::1]:8080"};
enum { RULES = sizeof rule_texts / sizeof *rule_texts };

static bool is_plain(const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if ((unsigned char)text[i] < ' ' && text[i] != '\t')
            return false;
    return strlen(text) == length;
}

static void check_what_libcurl_reads(const struct request *request)
{
    char site[FETCH_HOST_SIZE + 32], *host = NULL, *port = NULL, *user = NULL;
    scope_buffer url = {0};
    CURLU *read = curl_url();
    check(read &&
              buffer_print(&url, "%s%s", request_site(request, site, sizeof site), request->target.data) == 0,
          "there is memory");
    check(curl_url_set(read, CURLUPART_URL, url.data, CURLU_PATH_AS_IS) == CURLUE_OK, "libcurl can read it");
    check(curl_url_get(read, CURLUPART_HOST, &host, 0) == CURLUE_OK &&
              curl_url_get(read, CURLUPART_PORT, &port, CURLU_DEFAULT_PORT) == CURLUE_OK,
          "it has a host and a port");
    check(curl_url_get(read, CURLUPART_USER, &user, 0) == CURLUE_NO_USER, "it has no user");
    size_t length = strlen(host);
    bool in_brackets = request->kind == FETCH_IPV6;
    check(length == strlen(request->host) + (in_brackets ? 2 : 0) &&
              memcmp(host + in_brackets, request->host, strlen(request->host)) == 0,
          "both read the same host");
    check(atoi(port) == request->port, "both read the same port");
    curl_free(host);
    curl_free(port);
    curl_url_cleanup(read);
}

static void check_request(const struct request *request)
{
    check(request->method[0] && request->port >= 1 && request->port <= 65535, "method and port are such");
    check(strspn(request->host, "abcdefghijklmnopqrstuvwxyz0123456789-_.:") == strlen(request->host) &&
              request->host[0],
          "a host is made of the letters of hosts");
    check(request->target.data[0] == '/' && is_plain(request->target.data, request->target.length) &&
              !strchr(request->target.data, ' '),
          "a target is one word");
    check(request->headers.count <= REQUEST_HEADERS_MAX, "there are not too many headers");
    for (size_t i = 0; i < request->headers.count; i++) {
        const char *line = request->headers.items[i];
        check(is_plain(line, strlen(line)), "a header is one line");
        check(strncasecmp(line, "host:", 5) != 0 && strncasecmp(line, "content-length:", 15) != 0 &&
                  strncasecmp(line, "transfer-encoding:", 18) != 0 &&
                  strncasecmp(line, "connection:", 11) != 0,
              "how it is sent is not said by it");
    }
    check_what_libcurl_reads(request);
}

static void check_rules(const struct request *request)
{
    struct fetch_rule rules[RULES];
    char reason[512] = "";
    for (size_t i = 0; i < RULES; i++)
        check(fetch_rule_read(rule_texts[i], &rules[i]) == NULL, "the rules are rules");
    const struct fetch_rule *rule = request_find_rule(request, rules, RULES, reason, sizeof reason);
    const char *host = request->host, *dot = strchr(host, '.');
    bool is_usual = request->port == (request->is_secure ? 443 : 80);
    bool is_one =
        (strcmp(host, "a.test") == 0 && is_usual) ||
        (dot && dot > host && strcmp(dot, ".b.test") == 0 && is_usual) ||
        ((strcmp(host, "c.test") == 0 || strcmp(host, "127.0.0.1") == 0 || strcmp(host, "::1") == 0) &&
         request->port == 8080);
    check((rule != NULL) == is_one, "allowed is what the rules say, letter by letter");
    check(rule || reason[0], "a denial has a reason");
}

static void check_rule(const char *text)
{
    struct fetch_rule rule, again;
    char one[FETCH_RULE_SIZE], other[FETCH_RULE_SIZE];
    if (fetch_rule_read(text, &rule))
        return;
    fetch_rule_write(&rule, one);
    check(fetch_rule_read(one, &again) == NULL, "what is written can be read");
    fetch_rule_write(&again, other);
    check(strcmp(one, other) == 0, "there and back is the same");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    /* The first bytes say where it is cut: so every byte can be in every part. */
    struct fuzz_input input = {data, size};
    size_t lengths[PARTS];
    struct slice parts[PARTS];
    for (int i = 0; i < PARTS - 1; i++)
        lengths[i] = fuzz_byte(&input);
    for (int i = 0; i < PARTS; i++) {
        size_t length = i == PARTS - 1 || lengths[i] > input.left ? input.left : lengths[i];
        parts[i] = (struct slice){(const char *)input.data, length};
        input.data += length;
        input.left -= length;
    }
    scope_request request = {0};
    char reason[512] = "";
    int status = request_read(parts[0], parts[1], parts[2], parts[3], &request, reason, sizeof reason);
    check(status == 0 || ((status == FETCH_MALFORMED || status == FETCH_DENIED) && reason[0]),
          "a refusal has a reason");
    if (status == 0) {
        check_request(&request);
        check_rules(&request);
    }
    char *text = fuzz_text(&(struct fuzz_input){data, size});
    check_rule(text);
    free(text);
    return 0;
}
