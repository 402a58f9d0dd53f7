/* SPDX-License-Identifier: MIT */

#include "tests/sim/sim_silence.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/minmax.h"
#include "tests/sim/sim_check.h"
#include "tests/sim/sim_node.h"
#include "tests/sim/sim_past.h"

#define STEP_NS (CLOCK_STEP_MS_MAX * SIM_MS)
/* Longest time between turns of a serving leader, and for its entries and read
 * requests. */
#define ALIVE_NS (200 * SIM_MS)
/* A read request and an entry on a slow network, turns, roundings. */
#define SLACK_NS (1000 * SIM_MS)
#define LOOK_EVERY_NS (50 * SIM_MS)

/* By the slowest clock. */
static uint64_t longest(uint64_t local_ns)
{
    return local_ns / 9 * 10;
}

/* A moment, and the time served and counted up to it. */
struct moment {
    uint64_t at_ns;
    uint64_t served_ns;
    uint64_t counted_ns;
};

/* The newest TIME or BEGIN that a node has applied, and when. */
struct noted {
    uint64_t index;
    uint64_t at_ns;
    uint64_t local_ns;
};

/* An index can have entries of several terms, and the newest of them need not
 * be the committed one. */
struct position {
    uint64_t index;
    uint64_t term;
};

struct proposal {
    UT_hash_handle hh;
    struct position position;
    uint64_t hash; /* Hash of the entry. */
    bool is_clock; /* A TIME or BEGIN. */
    struct moment moment;
    uint64_t from_ns; /* Start of the counting. */
};

struct quiet_session {
    UT_hash_handle hh;
    uint64_t id;
    uint64_t ttl_ns;
    struct moment heard;
    bool is_marked;
    struct moment mark;
    uint64_t quiet_ns; /* Silence that the mark has recorded. */
};

enum span_kind {
    SPAN_OF_WAIT,
    SPAN_OF_DELAY,
    SPAN_OF_HOLD,
    SPAN_OF_BREAK,
    SPAN_OF_LISTING,
    SPAN_OF_QUARANTINE
};
static const char *const span_names[] = {"WAIT",  "DELAY", "HOLD",
                                         "BREAK", "FOR",   "quarantine"};

struct standing_span {
    UT_hash_handle hh;
    enum span_kind kind;
    uint64_t length_ns;
    struct moment start;
    size_t key_size;
    uint8_t key[];
};

struct sim_silence {
    struct sim *sim;
    struct noted noted[SIM_NODE_MAX];
    struct proposal *proposals; /* By position. */
    uint64_t newest_clock;  /* Index of the newest committed TIME or BEGIN. */
    uint64_t counted_ns;    /* True time that these have counted. */
    uint64_t counted_up_to; /* Earlier moments must not be counted again. */
    /* The leader of the newest term that serves. */
    struct sim_node *leader;
    uint64_t term;
    struct moment begun;
    uint64_t served_ns;
    uint64_t anchor_ns;
    bool is_alive; /* At the last check. */
    uint64_t confirmed;
    uint64_t confirmed_at_ns; /* Since then a read request has been open. */
    uint64_t looked_ns;
    struct moment needed; /* Since then the clock has been needed. */
    bool is_needed;
    struct quiet_session *sessions;
    struct standing_span *spans;
    uint64_t quarantine_ms; /* For the next BEGIN, which begins a life; or 0. */
    struct buffer key;
};

struct sim_silence *sim_silence_new(struct sim *sim)
{
    struct sim_silence *silence = memory_new(sizeof *silence);
    silence->sim = sim;
    silence->served_ns = 1000 *
                         SIM_S; /* Large enough that it never falls below 0. */
    return silence;
}

