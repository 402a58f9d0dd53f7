/* SPDX-License-Identifier: MIT */

#include "core/membership.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "core/announced.h"
#include "core/clocks.h"
#include "core/commands/commands.h"
#include "core/forward.h"
#include "core/peer.h"
#include "core/propose.h"
#include "core/request.h"
#include "core/silence.h"
#include "core/state.h"
#include "core/trail.h"
#include "core/update.h"

#define CATCH_UP_NS (10000 * NS_PER_MS)
#define RETRY_NS (50 * NS_PER_MS)
/* A new voter that does not answer holds up nobody for longer. */
#define SETTLE_NS (1000 * NS_PER_MS)
/* A new member may need so long to begin to listen. */
#define PROBE_NS (3000 * NS_PER_MS)
#define PROBE_RETRY_NS (100 * NS_PER_MS)
/* So long may voters that a change leaves be silent: after a stall of this node
 * what they have said is still to be read. */
#define HEAR_NS (1000 * NS_PER_MS)

static bool refuse_if_changing(struct core *core, struct request *request);
static void change_begin(struct core *core, struct request *request,
                         uint64_t id);
static void change_end(struct core *core, const char *code, const char *text);
static void change_refused(struct core *core, int error);
static bool refuse_misplaced(struct core *core, uint64_t id,
                             const char *address);
static void added_in_vain(struct core *core);
static void add(struct core *core);
static void probe_turn(struct core *core);
static void promote(struct core *core);
static void take_away(struct core *core);
static void settle(struct core *core);
static void transfer_begin(struct core *core, struct request *request,
                           uint64_t to);
static void transfer_end(struct core *core, const char *code, const char *why);
static void transfer_turn(struct core *core);
static void register_members(struct core *core);

void raft_add_run(struct core *core, struct request *request,
                  const struct call *call)
{
    struct replica_members members;
    char *address = core->reign.change.address;
    if (refuse_if_changing(core, request)) {
        return;
    }
    change_begin(core, request, call->id);
    memcpy(address, call->name.data, call->name.size);
    address[call->name.size] = '\0';
    core->reign.change.is_standby = call_has(call, OPTION_STANDBY);
    replica_members(core->replica, &members);
    const struct replica_member *member = replica_members_find(&members,
                                                               call->id);
    if (member != NULL && strcmp(member->address, address) == 0) {
        /* Repeated: goes on where the first one stopped. */
        if (member->role == MEMBER_VOTER && silence_is_silent(core, call->id)) {
            added_in_vain(core);
        } else if (member->role == MEMBER_VOTER ||
                   core->reign.change.is_standby) {
            change_end(core, NULL, NULL);
        } else if (!refuse_misplaced(core, call->id, address)) {
            core->reign.change.promotes = true;
            promote(core);
        }
    } else if (core->reign.change.is_standby ||
               !refuse_misplaced(core, call->id, address)) {
        if (member != NULL || call_has(call, OPTION_FORCE)) {
            add(core);
        } else {
            core->reign.change.probe = PROBE_DUE;
            core->reign.change.deadline_ns = core->now_ns + PROBE_NS;
        }
    }
}

void core_address_probed(struct core *core, uint64_t number, int error,
                         const char *why, uint64_t now_ns)
{
    set_now(core, now_ns);
    if (core->reign.change.request == NULL ||
        core->reign.change.probe != PROBE_UNDER_WAY ||
        core->probe_number != number) {
        return; /* Of a change that is over. */
    }
    snprintf(core->reign.change.probe_why, sizeof core->reign.change.probe_why,
             "%s", why);
    if (error == 0) {
        core->reign.change.probe = PROBE_DONE;
    } else if (error != HASP_ECONNECT ||
               core->now_ns >= core->reign.change.deadline_ns) {
        core->reign.change.probe = PROBE_FAILED;
    } else {
        core->reign.change.probe = PROBE_DUE;
        core->reign.change.retry_ns = core->now_ns + PROBE_RETRY_NS;
    }
}

