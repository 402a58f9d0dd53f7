/* SPDX-License-Identifier: MIT */

#include "tests/sim/sim_cover.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/check.h"
#include "tests/sim/sim_check.h"
#include "tests/sim/sim_disk.h"
#include "tests/sim/sim_history.h"
#include "tests/sim/sim_node.h"
#include "tests/sim/sim_replace.h"
#include "tests/sim/sim_rights.h"
#include "tests/sim/sim_users.h"

/* Two faults this far apart or closer are a pair. */
#define PAIR_NS (1 * SIM_S)
#define LOOK_EVERY_NS (50 * SIM_MS)

static const char *const fault_names[SIM_FAULT_COUNT] = {"kill",
                                                         "kill within",
                                                         "kill in call",
                                                         "power",
                                                         "stop",
                                                         "pause",
                                                         "slow loop",
                                                         "slow disk",
                                                         "bad disk",
                                                         "full disk",
                                                         "rot",
                                                         "scarce disk",
                                                         "isolate",
                                                         "split",
                                                         "one way",
                                                         "slow link",
                                                         "corner",
                                                         "usurp",
                                                         "relay",
                                                         "cut",
                                                         "client kill",
                                                         "client power",
                                                         "client pause",
                                                         "client suspend",
                                                         "client reconnect",
                                                         "client cut off",
                                                         "client late",
                                                         "replace",
                                                         "old directory"};

enum state {
    STATE_NO_LEADER,
    STATE_TWO_LEADERS,
    STATE_TRANSFER,
    STATE_NOT_SERVING,
    STATE_BEHIND,
    STATE_STANDBY,
    STATE_LEVELS,
    STATE_MINORITY,
    STATE_MARKED,
    STATE_BLACKLISTED,
    STATE_CROWD,
    STATE_EX_QUEUE,
    STATE_READERS_WRITER,
    STATE_SLOTS_FULL,
    STATE_DELAYED_QUEUE,
    STATE_UPGRADE,
    STATE_MAX_HOLD,
    STATE_SEVERAL,
    STATE_NOTE,
    STATE_BARGED,
    STATE_LEFT_OVER,
    STATE_VOTE_TAKEN,
    STATE_VOTE_REFUSED,
    STATE_LEADER_GOES,
    STATE_REQUIRED,
    STATE_DISABLED,
    STATE_REMOVED,
    STATE_REVOKED,
    STATE_QUOTA,
    STATE_WITHDRAWN,
    STATE_OLD_RUNS,
    STATE_OLD_LINKED,
    STATE_OLD_NAMED,
    STATE_OLD_STOPPED,
    STATE_OLD_TWO,
    STATE_OLD_TWICE,
    STATE_OLD_VOTER,
    STATE_LOST_DISK,
    STATE_UNASKED,
    STATE_ENDED_64,
    STATE_ENDED_1024,
    STATE_COUNT
};

