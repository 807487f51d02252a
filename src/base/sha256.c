#include "base/sha256.h"

/* The direct interface: it links a few kilobytes where EVP with its providers would link megabytes into every
 * start of the command. It is deprecated for its lack of engines, which a hash does not need. */
#define OPENSSL_SUPPRESS_DEPRECATED
#include <openssl/sha.h>
#include <stdlib.h>

/* OpenSSL asks the CPU what it can do when a program starts, by an instruction that takes 7 µs each time in a
 * virtual machine. The command, which most often hashes nothing, is linked so that this call goes nowhere
 * then (meson.build: --wrap), and it is made here. Elsewhere there is no such symbol, and nothing to do. */
void cpu_asked_at_start(void) __asm__("__wrap_OPENSSL_cpuid_setup");
void cpu_asked_at_start(void)
{
}
void cpu_ask(void) __asm__("__real_OPENSSL_cpuid_setup") __attribute__((weak));

struct sha256 {
    SHA256_CTX context;
};

struct sha256 *sha256_new(void)
{
    struct sha256 *hash = malloc(sizeof *hash);
    if (cpu_ask)
        cpu_ask(); /* which does it once */
    if (hash)
        SHA256_Init(&hash->context);
    return hash;
}

void sha256_add(struct sha256 *hash, const void *data, size_t length)
{
    SHA256_Update(&hash->context, data, length);
}

void sha256_finish(struct sha256 *hash, char *ret_hex)
{
    unsigned char digest[SHA256_DIGEST_LENGTH];
    SHA256_Final(digest, &hash->context);
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < sizeof digest; i++) {
        ret_hex[2 * i] = digits[digest[i] >> 4];
        ret_hex[2 * i + 1] = digits[digest[i] & 15];
    }
    ret_hex[2 * sizeof digest] = '\0';
    free(hash);
}
