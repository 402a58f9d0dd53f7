/* SPDX-License-Identifier: MIT */

/* What a Redis value may be besides a string: a hash, a list, a set, a sorted
 * set. It is stored as the bytes of a value: a mark for its type ("\x01hash"),
 * and a line for each member, "\nfield=value" for a hash, "\nmember=score" for
 * a sorted set, "\nmember" for the others, in its order. So people can read it
 * at the lock. '%', newlines, and '=' before the separating '=', are written as
 * %25, %0A and %3D. No other value begins with a mark.
 *
 * Memory is the arena's. */

#ifndef HASP_CORE_REDIS_COLLECTION_H
#define HASP_CORE_REDIS_COLLECTION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "lockfsm/store/arena.h"

/* KEY_ANY is not a type: such a command finds its keys itself. */
enum key_type { KEY_ANY, KEY_TEXT, KEY_HASH, KEY_LIST, KEY_SET, KEY_ZSET };

struct collection_member {
    struct bytes name;
    struct bytes value; /* A hash's. */
    /* A sorted set's, which is ordered by scores, and by names if they are
     * equal. */
    double score;
};

struct collection {
    struct collection_member *member;
    uint32_t count;
    uint32_t capacity;
};

/* KEY_TEXT: it is not a collection. */
enum key_type collection_type(struct bytes stored);
/* "hash" and so on, as TYPE returns it. */
const char *key_type_name(enum key_type type);
/* Decodes what collection_write() has encoded, borrowing from it. */
struct collection collection_read(struct bytes stored, struct arena *arena);
/* False, before much is written, if it would have more than 'max' bytes. */
bool collection_write(enum key_type type, const struct collection *collection,
                      size_t max, struct arena *arena,
                      struct bytes *ret_stored);

/* The place of a member from 0 on; 'count' if it is not there. */
uint32_t collection_find(const struct collection *collection,
                         struct bytes name);
/* Where a sorted set has this member, or would have it. */
uint32_t collection_place(const struct collection *collection,
                          struct bytes name, double score);
/* Inserts a member at a place, before the present one. Borrows its bytes. */
void collection_insert(struct collection *collection, struct arena *arena,
                       uint32_t place, const struct collection_member *member);
void collection_remove(struct collection *collection, uint32_t place,
                       uint32_t count);

/* False: it is neither a number nor "inf" or "-inf". */
bool score_read(struct bytes text, double *ret_score);
/* A score as Redis writes it. */
#define SCORE_TEXT_SIZE 40
struct bytes score_text(double score, char out[SCORE_TEXT_SIZE]);

#endif /* HASP_CORE_REDIS_COLLECTION_H */
