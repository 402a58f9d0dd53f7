/* SPDX-License-Identifier: MIT */

/* RAFT.TRANSFER, and the reasons for which a leader hands leadership over by
 * itself. */

#include "core/members/transfer.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/check.h"
#include "core/audit_log.h"
#include "core/command.h"
#include "core/members/liveness.h"
#include "core/state.h"

#define RETRY_NS (50 * NS_PER_MS)
/* How often a leader whose disk is nearly full tries to hand over. */
#define SCARCE_RETRY_NS (5000 * NS_PER_MS)

static void transfer_begin(struct core *core, struct request *request,
                           uint64_t to, const char *why)
{
    struct transfer *transfer = &core->leadership.transfer;
    /* Only a leader that serves hands over (rule 12). */
    CHECK(is_serving(core));
    CHECK(transfer->state == TRANSFER_NONE && transfer->request == NULL);
    CHECK(to != core->options.id);
    if (request != NULL) {
        request_leave(core, request);
        request->state = REQUEST_CHANGING;
    }
    transfer->state = TRANSFER_WAITING;
    transfer->request = request;
    transfer->to = to;
    transfer->why = why;
    transfer->after_index = 0;
    transfer->deadline_ns = core->now_ns +
                            core->options.election_ms * NS_PER_MS;
}

static struct request *transfer_end(struct core *core)
{
    struct transfer *transfer = &core->leadership.transfer;
    struct request *request = transfer->request;
    CHECK(transfer->state != TRANSFER_NONE);
    transfer->state = TRANSFER_NONE;
    transfer->request = NULL;
    if (request != NULL) {
        request_leave(core, request);
    }
    return request;
}

static void transfer_refuse(struct core *core, enum core_word word,
                            const char *why)
{
    struct request *request = transfer_end(core);
    if (request != NULL) {
        request_refuse(core, request, word, why);
    }
}

void transfer_request(struct core *core, struct request *request, uint64_t to)
{
    struct replica_members members;
    replica_members(core->replica, &members);
    const struct replica_member *member = replica_members_find(&members, to);
    /* A TRANSFER that is repeated, or sent on, arrives at the successor itself:
     * it is done. */
    if (to == core->options.id) {
        request_answer_ok(core, request);
    } else if (to != 0 && (member == NULL || member->role != MEMBER_VOTER)) {
        request_refuse(core, request, WORD_BADARG, "no voter has that id");
    } else if (liveness_successor(core) == 0) {
        request_refuse(core, request, WORD_BUSY,
                       "no other voter is connected that could take over");
    } else if (core->leadership.transfer.state != TRANSFER_NONE) {
        request_refuse(core, request, WORD_BUSY, "a transfer is under way");
    } else {
        audit_log_log(request);
        transfer_begin(core, request, to, "requested by an operator");
    }
}

/* True when the transfer can start: everything in flight has been answered, and
 * nothing is left to be submitted. */
static bool may_go(struct core *core)
{
    struct transfer *transfer = &core->leadership.transfer;
    CHECK(transfer->state == TRANSFER_WAITING && is_serving(core));
    /* The successor's silence is judged only now: what it had sent may have
     * been read after the request. */
    if (transfer->after_index == 0 && transfer->to != 0 &&
        !liveness_is_heard(core, transfer->to)) {
        if (liveness_is_silent(core, transfer->to)) {
            char text[HASP_WHY_SIZE / 2], why[HASP_WHY_SIZE];
            liveness_text(core, transfer->to, text, sizeof text);
            snprintf(why, sizeof why,
                     "%s: hand leadership over to another voter", text);
            /* This node continues to lead, without a pause. */
            transfer_refuse(core, WORD_BADARG, why);
        }
        return false;
    }
    if (propose_has_work(core)) {
        return false;
    }
    if (transfer->after_index == 0) {
        transfer->after_index = replica_last_index(core->replica);
    }
    /* If this node's disk hangs it applies nothing, which is one more reason to
     * hand over at the deadline. */
    return lockfsm_applied_index(core->fsm) >= transfer->after_index ||
           core->now_ns >= transfer->deadline_ns;
}

static void transfer_go(struct core *core)
{
    struct transfer *transfer = &core->leadership.transfer;
    struct replica_update update;
    uint64_t to = transfer->to != 0 ? transfer->to : liveness_successor(core);
    CHECK(transfer->state == TRANSFER_WAITING);
    int error = replica_transfer(core->replica, to, core->now_ns / NS_PER_MS,
                                 &update);
    if (error != 0) {
        transfer_refuse(core, WORD_BUSY,
                        "leadership cannot be handed over now");
        return;
    }
    transfer->state = TRANSFER_UNDER_WAY;
    transfer->to = to;
    core->stats.counts.transfers++;
    if (transfer->request != NULL) {
        request_mark_logged(transfer->request);
    }
    raft_output_carry_out(core, &update);
}

