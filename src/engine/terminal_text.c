#include "engine/terminal_text.h"

int terminal_text_append(struct buffer *into, const char *data, size_t length)
{
    int status = 0;
    for (size_t i = 0; status == 0 && i < length; i++) {
        unsigned char byte = (unsigned char)data[i];
        if (byte == '\n' || byte == '\t' || byte == '\r')
            status = buffer_append(into, data + i, 1);
        else if (byte < 0x20 || byte == 0x7f)
            status = buffer_append(into, (char[]){'^', (char)(byte ^ 0x40)}, 2);
        else if (byte == 0xc2 && i + 1 < length && (unsigned char)data[i + 1] >= 0x80 &&
                 (unsigned char)data[i + 1] < 0xa0) /* C1 controls as UTF-8: some terminals obey them */
            status = buffer_print(into, "\\u%04x", (unsigned char)data[++i]);
        else
            status = buffer_append(into, data + i, 1);
    }
    return status;
}