static const char *const state_names[] = {
    [STATE_NO_LEADER] = "nobody leads",
    [STATE_TWO_LEADERS] = "two take themselves for leaders",
    [STATE_TRANSFER] = "a leader hands over",
    [STATE_NOT_SERVING] = "a leader that does not serve yet",
    [STATE_BEHIND] = "a running member lags by 100 entries",
    [STATE_STANDBY] = "a member is a standby",
    [STATE_LEVELS] = "running nodes of two feature levels",
    [STATE_MINORITY] = "less than half of the voters run",
    [STATE_MARKED] = "a session is marked as quiet",
    [STATE_BLACKLISTED] = "a session is blacklisted",
    [STATE_CROWD] = "a session holds 64 locks",
    [STATE_EX_QUEUE] = "three wait for an exclusive lock",
    [STATE_READERS_WRITER] = "a writer waits for readers",
    [STATE_SLOTS_FULL] = "somebody waits for a slot",
    [STATE_DELAYED_QUEUE] = "somebody waits for a delayed lock",
    [STATE_UPGRADE] = "an upgrade waits",
    [STATE_MAX_HOLD] = "a hold with an end of its own",
    [STATE_SEVERAL] = "one request waits for several locks",
    [STATE_NOTE] = "a lock exists for its note",
    [STATE_BARGED] = "somebody has barged",
    [STATE_LEFT_OVER] = "something is left for SWEEP",
    [STATE_VOTE_TAKEN] = "a vote is taken, not by force",
    [STATE_VOTE_REFUSED] = "a vote is not taken: too few are heard",
    [STATE_LEADER_GOES] = "the vote of the leader is taken",
    [STATE_REQUIRED] = "access is required",
    [STATE_DISABLED] = "a user with sessions is disabled",
    [STATE_REMOVED] = "a user was removed",
    [STATE_REVOKED] = "a certificate was revoked",
    [STATE_QUOTA] = "a user has used up a quota",
    [STATE_OLD_RUNS] = "an old directory runs beside its successor",
    [STATE_OLD_LINKED] = "a member is connected with an old directory",
    [STATE_OLD_NAMED] = "a node's newest configuration names an old directory",
    [STATE_OLD_STOPPED] = "an old directory has stopped as removed",
    [STATE_OLD_TWO] = "old directories of two numbers run",
    [STATE_OLD_TWICE] = "three directories of one number run",
    [STATE_OLD_VOTER] = "an old directory's successor is a voter",
    [STATE_LOST_DISK] = "a member has lost its disk",
    [STATE_UNASKED] = "a leader replaces a lost disk by itself",
    [STATE_ENDED_64] = "more than 64 holds end between two heartbeats",
    [STATE_ENDED_1024] = "more than 1,024 holds end between two heartbeats",
    [STATE_WITHDRAWN] = "a client that has lost its right holds the lock",
};

_Static_assert(STATE_COUNT <= SIM_STATE_COUNT, "sim.h has room for them");

const char *sim_fault_name(uint32_t fault)
{
    CHECK(fault < SIM_FAULT_COUNT);
    return fault_names[fault];
}

void sim_cover_fault(struct sim *sim, uint32_t fault)
{
    struct sim_cover *cover = &sim->cover;
    CHECK(fault < SIM_FAULT_COUNT);
    cover->fault[fault] = 1;
    for (uint32_t i = 0; i < SIM_FAULT_COUNT; i++) {
        if (cover->struck_ns[i] != 0 &&
            sim->now_ns - cover->struck_ns[i] < PAIR_NS) {
            uint32_t low = i < fault ? i : fault;
            uint32_t high = i < fault ? fault : i;
            cover->pair[low][high] = 1;
        }
    }
    cover->struck_ns[fault] = sim->now_ns;
}

static void reach(struct sim *sim, enum state state, bool is_so)
{
    sim->cover.state[state] |= is_so;
}

void sim_cover_vote(struct sim *sim, bool is_taken)
{
    reach(sim, is_taken ? STATE_VOTE_TAKEN : STATE_VOTE_REFUSED, true);
}

void sim_cover_lost_disk(struct sim *sim)
{
    reach(sim, STATE_LOST_DISK, true);
}

void sim_cover_unasked(struct sim *sim)
{
    reach(sim, STATE_UNASKED, true);
}

void sim_cover_ended(struct sim *sim, uint32_t count)
{
    reach(sim, STATE_ENDED_64, count > 64);
    reach(sim, STATE_ENDED_1024, count > 1024);
}

void sim_cover_leader_goes(struct sim *sim)
{
    reach(sim, STATE_LEADER_GOES, true);
}

static void look_at_lock(struct sim *sim, const struct lock *lock)
{
    bool is_held = lock->hold_count > 0;
    reach(sim, STATE_EX_QUEUE,
          is_held && lock->mode == LOCK_EXCLUSIVE && lock->wait_count >= 3);
    reach(sim, STATE_READERS_WRITER,
          is_held && lock->mode == LOCK_SHARED &&
              lock->waits_by_mode[LOCK_EXCLUSIVE] > 0);
    reach(sim, STATE_SLOTS_FULL,
          is_held && lock->mode == LOCK_SLOTS && lock->wait_count > 0);
    reach(sim, STATE_DELAYED_QUEUE,
          lock->delay_ms != 0 && lock->wait_count > 0);
    reach(sim, STATE_NOTE,
          lock->note.size > 0 && !is_held && lock->wait_count == 0);
    LIST_FOR (const struct hold, hold, &lock->holds, in_lock) {
        reach(sim, STATE_MAX_HOLD, hold->hold_ms != 0);
        reach(sim, STATE_BARGED, hold->has_barged);
    }
    LIST_FOR (const struct wait, wait, &lock->queue, in_lock) {
        reach(sim, STATE_UPGRADE, wait->is_upgrade);
        reach(sim, STATE_SEVERAL, wait->in_group.next != &wait->in_group);
    }
}

