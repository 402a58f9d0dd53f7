/* SPDX-License-Identifier: MIT */

/* The operator: moves leadership, takes snapshots, blacklists and unblocks,
 * requests locks, takes locks of the dead, changes limits, and changes the
 * membership one node at a time. */

#include <inttypes.h>
#include <stdio.h>

#include "tests/sim/sim_check.h"
#include "tests/sim/sim_full.h"
#include "tests/sim/sim_history.h"
#include "tests/sim/sim_majority.h"
#include "tests/sim/sim_move.h"
#include "tests/sim/sim_node.h"
#include "tests/sim/sim_replace.h"
#include "tests/sim/sim_restore.h"
#include "tests/sim/sim_version.h"
#include "tests/sim/sim_worker.h"

/* An ADD is answered, or has been given up by every node, after this. */
#define ADD_NS (10 * SIM_S)

/* Prepares a node to become a member: an empty data directory, and the present
 * members in its configuration, on another machine if there is one. It must not
 * be a node that anybody still considers a member, nor one that an ADD which is
 * under way may be about to make a member: it names the directory that it has
 * found. A node that was never a member can be prepared while others are down.
 */
struct sim_node *sim_admin_prepare(struct sim *sim, uint64_t id,
                                   const struct replica_members *members)
{
    struct sim_node *unused = sim_replace_unused(sim);
    if (unused != NULL && sim_chance(sim, 0.6)) {
        sim_node_settle(unused, id, members);
        return unused;
    }
    struct sim_node *node = sim_replace_newest(sim, id);
    uint64_t wiped_ns = sim_node_wiped_ns(node);
    if (sim_restore_has_forgotten(sim, node) ||
        (wiped_ns != 0 && sim->now_ns < wiped_ns + ADD_NS)) {
        return NULL;
    }
    for (uint32_t i = 0; i < sim->node_count; i++) {
        struct replica_members named;
        struct core *core = sim_node_core(sim->node[i]);
        if (sim_node_is_former(sim->node[i]) ||
            sim_node_id(sim->node[i]) == 0 ||
            (sim_node_is_old(sim->node[i]) && sim->node[i] != node)) {
            continue; /* Its view does not count. */
        }
        if (core == NULL) {
            if (sim_node_is_fresh(node)) {
                continue;
            }
            return NULL;
        }
        replica_members(core_replica(core), &named);
        for (uint32_t j = 0; j < named.count; j++) {
            if (named.member[j].id == id && sim->node[i] != node) {
                return NULL;
            }
        }
    }
    sim_node_wipe(node, members);
    return node;
}

/* Removes a voter's vote, or gives a standby its vote (back). */
static bool choose_vote(struct sim *sim, const struct replica_members *members,
                        struct op *op)
{
    const struct replica_member
        *member = &members->member[prng_below(&sim->prng, members->count)];
    bool is_voter = member->role == MEMBER_VOTER;
    op->admin = is_voter ? ADMIN_DEMOTE : ADMIN_PROMOTE;
    op->is_forced = is_voter && sim_majority_forces(sim, member->id);
    op->id = member->id;
    return true;
}

/* Replaces members: adds a node that is not a member, or removes one if there
 * are more than at the start. */
static bool choose_member(struct sim *sim, struct op *op)
{
    struct replica_members members;
    if (!sim_members(sim, &members)) {
        return false;
    }
    if (sim_chance(sim, 0.25)) {
        return choose_vote(sim, &members, op);
    }
    uint64_t is_member = 0;
    for (uint32_t i = 0; i < members.count; i++) {
        is_member |= UINT64_C(1) << members.member[i].id;
    }
    if (members.count > sim->member_count ||
        (members.count > 2 && sim_chance(sim, 0.2))) {
        op->admin = ADMIN_REMOVE;
        op->id = members.member[prng_below(&sim->prng, members.count)].id;
        op->is_forced = sim_majority_forces(sim, op->id);
        return true;
    }
    for (uint64_t id = 1; id <= sim->id_count; id++) {
        struct sim_node *node = (is_member >> id & 1) == 0
                                    ? sim_admin_prepare(sim, id, &members)
                                    : NULL;
        if (node != NULL) {
            op->admin = ADMIN_ADD;
            op->is_forced = sim_chance(sim, 0.3);
            op->id = id;
            op->host = sim_node_number(node);
            if (op->is_forced) {
                sim_node_start(node); /* Its log names its directory. */
            }
            return true;
        }
    }
    return false;
}

