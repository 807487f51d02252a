/* Any bytes as a file of the data directory that the server reads when it starts: keys, the journal of
 * requests, the journal of sandboxes. They are torn by crashes, and edited by people. */
#include "fuzz.h"

#include "base/scope.h"
#include "server/journal.h"
#include "server/keys.h"
#include "server/sandbox_journal.h"
#include "server/server.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

static char path[] = "/dev/shm/cloche-fuzz-XXXXXX";

static void remove_directory(void)
{
    rmdir(path);
}

/* In memory, and gone with us. */
static int directory(void)
{
    static int fd = -1;
    if (fd < 0) {
        check(mkdtemp(path) != NULL, "there is a directory");
        atexit(remove_directory);
        fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        check(fd >= 0, "it can be opened");
    }
    return fd;
}

static const char *const names[] = {"keys", "journal", "sandboxes"};

static void write_file(const char *name, const uint8_t *data, size_t size)
{
    scope_fd fd = openat(directory(), name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    check(fd >= 0 && write(fd, data, size) == (ssize_t)size, "the file can be written");
}

static void check_keys(const uint8_t *data, size_t size)
{
    struct key_file file = {0}, again = {0};
    struct error err = {0};
    write_file("keys", data, size);
    if (keys_load(directory(), &file, NULL, &err) < 0) {
        check(err.kind != ERROR_NONE && err.text[0], "a refusal has a reason");
        keys_free(&file);
        return;
    }
    for (size_t i = 0; i < file.key_count; i++)
        check(strlen(file.keys[i].sha256) == 64 && file.keys[i].tenant[0] &&
                  !strchr(file.keys[i].tenant, '/') && file.keys[i].tenant[0] != '.',
              "a key has a hash and a tenant, whose name can be a directory's");
    check(keys_save(directory(), &file, &err) == 0, "what was read can be written");
    /* A tenant without keys and quotas is nothing that must be kept. */
    check(keys_load(directory(), &again, NULL, &err) == 0 && again.key_count == file.key_count &&
              again.tenant_count <= file.tenant_count,
          "and read again");
    keys_free(&file);
    keys_free(&again);
}

static void check_journal(const uint8_t *data, size_t size)
{
    struct journal *journal = NULL;
    struct error err = {0};
    int lost = 0, lost_again = 0;
    write_file("journal", data, size);
    if (journal_open(directory(), &journal, &lost, &err) < 0) {
        check(err.kind != ERROR_NONE && err.text[0], "a refusal has a reason");
        return;
    }
    check(lost >= 0, "some were lost, or none");
    journal_close(journal);
    check(journal_open(directory(), &journal, &lost_again, &err) == 0, "what it made of it can be read");
    check(lost_again == 0, "what is lost is lost once");
    journal_close(journal);
}

static void check_sandboxes(const uint8_t *data, size_t size)
{
    static struct server server;
    struct error err = {0};
    server = (struct server){.data_fd = directory()};
    write_file("sandboxes", data, size);
    if (sandbox_journal_open(&server, &err) < 0)
        check(err.kind != ERROR_NONE && err.text[0], "a refusal has a reason");
    else
        sandbox_journal_lost(&server, "local", "sbx_0123456789012345678901");
    sandbox_journal_close(&server);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    void (*const readers[])(const uint8_t *, size_t) = {check_keys, check_journal, check_sandboxes};
    readers[data[0] % 3](data + 1, size - 1);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unlinkat(directory(), names[i], 0);
    return 0;
}
