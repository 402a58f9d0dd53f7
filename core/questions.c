/* SPDX-License-Identifier: MIT */

#include "core/questions.h"

#include "core/commands/commands.h"
#include "core/request.h"
#include "core/update.h"

/* Records that LIST may look at in one turn. */
#define SCAN_BUDGET 50000

static bool has_unasked(const struct core *core);
static bool may_ask(const struct core *core);

void question_wait(struct core *core, struct request *request)
{
    request->question = replica_next_question(core->replica);
    request->read_index = replica_commit_index(core->replica);
    request_move(core, request, &core->asking, REQUEST_ASKING);
    if ((request->command->flags & COMMAND_KEEPS) == 0) {
        core->unasked_reads++;
    }
}

void questions_note(struct core *core)
{
    uint64_t confirmed = replica_confirmed(core->replica);
    if (core->asked != 0 && confirmed >= core->asked) {
        core->confirmed_ns = core->asked_ns;
    } else if (core->asked_before != 0 && confirmed >= core->asked_before) {
        core->confirmed_ns = core->asked_before_ns;
    } else if (core->asked_first != 0 && confirmed >= core->asked_first &&
               core->asked_first_ns > core->confirmed_ns) {
        core->confirmed_ns = core->asked_first_ns;
    }
}

void questions_ask(struct core *core)
{
    struct replica_update update;
    if (!core->is_serving ||
        !(core->wants_expiry_question || has_unasked(core)) || !may_ask(core)) {
        return;
    }
    uint64_t number = replica_ask(core->replica, core->now_ns / NS_PER_MS,
                                  &update);
    if (number == 0) {
        return;
    }
    if (core->asked_first <= replica_confirmed(core->replica)) {
        core->asked_first = number;
        core->asked_first_ns = core->now_ns;
    }
    core->asked_before = core->asked;
    core->asked_before_ns = core->asked_ns;
    core->asked = number;
    core->asked_ns = core->now_ns;
    core->unasked_reads = 0;
    core->wants_expiry_question = false;
    update_carry_out(core, &update);
}

void questions_answer(struct core *core)
{
    if (!core->is_serving) {
        return;
    }
    uint64_t confirmed = replica_confirmed(core->replica);
    uint64_t applied = lockfsm_applied_index(core->fsm);
    core->scan_budget = SCAN_BUDGET;
    LIST_EACH_SAFE (node, &core->asking) {
        struct request *request = LIST_ENTRY(node, struct request, in_list);
        if (request->question > confirmed || request->read_index > applied) {
            break;
        }
        request_move(core, request, &core->ready, REQUEST_READY);
    }
}

uint64_t questions_next(const struct core *core)
{
    if (!core->is_serving ||
        !(core->wants_expiry_question || has_unasked(core))) {
        return UINT64_MAX;
    }
    uint64_t again = core->asked_ns + core->options.heartbeat_ms * NS_PER_MS;
    return core->asked_before > replica_confirmed(core->replica)
               ? again
               : core->asked_ns + HEARTBEAT_SPACING_NS;
}

static bool has_unasked(const struct core *core)
{
    if (list_is_empty(&core->asking)) {
        return false;
    }
    struct request *last = LIST_ENTRY(core->asking.prev, struct request,
                                      in_list);
    return last->question > core->asked;
}

/* At most two questions are under way, unless they seem lost; heartbeats alone
 * can wait a little and share one. */
static bool may_ask(const struct core *core)
{
    uint64_t confirmed = replica_confirmed(core->replica);
    uint64_t age_ns = core->now_ns - core->asked_ns;
    if (core->asked_before > confirmed &&
        age_ns < core->options.heartbeat_ms * NS_PER_MS) {
        return false;
    }
    return core->wants_expiry_question || core->unasked_reads > 0 ||
           core->asked == 0 || age_ns >= HEARTBEAT_SPACING_NS;
}
