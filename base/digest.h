/* SPDX-License-Identifier: MIT */

/* A 128-bit checksum of a stream (XXH3-128, canonical byte order, no seed): the
 * same bytes give the same digest on every machine. It finds damage; it does
 * not protect from forgery. */

#ifndef HASP_BASE_DIGEST_H
#define HASP_BASE_DIGEST_H

#include "base/bytes.h"

#define DIGEST_SIZE 16

struct digest;

struct digest *digest_new(void);
/* NULL is fine. */
void digest_free(struct digest *digest);
void digest_add(struct digest *digest, struct bytes bytes);
/* The digest of all that was added so far. */
void digest_value(const struct digest *digest, uint8_t ret_value[DIGEST_SIZE]);

/* The digest of 'bytes' in one step. */
void digest_of(struct bytes bytes, uint8_t ret_value[DIGEST_SIZE]);

/* 64 bits of one, for sums of many; what was returned for one part is the
 * 'seed' of the next. The same on every machine, as above. */
uint64_t digest_short(uint64_t seed, struct bytes bytes);

#endif /* HASP_BASE_DIGEST_H */
