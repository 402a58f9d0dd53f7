/* SPDX-License-Identifier: MIT */

/* What is due, and what heartbeats do to deadlines. */

#include "core/session/lease.h"
#include "base/check.h"

#include "base/minmax.h"
#include "core/command.h"
#include "core/state.h"
#include "lease/rules.h"

/* The most that one turn proposes, so that the end of very many sessions at
 * once does not keep the loop from Raft's heartbeats. */
#define EXPIRE_SESSION_MAX 256
#define DUE_COMMAND_MAX 32
/* An overdue deadline is checked again after this time, even without an
 * event. */
#define LATE_NS (5 * NS_PER_MS)

bool lease_renew(struct core *core, uint64_t session, uint64_t received_ns)
{
    /* The heartbeat has been read by now (rule 13). */
    CHECK(received_ns <= core->now_ns);
    if (!timers_heard(core->timers, session, received_ns)) {
        return false;
    }
    if (core->port.heard != NULL) {
        core->port.heard(core->port.data, session);
    }
    return true;
}

void lease_sessions_ended(struct core *core)
{
    if (!core->turn.has_session_ended) {
        return;
    }
    core->turn.has_session_ended = false;
    LIST_FOR_SAFE (struct request, request, &core->requests.at[REQUEST_DOOMED],
                   in_list) {
        request_move(core, request, REQUEST_READY);
    }
}

/* A deadline has passed only if all earlier input is read (rule 6) and a
 * question asked after it is confirmed (rule 5). Both limit the time up to
 * which deadlines count as overdue: however late the loop is, both advance, and
 * what they have once allowed stays allowed. */
void lease_turn(struct core *core, uint64_t read_ns)
{
    if (!is_serving(core) || timers_next(core->timers) > read_ns ||
        !propose_is_open(core)) {
        return;
    }
    uint64_t at_ns = read_ns;
    if (timers_has_due_sessions(core->timers, at_ns)) {
        /* A leader that was deposed meanwhile must not expire a session that
         * its successor hears (rule 5). */
        at_ns = u64_min(core->leadership.read_index.confirmed_ns, at_ns);
        if (!timers_has_due_sessions(core->timers, at_ns)) {
            read_index_request(core);
        }
    }
    uint32_t before = core->leadership.propose.item_count;
    timers_due(core->timers, at_ns, core->now_ns, EXPIRE_SESSION_MAX,
               DUE_COMMAND_MAX, propose_own, core);
    if (core->leadership.propose.item_count - before >= DUE_COMMAND_MAX) {
        core->turn.has_left_over = true;
    }
}

uint64_t lease_next(const struct core *core)
{
    if (!is_serving(core)) {
        return UINT64_MAX;
    }
    uint64_t next = timers_next(core->timers);
    /* What is due already waits for a confirmation or for the end of a
     * transfer, and those are events. */
    return next > core->now_ns ? next : core->now_ns + LATE_NS;
}

bool lease_proof_is(const struct session *session,
                    const uint8_t proof[PROOF_SIZE])
{
    volatile uint8_t difference = 0;
    for (int i = 0; i < PROOF_SIZE; i++) {
        difference |= (uint8_t)(session->proof[i] ^ proof[i]);
    }
    return difference == 0 && !session->is_redis;
}

void lease_put_times(struct resp_writer *writer, const struct session *session)
{
    uint64_t trust_ms = rules_trusted(
        rules_promised(session->ttl_ms, session->linger_ms));
    resp_text(writer, "ttl_ms");
    lease_put_time(writer, session, session->ttl_ms);
    resp_key_integer(writer, "linger_ms", session->linger_ms);
    resp_text(writer, "trust_ms");
    lease_put_time(writer, session, trust_ms);
}

void lease_put_time(struct resp_writer *writer, const struct session *session,
                    uint64_t time_ms)
{
    if (session->is_durable) {
        resp_null(writer);
    } else {
        resp_integer(writer, (int64_t)time_ms);
    }
}
