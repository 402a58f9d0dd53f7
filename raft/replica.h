/* SPDX-License-Identifier: MIT */

/* A replica: one member of the Raft group, without I/O.
 *
 * It drives libraft's step core (Ongaro, "Consensus: Bridging Theory and
 * Practice", 2014; libraft 0.22.1) and adds what the core leaves to its driver:
 * the payloads of the log, the encoding of messages, the confirmation of
 * leadership, and the checks of every precondition that the core (built without
 * assertions) takes for granted. An event and 'now' go in; a replica_update
 * comes out, which says what the caller must do.
 *
 * The caller carries out each update before the next event, in this order:
 *
 *     1. save_vote: start saving the term and the vote, and report the end with
 *        replica_vote_saved(). No log write requested now or later may begin
 *        before that, so that the log never has a term that the vote file
 *        lacks;
 *     2. truncate, append: pass them to the log. They can become durable later;
 *        report it with replica_persisted(), in the order of the calls;
 *     3. messages: send them. They may be sent while the log is being written:
 *        the leader does not wait for its own disk, and the core holds back a
 *        follower's answers until replica_persisted(). Messages that depend on
 *        a vote that is not yet durable come with the update of
 *        replica_vote_saved();
 *     4. role, committed, confirmed: check the flags, then act.
 *
 * If a call returns an error, its update asks for nothing.
 *
 * Time: 'now_ms' is milliseconds of any monotonic clock; it must never go
 * back. Only Raft uses it: replica_hurry() moves it forward internally, so
 * leases must not be measured by it.
 *
 * Leadership confirmation (thesis 6.4, ReadIndex, with an explicit question):
 * replica_ask() sends CONFIRM(term, number) to all voters; each answers
 * CONFIRMED(term, number) from its core's current term if that is still 'term'.
 * When a majority of the newest configuration's voters has answered number n
 * (the leader itself counts only if it is a voter), replica_confirmed() is at
 * least n: the replica was the leader at some moment after the question was
 * asked. A request that arrived before the question was asked may rely on it.
 * The order of the calls decides what came before, never a clock.
 *
 * This module does not know about sessions, locks, requests, disks, networks or
 * access control.
 *
 * Memory: 'entries' and 'messages' of an update belong to the replica and live
 * until the next event. Bytes given to an event are copied.
 *
 * Threads: one. Determinism: the same options and the same events give the same
 * updates, byte for byte. */

#ifndef HASP_RAFT_REPLICA_H
#define HASP_RAFT_REPLICA_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"

struct replica;

/* Same values as in libraft; they are stored in the log. */
enum replica_entry_type {
    ENTRY_COMMAND = 1, /* For the state machine. */
    ENTRY_BARRIER = 2, /* Made by the core; nothing to apply. */
    ENTRY_CHANGE = 3   /* A configuration; see replica_members_decode(). */
};

/* The largest body of an entry. */
#define REPLICA_ENTRY_SIZE_MAX (4u << 20)

struct replica_entry {
    uint64_t term;
    uint64_t log_index;
    enum replica_entry_type type;
    struct bytes body;
};

/* As in libraft. */
enum member_role {
    MEMBER_STANDBY = 0, /* Replicates, does not vote (a learner). */
    MEMBER_VOTER = 1,
    MEMBER_SPARE = 2 /* In the configuration, but receives no entries. */
};

#define MEMBER_COUNT_MAX 15
#define REPLICA_ID_MAX (UINT64_MAX - 1)
#define MEMBER_ADDRESS_SIZE 256

/* Raft's server is the data directory, not the node: a member whose directory
 * was wiped has forgotten its votes and acknowledgements, so it must not count
 * as the server that gave them. The configuration therefore names the directory
 * (its incarnation, a random number made with it), and a removed number can be
 * added again only with another one. */
struct replica_member {
    uint64_t id;          /* From 1 to REPLICA_ID_MAX. */
    uint64_t incarnation; /* Not 0. */
    enum member_role role;
    char address[MEMBER_ADDRESS_SIZE]; /* "peer-host:port,client-host:port" */
};

struct replica_members {
    struct replica_member member[MEMBER_COUNT_MAX];
    uint32_t count;
};

