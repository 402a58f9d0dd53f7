/* SPDX-License-Identifier: MIT */

/* The leader's deadlines of sessions: heard, marked as quiet, expired. Two lazy
 * heaps over one table by id. */

#include "lease/leases.h"

#include <stdlib.h>

#include "base/check.h"
#include "base/memory.h"
#include "base/minmax.h"
#include "base/units.h"
#include "lease/rules.h"
#include "lockfsm/entry.h"

/* The least time to mark: marks are logged in milliseconds, rounded down. */
#define QUIET_MIN_NS NS_PER_MS

struct timed_session {
    UT_hash_handle hh;
    uint64_t id;
    /* A durable session is in no heap, and its times are 0. */
    bool is_durable;
    uint64_t ttl_ns;
    uint64_t linger_ns; /* 0 if there is no linger. */
    uint64_t deadline_ns;
    uint64_t heard_ns; /* The newest heartbeat under this leader; 0: none. */
    bool is_bound;     /* The state has a mark for it. */
    /* The mark is a TIME's, not only a BEGIN's, and needs no other. */
    bool is_marked;
    bool is_mark_in_flight;
    bool is_hearing; /* A HEARD of it is under way. */
    /* It is marked even if it has been quiet for a very short time. */
    bool marks_now;
    bool is_doomed; /* Its EXPIRE has been proposed. */
    struct heap_node deadline;
    struct heap_node mark;
};

static struct timed_session *leases_find(const struct leases *leases,
                                         uint64_t id)
{
    struct timed_session *session = NULL;
    HASH_FIND(hh, leases->by_id, &id, sizeof id, session);
    return session;
}

static uint64_t quiet_at(const struct timed_session *session, uint64_t now_ns)
{
    return rules_left(now_ns + session->ttl_ns, session->deadline_ns);
}

/* When the next mark of 'session' is due; UINT64_MAX if none is. */
static uint64_t next_mark(const struct timed_session *session)
{
    CHECK(!session->is_durable);
    if (session->is_hearing || (session->is_marked && !session->marks_now)) {
        return UINT64_MAX;
    }
    uint64_t quiet_ns = session->marks_now ? 0
                                           : rules_quiet_max(session->ttl_ns);
    quiet_ns = u64_max(quiet_ns, QUIET_MIN_NS);
    return rules_left(session->deadline_ns, session->ttl_ns - quiet_ns);
}

/* Puts the next mark into its heap, or removes it if none will be due until the
 * session is heard again. */
static void schedule_mark(struct leases *leases, struct timed_session *session)
{
    uint64_t at_ns = next_mark(session);
    if (at_ns == UINT64_MAX) {
        heap_remove(&leases->marks, &session->mark);
    } else {
        heap_set(&leases->marks, &session->mark, at_ns);
    }
}

static void set_bound(struct leases *leases, struct timed_session *session,
                      bool is_bound)
{
    CHECK(leases->bound_count >= session->is_bound);
    leases->bound_count += is_bound;
    leases->bound_count -= session->is_bound;
    session->is_bound = is_bound;
}

static void leases_drop(struct leases *leases, struct timed_session *session)
{
    heap_remove(&leases->deadlines, &session->deadline);
    heap_remove(&leases->marks, &session->mark);
    set_bound(leases, session, false);
    HASH_DEL(leases->by_id, session);
    pool_give(&leases->pool, session, sizeof *session);
}

/* Removes the first due session from the heap of deadlines. */
static struct timed_session *pop_due(struct leases *leases, uint64_t now_ns)
{
    for (;;) {
        struct heap_node *first = heap_first(&leases->deadlines);
        if (first == NULL || first->key > now_ns) {
            return NULL;
        }
        struct timed_session *session = LIST_ENTRY(first, struct timed_session,
                                                   deadline);
        CHECK(!session->is_doomed);
        if (session->deadline_ns <= now_ns) {
            heap_remove(&leases->deadlines, first);
            return session;
        }
        heap_set(&leases->deadlines, first, session->deadline_ns);
    }
}

