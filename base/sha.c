/* SPDX-License-Identifier: MIT */

#include "base/sha.h"

#include <openssl/sha.h>

#include "base/check.h"

_Static_assert(SHA256_SIZE == SHA256_DIGEST_LENGTH, "the same digest");

int sha256(struct bytes bytes, uint8_t out[SHA256_SIZE])
{
    return SHA256(bytes.data, bytes.size, out) != NULL ? 0 : HASP_EIO;
}

void sha1_text(struct bytes bytes, char out[SHA1_TEXT_SIZE])
{
    uint8_t digest[SHA_DIGEST_LENGTH];
    CHECK(SHA1(bytes.data, bytes.size, digest) != NULL);
    hex_put(out, bytes_of(digest, sizeof digest));
}
