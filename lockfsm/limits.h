/* SPDX-License-Identifier: MIT */

/* Limits of the state. They are part of the replicated state: the first BEGIN
 * of a cluster brings those of its founder, and SET_LIMIT changes one. So all
 * nodes refuse the same entries, whatever their own configuration files
 * contain.
 *
 * A limit refuses new uses. Lowering it below its use ends nothing. */

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

/* LIMIT_STATE_SIZE counts bytes: RECORD_SIZE for each record, and its names,
 * owners, values, labels, reasons and results. From four fifths of it on,
 * entries that make the state grow are refused; the rest is for entries that
 * are never refused: those that give back, and the leader's own. */
#define RECORD_SIZE 64

struct lockfsm_limits {
    uint64_t of[LIMIT_COUNT];
};

struct limit_rule {
    const char *name;  /* "sessions", as in the configuration. */
    uint64_t min;      /* At least 1. */
    uint64_t max;      /* Inclusive. */
    uint64_t standard; /* The default of a founder. */
};

extern const struct limit_rule limit_rules[LIMIT_COUNT];
extern const struct lockfsm_limits lockfsm_default_limits;

/* Finds the key with this name. */
bool limit_find(struct bytes name, enum limit_key *ret_key);
/* True if it bounds each value separately, so that it has no use. */
bool limit_is_bound(enum limit_key key);
/* True if 'value' is in the range of 'key'. */
bool limit_allows(enum limit_key key, uint64_t value);

#endif /* HASP_LOCKFSM_LIMITS_H */
