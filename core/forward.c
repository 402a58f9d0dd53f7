/* SPDX-License-Identifier: MIT */

/* Requests between nodes: parking, sending and answering them, and what happens
 * to them when the leader or a link is lost. */

#include "core/forward.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/memory.h"
#include "core/cluster_slot.h"
#include "core/command.h"
#include "core/events/events.h"
#include "core/forward_queue.h"
#include "core/members/peer_filter.h"
#include "core/state.h"

/* The delay before a request that the leader refused is sent to it again. */
#define FORWARD_RETRY_NS (20 * NS_PER_MS)

static void forward_park(struct core *core, struct request *request)
{
    request_move(core, request, REQUEST_PARKED);
}

/* Refuses a request that must not be sent over a link without TLS, because the
 * leader would ignore it. True if the client has been answered; a request that
 * may have taken effect waits for a better link. */
static bool refuse_plain(struct core *core, struct request *request)
{
    if (request_may_be_done(request)) {
        return false;
    }
    request_refuse(core, request, WORD_NOTLS,
                   "this cluster requires authentication, and this node has "
                   "reached the leader without TLS: set tls.peer = require on "
                   "all nodes, or security.insecure = yes");
    return true;
}

/* Sends the request to the leader if it can be reached, or redirects the client
 * to the leader. */
static bool forward_send(struct core *core, struct request *request)
{
    if (core->leader.id == 0 || core->leader.id == core->options.id ||
        standing_of(core, core->leader.id) == STANDING_GUEST) {
        return false;
    }
    /* This node keeps a request that may have taken effect: MOVED would say
     * that it has not. */
    if (core->options.redirect == REDIRECT_MOVED &&
        (request->conn->id & CORE_CONN_BRIEF) == 0 &&
        (request->command->flags & COMMAND_ASKED) == 0 &&
        !request_may_be_done(request)) {
        char address[MEMBER_ADDRESS_SIZE], where[MEMBER_ADDRESS_SIZE + 16];
        forward_client_address(core, core->leader.id, address);
        if (address[0] == '\0') {
            return false;
        }
        bool is_good = request_understand(core, request);
        CHECK(is_good); /* The request was parsed when it was received. */
        snprintf(where, sizeof where, "%u %s", cluster_slot(request->call),
                 address);
        request_refuse(core, request, WORD_MOVED, where);
        return true;
    }
    struct buffer *out = peer_output(core, core->leader.id, FRAME_FORWARD);
    if (out == NULL) {
        return false;
    }
    if (!peer_filter_speaks_for_users(core, core->leader.id)) {
        return refuse_plain(core, request);
    }
    size_t start = out->size;
    buffer_put_bytes(out, buffer_bytes(&request->body));
    frame_stamp_forward(out->data + start, core->leader.term,
                        request_may_be_done(request), request->session,
                        ++request->sending);
    CHECK(request->conn != NULL && request->body.size > 0);
    request->sent_to = core->leader.id;
    request->sent_term = core->leader.term;
    request_mark_sent(request);
    request_release_call(core, request);
    request_move(core, request, REQUEST_FORWARDED);
    return true;
}

/* Answers a COMMAND_ASKED here: when the leader has authorized it, or when
 * there is no leader and the requester uses the local socket. */
static void answer_myself(struct core *core, struct request *request)
{
    bool is_good = request_understand(core, request);
    CHECK(is_good); /* The request was parsed when it was received. */
    request->command->read(core, request);
}

/* A client of the local socket may do everything, so no leader has to authorize
 * it. */
static bool needs_no_leader(const struct request *request)
{
    return (request->command->flags & COMMAND_ASKED) != 0 &&
           request->user == USER_LOCAL && request->conn != NULL;
}

void forward_request(struct core *core, struct request *request)
{
    /* A request that came from a peer is not forwarded again. */
    CHECK(request->conn != NULL);
    request->deadline_ns = core->now_ns + LEADER_WAIT_NS;
    if (core->leader.id == 0 && needs_no_leader(request)) {
        answer_myself(core, request);
    } else if (is_leader(core) || !forward_send(core, request)) {
        forward_park(core, request);
    }
}

void forward_leader_changed(struct core *core)
{
    LIST_FOR_SAFE (struct request, request,
                   &core->requests.at[REQUEST_FORWARDED], in_list) {
        if (request->sent_to != core->leader.id ||
            request->sent_term != core->leader.term) {
            request_return(core, request);
        }
    }
    /* The leader that had refused these requests no longer leads. */
    LIST_FOR (struct request, request, &core->requests.at[REQUEST_PARKED],
              in_list) {
        request->not_before_ns = 0;
    }
}

static void orphan_all(struct core *core, struct list *list, uint64_t peer)
{
    LIST_FOR_SAFE (struct request, request, list, in_list) {
        if (request->conn == NULL && request->peer == peer) {
            request_orphan(core, request);
        }
    }
}

