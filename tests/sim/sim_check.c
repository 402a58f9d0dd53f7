/* SPDX-License-Identifier: MIT */

#include "tests/sim/sim_check.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/memory.h"
#include "base/minmax.h"
#include "base/units.h"
#include "lockfsm/user/access.h"
#include "raft/replica.h"
#include "tests/sim/sim_counted.h"
#include "tests/sim/sim_cover.h"
#include "tests/sim/sim_disk.h"
#include "tests/sim/sim_events.h"
#include "tests/sim/sim_faces.h"
#include "tests/sim/sim_history.h"
#include "tests/sim/sim_lives.h"
#include "tests/sim/sim_node.h"
#include "tests/sim/sim_places.h"
#include "tests/sim/sim_silence.h"
#include "tests/sim/sim_slow.h"
#include "tests/sim/sim_users.h"
#include "tests/unit/lockfsm_delta.h"

struct past_entry {
    uint64_t term;
    uint64_t hash; /* Of type and body. */
    uint64_t effects_hash;
    uint64_t state_hash;
    uint64_t uses_hash; /* Hash of the use that users make of their quotas. */
    bool has_command;
};

struct past_term {
    uint64_t leader;     /* Its machine, from 1; 0: none yet. */
    uint64_t started_ns; /* Its process; 0: it has not sent anything yet. */
};

/* The members from an entry on. */
struct past_members {
    uint64_t place;
    struct replica_members members;
};

/* A life of the cluster. */
struct check_life {
    uint64_t offset; /* Difference between places and indexes. */
    uint64_t began;  /* The place of its first state; 0: a new cluster. */
    uint64_t ended;  /* Place of its last entry, once it is over. */
    uint64_t token_base;
    struct past_term *terms;
    uint64_t term_capacity;
    uint8_t cluster_id[CLUSTER_ID_SIZE];
    bool has_cluster_id;
};

struct sim_check {
    struct past_entry *entries; /* By place; [0] is unused. */
    uint64_t newest;
    uint64_t capacity;
    struct check_life life[SIM_LIFE_MAX];
    struct past_members *changes;
    uint64_t change_count;
    uint64_t change_capacity;
    struct sim_history *history;
    struct sim_silence *silence;
    struct sim_events *events;
    struct sim_lives *lives;
    struct sim_faces *faces;
    struct sim_counted *counted;
    struct sim_slow *slow;
    struct lockfsm_delta *delta[SIM_NODE_MAX];
    uint64_t stepped[SIM_NODE_MAX]; /* Applied index at the last check. */
    uint64_t started_ns[SIM_NODE_MAX];
    /* When each node last handed over because of its clock, by that. */
    uint64_t clock_moved_ns[SIM_NODE_MAX];
    struct replica_members members; /* The newest that were applied. */
    uint32_t level;                 /* Feature level of the cluster. */
    /* The first node that tried could not apply this entry because it
     * understands no higher level than this; 0: none. */
    uint64_t too_old_index;
    uint32_t too_old_level;
};

struct sim_check *sim_check_new(struct sim *sim)
{
    struct sim_check *check = memory_new(sizeof *check);
    check->silence = sim_silence_new(sim);
    check->events = sim_events_new(sim);
    check->lives = sim_lives_new();
    check->faces = sim_faces_new(sim);
    check->counted = sim_counted_new();
    check->slow = sim_slow_new(sim);
    check->history = sim_history_new(sim, check->silence);
    return check;
}

void sim_check_free(struct sim_check *check)
{
    for (int i = 0; i < SIM_NODE_MAX; i++) {
        lockfsm_delta_free(check->delta[i]);
    }
    sim_history_free(check->history);
    sim_silence_free(check->silence);
    sim_events_free(check->events);
    sim_lives_free(check->lives);
    sim_faces_free(check->faces);
    sim_counted_free(check->counted);
    sim_slow_free(check->slow);
    free(check->entries);
    free(check->changes);
    for (int i = 0; i < SIM_LIFE_MAX; i++) {
        free(check->life[i].terms);
    }
    free(check);
}

