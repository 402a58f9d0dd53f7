/* SPDX-License-Identifier: MIT */

/* RAFT.ADD, UPDATE, PROMOTE, DEMOTE, REMOVE, REPLACE: the states of a change.
 */

#include "core/members/membership.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "core/audit_log.h"
#include "core/command.h"
#include "core/members/advertised.h"
#include "core/members/liveness.h"
#include "core/members/replacement.h"
#include "core/read_index.h"
#include "core/state.h"

#define CATCH_UP_NS (10000 * NS_PER_MS)
#define RETRY_NS (50 * NS_PER_MS)
/* How long a new voter that does not answer may delay other changes. */
#define SETTLE_NS (1000 * NS_PER_MS)
/* A new member may need this long before it listens. */
#define PROBE_NS (3000 * NS_PER_MS)
#define PROBE_RETRY_NS (100 * NS_PER_MS)
/* How long the remaining voters may be silent: after a stall of this node, what
 * they have sent is still to be read. */
#define HEAR_NS (1000 * NS_PER_MS)
/* A replacement that a former leader has begun is tried again after this. */
#define RESUME_NS (5000 * NS_PER_MS)
#define RESUME_LOG_NS (60 * NS_PER_S)

/* --- States ----------------------------------------------------------------*/

#define FROM(state) (1u << CHANGE_##state)

static void membership_enter(struct change *change, enum change_state state)
{
    static const unsigned from[CHANGE_STATE_COUNT] = {
        [CHANGE_BEGUN] = FROM(NONE),
        [CHANGE_PROBE_DUE] = FROM(BEGUN) | FROM(PROBING) | FROM(PROBED),
        [CHANGE_PROBING] = FROM(PROBE_DUE),
        [CHANGE_PROBED] = FROM(PROBING),
        [CHANGE_ADDING] = FROM(BEGUN) | FROM(PROBED) | FROM(RETURNING),
        [CHANGE_CATCHING_UP] = FROM(BEGUN) | FROM(ADDING) | FROM(PROMOTING) |
                               FROM(PROBED),
        [CHANGE_PROMOTING] = FROM(CATCHING_UP),
        [CHANGE_SETTLING] = FROM(PROMOTING),
        [CHANGE_LISTENING] = FROM(BEGUN) | FROM(RECORDING),
        [CHANGE_TAKING] = FROM(LISTENING),
        [CHANGE_UPDATING] = FROM(BEGUN),
        [CHANGE_RECORDING] = FROM(PROBED) | FROM(BEGUN),
        [CHANGE_RETURNING] = FROM(PROBED) | FROM(TAKING) | FROM(RECORDING),
    };
    /* The drawing of the states allows this step. */
    CHECK((from[state] >> change->state & 1) != 0);
    change->state = state;
}

static void change_open(struct core *core, uint32_t flags, const char *name,
                        const struct entry *asker, uint64_t id)
{
    struct change *change = &core->leadership.change;
    /* Only a leader that serves begins a change (rule 12). */
    CHECK(is_serving(core) && change->request == NULL);
    membership_enter(change, CHANGE_BEGUN);
    buffer_clear(&change->asker);
    entry_put(&change->asker, asker);
    change->flags = flags;
    change->name = name;
    change->index = 0;
    change->member = id;
    change->retry_ns = core->now_ns;
    change->deadline_ns = core->now_ns + CATCH_UP_NS;
}

static void membership_change_begin(struct core *core, struct request *request,
                                    uint64_t id)
{
    struct entry asker = {.op = OP_NONE};
    request_leave(core, request);
    request->state = REQUEST_CHANGING;
    audit_log_sign(core, request, &asker);
    change_open(core, request->command->flags, request->command->name, &asker,
                id);
    core->leadership.change.request = request;
}

/* Ends the change, so that another one can start; the caller still has to
 * answer the request. NULL: it was the leader's own change. */
static struct request *change_end(struct core *core)
{
    struct change *change = &core->leadership.change;
    struct request *request = change->request;
    CHECK(change->state != CHANGE_NONE);
    change->state = CHANGE_NONE;
    change->request = NULL;
    if (request != NULL) {
        CHECK(request->state == REQUEST_CHANGING);
        request_leave(core, request);
    }
    return request;
}

