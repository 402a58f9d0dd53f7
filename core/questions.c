/* SPDX-License-Identifier: MIT */

#include "core/questions.h"

#include "core/commands/commands.h"
#include "core/request.h"
#include "core/state.h"
#include "core/update.h"

/* Records that LIST may look at in one turn. */
#define SCAN_BUDGET 50000

/* Questions asked for heartbeats alone are so far apart. */
#define HEARTBEAT_SPACING_NS (2 * NS_PER_MS)

static bool has_unasked(const struct core *core);
static bool may_ask(const struct core *core);

void question_wait(struct core *core, struct request *request)
{
    request->question = replica_next_question(core->replica);
    request->read_index = replica_commit_index(core->replica);
    request_move(core, request, &core->requests.asking, REQUEST_ASKING);
    if ((request->command->flags & COMMAND_KEEPS) == 0) {
        core->questions.unasked_reads++;
    }
}

void questions_note(struct core *core)
{
    uint64_t confirmed = replica_confirmed(core->replica);
    if (core->questions.asked != 0 && confirmed >= core->questions.asked) {
        core->questions.confirmed_ns = core->questions.asked_ns;
    } else if (core->questions.asked_before != 0 &&
               confirmed >= core->questions.asked_before) {
        core->questions.confirmed_ns = core->questions.asked_before_ns;
    } else if (core->questions.asked_first != 0 &&
               confirmed >= core->questions.asked_first &&
               core->questions.asked_first_ns > core->questions.confirmed_ns) {
        core->questions.confirmed_ns = core->questions.asked_first_ns;
    }
}

void questions_ask(struct core *core)
{
    struct replica_update update;
    if (!core->is_serving ||
        !(core->questions.is_wanted || has_unasked(core)) || !may_ask(core)) {
        return;
    }
    uint64_t number = replica_ask(core->replica, core->now_ns / NS_PER_MS,
                                  &update);
    if (number == 0) {
        return;
    }
    if (core->questions.asked_first <= replica_confirmed(core->replica)) {
        core->questions.asked_first = number;
        core->questions.asked_first_ns = core->now_ns;
    }
    core->questions.asked_before = core->questions.asked;
    core->questions.asked_before_ns = core->questions.asked_ns;
    core->questions.asked = number;
    core->questions.asked_ns = core->now_ns;
    core->questions.unasked_reads = 0;
    core->questions.is_wanted = false;
    update_carry_out(core, &update);
}

void questions_answer(struct core *core)
{
    if (!core->is_serving) {
        return;
    }
    uint64_t confirmed = replica_confirmed(core->replica);
    uint64_t applied = lockfsm_applied_index(core->fsm);
    core->turn.scan_budget = SCAN_BUDGET;
    LIST_EACH_SAFE (node, &core->requests.asking) {
        struct request *request = LIST_ENTRY(node, struct request, in_list);
        if (request->question > confirmed || request->read_index > applied) {
            break;
        }
        request_move(core, request, &core->requests.ready, REQUEST_READY);
    }
}

uint64_t questions_next(const struct core *core)
{
    if (!core->is_serving ||
        !(core->questions.is_wanted || has_unasked(core))) {
        return UINT64_MAX;
    }
    uint64_t again = core->questions.asked_ns +
                     core->options.heartbeat_ms * NS_PER_MS;
    return core->questions.asked_before > replica_confirmed(core->replica)
               ? again
               : core->questions.asked_ns + HEARTBEAT_SPACING_NS;
}

static bool has_unasked(const struct core *core)
{
    if (list_is_empty(&core->requests.asking)) {
        return false;
    }
    struct request *last = LIST_ENTRY(core->requests.asking.prev,
                                      struct request, in_list);
    return last->question > core->questions.asked;
}

/* At most two questions are under way, unless they seem lost; heartbeats alone
 * can wait a little and share one. */
static bool may_ask(const struct core *core)
{
    uint64_t confirmed = replica_confirmed(core->replica);
    uint64_t age_ns = core->now_ns - core->questions.asked_ns;
    if (core->questions.asked_before > confirmed &&
        age_ns < core->options.heartbeat_ms * NS_PER_MS) {
        return false;
    }
    return core->questions.is_wanted || core->questions.unasked_reads > 0 ||
           core->questions.asked == 0 || age_ns >= HEARTBEAT_SPACING_NS;
}
