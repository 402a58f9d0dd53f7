/* SPDX-License-Identifier: MIT */

/* SESSION.KEEP: heartbeats on receipt, and when they are answered. */

#include "base/check.h"
#include "core/commands/commands.h"
#include "core/propose.h"
#include "core/read_index.h"
#include "core/request.h"
#include "core/session/lease.h"
#include "core/state.h"

/* One session that a heartbeat names. */
struct beat {
    uint64_t id;
    /* NULL for an attached session, which needs no proof. */
    const uint8_t *proof;
    /* NULL if there is no such session, or the proof is wrong. */
    const struct session *session;
};

static uint32_t beat_count(const struct call *call)
{
    return call->pair_count > 0 ? call->pair_count : 1;
}

/* The i-th session that the heartbeat names, or the one that acts if it names
 * none. */
static struct beat beat_at(struct core *core, const struct request *request,
                           const struct call *call, uint32_t i,
                           uint8_t proof[PROOF_SIZE])
{
    struct beat beat = {.id = request->session};
    CHECK(i < beat_count(call));
    if (call->pair_count > 0) {
        struct bytes id = call->argument[1 + 2 * i];
        struct bytes secret = call->argument[2 + 2 * i];
        beat.proof = proof;
        if (!bytes_to_u64(id, &beat.id) || !call_secret(secret, proof)) {
            beat.id = 0;
        }
    }
    beat.session = lockfsm_session(core->fsm, beat.id);
    /* A session of another user, or a wrong secret, is answered like an id that
     * does not exist, so that nobody learns which ids exist. */
    if (beat.session != NULL &&
        (beat.session->user_number != request->user ||
         (beat.proof != NULL && !lease_proof_is(beat.session, beat.proof)))) {
        beat.session = NULL;
    }
    return beat;
}

void session_keep_run(struct core *core, struct request *request)
{
    const struct call *call = request->call;
    uint8_t proof[PROOF_SIZE];
    bool needs_heard = false, is_open = propose_is_open(core);
    CHECK(is_serving(core)); /* Before that there are no deadlines (rule 12). */
    request->is_heard = true;
    for (uint32_t i = 0; i < beat_count(call); i++) {
        struct beat beat = beat_at(core, request, call, i, proof);
        if (beat.session == NULL ||
            session_is_refused(core->fsm, beat.session) ||
            !lease_renew(core, beat.id, request->received_ns)) {
            /* The heartbeat will be refused, so it moves nothing. */
            request->is_heard = false;
            continue;
        }
        if (is_open && timers_needs_heard(core->timers, beat.id)) {
            propose_hearing(core, beat.id);
            needs_heard = true;
        }
    }
    if (needs_heard) {
        propose_after_heard(core, request);
    } else {
        read_index_enqueue(core, request);
    }
}

/* True if it is too early to answer: a session is doomed, and its EXPIRE
 * decides; or it was marked as quiet since, and a HEARD of it must be applied
 * first. */
static bool beat_waits(struct core *core, struct request *request,
                       const struct call *call)
{
    uint8_t proof[PROOF_SIZE];
    bool needs_heard = false;
    for (uint32_t i = 0; i < beat_count(call); i++) {
        struct beat beat = beat_at(core, request, call, i, proof);
        if (beat.session == NULL ||
            session_is_refused(core->fsm, beat.session)) {
            continue;
        }
        /* A session that was to be refused on receipt (blacklisted until just
         * now) must move its deadline before the heartbeat gets another
         * answer. */
        if (timers_is_doomed(core->timers, beat.id) ||
            (!request->is_heard &&
             !lease_renew(core, beat.id, request->received_ns))) {
            request_move(core, request, REQUEST_DOOMED);
            return true;
        }
        if (timers_needs_heard(core->timers, beat.id)) {
            needs_heard = true;
            if (propose_is_open(core)) {
                propose_hearing(core, beat.id);
            }
        }
    }
    if (!needs_heard) {
        return false;
    }
    if (propose_is_open(core)) {
        propose_after_heard(core, request);
    } else {
        request_return(core, request);
    }
    return true;
}

/* Writes the notices with larger numbers than 'after', the newest one that the
 * client has. */
static void beat_put_ended(const struct session *session, uint64_t after,
                           struct resp_writer *writer)
{
    uint32_t count = 0;
    LIST_FOR (const struct ended_hold, ended, &session->ended, in_session) {
        count += ended->number > after;
    }
    resp_key_array(writer, "ended", count);
    LIST_FOR (const struct ended_hold, ended, &session->ended, in_session) {
        if (ended->number <= after) {
            continue;
        }
        resp_map(writer, 6);
        resp_key_bulk(writer, "lock", ended->lock);
        resp_key_bulk(writer, "owner", ended->owner);
        resp_key_number(writer, "token", ended->token);
        resp_key_text(writer, "reason", hold_loss_name(ended->loss));
        resp_key_number(writer, "first", ended->first_token);
        resp_key_number(writer, "number", ended->number);
    }
    /* A client that has not seen this number asks for the list of its holds
     * (rule 17). */
    resp_key_number(writer, "dropped", session->dropped_number);
}

/* The word with which the heartbeat is refused, and the reason; WORD_NONE: it
 * is not refused. */
static enum core_word beat_judge(struct core *core, const struct beat *beat,
                                 struct bytes *ret_why)
{
    const struct session *session = beat->session;
    if (session == NULL && beat->proof == NULL) {
        *ret_why = BYTES_LITERAL("the session has ended");
        return WORD_EXPIRED;
    }
    if (session == NULL) {
        *ret_why = BYTES_LITERAL("no such session, or a wrong secret");
        return WORD_NOSESSION;
    }
    /* A refused heartbeat moves no deadline (rule 13), so the session ends. */
    if (session_is_refused(core->fsm, session)) {
        const struct blacklisting *entry = lockfsm_listed(core->fsm, session);
        *ret_why = entry != NULL ? entry->reason
                                 : BYTES_LITERAL("the user is disabled");
        return WORD_BLACKLISTED;
    }
    return WORD_NONE;
}

/* With FULL, writes a map with everything that a hasp client needs; otherwise
 * only the TTL. */
static void beat_put_answer(const struct session *session,
                            const struct call *call, struct resp_writer *writer)
{
    if (call_has(call, OPTION_FULL)) {
        resp_map(writer, 5);
        lease_put_times(writer, session);
        beat_put_ended(session, call_number(call, OPTION_AFTER, 0), writer);
    } else if (session->is_durable) {
        resp_null(writer);
    } else {
        resp_integer(writer, session->ttl_ms);
    }
}

void session_keep_read(struct core *core, struct request *request)
{
    const struct call *call = request->call;
    uint8_t proof[PROOF_SIZE];
    if (beat_waits(core, request, call)) {
        return;
    }
    struct resp_writer *writer = request_reply(core, request);
    uint32_t count = beat_count(call);
    if (count > 1) {
        resp_array(writer, count);
    }
    for (uint32_t i = 0; i < count; i++) {
        struct bytes why;
        struct beat beat = beat_at(core, request, call, i, proof);
        /* Judged again at the answer: a session may have been blacklisted or
         * ended since the receipt (rule 13). */
        enum core_word word = beat_judge(core, &beat, &why);
        if (word != WORD_NONE && count == 1) {
            request_fail(core, request, word, why);
            return;
        }
        if (word != WORD_NONE) {
            word_put(writer, word, "%.*s", (int)why.size,
                     (const char *)why.data);
        } else {
            beat_put_answer(beat.session, call, writer);
            request_has_changed(request);
        }
    }
    request_done(core, request);
}
