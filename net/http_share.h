/* SPDX-License-Identifier: MIT */

/* How many of a server's connections each origin has.
 *
 * At a bound on all connections the origin with the most gives one up, so that
 * no number of addresses takes the place of a client that has few. */

#ifndef HASP_NET_HTTP_SHARE_H
#define HASP_NET_HTTP_SHARE_H

#include <stddef.h>
#include <stdint.h>

#include "base/address.h"
#include "base/hash.h"

struct http_share {
    UT_hash_handle by_origin;
    char origin[ADDRESS_SIZE]; /* From address_origin(). */
    uint32_t count;
    size_t unread; /* Scratch of the caller. */
};

struct http_shares {
    struct http_share *all; /* Hash table by origin. */
    uint32_t count;         /* Of all origins. */
};

/* NULL: the origin has no connection. */
struct http_share *http_share_find(const struct http_shares *shares,
                                   const char origin[ADDRESS_SIZE]);
/* Counts a connection. */
struct http_share *http_share_add(struct http_shares *shares,
                                  const char origin[ADDRESS_SIZE]);
/* Stops counting it; frees the share of an origin without connections. */
void http_share_remove(struct http_shares *shares, struct http_share *share);
/* The number of connections of the origin with the most. */
uint32_t http_share_most(const struct http_shares *shares);
/* NULL: no origin has a connection. */
struct http_share *http_share_most_unread(const struct http_shares *shares);

#endif /* HASP_NET_HTTP_SHARE_H */