static void change_done(struct core *core)
{
    struct request *request = change_end(core);
    LOG_INFO("membership changed", "command=%s member=%" PRIu64,
             core->leadership.change.name, core->leadership.change.member);
    if (request != NULL) {
        request_has_changed(request);
        request_answer_ok(core, request);
    }
}

/* The leader's own change goes no further now: it will be tried again. */
static void replace_log_wait(struct core *core, const char *why)
{
    if (core->now_ns >= core->members.resume_log_ns) {
        core->members.resume_log_ns = core->now_ns + RESUME_LOG_NS;
        LOG_WARN("replacement waits", "reason=%s", log_quote(why));
    }
}

static void change_refuse(struct core *core, enum core_word word,
                          const char *text)
{
    struct request *request = change_end(core);
    if (request != NULL) {
        request_refuse(core, request, word, text);
    } else {
        replace_log_wait(core, text);
    }
}

/* Answers that only a part of the change is done. */
static void change_unfinished(struct core *core, const char *why)
{
    struct request *request = change_end(core);
    if (request != NULL) {
        request_fail(core, request, WORD_UNFINISHED, bytes_of_text(why));
    } else {
        replace_log_wait(core, why);
    }
}

/* Answers with the reason why the replica has refused the change. */
static void change_failed(struct core *core, int error)
{
    static const struct {
        int error;
        enum core_word word;
        const char *text;
    } refusals[] = {
        {HASP_ENOTLEADER, WORD_NOLEADER, "this node is no longer the leader"},
        {HASP_EBUSY, WORD_BUSY, "another change or a transfer is under way"},
        {HASP_EEXIST, WORD_BADARG,
         "a member has this id, address or data directory already: to replace "
         "it, remove it first"},
        {HASP_ENOENT, WORD_BADARG, "no member has that id"},
        {HASP_EFULL, WORD_LIMIT, "members"},
        {HASP_EREFUSED, WORD_BADARG, "that would leave fewer than two voters"},
        {HASP_EINVALID, WORD_BADARG,
         "invalid id, address or number of the data directory"},
    };
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        if (refusals[i].error == error) {
            change_refuse(core, refusals[i].word, refusals[i].text);
            return;
        }
    }
    change_refuse(core, WORD_BADARG, hasp_strerror(error));
}

static bool is_replacement(const struct change *change)
{
    return (change->flags & COMMAND_REPLACES) != 0;
}

/* Which act is recorded with the change's entry. */
static enum act_kind change_act(const struct change *change)
{
    switch (change->state) {
    case CHANGE_PROMOTING:
        return ACT_PROMOTE;
    case CHANGE_UPDATING:
        return ACT_UPDATE;
    case CHANGE_ADDING:
        return is_replacement(change) ? ACT_REPLACE : ACT_ADD;
    default:
        CHECK(change->state == CHANGE_TAKING);
        return is_replacement(change)                   ? ACT_REPLACE
               : (change->flags & COMMAND_REMOVES) != 0 ? ACT_REMOVE
                                                        : ACT_DEMOTE;
    }
}

/* The change's entry is in the log; records the act and the requester as
 * well. */
static void change_logged(struct core *core, enum change_state state,
                          const struct replica_update *update)
{
    struct change *change = &core->leadership.change;
    membership_enter(change, state);
    CHECK(change->index != 0);
    enum act_kind act = change_act(change);
    /* A promotion that is part of an ADD is recorded as ADD. That of a REPLACE
     * ends what ACT_REPLACE has begun. */
    if (state != CHANGE_PROMOTING ||
        (change->flags & (COMMAND_PROMOTES | COMMAND_REPLACES)) != 0) {
        bool has_address = act == ACT_ADD || act == ACT_UPDATE ||
                           act == ACT_REPLACE;
        audit_log_act(core, act, change->member,
                      has_address ? change->address : "",
                      act == ACT_REPLACE ? change->incarnation : 0,
                      buffer_bytes(&change->asker));
    }
    if (change->request != NULL) {
        request_mark_logged(change->request);
    }
    raft_output_carry_out(core, update);
}

/* --- Adding and promoting --------------------------------------------------*/

/* True if the directory was removed from the members before: the other nodes
 * report that to it, and it may have stopped for good. */
