/* SPDX-License-Identifier: MIT */

/* Puts committed entries into the state, and sends the effects to waiting
 * requests, watchers and counters. */

#include "core/apply.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/check.h"
#include "base/doing.h"
#include "base/log.h"
#include "base/minmax.h"
#include "core/audit_log.h"
#include "core/command.h"
#include "core/dispatch.h"
#include "core/events/events.h"
#include "core/members/feature.h"
#include "core/session/lease.h"
#include "core/state.h"

/* Entries and effects per turn. An entry takes some microseconds, and so does
 * each effect of an EXPIRE of many sessions. Input must be read, and Raft's
 * heartbeats sent, within a few milliseconds. */
#define ENTRY_BUDGET 512
#define EFFECT_BUDGET 4096

/* False if the node must stop. */
static bool apply_entry(struct core *core, const struct replica_entry *entry)
{
    int error = apply_to_state(core->fsm, entry, &core->turn.effects);
    if (error == 0) {
        return true;
    }
    char why[HASP_WHY_SIZE];
    if (error == HASP_ETOOOLD) {
        snprintf(why, sizeof why,
                 "this node's version is too old: entry %" PRIu64
                 " of the log needs a higher feature level than this node's, "
                 "%" PRIu32 "; upgrade it "
                 "to the version of the other nodes",
                 entry->log_index, core->options.feature_level);
    } else {
        snprintf(why, sizeof why, "cannot apply entry %" PRIu64 ": %s",
                 entry->log_index, hasp_strerror(error));
    }
    core_fatal(core, core_exit_code(error), why);
    return false;
}

static void answer_wait(struct core *core, const struct effect *effect)
{
    struct request *next;
    CHECK(effect->wait_index != 0 && effect->wait_index <= effect->log_index);
    for (struct request *request = requests_end_wait(core, effect->wait_index);
         request != NULL; request = next) {
        next = request->next;
        dispatch_result(core, request, &effect->result);
    }
    events_answer(core, effect);
}

static void apply_follow(struct core *core, const struct replica_entry *entry,
                         const struct effect *effect)
{
    timers_follow(core->timers, core->fsm, effect, core->now_ns);
    stats_effect(core, effect);
    /* First, because the answer to a grant shows what the timers have left of
     * its limit. */
    switch (effect->type) {
    case EFFECT_WAIT_RESULT:
        answer_wait(core, effect);
        return;
    case EFFECT_SESSION_ENDED:
        attach_ended(core, effect->session);
        core->turn.has_session_ended = true;
        return;
    case EFFECT_SWEPT:
        sweep_applied(core);
        return;
    case EFFECT_BEGUN:
        raft_output_cluster_id(core);
        /* Only its own BEGIN lets a leader serve (rule 12); an earlier leader's
         * may be applied after the election. */
        if (core->leadership.stage == LEADERSHIP_BEGUN &&
            effect->count == core->options.id &&
            entry->term == core->leadership.term) {
            leadership_begun(core);
        }
        return;
    default:
        break;
    }
    events_effect(core, effect);
}

/* A client that gets a push is answered at once; its request does not wait for
 * the grant. */
static void answer_queued(struct core *core, struct request *request,
                          uint64_t wait_index)
{
    char text[32];
    CHECK(wait_index != 0);
    snprintf(text, sizeof text, "QUEUED %" PRIu64, wait_index);
    resp_simple(request_reply(core, request), text);
    request_has_changed(request);
    request_done(core, request);
}

/* Answers the requests that wait for this entry. */
static void answer_entry(struct core *core, uint64_t log_index,
                         const struct effect *result)
{
    struct request *next;
    for (struct request *request = propose_take(core, log_index);
         request != NULL; request = next) {
        next = request->next;
        CHECK(request->state == REQUEST_LOGGED && result != NULL);
        if ((request->command->flags & COMMAND_CHANGE) == 0) {
            /* A KEEP that waited for this HEARD. */
            dispatch_read(core, request);
        } else if (result->result.code == RESULT_QUEUED && request->is_pushed) {
            answer_queued(core, request, result->wait_index);
        } else if (result->result.code == RESULT_QUEUED) {
            request_wait(core, request, result->wait_index);
        } else {
            dispatch_result(core, request, &result->result);
        }
    }
}