void sim_silence_free(struct sim_silence *silence)
{
    struct quiet_session *session, *next_session;
    HASH_ITER (hh, silence->sessions, session, next_session) {
        HASH_DEL(silence->sessions, session);
        free(session);
    }
    struct standing_span *span, *next_span;
    HASH_ITER (hh, silence->spans, span, next_span) {
        HASH_DEL(silence->spans, span);
        free(span);
    }
    struct proposal *proposal, *next_proposal;
    HASH_ITER (hh, silence->proposals, proposal, next_proposal) {
        HASH_DEL(silence->proposals, proposal);
        free(proposal);
    }
    buffer_done(&silence->key);
    free(silence);
}

static struct moment now(const struct sim_silence *silence)
{
    return (struct moment){silence->sim->now_ns, silence->served_ns,
                           silence->counted_ns};
}

static uint64_t minus(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

static uint64_t unserved(const struct moment *from, const struct moment *to)
{
    return minus(to->at_ns - from->at_ns,
                 minus(to->served_ns, from->served_ns));
}

/* --- What is measured ----------------------------------------------------- */

static void note(struct sim_silence *silence, struct sim_node *node,
                 uint64_t index)
{
    struct sim_host *host = sim_node_host(node);
    silence->noted[host->number] = (struct noted){
        .index = index,
        .at_ns = silence->sim->now_ns,
        .local_ns = sim_host_now(silence->sim, host),
    };
}

void sim_silence_begin_life(struct sim_silence *silence,
                            const struct lockfsm *fsm)
{
    silence->newest_clock = lockfsm_clock_index(fsm);
    silence->counted_up_to = silence->sim->now_ns;
    (void)lockfsm_quarantine(fsm, &silence->quarantine_ms);
}

void sim_silence_loaded(struct sim_silence *silence, struct sim_node *node)
{
    note(silence, node, lockfsm_clock_index(core_state(sim_node_core(node))));
}

/* Owned by 'silence'; NULL: no node has written it. */
static struct proposal *proposal_at(const struct sim_silence *silence,
                                    struct position position)
{
    struct proposal *proposal = NULL;
    HASH_FIND(hh, silence->proposals, &position, sizeof position, proposal);
    return proposal;
}

/* Checks the passed time that a leader claims. */
static void check_measure(struct sim_silence *silence, struct sim_node *node,
                          uint64_t index, uint64_t base_index,
                          uint64_t elapsed_ms)
{
    struct sim_host *host = sim_node_host(node);
    const struct noted *noted = &silence->noted[host->number];
    uint64_t passed_ns = sim_host_now(silence->sim, host) - noted->local_ns;
    uint64_t passed_ms = passed_ns / SIM_MS;
    passed_ms = passed_ms < CLOCK_STEP_MS_MAX ? passed_ms : CLOCK_STEP_MS_MAX;
    if (base_index != noted->index || elapsed_ms > passed_ms + 2 ||
        elapsed_ms + 2 < passed_ms) {
        sim_fail(silence->sim, ORACLE_SILENCE,
                 "time is what a node has measured since it applied the newest "
                 "TIME or BEGIN: entry %" PRIu64 " of %s says %" PRIu64
                 " ms since %" PRIu64 ", not %" PRIu64 " since %" PRIu64,
                 index, host->name, elapsed_ms, base_index, passed_ms,
                 noted->index);
    }
}

static void look_at_clock_entry(struct sim_silence *silence,
                                struct sim_node *node,
                                const struct replica_entry *entry,
                                struct proposal *proposal)
{
    struct arena arena = {0};
    struct codec_level level;
    struct entry decoded;
    CHECK(entry_get(entry->body, &arena, &decoded, &level));
    const struct entry *command = &decoded;
    if (command->op == OP_TIME || command->op == OP_BEGIN) {
        bool is_time = command->op == OP_TIME;
        proposal->is_clock = true;
        check_measure(
            silence, node, entry->log_index,
            is_time ? command->time->base_index : command->begin->base_index,
            is_time ? command->time->elapsed_ms : command->begin->elapsed_ms);
        struct sim_host *host = sim_node_host(node);
        uint64_t from_ns = silence->noted[host->number].at_ns;
        uint64_t most_ns = STEP_NS / host->clock.permille * 1000;
        proposal->from_ns = from_ns + most_ns > silence->sim->now_ns
                                ? from_ns
                                : silence->sim->now_ns - most_ns;
    }
    arena_done(&arena);
}

/* An entry that no node has written before. */
static void propose(struct sim_silence *silence, struct sim_node *node,
                    const struct replica_entry *entry, uint64_t hash)
{
    struct proposal *proposal = memory_new(sizeof *proposal);
    proposal->position = (struct position){entry->log_index, entry->term};
    proposal->hash = hash;
    proposal->moment = now(silence);
    HASH_ADD(hh, silence->proposals, position, sizeof proposal->position,
             proposal);
    if (entry->type == ENTRY_COMMAND) {
        look_at_clock_entry(silence, node, entry, proposal);
    }
}

static void forget_proposal(struct sim_silence *silence,
                            struct proposal *proposal)
{
    HASH_DEL(silence->proposals, proposal);
    free(proposal);
}

void sim_silence_appended(struct sim_silence *silence, struct sim_node *node,
                          const struct replica_entry *entries, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        struct position position = {entries[i].log_index, entries[i].term};
        struct bytes body = entries[i].body;
        uint64_t hash = hash_bytes(body.data, body.size) + entries[i].type;
        struct proposal *proposal = proposal_at(silence, position);
        if (proposal != NULL && proposal->hash == hash) {
            continue; /* A follower writes what its leader proposed. */
        }
        if (proposal != NULL) {
            /* A single voter that died before its term was on disk, and lost
             * its proposals with it, proposes again. Two leaders of a term are
             * for oracle 1. */
            forget_proposal(silence, proposal);
        }
        propose(silence, node, &entries[i], hash);
    }
}

