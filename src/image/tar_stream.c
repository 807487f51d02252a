#include "image/tar_stream.h"
#include "image/entry_name.h"
#include "base/text.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { BLOCK_BYTES = 128 * 1024 };

struct tar_stream {
    struct archive *archive;
    struct archive_entry *entry; /* of our own, as libarchive does not check that it got its one */
    int64_t limit_bytes;
    tar_stream_source source;
    void *source_data;
    /* libarchive converts names between the archive's character set and the locale's. Names are bytes to us;
     * in the "C" locale it gives up on what is not ASCII and hands us the bytes as they are. */
    locale_t locale;
};

const char *tar_entry_type_name(enum tar_entry_type type)
{
    static const char *const names[] = {
        [TAR_ENTRY_FILE] = "file",
        [TAR_ENTRY_DIRECTORY] = "directory",
        [TAR_ENTRY_SYMLINK] = "symbolic link",
        [TAR_ENTRY_HARDLINK] = "hard link",
        [TAR_ENTRY_CHARACTER_DEVICE] = "character device",
        [TAR_ENTRY_BLOCK_DEVICE] = "block device",
        [TAR_ENTRY_FIFO] = "FIFO",
        [TAR_ENTRY_SOCKET] = "socket",
        [TAR_ENTRY_UNKNOWN] = "entry of unknown type",
    };
    return names[type];
}

static int tar_stream_fail(struct tar_stream *stream, struct error *err)
{
    int code = archive_errno(stream->archive);
    const char *why = archive_error_string(stream->archive);
    char quoted[ENTRY_QUOTED_MAX];
    entry_name_quote(why ? why : "no reason given", quoted);
    if (code == ENOMEM || code == EIO || code == EISDIR || code == EACCES)
        return error_host(err, -code, "cannot read the archive (%s)", quoted);
    return error_spec(err, "archive", "not a sound tar archive, plain or under gzip or zstd: %s", quoted);
}

static int tar_stream_check_limit(struct tar_stream *stream, struct error *err)
{
    /* Filter 0 is the last in the chain: what the tar reader has consumed. */
    if (archive_filter_bytes(stream->archive, 0) <= stream->limit_bytes)
        return 0;
    char size[32];
    return error_spec(err, "archive", "unpacks to more than the allowed %s, headers included",
                      text_format_size(stream->limit_bytes, size, sizeof size));
}

static la_ssize_t tar_stream_read_source(struct archive *archive, void *data, const void **ret_block)
{
    struct tar_stream *stream = data;
    ssize_t length = stream->source(stream->source_data, ret_block);
    if (length < 0) {
        archive_set_error(archive, (int)-length, "%s", strerror((int)-length));
        return -1;
    }
    return length;
}

static int tar_stream_start(struct tar_stream *stream, int fd)
{
    struct archive *archive = stream->archive = archive_read_new();
    stream->entry = archive_entry_new();
    stream->locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (!archive || !stream->entry || !stream->locale)
        return -ENOMEM;
    if (archive_read_support_format_tar(archive) != ARCHIVE_OK ||
        archive_read_support_filter_gzip(archive) != ARCHIVE_OK ||
        archive_read_support_filter_zstd(archive) != ARCHIVE_OK)
        return -ENOTSUP;
    int status = stream->source ? archive_read_open(archive, stream, NULL, tar_stream_read_source, NULL)
                                : archive_read_open_fd(archive, fd, BLOCK_BYTES);
    return status == ARCHIVE_OK || status == ARCHIVE_WARN ? 0 : -EBADMSG;
}

static int tar_stream_open_any(int fd, tar_stream_source source, void *data, int64_t limit_bytes,
                               struct tar_stream **ret, struct error *err)
{
    scope_tar_stream *stream = calloc(1, sizeof *stream);
    if (!stream)
        return error_host(err, -ENOMEM, "cannot read the archive");
    stream->limit_bytes = limit_bytes;
    stream->source = source;
    stream->source_data = data;
    int status = tar_stream_start(stream, fd);
    if (status == -EBADMSG)
        return tar_stream_fail(stream, err);
    if (status < 0)
        return error_host(err, status, "cannot set up libarchive for tar, gzip and zstd");
    /* Compression inside compression has no use but to multiply. One filter and the file itself are two. */
    if (archive_filter_count(stream->archive) > 2)
        return error_spec(err, "archive", "compressed more than once; one layer of gzip or zstd is allowed");
    *ret = stream;
    stream = NULL;
    return 0;
}

int tar_stream_open(int fd, int64_t limit_bytes, struct tar_stream **ret, struct error *err)
{
    return tar_stream_open_any(fd, NULL, NULL, limit_bytes, ret, err);
}

