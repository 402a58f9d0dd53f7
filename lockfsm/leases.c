/* SPDX-License-Identifier: MIT */

#include "lockfsm/leases.h"

#include <stdlib.h>

#include "base/check.h"
#include "base/memory.h"
#include "base/units.h"
#include "lockfsm/encode.h"

/* Ages are logged in milliseconds, rounded down, and 0 means something else. */
#define AGE_MIN_NS NS_PER_MS

struct timed_session {
    UT_hash_handle hh;
    uint64_t id;
    uint64_t ttl_ns;
    uint64_t linger_ns; /* 0: none. */
    uint64_t deadline_ns;
    uint64_t heard_ns; /* Newest heartbeat of this reign; 0: none. */
    /* Newest quiet time that was logged since the last heartbeat, or that was
     * found in the state; the next AGE is at the quarter of T above it. */
    uint64_t logged_ns;
    bool ages_now;            /* Log the quiet time whatever it is. */
    bool is_aged;             /* The state has an age other than 0. */
    uint32_t ages_in_the_log; /* Proposed by us and not yet applied. */
    bool is_doomed;           /* Its EXPIRE has been proposed. */
    struct heap_node deadline;
    struct heap_node age;
};

static struct timed_session *find(const struct leases *leases, uint64_t id)
{
    struct timed_session *session = NULL;
    HASH_FIND(hh, leases->by_id, &id, sizeof id, session);
    return session;
}

