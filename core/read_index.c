/* SPDX-License-Identifier: MIT */

/* One question to the majority for all waiting requests: when it is asked, and
 * which requests may be answered once it is confirmed. */

#include "core/read_index.h"

#include "base/check.h"
#include "core/command.h"
#include "core/state.h"

/* The shortest time between questions that only heartbeats need. */
#define HEARTBEAT_SPACING_NS (2 * NS_PER_MS)
/* Records that LIST may read in one turn. */
#define SCAN_BUDGET 50000

void read_index_enqueue(struct core *core, struct request *request)
{
    /* Nothing is answered before the leader serves (rule 12). */
    CHECK(is_serving(core));
    request->question = replica_next_question(core->replica);
    request->read_index = replica_commit_index(core->replica);
    request_move(core, request, REQUEST_ASKING);
    if ((request->command->flags & COMMAND_KEEPS) == 0) {
        core->leadership.read_index.unasked_reads++;
    }
}

void read_index_request(struct core *core)
{
    CHECK(is_serving(core));
    core->leadership.read_index.is_wanted = true;
}

void read_index_update(struct core *core)
{
    struct read_index *read_index = &core->leadership.read_index;
    const struct question *of[] = {&read_index->newest, &read_index->before,
                                   &read_index->first};
    uint64_t confirmed = replica_confirmed(core->replica);
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        if (of[i]->number != 0 && confirmed >= of[i]->number &&
            of[i]->ns > read_index->confirmed_ns) {
            read_index->confirmed_ns = of[i]->ns;
        }
    }
}

static bool has_unasked(const struct core *core)
{
    const struct list *asking = &core->requests.at[REQUEST_ASKING];
    return !list_is_empty(asking) &&
           LIST_ENTRY(asking->prev, struct request, in_list)->question >
               core->leadership.read_index.newest.number;
}

static bool has_to_ask(const struct core *core)
{
    return is_serving(core) &&
           (core->leadership.read_index.is_wanted || has_unasked(core));
}

/* At most two questions are in flight, unless they seem lost; heartbeats alone
 * can wait a little and share one. */
static bool may_ask(const struct core *core)
{
    const struct read_index *read_index = &core->leadership.read_index;
    CHECK(read_index->newest.ns <= core->now_ns); /* Time does not go back. */
    uint64_t age_ns = core->now_ns - read_index->newest.ns;
    if (read_index->before.number > replica_confirmed(core->replica) &&
        age_ns < core->options.heartbeat_ms * NS_PER_MS) {
        return false;
    }
    return read_index->is_wanted || read_index->unasked_reads > 0 ||
           read_index->newest.number == 0 || age_ns >= HEARTBEAT_SPACING_NS;
}

void read_index_ask(struct core *core)
{
    struct read_index *read_index = &core->leadership.read_index;
    struct replica_update update;
    if (!has_to_ask(core) || !may_ask(core)) {
        return;
    }
    struct question next = {.ns = core->now_ns};
    next.number = replica_ask(core->replica, core->now_ns / NS_PER_MS, &update);
    if (next.number == 0) {
        return;
    }
    /* Questions are ordered by number (rule 13): the confirmation of one
     * confirms all earlier ones. */
    CHECK(next.number > read_index->newest.number);
    if (read_index->first.number <= replica_confirmed(core->replica)) {
        read_index->first = next;
    }
    read_index->before = read_index->newest;
    read_index->newest = next;
    read_index->unasked_reads = 0;
    read_index->is_wanted = false;
    raft_output_carry_out(core, &update);
}

void read_index_answer(struct core *core)
{
    if (!is_serving(core)) {
        return;
    }
    uint64_t confirmed = replica_confirmed(core->replica);
    uint64_t applied = lockfsm_applied_index(core->fsm);
    core->turn.scan_budget = SCAN_BUDGET;
    LIST_FOR_SAFE (struct request, request, &core->requests.at[REQUEST_ASKING],
                   in_list) {
        CHECK(request->state == REQUEST_ASKING);
        if (request->question > confirmed || request->read_index > applied) {
            break;
        }
        request_move(core, request, REQUEST_READY);
    }
}

void read_index_spend(struct core *core, uint64_t steps)
{
    uint64_t *budget = &core->turn.scan_budget;
    *budget -= steps < *budget ? steps : *budget;
}

uint64_t read_index_next(const struct core *core)
{
    const struct read_index *read_index = &core->leadership.read_index;
    if (!has_to_ask(core)) {
        return UINT64_MAX;
    }
    return read_index->newest.ns +
           (read_index->before.number > replica_confirmed(core->replica)
                ? core->options.heartbeat_ms * NS_PER_MS
                : HEARTBEAT_SPACING_NS);
}