/* --- Sessions and spans --------------------------------------------------- */

static struct quiet_session *find_session(const struct sim_silence *silence,
                                          uint64_t id)
{
    struct quiet_session *session = NULL;
    HASH_FIND(hh, silence->sessions, &id, sizeof id, session);
    return session;
}

void sim_silence_heard(struct sim_silence *silence, uint64_t id)
{
    struct quiet_session *session = find_session(silence, id);
    if (session != NULL) {
        session->heard = now(silence);
    }
}

uint64_t sim_silence_heard_ns(const struct sim_silence *silence, uint64_t id)
{
    const struct quiet_session *session = find_session(silence, id);
    return session != NULL ? session->heard.at_ns : 0;
}

static struct bytes make_key(struct sim_silence *silence, enum span_kind kind,
                             uint64_t number, struct bytes lock,
                             struct bytes owner)
{
    buffer_clear(&silence->key);
    buffer_put_u8(&silence->key, (uint8_t)kind);
    buffer_put_u64(&silence->key, number);
    buffer_put_run(&silence->key, lock);
    buffer_put_run(&silence->key, owner);
    return buffer_bytes(&silence->key);
}

static struct standing_span *find_span(struct sim_silence *silence,
                                       struct bytes key)
{
    struct standing_span *span = NULL;
    HASH_FIND(hh, silence->spans, key.data, key.size, span);
    return span;
}

static void start_span(struct sim_silence *silence, struct bytes key,
                       uint64_t length_ms)
{
    struct standing_span *span = find_span(silence, key);
    if (span == NULL) {
        span = memory_new(sizeof *span + key.size);
        span->kind = (enum span_kind)key.data[0];
        span->key_size = key.size;
        memcpy(span->key, key.data, key.size);
        HASH_ADD_KEYPTR(hh, silence->spans, span->key, span->key_size, span);
    }
    span->length_ns = length_ms * SIM_MS;
    span->start = now(silence);
}