static uint64_t minus(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

static uint64_t quiet_at(const struct timed_session *session, uint64_t now_ns)
{
    return minus(now_ns + session->ttl_ns, session->deadline_ns);
}

/* When the next AGE of 'session' is due; UINT64_MAX if none will be before its
 * deadline. */
static uint64_t next_age(const struct timed_session *session)
{
    if (session->ages_now) {
        return minus(session->deadline_ns, session->ttl_ns - AGE_MIN_NS);
    }
    uint64_t quarter_ns = session->ttl_ns / 4;
    for (int i = 1; i <= 3; i++) {
        uint64_t quiet_ns = quarter_ns * (uint64_t)i;
        if (quiet_ns > session->logged_ns && quiet_ns >= AGE_MIN_NS) {
            return minus(session->deadline_ns, session->ttl_ns - quiet_ns);
        }
    }
    return UINT64_MAX;
}

/* Puts the next AGE into its heap, or takes it out if there will be none until
 * the session is heard again. */
static void schedule_age(struct leases *leases, struct timed_session *session)
{
    uint64_t at_ns = next_age(session);
    if (at_ns == UINT64_MAX) {
        heap_remove(&leases->ages, &session->age);
    } else {
        heap_set(&leases->ages, &session->age, at_ns);
    }
}

static void drop(struct leases *leases, struct timed_session *session)
{
    heap_remove(&leases->deadlines, &session->deadline);
    heap_remove(&leases->ages, &session->age);
    HASH_DEL(leases->by_id, session);
    free(session);
}

/* Takes the due session that comes first out of the heap of deadlines. */
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

/* Likewise from the heap of ages. A session past its deadline ages no more:
 * its EXPIRE is next. A heartbeat before that puts it back. */
static struct timed_session *pop_aging(struct leases *leases, uint64_t now_ns)
{
    for (;;) {
        struct heap_node *first = heap_first(&leases->ages);
        if (first == NULL || first->key > now_ns) {
            return NULL;
        }
        struct timed_session *session = LIST_ENTRY(first, struct timed_session,
                                                   age);
        uint64_t at_ns = next_age(session);
        if (at_ns != UINT64_MAX && at_ns > now_ns) {
            heap_set(&leases->ages, first, at_ns);
            continue;
        }
        heap_remove(&leases->ages, first);
        if (at_ns != UINT64_MAX && session->deadline_ns > now_ns) {
            return session;
        }
    }
}

static void choose(struct leases *leases, uint32_t slot,
                   struct timed_session *session)
{
    if (slot == leases->chosen_capacity) {
        leases->chosen_capacity = slot == 0 ? 64 : 2 * slot;
        leases->chosen = memory_resize(leases->chosen,
                                       leases->chosen_capacity *
                                           sizeof(struct timed_session *));
    }
    leases->chosen[slot] = session;
}

static struct timed_session *add(struct leases *leases,
                                 const struct session *session)
{
    CHECK(find(leases, session->id) == NULL);
    struct timed_session *timed = memory_new(sizeof *timed);
    timed->id = session->id;
    timed->ttl_ns = session->ttl_ms * NS_PER_MS;
    timed->linger_ns = session->linger_ms * NS_PER_MS;
    HASH_ADD(hh, leases->by_id, id, sizeof timed->id, timed);
    return timed;
}

void leases_clear(struct leases *leases)
{
    struct timed_session *session;
    struct timed_session *next;
    HASH_ITER (hh, leases->by_id, session, next) {
        HASH_DEL(leases->by_id, session);
        free(session);
    }
    heap_done(&leases->deadlines);
    heap_done(&leases->ages);
}

void leases_done(struct leases *leases)
{
    leases_clear(leases);
    buffer_done(&leases->command);
    free(leases->chosen);
    *leases = (struct leases){.by_id = NULL};
}

void leases_inherit(struct leases *leases, const struct session *session,
                    uint64_t now_ns)
{
    struct timed_session *timed = add(leases, session);
    timed->logged_ns = session->age_ms * NS_PER_MS;
    timed->is_aged = session->age_ms != 0;
    timed->deadline_ns = now_ns + minus(timed->ttl_ns, timed->logged_ns);
    heap_set(&leases->deadlines, &timed->deadline, timed->deadline_ns);
    schedule_age(leases, timed);
}

void leases_open(struct leases *leases, const struct session *session,
                 uint64_t now_ns)
{
    struct timed_session *timed = add(leases, session);
    timed->heard_ns = now_ns;
    timed->deadline_ns = now_ns + timed->ttl_ns;
    heap_set(&leases->deadlines, &timed->deadline, timed->deadline_ns);
    schedule_age(leases, timed);
}

void leases_end(struct leases *leases, uint64_t session)
{
    struct timed_session *timed = find(leases, session);
    if (timed != NULL) {
        drop(leases, timed);
    }
}

void leases_aged(struct leases *leases, uint64_t session, uint64_t age_ms)
{
    struct timed_session *timed = find(leases, session);
    if (timed == NULL) {
        return;
    }
    timed->is_aged = age_ms != 0;
    if (age_ms != 0) {
        CHECK(timed->ages_in_the_log > 0);
        timed->ages_in_the_log--;
    }
}

void leases_changed(struct leases *leases, const struct session *session,
                    bool is_renewed, uint64_t now_ns)
{
    struct timed_session *timed = find(leases, session->id);
    uint64_t ttl_ns = session->ttl_ms * NS_PER_MS;
    /* A blacklisting comes here, too, and must not move the deadline. */
    if (timed == NULL || timed->is_doomed ||
        (timed->ttl_ns == ttl_ns && !is_renewed)) {
        return;
    }
    timed->ttl_ns = ttl_ns;
    leases_heard(leases, session->id, now_ns);
    schedule_age(leases, timed);
}

bool leases_heard(struct leases *leases, uint64_t session, uint64_t received_ns)
{
    struct timed_session *timed = find(leases, session);
    if (timed == NULL || timed->is_doomed) {
        return false;
    }
    if (received_ns > timed->heard_ns) {
        timed->heard_ns = received_ns;
    }
    if (received_ns + timed->ttl_ns > timed->deadline_ns) {
        timed->deadline_ns = received_ns + timed->ttl_ns;
    }
    timed->logged_ns = 0;
    timed->ages_now = false;
    if (timed->age.slot == 0) {
        schedule_age(leases, timed);
    }
    return true;
}

void leases_detached(struct leases *leases, uint64_t session, uint64_t now_ns)
{
    struct timed_session *timed = find(leases, session);
    if (timed == NULL || timed->is_doomed || timed->linger_ns == 0) {
        return;
    }
    /* D is never before the last heartbeat. */
    uint64_t from_ns = now_ns > timed->heard_ns ? now_ns : timed->heard_ns;
    if (from_ns + timed->linger_ns >= timed->deadline_ns) {
        return;
    }
    timed->deadline_ns = from_ns + timed->linger_ns;
    heap_set(&leases->deadlines, &timed->deadline, timed->deadline_ns);
    /* So that linger survives a change of leader. */
    if (quiet_at(timed, now_ns) >= AGE_MIN_NS) {
        timed->ages_now = true;
        schedule_age(leases, timed);
    }
}

bool leases_needs_age0(const struct leases *leases, uint64_t session)
{
    const struct timed_session *timed = find(leases, session);
    return timed == NULL || timed->is_aged || timed->ages_in_the_log > 0;
}

bool leases_is_doomed(const struct leases *leases, uint64_t session)
{
    const struct timed_session *timed = find(leases, session);
    return timed != NULL && timed->is_doomed;
}

uint64_t leases_left(const struct leases *leases, uint64_t session,
                     uint64_t now_ns)
{
    const struct timed_session *timed = find(leases, session);
    return timed == NULL ? 0 : minus(timed->deadline_ns, now_ns);
}

uint64_t leases_next(const struct leases *leases)
{
    const struct heap_node *end = heap_first(&leases->deadlines);
    const struct heap_node *age = heap_first(&leases->ages);
    uint64_t next_ns = end == NULL ? UINT64_MAX : end->key;
    return age != NULL && age->key < next_ns ? age->key : next_ns;
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
        choose(leases, count++, session);
    }
    if (count == 0) {
        return LEASES_NOTHING;
    }
    uint64_t *ids = memory_new(count * sizeof *ids);
    for (uint32_t i = 0; i < count; i++) {
        ids[i] = leases->chosen[i]->id;
    }
    buffer_clear(&leases->command);
    encode_expire(&leases->command, ids, count);
    free(ids);
    bool is_proposed = propose(data, buffer_bytes(&leases->command));
    for (uint32_t i = 0; i < count; i++) {
        session = leases->chosen[i];
        if (is_proposed) {
            session->is_doomed = true;
            heap_remove(&leases->ages, &session->age);
        } else {
            heap_set(&leases->deadlines, &session->deadline,
                     session->deadline_ns);
        }
    }
    return is_proposed ? LEASES_PROPOSED : LEASES_REFUSED;
}

