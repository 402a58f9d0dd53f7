/* SPDX-License-Identifier: MIT */

/* core_check(): the invariants of a core between two events (README.md), for
 * the simulator and the tests. It walks over everything under way. */

#include "core/command.h"
#include "core/state.h"
#include "core/transaction.h"

/* True for the states that only a leader's requests have. */
static bool invariants_is_of_leader(enum request_state state)
{
    return state >= REQUEST_ASKING && state <= REQUEST_READY;
}

static const struct request *slot_request(const struct conn *conn,
                                          uint64_t slot)
{
    if (slot < conn->first_slot || slot >= conn->next_slot) {
        return NULL;
    }
    return conn->slots[slot & (conn->slot_capacity - 1)].request;
}

static const struct peer *find_peer(const struct core *core, uint64_t id)
{
    for (int i = 0; i < PEER_COUNT_MAX; i++) {
        if (core->peers[i].id == id) {
            return &core->peers[i];
        }
    }
    return NULL;
}

/* Checks that the requester can still be answered, and knows of its request. */
static const char *check_requester(const struct core *core,
                                   const struct request *request)
{
    if (request->conn != NULL) {
        return slot_request(request->conn, request->slot) == request
                   ? NULL
                   : "a request is not in its slot";
    }
    if (request->peer == 0) {
        /* The requester has disconnected; the request is kept for the result of
         * its entry. */
        return request->state == REQUEST_LOGGED ||
                       request->state == REQUEST_CHANGING ||
                       request->state == REQUEST_QUEUED ||
                       request->state == REQUEST_SNAPSHOT ||
                       request->state == REQUEST_DOOMED
                   ? NULL
                   : "a request without a requester is kept";
    }
    const struct peer *peer = find_peer(core, request->peer);
    return peer != NULL && peer->is_up
               ? NULL
               : "a request of a peer outlives its link";
}

static const char *check_request(const struct core *core,
                                 const struct request *request,
                                 enum request_state station)
{
    if (request->state != station) {
        return "a request is in another list than its state says";
    }
    if (invariants_is_of_leader(station) && !is_serving(core)) {
        return "a request waits for a leader that does not serve";
    }
    if (request->command == NULL) {
        return "a request without a command";
    }
    /* Without the mark its loss would be reported as "nothing was done". */
    if (station == REQUEST_FORWARDED && !request->effect.earlier &&
        (request->command->flags & COMMAND_CHANGE) != 0) {
        return "a change was sent to a leader and is not marked";
    }
    const struct call *call = request->call;
    bool is_read = station == REQUEST_ASKING || station == REQUEST_DOOMED ||
                   station == REQUEST_READY;
    if (is_read && (call == NULL || call->command != request->command)) {
        return "a request that waits for a read has no parsed call";
    }
    if (call != NULL &&
        (station == REQUEST_FORWARDED || station == REQUEST_QUEUED ||
         station == REQUEST_SNAPSHOT)) {
        return "a parsed call is kept without need";
    }
    if (station == REQUEST_ASKING &&
        (request->question > replica_next_question(core->replica) ||
         request->read_index > replica_commit_index(core->replica))) {
        return "a request waits for a read index without a question";
    }
    return check_requester(core, request);
}

/* Checks a request that is in no list. */
static const char *check_changing(const struct core *core,
                                  const struct request *request,
                                  bool is_under_way, uint32_t *in_flight)
{
    if (request == NULL) {
        return NULL;
    }
    *in_flight += 1;
    if (!is_under_way || request->state != REQUEST_CHANGING) {
        return "a request waits for a change that is not under way";
    }
    return check_requester(core, request);
}

static uint32_t count_held(const struct core *core)
{
    uint32_t held = 0;
    HASH_FOR (const struct conn, conn, core->conns.by_id, by_id) {
        for (uint64_t i = conn->first_slot; i < conn->next_slot; i++) {
            const struct request *request = slot_request(conn, i);
            held += request != NULL && request->state == REQUEST_HELD;
        }
    }
    return held;
}

