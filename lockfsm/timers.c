/* SPDX-License-Identifier: MIT */

#include "lockfsm/timers.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/memory.h"
#include "lockfsm/leases.h"
#include "lockfsm/spans.h"

struct timers {
    bool is_on;
    struct leases leases;
    struct spans spans;
};

struct timers *timers_new(void)
{
    return memory_new(sizeof(struct timers));
}

void timers_free(struct timers *timers)
{
    if (timers == NULL) {
        return;
    }
    leases_done(&timers->leases);
    spans_done(&timers->spans);
    free(timers);
}

void timers_begin(struct timers *timers, const struct lockfsm *fsm,
                  uint64_t now_ns)
{
    timers_end(timers);
    timers->is_on = true;
    for (const struct session *session = lockfsm_sessions(fsm); session != NULL;
         session = session->by_id.next) {
        leases_inherit(&timers->leases, session, now_ns);
    }
    spans_inherit(&timers->spans, fsm, now_ns);
}

void timers_end(struct timers *timers)
{
    timers->is_on = false;
    leases_clear(&timers->leases);
    spans_clear(&timers->spans);
}

bool timers_are_on(const struct timers *timers)
{
    return timers->is_on;
}

static void follow_session(struct timers *timers, const struct lockfsm *fsm,
                           const struct effect *effect, uint64_t now_ns)
{
    const struct session *session = lockfsm_session(fsm, effect->session);
    if (session == NULL) {
        return; /* A later entry of the same turn has ended it. */
    }
    if (effect->type == EFFECT_SESSION_OPENED) {
        leases_open(&timers->leases, session, now_ns);
    } else {
        bool is_renewed = effect->reason != NULL &&
                          strcmp(effect->reason, "renewed") == 0;
        leases_changed(&timers->leases, session, is_renewed, now_ns);
    }
}

void timers_follow(struct timers *timers, const struct lockfsm *fsm,
                   const struct effect *effect, uint64_t now_ns)
{
    if (!timers->is_on) {
        return;
    }
    switch (effect->type) {
    case EFFECT_SESSION_OPENED:
    case EFFECT_SESSION_CHANGED:
        follow_session(timers, fsm, effect, now_ns);
        break;
    case EFFECT_SESSION_ENDED:
        leases_end(&timers->leases, effect->session);
        break;
    case EFFECT_SESSION_AGED:
        leases_aged(&timers->leases, effect->session, effect->time_ms);
        break;
    default:
        spans_follow(&timers->spans, effect, now_ns);
        break;
    }
}

bool timers_heard(struct timers *timers, uint64_t session, uint64_t received_ns)
{
    return leases_heard(&timers->leases, session, received_ns);
}

bool timers_needs_age0(const struct timers *timers, uint64_t session)
{
    return leases_needs_age0(&timers->leases, session);
}

bool timers_is_doomed(const struct timers *timers, uint64_t session)
{
    return leases_is_doomed(&timers->leases, session);
}

void timers_detached(struct timers *timers, uint64_t session, uint64_t now_ns)
{
    leases_detached(&timers->leases, session, now_ns);
}

uint64_t timers_next(const struct timers *timers)
{
    uint64_t lease_ns = leases_next(&timers->leases);
    uint64_t span_ns = spans_next(&timers->spans);
    return lease_ns < span_ns ? lease_ns : span_ns;
}

uint64_t timers_lease_left(const struct timers *timers, uint64_t session,
                           uint64_t now_ns)
{
    return leases_left(&timers->leases, session, now_ns);
}

uint64_t timers_delay_left(struct timers *timers, struct bytes lock,
                           uint64_t now_ns)
{
    return spans_delay_left(&timers->spans, lock, now_ns);
}

uint64_t timers_quarantine_left(struct timers *timers,
                                const struct lockfsm *fsm, uint64_t now_ns)
{
    uint64_t since_index = lockfsm_quarantine(fsm, NULL);
    return since_index == 0
               ? 0
               : spans_quarantine_left(&timers->spans, since_index, now_ns);
}

uint64_t timers_hold_left(struct timers *timers, struct bytes lock,
                          uint64_t session, struct bytes owner, uint64_t now_ns)
{
    return spans_hold_left(&timers->spans, lock, session, owner, now_ns);
}

void timers_due(struct timers *timers, uint64_t now_ns, uint32_t session_max,
                uint32_t command_max, timers_propose_fn *propose, void *data)
{
    CHECK(timers->is_on);
    CHECK(session_max > 0);
    enum leases_step step = LEASES_PROPOSED;
    uint32_t count = 0;
    while (count < command_max && step == LEASES_PROPOSED) {
        step = leases_expire(&timers->leases, now_ns, session_max, propose,
                             data);
        count += step == LEASES_PROPOSED ? 1 : 0;
    }
    if (step == LEASES_REFUSED) {
        return;
    }
    bool is_taken = true;
    count += spans_due(&timers->spans, now_ns, command_max - count, propose,
                       data, &is_taken);
    step = is_taken ? LEASES_PROPOSED : LEASES_REFUSED;
    while (count < command_max && step == LEASES_PROPOSED) {
        step = leases_age(&timers->leases, now_ns, session_max, propose, data);
        count++;
    }
}

bool timers_has_due_sessions(struct timers *timers, uint64_t now_ns)
{
    return leases_has_due(&timers->leases, now_ns);
}

void timers_before_transfer(struct timers *timers, uint64_t now_ns,
                            timers_propose_fn *propose, void *data)
{
    leases_age_all(&timers->leases, now_ns);
    while (leases_age(&timers->leases, now_ns, TRANSFER_SESSION_MAX, propose,
                      data) == LEASES_PROPOSED) {
        continue;
    }
}