/* --- Lives ---------------------------------------------------------------- */

static struct check_life *life_of(struct sim_check *check,
                                  const struct sim_node *node)
{
    return &check->life[sim_node_life(node)];
}

/* The last place of a former life. */
static uint64_t end_of(const struct sim *sim, uint32_t life)
{
    return life < sim->life ? sim->check->life[life].ended : UINT64_MAX;
}

uint64_t sim_check_place_in(const struct sim *sim, uint32_t life,
                            uint64_t log_index)
{
    return sim->check->life[life].offset + log_index;
}

uint64_t sim_check_place(const struct sim *sim, const struct sim_node *node,
                         uint64_t log_index)
{
    return sim_check_place_in(sim, sim_node_life(node), log_index);
}

uint32_t sim_check_life_at(const struct sim *sim, uint64_t place)
{
    uint32_t life = sim->life;
    while (sim->check->life[life].began > place) {
        life--;
    }
    return life;
}

bool sim_check_lives_between(const struct sim *sim, uint64_t from, uint64_t to)
{
    return sim_check_life_at(sim, from) != sim_check_life_at(sim, to);
}

uint64_t sim_check_token_base(const struct sim *sim)
{
    return sim->check->life[sim->life].token_base;
}

struct sim_lives *sim_check_lives(const struct sim *sim)
{
    return sim->check->lives;
}

struct sim_counted *sim_check_counted(const struct sim *sim)
{
    return sim->check->counted;
}

struct sim_faces *sim_check_faces(const struct sim *sim)
{
    return sim->check->faces;
}

struct sim_events *sim_check_events(const struct sim *sim)
{
    return sim->check->events;
}

struct sim_silence *sim_check_silence(const struct sim *sim)
{
    return sim->check->silence;
}

struct sim_history *sim_check_history(const struct sim *sim)
{
    return sim->check->history;
}

uint32_t sim_check_level(const struct sim *sim)
{
    return sim->check->level;
}

static void fail_too_old(struct sim *sim, uint32_t level)
{
    sim_fail(sim, ORACLE_LEVELS,
             "a node stops as too old only if it is: one understands level "
             "%" PRIu32 ", and the cluster has %" PRIu32,
             level, sim->check->level);
}

void sim_check_too_old(struct sim *sim, struct sim_node *node)
{
    struct sim_check *check = sim->check;
    uint64_t applied = sim_check_place(
        sim, node, lockfsm_applied_index(core_state(sim_node_core(node))));
    uint32_t level = sim_node_level(node);
    if (level < check->level || sim_node_is_former(node)) {
        return;
    }
    /* It may be the first to apply the entry that raises the level, if it had
     * that level when it logged it. The next node that applies it will show. */
    if (applied != check->newest) {
        fail_too_old(sim, level);
    }
    check->too_old_index = applied + 1;
    check->too_old_level = level;
}

bool sim_check_is_member(const struct sim *sim, const struct sim_node *node)
{
    return sim_node_is_named(node, &sim->check->members);
}

uint64_t sim_check_newest(const struct sim *sim)
{
    return sim->check->newest;
}

void sim_check_node_starts(struct sim *sim, struct sim_node *node)
{
    uint32_t number = sim_node_host(node)->number;
    lockfsm_delta_free(sim->check->delta[number]);
    sim->check->delta[number] = lockfsm_delta_new();
    sim->check->stepped[number] = 0;
    sim->check->started_ns[number] = sim->now_ns;
    sim_faces_started(sim->check->faces, node);
    sim_counted_started(sim->check->counted, node);
    sim_slow_started(sim->check->slow, node);
}

void sim_check_node_stops(struct sim *sim, struct sim_node *node)
{
    uint32_t number = sim_node_host(node)->number;
    lockfsm_delta_free(sim->check->delta[number]);
    sim->check->delta[number] = NULL;
    sim_faces_stopped(sim->check->faces, node);
}

