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

/* A key for each row of limits.def. */
enum limit_key {
#define STATE_LIMIT(key, name, min, max, standard) LIMIT_##key,
#include "lockfsm/limits.def"
#undef STATE_LIMIT
    LIMIT_COUNT
};

/* The share of a record in LIMIT_STATE_SIZE. */
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