/* Removes the first session to be marked from the heap of marks. A session past
 * its deadline needs no mark: its EXPIRE is next. A heartbeat before that puts
 * it back. */
static struct timed_session *pop_unmarked(struct leases *leases,
                                          uint64_t now_ns)
{
    for (;;) {
        struct heap_node *first = heap_first(&leases->marks);
        if (first == NULL || first->key > now_ns) {
            return NULL;
        }
        struct timed_session *session = LIST_ENTRY(first, struct timed_session,
                                                   mark);
        uint64_t at_ns = next_mark(session);
        if (at_ns != UINT64_MAX && at_ns > now_ns) {
            heap_set(&leases->marks, first, at_ns);
            continue;
        }
        heap_remove(&leases->marks, first);
        if (at_ns != UINT64_MAX && session->deadline_ns > now_ns) {
            return session;
        }
    }
}

static void leases_choose(struct leases *leases, uint32_t slot,
                          struct timed_session *session)
{
    if (slot == leases->chosen_capacity) {
        ROOM(leases->chosen, leases->chosen_capacity, slot + 1);
        leases->marks_due = memory_resize(leases->marks_due,
                                          leases->chosen_capacity *
                                              sizeof *leases->marks_due);
    }
    leases->chosen[slot] = session;
}

static struct timed_session *leases_add(struct leases *leases,
                                        const struct session *session)
{
    CHECK(leases_find(leases, session->id) == NULL);
    struct timed_session *timed = pool_take(&leases->pool, sizeof *timed);
    timed->id = session->id;
    timed->is_durable = session->is_durable;
    timed->ttl_ns = session->ttl_ms * NS_PER_MS;
    timed->linger_ns = session->linger_ms * NS_PER_MS;
    HASH_ADD(hh, leases->by_id, id, sizeof timed->id, timed);
    return timed;
}

void leases_clear(struct leases *leases)
{
    HASH_CLEAR(hh, leases->by_id);
    pool_done(&leases->pool);
    heap_done(&leases->deadlines);
    heap_done(&leases->marks);
    leases->bound_count = 0;
}

void leases_done(struct leases *leases)
{
    leases_clear(leases);
    free(leases->chosen);
    free(leases->marks_due);
    *leases = (struct leases){.by_id = NULL};
}

void leases_inherit(struct leases *leases, const struct lockfsm *fsm,
                    const struct session *session, uint64_t now_ns)
{
    struct quiet quiet;
    struct timed_session *timed = leases_add(leases, session);
    if (timed->is_durable) {
        return;
    }
    bool is_marked = lockfsm_mark(fsm, session, &quiet);
    CHECK(is_marked);
    uint64_t quiet_ms = quiet.quiet_ms + lockfsm_clock(fsm) - quiet.clock_ms;
    quiet_ms = u64_min(quiet_ms, session->ttl_ms);
    timed->deadline_ns = now_ns + timed->ttl_ns - quiet_ms * NS_PER_MS;
    /* An inherited deadline is never in the past (rule 9). */
    CHECK(timed->deadline_ns >= now_ns);
    timed->is_marked = session->mark_index != 0;
    set_bound(leases, timed, true);
    heap_set(&leases->deadlines, &timed->deadline, timed->deadline_ns);
    schedule_mark(leases, timed);
}

void leases_open(struct leases *leases, const struct session *session,
                 uint64_t now_ns)
{
    struct timed_session *timed = leases_add(leases, session);
    if (timed->is_durable) {
        return;
    }
    timed->heard_ns = now_ns;
    timed->deadline_ns = now_ns + timed->ttl_ns;
    heap_set(&leases->deadlines, &timed->deadline, timed->deadline_ns);
    schedule_mark(leases, timed);
}

void leases_end(struct leases *leases, uint64_t session)
{
    struct timed_session *timed = leases_find(leases, session);
    if (timed != NULL) {
        leases_drop(leases, timed);
    }
}