/* FNV-1a. */
static uint64_t mix(uint64_t hash, const void *data, size_t size)
{
    const uint8_t *bytes = data;
    for (size_t i = 0; i < size; i++) {
        hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
    }
    return hash;
}

static uint64_t mix_bytes(uint64_t hash, struct bytes bytes)
{
    hash = mix(hash, &bytes.size, sizeof bytes.size);
    return mix(hash, bytes.data, bytes.size);
}

static uint64_t hash_effects(const struct effects *effects)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (uint32_t i = 0; i < effects->count; i++) {
        const struct effect *e = &effects->effect[i];
        uint64_t numbers[] = {
            e->type,         e->log_index,    e->result.code,
            e->result.token, e->result.count, e->result.token_count,
            e->asked_index,  e->session,      e->token,
            e->wait_index,   e->time_ms,      e->hold_ms,
            e->count};
        hash = mix(hash, numbers, sizeof numbers);
        hash = mix_bytes(hash, e->lock);
        hash = mix_bytes(hash, e->owner);
        hash = mix_bytes(hash, e->text);
        hash = mix_bytes(hash, e->result.text);
        const char *reason = e->reason != NULL ? e->reason : "";
        hash = mix_bytes(hash, bytes_of_text(reason));
    }
    return hash;
}

/* Maintained as use changes, and counted afresh by a node that starts or
 * installs a snapshot. */
static uint64_t hash_uses(struct sim *sim, const struct lockfsm *fsm)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (uint32_t i = 0; sim_users_are_there(sim) && i < SIM_USER_COUNT; i++) {
        const struct user *user = lockfsm_user_named(
            fsm, bytes_of_text(sim_user_name(i)));
        for (int key = 0; user != NULL && key < QUOTA_CONNECTIONS; key++) {
            uint64_t use = user_use(user, (enum quota_key)key);
            hash = mix(hash, &use, sizeof use);
        }
    }
    return hash;
}

static struct past_entry *entry_at(struct sim_check *check, uint64_t log_index)
{
    if (log_index >= check->capacity) {
        uint64_t capacity = check->capacity == 0 ? 4096 : check->capacity;
        while (capacity <= log_index) {
            capacity *= 2;
        }
        check->entries = memory_resize(check->entries,
                                       capacity * sizeof *check->entries);
        memset(check->entries + check->capacity, 0,
               (capacity - check->capacity) * sizeof *check->entries);
        check->capacity = capacity;
    }
    return &check->entries[log_index];
}

static void note_members(struct sim_check *check, uint64_t place)
{
    if (check->change_count == check->change_capacity) {
        check->change_capacity = 2 * check->change_capacity + 16;
        check->changes = memory_resize(
            check->changes, check->change_capacity * sizeof *check->changes);
    }
    check->changes[check->change_count++] = (struct past_members){
        .place = place, .members = check->members};
}

static bool is_same(const struct replica_members *a,
                    const struct replica_members *b)
{
    struct buffer one = {0}, other = {0};
    replica_members_encode(a, &one);
    replica_members_encode(b, &other);
    bool is_equal = bytes_equal(buffer_bytes(&one), buffer_bytes(&other));
    buffer_done(&one);
    buffer_done(&other);
    return is_equal;
}

bool sim_check_members_at(const struct sim *sim, uint32_t life,
                          uint64_t log_index,
                          const struct replica_members *members)
{
    const struct sim_check *check = sim->check;
    uint64_t place = sim_check_place_in(sim, life, log_index);
    uint64_t at = check->change_count;
    while (at > 0 && check->changes[at - 1].place > place) {
        at--;
    }
    return place > check->newest || place > end_of(sim, life) ||
           (at > 0 && is_same(&check->changes[at - 1].members, members));
}