/* 'is_over': because its time was over. */
static void end_span(struct sim_silence *silence, struct bytes key,
                     bool is_over)
{
    struct standing_span *span = find_span(silence, key);
    if (span == NULL) {
        return;
    }
    uint64_t passed_ns = silence->sim->now_ns - span->start.at_ns;
    if (is_over && passed_ns + 2 * SIM_MS < span->length_ns / 11 * 10) {
        sim_fail(silence->sim, ORACLE_SILENCE,
                 "a time span has its length: a %s of %" PRIu64
                 " ms was over after %" PRIu64 " ms",
                 span_names[span->kind], span->length_ns / SIM_MS,
                 passed_ns / SIM_MS);
    }
    HASH_DEL(silence->spans, span);
    free(span);
}

/* A holder that has objected, or was not informed of a break, keeps its
 * hold. */
static void follow_break(struct sim_silence *silence, const struct effect *e)
{
    struct bytes key = make_key(silence, SPAN_OF_BREAK, e->session, e->lock,
                                e->owner);
    bool is_end = e->type == EFFECT_RELEASED || e->type == EFFECT_HOLD_EXPIRED;
    bool is_broken = is_end && e->reason != NULL &&
                     strcmp(e->reason, "broken") == 0;
    if (is_broken && find_span(silence, key) == NULL) {
        sim_fail(silence->sim, ORACLE_DURABLE,
                 "a durable hold is broken only if that was announced, and "
                 "nobody objected: session %" PRIu64 " lost %.*s",
                 e->session, (int)e->lock.size, (const char *)e->lock.data);
    }
    if (e->type == EFFECT_BREAKING) {
        start_span(silence, key, e->time_ms);
    } else if (is_end || e->type == EFFECT_OBJECTED) {
        end_span(silence, key, is_broken);
    }
}

static void follow_span(struct sim_silence *silence, const struct effect *e)
{
    static const struct bytes none = {NULL, 0};
    bool is_max = e->reason != NULL && strcmp(e->reason, "max hold") == 0;
    struct bytes wait = make_key(silence, SPAN_OF_WAIT, e->wait_index, none,
                                 none);
    if (e->type == EFFECT_QUEUED && e->time_ms > 0) {
        start_span(silence, wait, e->time_ms);
    } else if (e->type == EFFECT_QUEUED || e->type == EFFECT_WAIT_ENDED ||
               (e->type == EFFECT_GRANTED && e->wait_index != 0)) {
        end_span(silence, wait, false);
    }
    if (e->type == EFFECT_GRANTED || e->type == EFFECT_RELEASED ||
        e->type == EFFECT_HOLD_EXPIRED) {
        struct bytes hold = make_key(silence, SPAN_OF_HOLD, e->session, e->lock,
                                     e->owner);
        bool is_downgrade = e->reason != NULL &&
                            strcmp(e->reason, "downgraded") == 0;
        if (e->type != EFFECT_GRANTED || e->hold_ms == 0) {
            end_span(silence, hold, is_max);
        } else if (!is_downgrade) {
            start_span(silence, hold, e->hold_ms);
        }
    }
    if (e->type == EFFECT_DELAYED || e->type == EFFECT_DELAY_OVER) {
        struct bytes delay = make_key(silence, SPAN_OF_DELAY, 0, e->lock, none);
        if (e->type == EFFECT_DELAYED) {
            start_span(silence, delay, e->time_ms);
        } else {
            end_span(silence, delay, true);
        }
    }
    if (e->type == EFFECT_BLACKLISTED && e->time_ms > 0) {
        start_span(silence,
                   make_key(silence, SPAN_OF_LISTING, e->log_index, none, none),
                   e->time_ms);
    }
}

static struct bytes quarantine_key(struct sim_silence *silence)
{
    static const struct bytes none = {NULL, 0};
    return make_key(silence, SPAN_OF_QUARANTINE, 0, none, none);
}

