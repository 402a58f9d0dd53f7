/* SPDX-License-Identifier: MIT */

/* The path of a request through the core, up to the decision. */

#include "core/dispatch.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/account.h"
#include "base/check.h"
#include "base/doing.h"
#include "base/memory.h"
#include "base/minmax.h"
#include "core/authorize.h"
#include "core/command.h"
#include "core/conn.h"
#include "core/forward.h"
#include "core/members/feature.h"
#include "core/propose.h"
#include "core/read_index.h"
#include "core/request.h"
#include "core/scripts.h"
#include "core/session/attach.h"
#include "core/state.h"
#include "core/transaction.h"

/* EVALSHA is forwarded as EVAL with the text, because another node may not have
 * it. The text of an EVAL is stored, so that EVALSHA works from then on. NULL:
 * it is forwarded unchanged; otherwise the arguments, to be freed. */
static struct bytes *with_text(struct core *core, const struct bytes *argument,
                               uint32_t count)
{
    char sha[SHA1_TEXT_SIZE];
    struct bytes text;
    if (bytes_is_word(argument[0], "EVAL")) {
        scripts_load(&core->scripts, argument[1], sha);
        return NULL;
    }
    if (!scripts_find(&core->scripts, argument[1], &text)) {
        return NULL;
    }
    struct bytes *eval = memory_copy(argument, count * sizeof *argument);
    eval[0] = BYTES_LITERAL("EVAL");
    eval[1] = text;
    return eval;
}

/* Keeps the request as received, or as it is forwarded to the leader. False if
 * it has been answered. */
static bool dispatch_keep(struct core *core, struct request *request,
                          const struct bytes *argument, uint32_t count)
{
    struct bytes *own = NULL;
    struct buffer room = {0};
    if ((request->command->flags & COMMAND_SCRIPT) != 0) {
        own = with_text(core, argument, count);
    } else if (bytes_is_word(argument[0], "EXEC")) {
        own = transaction_end(core, request, count, &room, &count);
        if (own == NULL) {
            return false;
        }
    }
    request_keep(core, request, own != NULL ? own : argument, count);
    free(own);
    buffer_done(&room);
    return true;
}

/* Keeps and parses a request of this node, unless it can be answered at once.
 * False if it has been answered. */
static bool dispatch_understand(struct core *core, struct request *request,
                                const struct bytes *argument, uint32_t count)
{
    bool is_good;
    if ((request->command->flags & COMMAND_LOCAL) != 0) {
        is_good = request_understand_borrowed(core, request, argument, count);
    } else if (dispatch_keep(core, request, argument, count)) {
        is_good = request_understand(core, request);
    } else {
        return false;
    }
    if (!is_good) {
        request_done(core, request);
    }
    return is_good;
}

static bool refuse_arity(struct core *core, struct request *request)
{
    bool is_ours = (request->command->flags & COMMAND_REDIS) == 0;
    char name[64], why[128];
    if (is_ours) {
        return request_refuse(core, request, WORD_BADARG,
                              "wrong number of arguments");
    }
    command_name(request->command, name, sizeof name);
    snprintf(why, sizeof why, "wrong number of arguments for '%s' command",
             name);
    return request_refuse(core, request, WORD_ERR, why);
}

static bool refuse_subscriber(struct core *core, struct request *request)
{
    char name[64], why[192];
    command_name(request->command, name, sizeof name);
    snprintf(why, sizeof why,
             "Can't execute '%s': only (P)SUBSCRIBE / (P)UNSUBSCRIBE / PING / "
             "QUIT / RESET are allowed in this context",
             name);
    return request_refuse(core, request, WORD_ERR, why);
}