bool sim_check_was_voter(const struct sim *sim, uint64_t id, bool is_voter,
                         uint64_t from)
{
    const struct sim_check *check = sim->check;
    bool is_found = false;
    for (uint64_t i = 0; i < check->change_count; i++) {
        const struct replica_member *member = replica_members_find(
            &check->changes[i].members, id);
        bool has_vote = member != NULL && member->role == MEMBER_VOTER;
        bool is_past = i + 1 < check->change_count &&
                       check->changes[i + 1].place <= from;
        is_found |= !is_past && has_vote == is_voter;
    }
    return is_found;
}

/* Tokens of a life begin above all tokens of earlier lives. */
static void check_token_base(struct sim *sim, const struct lockfsm *fsm)
{
    struct check_life *life = &sim->check->life[sim->life];
    uint64_t base = lockfsm_token_base(fsm);
    uint8_t id[CLUSTER_ID_SIZE];
    lockfsm_cluster_id(fsm, id);
    if (life->token_base != 0 || !cluster_id_is_known(id)) {
        return;
    }
    life->token_base = base;
    if (sim->life > 0) {
        uint64_t former = sim->check->life[sim->life - 1].token_base;
        uint64_t newest = former + life->began;
        if (former == 0 || base <= newest) {
            sim_fail(sim, ORACLE_LIVES,
                     "tokens of a new life are above all before: they begin at "
                     "%" PRIu64 ", and there may be one of %" PRIu64,
                     base, newest);
        }
    }
}

void sim_check_begin_life(struct sim *sim, uint64_t log_index, uint32_t level)
{
    struct sim_check *check = sim->check;
    CHECK(sim->life + 1 < SIM_LIFE_MAX);
    check->life[sim->life].ended = check->newest;
    struct check_life *life = &check->life[++sim->life];
    /* A directory may have contained more than was committed. */
    life->began = u64_max(check->newest + 1, log_index);
    life->offset = life->began - log_index;
    check->too_old_index = 0;
    check->level = level;
    check->newest = life->began;
    sim_silence_free(check->silence);
    check->silence = sim_silence_new(sim);
    sim_history_follow(check->history, check->silence);
}

void sim_check_first_state(struct sim *sim, const struct lockfsm *fsm,
                           const struct replica_members *members)
{
    struct sim_check *check = sim->check;
    uint64_t place = check->life[sim->life].began;
    *entry_at(check,
              place) = (struct past_entry){.term = lockfsm_applied_term(fsm),
                                           .state_hash = lockfsm_hash(fsm),
                                           .uses_hash = hash_uses(sim, fsm)};
    check->members = *members;
    note_members(check, place);
    sim_silence_begin_life(check->silence, fsm);
    sim_lives_entry(check->lives, place, fsm);
    sim_faces_begin_life(check->faces, place, fsm);
    sim_history_begin_life(check->history, place, fsm);
}

bool sim_check_state_at(const struct sim *sim, uint32_t life,
                        uint64_t log_index, uint64_t term, uint64_t *ret_hash)
{
    uint64_t place = sim_check_place_in(sim, life, log_index);
    if (place > sim->check->newest || place > end_of(sim, life)) {
        return false;
    }
    const struct past_entry *past = &sim->check->entries[place];
    *ret_hash = past->state_hash;
    return past->term == term;
}

/* The hash of the state needs its encoding, which is the most expensive check,
 * so it is done once. */
static void look_at_state(struct sim *sim, struct sim_node *node,
                          uint64_t state_hash)
{
    const struct lockfsm *fsm = core_state(sim_node_core(node));
    const char *wrong = lockfsm_check_basic(fsm);
    if (wrong != NULL) {
        sim_fail(sim, ORACLE_SOUNDNESS,
                 "every state is consistent: %s at index %" PRIu64 ": %s",
                 sim_node_host(node)->name, lockfsm_applied_index(fsm), wrong);
        return;
    }
    /* The cast is for the state of the walk, which the digest keeps; the lock
     * state does not change. */
    if (lockfsm_digest((struct lockfsm *)fsm) != state_hash) {
        sim_fail(sim, ORACLE_EQUALITY,
                 "the digest is that of the state: %s at index %" PRIu64
                 " has changed a record and not said so",
                 sim_node_host(node)->name, lockfsm_applied_index(fsm));
        return;
    }
    wrong = lockfsm_delta_check(sim->check->delta[sim_node_host(node)->number],
                                fsm);
    if (wrong != NULL) {
        sim_fail(sim, ORACLE_SOUNDNESS,
                 "each state follows from the one before: %s at index %" PRIu64
                 ": %s",
                 sim_node_host(node)->name, lockfsm_applied_index(fsm), wrong);
    }
}

