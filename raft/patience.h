/* SPDX-License-Identifier: MIT */

/* How long an election waits, so that it is neither slower than it must be nor
 * disturbs another one.
 *
 * Three things are added to the core's random timer.
 *
 * Hurry. When a leader's process dies, its connections close, and the survivors
 * know at once (T8); when it falls silent, they know after the shortest time of
 * an election. A follower then moves Raft's clock, and they stand one after the
 * other: the first voter by its id at once, each further one a step later, by
 * when it has heard that the one before it stands, unless that one has died,
 * too, or lacks an entry. A random wait, which Raft asks for, is a third of its
 * range long on average and still lets two stand at once. As long as nobody
 * leads after that, each further wait is shortened as well, to a random time of
 * a few heartbeats. So are the waits of whoever has stood for election once.
 *
 * Pledges. An election costs two flushes one after the other: the candidate's
 * vote for itself and the voter's for it. Who stands meanwhile only splits the
 * votes, and the next attempt costs two flushes again; with a slow disk that
 * goes on for ever. So a candidate that has won its pre-vote says that it
 * stands, before it saves its vote, and who hears that holds still for as long
 * as the save may take: it does not stand itself, and refuses the pre-votes of
 * others. Likewise after a vote, until the new leader may have been heard, and
 * while it is itself a candidate. For a moment a granted pre-vote is such a
 * pledge, too, but only once between two attempts of one's own: a candidate
 * that does not win may ask again and again. A pledge ends with the connection
 * to the candidate, and when a leader is heard.
 *
 * Flushes. How long they take is measured by the caller, told with each
 * replica_persisted() and replica_vote_saved(), and by members to each other
 * with the messages of an election: a candidate may have a slower disk than
 * its voters. While a write of one's own is under way one does not stand.
 *
 * Timing is only liveness in Raft. Terms do not race: every attempt, also the
 * second of a candidate, begins with a pre-vote (T16). */

#ifndef HASP_RAFT_PATIENCE_H
#define HASP_RAFT_PATIENCE_H

#include <stdbool.h>
#include <stdint.h>

struct replica;

/* Times of the caller's clock. */
struct patience {
    uint64_t flush_ms;     /* What a flush takes here: the longest of late. */
    uint64_t others_ms;    /* At the slowest who has granted a pre-vote. */
    uint64_t hold_ms;      /* No attempt before. */
    uint64_t pledged_to;   /* Until then, to whom (itself: standing); 0. */
    uint64_t hurry_ms;     /* Waits are shortened until then ... */
    uint64_t hurried;      /* ... and this is the core's deadline after it. */
    bool may_pledge;       /* Once between two attempts. */
    bool is_leader_gone;   /* Its connection was closed by its end. */
    uint64_t asking_flush; /* Of the vote's asker, during its step. */
};

/* What is told to others: the longest flush of this election so far. */
uint64_t patience_flush(const struct replica *replica);
/* Notes how long a flush took here. */
void patience_note_flush(struct replica *replica, uint64_t flush_ms);
/* A write is under way, without whose end no attempt can begin. */
bool patience_must_wait(const struct replica *replica);
/* When an attempt may begin, given the core's 'deadline_ms'. */
uint64_t patience_deadline(const struct replica *replica, uint64_t deadline_ms);

/* True if 'from' is not to get a pre-vote, whatever its log. */
bool patience_refuses(const struct replica *replica, uint64_t from);
/* 'from' has won a pre-vote and goes on to the next term. */
void patience_stands(struct replica *replica, uint64_t from, uint64_t flush_ms);
/* A pre-vote or a vote has been granted. */
void patience_granted(struct replica *replica, uint64_t to, bool is_pre_vote);
/* An answer to one's own pre-vote. */
void patience_answered(struct replica *replica, bool is_granted,
                       uint64_t flush_ms);
/* The vote is on disk. */
void patience_vote_saved(struct replica *replica);
/* At a tick: is the leader silent for so long that this follower stands? */
void patience_silence(struct replica *replica);
/* An attempt begins: before the core is told of the time. */
void patience_attempt(struct replica *replica);
/* A leader was heard. */
void patience_leader(struct replica *replica);
/* The end of each event: what has become of an attempt; shortens the wait of a
 * hurried one. */
void patience_follow(struct replica *replica);

#endif /* HASP_RAFT_PATIENCE_H */
