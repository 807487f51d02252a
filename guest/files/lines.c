#include "lines.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Bytes of one character, or 0 when they are not UTF-8. */
static int character_length(const unsigned char *text)
{
    int length = text[0] < 0x80             ? 1
                 : (text[0] & 0xe0) == 0xc0 ? 2
                 : (text[0] & 0xf0) == 0xe0 ? 3
                 : (text[0] & 0xf8) == 0xf0 ? 4
                                            : 0;
    for (int i = 1; i < length; i++)
        if ((text[i] & 0xc0) != 0x80)
            return 0;
    if ((length == 2 && text[0] < 0xc2) || (length == 3 && text[0] == 0xe0 && text[1] < 0xa0) ||
        (length == 3 && text[0] == 0xed && text[1] >= 0xa0) ||
        (length == 4 && text[0] == 0xf0 && text[1] < 0x90) ||
        (length == 4 && (text[0] > 0xf4 || (text[0] == 0xf4 && text[1] >= 0x90))))
        return 0;
    return length;
}

/* Names are bytes: what is not text is shown as U+FFFD. */
static void write_string(const char *string)
{
    putchar('"');
    for (const unsigned char *at = (const unsigned char *)string; *at;) {
        int length = character_length(at);
        if (length == 0)
            fputs("\\ufffd", stdout);
        else if (*at == '"' || *at == '\\')
            printf("\\%c", *at);
        else if (*at < 0x20 || *at == 0x7f)
            printf("\\u%04x", *at);
        else
            fwrite(at, 1, (size_t)length, stdout);
        at += length ? length : 1;
    }
    putchar('"');
}

static const char *type_name(mode_t mode)
{
    return S_ISREG(mode) ? "file" : S_ISDIR(mode) ? "directory" : S_ISLNK(mode) ? "link" : "other";
}

void lines_entry(const char *path, const struct stat *status)
{
    fputs("{\"path\":", stdout);
    write_string(path);
    printf(",\"type\":\"%s\",\"size\":%lld,\"mode\":%u,\"modified_ns\":%lld", type_name(status->st_mode),
           (long long)status->st_size, status->st_mode & 07777,
           (long long)status->st_mtim.tv_sec * 1000000000 + status->st_mtim.tv_nsec);
    char target[PATH_MAX];
    ssize_t length = S_ISLNK(status->st_mode) ? readlink(path, target, sizeof target - 1) : -1;
    if (length >= 0) {
        target[length] = '\0';
        fputs(",\"target\":", stdout);
        write_string(target);
    }
    puts("}");
}

void lines_change(const char *event, const char *path)
{
    printf("{\"event\":\"%s\",\"path\":", event);
    write_string(path);
    puts("}");
}

int lines_fail(const char *path, int code)
{
    static const struct {
        int code;
        const char *name;
    } names[] = {{ENOENT, "not_found"},      {ENOTDIR, "not_a_directory"}, {EISDIR, "is_a_directory"},
                 {EACCES, "not_allowed"},    {EPERM, "not_allowed"},       {EROFS, "not_allowed"},
                 {EEXIST, "exists"},         {ENOTEMPTY, "exists"},        {ENOSPC, "disk_full"},
                 {ENAMETOOLONG, "too_long"}, {EINVAL, "not_a_file"},       {ELOOP, "not_found"}};
    const char *name = "failed";
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].code == code)
            name = names[i].name;
    printf("{\"error\":\"%s\",\"path\":", name);
    write_string(path);
    fputs(",\"message\":", stdout);
    write_string(strerror(code));
    puts("}");
    return 1;
}

void lines_cut(int entries)
{
    printf("{\"cut\":%d}\n", entries);
}

int lines_flush(void)
{
    return fflush(stdout) == 0 ? 0 : -1;
}
