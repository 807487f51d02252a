/* Without libFuzzer: runs every file of the given directories (or the given files) through the target, once.
 */
#include "fuzz.h"

#include "base/file.h"
#include "base/scope.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>

static int replay(const char *path)
{
    struct dirent **entries = NULL;
    int count = scandir(path, &entries, NULL, alphasort), replayed = 0;
    for (int i = 0; i < count; i++) {
        char below[4096];
        snprintf(below, sizeof below, "%s/%s", path, entries[i]->d_name);
        if (entries[i]->d_name[0] != '.')
            replayed += replay(below);
        free(entries[i]);
    }
    free(entries);
    if (count >= 0)
        return replayed;
    scope_buffer whole = {0};
    check(file_read_whole(AT_FDCWD, path, 64 << 20, &whole) == 0, path);
    /* A copy without a byte to spare: a sanitizer sees the first one read too many. */
    scope_free uint8_t *input = malloc(whole.length ? whole.length : 1);
    check(input != NULL, "there is memory");
    memcpy(input, whole.data, whole.length);
    fprintf(stderr, "%s\n", path);
    LLVMFuzzerTestOneInput(input, whole.length);
    return 1;
}

int main(int count, char **arguments)
{
    int replayed = 0;
    for (int i = 1; i < count; i++)
        replayed += replay(arguments[i]);
    printf("replayed %d inputs\n", replayed);
    return replayed > 0 ? 0 : 1;
}