/* Neither the proposer of the entry nor the node that applied it was too old
 * for it. */
static void look_at_level(struct sim *sim, struct sim_node *node,
                          const struct replica_entry *entry,
                          const struct effects *effects)
{
    struct sim_check *check = sim->check;
    uint32_t level = lockfsm_feature_level(core_state(sim_node_core(node)));
    uint64_t place = sim_check_place(sim, node, entry->log_index);
    if (level > check->level) {
        /* BEGIN did not raise it. */
        sim->stats.raised += entry->log_index > 3;
        check->level = level;
    }
    if (place == check->too_old_index && check->level <= check->too_old_level) {
        fail_too_old(sim, check->too_old_level);
    }
    if (level > sim_node_level(node)) {
        sim_fail(sim, ORACLE_LEVELS,
                 "a node applies only what it understands: %s of level "
                 "%" PRIu32 " is at level %" PRIu32 " at index %" PRIu64,
                 sim_node_host(node)->name, sim_node_level(node), level,
                 entry->log_index);
    }
    for (uint32_t i = 0; i < effects->count; i++) {
        if (effects->effect[i].type == EFFECT_RESULT &&
            effects->effect[i].result.code == RESULT_LEVEL) {
            sim_fail(sim, ORACLE_LEVELS,
                     "entries above the level are not proposed: index %" PRIu64,
                     entry->log_index);
        }
    }
}

static void fail_uses(struct sim *sim, const struct sim_node *node,
                      uint64_t place)
{
    sim_fail(sim, ORACLE_QUOTAS,
             "a user has the same on all nodes: %s differs at place %" PRIu64,
             sim_node_host((struct sim_node *)(uintptr_t)node)->name, place);
}

/* The first node that applies it records it. */
static void write_entry(struct sim *sim, struct sim_node *node, uint64_t place,
                        const struct replica_entry *entry,
                        const struct effects *effects,
                        const struct past_entry *now)
{
    struct sim_check *check = sim->check;
    const struct lockfsm *fsm = core_state(sim_node_core(node));
    if (place != check->newest + 1) {
        sim_fail(sim, ORACLE_EQUALITY,
                 "entries are applied in order: %s applies %" PRIu64
                 " after %" PRIu64,
                 sim_node_host(node)->name, place, check->newest);
        return;
    }
    *entry_at(check, place) = *now;
    if (entry->type == ENTRY_CHANGE) {
        CHECK(replica_members_decode(entry->body, &check->members) == 0);
        note_members(check, place);
    }
    sim_places_entry(sim->places, entry, &check->members);
    check->newest = place;
    sim->stats.entries++;
    sim_note(sim, sim_node_host(node), "commits", entry->log_index, entry->term,
             now->state_hash & 0xffffff);
    check_token_base(sim, fsm);
    sim_events_entry(check->events, place, effects, fsm);
    sim_lives_entry(check->lives, place, fsm);
    sim_faces_entry(check->faces, place, effects, fsm);
    sim_history_write(check->history, place, entry, effects, fsm);
}