void raft_promote_run(struct core *core, struct request *request,
                      const struct call *call)
{
    struct replica_members members;
    replica_members(core->replica, &members);
    const struct replica_member *member = replica_members_find(&members,
                                                               call->id);
    if (refuse_if_changing(core, request)) {
        return;
    }
    change_begin(core, request, call->id);
    if (member == NULL) {
        change_refused(core, HASP_ENOENT);
    } else if (member->role == MEMBER_VOTER) {
        change_end(core, NULL, NULL);
    } else if (!refuse_misplaced(core, call->id, member->address)) {
        core->reign.change.promotes = true;
        promote(core);
    }
}

/* DEMOTE and REMOVE. */
static void take_away_begin(struct core *core, struct request *request,
                            const struct call *call, bool is_removal)
{
    struct replica_members members;
    if (refuse_if_changing(core, request)) {
        return;
    }
    replica_members(core->replica, &members);
    const struct replica_member *member = replica_members_find(&members,
                                                               call->id);
    if (call->id == core->options.id) {
        request_refuse(core, request, "BADARG",
                       "this member leads: hand over with RAFT.TRANSFER first");
        return;
    }
    if (is_removal && member == NULL) {
        /* Repeated. An entry that changes nothing: it is gone, unless another
         * leads by now. */
        encode_register(propose_begin(core), call->id, 0, 0);
        propose_end(core, request);
        return;
    }
    change_begin(core, request, call->id);
    if (!is_removal && member != NULL && member->role == MEMBER_STANDBY) {
        change_end(core, NULL, NULL); /* Repeated. */
        return;
    }
    core->reign.change.takes = true;
    core->reign.change.is_forced = call_has(call, OPTION_FORCE);
    core->reign.change.deadline_ns = core->now_ns + HEAR_NS;
}

void raft_demote_run(struct core *core, struct request *request,
                     const struct call *call)
{
    take_away_begin(core, request, call, false);
}

void raft_remove_run(struct core *core, struct request *request,
                     const struct call *call)
{
    take_away_begin(core, request, call, true);
}

void raft_transfer_run(struct core *core, struct request *request,
                       const struct call *call)
{
    struct replica_members members;
    replica_members(core->replica, &members);
    const struct replica_member *member = replica_members_find(&members,
                                                               call->id);
    if (call->has_id && call->id == core->options.id) {
        resp_simple(request_reply(core, request), "OK");
        request_done(core, request);
    } else if (call->has_id &&
               (member == NULL || member->role != MEMBER_VOTER)) {
        request_refuse(core, request, "BADARG",
                       "raft.transfer: no voter has that id");
    } else if (!membership_has_heir(core)) {
        request_refuse(core, request, "BUSY",
                       "no other voter is connected to take over");
    } else if (core->reign.transfer.is_wanted ||
               core->reign.transfer.request != NULL) {
        request_refuse(core, request, "BUSY", "a transfer is under way");
    } else {
        trail_tell(core, request);
        transfer_begin(core, request, call->has_id ? call->id : 0);
    }
}

void membership_turn(struct core *core)
{
    if (!is_serving(core)) {
        return;
    }
    if (core->reign.must_register && propose_is_open(core)) {
        register_members(core);
    }
    if (core->reign.change.request != NULL && core->reign.change.promotes &&
        core->reign.change.index == 0 &&
        core->now_ns >= core->reign.change.retry_ns) {
        promote(core);
    }
    if (core->reign.change.request != NULL &&
        core->reign.change.probe != PROBE_NONE) {
        probe_turn(core);
    }
    if (core->reign.change.request != NULL && core->reign.change.takes &&
        core->now_ns >= core->reign.change.retry_ns) {
        take_away(core);
    }
    if (core->reign.change.request != NULL && core->reign.change.settles != 0) {
        settle(core);
    }
    if ((core->is_stopping ||
         (core->is_disk_scarce &&
          core->now_ns >= core->reign.transfer.scarce_retry_ns)) &&
        !core->reign.transfer.is_wanted &&
        !replica_is_transferring(core->replica) && membership_has_heir(core)) {
        core->reign.transfer.scarce_retry_ns = core->now_ns + SCARCE_RETRY_NS;
        transfer_begin(core, NULL, 0);
    }
    uint64_t heir = core->reign.transfer.is_wanted ||
                            core->reign.change.request != NULL ||
                            replica_is_transferring(core->replica)
                        ? 0
                        : clocks_heir(core);
    if (heir != 0) {
        clocks_handed_over(core, heir);
        transfer_begin(core, NULL, heir);
    }
    transfer_turn(core);
}

