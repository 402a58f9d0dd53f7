/* SPDX-License-Identifier: MIT */

/* Limits on what the state may hold. They are part of the replicated state: the
 * first BEGIN of a cluster brings those of its founder, SET_LIMIT changes one,
 * and so each node refuses the same entry, whatever stands in its own file.
 *
 * A limit refuses what is new. Lowered below what there is, it ends nothing. */

#ifndef HASP_LOCKFSM_LIMITS_H
#define HASP_LOCKFSM_LIMITS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"

/* Stored, and written into entries: append only. */
enum limit_key {
    LIMIT_SESSIONS,
    LIMIT_LOCKS,
    LIMIT_HOLDS_PER_SESSION, /* Holds and waits together. */
    LIMIT_WAITS_PER_LOCK,
    LIMIT_WAITS_PER_SESSION,
    LIMIT_OWNERS_PER_SESSION, /* That wait. */
    LIMIT_FENCES,
    LIMIT_BLACKLIST,
    LIMIT_WAITS,   /* All locks together. */
    LIMIT_TTL_MAX, /* A session's TTL, a Redis value's PX. */
    LIMIT_STATE_SIZE,
    LIMIT_COUNT
};

/* LIMIT_STATE_SIZE, in bytes: RECORD_SIZE for each record, and what it has of
 * names, owners, values, labels, reasons, results. What makes the state grow is
 * refused from four fifths of it on; the rest is for what never is: what gives
 * back, and the leader's own entries. */
#define RECORD_SIZE 64

struct lockfsm_limits {
    uint64_t of[LIMIT_COUNT];
};

struct limit_rule {
    const char *name;  /* "sessions", as in the configuration. */
    uint64_t min;      /* From 1. */
    uint64_t max;      /* Inclusive. */
    uint64_t standard; /* The default of a founder. */
};

extern const struct limit_rule limit_rules[LIMIT_COUNT];
extern const struct lockfsm_limits lockfsm_default_limits;

/* Finds the key of this name. */
bool limit_find(struct bytes name, enum limit_key *ret_key);
/* True if nothing is used of it: it bounds each thing. */
bool limit_is_bound(enum limit_key key);
/* True if 'value' lies in the range of 'key'. */
bool limit_allows(enum limit_key key, uint64_t value);

#endif /* HASP_LOCKFSM_LIMITS_H */