static void apply_entry_effects(struct core *core,
                                const struct replica_entry *entry)
{
    const struct effects *effects = &core->turn.effects;
    const struct effect *result = NULL;
    bool has_access_changed = false;
    for (uint32_t i = 0; i < effects->count; i++) {
        const struct effect *effect = &effects->effect[i];
        if (effect->type == EFFECT_RESULT) {
            result = effect;
        } else if (effect->type == EFFECT_ACCESS_CHANGED) {
            has_access_changed = true;
        } else {
            apply_follow(core, entry, effect);
        }
    }
    answer_entry(core, entry->log_index, result);
    if (has_access_changed) {
        /* A user that has just lost the right to read must not be sent the next
         * entry. */
        identity_changed(core);
    }
    if (core->port.applied != NULL) {
        core->port.applied(core->port.data, entry->log_index, effects);
    }
}

/* A leader has proposed every entry of its own term that it applies. */
static void note_time(struct core *core, uint64_t term)
{
    bool is_own = is_leader(core) && term == replica_term(core->replica);
    scripts_note_time(&core->scripts, lockfsm_redis_time(core->fsm), is_own,
                      core->now_ns);
}

bool apply_committed(struct core *core)
{
    uint64_t applied = lockfsm_applied_index(core->fsm);
    uint64_t target = replica_appliable(core->replica);
    uint64_t budget = EFFECT_BUDGET;
    uint64_t end = u64_min(target, applied + ENTRY_BUDGET);
    if (applied >= target || core->run.has_fatal ||
        core->snapshots.installing != 0) {
        return false;
    }
    while (applied < end && budget > 0) {
        /* All effects of the previous entry have been sent. */
        CHECK(core->turn.effects.count == 0);
        struct replica_entry entry = replica_entry(core->replica, applied + 1);
        CHECK(entry.log_index == applied + 1);
        CHECK(entry.term >= lockfsm_applied_term(core->fsm));
        doing_now = (struct doing){.what = "entry",
                                   .log_index = entry.log_index};
        if (!apply_entry(core, &entry)) {
            return false;
        }
        applied++;
        CHECK(lockfsm_applied_index(core->fsm) == applied);
        digests_applied(core, applied);
        note_time(core, entry.term);
        budget -= u64_min(core->turn.effects.count, budget);
        if (entry.type == ENTRY_COMMAND) {
            audit_log_applied(core, &core->turn.effects);
        }
        apply_entry_effects(core, &entry);
        effects_clear(&core->turn.effects);
        if (entry.type == ENTRY_CHANGE) {
            /* The configuration may have added or removed a member. */
            feature_member_changed(core);
            raft_output_members(core, applied);
            audit_log_members(core, applied, &core->members.applied);
        }
    }
    doing_now = (struct doing){0};
    core->turn.has_left_over |= applied < target;
    core->turn.has_spent_budget |= budget == 0 || applied < target;
    history_add(&core->history, applied, core->now_ns);
    flush_plan(core);
    replica_applied(core->replica, applied);
    return true;
}

int apply_to_state(struct lockfsm *fsm, const struct replica_entry *entry,
                   struct effects *effects)
{
    struct replica_members members;
    struct lockfsm_member named[MEMBER_COUNT_MAX];
    int error;
    switch (entry->type) {
    case ENTRY_COMMAND:
        return lockfsm_apply(fsm, entry->log_index, entry->term, entry->body,
                             effects);
    case ENTRY_CHANGE:
        error = replica_members_decode(entry->body, &members);
        if (error != 0) {
            return error;
        }
        for (uint32_t i = 0; i < members.count; i++) {
            named[i] = (struct lockfsm_member){members.member[i].id,
                                               members.member[i].incarnation};
        }
        lockfsm_change(fsm, entry->log_index, entry->term, named,
                       members.count);
        return 0;
    default:
        /* A barrier or another entry of Raft has no command, but the state's
         * index and term must follow. */
        lockfsm_skip(fsm, entry->log_index, entry->term);
        return 0;
    }
}
