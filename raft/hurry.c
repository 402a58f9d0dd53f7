/* SPDX-License-Identifier: MIT */

/* Elections that need not take their time: when a leader's process dies, its
 * connections close, and the survivors know at once (T8).
 *
 * A follower then moves Raft's clock, so that its election deadline is a random
 * part of a heartbeat away. That is not always the end of it: the first one to
 * ask may find that the other has not given its leader up yet, or both ask at
 * once and split the votes, and each of these costs a whole election timeout or
 * two. So as long as nobody leads, each further wait of a hurried election is
 * shortened, too, to a random time of a few heartbeats. Timing is only liveness
 * in Raft; terms do not race, since every election begins with a pre-vote. */

#include "raft/replica_state.h"

static void shorten_wait(struct replica *replica, uint64_t wait_ms)
{
    uint64_t until_ms = replica->now_ms + replica->ahead_ms + wait_ms;
    uint64_t deadline = raft_timeout(&replica->core);
    if (deadline > until_ms) {
        replica->ahead_ms += deadline - until_ms;
    }
}

void replica_hurry(struct replica *replica, uint64_t id, uint64_t now_ms)
{
    const struct raft *core = &replica->core;
    if (core->state != RAFT_FOLLOWER) {
        return;
    }
    uint64_t leader = core->follower_state.current_leader.id;
    if (id == 0 ? replica->has_heard_leader : id != leader) {
        return;
    }
    if (now_ms > replica->now_ms) {
        replica->now_ms = now_ms;
    }
    shorten_wait(replica, prng_below(&replica->prng, replica->heartbeat_ms));
    replica->hurries = HURRY_MAX;
    replica->hurried = raft_timeout(core);
}

void hurry_on(struct replica *replica)
{
    const struct raft *core = &replica->core;
    uint64_t beat_ms = replica->heartbeat_ms;
    if (replica->hurries == 0 || core->state == RAFT_LEADER ||
        raft_timeout(core) == replica->hurried) {
        return;
    }
    /* A candidate tries again before one that has just given its vote. */
    uint64_t least_ms = core->state == RAFT_CANDIDATE ? beat_ms / 2
                                                      : 2 * beat_ms;
    shorten_wait(replica, least_ms + prng_below(&replica->prng, 2 * beat_ms));
    replica->hurries--;
    replica->hurried = raft_timeout(core);
}