void leases_marked(struct leases *leases, uint64_t session)
{
    struct timed_session *timed = leases_find(leases, session);
    if (timed != NULL) {
        CHECK(!timed->is_durable); /* The state marks none. */
        /* A Redis value that lost its end and got another while the mark was
         * under way is timed anew (operation_kind()), so it need not have one
         * in flight. The mark is still right: it counts the silence since the
         * receipt of the request that set the end. */
        timed->is_mark_in_flight = false;
        set_bound(leases, timed, true);
    }
}

/* A HEARD does not remove a mark that follows it in the log. */
void leases_unmarked(struct leases *leases, uint64_t session)
{
    struct timed_session *timed = leases_find(leases, session);
    if (timed != NULL && !timed->is_doomed && !timed->is_durable) {
        timed->is_hearing = false;
        timed->is_marked = timed->is_mark_in_flight;
        set_bound(leases, timed, false);
        schedule_mark(leases, timed);
    }
}

void leases_hearing(struct leases *leases, uint64_t session)
{
    struct timed_session *timed = leases_find(leases, session);
    if (timed != NULL && !timed->is_doomed && !timed->is_durable) {
        timed->is_hearing = true;
        schedule_mark(leases, timed);
    }
}

/* Handles a Redis value that received an end, or lost it. */
static void operation_kind(struct leases *leases, struct timed_session *timed,
                           const struct session *session, uint64_t now_ns)
{
    leases_drop(leases, timed);
    leases_open(leases, session, now_ns);
}

void leases_changed(struct leases *leases, const struct session *session,
                    bool is_renewed, uint64_t now_ns)
{
    struct timed_session *timed = leases_find(leases, session->id);
    uint64_t ttl_ns = session->ttl_ms * NS_PER_MS;
    /* A blacklisting also causes this effect, and must not move the deadline.
     */
    if (timed == NULL || timed->is_doomed || !is_renewed) {
        return;
    }
    if (timed->is_durable || session->is_durable) {
        operation_kind(leases, timed, session, now_ns);
        return;
    }
    CHECK(ttl_ns > 0);
    if (ttl_ns < timed->ttl_ns && now_ns + ttl_ns < timed->deadline_ns) {
        /* The client has requested less, and has trusted only the shorter lease
         * since it sent the request (rule 18). */
        timed->deadline_ns = now_ns + ttl_ns;
        heap_set(&leases->deadlines, &timed->deadline, timed->deadline_ns);
    }
    timed->ttl_ns = ttl_ns;
    leases_heard(leases, session->id, now_ns);
    leases_unmarked(leases, session->id);
}

bool leases_heard(struct leases *leases, uint64_t session, uint64_t received_ns)
{
    struct timed_session *timed = leases_find(leases, session);
    if (timed == NULL || timed->is_doomed) {
        return false;
    }
    if (timed->is_durable) {
        return true; /* A durable session has no deadline. */
    }
    timed->heard_ns = u64_max(timed->heard_ns, received_ns);
    /* Each heartbeat grants the whole lease (rule 2). */
    timed->deadline_ns = u64_max(timed->deadline_ns,
                                 received_ns + timed->ttl_ns);
    timed->marks_now = false;
    CHECK(timed->mark.slot != 0 || next_mark(timed) == UINT64_MAX);
    return true;
}

void leases_detached(struct leases *leases, uint64_t session, uint64_t now_ns)
{
    struct timed_session *timed = leases_find(leases, session);
    if (timed == NULL || timed->is_doomed || timed->linger_ns == 0) {
        return;
    }
    /* The deadline never moves before the last heartbeat. */
    uint64_t from_ns = u64_max(now_ns, timed->heard_ns);
    if (from_ns + timed->linger_ns >= timed->deadline_ns) {
        return;
    }
    /* The linger runs from the last heartbeat at least (rule 8). */
    CHECK(from_ns >= timed->heard_ns);
    timed->deadline_ns = from_ns + timed->linger_ns;
    heap_set(&leases->deadlines, &timed->deadline, timed->deadline_ns);
    /* The mark lets the linger survive a change of leader. */
    if (quiet_at(timed, now_ns) >= QUIET_MIN_NS) {
        timed->marks_now = true;
        schedule_mark(leases, timed);
    }
}

