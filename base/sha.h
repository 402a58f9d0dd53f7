/* SPDX-License-Identifier: MIT */

/* SHA-256 and SHA-1 (FIPS 180-4), by OpenSSL's one-shot functions. SHA-256 is
 * for secrets, which are compared by it and never stored. SHA-1 is the name
 * under which Redis clients call scripts; it protects nothing here. */

#ifndef HASP_BASE_SHA_H
#define HASP_BASE_SHA_H

#include "base/bytes.h"
#include "base/err.h"

#define SHA256_SIZE 32
#define SHA1_TEXT_SIZE 41

/* HASP_EIO if OpenSSL has no memory, or the machine's policy forbids it. */
MUST_CHECK int sha256(struct bytes bytes, uint8_t out[SHA256_SIZE]);
/* The digest as 40 hex digits and a zero. Stops where sha256() would fail. */
void sha1_text(struct bytes bytes, char out[SHA1_TEXT_SIZE]);

#endif /* HASP_BASE_SHA_H */
