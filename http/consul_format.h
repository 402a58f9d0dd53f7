/* SPDX-License-Identifier: MIT */

/* The texts of Consul's protocol: ids of sessions, durations, values. Pure. */

#ifndef HASP_HTTP_CONSUL_FORMAT_H
#define HASP_HTTP_CONSUL_FORMAT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"

/* A session of this door. Its UUID has the id of hasp's session and a random
 * number, of which the session's secret is made. The UUID is public, as in
 * Consul; it counts only together with the user that opened the session. */
struct consul_id {
    uint64_t session; /* Below 2^53; 0: none. */
    uint64_t random;  /* 0: a session that this door did not open. */
};

#define CONSUL_ID_SIZE 37
/* Writes a UUID (RFC 9562, version 4) and a zero. All zero digits: no
 * session. */
void consul_id_put(const struct consul_id *id, char out[CONSUL_ID_SIZE]);
/* False unless consul_id_put() writes the same text, in either case, for a
 * session. */
bool consul_id_get(struct bytes text, struct consul_id *ret_id);

#define CONSUL_SECRET_SIZE 33
/* The secret of the session, as the protocol has it. */
void consul_id_secret(const struct consul_id *id, char out[CONSUL_SECRET_SIZE]);
#define CONSUL_OWNER_SIZE 24
/* The owner of its holds; it shows the random number of the holder's UUID. */
void consul_id_owner(const struct consul_id *id, char out[CONSUL_OWNER_SIZE]);
/* The random number in such an owner; 0: it is another one. */
uint64_t consul_owner_random(struct bytes owner);

/* Parses a duration of Go, such as "15s", "15.0s", "1m30s"; false: it is none,
 * is negative, or too long. */
bool consul_duration_get(struct bytes text, uint64_t *ret_ns);

/* The flags of locks that Go's client makes; a lock that is held by another
 * kind of client is shown with them, so that Go's client waits for it. */
#define CONSUL_LOCK_FLAGS UINT64_C(3304740253564472344)
/* The size of the flags and the mark before a value. */
#define CONSUL_VALUE_HEAD 23
/* Appends a value with its flags, as the hold stores them. */
void consul_value_put(struct buffer *out, uint64_t flags, struct bytes body);
/* Splits such a value; another one is a body with CONSUL_LOCK_FLAGS. */
struct bytes consul_value_get(struct bytes value, uint64_t *ret_flags);

#endif /* HASP_HTTP_CONSUL_FORMAT_H */