bool leases_needs_heard(const struct leases *leases, uint64_t session)
{
    const struct timed_session *timed = leases_find(leases, session);
    return timed == NULL || (!timed->is_durable &&
                             (timed->is_bound || timed->is_mark_in_flight));
}

bool leases_is_doomed(const struct leases *leases, uint64_t session)
{
    const struct timed_session *timed = leases_find(leases, session);
    return timed != NULL && timed->is_doomed;
}

uint64_t leases_left(const struct leases *leases, uint64_t session,
                     uint64_t now_ns)
{
    const struct timed_session *timed = leases_find(leases, session);
    return timed == NULL ? 0 : rules_left(timed->deadline_ns, now_ns);
}

uint64_t leases_next_end(const struct leases *leases)
{
    const struct heap_node *first = heap_first(&leases->deadlines);
    return first == NULL ? UINT64_MAX : first->key;
}

uint64_t leases_next_mark(const struct leases *leases)
{
    const struct heap_node *first = heap_first(&leases->marks);
    return first == NULL ? UINT64_MAX : first->key;
}

bool leases_has_due(struct leases *leases, uint64_t now_ns)
{
    struct timed_session *session = pop_due(leases, now_ns);
    if (session == NULL) {
        return false;
    }
    heap_set(&leases->deadlines, &session->deadline, session->deadline_ns);
    return true;
}

enum leases_step leases_expire(struct leases *leases, uint64_t now_ns,
                               uint32_t session_max, timers_propose_fn *propose,
                               void *data)
{
    uint32_t count = 0;
    struct timed_session *session = NULL;
    while (count < session_max && (session = pop_due(leases, now_ns)) != NULL) {
        leases_choose(leases, count++, session);
    }
    if (count == 0) {
        return LEASES_NOTHING;
    }
    uint64_t *ids = memory_new(count * sizeof *ids);
    for (uint32_t i = 0; i < count; i++) {
        ids[i] = leases->chosen[i]->id;
    }
    struct expire_command expire = {.sessions = ids, .session_count = count};
    struct entry entry = entry_of_expire(&expire);
    /* Rule 14: a session is doomed only if its EXPIRE was submitted. */
    bool is_proposed = propose(data, &entry);
    free(ids);
    for (uint32_t i = 0; i < count; i++) {
        session = leases->chosen[i];
        CHECK(session->deadline_ns <= now_ns);
        if (is_proposed) {
            session->is_doomed = true;
            heap_remove(&leases->marks, &session->mark);
        } else {
            heap_set(&leases->deadlines, &session->deadline,
                     session->deadline_ns);
        }
    }
    return is_proposed ? LEASES_PROPOSED : LEASES_REFUSED;
}

uint32_t leases_due_marks(struct leases *leases, uint64_t now_ns,
                          uint32_t session_max,
                          const struct session_mark **ret_marks)
{
    uint32_t count = 0;
    struct timed_session *session = NULL;
    while (count < session_max &&
           (session = pop_unmarked(leases, now_ns)) != NULL) {
        leases_choose(leases, count, session);
        /* Rounding down makes it too small at most, never too great. */
        uint64_t quiet_ms = quiet_at(session, now_ns) / NS_PER_MS;
        CHECK(quiet_ms > 0);
        leases->marks_due[count++] = (struct session_mark){session->id,
                                                           (uint32_t)quiet_ms};
    }
    *ret_marks = leases->marks_due;
    return count;
}

void leases_marks_proposed(struct leases *leases, uint32_t count,
                           bool is_proposed)
{
    for (uint32_t i = 0; i < count; i++) {
        struct timed_session *session = leases->chosen[i];
        CHECK(!session->is_doomed && !session->is_mark_in_flight);
        if (is_proposed) {
            session->is_marked = true;
            session->is_mark_in_flight = true;
            session->marks_now = false;
        }
        schedule_mark(leases, session);
    }
}
