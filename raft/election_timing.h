/* SPDX-License-Identifier: MIT */

/* When a node becomes a candidate: without needless delay, but not while
 * another election could still succeed.
 *
 * libraft has a random election timer. This module adds three mechanisms.
 *
 * Hurry. When a leader's process dies, its connections close and the survivors
 * know at once (T8); when it falls silent, they know after the minimum election
 * timeout. A follower that knows moves Raft's clock forward, so that its wait
 * ends early. The voters take turns in the order of their ids: the first
 * becomes a candidate at once, each other one a step later. By then it has
 * heard of the previous voter's candidacy, unless that voter has died as well
 * or lacks an entry. Raft's random wait would take a third of its range on
 * average, and could still make two voters candidates at once. Until there is a
 * leader, later waits are shortened as well, to a random time of a few
 * heartbeats. The same applies to a node that has been a candidate once.
 *
 * Pledges. An election costs two flushes in sequence: the candidate saves its
 * vote for itself, then a voter saves its vote for the candidate. Another
 * candidate in the meantime only splits the votes, and the next attempt costs
 * two flushes again; on slow disks this could repeat for ever. Therefore a
 * candidate that has won its pre-vote announces its candidacy before it saves
 * its vote. A node that receives the announcement holds still for as long as
 * the save may take: it does not become a candidate, and it refuses pre-votes
 * to others. A node also holds still after it has granted a vote, until the new
 * leader should have been heard, and while it is a candidate itself. A granted
 * pre-vote is a short pledge, too, but only once between two attempts of the
 * node's own, since a candidate that does not win can ask repeatedly. A pledge
 * ends when the connection to the candidate closes or a leader is heard.
 *
 * Flushes. The caller measures how long a flush takes and reports it with each
 * replica_persisted() and replica_vote_saved(). Members report it to each other
 * in the messages of an election, because a candidate may have a slower disk
 * than its voters. A node does not become a candidate while a write of its own
 * is under way.
 *
 * In Raft, timing affects liveness only. Terms do not race: every attempt,
 * including a candidate's second one, begins with a pre-vote (T16). */

#ifndef HASP_RAFT_ELECTION_TIMING_H
#define HASP_RAFT_ELECTION_TIMING_H

#include <stdbool.h>
#include <stdint.h>

struct replica;

/* All times are on the caller's clock. */
struct election_timing {
    uint64_t flush_ms;   /* Length of a flush here, from recent ones. */
    uint64_t others_ms;  /* The same at the slowest granter of a pre-vote. */
    uint64_t hold_ms;    /* No attempt begins before this time. */
    uint64_t pledged_to; /* The candidate for which this node holds still, or
                            this node if it is the candidate; 0: none. */
    uint64_t hurry_ms;   /* Until then each wait is shortened once; ... */
    uint64_t hurried;    /* ... the core's deadline after the last time. */
    bool may_pledge;     /* A pre-vote can still become a pledge. */
    bool is_leader_gone; /* The leader's connection closed, or it is silent. */
    uint64_t asking_flush; /* While a request for a vote is handled: its
                              sender's flush. */
};

/* The longest flush of this election so far, for messages to others. */
uint64_t election_timing_flush(const struct replica *replica);
/* Records how long a flush took here. */
void election_timing_note_flush(struct replica *replica, uint64_t flush_ms);
/* The time of the next attempt, given the core's 'deadline_ms'. */
uint64_t election_timing_deadline(const struct replica *replica,
                                  uint64_t deadline_ms);

/* True if 'from' must not get a pre-vote, even if its log is good enough. */
bool election_timing_refuses(const struct replica *replica, uint64_t from);
/* 'from' has announced its candidacy: it has won its pre-vote. */
void election_timing_stands(struct replica *replica, uint64_t from,
                            uint64_t flush_ms);
/* This node has granted a pre-vote or a vote. */
void election_timing_granted(struct replica *replica, uint64_t to,
                             bool is_pre_vote);
/* This node's own request for a pre-vote was answered. */
void election_timing_answered(struct replica *replica, bool is_granted,
                              uint64_t flush_ms);
/* This node's vote is on disk. */
void election_timing_vote_saved(struct replica *replica);
/* At each tick: forgets a leader that has been silent for too long. */
void election_timing_silence(struct replica *replica);
/* This node is about to become a candidate; called before the core gets the
 * time. */
void election_timing_attempt(struct replica *replica);
/* A leader has been heard. */
void election_timing_leader(struct replica *replica);
/* At the end of each event: announces an attempt, shortens the next wait. */
void election_timing_follow(struct replica *replica);

#endif /* HASP_RAFT_ELECTION_TIMING_H */
