/* SPDX-License-Identifier: MIT */

#include "tests/sim/sim_replace.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "raft/replica.h"
#include "tests/sim/sim_cover.h"
#include "tests/sim/sim_majority.h"
#include "tests/sim/sim_node.h"
#include "tests/sim/sim_old.h"
#include "tests/sim/sim_places.h"
#include "tests/sim/sim_worker.h"

/* By tenths of all runs. */
#define REPLACED 3
/* Separate from all other random choices of the run. */
#define DICE UINT64_C(0x6f6c646469726563)
#define MACHINES_MIN 2
#define MACHINES_MAX 4
#define ANSWER_NS (4 * SIM_S)
/* Unfinished work is abandoned after this time. */
#define PATIENCE_NS (12 * SIM_S)
/* How much longer the operator waits for a leader that may do it by itself:
 * leaders that change all the time do not. */
#define LEADER_NS (20 * SIM_S)
/* A lost disk has to be replaced within this time. */
#define FINISH_NS (40 * SIM_S)

enum stage {
    NOTHING,
    HAND_OVER,
    DEMOTE,
    REMOVE,
    ADD,
    PROMOTE,
    AWAIT,   /* The leader does it by itself, or an operator after a while. */
    REPLACE, /* One request does it all; repeated until it is answered OK. */
};

/* The operator's plan. */
struct sim_replace {
    struct sim *sim;
    enum stage stage;
    uint32_t life;
    uint64_t id;
    struct sim_node *old;
    struct sim_node *fresh; /* From ADD on. */
    bool is_standby;        /* Added as a standby, ... */
    bool promotes;          /* ... and gets its vote later. */
    bool goes_on;           /* The replacement is replaced, too. */
    bool has_lost;          /* A disk is lost: once in a run. */
    bool is_lost;   /* The disk of this node: it must not stay a member. */
    bool stays;     /* The machine whose disk is lost is added again, ... */
    bool at_once;   /* ... by RAFT.REPLACE, ... */
    bool by_itself; /* ... or by the leader (cluster.replace_empty). */
    uint64_t not_before_ns;
    uint64_t until_ns;
};

uint32_t sim_replace_machines(const struct sim *sim)
{
    struct prng dice = {sim->options.seed + DICE};
    bool is_there = prng_below(&dice, 10) < REPLACED;
    uint32_t count = MACHINES_MIN + (uint32_t)prng_below(
                                        &dice, MACHINES_MAX - MACHINES_MIN + 1);
    uint32_t room = SIM_NODE_MAX - sim->id_count;
    return !is_there ? 0 : count < room ? count : room;
}

struct sim_replace *sim_replace_new(struct sim *sim)
{
    struct sim_replace *replace = memory_new(sizeof *replace);
    replace->sim = sim;
    return replace;
}

void sim_replace_free(struct sim_replace *replace)
{
    free(replace);
}

struct sim_node *sim_replace_unused(const struct sim *sim)
{
    for (uint32_t i = 0; i < sim->node_count; i++) {
        if (sim_node_id(sim->node[i]) == 0) {
            return sim->node[i];
        }
    }
    return NULL;
}

struct sim_node *sim_replace_newest(const struct sim *sim, uint64_t id)
{
    struct sim_node *newest = NULL;
    for (uint32_t i = 0; i < sim->node_count; i++) {
        if (sim_node_id(sim->node[i]) == id &&
            (newest == NULL || sim_node_is_old(newest))) {
            newest = sim->node[i];
        }
    }
    return newest;
}

/* --- What is next --------------------------------------------------------- */

static void enter(struct sim_replace *replace, enum stage stage,
                  uint64_t pause_ms)
{
    struct sim *sim = replace->sim;
    replace->stage = stage;
    replace->not_before_ns = sim->now_ns +
                             sim_between(sim, 0, pause_ms) * SIM_MS;
    replace->until_ns = replace->not_before_ns + PATIENCE_NS;
}

static bool is_away(const struct sim *sim, const struct replica_member *member)
{
    const struct sim_host *host = sim_node_host(sim_node_of(sim, member));
    return !host->is_running || host->is_paused;
}

/* A member that is away, if there is one; else any, seldom the leader. */
static const struct replica_member *
choose_member(struct sim *sim, const struct replica_members *members)
{
    const struct sim_node *leader = sim_leader(sim);
    const struct replica_member *chosen = NULL;
    uint64_t from = prng_below(&sim->prng, members->count);
    bool spares_leader = sim_chance(sim, 0.8);
    for (uint32_t i = 0; i < members->count; i++) {
        const struct replica_member
            *member = &members->member[(from + i) % members->count];
        bool is_leader = sim_node_of(sim, member) == leader;
        if ((chosen == NULL || is_away(sim, member)) &&
            !(is_leader && spares_leader)) {
            chosen = member;
        }
    }
    return chosen;
}