/* Starts a transfer that no client requested, because this leader has a reason
 * not to lead. */
static void begin_unasked(struct core *core)
{
    const struct leadership *leadership = &core->leadership;
    if (leadership->transfer.state != TRANSFER_NONE ||
        replica_is_transferring(core->replica)) {
        return;
    }
    bool is_scarce = core->run.disk != CORE_DISK_OK &&
                     core->now_ns >= leadership->transfer.scarce_retry_ns;
    bool is_drained = core_is_draining(core) &&
                      core->now_ns >= leadership->transfer.scarce_retry_ns;
    if ((core->run.is_stopping || is_scarce || is_drained) &&
        liveness_successor(core) != 0) {
        /* Set before the transfer begins: if it fails, the next attempt is not
         * made at once. */
        transfer_put_off(core);
        transfer_begin(core, NULL, 0,
                       core->run.is_stopping ? "this node stops"
                       : is_drained          ? "this node is drained"
                       : core->run.disk == CORE_DISK_FULL
                           ? "its disk is nearly full"
                           : "its disk hardly responds");
    } else if (leadership->clock_successor != 0 &&
               leadership->change.state == CHANGE_NONE) {
        uint64_t successor = leadership->clock_successor;
        clocks_handed_over(core, successor);
        transfer_begin(core, NULL, successor, "its clock is off");
    } else if (leadership->disk_successor != 0 &&
               leadership->change.state == CHANGE_NONE &&
               disks_may_take_over(core, leadership->disk_successor)) {
        uint64_t successor = leadership->disk_successor;
        char why[HASP_WHY_SIZE];
        disks_handed_over(core, successor, why);
        LOG_WARN("leadership is handed over", "to=%" PRIu64 " reason=\"%s\"",
                 successor, why);
        transfer_begin(core, NULL, successor, "its disk is slow");
    }
}

void transfer_turn(struct core *core)
{
    const struct transfer *transfer = &core->leadership.transfer;
    if (!is_serving(core)) {
        return;
    }
    if (transfer->state == TRANSFER_UNDER_WAY &&
        !replica_is_transferring(core->replica)) {
        core->stats.counts.transfers_failed++;
        transfer_refuse(core, WORD_BUSY,
                        "the other member did not take over in time");
    }
    begin_unasked(core);
    if (transfer->state == TRANSFER_WAITING && may_go(core)) {
        transfer_go(core);
    }
}

uint64_t transfer_next(const struct core *core)
{
    const struct transfer *transfer = &core->leadership.transfer;
    if (!is_serving(core)) {
        return UINT64_MAX;
    }
    /* The end of a transfer that no client requested need not be noticed at
     * once. */
    if (transfer->state == TRANSFER_WAITING || transfer->request != NULL ||
        core->run.is_stopping) {
        return core->now_ns + RETRY_NS;
    }
    return core->run.disk != CORE_DISK_OK || core_is_draining(core)
               ? transfer->scarce_retry_ns
               : UINT64_MAX;
}

void transfer_stepped_down(struct core *core)
{
    if (core->leadership.transfer.state != TRANSFER_NONE) {
        struct request *request = transfer_end(core);
        if (request != NULL) {
            request_mark_logged(
                request); /* Leadership has moved, or may have. */
            request_abandon(core, request);
        }
    }
}

void transfer_peer_lost(struct core *core, uint64_t peer)
{
    struct request *request = core->leadership.transfer.request;
    if (request != NULL && request->conn == NULL && request->peer == peer) {
        request_orphan(core, request);
    }
}

void transfer_put_off(struct core *core)
{
    core->leadership.transfer.scarce_retry_ns = core->now_ns + SCARCE_RETRY_NS;
}

void transfer_at_once(struct core *core)
{
    core->leadership.transfer.scarce_retry_ns = core->now_ns;
}

void transfer_answer(struct core *core, struct request *request)
{
    bool is_good = request_understand(core, request);
    CHECK(is_good); /* The request was parsed on receipt. */
    uint64_t wanted = request->call->has_id ? request->call->id : 0;
    /* The request was sent to the old leader, or this node was the old leader.
     */
    uint64_t old = request->sent_to != 0 ? request->sent_to : core->options.id;
    if (wanted != 0 ? core->leader.id == wanted : core->leader.id != old) {
        request_answer_ok(core, request);
    } else {
        request_refuse(core, request, WORD_BUSY,
                       "leadership went to another member than the requested "
                       "one");
    }
}