/* True if the requester is known, or need not be. */
static bool is_known(struct core *core, struct request *request)
{
    struct conn *conn = request->conn;
    uint64_t slot = request->slot;
    char why[HASP_WHY_SIZE];
    bool is_certified = conn->certified != NULL;
    /* Changes of users that this node has not applied may have revoked what
     * this connection relies on (pending_access.h). */
    if ((is_certified || request->command->needs != NEEDS_NOTHING) &&
        identity_is_pending(core, conn)) {
        request_refuse(core, request, WORD_NOLEADER, PENDING_ACCESS_WHY);
        if (is_certified) {
            conn_quit(core, conn, slot);
        }
        return false;
    }
    if (identity_is_void(core, conn, why)) {
        const struct user *user = conn->is_surplus
                                      ? lockfsm_user_named(
                                            core->fsm,
                                            bytes_of_text(conn->certified))
                                      : NULL;
        /* The certificate is valid, so the denial is its user's. */
        request->user = user != NULL ? user->number : request->user;
        request_refuse(core, request,
                       conn->is_surplus ? WORD_QUOTA : WORD_NOAUTH, why);
        conn_quit(core, conn, slot);
        return false;
    }
    if (request->command->needs != NEEDS_NOTHING && conn->user == USER_ANYONE &&
        lockfsm_access_is_required(core->fsm)) {
        return request_refuse(
            core, request, WORD_NOAUTH,
            "not authenticated: present a client certificate or use AUTH");
    }
    return true;
}

/* Makes the checks that precede parsing the arguments; false if the command has
 * been refused. */
static bool may_begin(struct core *core, struct request *request,
                      uint32_t count)
{
    const struct command *command = request->command;
    struct conn *conn = request->conn;
    if (!is_known(core, request)) {
        return false;
    }
    if (!command_takes(command, count)) {
        return refuse_arity(core, request);
    }
    if (conn->version == 2 && conn->channel_count > 0 &&
        (command->flags & COMMAND_PUBSUB) == 0) {
        return refuse_subscriber(core, request);
    }
    if ((command->flags & COMMAND_LOCAL) != 0) {
        return true;
    }
    if (core->run.is_stopping) {
        return request_refuse(core, request, WORD_NOLEADER,
                              "this node is stopping");
    }
    char why[HASP_WHY_SIZE];
    if (core_is_apart(core, why)) {
        return request_refuse(core, request, WORD_NOLEADER, why);
    }
    if (drain_refuses(core, conn)) {
        conn->must_leave = true;
        return request_refuse(core, request, WORD_NOLEADER,
                              "this node is drained: use another one");
    }
    /* A heartbeat, or a release, must get through when others fill the node:
     * refusing it would end leases or keep locks. */
    if (command_is_urgent(command)) {
        return true;
    }
    if (in_flight_is_over(core, request)) {
        return request_refuse(core, request, WORD_BUSY,
                              "too many requests are in flight");
    }
    if (conn_is_over(core, conn)) {
        return request_refuse(core, request, WORD_BUSY,
                              "too many bytes are in flight");
    }
    return true;
}

/* Checks a change against the bounds configured on this node, the asked one. A
 * command that only releases has none. */
static bool has_good_sizes(struct core *core, struct request *request,
                           const struct call *call)
{
    static const enum option texts[] = {OPTION_VALUE, OPTION_MESSAGE};
    const struct core_limits *limits = &core->options.limits;
    uint32_t flags = request->command->flags;
    uint64_t name_size = 0;
    uint64_t value_size = 0;
    /* What exists can be released whatever its size, also after a bound was
     * lowered. */
    if ((flags & COMMAND_CHANGE) == 0 || (flags & COMMAND_FREES) != 0) {
        return true;
    }
    for (uint32_t i = 0; i < call->name_count; i++) {
        name_size = u64_max(name_size, call->names[i].size);
    }
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        if (call_has(call, texts[i])) {
            value_size = u64_max(value_size, call->text[texts[i]].size);
        }
    }
    if (limits->name_size != 0 && name_size > limits->name_size) {
        return request_refuse(core, request, WORD_LIMIT, "size of a name");
    }
    if (limits->value_size != 0 && value_size > limits->value_size) {
        return request_refuse(core, request, WORD_LIMIT, "size of a value");
    }
    return true;
}

/* Finds the session that acts. Only this node knows which sessions are attached
 * to the connection, so no other node is asked. */
