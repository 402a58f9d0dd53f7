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

static uint64_t wanted_by(const struct entry *command)
{
    return command->op == OP_ACQUIRE && command->acquire->name_count > 1
               ? command->acquire->name_count
               : 1;
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
                   {"blacklist", LIMIT_BLACKLIST}};
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
        uint64_t use = lockfsm_limit_use(fsm, counted[i].key);
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
