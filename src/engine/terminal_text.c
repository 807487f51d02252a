#include "engine/terminal_text.h"

#include "base/text.h"

static size_t sequence_length(unsigned char first)
{
    return first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : first >= 0xc2 ? 2 : 1;
}

int terminal_text_flush(struct terminal_text *state, struct buffer *into)
{
    int status = 0;
    for (size_t i = 0; status == 0 && i < state->held_length; i++)
        status = buffer_print(into, "\\x%02x", state->held[i]);
    state->held_length = 0;
    return status;
}

static int append_character(struct terminal_text *state, struct buffer *into)
{
    const unsigned char *held = state->held;
    if (!text_is_utf8((const char *)held, state->held_length))
        return terminal_text_flush(state, into);
    int status;
    if (state->held_length == 2 && held[0] == 0xc2 && held[1] < 0xa0) /* C1: some terminals obey them */
        status = buffer_print(into, "\\u%04x", held[1]);
    else
        status = buffer_append(into, held, state->held_length);
    state->held_length = 0;
    return status;
}

static int append_ascii(struct buffer *into, unsigned char byte)
{
    if ((byte < 0x20 && byte != '\n' && byte != '\t' && byte != '\r') || byte == 0x7f)
        return buffer_append(into, (char[]){'^', (char)(byte ^ 0x40)}, 2);
    return buffer_append(into, &byte, 1);
}

int terminal_text_append(struct terminal_text *state, struct buffer *into, const char *data, size_t length)
{
    int status = 0;
    for (size_t i = 0; status == 0 && i < length; i++) {
        unsigned char byte = (unsigned char)data[i];
        bool continues = (byte & 0xc0) == 0x80;
        if (state->held_length && !continues)
            status = terminal_text_flush(state, into);
        if (status < 0)
            break;
        if (byte < 0x80) {
            status = append_ascii(into, byte);
            continue;
        }
        state->held[state->held_length++] = byte;
        if (state->held_length >= sequence_length(state->held[0]))
            status = append_character(state, into);
    }
    return status;
}

int terminal_text_clean(struct buffer *into, const char *data, size_t length)
{
    struct terminal_text state = {0};
    int status = terminal_text_append(&state, into, data, length);
    return status < 0 ? status : terminal_text_flush(&state, into);
}