uint64_t membership_next(const struct core *core)
{
    if (!is_serving(core)) {
        return UINT64_MAX;
    }
    bool is_busy = core->reign.change.request != NULL ||
                   core->reign.transfer.is_wanted ||
                   core->reign.transfer.request != NULL || core->is_stopping;
    if (is_busy) {
        return core->now_ns + RETRY_NS;
    }
    return core->is_disk_scarce ? core->reign.transfer.scarce_retry_ns
                                : UINT64_MAX;
}

void membership_progress(struct core *core, uint64_t applied)
{
    if (core->reign.change.request == NULL || core->reign.change.index == 0 ||
        applied < core->reign.change.index) {
        return;
    }
    uint64_t change_index = core->reign.change.index;
    core->reign.change.index = 0;
    if (core->reign.change.promotes) {
        struct replica_members members;
        replica_members(core->replica, &members);
        const struct replica_member *member = replica_members_find(
            &members, core->reign.change.member);
        if (member == NULL || member->role != MEMBER_VOTER) {
            promote(core);
            return;
        }
        core->reign.change.promotes = false;
        core->reign.change.settles = change_index;
        core->reign.change.retry_ns = core->now_ns + SETTLE_NS;
        settle(core);
        return;
    }
    change_end(core, NULL, NULL);
}

void membership_stepped_down(struct core *core)
{
    if (core->reign.change.request != NULL && core->reign.change.settles != 0) {
        change_end(core, NULL, NULL); /* It is committed. */
    }
    struct request *lost[2] = {core->reign.change.request,
                               core->reign.transfer.request};
    for (int i = 0; i < 2; i++) {
        if (lost[i] == NULL) {
            continue;
        }
        lost[i]->state = REQUEST_NEW;
        if ((lost[i]->command->flags & COMMAND_TRANSFERS) != 0) {
            request_mark(lost[i]); /* It has moved leadership, or may have. */
        }
        if (lost[i]->conn == NULL) {
            request_drop(core, lost[i]); /* Its node sees the change itself. */
        } else {
            request_return(core, lost[i]);
        }
    }
}

void membership_peer_lost(struct core *core, uint64_t peer)
{
    struct request *own[2] = {core->reign.change.request,
                              core->reign.transfer.request};
    for (int i = 0; i < 2; i++) {
        if (own[i] != NULL && own[i]->conn == NULL && own[i]->peer == peer) {
            request_orphan(core, own[i]);
        }
    }
}

void membership_transfer_seen(struct core *core, struct request *request)
{
    struct frame_forward kept = request_kept(core, request);
    uint64_t wanted = 0;
    if (kept.count > 1 && !bytes_to_u64(kept.argument[1], &wanted)) {
        wanted = 0;
    }
    /* It was sent to the old leader, or that was this node. */
    uint64_t old = request->sent_to != 0 ? request->sent_to : core->options.id;
    if (wanted != 0 ? core->leader.id == wanted : core->leader.id != old) {
        resp_simple(request_reply(core, request), "OK");
        request_done(core, request);
    } else {
        request_refuse(core, request, "BUSY",
                       "leadership did not go where it was asked to go");
    }
}

bool membership_has_heir(const struct core *core)
{
    return silence_heir(core) != 0;
}

/* True if another change is under way; 'request' is refused then. */
static bool refuse_if_changing(struct core *core, struct request *request)
{
    if (core->reign.change.request == NULL) {
        return false;
    }
    request_refuse(core, request, "BUSY", "another change is under way");
    return true;
}

static void change_begin(struct core *core, struct request *request,
                         uint64_t id)
{
    request_leave(core, request);
    request->state = REQUEST_CHANGING;
    buffer_clear(&core->reign.change.asker);
    trail_append(core, request, &core->reign.change.asker);
    core->reign.change.request = request;
    core->reign.change.index = 0;
    core->reign.change.member = id;
    core->reign.change.promotes = core->reign.change.takes = false;
    core->reign.change.probe = PROBE_NONE;
    core->reign.change.settles = 0;
    core->reign.change.retry_ns = core->now_ns;
    core->reign.change.deadline_ns = core->now_ns + CATCH_UP_NS;
}

