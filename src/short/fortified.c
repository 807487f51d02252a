/* jansson and OpenSSL's SHA-256 are Debian's static libraries, which were compiled for the GNU C library.
 * What they ask of a C library has the same shape in musl, but for these: the GNU headers put calls that know
 * the size of their target in the place of the plain ones. Whatever else they might come to ask for is an
 * error of the linker. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int fortified_snprintf(char *into, size_t size, int flag, size_t room, const char *format,
                       ...) __asm__("__snprintf_chk") __attribute__((format(printf, 5, 6)));
int fortified_vsnprintf(char *into, size_t size, int flag, size_t room, const char *format,
                        va_list values) __asm__("__vsnprintf_chk");
int fortified_vfprintf(FILE *file, int flag, const char *format, va_list values) __asm__("__vfprintf_chk");
char *fortified_strncpy(char *into, const char *from, size_t size, size_t room) __asm__("__strncpy_chk");

static void require_room(size_t size, size_t room)
{
    if (size > room)
        abort();
}

int fortified_vsnprintf(char *into, size_t size, int flag, size_t room, const char *format, va_list values)
{
    (void)flag;
    require_room(size, room);
    return vsnprintf(into, size, format, values);
}

int fortified_snprintf(char *into, size_t size, int flag, size_t room, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    int length = fortified_vsnprintf(into, size, flag, room, format, values);
    va_end(values);
    return length;
}

int fortified_vfprintf(FILE *file, int flag, const char *format, va_list values)
{
    (void)flag;
    return vfprintf(file, format, values);
}

char *fortified_strncpy(char *into, const char *from, size_t size, size_t room)
{
    require_room(size, room);
    return strncpy(into, from, size);
}
