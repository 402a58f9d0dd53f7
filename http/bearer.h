/* SPDX-License-Identifier: MIT */

/* The secret of a user in an HTTP request. */

#ifndef HASP_HTTP_BEARER_H
#define HASP_HTTP_BEARER_H

#include "base/bytes.h"
#include "net/http.h"

enum bearer_kind {
    BEARER_ONLY,  /* Authorization: Bearer. */
    BEARER_BASIC, /* The same, or Basic. */
    /* Bearer, X-Consul-Token, or "token" in the query. */
    BEARER_CONSUL
};

/* A user's secret, and the user's name if it was given. */
struct bearer {
    struct buffer decoded;
    struct bytes user;   /* Empty: not given. */
    struct bytes secret; /* data is NULL if there is none. */
    bool is_ambiguous;   /* There are two that differ. */
};

void bearer_read(const struct http_exchange *raw_exchange,
                 enum bearer_kind kind, struct bearer *ret_bearer);
void bearer_done(struct bearer *bearer);

#endif /* HASP_HTTP_BEARER_H */