void forward_peer_lost(struct core *core, uint64_t peer)
{
    forward_queue_peer_lost(core, peer);
    LIST_FOR_SAFE (struct request, request,
                   &core->requests.at[REQUEST_FORWARDED], in_list) {
        if (request->sent_to == peer) {
            request_return(core, request);
        }
    }
    /* The lost peer repeats its own requests. Its next process counts
     * connections from the start, so no late answer may reach that process. */
    for (int i = 0; i < REQUEST_STATE_COUNT; i++) {
        orphan_all(core, &core->requests.at[i], peer);
    }
    membership_peer_lost(core, peer);
    transfer_peer_lost(core, peer);
}

/* No leader was found in time. */
static void refuse_late(struct core *core, struct request *request)
{
    if (needs_no_leader(request)) {
        request->read_index = 0; /* No leader has confirmed the index. */
        answer_myself(core, request);
        return;
    }
    request_refuse(core, request, WORD_NOLEADER, "no leader was found");
}

static bool is_retried_transfer(const struct request *request)
{
    return request_may_be_done(request) && request->conn != NULL &&
           (request->command->flags & COMMAND_TRANSFERS) != 0;
}

static void serve_parked(struct core *core)
{
    bool is_open = propose_is_open(core);
    /* Only a leader that serves lets requests in (rule 12). */
    CHECK(is_serving(core));
    LIST_FOR_SAFE (struct request, request, &core->requests.at[REQUEST_PARKED],
                   in_list) {
        if (is_retried_transfer(request)) {
            transfer_answer(core, request);
        } else if (is_open || (request->command->flags & COMMAND_CHANGE) == 0) {
            request_move(core, request, REQUEST_RESUMED);
        }
    }
}

static void send_parked(struct core *core)
{
    /* Without a link the requests stay parked, and are refused in time if none
     * comes. With REDIRECT_MOVED the leader's address suffices. */
    if (!peer_is_up(core, core->leader.id) &&
        core->options.redirect == REDIRECT_FORWARD) {
        return;
    }
    LIST_FOR_SAFE (struct request, request, &core->requests.at[REQUEST_PARKED],
                   in_list) {
        if (request->conn == NULL || request->not_before_ns > core->now_ns) {
            continue;
        }
        if (is_retried_transfer(request)) {
            transfer_answer(core, request);
            continue;
        }
        if (!forward_send(core, request)) {
            break;
        }
    }
}

void forward_turn(struct core *core)
{
    if (list_is_empty(&core->requests.at[REQUEST_PARKED])) {
        return;
    }
    if (is_serving(core)) {
        serve_parked(core);
    } else if (!is_leader(core) && core->leader.id != 0) {
        send_parked(core);
    }
    LIST_FOR_SAFE (struct request, request, &core->requests.at[REQUEST_PARKED],
                   in_list) {
        if (request->deadline_ns > core->now_ns) {
            break;
        }
        refuse_late(core, request);
    }
}

uint64_t forward_next(const struct core *core)
{
    const struct request *first = LIST_FIRST(&core->requests.at[REQUEST_PARKED],
                                             struct request, in_list);
    if (first == NULL) {
        return UINT64_MAX;
    }
    /* Refused requests wait for no more than FORWARD_RETRY_NS before they are
     * sent again. */
    return !is_leader(core) && core->leader.id != 0 &&
                   first->not_before_ns > core->now_ns
               ? first->not_before_ns
               : first->deadline_ns;
}

/* True if this node is the leader to which a request of this term was sent, and
 * it accepts requests. */
static bool leads_in(const struct core *core, uint64_t term)
{
    return is_leader(core) && !core->run.is_stopping &&
           core->apart.until_ns == 0 && term == core->leadership.term;
}

/* Refuses or returns requests that this node must not handle; false if it
 * did. */
static bool may_be_received(struct core *core, struct request *request,
                            uint64_t term)
{
    const struct command *command = request->command;
    if (command == NULL || (command->flags & COMMAND_LOCAL) != 0) {
        return request_refuse(
            core, request, WORD_LEVEL,
            "the leader runs another version and does not know this command; "
            "upgrade all nodes, then run: hasp cluster finalize");
    }
    if (!command_takes(command, request->count)) {
        /* The asked node has accepted it, so that node has another table. */
        return request_refuse(core, request, WORD_BADARG,
                              "wrong number of arguments");
    }
    if (!leads_in(core, term)) {
        /* A late request was meant for a leader whose term is over, and may
         * have been sent to another one since. */
        request_return(core, request);
        return false;
    }
    if (command_is_urgent(command)) {
        return true;
    }
    if (in_flight_is_over(core, request)) {
        return request_refuse(core, request, WORD_BUSY,
                              "too many requests are in flight");
    }
    return !forward_queue_are_over(core, request) ||
           request_refuse(core, request, WORD_BUSY,
                          "too many bytes are in flight");
}

bool forward_may_decide(struct core *core, struct request *request)
{
    command_spend(core, command_cost(request->command));
    if (!leads_in(core, request->sent_term)) {
        request_return(core, request);
    } else if (!is_serving(core)) {
        request->deadline_ns = core->now_ns + LEADER_WAIT_NS;
        forward_park(core, request);
    } else if (!request_understand(core, request)) {
        request_misunderstood(core, request);
    } else {
        return true;
    }
    return false;
}