static const char *check_requests(const struct core *core)
{
    const struct leadership *leadership = &core->leadership;
    uint32_t in_flight = count_held(core);
    uint64_t question = 0;
    for (int i = 0; i < REQUEST_STATE_COUNT; i++) {
        LIST_FOR (const struct request, request, &core->requests.at[i],
                  in_list) {
            const char *wrong = check_request(core, request,
                                              (enum request_state)i);
            if (wrong != NULL) {
                return wrong;
            }
            in_flight += i != REQUEST_QUEUED;
            if (i == REQUEST_ASKING) {
                /* Questions are ordered by number (rule 13). */
                if (request->question < question) {
                    return "read indexes are confirmed out of order";
                }
                question = request->question;
            }
        }
    }
    const char *wrong = check_changing(core, leadership->change.request,
                                       leadership->change.state != CHANGE_NONE,
                                       &in_flight);
    if (wrong == NULL) {
        wrong = check_changing(core, leadership->transfer.request,
                               leadership->transfer.state != TRANSFER_NONE,
                               &in_flight);
    }
    if (wrong == NULL && (in_flight != core->requests.in_flight.count ||
                          in_flight != in_flight_of_payers(core))) {
        wrong = "the count of requests in flight is wrong";
    }
    return wrong;
}

static uint32_t count_chain(const struct request *chain)
{
    uint32_t count = 0;
    for (; chain != NULL; chain = chain->next) {
        count++;
    }
    return count;
}

static uint32_t list_count(const struct list *list)
{
    uint32_t count = 0;
    LIST_EACH (node, list) {
        count++;
    }
    return count;
}

/* Checks that each logged request is expected at one index that is not applied
 * yet. */
static const char *check_propose(const struct core *core)
{
    const struct propose *propose = &core->leadership.propose;
    uint32_t own = 0, waiting = 0;
    if (propose->ring_end > propose->ring_first &&
        propose->ring_first <= lockfsm_applied_index(core->fsm)) {
        return "an entry was applied, and no request was answered";
    }
    for (uint64_t i = propose->ring_first; i < propose->ring_end; i++) {
        const struct expected
            *expected = &propose->ring[i & (propose->ring_size - 1)];
        own += expected->is_own;
        waiting += count_chain(expected->requests);
        for (const struct request *r = expected->requests; r != NULL;
             r = r->next) {
            /* Without the mark its loss would be reported as "nothing was
             * done". */
            if (r->index != i ||
                ((r->command->flags & COMMAND_CHANGE) != 0 && !r->effect.own)) {
                return "a change was logged and is not marked";
            }
        }
    }
    for (uint32_t i = 0; i < propose->item_count; i++) {
        own += propose->items[i].requests == NULL;
        waiting += count_chain(propose->items[i].requests);
    }
    for (uint32_t i = 0; i < propose->hearing_count; i++) {
        waiting += propose->hearing[i].request != NULL;
    }
    if (own != propose->own_in_flight ||
        own > core->options.limits.own_in_flight) {
        return "the count of our own entries under way is wrong";
    }
    uint32_t numbered = 0;
    LIST_FOR (const struct request, request, &core->requests.at[REQUEST_LOGGED],
              in_list) {
        numbered += request->req != 0;
    }
    if (numbered != HASH_CNT(by_number, core->requests.by_number)) {
        return "a logged request is not found by its number";
    }
    return waiting == list_count(&core->requests.at[REQUEST_LOGGED])
               ? NULL
               : "a logged request waits for no entry";
}

static const char *check_queued(const struct core *core)
{
    uint32_t waiting = 0;
    HASH_FOR (const struct request, first, core->requests.by_wait, by_wait) {
        waiting += count_chain(first);
    }
    return waiting == list_count(&core->requests.at[REQUEST_QUEUED])
               ? NULL
               : "a queued request waits for no lock";
}

/* Checks that a leader has nothing under way before BEGIN is applied (rule 12),
 * and that a node that does not lead keeps no state of a leader (rule 14). */