static bool choose_session(struct core *core, struct request *request,
                           const struct call *call)
{
    uint32_t flags = request->command->flags;
    /* The node that forwarded the request has chosen the session. */
    CHECK(request->conn != NULL);
    if ((flags & COMMAND_ATTACHES) != 0 &&
        !attach_has_room(core, request->conn) &&
        (!call->has_id || attach_find(core, request->conn, call->id) == NULL)) {
        return request_refuse(core, request, WORD_LIMIT,
                              "sessions of a connection");
    }
    if ((flags & (COMMAND_SESSION | COMMAND_ORIGIN)) == 0) {
        return true;
    }
    if ((flags & COMMAND_ATTACHES) == 0 || call_has(call, OPTION_REQ)) {
        request->session = attach_newest(request->conn);
    }
    if ((flags & (COMMAND_SESSION | COMMAND_CHOOSES)) != 0 &&
        call_has(call, OPTION_SESSION)) {
        request->session = call->number[OPTION_SESSION];
        if (attach_find(core, request->conn, request->session) == NULL) {
            return request_refuse(
                core, request, WORD_NOSESSION,
                "that session is not attached to this connection");
        }
    }
    if (request->session == 0 && call->pair_count == 0 &&
        ((flags & COMMAND_SESSION) != 0 ||
         (call_has(call, OPTION_REQ) && (flags & COMMAND_ATTACHES) == 0))) {
        return request_refuse(core, request, WORD_NOSESSION,
                              "no session is attached to this connection");
    }
    return true;
}

/* The names that a command touches, a bit for the hash of each; all bits if it
 * may touch any name. */
static uint64_t touched_names(const struct call *call)
{
    const struct bytes *name = call->names;
    uint32_t count = call->name_count;
    uint64_t touched = 0;
    if (count == 0 && call->command->key_at != 0) {
        CHECK(call->command->key_at <= call->count);
        name = &call->argument[call->command->key_at];
        /* Some of these may be values, which does no harm. */
        count = call->count - call->command->key_at;
    }
    for (uint32_t i = 0; i < count; i++) {
        touched |= UINT64_C(1) << hash_bytes(name[i].data, name[i].size) % 64;
    }
    return count == 0 ? UINT64_MAX : touched;
}

/* The requests with which this one keeps its order: changes or reads; both for
 * a Redis command that changes something. */
static enum conn_order dispatch_order_of(const struct command *command)
{
    if ((command->flags & COMMAND_CHANGE) == 0) {
        return ORDER_READ;
    }
    return (command->flags & COMMAND_REDIS) == 0 ? ORDER_CHANGE : ORDER_EITHER;
}

/* Puts the request in the order of its connection; false if it must wait for an
 * earlier one. A heartbeat has no order. */
static bool dispatch_in_order(struct core *core, struct request *request,
                              const struct call *call)
{
    return (request->command->flags & COMMAND_KEEPS) != 0 ||
           conn_order_slot(core, request->conn, request->slot,
                           dispatch_order_of(request->command),
                           touched_names(call));
}

static bool may_wait(const struct command *command, const struct call *call)
{
    return (command->flags & COMMAND_BLOCKS) != 0 ||
           (call_number(call, OPTION_WAIT, 0) != 0 &&
            !call_has(call, OPTION_PUSH));
}

/* The explanation for a command that Redis lock clients may expect and hasp
 * does not have. */
static const char *dispatch_why_not(const struct core *core, struct bytes name)
{
    static const char function[] = ": hasp has no functions; send the script "
                                   "with EVAL";
    static const struct {
        const char *name;
        const char *why;
    } known[] = {{"FCALL", function}, {"FUNCTION", function}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (bytes_is_word(name, known[i].name)) {
            return known[i].why;
        }
    }
    return core->run.commands->is_for_scripts(name)
               ? ": hasp supports it only in scripts; send one with EVAL"
               : "";
}

static void unknown_command(struct core *core, struct request *request,
                            struct bytes name)
{
    char shown[128], why[256];
    size_t size = name.size < sizeof shown - 1 ? name.size : sizeof shown - 1;
    for (size_t i = 0; i < size; i++) {
        shown[i] = isprint(name.data[i]) ? (char)name.data[i] : '?';
    }
    shown[size] = '\0';
    snprintf(why, sizeof why, "unknown command '%s'%s", shown,
             dispatch_why_not(core, name));
    request_refuse(core, request, WORD_ERR, why);
}

/* Queues a command after MULTI, or refuses it, and with it the whole
 * transaction. */