/* It begins with the first BEGIN of a new life, and ends by itself. */
static void follow_quarantine(struct sim_silence *silence, uint64_t index,
                              const struct entry *command,
                              const struct effects *effects)
{
    bool begins = command->op == OP_BEGIN && silence->quarantine_ms > 0;
    if (begins) {
        start_span(silence, quarantine_key(silence), silence->quarantine_ms);
        silence->quarantine_ms = 0;
    } else if (command->op == OP_QUARANTINE_OVER) {
        end_span(silence, quarantine_key(silence), true);
    }
    bool stands = find_span(silence, quarantine_key(silence)) != NULL;
    for (uint32_t i = 0; i < effects->count && stands; i++) {
        const struct effect *e = &effects->effect[i];
        if (e->type == EFFECT_GRANTED) {
            sim_fail(silence->sim, ORACLE_LIVES,
                     "nothing is granted in the quarantine: entry %" PRIu64
                     " grants '%.*s' to session %" PRIu64,
                     index, (int)e->lock.size, (const char *)e->lock.data,
                     e->session);
        }
    }
}

/* Entries of the blacklist end without a report. */
static void drop_listings(struct sim_silence *silence,
                          const struct lockfsm *fsm)
{
    struct standing_span *span, *next;
    HASH_ITER (hh, silence->spans, span, next) {
        if (span->kind == SPAN_OF_LISTING &&
            lockfsm_blacklisting(fsm, load_u64(span->key + 1)) == NULL) {
            HASH_DEL(silence->spans, span);
            free(span);
        }
    }
}

static void session_leased(struct sim_silence *silence, const struct effect *e)
{
    struct quiet_session *session = memory_new(sizeof *session);
    session->id = e->session;
    session->ttl_ns = e->time_ms * SIM_MS;
    session->heard = now(silence);
    HASH_ADD(hh, silence->sessions, id, sizeof session->id, session);
}

static void session_forget(struct sim_silence *silence,
                           struct quiet_session *session)
{
    HASH_DEL(silence->sessions, session);
    free(session);
}

/* A renewal with time_ms 0 makes the session of a Redis value durable, and one
 * with another time gives it a lease (PEXPIRE, PERSIST, SET). */
static void follow_session(struct sim_silence *silence, const struct effect *e)
{
    struct quiet_session *session = find_session(silence, e->session);
    bool gets_lease = (e->type == EFFECT_SESSION_OPENED ||
                       past_is_renewal(e)) &&
                      e->time_ms != 0;
    if (session == NULL && e->type == EFFECT_SESSION_ENDED &&
        strcmp(e->reason, "expired") == 0) {
        sim_fail(silence->sim, ORACLE_DURABLE,
                 "no time ends a session without end: %" PRIu64 " has expired",
                 e->session);
    }
    if (session == NULL && gets_lease) {
        session_leased(silence, e);
    } else if (session != NULL && (e->type == EFFECT_SESSION_ENDED ||
                                   (past_is_renewal(e) && e->time_ms == 0))) {
        session_forget(silence, session);
    } else if (session != NULL &&
               (e->type == EFFECT_SESSION_HEARD || past_is_renewal(e))) {
        session->is_marked = false;
    }
    /* A shorter lease does not reduce what was promised. */
    session = find_session(silence, e->session);
    if (session != NULL && past_is_renewal(e)) {
        session->ttl_ns = u64_max(session->ttl_ns, e->time_ms * SIM_MS);
    }
}

static void mark(struct sim_silence *silence, struct quiet_session *session,
                 const struct proposal *proposal, uint64_t index,
                 uint64_t quiet_ms)
{
    bool is_before = proposal->moment.at_ns < session->heard.at_ns;
    if (session->is_marked || (is_before && quiet_ms == 0)) {
        return;
    }
    session->is_marked = true;
    session->mark = proposal->moment;
    session->mark.counted_ns = silence->counted_ns;
    session->quiet_ns = quiet_ms * SIM_MS;
    if (is_before) {
        return; /* A renewal came in between; the mark binds (rule 15). */
    }
    uint64_t quiet_ns = session->mark.at_ns - session->heard.at_ns;
    uint64_t most_ns = longest(session->ttl_ns / 4) + SLACK_NS +
                       unserved(&session->heard, &session->mark);
    if (quiet_ns > most_ns) {
        sim_fail(silence->sim, ORACLE_SILENCE,
                 "a silent session is marked at T/4: session %" PRIu64
                 " by entry %" PRIu64 " after %" PRIu64 " ms, at most %" PRIu64,
                 session->id, index, quiet_ns / SIM_MS, most_ns / SIM_MS);
    }
}

