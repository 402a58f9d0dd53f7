/* SPDX-License-Identifier: MIT */

/* The internals of a replica: its state, and the step that handles every event.
 *
 *     step_begin()     the event's time; what the last one gave is gone
 *       step_core()    any number of times: one raft_step() and, at once, what
 *                      it asks for: entries into the cache, messages into
 *                      bytes, a committed configuration back into the core
 *     step_end()       all of it becomes one replica_update
 *
 * The core (struct raft) is read through its public fields if it has no
 * accessor. Its fields are written in two places: 'voted_for' in receive.c
 * (T14), and the candidate's state in election_timing.c (T16). */

#ifndef HASP_RAFT_REPLICA_STATE_H
#define HASP_RAFT_REPLICA_STATE_H

#include <raft.h>

#include "base/bytes.h"
#include "base/prng.h"
#include "raft/confirm.h"
#include "raft/election_timing.h"
#include "raft/log.h"
#include "raft/members.h"
#include "raft/message.h"
#include "raft/pending_writes.h"
#include "raft/replica.h"

/* Other versions have other ownership rules: read them before allowing one. */
#if RAFT_VERSION_NUMBER != 2201
#error "raft/ is written for libraft 0.22.1: see raft/README.md"
#endif

/* An encoded message; its bytes are in step_output.bytes. */
struct outgoing {
    uint64_t to; /* 0: it has been sent. */
    size_t offset;
    size_t size;
    bool is_early;
};

/* The output of one event's steps so far. The buffers are reused. */
struct step_output {
    bool save_vote;
    bool members_changed;
    uint64_t truncate_from;
    uint64_t append_first; /* Entries from here to the log's end are new. */

    struct buffer bytes;
    struct outgoing *outgoing;
    uint32_t outgoing_count;
    uint32_t outgoing_capacity;
    struct replica_message *messages;
    uint32_t messages_capacity;

    struct replica_entry *entries; /* Also while encoding and taking over. */
    uint32_t entries_capacity;
};

/* The AppendEntries encoded last in this step. Followers at the same position
 * share its bytes. */
struct shared_append {
    uint64_t prev_index;
    uint64_t commit_index;
    uint64_t count;
    uint32_t outgoing_first;
    uint32_t outgoing_count; /* 0: none. */
};

/* A leader's own record of a member, besides the core's. Times are of Raft's
 * clock. */
struct follower {
    uint64_t id;
    uint64_t sent_ms;    /* When an AppendEntries was last sent (T5). */
    uint64_t heard_ms;   /* When it last answered, in this term. */
    uint64_t prev_index; /* In the core's last AppendEntries. */
    bool is_addressed;   /* The core has sent it one in this event. */
    bool is_nudged;      /* Ours (T17) has not been answered yet. */
    bool has_rejected;   /* Its last answer said that its log differs. */
};

struct replica {
    struct raft core;
    uint64_t id;
    uint64_t incarnation;
    uint32_t election_ms;
    uint32_t heartbeat_ms;
    uint32_t in_flight_max;
    bool is_begun;
    struct prng prng; /* For election_timing.c. */

    uint64_t now_ms;    /* The caller's clock at the last event. */
    uint64_t clock_ms;  /* Raft's clock, at least now_ms + ahead_ms. */
    uint64_t ahead_ms;  /* How far replica_hurry() has moved it. */
    uint64_t ticked_ms; /* The caller's clock at the last RAFT_TIMEOUT. */
    bool has_ticked;
    struct election_timing timing;

    uint64_t asked_term; /* The last save requested of the caller, ... */
    uint64_t asked_vote;
    uint64_t saved_term; /* ... and the last that it reported durable. */
    uint64_t saved_vote;
    bool is_holding; /* Messages are kept back until the vote is on disk. */

    struct log log;
    struct pending_writes written;
    struct members_history history;
    struct confirm confirm;

    uint64_t elected_index; /* The log's end when this leader was elected. */
    uint64_t leader_term;   /* Term of the leader that was last heard. */
    uint64_t heard_ms;      /* Raft's clock when that leader was last heard. */
    bool has_heard_leader;
    uint64_t heard_commit; /* The newest commit index in an AppendEntries. */
    uint64_t applied_index;
    bool is_installing;
    bool is_answering_stale; /* B5: the reply's last index is not set. */
    bool is_lending_vote;    /* T14: the reply must grant the vote. */
    struct raft_snapshot_metadata metadata; /* While installing ... */
    struct replica_members installing;      /* ... these members. */
    struct buffer view;     /* The body that the core decodes ... */
    struct bytes view_body; /* ... instead of this configuration. */

    uint64_t snapshot_to[MEMBER_COUNT_MAX]; /* Not yet in an update. */
    uint32_t snapshot_to_count;
    struct follower
        followers[MEMBER_COUNT_MAX]; /* Since this node's last candidacy. */

    /* As reported in the last update. */
    enum replica_role reported_role;
    uint64_t reported_term;
    uint64_t reported_leader;
    uint64_t reported_appliable;
    uint64_t confirmed;

    struct shared_append shared;
    struct step_output out;
    struct raft_entry *core_entries; /* For a submit or a received append. */
    uint32_t core_entries_capacity;
    struct replica_entry *received;
    uint32_t received_capacity;
};

void step_begin(struct replica *replica, uint64_t now_ms);
/* Feeds one event, whose preconditions the caller has checked. */
void step_core(struct replica *replica, struct raft_event *event);
/* Sends one of our own messages. A message that promises nothing does not wait
 * until the vote is on disk. */
void step_send(struct replica *replica, uint64_t to,
               const struct message *message);
void step_end(struct replica *replica, struct replica_update *update);
/* The same for a call that may have been refused before it fed an event. If it
 * was, the update is empty, and the next one reports what is pending. Returns
 * 'error'. */
int step_end_call(struct replica *replica, int error,
                  struct replica_update *update);

/* Feeds a batch that this leader proposes; payloads are copied. */
void step_submit(struct replica *replica, enum replica_entry_type type,
                 const struct bytes *bodies, uint32_t count);

/* The newest configuration in the log; empty if there is none. */
const struct replica_members *newest_members(const struct replica *replica);
/* The term of an entry in the cache or of the snapshot's last entry; 0:
 * unknown. */
uint64_t known_term(const struct replica *replica, uint64_t log_index);
bool replica_is_leader(const struct replica *replica);
/* This directory's member in the newest configuration, or NULL. */
const struct replica_member *own_member(const struct replica *replica);
bool is_sole_voter(const struct replica *replica);
/* True if the newest configuration in the log names that node with that
 * directory. */
bool replica_is_named(const struct replica *replica, uint64_t id,
                      uint64_t incarnation);
/* The body that the core must decode for this entry. Valid until the next call.
 */
struct bytes core_body(struct replica *replica,
                       const struct replica_entry *entry);
/* A copy of these members for the core, which owns it from then on. */
void core_configuration(const struct replica *replica,
                        const struct replica_members *members,
                        struct raft_configuration *ret_configuration);
/* True if the core's term and vote are on disk. */
bool vote_is_saved(const struct replica *replica);
/* True if it leads, or has heard from a leader recently. */
bool hears_leader(const struct replica *replica);

/* On a leader: records that member 'id' has answered. */
void note_answer(struct replica *replica, uint64_t id, bool has_rejected);
/* Records that the leader of 'term' has been heard. */
void note_leader(struct replica *replica, uint64_t term);

/* Reports a configuration that is now committed to the core (A26). */
void feed_configuration(struct replica *replica, uint64_t log_index);

#endif /* HASP_RAFT_REPLICA_STATE_H */