static bool refuse_removed(struct core *core)
{
    const struct change *change = &core->leadership.change;
    char why[HASP_WHY_SIZE];
    if (!lockfsm_was_removed(core->fsm, change->member, change->incarnation)) {
        return false;
    }
    snprintf(why, sizeof why,
             "the data directory of node %" PRIu64 " (incarnation %016" PRIx64
             ") was removed from this cluster: give the node an empty one, "
             "start it, and add it again",
             change->member, change->incarnation);
    change_refuse(core, WORD_BADARG, why);
    return true;
}

static void membership_add(struct core *core)
{
    struct change *change = &core->leadership.change;
    struct replica_update update;
    if (refuse_removed(core)) {
        return;
    }
    int error = replica_add(core->replica, change->member, change->incarnation,
                            change->address, core->now_ns / NS_PER_MS,
                            &change->index, &update);
    if (error != 0) {
        change_failed(core, error);
        return;
    }
    change->deadline_ns = core->now_ns + CATCH_UP_NS;
    change_logged(core, CHANGE_ADDING, &update);
}

/* Ends a change whose member has not caught up in time. If the member has just
 * been added, that part is done. */
static void not_promoted(struct core *core)
{
    const struct change *change = &core->leadership.change;
    uint64_t id = change->member;
    char why[HASP_WHY_SIZE];
    if (peer_is_up(core, id)) {
        snprintf(why, sizeof why,
                 "member %" PRIu64
                 " is a standby, is connected and is catching up (it has "
                 "entry %" PRIu64 " of %" PRIu64
                 "): promote it later with RAFT.PROMOTE",
                 id, replica_match(core->replica, id),
                 replica_last_index(core->replica));
    } else {
        snprintf(why, sizeof why,
                 "member %" PRIu64
                 " is a standby and is not connected: start it, and promote "
                 "it later with RAFT.PROMOTE",
                 id);
    }
    /* A PROMOTE has changed nothing. An ADD has added the member, so BUSY,
     * which says that nothing was done, would be wrong. */
    if ((change->flags & COMMAND_PROMOTES) != 0) {
        change_refuse(core, WORD_BUSY, why);
    } else {
        change_unfinished(core, why);
    }
}

/* Promotes the member; the replica refuses that until it has caught up. */
static void try_to_promote(struct core *core)
{
    struct change *change = &core->leadership.change;
    struct replica_update update;
    char why[HASP_WHY_SIZE];
    int error = HASP_EBUSY;
    CHECK(change->state == CHANGE_CATCHING_UP);
    if (!is_replacement(change) ||
        !replacement_must_wait(core, change->member, why)) {
        error = replica_set_role(core->replica, change->member, MEMBER_VOTER,
                                 core->now_ns / NS_PER_MS, &change->index,
                                 &update);
    }
    if (error == 0) {
        change_logged(core, CHANGE_PROMOTING, &update);
    } else if (error == HASP_EEXIST) {
        change_done(core);
    } else if (error != HASP_EBUSY) {
        /* HASP_EBUSY can pass: the member has not caught up, or has not
         * received the configuration of the previous promotion. */
        change_failed(core, error);
    } else if (core->now_ns >= change->deadline_ns) {
        not_promoted(core);
    } else {
        change->index = 0;
        change->retry_ns = core->now_ns + RETRY_NS;
    }
}

static void catch_up(struct core *core)
{
    membership_enter(&core->leadership.change, CHANGE_CATCHING_UP);
    try_to_promote(core);
}

/* True if the change would make a voter of a member that others, or clients,
 * cannot reach; the change has then been refused. */
static bool refuse_misplaced(struct core *core, const char *address)
{
    char why[HASP_WHY_SIZE];
    if (advertised_fits(core, core->leadership.change.member, address, why)) {
        return false;
    }
    change_refuse(core, WORD_BADARG, why);
    return true;
}

/* Refuses to add a voter that is not heard: OK would suggest that it runs. */
static void refuse_silent_voter(struct core *core)
{
    char text[HASP_WHY_SIZE / 2], why[HASP_WHY_SIZE];
    liveness_text(core, core->leadership.change.member, text, sizeof text);
    snprintf(why, sizeof why,
             "%s, and is a voter already: start it; if its data directory is "
             "new, remove the member first",
             text);
    change_unfinished(core, why);
}