static void check_step(struct sim_silence *silence, uint64_t index,
                       const struct entry *command,
                       const struct effects *effects, uint64_t base_index)
{
    uint64_t step_ms = command->op == OP_BEGIN ? command->begin->elapsed_ms
                                               : command->time->elapsed_ms;
    step_ms = step_ms < CLOCK_STEP_MS_MAX ? step_ms : CLOCK_STEP_MS_MAX;
    if (base_index == 0 || base_index != silence->newest_clock) {
        step_ms = 0;
    }
    for (uint32_t i = 0; i < effects->count; i++) {
        const struct effect *e = &effects->effect[i];
        if (e->type == EFFECT_TIME && e->time_ms != step_ms) {
            sim_fail(silence->sim, ORACLE_SILENCE,
                     "only what was measured from the newest TIME or BEGIN "
                     "moves the log's clock: entry %" PRIu64 " moved it by "
                     "%" PRIu64 " ms, not %" PRIu64,
                     index, e->time_ms, step_ms);
        }
    }
}

/* A TIME or BEGIN is committed: the time that it has counted, and the sessions
 * that it has marked. */
static void follow_clock(struct sim_silence *silence,
                         const struct replica_entry *entry,
                         const struct entry *command,
                         const struct effects *effects)
{
    uint64_t index = entry->log_index;
    const struct proposal *proposal = proposal_at(
        silence, (struct position){index, entry->term});
    CHECK(proposal != NULL && proposal->is_clock);
    bool is_begin = command->op == OP_BEGIN;
    uint64_t base_index = is_begin ? command->begin->base_index
                                   : command->time->base_index;
    check_step(silence, index, command, effects, base_index);
    if (base_index != 0 && base_index == silence->newest_clock) {
        if (proposal->from_ns < silence->counted_up_to) {
            sim_fail(silence->sim, ORACLE_SILENCE,
                     "no moment is counted twice: entry %" PRIu64
                     " counts %" PRIu64 " ms that were counted before",
                     index,
                     (silence->counted_up_to - proposal->from_ns) / SIM_MS);
        }
        silence->counted_ns += proposal->moment.at_ns - proposal->from_ns;
        silence->counted_up_to = proposal->moment.at_ns;
    }
    silence->newest_clock = index;
    for (uint32_t i = 0; i < effects->count && !is_begin; i++) {
        const struct effect *e = &effects->effect[i];
        struct quiet_session *session = find_session(silence, e->session);
        if (e->type == EFFECT_SESSION_MARKED && session != NULL) {
            mark(silence, session, proposal, index, e->time_ms);
        }
    }
    for (struct quiet_session *session = silence->sessions;
         is_begin && session != NULL; session = session->hh.next) {
        mark(silence, session, proposal, index, 0);
    }
}

void sim_silence_entry(struct sim_silence *silence,
                       const struct replica_entry *entry,
                       const struct entry *command,
                       const struct effects *effects, const struct lockfsm *fsm)
{
    if (command->op == OP_TIME || command->op == OP_BEGIN) {
        follow_clock(silence, entry, command, effects);
    }
    for (uint32_t i = 0; i < effects->count; i++) {
        follow_session(silence, &effects->effect[i]);
        follow_break(silence, &effects->effect[i]);
        follow_span(silence, &effects->effect[i]);
    }
    follow_quarantine(silence, entry->log_index, command, effects);
    drop_listings(silence, fsm);
}

