/* SPDX-License-Identifier: MIT */

/* How many connections of clients each origin has: one host, or one IPv6
 * network. */

#ifndef HASP_NODE_ORIGIN_H
#define HASP_NODE_ORIGIN_H

#include <stdint.h>

#include "base/address.h"
#include "base/hash.h"

struct origin {
    UT_hash_handle by_host;
    char host[ADDRESS_SIZE]; /* From address_origin(). */
    uint32_t count;
};

/* Finds the origin of the address in the hash table, or makes one with count 0,
 * which is below any limit. */
struct origin *origin_find(struct origin **origins, const char *address);
/* Frees an origin without connections. */
void origin_forget(struct origin **origins, struct origin *origin);

#endif /* HASP_NODE_ORIGIN_H */