/* Another one may begin; its request is still to be answered. */
static void change_forget(struct core *core)
{
    core->reign.change.request->state = REQUEST_NEW;
    core->reign.change.request = NULL;
    core->reign.change.promotes = core->reign.change.takes = false;
    core->reign.change.probe = PROBE_NONE;
    core->reign.change.settles = 0;
}

/* Answers the change; 'code' NULL: OK. */
static void change_end(struct core *core, const char *code, const char *text)
{
    struct request *request = core->reign.change.request;
    change_forget(core);
    if (code != NULL) {
        request_refuse(core, request, code, text);
        return;
    }
    LOG_INFO("membership changed", "command=%s member=%" PRIu64,
             request->command->name, core->reign.change.member);
    resp_simple(request_reply(core, request), "OK");
    request_done(core, request);
}

static void change_refused(struct core *core, int error)
{
    static const struct {
        int error;
        const char *code;
        const char *text;
    } refusals[] = {
        {HASP_ENOTLEADER, "NOLEADER", "this node leads no longer"},
        {HASP_EBUSY, "BUSY", "another change or a transfer is under way"},
        {HASP_EEXIST, "BADARG", "the id or the address is a member's already"},
        {HASP_ENOENT, "BADARG", "no member has that id"},
        {HASP_EFULL, "LIMIT", "members"},
        {HASP_EINVALID, "BADARG", "that would leave fewer than two voters"},
    };
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        if (refusals[i].error == error) {
            change_end(core, refusals[i].code, refusals[i].text);
            return;
        }
    }
    change_end(core, "BADARG", hasp_strerror(error));
}

/* The member has not caught up in time. Where it has just been added that much
 * is done. */
static void not_promoted(struct core *core)
{
    struct request *request = core->reign.change.request;
    uint64_t id = core->reign.change.member;
    char why[HASP_WHY_SIZE];
    if (core->port.peer_is_up(core->port.data, id)) {
        snprintf(why, sizeof why,
                 "member %" PRIu64 " is connected and a standby, and catches "
                 "up by itself (it has entry %" PRIu64 " of %" PRIu64
                 "): promote it later with RAFT.PROMOTE",
                 id, replica_match(core->replica, id),
                 replica_last_index(core->replica));
    } else {
        snprintf(why, sizeof why,
                 "member %" PRIu64 " is a standby, and not connected: start "
                 "it, and promote it later with RAFT.PROMOTE",
                 id);
    }
    if ((request->command->flags & COMMAND_PROMOTES) != 0) {
        change_end(core, "BUSY", why);
        return;
    }
    change_forget(core);
    request_fail(core, request, "UNFINISHED", bytes_of_text(why));
}

/* True if the change that has begun would make a voter of one that the others,
 * or clients, do not reach; it is refused then. */
static bool refuse_misplaced(struct core *core, uint64_t id,
                             const char *address)
{
    char why[HASP_WHY_SIZE];
    if (announced_fits(core, id, address, why)) {
        return false;
    }
    change_end(core, "BADARG", why);
    return true;
}

/* A new member is dialled at the addresses that it is to have, for a while,
 * since it may be about to start. */
static void probe_turn(struct core *core)
{
    char why[HASP_WHY_SIZE];
    switch (core->reign.change.probe) {
    case PROBE_DUE:
        if (core->now_ns >= core->reign.change.retry_ns) {
            core->reign.change.probe = PROBE_UNDER_WAY;
            core->port.probe_address(core->port.data, ++core->probe_number,
                                     core->reign.change.member,
                                     core->reign.change.address);
        }
        break;
    case PROBE_DONE:
        core->reign.change.probe = PROBE_NONE;
        add(core);
        break;
    case PROBE_FAILED:
        snprintf(why, sizeof why,
                 "member %" PRIu64 " is not there, seen from member %" PRIu64
                 ": %s; start it first and look at its addresses, or force it",
                 core->reign.change.member, core->options.id,
                 core->reign.change.probe_why);
        change_end(core, "BADARG", why);
        break;
    case PROBE_NONE:
    case PROBE_UNDER_WAY:
        break;
    }
}