int forward_received(struct core *core, uint64_t peer, struct bytes body,
                     struct request **ret_request, uint64_t *ret_payer)
{
    struct request *request;
    uint64_t term;
    int error = request_new_remote(core, peer, body, &request, &term);
    if (error != 0) {
        return error;
    }
    request->sent_term = term;
    *ret_payer = request->payer;
    core->stats.counts.commands++;
    if (may_be_received(core, request, term) &&
        !forward_queue_hold(core, request) &&
        forward_may_decide(core, request)) {
        *ret_request = request;
    }
    return 0;
}

int forward_turned_away(struct core *core, uint64_t peer, struct bytes body)
{
    struct request *request;
    uint64_t term;
    int error = request_new_remote(core, peer, body, &request, &term);
    if (error == 0) {
        request_return(core, request);
    }
    return error;
}

static void forward_take_answer(struct core *core, uint64_t peer,
                                struct request *request,
                                const struct frame_answer *answer)
{
    if (answer->kind == ANSWER_NOT_LEADER || answer->kind == ANSWER_UNKNOWN) {
        if (request->state != REQUEST_FORWARDED || request->sent_to != peer) {
            return;
        }
        if (answer->kind == ANSWER_NOT_LEADER) {
            /* This sending is meant: forward_answered() has compared them. */
            request->effect.earlier = false;
        }
        /* The wait for a leader continues; it does not restart. */
        request->not_before_ns = core->now_ns + FORWARD_RETRY_NS;
        if (core->now_ns >= request->deadline_ns ||
            !request_may_go_on(request)) {
            refuse_late(core, request);
        } else {
            forward_park(core, request);
        }
        return;
    }
    CHECK(request->conn != NULL && request->sent_to == peer);
    if (answer->kind == ANSWER_ALLOWED) {
        request->read_index = answer->session;
        answer_myself(core, request);
        return;
    }
    slow_log_waited(core, request, answer->waited_ms);
    struct resp_writer *writer = request_reply(core, request);
    buffer_put_bytes(writer->out, answer->reply);
    /* The leader that answered knew whether the request may have taken effect
     * before, and took that into account. */
    request->outcome = (struct outcome){word_of_peer(answer->word),
                                        answer->has_changed};
    request_done_as(core, request, answer->kind, answer->session);
}

int forward_answered(struct core *core, uint64_t peer, struct bytes body)
{
    struct frame_answer answer;
    int error = frame_get_answer(body, &answer);
    if (error != 0) {
        return error;
    }
    struct conn *conn = conn_find(core, answer.conn);
    if (conn != NULL && answer.slot == SLOT_NONE) {
        events_relay(core, conn, answer.reply);
        return 0;
    }
    struct request *request = conn != NULL
                                  ? conn_slot_request(conn, answer.slot)
                                  : NULL;
    if (request != NULL && (request->state == REQUEST_FORWARDED ||
                            request->state == REQUEST_PARKED)) {
        if (request->sent_to != peer || request->sending != answer.sending) {
            /* Either this peer was not asked, or the request was sent again
             * meanwhile, and the earlier answer that nothing was done no longer
             * holds. */
            return 0;
        }
        if (answer.kind == ANSWER_ALLOWED &&
            (request->command->flags & COMMAND_ASKED) == 0) {
            return HASP_EPROTO;
        }
        forward_take_answer(core, peer, request, &answer);
        return 0;
    }
    /* No client waits for the answer. If it opened a session, that session ends
     * after its linger. */
    struct buffer *out = peer_output(core, peer, FRAME_CLOSED);
    if (answer.kind == ANSWER_ATTACHED && out != NULL &&
        (conn == NULL || attach_find(core, conn, answer.session) == NULL)) {
        frame_put_closed(out, answer.conn, false, &answer.session, 1);
    }
    return 0;
}

int forward_closed(struct core *core, uint64_t peer, struct bytes body)
{
    uint64_t conn;
    uint32_t count;
    bool is_quiet;
    uint64_t *sessions = memory_new(FRAME_SESSION_MAX * sizeof *sessions);
    int error = frame_get_closed(body, &conn, &is_quiet, sessions, &count);
    if (error == 0 && !forward_queue_hold_closed(core, peer, conn, body)) {
        attach_closed_at(core, peer, conn, is_quiet, sessions, count);
    }
    free(sessions);
    return error;
}

void forward_client_address(const struct core *core, uint64_t id,
                            char out[MEMBER_ADDRESS_SIZE])
{
    struct replica_members members;
    replica_members(core->replica, &members);
    out[0] = '\0';
    for (uint32_t i = 0; i < members.count; i++) {
        const char *comma = strchr(members.member[i].address, ',');
        if (members.member[i].id == id && comma != NULL) {
            snprintf(out, MEMBER_ADDRESS_SIZE, "%s", comma + 1);
        }
    }
}