/* Visits each member through a pointer to const. */
#define MEMBER_EACH(one, members)                              \
    for (const struct replica_member *one = (members)->member; \
         one < (members)->member + (members)->count; one++)

/* The member with this id, or NULL. */
const struct replica_member *
replica_members_find(const struct replica_members *members, uint64_t id);

/* True if 'members' has member 'id' with this data directory. */
bool replica_members_name(const struct replica_members *members, uint64_t id,
                          uint64_t incarnation);

/* The body of an ENTRY_CHANGE and of a snapshot's configuration. */
void replica_members_encode(const struct replica_members *members,
                            struct buffer *out);
MUST_CHECK int replica_members_decode(struct bytes encoded,
                                      struct replica_members *ret_members);

enum replica_role { REPLICA_FOLLOWER, REPLICA_CANDIDATE, REPLICA_LEADER };

const char *replica_role_name(enum replica_role role); /* "leader" ... */

struct replica_options {
    uint64_t id;
    uint64_t incarnation; /* This node's data directory. */
    uint64_t seed;        /* Different for each node; randomizes elections. */
    uint32_t election_ms; /* Election timeout, randomized to 1..2 times. */
    uint32_t heartbeat_ms;
    uint32_t
        snapshot_timeout_ms; /* Until an installation is retried; 0: 10 s. */
    uint32_t in_flight_max;  /* Entries in flight to a follower; 0: 16384. */
    bool without_pre_vote;
};

struct replica_message {
    uint64_t to;
    struct bytes bytes; /* One encoded message, at most a few MiB. */
};

/* The caller's work after an event; a field that is 0 or NULL requires none. */
struct replica_update {
    bool save_vote;
    uint64_t term;
    uint64_t voted_for;

    uint64_t truncate_from; /* Discard the log from here on, then append.
                               replica_begin() can set it without entries. */
    const struct replica_entry *entries;
    uint32_t entry_count;

    const struct replica_message *messages;
    uint32_t message_count;
    uint64_t snapshot_to; /* Send the newest snapshot to this member. Repeated
                             until the member has it; let a transfer in progress
                             continue. */

    bool role_changed;    /* Role, term or known leader. */
    bool committed;       /* replica_appliable() has grown. */
    bool confirmed;       /* replica_confirmed() has grown. */
    bool members_changed; /* replica_members() has changed. */
};

/* --- Life ----------------------------------------------------------------- */

struct replica *replica_new(const struct replica_options *options);
void replica_free(struct replica *replica);

/* State found on disk at the start. */
struct replica_start {
    uint64_t term;
    uint64_t voted_for;
    uint64_t snapshot_index; /* 0: no snapshot. */
    uint64_t snapshot_term;
    struct bytes snapshot_members;
    uint64_t snapshot_members_index;
    const struct replica_entry *entries; /* Consecutive; the first is at most
                                            snapshot_index + 1. */
    uint32_t entry_count;
    uint64_t applied_index; /* The table's; at least snapshot_index. */
};

/* Starts from what is on disk. The members of a new cluster all start with the
 * same single entry: index 1, term 1, ENTRY_CHANGE with all members as voters.
 * A node that joins later starts with nothing. With a single voter the update
 * saves a new term, because a single voter must not lead twice in one term. A
 * log that a received snapshot has made obsolete is discarded
 * (update.truncate_from). HASP_ECORRUPT: the parts on disk contradict each
 * other
 * ('why' says how). Term and vote may be 0 only if the node has no entry, or
 * only the first one. */
MUST_CHECK int replica_begin(struct replica *replica,
                             const struct replica_start *start, uint64_t now_ms,
                             struct replica_update *update,
                             char why[HASP_WHY_SIZE]);

/* --- Events --------------------------------------------------------------- */

/* No election raises the term by more than this. Otherwise a few adopted terms
 * could exhaust the numbers. */
#define REPLICA_TERM_STEP_MAX (UINT64_C(1) << 32)

/* A message from node 'from' with the data directory 'incarnation'. A vote, an
 * acknowledgement or a confirmation counts only if the newest configuration in
 * this log, committed or not, names that node with that directory; otherwise it
 * is dropped. Requests are answered for every sender: the requester decides
 * whether an answer counts (thesis, 4.1 and 4.2.2). HASP_EPROTO: the message
 * cannot be decoded, or no correct member sends it; HASP_ETOOBIG: its term is
 * more than REPLICA_TERM_STEP_MAX above ours. On an error nothing has changed,
 * and the caller closes the connection. */