static void dispatch_queue(struct core *core, struct request *request,
                           const struct bytes *argument, uint32_t count)
{
    struct conn *conn = request->conn;
    char name[64], why[160];
    /* As in Redis, a command that cannot be queued makes EXEC fail: the others
     * must not be executed without it. */
    if ((request->command->flags & COMMAND_QUEUES) == 0) {
        command_name(request->command, name, sizeof name);
        snprintf(why, sizeof why,
                 "'%s' is not allowed in a transaction: only commands on keys "
                 "are",
                 name);
        transaction_break(conn);
        request_refuse(core, request, WORD_ERR, why);
    } else if (!request_understand_borrowed(core, request, argument, count)) {
        transaction_break(conn);
        request_done(core, request);
    } else if (has_good_sizes(core, request, request->call)) {
        transaction_queue(core, request, request->call);
    } else {
        transaction_break(conn);
    }
}

void dispatch_received(struct core *core, struct conn *conn,
                       const struct bytes *argument, uint32_t count)
{
    CHECK(count > 0); /* The parser returns no empty request. */
    identity_find_again(core, conn);
    struct request *request = request_new_local(core, conn);
    core->stats.counts.commands++;
    request->command = command_find(core, argument[0]);
    if (request->command == NULL) {
        transaction_break(conn);
        unknown_command(core, request, argument[0]);
        return;
    }
    doing_now.command = request->command->name;
    command_spend(core, command_cost(request->command));
    if (!may_begin(core, request, count)) {
        transaction_break(conn);
        return;
    }
    if (transaction_is_open(conn) &&
        (request->command->flags & COMMAND_PASSES) == 0) {
        dispatch_queue(core, request, argument, count);
        return;
    }
    if (!dispatch_understand(core, request, argument, count)) {
        return;
    }
    const struct call *call = request->call;
    if ((request->command->flags & COMMAND_LOCAL) != 0) {
        if (authorize_passes(core, request, call, true) &&
            choose_session(core, request, call)) {
            request->command->run(core, request);
        }
        return;
    }
    if (!has_good_sizes(core, request, call) ||
        !choose_session(core, request, call) ||
        (bytes_is_word(argument[0], "WATCH") &&
         !transaction_watch(core, request, call))) {
        return;
    }
    request->req = call_req(request, call);
    conn->hears_answers |= call_has(call, OPTION_PUSH);
    if (may_wait(request->command, call)) {
        conn_block(core, conn, request->slot);
    } else {
        conn_block_update(core, conn);
    }
    bool is_next = dispatch_in_order(core, request, call);
    if (!is_next) {
        return;
    }
    if (is_serving(core)) {
        dispatch_decide(core, request);
    } else {
        forward_request(core, request);
    }
}

/* True if the request was sent before and has taken effect, or may have: one
 * with its number is under way. A refusal would say that nothing was done, and
 * the client would not release what was granted. */
static bool is_repeated(struct core *core, const struct request *request,
                        const struct call *call)
{
    struct origin origin = call_origin(request, call);
    if (origin.req == 0) {
        return false;
    }
    if ((request->command->flags & COMMAND_SESSION) != 0 &&
        lockfsm_session(core->fsm, origin.session) == NULL) {
        /* The results ended with the session, so the answer is EXPIRED. */
        return true;
    }
    struct request_number number = {origin.session, origin.req};
    CHECK(request->state != REQUEST_LOGGED);
    return requests_are_logged(core, &number) ||
           lockfsm_was_asked(core->fsm, origin.session, origin.req);
}

static bool has_no_disk(struct core *core, const struct request *request,
                        const struct call *call)
{
    return core->run.disk != CORE_DISK_OK &&
           (request->command->flags & COMMAND_FREES) == 0 &&
           !is_repeated(core, request, call);
}

void dispatch_refuse_for_disk(struct core *core, struct request *request)
{
    CHECK(core->run.disk != CORE_DISK_OK);
    if (core->run.disk == CORE_DISK_FULL) {
        request_refuse(core, request, WORD_LIMIT,
                       "disk: the leader's disk is nearly full");
    } else {
        /* The disk recovers or another node leads soon, so clients retry. */
        request_refuse(core, request, WORD_BUSY,
                       "the leader's disk is too slow");
    }
}

