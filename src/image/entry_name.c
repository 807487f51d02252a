#include "image/entry_name.h"

#include <stdio.h>
#include <string.h>

static int entry_name_refuse(const char *name, const char *why, struct error *err)
{
    char quoted[ENTRY_QUOTED_MAX];
    return error_spec(err, "archive", "entry \"%s\" %s", entry_name_quote(name, quoted), why);
}

int entry_name_clean(const char *name, char into[PATH_MAX], struct error *err)
{
    if (*name == '/')
        return entry_name_refuse(name, "has an absolute name; names relative to the image's top are allowed",
                                 err);
    if (strnlen(name, PATH_MAX) >= PATH_MAX)
        return entry_name_refuse(name, "has a name longer than 4095 bytes, the longest that is allowed", err);
    size_t length = 0, depth = 0;
    for (const char *at = name; *at;) {
        size_t part = strcspn(at, "/");
        if (part == 2 && memcmp(at, "..", 2) == 0)
            return entry_name_refuse(name, "has \"..\" in its name; only names inside the image are allowed",
                                     err);
        if (part > NAME_MAX)
            return entry_name_refuse(name, "has a part longer than 255 bytes, the longest that is allowed",
                                     err);
        if (part && !(part == 1 && *at == '.')) {
            if (++depth > ENTRY_DEPTH_MAX)
                return entry_name_refuse(name, "is nested deeper than 256 directories, which is the limit",
                                         err);
            if (length)
                into[length++] = '/';
            memcpy(into + length, at, part);
            length += part;
        }
        at += part;
        at += strspn(at, "/");
    }
    into[length] = '\0';
    return 0;
}

const char *entry_name_quote(const char *name, char into[ENTRY_QUOTED_MAX])
{
    static const char cut[] = "...";
    size_t length = 0;
    for (; *name; name++) {
        unsigned char byte = (unsigned char)*name;
        bool plain = byte >= 0x20 && byte < 0x7f && byte != '\\' && byte != '"';
        if (length + (plain ? 1 : 4) + sizeof cut > ENTRY_QUOTED_MAX) {
            memcpy(into + length, cut, sizeof cut);
            return into;
        }
        if (plain)
            into[length++] = (char)byte;
        else
            length += (size_t)snprintf(into + length, ENTRY_QUOTED_MAX - length, "\\x%02x", byte);
    }
    into[length] = '\0';
    return into;
}
