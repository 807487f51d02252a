/* The SHA-256 of a file that is being written. It is taken from the file, behind what is written there: of
 * large ones by a thread of its own, on another CPU than the one that takes the bytes in. So it costs no
 * time, and a file that was begun earlier is no other case. */
#pragma once

#include <openssl/evp.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct content_hash {
    int fd; /* stays the caller's */
    EVP_MD_CTX *context;
    bool is_apart; /* there is a thread */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    int64_t written_bytes; /* as the thread knows */
    bool has_ended;
    int status;
};

/* 0 or -ENOMEM. */
int content_hash_open(struct content_hash *hash, int fd);

/* So many bytes of the file are there by now. */
void content_hash_follow(struct content_hash *hash, int64_t written_bytes);

/* All are there: waits for the hash, 64 digits and a NUL. */
int content_hash_finish(struct content_hash *hash, int64_t written_bytes, char *ret_hex);

/* Also of one that was never opened, but is all zero. */
void content_hash_close(struct content_hash *hash);