/* True if a majority lives without it, whatever other operators force. A run
 * loses no second disk, because two could exceed what was ever promised. */
static bool may_lose_disk(const struct sim_replace *replace,
                          const struct replica_members *members)
{
    const struct sim *sim = replace->sim;
    uint32_t voters = 0;
    MEMBER_EACH (member, members) {
        voters += member->role == MEMBER_VOTER;
    }
    return !replace->has_lost && voters >= 3 &&
           sim->id_count == sim->member_count;
}

/* A mount is missing, or the disk is new: the node starts with an empty
 * directory in its place. */
static void lose_disk(struct sim_replace *replace,
                      const struct replica_members *members)
{
    struct sim *sim = replace->sim;
    bool heals = sim_places_empty_ns(sim) != 0;
    sim_note(sim, sim_node_host(replace->old), "has lost its disk", 0, 0, 0);
    sim_node_wipe(replace->old, members);
    if (heals && sim_chance(sim, 0.25)) {
        sim_node_unmark(replace->old);
    }
    sim_node_start(replace->old);
    replace->has_lost = replace->is_lost = true;
    replace->stays = sim_chance(sim, heals ? 0.95 : 0.7);
    replace->at_once = replace->stays && sim_chance(sim, heals ? 0.95 : 0.6);
    replace->by_itself = replace->at_once && heals;
    sim_cover_lost_disk(sim);
}

void sim_replace_begin(struct sim *sim)
{
    struct sim_replace *replace = sim->replace;
    struct replica_members members;
    if (replace->stage != NOTHING || sim_replace_unused(sim) == NULL ||
        !sim_members(sim, &members) || members.count < 3) {
        return;
    }
    const struct replica_member *member = choose_member(sim, &members);
    if (member == NULL) {
        return;
    }
    replace->id = member->id;
    replace->life = sim->life;
    replace->old = sim_node_of(sim, member);
    replace->is_standby = sim_chance(sim, 0.4);
    replace->promotes = sim_chance(sim, 0.7);
    replace->goes_on = sim_chance(sim, 0.3);
    sim_note(sim, sim_node_host(replace->old), "is to be replaced", replace->id,
             0, 0);
    replace->stays = replace->is_lost = replace->at_once = false;
    replace->by_itself = false;
    if (replace->old != sim_leader(sim) && may_lose_disk(replace, &members) &&
        sim_chance(sim, sim_places_empty_ns(sim) != 0 ? 0.8 : 0.25)) {
        lose_disk(replace, &members);
    } else {
        sim_old_part(sim, replace->old);
    }
    uint64_t rest_ms = sim_chance(sim, 0.5) ? 300 : 4000;
    enter(replace,
          replace->by_itself                ? AWAIT
          : replace->at_once                ? REPLACE
          : replace->old == sim_leader(sim) ? HAND_OVER
          : sim_chance(sim, 0.3)            ? DEMOTE
                                            : REMOVE,
          rest_ms);
}

/* It is no longer a member: the next machine gets its number. */
static void prepare(struct sim_replace *replace)
{
    struct sim *sim = replace->sim;
    struct replica_members members;
    struct sim_node *fresh = replace->stays ? replace->old
                                            : sim_replace_unused(sim);
    if (fresh == NULL || !sim_members(sim, &members)) {
        return; /* Retried. */
    }
    if (!replace->stays) {
        sim_node_settle(fresh, replace->id, &members);
    }
    sim_node_start(fresh);
    replace->fresh = fresh;
    enter(replace, ADD, 1000);
}

/* Another operator has added it; or it was unreachable, and is abandoned. */
static void fresh_is_member(struct sim_replace *replace)
{
    struct sim *sim = replace->sim;
    sim->stats.replaced++;
    sim_note(sim, sim_node_host(replace->fresh), "has replaced",
             sim_node_number(replace->old) + 1, replace->is_standby, 0);
    if (replace->goes_on && sim->phase == SIM_CHAOS &&
        sim_replace_unused(sim) != NULL) {
        replace->goes_on = false;
        replace->stays = replace->is_lost = false;
        replace->old = replace->fresh;
        sim_old_part(sim, replace->old);
        enter(replace, REMOVE, 1500);
    } else if (replace->promotes) {
        enter(replace, PROMOTE, 2000);
    } else {
        replace->stage = NOTHING;
    }
}

static bool is_elsewhere(const struct sim_replace *replace)
{
    struct replica_members members;
    const struct replica_member *member = NULL;
    if (sim_members(replace->sim, &members)) {
        member = replica_members_find(&members, replace->id);
    }
    return member != NULL &&
           sim_node_of(replace->sim, member) != replace->fresh;
}