static void compare_entry(struct sim *sim, const struct sim_node *node,
                          uint64_t place, const struct past_entry *past,
                          const struct past_entry *now)
{
    const char *name = sim_node_host((struct sim_node *)(uintptr_t)node)->name;
    if (past->term != now->term || past->hash != now->hash) {
        sim_fail(sim, ORACLE_EQUALITY,
                 "all nodes apply the same entries: %s has another entry "
                 "at place %" PRIu64 " (term %" PRIu64 ", was %" PRIu64 ")",
                 name, place, now->term, past->term);
    } else if (past->effects_hash != now->effects_hash) {
        sim_fail(sim, ORACLE_EQUALITY,
                 "an entry has the same effects everywhere: %s differs "
                 "at place %" PRIu64,
                 name, place);
    } else if (past->state_hash != now->state_hash) {
        sim_fail(sim, ORACLE_EQUALITY,
                 "equal applied index means equal state: %s differs at "
                 "place %" PRIu64,
                 name, place);
    } else if (past->uses_hash != now->uses_hash) {
        fail_uses(sim, node, place);
    }
}

/* An entry that a node of a former life applies first is not judged: the node
 * cannot report it either, since it does not lead. */
void sim_check_applied(void *data, uint64_t log_index,
                       const struct effects *effects)
{
    struct sim_node *node = data;
    struct sim *sim = sim_node_sim(node);
    struct sim_check *check = sim->check;
    struct core *core = sim_node_core(node);
    const struct lockfsm *fsm = core_state(core);
    struct replica_entry entry = replica_entry(core_replica(core), log_index);
    struct past_entry now = {
        .term = entry.term,
        .hash = mix_bytes(entry.type, entry.body),
        .effects_hash = hash_effects(effects),
        .state_hash = lockfsm_hash(fsm),
        .uses_hash = hash_uses(sim, fsm),
        .has_command = entry.type == ENTRY_COMMAND,
    };
    uint64_t place = sim_check_place(sim, node, log_index);
    CHECK(lockfsm_applied_index(fsm) == log_index);
    look_at_state(sim, node, now.state_hash);
    if (place > end_of(sim, sim_node_life(node))) {
        return;
    }
    if (!sim_node_is_former(node)) {
        look_at_level(sim, node, &entry, effects);
        sim_silence_applied(check->silence, node, log_index, effects);
    }
    sim_events_applied(check->events, node, log_index);
    if (entry_at(check, place)->term == 0) {
        write_entry(sim, node, place, &entry, effects, &now);
    } else {
        compare_entry(sim, node, place, entry_at(check, place), &now);
    }
}

/* A single voter leads before its term is on disk, and sends nothing until
 * then. If it dies before, it may lead in that term again. */
static void look_at_reign(struct sim *sim, struct sim_node *node, uint64_t term,
                          struct past_term *reign)
{
    const struct sim_host *host = sim_node_host(node);
    uint64_t started_ns = 1 + sim->check->started_ns[host->number];
    bool is_again = reign->leader == host->number + 1;
    if (reign->leader == 0) {
        reign->leader = host->number + 1;
        sim->stats.leaders++;
        sim_note(sim, host, "leads", term, 0, 0);
    } else if (!is_again ||
               (reign->started_ns != 0 && reign->started_ns != started_ns)) {
        sim_fail(sim, ORACLE_LEADERS,
                 "there is one leader per term: %s leads term %" PRIu64
                 ", and so did n%" PRIu64 "%s",
                 host->name, term, reign->leader,
                 is_again ? " before it was started again" : "");
    }
    if (sim_node_disk(node)->durable_term >= term) {
        reign->started_ns = started_ns;
    }
}

static void look_at_leadership(struct sim *sim, struct sim_node *node)
{
    struct check_life *life = life_of(sim->check, node);
    if (!sim_node_leads(node)) {
        return;
    }
    uint64_t term = replica_term(core_replica(sim_node_core(node)));
    if (term >= life->term_capacity) {
        uint64_t capacity = 2 * term + 64;
        life->terms = memory_resize(life->terms,
                                    capacity * sizeof *life->terms);
        memset(life->terms + life->term_capacity, 0,
               (capacity - life->term_capacity) * sizeof *life->terms);
        life->term_capacity = capacity;
    }
    look_at_reign(sim, node, term, &life->terms[term]);
    if (sim_node_is_former(node) && core_is_serving(sim_node_core(node))) {
        sim_fail(sim, ORACLE_LIVES,
                 "no former life continues: %s serves in one, in term %" PRIu64,
                 sim_node_host(node)->name, term);
    }
}