enum leases_step leases_age(struct leases *leases, uint64_t now_ns,
                            uint32_t session_max, timers_propose_fn *propose,
                            void *data)
{
    uint32_t count = 0;
    struct timed_session *session = NULL;
    while (count < session_max &&
           (session = pop_aging(leases, now_ns)) != NULL) {
        choose(leases, count++, session);
    }
    if (count == 0) {
        return LEASES_NOTHING;
    }
    /* Rounded down: an age may be too small, never too great. */
    struct session_age *ages = memory_new(count * sizeof *ages);
    for (uint32_t i = 0; i < count; i++) {
        session = leases->chosen[i];
        uint64_t age_ms = quiet_at(session, now_ns) / NS_PER_MS;
        CHECK(age_ms > 0);
        ages[i] = (struct session_age){session->id, (uint32_t)age_ms};
    }
    buffer_clear(&leases->command);
    encode_age(&leases->command, ages, count);
    free(ages);
    bool is_proposed = propose(data, buffer_bytes(&leases->command));
    for (uint32_t i = 0; i < count; i++) {
        session = leases->chosen[i];
        if (is_proposed) {
            session->logged_ns = quiet_at(session, now_ns);
            session->ages_now = false;
            session->ages_in_the_log++;
        }
        schedule_age(leases, session);
    }
    return is_proposed ? LEASES_PROPOSED : LEASES_REFUSED;
}

void leases_age_all(struct leases *leases, uint64_t now_ns)
{
    struct timed_session *session;
    struct timed_session *next;
    HASH_ITER (hh, leases->by_id, session, next) {
        uint64_t quiet_ns = quiet_at(session, now_ns);
        if (!session->is_doomed && quiet_ns >= session->ttl_ns / 4 &&
            quiet_ns >= AGE_MIN_NS && quiet_ns > session->logged_ns) {
            session->ages_now = true;
            schedule_age(leases, session);
        }
    }
}
