/* SPDX-License-Identifier: MIT */

/* RAFT.ADD, UPDATE, PROMOTE, DEMOTE, REMOVE, REPLACE, TRANSFER and FINALIZE;
 * QUARANTINE.END. */

#include "base/check.h"
#include "core/commands/commands.h"
#include "core/members/feature.h"
#include "core/members/membership.h"
#include "core/members/transfer.h"
#include "core/propose.h"
#include "core/request.h"
#include "core/state.h"

static bool membership_read_incarnation(struct bytes text,
                                        uint64_t *ret_incarnation)
{
    uint8_t bytes[8];
    if (text.size != 2 * sizeof bytes || !hex_get(text, bytes, sizeof bytes)) {
        return false;
    }
    *ret_incarnation = load_u64_be(bytes);
    return *ret_incarnation != 0;
}

void raft_add_run(struct core *core, struct request *request)
{
    const struct call *call = request->call;
    struct change_add add = {.member = call->id,
                             .address = call->name,
                             .is_standby = call_has(call, OPTION_STANDBY)};
    if (call_has(call, OPTION_INCARNATION) &&
        !membership_read_incarnation(call->text[OPTION_INCARNATION],
                                     &add.incarnation)) {
        request_refuse(core, request, WORD_BADARG,
                       "INCARNATION must be 16 hex digits and not 0: the node "
                       "logs it when it starts, and shows it in RAFT.STATUS");
        return;
    }
    membership_begin_add(core, request, &add);
}

void raft_update_run(struct core *core, struct request *request)
{
    const struct call *call = request->call;
    membership_begin_update(core, request, call->id, call->name);
}

void raft_promote_run(struct core *core, struct request *request)
{
    membership_begin_promote(core, request, request->call->id);
}

/* Runs DEMOTE and REMOVE. */
void raft_take_away_run(struct core *core, struct request *request)
{
    const struct call *call = request->call;
    membership_begin_take(core, request, call->id,
                          call_has(call, OPTION_FORCE));
}

void raft_replace_run(struct core *core, struct request *request)
{
    const struct call *call = request->call;
    membership_begin_replace(core, request, call->id,
                             call_has(call, OPTION_FORCE));
}

void raft_transfer_run(struct core *core, struct request *request)
{
    const struct call *call = request->call;
    transfer_request(core, request, call->has_id ? call->id : 0);
}

void raft_finalize_run(struct core *core, struct request *request)
{
    char why[HASP_WHY_SIZE] = "";
    uint32_t level = feature_possible(core, why);
    CHECK(is_serving(core)); /* Only a leader that serves proposes (rule 12). */
    if (!membership_is_free(core)) {
        request_refuse(core, request, WORD_BUSY,
                       "a change of the members is in progress");
    } else if (level != 0) {
        propose_set_feature(core, request,
                            &(struct set_feature_command){.level = level});
    } else if (why[0] == '\0') {
        /* The command was repeated, or all nodes already have the level. */
        request_answer_integer(core, request, lockfsm_feature_level(core->fsm));
    } else {
        request_refuse(core, request, WORD_LEVEL, why);
    }
}

bool quarantine_end_check(struct call *call, struct resp_writer *writer)
{
    return call_text(call, OPTION_REASON).size > 0 ||
           call_fail(call, writer,
                     "REASON text is needed: why no client from before the "
                     "restore can still trust a lease");
}

void quarantine_end_propose(struct core *core, struct request *request,
                            const struct call *call)
{
    propose_quarantine_over(
        core, request,
        &(struct quarantine_over_command){
            .since_index = lockfsm_quarantine(core->fsm, NULL),
            .reason = call_text(call, OPTION_REASON)});
}

#ifdef HASP_FEATURE_LEVEL_EXTRA
/* The argument "entry" means the entry without a level. */
void raft_trial_propose(struct core *core, struct request *request,
                        const struct call *call)
{
    if (bytes_equal(call->name, BYTES_LITERAL("entry"))) {
        propose_trial(core, request, &(struct trial_command){.step = 1});
    } else {
        struct please_command please = {.name = call->name, .trial = 1};
        propose_please(core, request, &please);
    }
}
#endif