/* Continues where the first ADD of this member stopped. */
static void add_again(struct core *core, const struct replica_member *member)
{
    const struct change *change = &core->leadership.change;
    if (member->role == MEMBER_VOTER && liveness_is_silent(core, member->id)) {
        refuse_silent_voter(core);
    } else if (member->role == MEMBER_VOTER || change->is_standby) {
        change_done(core);
    } else if (!refuse_misplaced(core, change->address)) {
        catch_up(core);
    }
}

bool membership_is_free(struct core *core)
{
    const struct change *change = &core->leadership.change;
    bool is_in_flight = change->state == CHANGE_ADDING ||
                        change->state == CHANGE_PROMOTING ||
                        change->state == CHANGE_SETTLING ||
                        change->state == CHANGE_TAKING;
    if (change->state != CHANGE_NONE && change->request == NULL &&
        !is_in_flight) {
        (void)change_end(core); /* It continues later, from the state. */
    }
    return change->state == CHANGE_NONE;
}

/* True if another change is in progress; 'request' has then been refused. */
static bool refuse_if_changing(struct core *core, struct request *request)
{
    if (membership_is_free(core)) {
        return false;
    }
    request_refuse(core, request, WORD_BUSY,
                   "another change of the members is in progress");
    return true;
}

void membership_begin_add(struct core *core, struct request *request,
                          const struct change_add *add)
{
    struct change *change = &core->leadership.change;
    struct replica_members members;
    uint64_t incarnation = add->incarnation;
    if (refuse_if_changing(core, request)) {
        return;
    }
    membership_change_begin(core, request, add->member);
    /* The parser has checked the size. */
    CHECK(add->address.size < sizeof change->address);
    memcpy(change->address, add->address.data, add->address.size);
    change->address[add->address.size] = '\0';
    change->is_standby = add->is_standby;
    change->incarnation = incarnation;
    replica_members(core->replica, &members);
    const struct replica_member *member = replica_members_find(&members,
                                                               add->member);
    if (member != NULL && strcmp(member->address, change->address) == 0 &&
        (incarnation == 0 || incarnation == member->incarnation)) {
        add_again(core, member);
    } else if (!change->is_standby && refuse_misplaced(core, change->address)) {
        return;
    } else if (member != NULL || change->incarnation != 0) {
        membership_add(core);
    } else {
        membership_enter(change, CHANGE_PROBE_DUE);
        change->deadline_ns = core->now_ns + PROBE_NS;
    }
}

void core_address_probed(struct core *core, uint64_t number, int error,
                         const struct core_directory *found, const char *why,
                         uint64_t now_ns)
{
    struct change *change = &core->leadership.change;
    set_now(core, now_ns);
    if (change->state != CHANGE_PROBING ||
        core->members.probe_number != number) {
        return; /* The probe belongs to a change that is over. */
    }
    if (error == HASP_ECONNECT && core->now_ns < change->deadline_ns) {
        membership_enter(change, CHANGE_PROBE_DUE);
        change->retry_ns = core->now_ns + PROBE_RETRY_NS;
        return;
    }
    membership_enter(change, CHANGE_PROBED);
    CHECK(error != 0 || found->incarnation != 0);
    change->found = error == 0 ? *found : (struct core_directory){0};
    change->incarnation = change->found.incarnation;
    change->probe_error = error;
    snprintf(change->probe_why, sizeof change->probe_why, "%s", why);
}

/* Dials a new member for a while at its announced addresses, because it may be
 * starting. */
static void membership_probe(struct core *core)
{
    struct change *change = &core->leadership.change;
    membership_enter(change, CHANGE_PROBING);
    core->port.probe_address(core->port.data, ++core->members.probe_number,
                             change->member, change->address);
}

static void replace_probed(struct core *core);

static void membership_probed(struct core *core)
{
    const struct change *change = &core->leadership.change;
    char why[HASP_WHY_SIZE];
    CHECK(change->state == CHANGE_PROBED);
    if (is_replacement(change)) {
        replace_probed(core);
        return;
    }
    if (change->probe_error == 0) {
        if (replacement_may_join(core, change->member, &change->found, why)) {
            membership_add(core);
        } else {
            change_refuse(core, WORD_BADARG, why);
        }
        return;
    }
    snprintf(why, sizeof why,
             "member %" PRIu64 " cannot be reached from member %" PRIu64
             ": %s; start it first and check its addresses, or give the "
             "number of its data directory with INCARNATION",
             change->member, core->options.id, change->probe_why);
    change_refuse(core, WORD_BADARG, why);
}