/* From then on the node knows the cluster whose state it has, also if the state
 * came in a snapshot. */
static void look_at_cluster(struct sim *sim, struct sim_node *node,
                            const struct lockfsm *fsm)
{
    uint8_t cluster_id[CLUSTER_ID_SIZE];
    lockfsm_cluster_id(fsm, cluster_id);
    if (cluster_id_is_known(cluster_id) &&
        !cluster_id_equal(cluster_id, sim_node_cluster(node))) {
        sim_fail(sim, ORACLE_NODES,
                 "a node with a cluster's state knows its id: %s does not",
                 sim_node_host(node)->name);
    }
}

/* The time that a process may need to measure the clocks of the others: two
 * windows (core/members/clock_rate.h), and one of the others may have been
 * silent in one of them. */
#define MEASURING_NS (25 * NS_PER_S)

/* The process has run long enough to measure and be measured. */
static bool is_measured(struct sim *sim, const struct sim_host *host)
{
    return sim->now_ns - sim->check->started_ns[host->number] >= MEASURING_NS;
}

/* True if the clocks of more than half of the other voters are faster by more
 * than this, or slower. With 'is_sure' the others must know it, too. */
static bool is_off(struct sim *sim, const struct replica_members *members,
                   const struct sim_host *host, uint64_t percent, bool is_sure)
{
    uint64_t own = host->clock.permille;
    uint32_t others = 0, faster = 0, slower = 0;
    for (uint32_t i = 0; i < members->count; i++) {
        const struct sim_host *other = sim_node_host(
            sim_node_of(sim, &members->member[i]));
        uint64_t speed = other->clock.permille;
        if (members->member[i].role == MEMBER_VOTER && other != host) {
            others++;
            if (is_sure && !is_measured(sim, other)) {
                continue;
            }
            faster += speed * 100 > own * (100 + percent);
            slower += speed * (100 + percent) < own * 100;
        }
    }
    return others > 1 && (2 * faster > others || 2 * slower > others);
}

/* A slow network or a slow node is not taken for a wrong clock. */
static void look_at_clock(struct sim *sim, struct sim_node *node)
{
    const struct sim_host *host = sim_node_host(node);
    uint64_t *known_ns = &sim->check->clock_moved_ns[host->number];
    uint64_t moved_ns = core_clock_moved_ns(sim_node_core(node));
    struct replica_members members;
    bool is_new = moved_ns != 0 && moved_ns != *known_ns;
    *known_ns = moved_ns;
    if (is_new && sim_members(sim, &members) &&
        !is_off(sim, &members, host, 4, false)) {
        sim_fail(sim, ORACLE_CLOCKS,
                 "only a leader with a wrong clock hands over because of it: "
                 "%s runs at %llu permille",
                 host->name, (unsigned long long)host->clock.permille);
    }
}

