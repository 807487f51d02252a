#include "server/framing.h"

#include "server/exchange_inside.h"

#include <string.h>
#include <strings.h>

struct framing {
    int lengths, encodings, hosts;
    const char *encoding;
    const char *problem;
};

static bool is_name(const char *text, size_t length)
{
    static const char marks[] = "!#$%&'*+-.^_`|~0123456789";
    for (size_t i = 0; i < length; i++) {
        char letter = (char)(text[i] | 0x20);
        if ((letter < 'a' || letter > 'z') && (!text[i] || !strchr(marks, text[i])))
            return false;
    }
    return length > 0;
}

/* A line that ended in the middle, for some readers. */
static bool has_control(const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (((unsigned char)text[i] < ' ' && text[i] != '\t') || text[i] == 0x7f)
            return true;
    return false;
}

/* The library (0.9.75) joins a line that is folded (it begins with a blank, and belongs to the one before) to
 * the name of the header instead of its value: `Transfer-Encodingchunked`. Other readers see the header. */
static bool is_folded(const char *name)
{
    static const char *const framers[] = {"Content-Length", "Transfer-Encoding"};
    for (size_t i = 0; i < sizeof framers / sizeof *framers; i++)
        if (strncasecmp(name, framers[i], strlen(framers[i])) == 0 && name[strlen(framers[i])])
            return true;
    return false;
}

static enum MHD_Result look_at(void *data, enum MHD_ValueKind kind, const char *name, size_t name_length,
                               const char *value, size_t value_length)
{
    (void)kind;
    struct framing *framing = data;
    if (!is_name(name, name_length) || is_folded(name))
        framing->problem = "the name of a header has characters that no name has";
    else if (value && has_control(value, value_length))
        framing->problem = "the value of a header has control characters";
    framing->lengths += strcasecmp(name, "Content-Length") == 0;
    framing->hosts += strcasecmp(name, "Host") == 0;
    if (strcasecmp(name, "Transfer-Encoding") == 0) {
        framing->encodings++;
        framing->encoding = value ? value : "";
    }
    return framing->problem ? MHD_NO : MHD_YES;
}

const char *framing_problem(const struct exchange *exchange, const char *version)
{
    struct framing framing = {0};
    MHD_get_connection_values_n(exchange->connection, MHD_HEADER_KIND, look_at, &framing);
    if (framing.problem)
        return framing.problem;
    bool is_newer = strncmp(version, "HTTP/1.", 7) == 0 && strcmp(version, "HTTP/1.0") != 0;
    if (!framing.hosts && is_newer)
        return "a request of HTTP/1.1 needs a Host header";
    if (exchange->has_blank)
        return "the target of a request has no blanks: %20 is one";
    if (framing.lengths > 1 || framing.encodings > 1 || framing.hosts > 1)
        return "Content-Length, Transfer-Encoding and Host may be given once only";
    if (framing.lengths && framing.encodings)
        return "either Content-Length or Transfer-Encoding, not both";
    if (framing.encodings && strcasecmp(framing.encoding, "chunked") != 0)
        return "Transfer-Encoding may be `chunked` only";
    if (framing.encodings && strcmp(version, "HTTP/1.1") != 0)
        return "Transfer-Encoding needs HTTP/1.1";
    return NULL;
}