/* Begins the change of a member; NULL if there is none with this id. False, and
 * the request is answered, if another change is under way. */
static bool change_begin_of(struct core *core, struct request *request,
                            uint64_t id, struct replica_members *ret_members,
                            const struct replica_member **ret_member)
{
    if (refuse_if_changing(core, request)) {
        return false;
    }
    replica_members(core->replica, ret_members);
    *ret_member = replica_members_find(ret_members, id);
    membership_change_begin(core, request, id);
    return true;
}

void membership_begin_promote(struct core *core, struct request *request,
                              uint64_t id)
{
    struct replica_members members;
    const struct replica_member *member;
    if (!change_begin_of(core, request, id, &members, &member)) {
        return;
    }
    if (member == NULL) {
        change_failed(core, HASP_ENOENT);
    } else if (member->role == MEMBER_VOTER) {
        change_done(core);
    } else if (!refuse_misplaced(core, member->address)) {
        catch_up(core);
    }
}

/* Ends the change when the new voter knows that it is a voter. Until then no
 * other change may start: so OK is not sent too early, and the operator's next
 * request is not refused. */
static void finish_settling(struct core *core)
{
    const struct change *change = &core->leadership.change;
    CHECK(change->state == CHANGE_SETTLING && change->index != 0);
    if (replica_match(core->replica, change->member) >= change->index ||
        core->now_ns >= change->retry_ns) {
        change_done(core);
    }
}

/* --- A new address ---------------------------------------------------------
 */

/* Writes "peer,client" of the member after the change: without a client part
 * the member keeps the one that it has. False if that is too long. */
static bool membership_put_address(struct change *change, struct bytes asked,
                                   const struct replica_member *member)
{
    const char *client = strchr(member->address, ',');
    bool keeps = memchr(asked.data, ',', asked.size) == NULL && client != NULL;
    int size = snprintf(change->address, sizeof change->address, "%.*s%s",
                        (int)asked.size, (const char *)asked.data,
                        keeps ? client : "");
    return size > 0 && (size_t)size < sizeof change->address;
}

static void membership_update(struct core *core)
{
    struct change *change = &core->leadership.change;
    struct replica_update update;
    char why[HASP_WHY_SIZE];
    if (advertised_is_taken(core, change->member, change->address, why)) {
        change_refuse(core, WORD_BADARG, why);
        return;
    }
    int error = replica_set_address(core->replica, change->member,
                                    change->address, core->now_ns / NS_PER_MS,
                                    &change->index, &update);
    if (error != 0) {
        change_failed(core, error);
    } else {
        change_logged(core, CHANGE_UPDATING, &update);
    }
}

void membership_begin_update(struct core *core, struct request *request,
                             uint64_t id, struct bytes address)
{
    struct change *change = &core->leadership.change;
    struct replica_members members;
    const struct replica_member *member;
    if (!change_begin_of(core, request, id, &members, &member)) {
        return;
    }
    if (member == NULL) {
        change_failed(core, HASP_ENOENT);
    } else if (!membership_put_address(change, address, member)) {
        change_failed(core, HASP_EINVALID);
    } else if (strcmp(member->address, change->address) == 0) {
        change_done(core); /* A repeated UPDATE. */
    } else if (member->role != MEMBER_VOTER ||
               !refuse_misplaced(core, change->address)) {
        membership_update(core);
    }
}

/* --- Removing ------------------------------------------------------------- */

/* The voter was removed to be replaced. Now it is to stay away, and no leader
 * continues. */
static void replace_give_up(struct core *core, struct request *request,
                            uint64_t id)
{
    struct change *change = &core->leadership.change;
    membership_change_begin(core, request, id);
    audit_log_act(core, ACT_REMOVE, id, "", 0, buffer_bytes(&change->asker));
    membership_enter(change, CHANGE_RECORDING);
    change->deadline_ns = core->now_ns + HEAR_NS;
}