/* It is a voter already, and OK would make it look like one that runs. */
static void added_in_vain(struct core *core)
{
    struct request *request = core->reign.change.request;
    char text[HASP_WHY_SIZE / 2], why[HASP_WHY_SIZE];
    silence_text(core, core->reign.change.member, text, sizeof text);
    snprintf(why, sizeof why,
             "%s, and is a voter already: start it; with a new data directory "
             "it has to be removed first",
             text);
    change_forget(core);
    request_fail(core, request, "UNFINISHED", bytes_of_text(why));
}

/* The change at hand is in the log; who wanted it, too. */
static void told(struct core *core, enum act_kind kind)
{
    trail_act(core, kind, core->reign.change.member,
              kind == ACT_ADD ? core->reign.change.address : "",
              buffer_bytes(&core->reign.change.asker));
}

static void add(struct core *core)
{
    struct replica_update update;
    int error = replica_add(
        core->replica, core->reign.change.member, core->reign.change.address,
        core->now_ns / NS_PER_MS, &core->reign.change.index, &update);
    if (error != 0) {
        change_refused(core, error);
        return;
    }
    core->reign.change.promotes = !core->reign.change.is_standby;
    core->reign.change.deadline_ns = core->now_ns + CATCH_UP_NS;
    told(core, ACT_ADD);
    request_mark(core->reign.change.request);
    update_carry_out(core, &update);
}

/* Tries to promote; until the member has caught up the replica refuses. */
static void promote(struct core *core)
{
    struct replica_update update;
    int error = replica_set_role(core->replica, core->reign.change.member,
                                 MEMBER_VOTER, core->now_ns / NS_PER_MS,
                                 &core->reign.change.index, &update);
    if (error == 0) {
        if ((core->reign.change.request->command->flags & COMMAND_PROMOTES) !=
            0) {
            told(core, ACT_PROMOTE);
        }
        request_mark(core->reign.change.request);
        update_carry_out(core, &update);
    } else if (error == HASP_EEXIST) {
        change_end(core, NULL, NULL);
    } else if (error != HASP_EBUSY) {
        change_refused(core, error);
    } else if (core->now_ns >= core->reign.change.deadline_ns) {
        not_promoted(core);
    } else {
        core->reign.change.index = 0;
        core->reign.change.retry_ns = core->now_ns + RETRY_NS;
    }
}

/* Tries to take the member, or its vote, away; not while that would leave
 * nobody to commit it. */
static void take_away(struct core *core)
{
    struct replica_update update;
    struct replica_members members;
    char why[HASP_WHY_SIZE];
    uint64_t id = core->reign.change.member, now_ms = core->now_ns / NS_PER_MS;
    int error;
    replica_members(core->replica, &members);
    const struct replica_member *member = replica_members_find(&members, id);
    bool is_voter = member != NULL && member->role == MEMBER_VOTER;
    if (is_voter && !core->reign.change.is_forced &&
        silence_needs(core, id, why)) {
        if (core->now_ns >= core->reign.change.deadline_ns) {
            change_end(core, "BADARG", why);
        } else {
            core->reign.change.retry_ns = core->now_ns + RETRY_NS;
        }
        return;
    }
    bool is_removal = (core->reign.change.request->command->flags &
                       COMMAND_REMOVES) != 0;
    core->reign.change.takes = false;
    if (is_removal) {
        error = replica_remove(core->replica, id, now_ms,
                               &core->reign.change.index, &update);
    } else {
        error = replica_set_role(core->replica, id, MEMBER_STANDBY, now_ms,
                                 &core->reign.change.index, &update);
    }
    if (error != 0) {
        change_refused(core, error);
        return;
    }
    told(core, is_removal ? ACT_REMOVE : ACT_DEMOTE);
    request_mark(core->reign.change.request);
    update_carry_out(core, &update);
}

/* Nothing else may change before the new voter knows that it is one: so OK is
 * said when it does, and what the operator asks for next is not refused. */
static void settle(struct core *core)
{
    if (replica_match(core->replica, core->reign.change.member) >=
            core->reign.change.settles ||
        core->now_ns >= core->reign.change.retry_ns) {
        change_end(core, NULL, NULL);
    }
}