/* Another operator has removed the member, or its vote, which ends the
 * replacement. */
static bool is_taken_over(const struct sim_replace *replace)
{
    struct sim *sim = replace->sim;
    struct sim_node *leader = sim_leader(sim);
    struct replica_members members;
    if (leader == NULL || !sim_members(sim, &members) ||
        lockfsm_replaced_by(core_state(sim_node_core(leader)), replace->id) !=
            0) {
        return false;
    }
    const struct replica_member *member = replica_members_find(&members,
                                                               replace->id);
    return member == NULL || member->role != MEMBER_VOTER;
}

/* OK: the member votes with the directory that its machine has now. */
static void replace_is_done(struct sim_replace *replace)
{
    struct sim *sim = replace->sim;
    sim->stats.replaced++;
    sim_note(sim, sim_node_host(replace->old), "has its place again",
             replace->id, 0, 0);
    replace->stage = NOTHING;
}

/* Waits for the leader, but not for ever: the operator does it then. */
static void await(struct sim_replace *replace)
{
    struct sim *sim = replace->sim;
    struct replica_members members;
    const struct replica_member *member = NULL;
    if (sim_members(sim, &members)) {
        member = replica_members_find(&members, replace->id);
    }
    if (member != NULL && member->role == MEMBER_VOTER &&
        member->incarnation == sim_node_incarnation(replace->old)) {
        replace_is_done(replace);
    } else if (sim->now_ns >= replace->until_ns + LEADER_NS ||
               (sim->now_ns >= replace->until_ns &&
                !sim_node_is_marked(replace->old))) {
        enter(replace, REPLACE, 500);
    } else {
        replace->not_before_ns = sim->now_ns + 200 * SIM_MS;
    }
}

/* --- Asking --------------------------------------------------------------- */

static void put_id(struct sim_channel *channel, const char *command,
                   const struct sim_replace *replace, bool is_forced)
{
    sim_channel_begin(channel, is_forced ? 3 : 2);
    sim_channel_word(channel, command);
    sim_channel_number(channel, replace->id);
    if (is_forced) {
        sim_channel_word(channel, "FORCE");
    }
}

static void put_add(struct sim_channel *channel,
                    const struct sim_replace *replace)
{
    char address[MEMBER_ADDRESS_SIZE];
    sim_node_address(replace->fresh, address);
    uint64_t told = sim_chance(replace->sim, 0.3)
                        ? sim_node_incarnation(replace->fresh)
                        : 0;
    char hex[17];
    sim_channel_begin(channel, 3 + (replace->is_standby ? 1u : 0u) +
                                   (told != 0 ? 2u : 0u));
    sim_channel_word(channel, "RAFT.ADD");
    sim_channel_number(channel, replace->id);
    sim_channel_word(channel, address);
    if (replace->is_standby) {
        sim_channel_word(channel, "STANDBY");
    }
    if (told != 0) {
        snprintf(hex, sizeof hex, "%016" PRIx64, told);
        sim_channel_word(channel, "INCARNATION");
        sim_channel_word(channel, hex);
    }
}

static void ask(struct sim_replacer *replacer)
{
    struct sim *sim = replacer->client->sim;
    const struct sim_replace *replace = sim->replace;
    struct sim_channel *channel = &replacer->channel;
    bool forces = sim_majority_forces(sim, replace->id);
    switch (replace->stage) {
    case HAND_OVER:
        sim_channel_begin(channel, 1);
        sim_channel_word(channel, "RAFT.TRANSFER");
        sim->stats.transfers++;
        break;
    case DEMOTE:
        put_id(channel, "RAFT.DEMOTE", replace, forces);
        break;
    case REMOVE:
        put_id(channel, "RAFT.REMOVE", replace, forces);
        break;
    case ADD:
        put_add(channel, replace);
        break;
    case REPLACE:
        put_id(channel, "RAFT.REPLACE", replace, true);
        break;
    default:
        put_id(channel, "RAFT.PROMOTE", replace, false);
        break;
    }
    sim->stats.changes++;
    sim_channel_send(channel, sim_client_clock(replacer->client), ANSWER_NS);
}

static bool is_member(const struct sim_replace *replace)
{
    struct replica_members members;
    return !sim_members(replace->sim, &members) ||
           replica_members_find(&members, replace->id) != NULL;
}

