/* SPDX-License-Identifier: MIT */

/* A hash of Redis as the bytes of a value: the mark, and a line
 * "\nfield=value" for each field, in the order in which they came. So a person
 * who looks at the lock can read it. No other value begins with the mark. */

#ifndef HASP_CORE_REDIS_HASH_H
#define HASP_CORE_REDIS_HASH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"

#define HASH_MARK "\x01hash"

bool hash_is(struct bytes value);
/* How many fields it has; 0 of what is no hash. */
uint32_t hash_count(struct bytes hash);
/* False: there is no such field. '*ret_value' is borrowed from 'hash'. */
bool hash_find(struct bytes hash, struct bytes field, struct bytes *ret_value);
/* Writes the hash with the field set, or without it if 'value' is NULL; 'hash'
 * may be empty. False, and nothing written: a field has no '=', and neither has
 * a line end. */
bool hash_edit(struct bytes hash, struct bytes field, const struct bytes *value,
               struct buffer *out);

#endif /* HASP_CORE_REDIS_HASH_H */
