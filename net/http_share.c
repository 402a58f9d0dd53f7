/* SPDX-License-Identifier: MIT */

#include "net/http_share.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/memory.h"

struct http_share *http_share_find(const struct http_shares *shares,
                                   const char origin[ADDRESS_SIZE])
{
    struct http_share *share;
    HASH_FIND(by_origin, shares->all, origin, ADDRESS_SIZE, share);
    return share;
}

struct http_share *http_share_add(struct http_shares *shares,
                                  const char origin[ADDRESS_SIZE])
{
    struct http_share *share = http_share_find(shares, origin);
    if (share == NULL) {
        share = memory_new(sizeof *share);
        memcpy(share->origin, origin, sizeof share->origin);
        HASH_ADD(by_origin, shares->all, origin, sizeof share->origin, share);
    }
    share->count++;
    shares->count++;
    return share;
}

void http_share_remove(struct http_shares *shares, struct http_share *share)
{
    CHECK(share->count > 0 && shares->count > 0);
    shares->count--;
    if (--share->count == 0) {
        HASH_DELETE(by_origin, shares->all, share);
        free(share);
    }
}

uint32_t http_share_most(const struct http_shares *shares)
{
    uint32_t most = 0;
    HASH_FOR (const struct http_share, share, shares->all, by_origin) {
        most = share->count > most ? share->count : most;
    }
    return most;
}

struct http_share *http_share_most_unread(const struct http_shares *shares)
{
    struct http_share *most = shares->all;
    HASH_FOR (struct http_share, share, shares->all, by_origin) {
        most = share->unread > most->unread ? share : most;
    }
    return most;
}