/* A leader counts a session from when it applied its OPEN or renewal itself. */
void sim_silence_applied(struct sim_silence *silence, struct sim_node *node,
                         uint64_t log_index, const struct effects *effects)
{
    for (uint32_t i = 0; i < effects->count; i++) {
        const struct effect *e = &effects->effect[i];
        bool is_heard = e->type == EFFECT_SESSION_OPENED || past_is_renewal(e);
        if (e->type == EFFECT_TIME) {
            note(silence, node, log_index);
        } else if (is_heard && core_is_serving(sim_node_core(node))) {
            sim_silence_heard(silence, e->session);
        }
    }
}

/* --- Who serves ----------------------------------------------------------- */

static uint64_t proposed_at(const struct sim_silence *silence,
                            const struct replica *replica, uint64_t index)
{
    struct replica_entry entry = replica_entry(replica, index);
    const struct proposal *proposal = proposal_at(
        silence, (struct position){index, entry.term});
    CHECK(proposal != NULL);
    return proposal->moment.at_ns;
}

/* No proposal or request of the leader has been in progress for long. */
static bool gets_on(struct sim_silence *silence, struct core *core)
{
    uint64_t now_ns = silence->sim->now_ns;
    const struct replica *replica = core_replica(core);
    uint64_t oldest = lockfsm_applied_index(core_state(core)) + 1;
    uint64_t confirmed = replica_confirmed(replica);
    if (confirmed != silence->confirmed ||
        confirmed + 1 >= replica_next_question(replica)) {
        silence->confirmed = confirmed;
        silence->confirmed_at_ns = now_ns;
    }
    return !replica_is_transferring(replica) &&
           now_ns - silence->confirmed_at_ns <= ALIVE_NS &&
           (oldest > replica_last_index(replica) ||
            now_ns - proposed_at(silence, replica, oldest) <= ALIVE_NS);
}

static void begin_reign(struct sim_silence *silence, struct sim_node *node,
                        uint64_t term)
{
    silence->leader = node;
    silence->term = term;
    silence->begun = now(silence);
    silence->anchor_ns = silence->sim->now_ns;
    silence->confirmed = 0;
    silence->confirmed_at_ns = silence->sim->now_ns;
    silence->is_needed = false;
    silence->is_alive = true;
}

static void serve(struct sim_silence *silence, struct core *core)
{
    uint64_t now_ns = silence->sim->now_ns;
    uint64_t passed_ns = now_ns - silence->anchor_ns;
    silence->anchor_ns = now_ns;
    if (!gets_on(silence, core)) {
        /* Nor did it when that began. */
        silence->served_ns -= silence->is_alive ? ALIVE_NS : 0;
        silence->is_alive = false;
    } else if (!silence->is_alive || passed_ns > ALIVE_NS) {
        silence->is_alive = true;
    } else {
        silence->served_ns += passed_ns;
    }
}

/* --- What must have ended by now ------------------------------------------ */

/* For what began at 'start', may take 'own_ns' under one leader and 'more_ns'
 * more under several: the longest time that may have passed. */
static uint64_t bound(const struct sim_silence *silence,
                      const struct moment *start, uint64_t own_ns,
                      uint64_t more_ns)
{
    struct moment present = now(silence);
    if (start->at_ns >= silence->begun.at_ns) {
        return longest(own_ns) + unserved(start, &present) + SLACK_NS;
    }
    /* A serving leader can use what the log has counted: at least this much was
     * both served and counted. */
    uint64_t before_ns = silence->begun.at_ns - start->at_ns;
    uint64_t counted_ns = silence->begun.counted_ns - start->counted_ns;
    uint64_t served_ns = minus(silence->begun.served_ns, start->served_ns);
    uint64_t used_ns = minus(counted_ns + served_ns, before_ns);
    return longest(own_ns + more_ns) + minus(before_ns, used_ns) +
           unserved(&silence->begun, &present) + SLACK_NS;
}