void membership_begin_take(struct core *core, struct request *request,
                           uint64_t id, bool is_forced)
{
    struct change *change = &core->leadership.change;
    bool is_removal = (request->command->flags & COMMAND_REMOVES) != 0;
    struct replica_members members;
    if (refuse_if_changing(core, request)) {
        return;
    }
    replica_members(core->replica, &members);
    const struct replica_member *member = replica_members_find(&members, id);
    if (id == core->options.id) {
        request_refuse(core, request, WORD_BADARG,
                       "this member is the leader: hand leadership over with "
                       "RAFT.TRANSFER first");
        return;
    }
    if (is_removal && member == NULL &&
        lockfsm_replaced_by(core->fsm, id) != 0) {
        replace_give_up(core, request, id);
        return;
    }
    if (is_removal && member == NULL) {
        /* A repeated REMOVE. A leader serves once everything that its
         * predecessors logged is committed, and no change of its own is in
         * progress: the member is certainly removed if this node still
         * leads. */
        if (request->is_confirmed) {
            request_answer_ok(core, request);
        } else {
            request->must_be_refused = true;
            read_index_enqueue(core, request);
        }
        return;
    }
    membership_change_begin(core, request, id);
    if (!is_removal && member != NULL && member->role == MEMBER_STANDBY) {
        change_done(core); /* A repeated DEMOTE. */
        return;
    }
    membership_enter(change, CHANGE_LISTENING);
    change->is_forced = is_forced;
    change->deadline_ns = core->now_ns + HEAR_NS;
}

/* Removes the member, or its vote, unless no majority would be left to commit
 * the change. */
static void try_to_take_away(struct core *core)
{
    struct change *change = &core->leadership.change;
    struct replica_update update;
    struct replica_members members;
    char why[HASP_WHY_SIZE];
    uint64_t id = change->member, now_ms = core->now_ns / NS_PER_MS;
    int error;
    CHECK(change->state == CHANGE_LISTENING && id != core->options.id);
    replica_members(core->replica, &members);
    const struct replica_member *member = replica_members_find(&members, id);
    bool is_voter = member != NULL && member->role == MEMBER_VOTER;
    /* Without a majority among the remaining voters the entry would never be
     * committed, nor any after it. */
    if (is_replacement(change) && member != NULL &&
        replacement_is_needless(core, member, why)) {
        /* It has come back since the replacement was recorded. */
        change_refuse(core, WORD_BADARG, why);
        return;
    }
    bool must_wait = is_replacement(change)
                         ? replacement_must_wait(core, id, why)
                         : is_voter && !change->is_forced &&
                               liveness_needs(core, id, why);
    if (must_wait) {
        if (core->now_ns >= change->deadline_ns) {
            change_refuse(core, WORD_BADARG, why);
        } else {
            change->retry_ns = core->now_ns + RETRY_NS;
        }
        return;
    }
    if ((change->flags & (COMMAND_REMOVES | COMMAND_REPLACES)) != 0) {
        error = replica_remove(core->replica, id, now_ms, &change->index,
                               &update);
    } else {
        error = replica_set_role(core->replica, id, MEMBER_STANDBY, now_ms,
                                 &change->index, &update);
    }
    if (error != 0) {
        change_failed(core, error);
    } else {
        change_logged(core, CHANGE_TAKING, &update);
    }
}

/* --- Replacing ------------------------------------------------------------ */

static void replace_wait(struct core *core, enum change_state state,
                         uint64_t wait_ns)
{
    struct change *change = &core->leadership.change;
    membership_enter(change, state);
    change->index = 0;
    change->retry_ns = core->now_ns;
    change->deadline_ns = core->now_ns + wait_ns;
}

/* The replacement, or its next directory, is logged before anything else is
 * done, by this verdict of this leader. */
static void replace_record(struct core *core,
                           const struct replica_member *member)
{
    const struct change *change = &core->leadership.change;
    char why[HASP_WHY_SIZE];
    if ((member != NULL && replacement_is_refused(core, member, change->address,
                                                  change->is_forced, why)) ||
        !replacement_is_empty(core, change->member, change->incarnation, why)) {
        change_refuse(core, WORD_BADARG, why);
        return;
    }
    audit_log_act(core, ACT_REPLACE, change->member, change->address,
                  change->incarnation, buffer_bytes(&change->asker));
    replace_wait(core, CHANGE_RECORDING, HEAR_NS);
}

