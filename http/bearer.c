/* SPDX-License-Identifier: MIT */

/* Reading secrets. */

#include "http/bearer.h"

#include <string.h>
#include <strings.h>

#include "base/base64.h"
#include "http/uri.h"

void bearer_done(struct bearer *bearer)
{
    buffer_done(&bearer->decoded);
}

/* Reads "Basic " and the base64 of "user:secret". Only doors have it: no page
 * of ours asks a browser for a password. */
static void bearer_basic(const char *text, struct bearer *bearer)
{
    if (!base64_get(&bearer->decoded, bytes_of_text(text))) {
        buffer_clear(&bearer->decoded);
    }
    struct bytes pair = buffer_bytes(&bearer->decoded);
    const uint8_t *colon = pair.size > 0 ? memchr(pair.data, ':', pair.size)
                                         : NULL;
    size_t size = colon != NULL ? (size_t)(colon - pair.data) : pair.size;
    size_t skipped = colon != NULL ? size + 1 : size;
    bearer->user = bytes_of(pair.data, size);
    bearer->secret = skipped < pair.size
                         ? bytes_of(pair.data + skipped, pair.size - skipped)
                         : BYTES_LITERAL("");
}

/* Adds a secret; an empty one is none, as for Consul. */
static void bearer_add(struct bearer *bearer, struct bytes secret)
{
    if (secret.size > 0) {
        bearer->is_ambiguous |= bearer->secret.data != NULL &&
                                !bytes_equal(bearer->secret, secret);
        bearer->secret = secret;
    }
}

/* Adds what clients of Consul send. */
static void bearer_consul(const struct http_exchange *raw_exchange,
                          struct bearer *bearer)
{
    const char *header = http_header(raw_exchange, "X-Consul-Token");
    struct bytes path, query, key, value;
    bearer_add(bearer, bytes_of_text(header != NULL ? header : ""));
    uri_split(http_target(raw_exchange), &path, &query);
    while (uri_next(&query, &key, &value)) {
        if (!bytes_equal(key, BYTES_LITERAL("token"))) {
            continue;
        }
        /* One of them: a buffer that grows would move the first. */
        if (bearer->decoded.size > 0 ||
            !uri_decode(value, true, &bearer->decoded)) {
            bearer->is_ambiguous = true;
            return;
        }
        bearer_add(bearer, buffer_bytes(&bearer->decoded));
    }
}

void bearer_read(const struct http_exchange *raw_exchange,
                 enum bearer_kind kind, struct bearer *ret_bearer)
{
    static const char scheme[] = "Bearer ", basic[] = "Basic ";
    const char *user = http_header(raw_exchange, "Authorization");
    struct bearer *bearer = ret_bearer;
    *bearer = (struct bearer){0};
    if (user != NULL && strncasecmp(user, scheme, sizeof scheme - 1) == 0) {
        bearer->secret = bytes_of_text(user + sizeof scheme - 1);
    } else if (user != NULL && kind == BEARER_BASIC &&
               strncasecmp(user, basic, sizeof basic - 1) == 0) {
        bearer_basic(user + sizeof basic - 1, bearer);
    }
    if (kind == BEARER_CONSUL) {
        bearer_consul(raw_exchange, bearer);
    }
}