/* True for an attempt without WAIT while no lock is granted to anybody.
 * Answering nil would say that another client has the lock. Waiting requests
 * keep their place and are granted in turn; a client that repeats one without
 * WAIT gives its place up. */
static bool dispatch_is_futile(struct core *core, const struct request *request,
                               const struct call *call)
{
    return (call->command->flags & COMMAND_ACQUIRES) != 0 &&
           call_number(call, OPTION_WAIT, 0) == 0 &&
           lockfsm_quarantine(core->fsm, NULL) != 0 &&
           !request_may_be_done(request) && !is_repeated(core, request, call);
}

static void refuse_futile(struct core *core, struct request *request)
{
    char why[128];
    int size = snprintf(why, sizeof why,
                        "quarantine after a restore: nothing is granted for "
                        "another %" PRIu64 " ms",
                        core_quarantine_ms(core));
    request_fail(core, request, WORD_BUSY, bytes_of(why, (size_t)size));
}

/* Names the request as the work of this thread. */
static struct doing dispatch_begin(const struct request *request)
{
    const struct conn *conn = request->conn;
    struct doing work = {
        .what = "request",
        .command = request->command != NULL ? request->command->name : NULL,
        .address = conn != NULL ? bytes_of_text(conn->address)
                                : request->address,
        .client = conn != NULL ? conn->name : request->client,
        .user = request->user,
        .session = request->session,
        .log_index = doing_now.log_index,
        .peer = request->peer};
    return doing_begin(&work);
}

static void decide_now(struct core *core, struct request *request)
{
    const struct command *command = request->command;
    const struct call *call = request->call;
    CHECK(is_serving(core) && call != NULL && call->command == command);
    request->must_be_refused = false;
    request->is_pushed = call_has(call, OPTION_PUSH);
    request->is_full = call_has(call, OPTION_FULL);
    if (request->is_pushed) {
        attach_hear(core, request->session);
    }
    bool is_read = (command->flags & COMMAND_READ) != 0 && command->run == NULL;
    if (!is_read && !authorize_passes(core, request, call, false)) {
        return;
    }
    if ((command->flags & COMMAND_CHANGE) != 0) {
        if (has_no_disk(core, request, call)) {
            if (call_number(call, OPTION_REQ, 0) == 0) {
                dispatch_refuse_for_disk(core, request);
                return;
            }
            /* Another node may lead and have granted it, so leadership must be
             * confirmed before the request is refused (rule 13). */
            request->must_be_refused = true;
            read_index_enqueue(core, request);
            return;
        }
        if (dispatch_is_futile(core, request, call)) {
            refuse_futile(core, request);
            return;
        }
        if (!propose_is_open(core)) {
            request->deadline_ns = core->now_ns + LEADER_WAIT_NS;
            request_move(core, request, REQUEST_PARKED);
            return;
        }
    }
    if (command->run != NULL) {
        command->run(core, request);
    } else if ((command->flags & COMMAND_CHANGE) != 0) {
        command->propose(core, request, call);
    } else {
        read_index_enqueue(core, request);
    }
}

void dispatch_decide(struct core *core, struct request *request)
{
    struct doing before = dispatch_begin(request);
    decide_now(core, request);
    doing_end(&before);
}

/* Decides on the request again. */
static void dispatch_resume(struct core *core, struct request *request)
{
    request_leave(core, request);
    if (request_understand(core, request)) {
        dispatch_decide(core, request);
    } else {
        /* A request of this node was parsed before it was parked, so this one
         * came from a peer. */
        CHECK(request->conn == NULL);
        request_misunderstood(core, request);
    }
}

/* The cost of a command was counted on receipt; a read that takes longer is
 * charged as well. Returns what the read has taken from the turn. */
static uint64_t dispatch_read_and_pay(struct core *core,
                                      struct request *request)
{
    struct account *account = core->options.account;
    uint64_t cost = command_cost(request->command);
    uint64_t payer = request->payer;
    if (account == NULL) {
        dispatch_read(core, request);
        return cost;
    }
    account_start(account);
    dispatch_read(core, request);
    return u64_max(cost, account_charge_key(account, payer));
}

