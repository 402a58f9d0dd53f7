/* SPDX-License-Identifier: MIT */

/* SESSION.*, except KEEP, which is in lease.c. */

#include <stdio.h>

#include "base/check.h"
#include "base/minmax.h"
#include "core/authorize.h"
#include "core/commands/commands.h"
#include "core/commands/listing.h"
#include "core/propose.h"
#include "core/request.h"
#include "core/session/attach.h"
#include "core/session/lease.h"
#include "core/state.h"

#define TTL_DEFAULT_MS 10000

bool session_open_check(struct call *call, struct resp_writer *writer)
{
    bool is_durable = call_number(call, OPTION_TTL, 0) == TTL_NONE;
    if (is_durable && call_has(call, OPTION_LINGER)) {
        return call_fail(call, writer,
                         "LINGER needs a TTL: a session without a TTL "
                         "outlives its connections");
    }
    if (call_number(call, OPTION_LINGER, 0) >
        call_number(call, OPTION_TTL, TTL_DEFAULT_MS)) {
        return call_fail(call, writer, "LINGER must not exceed the TTL");
    }
    if (call_has(call, OPTION_WILL)) {
        if (is_durable || call_has(call, OPTION_LINGER)) {
            return call_fail(call, writer,
                             "WILL needs a TTL, and excludes LINGER: a session "
                             "ends by one of them when its process dies");
        }
        if (!hex_get(call->text[OPTION_WILL], call->will, PROOF_SIZE)) {
            return call_fail(call, writer, "WILL must be 64 hex digits");
        }
    }
    if (call_has(call, OPTION_PROOF) &&
        !hex_get(call->text[OPTION_PROOF], call->proof, PROOF_SIZE)) {
        return call_fail(call, writer, "PROOF must be 64 hex digits");
    }
    /* The answer to a repeated OPEN could not contain the secret again. */
    if (call_has(call, OPTION_REQ) && !call_has(call, OPTION_PROOF)) {
        return call_fail(call, writer, "REQ needs PROOF");
    }
    return true;
}

void session_open_propose(struct core *core, struct request *request,
                          const struct call *call)
{
    uint64_t max = lockfsm_limit(core->fsm, LIMIT_TTL_MAX);
    uint64_t otherwise = u64_min(TTL_DEFAULT_MS, max);
    uint64_t ttl_ms = call_number(call, OPTION_TTL, otherwise);
    bool is_durable = ttl_ms == TTL_NONE;
    struct open_command open = {
        .origin = call_has(call, OPTION_REQ) ? call_origin(request, call)
                                             : (struct origin){0},
        .is_durable = is_durable,
        .wall_ms = is_durable ? core->port.wall_ms(core->port.data) : 0,
        .ttl_ms = is_durable ? 0 : (uint32_t)ttl_ms,
        .linger_ms = (uint32_t)call_number(call, OPTION_LINGER, 0),
        .name = call_has(call, OPTION_NAME) ? call->text[OPTION_NAME]
                                            : request_client(request),
        .address = request_address(request),
        .labels = call->labels,
        .label_count = call->label_count,
    };
    /* The log gets only the proof (a hash): a reader of the log or of a backup
     * must not be able to act for sessions. */
    if (call_has(call, OPTION_WILL)) {
        memcpy(open.will, call->will, PROOF_SIZE);
    }
    if (call_has(call, OPTION_PROOF)) {
        memcpy(open.proof, call->proof, PROOF_SIZE);
    } else {
        uint8_t secret[SECRET_SIZE];
        core->port.random(core->port.data, secret, sizeof secret);
        hex_put(request->secret, bytes_of(secret, sizeof secret));
        CHECK(call_secret(bytes_of_text(request->secret), open.proof));
    }
    propose_open(core, request, &open);
}