static void look_at_users(struct sim *sim, const struct lockfsm *fsm)
{
    const struct rights *rights = sim_rights_now(
        sim_history_rights(sim_check_history(sim)));
    reach(sim, STATE_REQUIRED, rights->is_required);
    reach(sim, STATE_REVOKED, rights->revoked_count > 0);
    for (int i = 0; i < RIGHT_USER_MAX; i++) {
        const struct right_user *mine = &rights->user[i];
        const struct user *user = lockfsm_user(fsm, mine->number);
        reach(sim, STATE_REMOVED, mine->name[0] != '\0' && mine->number == 0);
        for (int key = 0; user != NULL && key < QUOTA_BYTES; key++) {
            reach(sim, STATE_QUOTA,
                  user_use(user, (enum quota_key)key) >= mine->bound[key]);
        }
    }
}

/* A client that has lost the right to a lock keeps the lock until it releases
 * it. */
static void look_at_right(struct sim *sim, const struct lockfsm *fsm,
                          const struct hold *hold)
{
    const struct user *user = hold->session->user;
    reach(sim, STATE_WITHDRAWN,
          !user->is_disabled &&
              !lockfsm_may(fsm, user, VERB_SHARE, hold->lock->name, EXTENT_NAME,
                           NULL));
}

static void look_at_state(struct sim *sim, const struct lockfsm *fsm)
{
    if (sim_users_are_there(sim)) {
        look_at_users(sim, fsm);
    }
    for (const struct session *session = lockfsm_sessions(fsm); session != NULL;
         session = session->by_id.next) {
        reach(sim, STATE_MARKED, session->mark_index != 0);
        reach(sim, STATE_BLACKLISTED, session->blacklist_index != 0);
        reach(sim, STATE_CROWD, session->hold_count >= 64);
        reach(sim, STATE_DISABLED, session->user->is_disabled);
        LIST_FOR (const struct hold, hold, &session->holds, in_session) {
            look_at_right(sim, fsm, hold);
        }
    }
    uint32_t places;
    reach(sim, STATE_LEFT_OVER, lockfsm_has_left_over(fsm, &places));
    for (const struct lock *lock = lockfsm_locks(fsm); lock != NULL;
         lock = lock->by_name.next) {
        look_at_lock(sim, lock);
    }
}

static void look_at_members(struct sim *sim)
{
    struct replica_members members;
    uint32_t voters = 0, running = 0;
    if (!sim_members(sim, &members)) {
        return;
    }
    for (uint32_t i = 0; i < members.count; i++) {
        struct sim_node *node = sim_node_of(sim, &members.member[i]);
        struct core *core = sim_node_core(node);
        bool is_voter = members.member[i].role == MEMBER_VOTER;
        voters += is_voter;
        running += is_voter && core != NULL;
        reach(sim, STATE_STANDBY, !is_voter);
        reach(sim, STATE_BEHIND,
              core != NULL &&
                  sim_check_place(sim, node,
                                  lockfsm_applied_index(core_state(core))) +
                          100 <
                      sim_check_newest(sim));
    }
    reach(sim, STATE_MINORITY, 2 * running <= voters);
}