/* Changes the addresses of a member. */
static bool choose_move(struct sim *sim, struct op *op)
{
    struct replica_members members;
    bool is_chosen = sim_members(sim, &members) &&
                     sim_move_choose(sim, &members, op);
    op->kind = is_chosen ? ASK_ADMIN : ASK_NONE;
    op->wait_ms = sim_between(sim, 50, 2000);
    return is_chosen;
}

/* A node is down and another could be added meanwhile: then the log of the node
 * that returns does not name the newcomer, which may lead by then. */
static bool is_tempted(struct sim *sim)
{
    bool is_one_down = false, is_one_fresh = false;
    for (uint32_t i = 0; i < sim->node_count; i++) {
        bool is_used = sim_node_id(sim->node[i]) != 0;
        is_one_down |= is_used && sim_node_core(sim->node[i]) == NULL;
        is_one_fresh |= is_used && sim_node_is_fresh(sim->node[i]);
    }
    return is_one_down && is_one_fresh;
}

/* The member that was added last, judged by ids; 0: any. */
static uint64_t choose_successor(struct sim *sim)
{
    struct replica_members members;
    uint64_t successor = 0;
    if (!sim_members(sim, &members) || sim_chance(sim, 0.3)) {
        return 0;
    }
    for (uint32_t i = 0; i < members.count; i++) {
        uint64_t id = members.member[i].id;
        successor = id > successor && id > sim->member_count ? id : successor;
    }
    return successor;
}

/* True if a client acts for the session, or might start to. */
static bool is_alive(const struct sim *sim, const struct session *session)
{
    bool has_client = session->is_redis;
    for (uint32_t i = 0; i < sim->client_count; i++) {
        has_client |= sim_client_has(sim->client[i], session->id);
    }
    return has_client;
}

/* A hold that some node knows and whose client has died: no client believes in
 * it, which the caller of RELEASEIF has to know. Or a hold of a living program,
 * which learns of the end from its next heartbeat. When the request arrives the
 * hold may have ended, and the lock may have another holder. */
static bool choose_taken(struct sim *sim, bool is_living, struct op *op)
{
    struct core *core = sim_node_core(
        sim->node[prng_below(&sim->prng, sim->node_count)]);
    for (uint32_t i = 0; core != NULL && i < LOCK_COUNT_MAX; i++) {
        const struct lock *lock = lockfsm_lock(core_state(core),
                                               sim_lock_bytes(i));
        if (lock == NULL || lock->hold_count == 0) {
            continue;
        }
        const struct hold *hold = LIST_ENTRY(lock->holds.next, struct hold,
                                             in_lock);
        bool is_meant = is_living ? sim_clients_run(sim, hold->session->id)
                                  : !is_alive(sim, hold->session);
        if (is_meant) {
            op->lock = i;
            op->id = hold->session->id;
            op->token = hold->token;
            snprintf(op->tag, sizeof op->tag, "%.*s", (int)hold->owner.size,
                     (const char *)hold->owner.data);
            return true;
        }
    }
    return false;
}

uint64_t sim_admin_limit(struct sim *sim, enum limit_key key)
{
    /* There must be enough sessions, since a client that lost its session needs
     * another. There must be enough locks, too: a lock with a note stays even
     * if nobody wants it. */
    static const uint64_t small[LIMIT_COUNT] = {[LIMIT_HOLDS_PER_SESSION] = 6,
                                                [LIMIT_WAITS_PER_LOCK] = 4,
                                                [LIMIT_WAITS_PER_SESSION] = 3,
                                                [LIMIT_OWNERS_PER_SESSION] = 2,
                                                [LIMIT_FENCES] = 3,
                                                [LIMIT_BLACKLIST] = 2,
                                                [LIMIT_WAITS] = 12};
    return small[key] == 0 || sim_chance(sim, 0.5)
               ? lockfsm_default_limits.of[key]
               : 1 + prng_below(&sim->prng, small[key]);
}