void session_open_reply(struct core *core, struct request *request,
                        const struct result *result)
{
    const struct session *session = lockfsm_session(core->fsm, result->token);
    /* A repeated OPEN (rule 20) can be answered after its session has ended. */
    if (session == NULL) {
        request_fail(core, request, WORD_NOSESSION,
                     BYTES_LITERAL("the session that was opened with this "
                                   "number has ended"));
        return;
    }
    bool has_secret = request->secret[0] != '\0';
    struct resp_writer *writer = request_reply(core, request);
    resp_map(writer, has_secret ? 5 : 4);
    resp_key_number(writer, "id", session->id);
    if (has_secret) {
        resp_key_text(writer, "secret", request->secret);
    }
    lease_put_times(writer, session);
    request_done_as(core, request, ANSWER_ATTACHED, session->id);
}

void session_attach_read(struct core *core, struct request *request)
{
    const struct call *call = request->call;
    const struct session *session = lockfsm_session(core->fsm, call->id);
    /* A foreign session is answered like one that does not exist, so that
     * nobody learns which ids exist. */
    if (session == NULL || session->user_number != request->user ||
        !lease_proof_is(session, call->proof)) {
        request_refuse(core, request, WORD_NOSESSION,
                       "no such session, or a wrong secret");
        return;
    }
    struct resp_writer *writer = request_reply(core, request);
    if (call_has(call, OPTION_FULL)) {
        resp_map(writer, 3);
        lease_put_times(writer, session);
    } else {
        resp_simple(writer, "OK");
    }
    request_has_changed(request);
    request_done_as(core, request, ANSWER_ATTACHED, session->id);
}

void session_detach_run(struct core *core, struct request *request)
{
    /* choose_session() has found one. */
    CHECK(request->conn != NULL && request->session != 0);
    attach_detach(core, request->conn, request->session);
    request_answer_ok(core, request);
}

/* Removes FULL and AFTER from the end of the arguments. */
static bool keep_options(struct call *call, uint32_t *rest,
                         struct resp_writer *writer)
{
    for (;;) {
        const struct bytes *last = &call->argument[*rest];
        /* The options are read from the end: any number of pairs precedes
         * them. */
        if (*rest > 0 && bytes_is_word(last[0], "FULL")) {
            call->given |= UINT64_C(1) << OPTION_FULL;
            *rest -= 1;
        } else if (*rest > 1 && bytes_is_word(last[-1], "AFTER")) {
            if (!bytes_to_u64(last[0], &call->number[OPTION_AFTER])) {
                return call_fail(call, writer,
                                 "AFTER must be a decimal integer");
            }
            call->given |= UINT64_C(1) << OPTION_AFTER;
            *rest -= 2;
        } else {
            return true;
        }
    }
}

bool session_keep_parse(struct call *call, struct resp_writer *writer)
{
    uint32_t rest = call->count - 1;
    if (!keep_options(call, &rest, writer)) {
        return false;
    }
    if (rest == 2 && bytes_is_word(call->argument[1], "SESSION")) {
        uint64_t id;
        if (!bytes_to_u64(call->argument[2], &id) || id == 0) {
            return call_fail(call, writer, "SESSION must be a decimal integer");
        }
        call->number[OPTION_SESSION] = id;
        call->given |= UINT64_C(1) << OPTION_SESSION;
        return true;
    }
    if (rest % 2 != 0) {
        return call_fail(call, writer, "each id needs its secret");
    }
    call->pair_count = rest / 2;
    return true;
}

void session_close_reply(struct core *core, struct request *request,
                         const struct result *result)
{
    /* The command has the flag COMMAND_SESSION. */
    CHECK(request->session != 0);
    resp_integer(request_reply(core, request), (int64_t)result->count);
    request_done_as(core, request, ANSWER_ENDED, request->session);
}

bool session_died_parse(struct call *call, struct resp_writer *writer)
{
    uint32_t rest = call->count - 1;
    uint8_t will[PROOF_SIZE];
    if (rest % 2 != 0) {
        return call_fail(call, writer, "each id needs its word");
    }
    if (rest / 2 > TESTIMONY_COUNT_MAX) {
        return call_fail(call, writer, "at most 100 sessions in one request");
    }
    for (uint32_t i = 1; i < call->count; i += 2) {
        uint64_t id;
        if (!bytes_to_u64(call->argument[i], &id) || id == 0) {
            return call_fail(call, writer,
                             "a session's id must be a decimal integer");
        }
        if (!call_secret(call->argument[i + 1], will)) {
            return call_fail(call, writer,
                             "a death word must have 32 hex digits");
        }
    }
    call->pair_count = rest / 2;
    return true;
}