int tar_stream_open_source(tar_stream_source source, void *data, int64_t limit_bytes, struct tar_stream **ret,
                           struct error *err)
{
    return tar_stream_open_any(-1, source, data, limit_bytes, ret, err);
}

void tar_stream_close(struct tar_stream *stream)
{
    if (!stream)
        return;
    archive_read_free(stream->archive);
    archive_entry_free(stream->entry);
    if (stream->locale)
        freelocale(stream->locale);
    free(stream);
}

static enum tar_entry_type tar_entry_type_of(struct archive_entry *entry)
{
    if (archive_entry_hardlink(entry))
        return TAR_ENTRY_HARDLINK;
    switch (archive_entry_filetype(entry)) {
    case AE_IFREG:
        return TAR_ENTRY_FILE;
    case AE_IFDIR:
        return TAR_ENTRY_DIRECTORY;
    case AE_IFLNK:
        return TAR_ENTRY_SYMLINK;
    case AE_IFCHR:
        return TAR_ENTRY_CHARACTER_DEVICE;
    case AE_IFBLK:
        return TAR_ENTRY_BLOCK_DEVICE;
    case AE_IFIFO:
        return TAR_ENTRY_FIFO;
    case AE_IFSOCK:
        return TAR_ENTRY_SOCKET;
    default:
        return TAR_ENTRY_UNKNOWN;
    }
}

static void tar_entry_fill(struct tar_entry *into, struct archive_entry *from)
{
    *into = (struct tar_entry){
        .type = tar_entry_type_of(from),
        .name = archive_entry_pathname(from),
        .mode = archive_entry_perm(from),
        .size_bytes = archive_entry_size_is_set(from) ? archive_entry_size(from) : 0,
        .modified = {.tv_sec = archive_entry_mtime(from), .tv_nsec = archive_entry_mtime_nsec(from)},
        .device_major = (unsigned)archive_entry_rdevmajor(from),
        .device_minor = (unsigned)archive_entry_rdevminor(from),
    };
    if (into->modified.tv_nsec < 0 || into->modified.tv_nsec > 999999999)
        into->modified.tv_nsec = 0;
    if (into->type == TAR_ENTRY_HARDLINK)
        into->target = archive_entry_hardlink(from);
    else if (into->type == TAR_ENTRY_SYMLINK)
        into->target = archive_entry_symlink(from);
}

/* archive_read_next_header2 would skip the rest of the data by itself, but in one call that no limit can
 * stop.
 */
static int tar_stream_skip_data(struct tar_stream *stream, struct error *err)
{
    const void *data;
    size_t length;
    int64_t offset;
    int status;
    while ((status = tar_stream_data(stream, &data, &length, &offset, err)) > 0)
        continue;
    return status;
}

int tar_stream_next(struct tar_stream *stream, struct tar_entry *ret, struct error *err)
{
    int status = archive_file_count(stream->archive) ? tar_stream_skip_data(stream, err) : 0;
    if (status < 0)
        return status;
    locale_t before = uselocale(stream->locale);
    int read = archive_read_next_header2(stream->archive, stream->entry);
    if (read == ARCHIVE_OK || read == ARCHIVE_WARN)
        tar_entry_fill(ret, stream->entry);
    uselocale(before);
    if (read == ARCHIVE_EOF)
        return 0;
    if (read != ARCHIVE_OK && read != ARCHIVE_WARN)
        return tar_stream_fail(stream, err);
    status = tar_stream_check_limit(stream, err);
    if (status < 0)
        return status;
    if (!ret->name)
        return error_spec(err, "archive", "entry %d has no name", archive_file_count(stream->archive));
    if (ret->size_bytes < 0)
        return error_spec(err, "archive", "entry %d has a negative size",
                          archive_file_count(stream->archive));
    return 1;
}

int tar_stream_data(struct tar_stream *stream, const void **ret_data, size_t *ret_length, int64_t *ret_offset,
                    struct error *err)
{
    la_int64_t offset = 0;
    int read = archive_read_data_block(stream->archive, ret_data, ret_length, &offset);
    if (read == ARCHIVE_EOF)
        return 0;
    if (read != ARCHIVE_OK && read != ARCHIVE_WARN)
        return tar_stream_fail(stream, err);
    *ret_offset = offset;
    int status = tar_stream_check_limit(stream, err);
    return status < 0 ? status : 1;
}

int64_t tar_stream_bytes_taken(const struct tar_stream *stream)
{
    return archive_filter_bytes(stream->archive, -1);
}
