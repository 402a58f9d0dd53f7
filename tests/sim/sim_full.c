/* SPDX-License-Identifier: MIT */

#include "tests/sim/sim_full.h"

#include <inttypes.h>

#include "tests/sim/sim_promise.h"

/* The refusal of a number is stored: a repeated request gets the first
 * answer. */
static bool is_asked_again(struct sim_promises *promises, uint64_t index,
                           const struct entry *command)
{
    const struct origin *origin = command->op == OP_OPEN
                                      ? NULL
                                      : entry_origin(command);
    return origin != NULL && origin->req != 0 &&
           sim_promises_entry_of(promises, origin->session, origin->req) !=
               index;
}

/* The places that the request asks for. */
static uint64_t wanted_by(const struct entry *command)
{
    if (command->op == OP_REDIS) {
        return command->redis->key_count;
    }
    return command->op == OP_ACQUIRE && command->acquire->name_count > 1
               ? command->acquire->name_count
               : 1;
}

/* What counts for a limit: for those of a session only what this one has. */
static uint64_t use_by(const struct lockfsm *fsm, enum limit_key key,
                       const struct entry *command)
{
    const struct origin *origin = command->op == OP_ACQUIRE
                                      ? entry_origin(command)
                                      : NULL;
    const struct session *session = origin != NULL
                                        ? lockfsm_session(fsm, origin->session)
                                        : NULL;
    if (session == NULL) {
        return lockfsm_limit_use(fsm, key);
    }
    switch (key) {
    case LIMIT_HOLDS_PER_SESSION:
        return (uint64_t)session->hold_count + session->wait_count;
    case LIMIT_WAITS_PER_SESSION:
        return session->wait_count;
    case LIMIT_OWNERS_PER_SESSION:
        return session->asker_count;
    default:
        return lockfsm_limit_use(fsm, key);
    }
}

void sim_full_check(struct sim *sim, struct sim_promises *promises,
                    uint64_t index, const struct entry *command,
                    const struct result *result, const struct lockfsm *fsm)
{
    static const struct {
        const char *text;
        enum limit_key key;
    } counted[] = {{"locks", LIMIT_LOCKS},
                   {"sessions", LIMIT_SESSIONS},
                   {"waits", LIMIT_WAITS},
                   {"fences", LIMIT_FENCES},
                   {"blacklist", LIMIT_BLACKLIST},
                   {"holds of the session", LIMIT_HOLDS_PER_SESSION},
                   {"holds_per_session", LIMIT_HOLDS_PER_SESSION},
                   {"waits of the session", LIMIT_WAITS_PER_SESSION},
                   {"waits of the lock", LIMIT_WAITS_PER_LOCK},
                   {"owners of the session", LIMIT_OWNERS_PER_SESSION}};
    if (result->code != RESULT_LIMIT && result->code != RESULT_QUOTA) {
        return;
    }
    sim->stats.refused_full++;
    if (command->op == OP_RELEASE || command->op == OP_CANCEL ||
        command->op == OP_CLOSE) {
        sim_fail(sim, ORACLE_LIMITS,
                 "a release is never refused: entry %" PRIu64 " got LIMIT %.*s",
                 index, (int)result->text.size,
                 (const char *)result->text.data);
    }
    for (size_t i = 0; i < sizeof counted / sizeof *counted; i++) {
        uint64_t use = use_by(fsm, counted[i].key, command);
        uint64_t limit = lockfsm_limit(fsm, counted[i].key);
        if (bytes_equal(result->text, bytes_of_text(counted[i].text)) &&
            use + wanted_by(command) <= limit &&
            !is_asked_again(promises, index, command)) {
            sim_fail(sim, ORACLE_LIMITS,
                     "a table reported as full is full: entry %" PRIu64
                     " got LIMIT %s with %" PRIu64 " of %" PRIu64,
                     index, counted[i].text, use, limit);
        }
    }
}

void sim_full_entry(struct sim *sim, struct sim_uses *uses, uint64_t index,
                    const struct lockfsm *fsm)
{
    for (enum limit_key key = 0; key < LIMIT_COUNT; key++) {
        uint64_t before = uses->of[key];
        uint64_t limit = lockfsm_limit(fsm, key);
        uses->of[key] = lockfsm_limit_use(fsm, key);
        if (uses->of[key] > before && uses->of[key] > limit) {
            sim_fail(sim, ORACLE_LIMITS,
                     "nothing grows above its limit: entry %" PRIu64
                     " raised %s from %" PRIu64 " to %" PRIu64 " of %" PRIu64,
                     index, limit_rules[key].name, before, uses->of[key],
                     limit);
        }
    }
}