static void transfer_begin(struct core *core, struct request *request,
                           uint64_t to)
{
    if (request != NULL) {
        request_leave(core, request);
        request->state = REQUEST_CHANGING;
    }
    core->reign.transfer.request = request;
    core->reign.transfer.is_wanted = true;
    core->reign.transfer.to = to;
    core->reign.transfer.after_index = 0;
    core->reign.transfer.deadline_ns = core->now_ns +
                                       core->options.election_ms * NS_PER_MS;
}

static void transfer_end(struct core *core, const char *code, const char *why)
{
    struct request *request = core->reign.transfer.request;
    core->reign.transfer.request = NULL;
    core->reign.transfer.is_wanted = false;
    if (request != NULL) {
        request->state = REQUEST_NEW;
        request_refuse(core, request, code, why);
    }
}

/* Nobody could take over: this node goes on leading without a pause. */
static void transfer_refused(struct core *core)
{
    char text[HASP_WHY_SIZE / 2], why[HASP_WHY_SIZE];
    silence_text(core, core->reign.transfer.to, text, sizeof text);
    snprintf(why, sizeof why, "raft.transfer: %s: hand over to another voter",
             text);
    transfer_end(core, "BADARG", why);
}

/* What is under way is answered first, and nothing may be waiting to be
 * submitted, since during a transfer nothing is taken. */
static void transfer_turn(struct core *core)
{
    struct replica_update update;
    if (!core->reign.transfer.is_wanted) {
        if (core->reign.transfer.request != NULL &&
            !replica_is_transferring(core->replica)) {
            transfer_end(core, "BUSY",
                         "the other member did not take over in time");
        }
        return;
    }
    /* Not sooner: what it has said may have been read after the request. */
    if (core->reign.transfer.after_index == 0 && core->reign.transfer.to != 0 &&
        !silence_is_heard(core, core->reign.transfer.to)) {
        if (silence_is_silent(core, core->reign.transfer.to)) {
            transfer_refused(core);
        }
        return;
    }
    if (propose_has_work(core)) {
        return;
    }
    if (core->reign.transfer.after_index == 0) {
        core->reign.transfer.after_index = replica_last_index(core->replica);
    }
    /* Where our own disk hangs nothing is applied here any more, and all the
     * more reason to go on. */
    if (lockfsm_applied_index(core->fsm) < core->reign.transfer.after_index &&
        core->now_ns < core->reign.transfer.deadline_ns) {
        return;
    }
    core->reign.transfer.is_wanted = false;
    uint64_t to = core->reign.transfer.to != 0 ? core->reign.transfer.to
                                               : silence_heir(core);
    int error = replica_transfer(core->replica, to, core->now_ns / NS_PER_MS,
                                 &update);
    if (error != 0) {
        transfer_end(core, "BUSY", "leadership cannot be handed over now");
        return;
    }
    if (core->reign.transfer.request != NULL) {
        request_mark(core->reign.transfer.request);
    }
    update_carry_out(core, &update);
}

/* Members whose data directory is not registered yet (amnesia guard). The one
 * at the other end of a connection is that of the member only if it has
 * acknowledged the entry that added it: the connection may be a dead one's, and
 * the member have been removed and added again since. */
static void register_members(struct core *core)
{
    struct replica_members members;
    replica_members(core->replica, &members);
    core->reign.must_register = false;
    for (uint32_t i = 0; i < members.count; i++) {
        uint64_t id = members.member[i].id;
        uint64_t added_index = lockfsm_added_index(core->fsm, id);
        struct peer *peer = peer_find(core, id);
        if (peer == NULL || !peer->is_up || added_index == 0 ||
            lockfsm_incarnation(core->fsm, id) != 0) {
            continue;
        }
        core->reign.must_register = true;
        if (peer->registering_term == core->reign.term ||
            peer->acked_term != core->reign.term ||
            peer->acked_index < added_index) {
            continue;
        }
        buffer_clear(&core->scratch);
        encode_register(&core->scratch, id, peer->incarnation, added_index);
        if (propose_own(core, buffer_bytes(&core->scratch))) {
            peer->registering_term = core->reign.term;
        }
    }
}