void session_died_propose(struct core *core, struct request *request,
                          const struct call *call)
{
    struct testimony testimonies[TESTIMONY_COUNT_MAX];
    CHECK(call->pair_count <= TESTIMONY_COUNT_MAX);
    /* The log gets only the hash: a word that is wrong for this session may be
     * that of another one, which lives. */
    for (uint32_t i = 0; i < call->pair_count; i++) {
        struct testimony *one = &testimonies[i];
        bool is_parsed = bytes_to_u64(call->argument[1 + 2 * i],
                                      &one->session) &&
                         call_secret(call->argument[2 + 2 * i], one->will);
        CHECK(is_parsed); /* session_died_parse() has checked both. */
    }
    propose_died(core, request,
                 &(struct died_command){.testimonies = testimonies,
                                        .testimony_count = call->pair_count});
}

static void session_put_session(struct core *core,
                                const struct session *session,
                                struct resp_writer *writer)
{
    /* Only the leader knows how much of a lease is left. */
    CHECK(is_serving(core));
    resp_map(writer, session->is_durable ? 13 : 12);
    resp_key_number(writer, "id", session->id);
    resp_key_bulk(writer, "name", session->name);
    resp_key_bulk(writer, "address", session->address);
    resp_text(writer, "ttl_ms");
    lease_put_time(writer, session, session->ttl_ms);
    resp_key_integer(writer, "linger_ms", session->linger_ms);
    resp_text(writer, "left_ms");
    lease_put_time(writer, session,
                   timers_lease_left(core->timers, session->id, core->now_ns) /
                       NS_PER_MS);
    if (session->is_durable) {
        resp_key_number(writer, "opened_ms", session->opened_ms);
    }
    resp_key_integer(writer, "holds", session->hold_count);
    resp_key_integer(writer, "waits", session->wait_count);
    resp_text(writer, "labels");
    resp_map(writer, session->label_count);
    for (uint32_t i = 0; i < session->label_count; i++) {
        resp_bulk(writer, session->labels[i].key);
        resp_bulk(writer, session->labels[i].value);
    }
    resp_key_bool(writer, "blacklisted",
                  session_is_refused(core->fsm, session));
    resp_key_bulk(writer, "user", session->user->name);
    /* Whether SESSION.DIED can end it; the word itself is not stored. */
    resp_key_bool(writer, "will", session_has_will(session));
}

void session_show_read(struct core *core, struct request *request)
{
    const struct session *session = lockfsm_session(core->fsm,
                                                    request->call->id);
    if (session == NULL ||
        !authorize_sees(core, request, session->user_number)) {
        request_refuse(core, request, WORD_NOSESSION, "no such session");
        return;
    }
    session_put_session(core, session, request_reply(core, request));
    request_done(core, request);
}

static void session_row(struct core *core, const struct request *request,
                        const struct treap_node *node,
                        struct resp_writer *writer)
{
    (void)request;
    session_put_session(core, LIST_ENTRY(node, const struct session, in_order),
                        writer);
}

static void session_row_of_user(struct core *core,
                                const struct request *request,
                                const struct treap_node *node,
                                struct resp_writer *writer)
{
    (void)request;
    session_put_session(core, LIST_ENTRY(node, const struct session, in_user),
                        writer);
}

/* Sessions are ordered by client name, which PREFIX starts, and then by id. */
void session_list_read(struct core *core, struct request *request)
{
    /* A client without the right sees its own user's sessions, from an order
     * that has no others: it cannot make the node pass over thousands. */
    bool sees_all = authorize_has(core, request, VERB_SESSIONS);
    listing_answer(core, request,
                   sees_all
                       ? lockfsm_session_order(core->fsm)
                       : lockfsm_session_order_of(core->fsm, request->user),
                   true, sees_all ? session_row : session_row_of_user);
}
