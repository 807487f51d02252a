#include "image/host_view.h"

#include <stddef.h>
#include <string.h>

const char *const host_view_trees[] = {"usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32", NULL};

/* Every entry is a mount, paid for at the start and at the end of each box: what programs need, and no more.
 */
const char *const host_view_etc[] = {
    "alternatives", /* numpy's BLAS, java, editors: links through here */
    "fonts",           "java-17-openjdk", "ld.so.cache", "ld.so.conf", "ld.so.conf.d",
    "localtime",       "matplotlibrc",    "mime.types",  "os-release", "perl",
    "protocols",       "python3",         "python3.11",  "R",          "services",
    "ssl/openssl.cnf", "ssl/certs",       NULL,
};

static bool covers(const char *tree, const char *path)
{
    size_t length = strlen(tree);
    return strncmp(path, tree, length) == 0 && (!path[length] || path[length] == '/');
}

bool host_view_shows(const char *path)
{
    if (path[0] != '/')
        return false;
    for (size_t i = 0; host_view_trees[i]; i++)
        if (covers(host_view_trees[i], path + 1))
            return true;
    if (strncmp(path, "/etc/", 5) != 0)
        return false;
    for (size_t i = 0; host_view_etc[i]; i++)
        if (covers(host_view_etc[i], path + 5))
            return true;
    return false;
}
