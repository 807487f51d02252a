#include "server/run_files.h"

#include "base/base64.h"
#include "base/text.h"
#include "server/run_request.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

static const char *const file_fields[] = {"name",       "content_base64", "content", "upload",
                                          "executable", "tree",           NULL};
static const char *const entry_fields[] = {"path",    "path_base64",    "link",   "link_base64", "directory",
                                           "content", "content_base64", "upload", "executable",  NULL};

static int refuse(struct exchange *exchange, const char *message)
{
    return run_refuse(exchange, "files", message);
}

/* `name`, or NAME_base64 for what is not text. 1: it is there; 0: neither is. */
static int read_bytes(struct exchange *exchange, const json_t *item, const char *name,
                      const char *encoded_name, struct buffer *into)
{
    const json_t *text = json_object_get(item, name), *encoded = json_object_get(item, encoded_name);
    const json_t *given = text ? text : encoded;
    char message[64];
    if (!given)
        return 0;
    snprintf(message, sizeof message, "%s: must be one string", name);
    if (!json_is_string(given) || (text && encoded))
        return refuse(exchange, message);
    struct slice bytes = {json_string_value(given), json_string_length(given)};
    int status = text ? buffer_append(into, bytes.data, bytes.length) : base64_decode(bytes, into);
    snprintf(message, sizeof message, "%s: is not base64", encoded_name);
    return status == -EINVAL ? refuse(exchange, message) : status < 0 ? status : 1;
}

static int read_flag(struct exchange *exchange, const json_t *item, const char *name, bool *ret)
{
    const json_t *value = json_object_get(item, name);
    char message[64];
    snprintf(message, sizeof message, "%s: must be true or false", name);
    *ret = json_is_true(value);
    return !value || json_is_boolean(value) ? 0 : refuse(exchange, message);
}

/* One of upload, content and content_base64. 1: it is there. */
static int read_content(struct exchange *exchange, const json_t *item, struct run_content *into)
{
    const json_t *upload = json_object_get(item, "upload");
    if (upload && !(into->upload = json_string_value(upload)))
        return refuse(exchange, "upload: must be a string");
    int status = read_flag(exchange, item, "executable", &into->is_executable);
    if (status == 0)
        status = read_bytes(exchange, item, "content", "content_base64", &into->bytes);
    if (status > 0 && upload)
        return refuse(exchange, "give a content or an upload, not both");
    if (status == 0 && !upload && into->is_executable)
        return refuse(exchange, "executable: is for files");
    return status < 0 ? status : upload || status;
}

/* ---- directories ---- */

/* Parts of which none is "." or ".."; the tree is made by us, below a directory of our own. */
static bool is_entry_path(const struct buffer *path)
{
    size_t depth = 0, length;
    if (!path->length || path->length > SPEC_TREE_PATH_MAX || memchr(path->data, '\0', path->length))
        return false;
    for (const char *part = path->data;; part += length + 1) {
        length = strcspn(part, "/");
        if (!text_is_file_name(part, length) || ++depth > SPEC_TREE_DEPTH_MAX)
            return false;
        if (!part[length])
            return true;
    }
}

static int read_entry(struct exchange *exchange, const json_t *item, struct run_entry *into)
{
    if (!json_is_object(item))
        return refuse(exchange, "tree: must be an array of objects");
    int status = run_refuse_unknown(exchange, item, entry_fields, "an entry of a directory");
    if (status == 0)
        status = read_bytes(exchange, item, "path", "path_base64", &into->path);
    if (status >= 0 && !is_entry_path(&into->path))
        return refuse(exchange,
                      "tree: each entry needs a path below its directory: no part of it may be empty, "
                      "\".\" or \"..\" or longer than 255 bytes, all of it at most 3,500 bytes and "
                      "100 parts");
    if (status >= 0)
        status = read_flag(exchange, item, "directory", &into->is_directory);
    int has_link = status < 0 ? status : read_bytes(exchange, item, "link", "link_base64", &into->link);
    int has_content = has_link < 0 ? has_link : read_content(exchange, item, &into->content);
    if (has_content < 0)
        return has_content;
    if (has_link + has_content + into->is_directory != 1)
        return refuse(exchange, "tree: each entry needs one of content, content_base64, upload, link and "
                                "\"directory\": true");
    if (has_link && (!into->link.length || into->link.length >= PATH_MAX ||
                     memchr(into->link.data, '\0', into->link.length)))
        return refuse(exchange, "link: must be a path");
    return 0;
}

static int read_tree(struct exchange *exchange, const json_t *list, size_t *left, struct run_file *into)
{
    size_t index;
    json_t *item;
    char message[96];
    if (!json_is_array(list))
        return refuse(exchange, "tree: must be an array of objects");
    snprintf(message, sizeof message, "more than %d files, links and directories in all directories together",
             SPEC_TREE_MAX);
    if (json_array_size(list) > *left)
        return refuse(exchange, message);
    *left -= json_array_size(list);
    into->is_tree = true;
    into->entries = calloc(json_array_size(list) + 1, sizeof *into->entries);
    if (!into->entries)
        return -ENOMEM;
    json_array_foreach(list, index, item)
    {
        int status = read_entry(exchange, item, &into->entries[into->entry_count++]);
        if (status < 0)
            return status;
    }
    return 0;
}

/* ---- files ---- */

static int read_file(struct exchange *exchange, const json_t *item, size_t *left, struct run_file *into)
{
    if (!json_is_object(item))
        return refuse(exchange, "must be an array of objects");
    int status = run_refuse_unknown(exchange, item, file_fields, "a file");
    if (status < 0)
        return status;
    const json_t *name = json_object_get(item, "name"), *tree = json_object_get(item, "tree");
    if (!json_is_string(name))
        name = json_object_get(item, "upload");
    if (!json_is_string(name) || !text_is_file_name(json_string_value(name), json_string_length(name)))
        return refuse(exchange, "each needs a name, without a slash, that it has in /data/input");
    into->name = json_string_value(name);
    status = read_content(exchange, item, &into->content);
    if (status >= 0 && status + !!tree != 1)
        return refuse(exchange, "each needs one of content_base64, content, upload and tree");
    return status < 0 ? status : tree ? read_tree(exchange, tree, left, into) : 0;
}

int run_files_read(struct exchange *exchange, const json_t *body, struct run_files *into)
{
    const json_t *list = json_object_get(body, "files");
    size_t index, left = SPEC_TREE_MAX;
    json_t *item;
    if (list && !json_is_array(list))
        return refuse(exchange, "must be an array of objects");
    if (json_array_size(list) > SPEC_GRANTS_MAX)
        return refuse(exchange, "more than 64");
    json_array_foreach(list, index, item)
    {
        int status = read_file(exchange, item, &left, &into->items[into->count++]);
        if (status < 0)
            return status;
        for (size_t i = 0; i < index; i++)
            if (strcmp(into->items[i].name, into->items[index].name) == 0)
                return refuse(exchange, "two have the same name");
    }
    return 0;
}

void run_files_free(struct run_files *files)
{
    for (size_t i = 0; i < files->count; i++) {
        struct run_file *file = &files->items[i];
        buffer_free(&file->content.bytes);
        for (size_t j = 0; j < file->entry_count; j++) {
            buffer_free(&file->entries[j].path);
            buffer_free(&file->entries[j].link);
            buffer_free(&file->entries[j].content.bytes);
        }
        free(file->entries);
    }
    files->count = 0;
}