MUST_CHECK int replica_receive(struct replica *replica, uint64_t from,
                               uint64_t incarnation, struct bytes message,
                               uint64_t now_ms, struct replica_update *update);

/* The log is durable up to the entry (term, log_index); the write took
 * 'flush_ms'. A completion for entries that were replaced in the meantime is
 * recognised by its term and ignored. */
void replica_persisted(struct replica *replica, uint64_t term,
                       uint64_t log_index, uint64_t flush_ms, uint64_t now_ms,
                       struct replica_update *update);

/* Term and vote are durable; writing them took 'flush_ms'. If several saves
 * were requested in a row, only the newest must be carried out. */
void replica_vote_saved(struct replica *replica, uint64_t term,
                        uint64_t voted_for, uint64_t flush_ms, uint64_t now_ms,
                        struct replica_update *update);
/* True if no save is under way. */
bool replica_vote_is_saved(const struct replica *replica);

/* Time has passed. Call it at or after replica_deadline(). */
void replica_tick(struct replica *replica, uint64_t now_ms,
                  struct replica_update *update);
uint64_t replica_deadline(const struct replica *replica);

/* Proposes commands: ONE batch with consecutive indexes, from *ret_first on.
 * HASP_ENOTLEADER (also during a transfer), HASP_EBUSY (in_flight_max entries
 * are uncommitted), HASP_ETOOBIG (REPLICA_ENTRY_SIZE_MAX): nothing was
 * proposed. */
MUST_CHECK int replica_submit(struct replica *replica,
                              const struct bytes *commands, uint32_t count,
                              uint64_t now_ms, uint64_t *ret_first,
                              struct replica_update *update);

/* Asks for a confirmation of leadership; see above. Returns the question's
 * number, or 0 if this replica is not the leader. With a single voter it is
 * confirmed at once. Until the newest question is confirmed, each heartbeat
 * repeats it to the voters that have not answered. */
uint64_t replica_ask(struct replica *replica, uint64_t now_ms,
                     struct replica_update *update);
/* The number that the next replica_ask() of this term will return. Numbers grow
 * over the life of the process. */
uint64_t replica_next_question(const struct replica *replica);
/* The newest question of the present term that a majority has answered; 0 if
 * there is none or this replica is not the leader. */
uint64_t replica_confirmed(const struct replica *replica);

/* The peer 'id' has closed the connection: its process has died. If it was this
 * follower's leader, Raft's clock moves forward, and the voters take turns as
 * candidates (election_timing.h). 'id' 0: no leader has been heard since the
 * start. */
void replica_hurry(struct replica *replica, uint64_t id, uint64_t now_ms);

/* --- Snapshots ------------------------------------------------------------ */

/* A snapshot at 'log_index', which has been applied, is on disk. Some entries
 * before it are kept for followers that lag. Returns the index up to which the
 * log on disk may be trimmed, or 0 if the snapshot is too old to be used. */
uint64_t replica_snapshot_taken(struct replica *replica, uint64_t log_index,
                                uint64_t now_ms, struct replica_update *update);

/* A follower has received a whole snapshot from 'from' and verified it; it is
 * durable. True: the caller now empties the log, loads the table from the
 * snapshot and then calls replica_installed(); it must no longer report
 * completions of earlier writes. False: the snapshot is useless (its term is
 * stale, or it is older than this replica's state), and the caller deletes it.
 */
MUST_CHECK bool replica_install(struct replica *replica, uint64_t from,
                                uint64_t leader_term, uint64_t log_index,
                                uint64_t term, struct bytes members,
                                uint64_t members_index, uint64_t now_ms,
                                struct replica_update *update);
void replica_installed(struct replica *replica, uint64_t now_ms,
                       struct replica_update *update);

/* --- Membership: one change at a time ------------------------------------- */