void sim_check_stepped(struct sim *sim, struct sim_node *node)
{
    struct sim_check *check = sim->check;
    sim_cover_look(sim);
    look_at_leadership(sim, node);
    look_at_clock(sim, node);
    sim_counted_stepped(check->counted, node);
    sim_slow_stepped(check->slow, node);
    const char *wrong = core_check(sim_node_core(node));
    if (wrong != NULL) {
        sim_fail(sim, ORACLE_SOUNDNESS, "the core's invariants hold: %s: %s",
                 sim_node_host(node)->name, wrong);
        return;
    }
    if (!sim_node_is_former(node)) {
        sim_silence_stepped(check->silence, node);
    }
    uint32_t number = sim_node_host(node)->number;
    const struct lockfsm *fsm = core_state(sim_node_core(node));
    uint64_t applied = lockfsm_applied_index(fsm);
    sim_faces_stepped(check->faces, node, sim_check_place(sim, node, applied));
    if (applied == check->stepped[number]) {
        return;
    }
    check->stepped[number] = applied;
    sim_events_stepped(check->events, node, applied);
    uint64_t state_hash = lockfsm_hash(fsm);
    look_at_state(sim, node, state_hash);
    look_at_cluster(sim, node, fsm);
    uint64_t place = sim_check_place(sim, node, applied);
    if (place > end_of(sim, sim_node_life(node))) {
        return;
    }
    if (place > check->newest) {
        sim_fail(sim, ORACLE_EQUALITY,
                 "an applied entry is committed: %s has applied %" PRIu64
                 " and no node has reported it",
                 sim_node_host(node)->name, applied);
        return;
    }
    const struct past_entry *past = entry_at(check, place);
    if (applied > 0 && past->state_hash != state_hash) {
        sim_fail(sim, ORACLE_EQUALITY,
                 "equal applied index means equal state: %s differs at "
                 "index %" PRIu64 " (after a start or a snapshot)",
                 sim_node_host(node)->name, applied);
    } else if (applied > 0 && past->uses_hash != hash_uses(sim, fsm)) {
        fail_uses(sim, node, place);
    }
}

void sim_check_cluster(struct sim *sim, struct sim_node *node,
                       const uint8_t cluster_id[CLUSTER_ID_SIZE])
{
    struct check_life *own = life_of(sim->check, node);
    for (uint32_t i = 0; i <= sim->life; i++) {
        const struct check_life *life = &sim->check->life[i];
        if (life->has_cluster_id &&
            (life == own) != cluster_id_equal(life->cluster_id, cluster_id)) {
            sim_fail(sim, ORACLE_LIVES, "%s: %s has another",
                     life == own ? "a cluster has one id"
                                 : "a new life has its own id",
                     sim_node_host(node)->name);
        }
    }
    memcpy(own->cluster_id, cluster_id, CLUSTER_ID_SIZE);
    own->has_cluster_id = true;
}

void sim_check_clocks(struct sim *sim)
{
    struct sim_node *leader = sim_leader(sim);
    struct replica_members members;
    bool has_successor = false;
    if (leader == NULL || !sim_members(sim, &members)) {
        return;
    }
    const struct sim_host *host = sim_node_host(leader);
    if (!is_measured(sim, host)) {
        return;
    }
    uint64_t moved_ns = core_clock_moved_ns(sim_node_core(leader));
    for (uint32_t i = 0; i < members.count; i++) {
        const struct sim_host *other = sim_node_host(
            sim_node_of(sim, &members.member[i]));
        has_successor |= members.member[i].role == MEMBER_VOTER &&
                         other != host && is_measured(sim, other) &&
                         !is_off(sim, &members, other, 4, false);
    }
    if (moved_ns == 0 && has_successor &&
        is_off(sim, &members, host, 6, true)) {
        sim_fail(sim, ORACLE_CLOCKS,
                 "a leader has a clock as most voters have: %s has run at %llu "
                 "permille all the time",
                 host->name, (unsigned long long)host->clock.permille);
    }
}

bool sim_check_has_converged(struct sim *sim, char why[HASP_WHY_SIZE])
{
    struct replica_members members;
    if (!sim_members(sim, &members)) {
        snprintf(why, HASP_WHY_SIZE, "no node leads");
        return false;
    }
    for (uint32_t i = 0; i < members.count; i++) {
        struct sim_node *node = sim_node_of(sim, &members.member[i]);
        struct core *core = sim_node_core(node);
        uint64_t applied = core == NULL
                               ? 0
                               : sim_check_place(
                                     sim, node,
                                     lockfsm_applied_index(core_state(core)));
        if (applied != sim->check->newest) {
            snprintf(why, HASP_WHY_SIZE,
                     "n%" PRIu64 " (%s) has applied %" PRIu64 " of %" PRIu64,
                     members.member[i].id,
                     members.member[i].role == MEMBER_VOTER ? "voter"
                                                            : "standby",
                     applied, sim->check->newest);
            return false;
        }
    }
    return true;
}