bool sim_admin_choose(struct worker *worker, struct op *op)
{
    struct sim *sim = worker->client->sim;
    bool changes = sim->id_count > sim->member_count;
    bool moves = sim_moves_are_there(sim);
    double chance = changes && is_tempted(sim) ? 0.3
                    : changes || moves         ? 0.06
                                               : 0.02;
    if (sim->phase == SIM_CHAOS && sim_chance(sim, 0.15) &&
        choose_taken(sim, sim_chance(sim, 0.4), op)) {
        op->kind = ASK_ADMIN;
        op->admin = ADMIN_RELEASEIF;
        return true;
    }
    if (sim->phase == SIM_CHAOS && sim_version_is_ripe(sim) &&
        sim_chance(sim, 0.3)) {
        op->kind = ASK_ADMIN;
        op->admin = ADMIN_FINALIZE;
        return true;
    }
    if (sim->phase != SIM_CHAOS || !sim_chance(sim, chance)) {
        return false;
    }
    op->kind = ASK_ADMIN;
    op->admin = (enum admin_kind)prng_below(&sim->prng, ADMIN_RELEASEIF);
    uint64_t client = prng_below(&sim->prng, sim->client_count);
    op->id = 0;
    if (moves && sim_chance(sim, 0.4)) {
        return choose_move(sim, op);
    }
    if (changes && op->admin == ADMIN_TRANSFER && sim_chance(sim, 0.5)) {
        op->id = choose_successor(sim);
    } else if (changes && sim_chance(sim, 0.8)) {
        if (!choose_member(sim, op)) {
            op->kind = ASK_NONE;
            return false;
        }
    } else if (op->admin == ADMIN_BLACKLIST_CLIENT ||
               op->admin == ADMIN_PARDON_CLIENT) {
        /* All of them are more than a small slice holds. */
        op->id = prng_below(&sim->prng, 3) == 0 ? 0 : client + 1;
    } else if (op->admin == ADMIN_BLACKLIST_SESSION) {
        op->id = sim->client[client]->session; /* 0: it has none at present. */
    } else if (op->admin == ADMIN_PLEASE) {
        op->lock = (uint32_t)prng_below(&sim->prng, LOCK_COUNT_MAX);
    } else if (op->admin == ADMIN_TRIAL) {
        op->id = prng_below(&sim->prng, 2);
    } else if (op->admin == ADMIN_LIMIT) {
        op->id = prng_below(&sim->prng, LIMIT_COUNT);
        op->token = sim_admin_limit(sim, (enum limit_key)op->id);
    }
    op->wait_ms = sim_between(sim, 50, 2000);
    return true;
}

static void put_client(struct sim_channel *channel, const struct op *op)
{
    char name[16];
    if (op->id == 0) {
        snprintf(name, sizeof name, "c*");
    } else {
        snprintf(name, sizeof name, "c%u", (unsigned)op->id);
    }
    sim_channel_word(channel, "CLIENT");
    sim_channel_word(channel, name);
}

static void put_blacklisting(struct sim_channel *channel, const struct op *op)
{
    sim_channel_begin(channel, 7);
    sim_channel_word(channel, "BLACKLIST.ADD");
    if (op->admin == ADMIN_BLACKLIST_SESSION) {
        sim_channel_word(channel, "SESSION");
        sim_channel_number(channel, op->id);
    } else {
        put_client(channel, op);
    }
    sim_channel_word(channel, "REASON");
    sim_channel_word(channel, "an operator said so");
    sim_channel_word(channel, "FOR");
    sim_channel_number(channel, op->wait_ms);
}

/* Forced: the leader is given the directory, and does not dial. */
static void put_addition(struct sim_channel *channel, const struct op *op,
                         const char *address)
{
    uint64_t incarnation = op->is_forced ? sim_node_incarnation(
                                               channel->sim->node[op->host])
                                         : 0;
    char hex[17];
    sim_channel_begin(channel, incarnation != 0 ? 5 : 3);
    sim_channel_word(channel, "RAFT.ADD");
    sim_channel_number(channel, op->id);
    sim_channel_word(channel, address);
    if (incarnation != 0) {
        snprintf(hex, sizeof hex, "%016" PRIx64, incarnation);
        sim_channel_word(channel, "INCARNATION");
        sim_channel_word(channel, hex);
    }
}

static void put_about_lock(struct sim_channel *channel, const struct op *op)
{
    bool is_please = op->admin == ADMIN_PLEASE;
    sim_channel_begin(channel, is_please ? 4 : 8);
    sim_channel_word(channel, is_please ? "LOCK.PLEASE" : "LOCK.RELEASEIF");
    sim_channel_word(channel, sim_lock_name(op->lock));
    if (is_please) {
        sim_channel_word(channel, "MESSAGE");
        sim_channel_word(channel, "an operator asks");
        return;
    }
    sim_channel_word(channel, "OWNER");
    sim_channel_word(channel, op->tag);
    sim_channel_word(channel, "SESSION");
    sim_channel_number(channel, op->id);
    sim_channel_word(channel, "TOKEN");
    sim_channel_number(channel, op->token);
}