static const char *check_leadership(const struct core *core)
{
    const struct leadership *leadership = &core->leadership;
    if (is_serving(core)) {
        return NULL;
    }
    if (leadership->propose.ring != NULL || leadership->propose.items != NULL ||
        leadership->propose.hearing != NULL ||
        leadership->change.state != CHANGE_NONE ||
        leadership->transfer.state != TRANSFER_NONE ||
        leadership->read_index.newest.number != 0 ||
        leadership->clock_successor != 0 || leadership->disk_successor != 0 ||
        leadership->sweep.is_under_way) {
        return "a request is under way at a leader that does not serve";
    }
    if (is_leader(core)) {
        return NULL;
    }
    bool is_sending = false, is_attached = false;
    for (int i = 0; i < PEER_COUNT_MAX; i++) {
        is_sending |= leadership->senders[i].is_active;
        is_attached |= core->peers[i].id != 0 &&
                       !list_is_empty(&core->peers[i].attachments);
    }
    return leadership->term != 0 || leadership->must_compare_levels ||
                   is_sending || is_attached
               ? "a node that does not lead has kept a leader's state"
               : NULL;
}

static const char *check_sweep(const struct core *core)
{
    uint32_t places;
    bool may_propose = propose_is_open(core) && !core->run.has_fatal &&
                       core->leadership.propose.own_in_flight <
                           core->options.limits.own_in_flight;
    return may_propose && !core->leadership.sweep.is_under_way &&
                   lockfsm_has_left_over(core->fsm, &places)
               ? "state is left to be swept, and no SWEEP is under way"
               : NULL;
}

static const char *check_conn(const struct core *core, const struct conn *conn)
{
    uint32_t open[ORDER_COUNT] = {0};
    uint64_t held = transaction_size(conn);
    for (uint64_t i = conn->first_slot; i < conn->next_slot; i++) {
        const struct slot *slot = &conn->slots[i & (conn->slot_capacity - 1)];
        const struct request *request = slot->request;
        if (request == NULL) {
            /* Answers leave in the order of their requests. */
            if (i == conn->first_slot) {
                return "an answer is ready and was not sent";
            }
            held += slot->reply.size;
            continue;
        }
        if (request->conn != conn || request->slot != i) {
            return "a slot has a request of another connection";
        }
        open[slot->order]++;
        held += request->held_size;
    }
    for (int i = ORDER_CHANGE; i < ORDER_COUNT; i++) {
        if (open[i] != conn->open_count[i]) {
            return "the order of a connection's requests is lost";
        }
    }
    if (conn->session_count != list_count(&conn->sessions) ||
        conn->session_count > core->options.limits.sessions_per_conn) {
        return "the count of a connection's sessions is wrong";
    }
    return held == conn->held_size ? NULL
                                   : "the bytes of a connection are wrong";
}

static const char *check_conns(const struct core *core)
{
    uint64_t held = 0;
    uint32_t count = 0;
    HASH_FOR (const struct conn, conn, core->conns.by_id, by_id) {
        const char *wrong = check_conn(core, conn);
        if (wrong != NULL) {
            return wrong;
        }
        held += conn->held_size;
        count++;
    }
    return held == core->conns.held_size && count == core->conns.count
               ? NULL
               : "the connections' sums are wrong";
}

/* Checks that connections that have been checked come after those that have
 * not. */
static const char *check_due(const struct core *core)
{
    uint32_t count = 0;
    uint64_t looked_at = 0;
    LIST_FOR (const struct conn, conn, &core->conns.due, in_due) {
        if (conn->looked_at < looked_at ||
            conn->looked_at > core->conns.changes) {
            return "the order in which connections are checked is lost";
        }
        looked_at = conn->looked_at;
        count++;
    }
    return count == core->conns.count
               ? NULL
               : "a connection is never checked after a change of rights";
}

const char *core_check(const struct core *core)
{
    static const char *(*const checks[])(const struct core *core) = {
        check_leadership, check_requests, check_propose, check_queued,
        check_sweep,      check_conns,    check_due};
    const char *wrong = NULL;
    for (size_t i = 0; i < sizeof checks / sizeof checks[0] && wrong == NULL;
         i++) {
        wrong = checks[i](core);
    }
    return wrong;
}