/* Its node has answered: decides what the next step is. */
static void replace_probed(struct core *core)
{
    struct change *change = &core->leadership.change;
    struct replica_members members;
    char why[HASP_WHY_SIZE];
    uint64_t id = change->member;
    replica_members(core->replica, &members);
    const struct replica_member *member = replica_members_find(&members, id);
    bool is_named = member != NULL &&
                    member->incarnation == change->incarnation;
    if (change->probe_error != 0) {
        snprintf(why, sizeof why,
                 "member %" PRIu64 " cannot be reached from member %" PRIu64
                 ": %s; start it with an empty data directory first, at its "
                 "address in the member list",
                 id, core->options.id, change->probe_why);
        change_refuse(core, WORD_BADARG, why);
    } else if (is_named && member->role == MEMBER_VOTER) {
        change_done(core); /* It has the directory that it should have. */
    } else if (is_named) {
        replace_wait(core, CHANGE_CATCHING_UP, CATCH_UP_NS);
    } else if (refuse_removed(core)) {
        return;
    } else if (!replacement_has_greeted(core, id, change->incarnation) &&
               core->now_ns < change->deadline_ns) {
        membership_enter(change, CHANGE_PROBE_DUE);
        change->retry_ns = core->now_ns + PROBE_RETRY_NS;
    } else {
        replace_record(core, member);
    }
}

/* Continues once the state records the step: its entry is committed, so the log
 * never has the removal, which follows, without it. */
static void replace_recorded(struct core *core)
{
    struct change *change = &core->leadership.change;
    struct replica_members members;
    uint64_t by = lockfsm_replaced_by(core->fsm, change->member);
    if (!is_replacement(change) && by == 0) {
        change_done(core);
    } else if (is_replacement(change) && by == change->incarnation) {
        replica_members(core->replica, &members);
        if (replica_members_find(&members, change->member) != NULL) {
            replace_wait(core, CHANGE_LISTENING, HEAR_NS);
        } else {
            replace_wait(core, CHANGE_RETURNING, CATCH_UP_NS);
        }
    } else if (core->now_ns >= change->deadline_ns) {
        change_refuse(core, WORD_BUSY, "the log does not advance: try later");
    }
}

static void replace_return(struct core *core)
{
    struct change *change = &core->leadership.change;
    struct replica_update update;
    char why[HASP_WHY_SIZE] = "another change or a transfer is under way";
    int error = HASP_EBUSY;
    if (!replacement_must_wait(core, change->member, why)) {
        error = replica_add(core->replica, change->member, change->incarnation,
                            change->address, core->now_ns / NS_PER_MS,
                            &change->index, &update);
    }
    if (error == 0) {
        change->deadline_ns = core->now_ns + CATCH_UP_NS;
        change_logged(core, CHANGE_ADDING, &update);
    } else if (error != HASP_EBUSY) {
        change_unfinished(core, hasp_strerror(error));
    } else if (core->now_ns >= change->deadline_ns) {
        change_unfinished(core, why);
    } else {
        change->index = 0;
        change->retry_ns = core->now_ns + RETRY_NS;
    }
}

/* Asks the member's node for its directory. */
static void replace_probe(struct core *core,
                          const struct replica_member *member, bool is_forced)
{
    struct change *change = &core->leadership.change;
    struct bytes at = member != NULL
                          ? bytes_of_text(member->address)
                          : lockfsm_replaced_at(core->fsm, change->member);
    snprintf(change->address, sizeof change->address, "%.*s", (int)at.size,
             (const char *)at.data);
    change->is_standby = false;
    change->is_forced = is_forced;
    change->incarnation = 0;
    membership_enter(change, CHANGE_PROBE_DUE);
    change->deadline_ns = core->now_ns + PROBE_NS;
}

void membership_begin_replace(struct core *core, struct request *request,
                              uint64_t id, bool is_forced)
{
    struct replica_members members;
    const struct replica_member *member;
    struct bytes at = lockfsm_replaced_at(core->fsm, id);
    if (!change_begin_of(core, request, id, &members, &member)) {
        return;
    }
    if (member == NULL && at.size == 0) {
        change_failed(core, HASP_ENOENT);
    } else if (id == core->options.id) {
        change_done(core); /* It leads, so it has its directory. */
    } else if (member != NULL && member->role != MEMBER_VOTER && at.size == 0) {
        change_refuse(core, WORD_BADARG,
                      "the member is a standby: remove it, and add it again "
                      "with STANDBY");
    } else {
        replace_probe(core, member, is_forced);
    }
}

/* A replacement that has taken the vote of a member is finished by whichever
 * node leads, without a request. With cluster.replace_empty it also begins
 * one. */
