/* SPDX-License-Identifier: MIT */

/* The interface of the leader's deadlines: it handles effects, collects due
 * commands from leases and spans, and moves the log's clock with TIME. */

#include "lease/timers.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/memory.h"
#include "base/minmax.h"
#include "base/units.h"
#include "lease/leases.h"
#include "lease/rules.h"
#include "lease/spans.h"
#include "lockfsm/entry.h"

/* How long after the newest TIME or BEGIN the next TIME is due. It is less than
 * the most that one TIME can count, so that a late turn of the loop loses
 * nothing. */
#define TIME_EVERY_NS (CLOCK_STEP_MS_MAX * NS_PER_MS * 4 / 5)
/* The most sessions that one TIME marks, so that no entry takes a millisecond
 * to apply. */
#define MARK_SESSION_MAX 1024

/* Progress of a new leader through the state that it found. */
struct inheritance {
    uint64_t begun_ns; /* 0 if nothing is left. */
    const struct session *session;
    const struct lock *lock;
};

struct timers {
    bool is_on;
    struct inheritance inheritance;
    /* The newest TIME or BEGIN, and when this node applied it; kept on every
     * node. */
    uint64_t clock_index;
    uint64_t noted_ns;
    bool is_time_in_flight;
    uint64_t in_flight_ms; /* The most by which it can move the clock. */
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

static void timers_note(struct timers *timers, uint64_t clock_index,
                        uint64_t now_ns)
{
    timers->clock_index = clock_index;
    timers->noted_ns = now_ns;
    timers->is_time_in_flight = false;
    timers->in_flight_ms = 0;
}

void timers_loaded(struct timers *timers, const struct lockfsm *fsm,
                   uint64_t now_ns)
{
    timers_note(timers, lockfsm_clock_index(fsm), now_ns);
}

uint64_t timers_base(const struct timers *timers)
{
    return timers->clock_index;
}

uint32_t timers_elapsed_ms(const struct timers *timers, uint64_t now_ns)
{
    uint64_t elapsed_ms = rules_left(now_ns, timers->noted_ns) / NS_PER_MS;
    return (uint32_t)u64_min(elapsed_ms, CLOCK_STEP_MS_MAX);
}

void timers_begin(struct timers *timers, const struct lockfsm *fsm,
                  uint64_t now_ns)
{
    timers_end(timers);
    CHECK(now_ns != 0);
    timers->inheritance = (struct inheritance){now_ns, lockfsm_sessions(fsm),
                                               lockfsm_locks(fsm)};
    spans_inherit(&timers->spans, fsm, now_ns);
}

bool timers_inherit(struct timers *timers, const struct lockfsm *fsm,
                    uint32_t max)
{
    struct inheritance *left = &timers->inheritance;
    CHECK(left->begun_ns != 0);
    for (; left->session != NULL && max > 0; max--) {
        leases_inherit(&timers->leases, fsm, left->session, left->begun_ns);
        left->session = left->session->by_id.next;
    }
    for (; left->lock != NULL && max > 0; max--) {
        spans_inherit_lock(&timers->spans, fsm, left->lock, left->begun_ns);
        left->lock = left->lock->by_name.next;
    }
    if (left->session == NULL && left->lock == NULL) {
        left->begun_ns = 0;
        timers->is_on = true;
    }
    return timers->is_on;
}

void timers_end(struct timers *timers)
{
    timers->is_on = false;
    timers->inheritance = (struct inheritance){0};
    timers->is_time_in_flight = false;
    timers->in_flight_ms = 0;
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
        return; /* A later entry of the same turn has ended the session. */
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
    if (effect->type == EFFECT_TIME) {
        timers_note(timers, effect->log_index, now_ns);
    }
    /* A leader that does not serve yet has logged nothing but its BEGIN (rule
     * 12). */
    CHECK(timers->inheritance.begun_ns == 0 ||
          effect->log_index == timers->clock_index);
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
    case EFFECT_SESSION_MARKED:
        leases_marked(&timers->leases, effect->session);
        break;
    case EFFECT_SESSION_HEARD:
        leases_unmarked(&timers->leases, effect->session);
        break;
    default:
        spans_follow(&timers->spans, fsm, effect, now_ns);
        break;
    }
}

