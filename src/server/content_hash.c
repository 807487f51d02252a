#include "server/content_hash.h"

#include "base/scope.h"
#include "base/thread.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

enum {
    CHUNK = 256 << 10,
    APART = 4 << 20, /* smaller files need no thread */
    STACK_BYTES = 64 << 10,
};

int content_hash_open(struct content_hash *hash, int fd)
{
    *hash =
        (struct content_hash){.fd = fd, .lock = PTHREAD_MUTEX_INITIALIZER, .wake = PTHREAD_COND_INITIALIZER};
    hash->context = EVP_MD_CTX_new();
    return hash->context && EVP_DigestInit_ex(hash->context, EVP_sha256(), NULL) == 1 ? 0 : -ENOMEM;
}

/* Waits until there is enough to do; how far it may go. */
static int64_t wait_for_more(struct content_hash *hash, int64_t hashed)
{
    pthread_mutex_lock(&hash->lock);
    while (hash->written_bytes - hashed < CHUNK && !hash->has_ended)
        pthread_cond_wait(&hash->wake, &hash->lock);
    int64_t end = hash->written_bytes;
    pthread_mutex_unlock(&hash->lock);
    return end;
}

static void tell(struct content_hash *hash, int64_t written_bytes, bool has_ended)
{
    pthread_mutex_lock(&hash->lock);
    hash->written_bytes = written_bytes;
    hash->has_ended = has_ended;
    pthread_cond_signal(&hash->wake);
    pthread_mutex_unlock(&hash->lock);
}

static void *hash_main(void *data)
{
    struct content_hash *hash = data;
    scope_free char *chunk = malloc(CHUNK);
    int64_t at = 0, end;
    if (!chunk)
        hash->status = -ENOMEM;
    while (hash->status == 0 && (end = wait_for_more(hash, at)) > at) {
        ssize_t got = pread(hash->fd, chunk, (size_t)(end - at < CHUNK ? end - at : CHUNK), at);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            hash->status = got < 0 ? -errno : -EIO;
        else
            EVP_DigestUpdate(hash->context, chunk, (size_t)got);
        at += got > 0 ? got : 0;
    }
    return NULL;
}

void content_hash_follow(struct content_hash *hash, int64_t written_bytes)
{
    if (!hash->is_apart && written_bytes >= APART)
        hash->is_apart = thread_start(&hash->thread, STACK_BYTES, hash_main, hash) == 0; /* else in the end */
    if (hash->is_apart && written_bytes - hash->written_bytes >= CHUNK)
        tell(hash, written_bytes, false);
}

int content_hash_finish(struct content_hash *hash, int64_t written_bytes, char *ret_hex)
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    tell(hash, written_bytes, true);
    if (hash->is_apart)
        pthread_join(hash->thread, NULL);
    else
        hash_main(hash);
    hash->is_apart = false;
    if (hash->status < 0)
        return hash->status;
    EVP_DigestFinal_ex(hash->context, digest, NULL);
    for (size_t i = 0; i < 32; i++)
        snprintf(ret_hex + 2 * i, 3, "%02x", digest[i]);
    return 0;
}

void content_hash_close(struct content_hash *hash)
{
    if (!hash->context)
        return;
    if (hash->is_apart) {
        tell(hash, 0, true); /* nothing more to do */
        pthread_join(hash->thread, NULL);
    }
    EVP_MD_CTX_free(hash->context);
    pthread_mutex_destroy(&hash->lock);
    pthread_cond_destroy(&hash->wake);
    *hash = (struct content_hash){.fd = -1};
}