static void replace_resume(struct core *core)
{
    struct change *change = &core->leadership.change;
    struct replica_members members;
    char by[64], why[HASP_WHY_SIZE];
    uint64_t id = replacement_left(core, change->resumed);
    bool is_begun = id != 0;
    change->resume_ns = core->now_ns + RESUME_NS;
    if (replica_is_transferring(core->replica)) {
        return;
    }
    if (!is_begun && (id = replacement_due(core)) == 0) {
        if (core_replacement_waits(core, why)) {
            replace_log_wait(core, why);
        }
        return;
    }
    snprintf(by, sizeof by, "%s member %" PRIu64,
             is_begun ? "RAFT.REPLACE, continued by"
                      : "cluster.replace_empty of",
             core->options.id);
    replica_members(core->replica, &members);
    change_open(core, COMMAND_REPLACES, "RAFT.REPLACE",
                &(struct entry){.op = OP_NONE,
                                .from = bytes_of_text("the cluster"),
                                .by = bytes_of_text(by)},
                id);
    change->resumed = id;
    replace_probe(core, replica_members_find(&members, id), is_begun);
}

/* --- Events ----------------------------------------------------------------*/

void membership_turn(struct core *core)
{
    const struct change *change = &core->leadership.change;
    bool is_due = core->now_ns >= change->retry_ns;
    if (!is_serving(core)) {
        return;
    }
    if (change->state == CHANGE_NONE && core->now_ns >= change->resume_ns) {
        replace_resume(core);
    }
    if (change->state == CHANGE_PROBE_DUE && is_due) {
        membership_probe(core);
    } else if (change->state == CHANGE_PROBED) {
        membership_probed(core);
    } else if (change->state == CHANGE_CATCHING_UP && is_due) {
        try_to_promote(core);
    } else if (change->state == CHANGE_LISTENING && is_due) {
        try_to_take_away(core);
    } else if (change->state == CHANGE_RECORDING) {
        replace_recorded(core);
    } else if (change->state == CHANGE_RETURNING && is_due) {
        replace_return(core);
    } else if (change->state == CHANGE_SETTLING) {
        finish_settling(core);
    }
}

uint64_t membership_next(const struct core *core)
{
    const struct change *change = &core->leadership.change;
    if (change->state != CHANGE_NONE) {
        return core->now_ns + RETRY_NS;
    }
    char why[HASP_WHY_SIZE];
    return core_replacement_waits(core, why) ? change->resume_ns : UINT64_MAX;
}

static void membership_promoted(struct core *core)
{
    struct change *change = &core->leadership.change;
    struct replica_members members;
    replica_members(core->replica, &members);
    const struct replica_member *member = replica_members_find(&members,
                                                               change->member);
    if (member == NULL || member->role != MEMBER_VOTER) {
        /* The change's entry was one of several before the promotion. */
        catch_up(core);
        return;
    }
    membership_enter(change, CHANGE_SETTLING);
    change->retry_ns = core->now_ns + SETTLE_NS;
    finish_settling(core);
}

void membership_applied(struct core *core, uint64_t applied)
{
    const struct change *change = &core->leadership.change;
    if (change->index == 0 || applied < change->index) {
        return;
    }
    if (change->state == CHANGE_ADDING && !change->is_standby) {
        catch_up(core);
    } else if (change->state == CHANGE_PROMOTING) {
        membership_promoted(core);
    } else if (change->state == CHANGE_TAKING && is_replacement(change)) {
        replace_wait(core, CHANGE_RETURNING, CATCH_UP_NS);
    } else if (change->state == CHANGE_ADDING ||
               change->state == CHANGE_TAKING ||
               change->state == CHANGE_UPDATING) {
        change_done(core);
    }
}

void membership_stepped_down(struct core *core)
{
    if (core->leadership.change.state == CHANGE_SETTLING) {
        change_done(core); /* The entry is committed, so the change is done. */
    } else if (core->leadership.change.state != CHANGE_NONE) {
        struct request *request = change_end(core);
        if (request != NULL) {
            request_abandon(core, request);
        }
    }
}

void membership_peer_lost(struct core *core, uint64_t peer)
{
    struct request *request = core->leadership.change.request;
    if (request != NULL && request->conn == NULL && request->peer == peer) {
        request_orphan(core, request);
    }
}