void dispatch_run_ready(struct core *core)
{
    const struct list *resumed = &core->requests.at[REQUEST_RESUMED];
    const struct list *ready = &core->requests.at[REQUEST_READY];
    while (!list_is_empty(resumed)) {
        dispatch_resume(core, LIST_FIRST(resumed, struct request, in_list));
    }
    /* Scans for which no budget is left stay in the list, and other requests
     * pass them. Otherwise heartbeats would wait for clients that list very
     * many locks. Heartbeats come first and are never delayed. */
    const struct list *before = ready;
    while (before->next != ready) {
        struct request *request = LIST_ENTRY(before->next, struct request,
                                             in_list);
        uint32_t flags = request->command->flags;
        if (core->turn.read_budget == 0 && (flags & COMMAND_KEEPS) == 0) {
            core->turn.has_left_over = true;
            return;
        }
        if (core->turn.scan_budget == 0 && (flags & COMMAND_SCANS) != 0) {
            core->turn.has_left_over = true;
            before = before->next;
            continue;
        }
        /* The measured cost counts: LOCK.WHY of a crowded lock takes a hundred
         * times as long as GET. */
        uint64_t cost = dispatch_read_and_pay(core, request);
        core->turn.read_budget -= u64_min(core->turn.read_budget, cost);
    }
}

static void read_now(struct core *core, struct request *request)
{
    const struct call *call = request->call;
    /* A request that waits for a read keeps its parsed call. */
    CHECK(call != NULL);
    request_leave(core, request);
    if (!request->must_be_refused) {
        if (authorize_passes(core, request, call, true) &&
            authorize_is_own(core, request, call)) {
            request->command->read(core, request);
        }
        return;
    }
    if (has_no_disk(core, request, call)) {
        /* Leadership is confirmed, and no entry has the request's number: no
         * earlier leader has logged it, nor can one still do so. */
        if (request->req != 0) {
            request->effect = (struct request_effect){false, false};
        }
        dispatch_refuse_for_disk(core, request);
    } else {
        request->is_confirmed = true;
        dispatch_decide(core, request);
    }
}

void dispatch_read(struct core *core, struct request *request)
{
    struct doing before = dispatch_begin(request);
    read_now(core, request);
    doing_end(&before);
}

void dispatch_result(struct core *core, struct request *request,
                     const struct result *result)
{
    const struct command *command = request->command;
    enum result_code code = result->code;
    if (code == RESULT_NO_SESSION && request->session != 0 &&
        (command->flags & COMMAND_SESSION) != 0) {
        code = RESULT_EXPIRED; /* The session acts, so it once existed. */
    }
    bool is_redis = (command->flags & COMMAND_REDIS) != 0;
    if (request->req != 0) {
        /* The log executed it at most once, and this is its result, whichever
         * leader logged it first. */
        request->effect.earlier = false;
    }
    if (code != RESULT_OK) {
        request->effect.own = false; /* The entry has changed nothing. */
    }
    request->outcome.has_changed = code == RESULT_OK;
    if (command->reply_kind == REPLY_OWN &&
        (code == RESULT_OK || (is_redis && (code == RESULT_NOT_ACQUIRED ||
                                            code == RESULT_NOT_HELD)))) {
        command->reply(core, request, result);
        return;
    }
    struct resp_writer *writer = request_reply(core, request);
    if (code == RESULT_NOT_ACQUIRED) {
        if (command->reply_kind == REPLY_TOKENS) {
            resp_null_array(writer);
        } else {
            resp_null(writer);
        }
    } else if (code != RESULT_OK) {
        CHECK(code != RESULT_QUEUED);
        struct bytes text = result_text(code, result->text);
        request_fail(core, request, result_word(code), text);
        return;
    } else if (request->is_full && (command->flags & COMMAND_CHANGE) != 0) {
        grants_answer(core, request, result);
        return;
    } else if (command->reply_kind == REPLY_TOKEN) {
        resp_integer(writer, (int64_t)result->token);
    } else if (command->reply_kind == REPLY_TOKENS) {
        resp_array(writer, result->token_count);
        for (uint32_t i = 0; i < result->token_count; i++) {
            resp_integer(writer, (int64_t)result->tokens[i]);
        }
    } else if (command->reply_kind == REPLY_OK) {
        resp_simple(writer, "OK");
    } else {
        resp_integer(writer, (int64_t)result->count);
    }
    request_done(core, request);
}
