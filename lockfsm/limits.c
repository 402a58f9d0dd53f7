/* SPDX-License-Identifier: MIT */

/* The limits of the state: their table, their use, and the refusals. */

#include "lockfsm/limits.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/minmax.h"
#include "lease/rules.h"
#include "lockfsm/session/session.h"

_Static_assert(TTL_ASKED_MS_MAX == 3600000, "the range of ttl_max");

const struct limit_rule limit_rules[LIMIT_COUNT] = {
#define STATE_LIMIT(key, name, min, max, standard) \
    [LIMIT_##key] = {#name, min, max, standard},
#include "lockfsm/limits.def"
#undef STATE_LIMIT
};
const struct lockfsm_limits lockfsm_default_limits = {{
#define STATE_LIMIT(key, name, min, max, standard) [LIMIT_##key] = (standard),
#include "lockfsm/limits.def"
#undef STATE_LIMIT
}};

bool limit_find(struct bytes name, enum limit_key *ret_key)
{
    for (int key = 0; key < LIMIT_COUNT; key++) {
        if (bytes_equal(name, bytes_of_text(limit_rules[key].name))) {
            *ret_key = (enum limit_key)key;
            return true;
        }
    }
    return false;
}

bool limit_is_bound(enum limit_key key)
{
    return key == LIMIT_TTL_MAX;
}

bool limit_allows(enum limit_key key, uint64_t value)
{
    return value >= limit_rules[key].min && value <= limit_rules[key].max;
}

uint64_t lockfsm_limit(const struct lockfsm *fsm, enum limit_key key)
{
    return fsm->limits.of[key];
}

/* The size of the state. All records are in these lists; the acts have a bound
 * of their own and do not count. */
static uint64_t state_size(const struct lockfsm *fsm)
{
    uint64_t records = fsm->ledger.changed_count + lockfsm_settled_count(fsm);
    uint64_t size = records * RECORD_SIZE + fsm->pool.copied_size +
                    fsm->uses.spent_ranges * 2 * sizeof(uint64_t);
    CHECK(size >=
          fsm->acts.size); /* Otherwise every change would be refused. */
    return size - fsm->acts.size;
}

uint64_t lockfsm_hold_count(const struct lockfsm *fsm)
{
    return fsm->uses.holds;
}

uint64_t lockfsm_wait_count(const struct lockfsm *fsm)
{
    return fsm->uses.waits;
}

uint64_t lockfsm_oldest_wait(const struct lockfsm *fsm)
{
    return list_is_empty(&fsm->waits)
               ? 0
               : LIST_FIRST(&fsm->waits, struct wait, in_state)->wait_index;
}

const struct list *lockfsm_waits(const struct lockfsm *fsm)
{
    return &fsm->waits;
}

uint64_t lockfsm_limit_use(const struct lockfsm *fsm, enum limit_key key)
{
    switch (key) {
    case LIMIT_SESSIONS:
        return HASH_CNT(by_id, fsm->sessions);
    case LIMIT_LOCKS:
        return HASH_CNT(by_name, fsm->locks);
    case LIMIT_HOLDS_PER_SESSION:
        return fsm->uses.places_of_session.highest;
    case LIMIT_WAITS_PER_LOCK:
        return fsm->uses.waits_of_lock.highest;
    case LIMIT_WAITS_PER_SESSION:
        return fsm->uses.waits_of_session.highest;
    case LIMIT_OWNERS_PER_SESSION:
        return fsm->uses.owners_of_session.highest;
    case LIMIT_FENCES:
        return HASH_CNT(by_resource, fsm->fences);
    case LIMIT_BLACKLIST:
        return fsm->blacklist_count;
    case LIMIT_WAITS:
        return fsm->uses.waits;
    case LIMIT_TTL_MAX:
        return 0;
    case LIMIT_STATE_SIZE:
        return state_size(fsm);
    case LIMIT_COUNT:
        break;
    }
    UNREACHABLE();
}

bool limit_set(struct lockfsm_limits *limits, uint32_t key, uint64_t value)
{
    if (key >= LIMIT_COUNT || !limit_allows((enum limit_key)key, value)) {
        return false;
    }
    limits->of[key] = value;
    return true;
}

/* True if 'more' bytes do not fit into four fifths of the limit; the last fifth
 * is for entries that are never refused. */
static bool is_beyond(const struct lockfsm *fsm, uint64_t more)
{
    uint64_t max = fsm->limits.of[LIMIT_STATE_SIZE];
    return state_size(fsm) + more > max - max / 5;
}

bool state_is_full(const struct lockfsm *fsm)
{
    return is_beyond(fsm, RECORD_SIZE);
}

bool growth_is_refused(struct lockfsm *fsm, uint64_t records, uint64_t text,
                       struct result *result)
{
    if (!is_beyond(fsm, records * RECORD_SIZE + text)) {
        return false;
    }
    refuse_because(fsm, result, RESULT_LIMIT,
                   "state_size: %" PRIu64 " of %" PRIu64
                   " bytes are in use; new ones are refused from 80 %% on",
                   state_size(fsm), fsm->limits.of[LIMIT_STATE_SIZE]);
    return true;
}

bool ttl_is_over_limit(struct lockfsm *fsm, uint64_t ttl_ms,
                       struct result *result)
{
    uint64_t max = fsm->limits.of[LIMIT_TTL_MAX];
    if (ttl_ms <= max) {
        return false;
    }
    refuse_because(fsm, result, RESULT_LIMIT, "ttl_max: at most %" PRIu64 " ms",
                   max);
    return true;
}

uint64_t lockfsm_lease_max(const struct lockfsm *fsm)
{
    uint64_t longest = rules_redis_lease_ms(fsm->limits.of[LIMIT_TTL_MAX]);
    HASH_FOR (const struct session, session, fsm->sessions, by_id) {
        longest = u64_max(session->ttl_ms, longest);
    }
    return longest;
}

void apply_set_limit(struct lockfsm *fsm, const struct entry *command,
                     struct result *result)
{
    const struct set_limit_command *message = command->set_limit;
    if (!limit_set(&fsm->limits, message->key, message->value)) {
        entry_refuse(result, RESULT_BAD_ARGUMENT, "limit");
        return;
    }
    fsm->limit_count = LIMIT_COUNT;
    struct effect *effect = effect_add(fsm, EFFECT_LIMIT_SET);
    effect->count = message->key;
    effect->token = message->value;
}