/* Directories that the leader's configuration has replaced. */
static void look_at_old(struct sim *sim, const struct sim_node *old,
                        const struct replica_members *members)
{
    uint64_t id = sim_node_id(old);
    const struct replica_member *member = replica_members_find(members, id);
    const struct sim_node *newest = sim_replace_newest(sim, id);
    uint64_t incarnation = sim_node_incarnation(old);
    bool is_replaced = member != NULL && sim_node_is_named(newest, members);
    reach(sim, STATE_OLD_STOPPED, is_replaced && sim_node_was_removed(old));
    for (uint32_t i = 0; i < sim->node_count; i++) {
        struct sim_node *node = sim->node[i];
        struct replica_members own;
        if (sim_node_core(node) == NULL || !is_replaced || node == old) {
            continue;
        }
        replica_members(core_replica(sim_node_core(node)), &own);
        reach(sim, STATE_OLD_LINKED, sim_node_linked(node, id) == incarnation);
        reach(sim, STATE_OLD_NAMED, sim_node_is_named(old, &own));
    }
    reach(sim, STATE_OLD_VOTER, is_replaced && member->role == MEMBER_VOTER);
}

static void look_at_replaced(struct sim *sim)
{
    struct replica_members members;
    uint32_t running[SIM_ID_MAX + 1] = {0}, numbers = 0;
    if (!sim_members(sim, &members)) {
        return;
    }
    for (uint32_t i = 0; i < sim->node_count; i++) {
        struct sim_node *node = sim->node[i];
        if (sim_node_is_old(node)) {
            look_at_old(sim, node, &members);
        }
        if (sim_node_is_old(node) && sim_node_core(node) != NULL) {
            numbers += running[sim_node_id(node)]++ == 0;
            reach(sim, STATE_OLD_TWICE, running[sim_node_id(node)] > 1);
        }
    }
    reach(sim, STATE_OLD_RUNS, numbers > 0);
    reach(sim, STATE_OLD_TWO, numbers > 1);
}

void sim_cover_look(struct sim *sim)
{
    uint32_t leaders = 0, levels = 0;
    struct sim_node *leader = sim_leader(sim);
    if (sim->now_ns - sim->cover.looked_ns < LOOK_EVERY_NS) {
        return;
    }
    sim->cover.looked_ns = sim->now_ns;
    for (uint32_t i = 0; i < sim->node_count; i++) {
        struct sim_node *node = sim->node[i];
        struct core *core = sim_node_core(node);
        if (core == NULL) {
            continue;
        }
        bool leads = sim_node_leads(node);
        leaders += leads;
        levels |= UINT32_C(1) << (sim_node_level(node) & 31);
        reach(sim, STATE_TRANSFER,
              leads && replica_is_transferring(core_replica(core)));
        reach(sim, STATE_NOT_SERVING, leads && !core_is_serving(core));
    }
    reach(sim, STATE_NO_LEADER, leaders == 0);
    reach(sim, STATE_TWO_LEADERS, leaders > 1);
    reach(sim, STATE_LEVELS, (levels & (levels - 1)) != 0);
    look_at_members(sim);
    look_at_replaced(sim);
    if (leader != NULL) {
        look_at_state(sim, core_state(sim_node_core(leader)));
    }
}

void sim_cover_add(struct sim_cover *sum, const struct sim_cover *one)
{
    for (uint32_t i = 0; i < SIM_FAULT_COUNT; i++) {
        sum->fault[i] += one->fault[i];
        for (uint32_t j = 0; j < SIM_FAULT_COUNT; j++) {
            sum->pair[i][j] += one->pair[i][j];
        }
    }
    for (uint32_t i = 0; i < SIM_STATE_COUNT; i++) {
        sum->state[i] += one->state[i];
    }
    for (uint32_t i = 0; i < SIM_PAIR_COUNT; i++) {
        for (uint32_t j = 0; j < SIM_PAIR_COUNT; j++) {
            sum->option[i][j] += one->option[i][j];
        }
    }
}

void sim_cover_print(const struct sim_cover *cover)
{
    for (uint32_t i = 0; i < STATE_COUNT; i++) {
        printf("covers\tstate\t%s\t%" PRIu32 "\n", state_names[i],
               cover->state[i]);
    }
    for (uint32_t i = 0; i < SIM_FAULT_COUNT; i++) {
        printf("covers\tfault\t%s\t%" PRIu32 "\n", fault_names[i],
               cover->fault[i]);
        for (uint32_t j = i; j < SIM_FAULT_COUNT; j++) {
            printf("covers\tpair\t%s + %s\t%" PRIu32 "\n", fault_names[i],
                   fault_names[j], cover->pair[i][j]);
        }
    }
}