/* Each proposes one ENTRY_CHANGE and returns its index. HASP_ENOTLEADER;
 * HASP_EBUSY: another change or a transfer is under way, no entry of this term
 * is committed yet, the member promoted last does not have that change yet, or
 * the one to be promoted has not caught up; HASP_EEXIST: the member (or its
 * address), or that role of it, is there already; HASP_ENOENT; HASP_EFULL;
 * HASP_EINVALID: a bad id, incarnation or address; HASP_EREFUSED: it would
 * leave fewer than two voters. Before the call the caller must have applied its
 * own entry of this term.
 *
 * A new member is a standby. Its data directory never changes: another one is
 * another server, so the member is removed and added again. Its address can
 * change, because a directory that moves is still the same server. A removed or
 * demoted leader steps down when the change is committed. */
MUST_CHECK int replica_add(struct replica *replica, uint64_t id,
                           uint64_t incarnation, const char *address,
                           uint64_t now_ms, uint64_t *ret_index,
                           struct replica_update *update);
MUST_CHECK int replica_set_role(struct replica *replica, uint64_t id,
                                enum member_role role, uint64_t now_ms,
                                uint64_t *ret_index,
                                struct replica_update *update);
MUST_CHECK int replica_set_address(struct replica *replica, uint64_t id,
                                   const char *address, uint64_t now_ms,
                                   uint64_t *ret_index,
                                   struct replica_update *update);
MUST_CHECK int replica_remove(struct replica *replica, uint64_t id,
                              uint64_t now_ms, uint64_t *ret_index,
                              struct replica_update *update);
/* Starts handing leadership to 'id', or to the best voter if 0. The transfer is
 * given up after an election timeout. HASP_ENOTLEADER; HASP_EBUSY: a transfer
 * is under way; HASP_ENOENT; HASP_EINVALID: 'id' is this node or not a voter.
 */
MUST_CHECK int replica_transfer(struct replica *replica, uint64_t id,
                                uint64_t now_ms, struct replica_update *update);

/* --- Questions ------------------------------------------------------------ */

enum replica_role replica_role(const struct replica *replica);
uint64_t replica_term(const struct replica *replica);
/* False if 'term' is more than REPLICA_TERM_STEP_MAX above ours. */
bool replica_is_near_term(const struct replica *replica, uint64_t term);
uint64_t replica_voted_for(const struct replica *replica);
uint64_t replica_leader(const struct replica *replica); /* 0: unknown. */
/* True while it leads with others, and for the shortest time of an election
 * after it has heard its leader. */
bool replica_has_leader(const struct replica *replica, uint64_t now_ms);
bool replica_is_transferring(const struct replica *replica);
uint64_t replica_last_index(const struct replica *replica);
/* The term of the last entry; 0: the log is empty. */
uint64_t replica_last_term(const struct replica *replica);
uint64_t replica_commit_index(const struct replica *replica);
/* The newest known commit index. One received from a leader can be far beyond
 * this replica's own log. 0: none has been received yet, and this replica is
 * not the leader. */
uint64_t replica_known_commit(const struct replica *replica);
/* min(commit index, own durable index): entries up to here may be applied. */
uint64_t replica_appliable(const struct replica *replica);
/* The entry at 'log_index', which must be in the cache: above the last trimmed
 * index and at most replica_last_index(). */
struct replica_entry replica_entry(const struct replica *replica,
                                   uint64_t log_index);
/* The caller has applied all entries up to 'log_index', which never decreases.
 * (Committed configurations need no call: they are passed to the core at once.)
 */
void replica_applied(struct replica *replica, uint64_t log_index);
/* The newest configuration in the log. */
void replica_members(const struct replica *replica,
                     struct replica_members *ret_members);
/* The same without a copy: borrowed, until the next event. */
const struct replica_members *
replica_configuration(const struct replica *replica);
/* The configuration that becomes valid again if the newest, which is not known
 * to be committed, is rolled back; empty if the newest is committed or the only
 * one. */
void replica_members_before(const struct replica *replica,
                            struct replica_members *ret_members);
/* The newest configuration at or below 'log_index' (for its snapshot),
 * encoded. */
void replica_members_at(const struct replica *replica, uint64_t log_index,
                        struct buffer *out, uint64_t *ret_index);
/* On a leader: the highest index known to be stored at member 'id'. */
uint64_t replica_match(const struct replica *replica, uint64_t id);
/* Bytes of payload in the log above the newest snapshot, for deciding when to
 * take the next one. */
uint64_t replica_log_size(const struct replica *replica);

#endif /* HASP_RAFT_REPLICA_H */