bool timers_heard(struct timers *timers, uint64_t session, uint64_t received_ns)
{
    return leases_heard(&timers->leases, session, received_ns);
}

bool timers_needs_heard(const struct timers *timers, uint64_t session)
{
    return leases_needs_heard(&timers->leases, session);
}

void timers_hearing(struct timers *timers, uint64_t session)
{
    leases_hearing(&timers->leases, session);
}

bool timers_is_doomed(const struct timers *timers, uint64_t session)
{
    return leases_is_doomed(&timers->leases, session);
}

void timers_detached(struct timers *timers, uint64_t session, uint64_t now_ns)
{
    leases_detached(&timers->leases, session, now_ns);
}

/* The latest time at which the clock must move, even if no session has to be
 * marked. */
static uint64_t next_time(const struct timers *timers)
{
    bool is_needed = timers->leases.bound_count > 0 ||
                     !spans_are_none(&timers->spans);
    return is_needed ? timers->noted_ns + TIME_EVERY_NS : UINT64_MAX;
}

uint64_t timers_next(const struct timers *timers)
{
    uint64_t next_ns = u64_min(leases_next_end(&timers->leases),
                               spans_next(&timers->spans));
    if (!timers->is_on || timers->is_time_in_flight) {
        return next_ns;
    }
    next_ns = u64_min(next_ns, leases_next_mark(&timers->leases));
    return u64_min(next_ns, next_time(timers));
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

/* The log's clock counts, too, because a successor uses it, and it can have
 * advanced more since the grant than this leader's own (rule 16). */
uint64_t timers_hold_left(struct timers *timers, const struct lockfsm *fsm,
                          struct bytes lock, uint64_t session,
                          struct bytes owner, uint64_t now_ns)
{
    return spans_hold_left(&timers->spans, lock, session, owner,
                           lockfsm_clock(fsm) + timers->in_flight_ms, now_ns);
}

uint64_t timers_break_left(struct timers *timers, const struct hold *hold,
                           uint64_t now_ns)
{
    return spans_break_left(&timers->spans, hold->lock->name, hold->session->id,
                            hold->owner, now_ns);
}

/* Proposes a TIME, one at a time: the time that it counts is known only when it
 * is applied. */
static void propose_time(struct timers *timers, uint64_t now_ns,
                         uint64_t clock_ns, timers_propose_fn *propose,
                         void *data)
{
    const struct session_mark *marks;
    if (timers->is_time_in_flight) {
        return;
    }
    uint32_t count = leases_due_marks(&timers->leases, now_ns, MARK_SESSION_MAX,
                                      &marks);
    if (count == 0 && next_time(timers) > clock_ns) {
        return;
    }
    struct time_command time = {
        .base_index = timers->clock_index,
        .elapsed_ms = timers_elapsed_ms(timers, clock_ns),
        .marks = marks,
        .mark_count = count,
    };
    struct entry entry = entry_of_time(&time);
    bool is_proposed = propose(data, &entry);
    leases_marks_proposed(&timers->leases, count, is_proposed);
    if (is_proposed) {
        /* A TIME counts at most one step. */
        CHECK(time.elapsed_ms <= CLOCK_STEP_MS_MAX);
        timers->is_time_in_flight = true;
        timers->in_flight_ms = time.elapsed_ms;
    }
}

void timers_due(struct timers *timers, uint64_t now_ns, uint64_t clock_ns,
                uint32_t session_max, uint32_t command_max,
                timers_propose_fn *propose, void *data)
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
    if (is_taken && count < command_max) {
        propose_time(timers, now_ns, clock_ns, propose, data);
    }
}

bool timers_has_due_sessions(struct timers *timers, uint64_t now_ns)
{
    return leases_has_due(&timers->leases, now_ns);
}