static void put_update(struct sim_channel *channel, const struct op *op)
{
    char address[MEMBER_ADDRESS_SIZE];
    sim_move_address(channel->sim, op, address);
    sim_channel_begin(channel, 3);
    sim_channel_word(channel, "RAFT.UPDATE");
    sim_channel_number(channel, op->id);
    sim_channel_word(channel, address);
    channel->sim->stats.changes++;
}

void sim_admin_put(struct sim_channel *channel, const struct op *op)
{
    char address[MEMBER_ADDRESS_SIZE];
    switch (op->admin) {
    case ADMIN_TRANSFER:
        sim_channel_begin(channel, op->id != 0 ? 2 : 1);
        sim_channel_word(channel, "RAFT.TRANSFER");
        if (op->id != 0) {
            sim_channel_number(channel, op->id);
        }
        channel->sim->stats.transfers++;
        break;
    case ADMIN_SNAPSHOT:
        sim_channel_begin(channel, 1);
        sim_channel_word(channel, "RAFT.SNAPSHOT");
        break;
    case ADMIN_BLACKLIST_SESSION:
    case ADMIN_BLACKLIST_CLIENT:
        put_blacklisting(channel, op);
        break;
    case ADMIN_PARDON_CLIENT:
        sim_channel_begin(channel, 3);
        sim_channel_word(channel, "BLACKLIST.REMOVE");
        put_client(channel, op);
        break;
    case ADMIN_PLEASE:
    case ADMIN_RELEASEIF:
        put_about_lock(channel, op);
        break;
    case ADMIN_FINALIZE:
        sim_channel_begin(channel, 1);
        sim_channel_word(channel, "RAFT.FINALIZE");
        break;
    case ADMIN_TRIAL:
        sim_channel_begin(channel, 2);
        sim_channel_word(channel, "RAFT.TRIAL");
        sim_channel_word(channel, op->id == 1 ? sim_lock_name(0) : "entry");
        break;
    case ADMIN_LIMIT:
        sim_channel_begin(channel, 3);
        sim_channel_word(channel, "LIMITS.SET");
        sim_channel_word(channel, limit_rules[op->id].name);
        sim_channel_number(channel, op->token);
        break;
    case ADMIN_ADD:
        sim_node_address(channel->sim->node[op->host], address);
        put_addition(channel, op, address);
        channel->sim->stats.changes++;
        break;
    case ADMIN_UPDATE:
        put_update(channel, op);
        break;
    case ADMIN_REMOVE:
    case ADMIN_DEMOTE:
    case ADMIN_PROMOTE:
        sim_channel_begin(channel, op->is_forced ? 3 : 2);
        sim_channel_word(channel, op->admin == ADMIN_REMOVE   ? "RAFT.REMOVE"
                                  : op->admin == ADMIN_DEMOTE ? "RAFT.DEMOTE"
                                                              : "RAFT.PROMOTE");
        sim_channel_number(channel, op->id);
        if (op->is_forced) {
            sim_channel_word(channel, "FORCE");
        }
        channel->sim->stats.changes++;
        break;
    }
}

/* RELEASEIF ends exactly the hold that it names: 1 means that this hold is
 * over, 0 that it did not exist during the whole request. */
void sim_admin_take(struct sim *sim, const struct op *op,
                    const struct resp_value *value)
{
    struct sim_history *history = sim_check_history(sim);
    struct bytes name = sim_lock_bytes(op->lock);
    uint64_t newest = sim_check_newest(sim);
    if (op->admin == ADMIN_UPDATE) {
        sim_move_done(sim, op);
        return;
    }
    if (op->admin != ADMIN_RELEASEIF ||
        (value->integer == 0 && sim_users_are_there(sim))) {
        return; /* A caller without the right has found nothing. */
    }
    sim->stats.taken += value->integer == 1;
    if (sim_lock_is_shared(op->lock) || sim_lock_is_slots(op->lock)) {
        return; /* Holds that one entry granted share their token. */
    }
    if (value->integer == 1 ? sim_history_held_sometime(
                                  history, name, op->token, newest, newest)
                            : sim_history_held_always(history, name, op->token,
                                                      op->newest, newest)) {
        sim_fail(sim, ORACLE_RESULTS,
                 "RELEASEIF takes what it names: '%s' with token %" PRIu64
                 " was answered %" PRId64,
                 sim_lock_name(op->lock), op->token, value->integer);
    }
}