static void answered(struct sim_replace *replace, const char *word)
{
    bool is_done = word[0] == '\0';
    bool is_late = replace->sim->now_ns >= replace->until_ns;
    switch (replace->stage) {
    case HAND_OVER:
        enter(replace, REMOVE, 1000);
        break;
    case DEMOTE:
        if (is_done || is_late || strcmp(word, "BADARG") == 0) {
            enter(replace, REMOVE, 1000);
        }
        break;
    case REMOVE:
        if (is_done && !is_member(replace)) {
            prepare(replace);
        } else if (is_late && !replace->is_lost) {
            replace->stage = NOTHING;
        } else if (strcmp(word, "BADARG") == 0) {
            enter(replace, HAND_OVER, 500); /* It might lead. */
        }
        break;
    case ADD:
        if (is_done || strcmp(word, "UNFINISHED") == 0) {
            fresh_is_member(replace);
        } else if (is_elsewhere(replace)) {
            replace->stage = NOTHING;
        } else if (is_late && sim_replace_unused(replace->sim) != NULL) {
            replace->old = replace->fresh;
            replace->stays = false;
            prepare(replace);
        }
        break;
    case REPLACE:
        if (is_done) {
            replace_is_done(replace);
        } else if (is_taken_over(replace)) {
            enter(replace, REMOVE, 500); /* And is added as a new one. */
        }
        break;
    case PROMOTE:
        if (is_done || is_late || strcmp(word, "BADARG") == 0) {
            replace->stage = NOTHING;
        }
        break;
    default:
        break;
    }
}

static void take(struct sim_replacer *replacer)
{
    struct sim *sim = replacer->client->sim;
    struct sim_replace *replace = sim->replace;
    char word[32];
    sim_channel_error(&replacer->channel, word);
    sim_say(sim, &replacer->client->host, "the replacer gets '%s' in stage %d",
            word, (int)replace->stage);
    sim_channel_later(&replacer->channel, sim_between(sim, 20, 400) * SIM_MS);
    if (word[0] != '\0' && strcmp(word, "UNFINISHED") != 0) {
        sim_channel_close(&replacer->channel);
    } else {
        sim->stats.operations++;
    }
    answered(replace, word);
}

/* --- After a calm ----------------------------------------------------------
 */

static bool is_finished(struct sim *sim)
{
    const struct sim_replace *replace = sim->replace;
    return replace->stage == NOTHING || !replace->is_lost;
}

void sim_replace_finish(struct sim *sim)
{
    if (is_finished(sim)) {
        return;
    }
    sim_run_until(sim, sim->now_ns + FINISH_NS, is_finished);
    if (!is_finished(sim)) {
        sim_fail(sim, ORACLE_PROGRESS,
                 "a member that has lost its disk can be replaced: n%" PRIu64
                 " is not after %llu s",
                 sim->replace->id, (unsigned long long)(FINISH_NS / SIM_S));
    }
}

/* --- Life ----------------------------------------------------------------- */

void sim_replacer_init(struct sim_replacer *replacer, struct sim_client *client)
{
    struct sim *sim = client->sim;
    *replacer = (struct sim_replacer){.client = client};
    sim_channel_init(&replacer->channel, sim, &client->host);
    replacer->is_there = client->host.number == sim->node_count &&
                         sim_replace_machines(sim) > 0;
    if (sim_users_are_there(sim)) {
        replacer->channel.who = &sim_identity_local;
    }
}

void sim_replacer_done(struct sim_replacer *replacer)
{
    sim_channel_done(&replacer->channel);
}

void sim_replacer_work(struct sim_replacer *replacer)
{
    struct sim_channel *channel = &replacer->channel;
    if (!replacer->is_there) {
        return;
    }
    struct sim *sim = replacer->client->sim;
    struct sim_replace *replace = sim->replace;
    if (replace->life != sim->life) {
        replace->stage = NOTHING; /* Everything has been wiped since. */
    }
    if (channel->is_waiting && sim_channel_take(channel)) {
        take(replacer);
    }
    sim_channel_watch(channel);
    if (replace->stage == AWAIT && sim->now_ns >= replace->not_before_ns) {
        await(replace);
        return;
    }
    if (!replacer->client->is_draining && replace->stage != NOTHING &&
        sim->now_ns >= replace->not_before_ns &&
        sim_channel_is_ready(channel)) {
        ask(replacer);
    }
}

uint64_t sim_replacer_next(const struct sim_replacer *replacer)
{
    if (!replacer->is_there || replacer->client->is_draining) {
        return UINT64_MAX;
    }
    const struct sim_replace *replace = replacer->client->sim->replace;
    uint64_t at_ns = sim_channel_next(&replacer->channel);
    bool is_idle = replace->stage == NOTHING && !replacer->channel.is_waiting;
    return is_idle                          ? UINT64_MAX
           : replace->not_before_ns > at_ns ? replace->not_before_ns
                                            : at_ns;
}