static void look_at_sessions(struct sim_silence *silence)
{
    for (struct quiet_session *session = silence->sessions; session != NULL;
         session = session->hh.next) {
        struct moment start = session->heard;
        uint64_t own_ns = session->ttl_ns;
        if (start.at_ns < silence->begun.at_ns && session->is_marked) {
            start = session->mark;
            own_ns = minus(own_ns, session->quiet_ns);
        } else if (start.at_ns < silence->begun.at_ns) {
            start = silence->begun;
        }
        uint64_t most_ns = bound(silence, &start, own_ns, STEP_NS);
        if (silence->sim->now_ns - start.at_ns > most_ns) {
            sim_fail(silence->sim, ORACLE_SILENCE,
                     "a dead session ends despite new leaders: session %" PRIu64
                     " of %" PRIu64 " ms lives %" PRIu64
                     " ms after its mark, %" PRIu64
                     " after its last heartbeat; at most %" PRIu64,
                     session->id, session->ttl_ns / SIM_MS,
                     (silence->sim->now_ns - start.at_ns) / SIM_MS,
                     (silence->sim->now_ns - session->heard.at_ns) / SIM_MS,
                     most_ns / SIM_MS);
        }
    }
}

static void look_at_spans(struct sim_silence *silence)
{
    for (struct standing_span *span = silence->spans; span != NULL;
         span = span->hh.next) {
        uint64_t steps = span->kind == SPAN_OF_HOLD ? 3 : 2;
        uint64_t most_ns = bound(silence, &span->start, span->length_ns,
                                 steps * STEP_NS);
        uint64_t passed_ns = silence->sim->now_ns - span->start.at_ns;
        if (passed_ns > most_ns) {
            sim_fail(silence->sim, ORACLE_SILENCE,
                     "a time span ends despite new leaders: a %s of %" PRIu64
                     " ms lasts %" PRIu64 " ms, at most %" PRIu64,
                     span_names[span->kind], span->length_ns / SIM_MS,
                     passed_ns / SIM_MS, most_ns / SIM_MS);
        }
    }
}

static bool needs_clock(const struct sim_silence *silence,
                        const struct lockfsm *fsm)
{
    struct quiet quiet;
    for (const struct session *session = lockfsm_sessions(fsm); session != NULL;
         session = session->by_id.next) {
        if (lockfsm_mark(fsm, session, &quiet)) {
            return true;
        }
    }
    return silence->spans != NULL;
}

static void look_at_clock(struct sim_silence *silence, struct core *core)
{
    struct moment present = now(silence);
    bool was_needed = silence->is_needed;
    silence->is_needed = needs_clock(silence, core_state(core));
    if (!silence->is_needed) {
        return;
    }
    const struct noted
        *noted = &silence->noted[sim_node_host(silence->leader)->number];
    if (!was_needed || noted->at_ns > silence->needed.at_ns) {
        silence->needed = present;
    }
    uint64_t passed_ns = present.at_ns - silence->needed.at_ns;
    uint64_t most_ns = longest(STEP_NS) + SLACK_NS +
                       unserved(&silence->needed, &present);
    if (passed_ns > most_ns) {
        sim_fail(silence->sim, ORACLE_SILENCE,
                 "the log's clock moves while a mark or span exists: it has "
                 "not moved for %" PRIu64 " ms, at most %" PRIu64,
                 passed_ns / SIM_MS, most_ns / SIM_MS);
    }
}

void sim_silence_stepped(struct sim_silence *silence, struct sim_node *node)
{
    struct core *core = sim_node_core(node);
    uint64_t number = sim_node_host(node)->number;
    uint64_t index = lockfsm_clock_index(core_state(core));
    if (silence->noted[number].index != index) {
        note(silence, node, index); /* From a snapshot. */
    }
    uint64_t term = sim_node_term(node);
    if (!core_is_serving(core) || term < silence->term) {
        return;
    }
    if (term > silence->term) {
        begin_reign(silence, node, term);
    }
    serve(silence, core);
    if (silence->sim->now_ns - silence->looked_ns < LOOK_EVERY_NS) {
        return;
    }
    silence->looked_ns = silence->sim->now_ns;
    look_at_clock(silence, core);
    look_at_sessions(silence);
    look_at_spans(silence);
}
