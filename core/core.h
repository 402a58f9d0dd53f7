/* SPDX-License-Identifier: MIT */

/* The core of a node: requests, forwarding, leases and the replica, without
 * I/O.
 *
 * It joins raft/ (who leads, what is committed) with lockfsm/ (what the entries
 * mean) and speaks for both to clients and peers. Everything that happens comes
 * in as a call with the time at which it happened; everything that must be done
 * goes out through struct core_port. The daemon stands on libuv, the WAL and
 * LMDB; the simulator on virtual ones; both link these same objects.
 *
 * A turn: the caller feeds all events it has (bytes read, frames, completions),
 * then calls core_turn() once. In it the core
 *
 *     1. proposes every command gathered in this turn as ONE batch,
 *     2. asks ONE question for all heartbeats and reads that wait,
 *     3. lets what became due expire (after a confirmation, rule 6),
 *     4. applies what is committed, answers, and flushes the state now and
 *        then.
 *
 * The port's calls only record or start; they never call back into the core.
 *
 * The way of a request: core_client_request() finds its command in the table of
 * core/dispatch.c. A follower wraps it in FORWARD (or says MOVED); the
 * leader handles it: a refusal or a heartbeat or a read waits for a confirmed
 * question, a change waits for its entry to be applied. Each request has a slot
 * in its connection; answers leave in the order of the requests. A request that
 * may wait (WAIT, OPEN, ATTACH) holds back those behind it on its connection.
 *
 * Leadership: after its election the core submits BEGIN; until that is applied
 * it answers nothing, starts no deadline and proposes nothing else.
 *
 * Time: 'now_ns' is CLOCK_MONOTONIC, read after the event's bytes were read;
 * never a cached loop time. Threads: one. Memory: bounded by struct
 * core_limits. */

#ifndef HASP_CORE_CORE_H
#define HASP_CORE_CORE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/address.h"
#include "base/bytes.h"
#include "base/cluster_id.h"
#include "base/err.h"
#include "base/histogram.h"
#include "base/log.h"
#include "core/session/identity.h"
#include "lockfsm/lockfsm.h"
#include "net/frame.h"
#include "net/resp.h"
#include "raft/replica.h"
#include "storage/snapshot.h"
#include "storage/table.h"

struct account;
struct act;
struct core;

/* That this node has acknowledged entries of a term up to an index, and has
 * them no more (core/members/log_loss.h). Term 0: nobody says so. */
struct core_accusation {
    uint64_t term;
    uint64_t last_index;
};

/* Of a turn. */
enum core_stage {
    CORE_STAGE_PROPOSE, /* Deciding, and a batch to Raft. */
    CORE_STAGE_APPLY,   /* Entries into the state, and their answers. */
    CORE_STAGE_TABLE,   /* What has changed to the table. */
    CORE_STAGE_UPKEEP   /* All the rest. */
};

/* What the core asks of the world. All calls are on the core's thread and
 * return at once; 'data' is the first argument of each. */
struct core_port {
    /* Disk. Nothing of it waits: save_vote ends in core_vote_saved(), and the
     * log's durability comes back as core_persisted(). While a vote is being
     * saved no write of the log may begin. Errors are fatal: the port itself
     * stops the node. */
    void (*save_vote)(void *data, uint64_t term, uint64_t voted_for);
    void (*log_truncate)(void *data, uint64_t from_index);
    void (*log_append)(void *data, const struct replica_entry *entries,
                       uint32_t count);
    void (*log_trim)(void *data, uint64_t up_to_index);
    /* Takes a snapshot of the table as it is at this moment (just flushed);
     * ends in core_snapshot_taken(). The header is copied. */
    void (*snapshot_take)(void *data, const struct snapshot_header *header);
    /* The newest snapshot on disk: its header's numbers and its size; false if
     * there is none. */
    bool (*snapshot_stat)(void *data, uint64_t *ret_index, uint64_t *ret_term,
                          uint64_t *ret_size);
    /* Reads up to 'size' bytes at 'offset' of the snapshot (index, term) into
     * 'out'; false if it is gone. */
    bool (*snapshot_read)(void *data, uint64_t index, uint64_t term,
                          uint64_t offset, size_t size, struct buffer *out);
    /* Bytes of the disk that a received snapshot may take. */
    uint64_t (*snapshot_room)(void *data);
    /* Writes a received chunk (in order; offset 0 begins anew). */
    void (*snapshot_write)(void *data, uint64_t offset, struct bytes chunk);
    /* Checks what was written and makes it durable as the newest snapshot; ends
     * in core_snapshot_received(). */
    void (*snapshot_adopt)(void *data);
    /* Empties the log, which goes on at 'next_index', and puts the adopted
     * snapshot into the table; ends in core_snapshot_installed(). Until then
     * the core neither touches the table nor appends to the log. */
    void (*snapshot_install)(void *data, uint64_t next_index);

    /* Network. Frames to one peer arrive in order or the connection goes
     * down. */
    bool (*peer_is_up)(void *data, uint64_t id);
    /* Where to append a frame of this type; NULL: the peer is not up, or speaks
     * a version without it. */
    struct buffer *(*peer_output)(void *data, uint64_t id,
                                  enum frame_type type);
    void (*peers_changed)(void *data, const struct replica_members *members);
    /* The link with 'id' must not be used any more: its directory has no
     * standing. core_peer_down() is not expected. The next HELLO is checked. */
    void (*peer_drop)(void *data, uint64_t id);
    uint64_t (*peer_silence_ms)(void *data, uint64_t id);
    /* How long a message and its answer take, for people; -1: not known. NULL:
     * nobody measures. */
    int64_t (*peer_round_trip_us)(void *data, uint64_t id);
    /* The peer is up, and has shown a certificate of that node. */
    bool (*peer_is_proven)(void *data, uint64_t id);
    /* Dials "peer,client", as the other nodes and clients will, to see whether
     * node 'id' is there, and with which data directory. Ends in
     * core_address_probed() with 'number', within a few seconds. 'address' is
     * copied. */
    void (*probe_address)(void *data, uint64_t number, uint64_t id,
                          const char *address);

    /* Clients. The output is sent at the end of the turn. */
    struct buffer *(*client_output)(void *data, uint64_t conn);
    void (*client_close)(void *data, uint64_t conn, const char *reason);
    /* While blocked, the caller holds back further requests of 'conn'. */
    void (*client_block)(void *data, uint64_t conn, bool is_blocked);
    /* The connection is that user's from now on: USER_ANYONE until it is known
     * who it is. NULL: nobody wants to know. */
    void (*client_user)(void *data, uint64_t conn, uint64_t user);

    void (*random)(void *data, void *out, size_t size); /* For secrets. */
    /* Milliseconds since 1970, for people only: nothing is decided by it. */
    uint64_t (*wall_ms)(void *data);
    /* The cluster's id is known now (or again, at each start). */
    void (*cluster_known)(void *data,
                          const uint8_t cluster_id[CLUSTER_ID_SIZE]);
    /* Certificates may have been revoked: links with members that have shown
     * such a one are to be closed (core_certificate_is_revoked()). */
    void (*access_changed)(void *data);
    /* A member says that what is on disk has lost entries which this node has
     * acknowledged. It is written down, so that the node starts with that from
     * now on (core_options.accused). Or it was not so: the note goes. In this
     * order, and nobody waits for it: until the process ends the core knows. */
    void (*bar)(void *data, const struct core_accusation *accusation,
                const char *why);
    void (*unbar)(void *data);
    /* It is so: it must be written down that nothing may start from it again,
     * then the node must stop. Nothing leaves it from now on. */
    void (*data_lost)(void *data, const char *why);
    /* In core_turn(): this stage of it is over, for whoever times them; NULL:
     * nobody does. */
    void (*stage_over)(void *data, enum core_stage stage);
    /* For the simulator; NULL: nobody listens. An entry was applied; a
     * heartbeat, or a renewal, has moved a deadline of this leader. */
    void (*applied)(void *data, uint64_t log_index,
                    const struct effects *effects);
    void (*heard)(void *data, uint64_t session);
    /* The node must stop: exit code and a message for a person. */
    void (*fatal)(void *data, int exit_code, const char *why);
    void *data;
};

struct core_limits {
    uint32_t requests_in_flight; /* Of the node; beyond: BUSY. */
    uint32_t own_in_flight;      /* Entries of its own beside; 0: 8192. */
    uint32_t requests_per_conn;  /* Pipelined and unanswered; beyond: block. */
    /* Bytes of requests without an answer, and of answers that wait for earlier
     * ones: of the node's clients together (beyond, whoever has more than his
     * share is told BUSY and not read) and of one (beyond, he is not read). 0:
     * 64 and 4 MiB. */
    uint64_t bytes_in_flight;
    uint32_t bytes_per_conn;
    uint32_t sessions_per_conn;
    /* Of what is new: what exists may be given back whatever its size. 0: what
     * lockfsm allows. */
    uint32_t name_size;         /* Of a lock, a resource. */
    uint32_t value_size;        /* Of a value, a message. */
    uint64_t snapshot_log_size; /* Take a snapshot when the log has grown so. */
    uint64_t snapshot_entries;  /* Or by so many entries. */
    uint32_t snapshot_chunk_size;
    uint32_t reply_size; /* Of an answer to a follower; 0: what a frame can
                            carry. */
    uint32_t slice; /* For tests: lockfsm_set_slice(), and of how many sessions
                       and locks a new leader starts the deadlines in a turn;
                       0: the default. */
    uint32_t flush_records; /* Flush the state when so many are dirty ... */
    uint32_t flush_ms;      /* ... or after this time. */
    /* Of the state, for a cluster that this node founds (the others learn them
     * from the log); 0: the default. */
    struct lockfsm_limits founding;
};
extern const struct core_limits core_default_limits;

/* Of the process, as in hasp/node.h. */
enum core_exit {
    CORE_EXIT_STORAGE = 70,
    CORE_EXIT_TOO_OLD = 76, /* Other nodes run a newer version. */
    CORE_EXIT_REMOVED = 78  /* It is no member any more. */
};

/* The reason of client_close() for watchers, see core/events/watches.h. */
#define CORE_TOO_COSTLY "pattern too costly"

enum core_redirect { REDIRECT_FORWARD, REDIRECT_MOVED };

struct core_options {
    uint64_t id;
    uint64_t seed;
    uint64_t incarnation; /* Of the data directory. */
    uint64_t token_base;  /* For a new life, should this node begin it: seconds
                             since 2025 times 2^20 (rule 21). */
    uint8_t cluster_id[CLUSTER_ID_SIZE]; /* Likewise, for BEGIN; all zero:
                                            drawn with port.random. */
    struct core_accusation accused; /* As it was written down by port.bar. */
    uint64_t trusted; /* A guest that is let in on its own word; 0: none. */
    uint32_t election_ms;
    uint32_t heartbeat_ms;
    enum core_redirect redirect;
    bool allows_del;    /* As a leader: DEL of a value that was not compared. */
    bool allows_no_ttl; /* Likewise: a Redis value without PX is durable. */
    /* What this node understands (lockfsm/feature.h); 0: FEATURE_LEVEL. */
    uint32_t feature_level;
    /* At its founding: the lowest level that the founders have announced; 0:
     * not known. The first leader takes it for a founder that is not connected
     * at that moment. */
    uint32_t founders_level;
    /* Requests of other nodes' clients, and answers, are believed without a
     * certificate that says who the node is: whoever reaches its port may then
     * be any user. */
    bool believes_plain_peers;
    bool takes_secrets_in_clear; /* AUTH from where others may listen. */
    /* Of a cluster that this node founds: who has not said who he is may do
     * nothing (lockfsm/user/access.h). */
    bool founds_access_required;
    bool finalizes_itself; /* Raises the cluster to it without RAFT.FINALIZE. */
    struct core_limits limits;
    /* What the caller shares among clients, for requests of other nodes'
     * clients as well; the core says what each request costs (account_count()).
     * Borrowed for the core's life. NULL: nothing is shared. */
    struct account *account;
    /* Of the program, for HELLO, INFO and STATUS; static text. */
    const char *version;
    /* "host:port" where this node listens, as configured; NULL: not known. */
    const char *listen_peer;
    const char *listen_client;
};

/* What the caller found on disk. */
struct core_start {
    struct replica_start replica;
    struct table *table; /* Borrowed for the core's life. */
};

/* The commands that it answers; the table outlives it. */
struct command_table;

struct core *core_new(const struct core_options *options,
                      const struct core_port *port,
                      const struct command_table *commands);
void core_free(struct core *core);
/* HASP_ECORRUPT and so on with a message: the node must not start. */
MUST_CHECK int core_begin(struct core *core, const struct core_start *start,
                          uint64_t now_ns, char why[HASP_WHY_SIZE]);

/* --- Events --------------------------------------------------------------- */

/* Of the number of a connection that carries one request for whoever has no
 * connection of its own (HTTP). It acts for sessions, but is no presence: for
 * linger (rule 8) neither its beginning nor its end counts. It is never told
 * MOVED: it speaks for clients who could not go there. */
#define CORE_CONN_BRIEF (UINT64_C(1) << 63)

void core_client_opened(struct core *core, uint64_t conn, const char *address,
                        const struct identity *identity, uint64_t now_ns);
/* One request; its arguments are borrowed during the call. The caller calls
 * again for the next one unless client_block() said to wait. */
void core_client_request(struct core *core, uint64_t conn,
                         const struct resp_request *request, uint64_t now_ns);
void core_client_closed(struct core *core, uint64_t conn, uint64_t now_ns);
/* True of a connection that has done nothing for which it should be kept: it
 * has changed nothing, acts for no session, keeps none, and watches nothing. At
 * the limit such a one goes first. */
bool core_client_is_stranger(struct core *core, uint64_t conn);

/* True of one that has not said who it is, while access is required: it may do
 * nothing but say so. */
bool core_client_is_nobody(struct core *core, uint64_t conn);

/* True if a client that shows this secret (empty: none) can be more than such a
 * nobody: access is open, or this node knows the secret. */
bool core_secret_is_somebody(struct core *core, struct bytes secret);

/* Fills in what only the core knows: how far this node's log goes. */
void core_fill_hello(const struct core *core, struct frame_hello *hello);
/* 0 if a node that greets so may connect, else an error with its reason
 * (HASP_ENOENT: it is not a member). It must show this cluster's id, or none
 * yet; and its data directory must have a standing (core/members/standing.h):
 * the newest configuration in the log names that directory, or it may be a
 * guest.
 */
MUST_CHECK int core_check_peer(struct core *core,
                               const struct frame_hello *hello,
                               char why[HASP_WHY_SIZE]);
/* True if the newest configuration in the log names node 'id' with this data
 * directory. */
bool core_names(const struct core *core, uint64_t id, uint64_t incarnation);
/* True if the directory that greets goes before the one that is up under its
 * number: the log names it; or a member has named it, and not the other; or its
 * log is newer, and both or none are named. Two directories of a member that
 * was replaced while this node was away can both be guests here, and one of
 * them may lead. */
bool core_goes_before(const struct core *core, const struct frame_hello *hello);
/* True if nobody who shows the certificate with this SHA-256 may connect. */
bool core_certificate_is_revoked(const struct core *core,
                                 const uint8_t fingerprint[FINGERPRINT_SIZE]);
#define CORE_REVOKED "certificate was revoked"

/* After HASP_ENOENT: true if it was a member with this directory; 'why' says
 * who removed it, and when. No directory that was removed is added again, so
 * that stays true. */
bool core_was_removed(const struct core *core, const struct frame_hello *hello,
                      char why[HASP_WHY_SIZE]);
/* Member 'id' says, at its own address, that this node was removed. Once all
 * whose word it takes for that to be true have said so, the node must stop. */
void core_removed_by(struct core *core, uint64_t id, const char *why,
                     uint64_t now_ns);
/* A HELLO that shows a loss (core/members/log_loss.h) is answered with
 * FRAME_LOST, and nothing that comes later counts. */
void core_peer_up(struct core *core, const struct frame_hello *hello,
                  uint64_t now_ns);
void core_peer_down(struct core *core, uint64_t id, bool was_closed_by_peer,
                    uint64_t now_ns);
/* An error: the connection must be closed. 'why' tells more, where it was set
 * (the caller empties it before). */
MUST_CHECK int core_peer_frame(struct core *core, uint64_t id,
                               enum frame_type type, struct bytes body,
                               uint64_t now_ns, char why[HASP_WHY_SIZE]);

/* Node 'from', which this node has a reason to believe, has greeted from
 * 'address' with the id of another cluster (core/members/apart.h). */
void core_another_cluster(struct core *core, uint64_t from, const char *address,
                          const uint8_t cluster_id[CLUSTER_ID_SIZE],
                          uint64_t now_ns);
/* True while this node serves nobody for that. */
bool core_is_apart(const struct core *core, char why[HASP_WHY_SIZE]);

/* True if the newest configuration names other addresses for this node than it
 * listens at: then the others, or clients, look for it elsewhere. Of hosts only
 * those are compared that are numbers, and no wildcards. */
bool core_is_elsewhere(const struct core *core, char why[HASP_WHY_SIZE]);

/* 0: both addresses are that node's, and its data directory is 'incarnation'.
 * HASP_ECONNECT: nobody answers there, which may come; another error: somebody
 * else does, or does not say which directory it has. */
void core_address_probed(struct core *core, uint64_t number, int error,
                         uint64_t incarnation, const char *why,
                         uint64_t now_ns);

/* See replica_persisted() and replica_vote_saved(). */
void core_persisted(struct core *core, uint64_t term, uint64_t log_index,
                    uint64_t flush_ns, uint64_t now_ns);
void core_vote_saved(struct core *core, uint64_t term, uint64_t voted_for,
                     uint64_t flush_ns, uint64_t now_ns);
/* The snapshot asked for is on disk ('error' 0), or could not be written: that
 * is not fatal, it is tried again later. */
void core_snapshot_taken(struct core *core, uint64_t log_index, int error,
                         uint64_t now_ns);
/* The received snapshot was checked and made durable, or was bad. */
void core_snapshot_received(struct core *core,
                            const struct snapshot_header *header, int error,
                            uint64_t now_ns);

/* Log and table are those of the snapshot, durably as far as they ever are. */
void core_snapshot_installed(struct core *core, uint64_t now_ns);

/* Ends a turn. All input that had come by 'read_ns' has been fed: 'now_ns',
 * unless the loop has been away (rule 6). Returns when to call it again at the
 * latest. */
uint64_t core_turn(struct core *core, uint64_t read_ns, uint64_t now_ns);

/* How the disk under the log is. */
enum core_disk {
    CORE_DISK_OK,
    CORE_DISK_FULL, /* Nearly: there is room for what frees. */
    CORE_DISK_SLOW  /* Writes take too long. */
};

/* Unless the disk is well, a leader hands over, and refuses those changes of
 * clients that take something. */
void core_disk_is(struct core *core, enum core_disk disk, uint64_t now_ns);

/* A clean stop: hands leadership over, refuses new requests.
 * core_is_quiet() becomes true when the caller may go on (it bounds the
 * wait). */
void core_stop(struct core *core, uint64_t now_ns);
bool core_is_quiet(const struct core *core);
/* The last act: flushes the state into the table. */
MUST_CHECK int core_flush(struct core *core);

/* --- Questions ------------------------------------------------------------ */

const struct lockfsm *core_state(const struct core *core);
/* "OK", or the word of the refusal and why. */
void core_act_outcome(const struct act *act, struct buffer *out);
const struct replica *core_replica(const struct core *core);
/* True while it may not count, see port.bar. */
bool core_is_barred(const struct core *core);
/* Data directories that were refused within the last minute, because another
 * one has their number by now, or none has (core/members/standing.h). */
uint32_t core_replaced_count(const struct core *core, uint64_t now_ns);
/* By how many millionths the clock of a member is faster than that of this
 * node, as measured over the last 10 to 60 s; false if that is not known. */
bool core_clock_ppm(const struct core *core, uint64_t id, int32_t *ret_ppm);
/* A member's flushes of the last 2 s, as it has reported them (this node's own:
 * as measured): their median and how many they were. False: not known, or
 * none. */
bool core_disk_flush(const struct core *core, uint64_t id, uint64_t *ret_us,
                     uint32_t *ret_count);
/* True while this node's flushes take 50 ms and more (core/members/disks.h).
 * Nothing is refused for that. */
bool core_disk_is_slow(const struct core *core, uint64_t *ret_median_us);
/* How often this node has handed leadership over for its slow disk, and to whom
 * last; 0: never. */
uint64_t core_disk_moved(const struct core *core, uint64_t *ret_to);
/* When this node last handed leadership over because its own clock is off; 0:
 * never. */
uint64_t core_clock_moved_ns(const struct core *core);
/* What it is worth here that a user may do this and not that. */
enum core_users {
    CORE_USERS_OPEN,       /* Who does not say who he is may do everything. */
    CORE_USERS_UNENFORCED, /* He may not, but whoever says that he is a node
                              may: options.believes_plain_peers. */
    CORE_USERS_ENFORCED
};
enum core_users core_users(const struct core *core);
/* True if this node leads, its BEGIN has been applied, and all deadlines stand.
 */
bool core_is_serving(const struct core *core);

/* What is left of the quarantine after a restore: at the leader exactly,
 * elsewhere as the log's clock tells. 0: none. */
uint64_t core_quarantine_ms(struct core *core);
/* The newest index at which this node, as a leader, has seen a majority with
 * the same state (core/members/digests.h); 0: none yet. */
uint64_t core_agreed_index(const struct core *core);

/* True of any core after a turn: each request stands where it says, once, and
 * can still be answered; nothing is under way before BEGIN is applied, and
 * nothing of a leader's is left after it; counts are right. Returns NULL or a
 * static text that says what is wrong. For tests: a walk over all that is under
 * way. */
const char *core_check(const struct core *core);

/* The error words of docs/protocol.md. */
#define CORE_WORDS(X) \
    X(NOSESSION)      \
    X(EXPIRED)        \
    X(BLACKLISTED)    \
    X(NOTHELD)        \
    X(DEADLOCK)       \
    X(LIMIT)          \
    X(LEVEL)          \
    X(BUSY)           \
    X(NOLEADER)       \
    X(MOVED)          \
    X(UNKNOWN)        \
    X(UNFINISHED)     \
    X(BADARG)         \
    X(GONE)           \
    X(FORGOTTEN)      \
    X(NOAUTH)         \
    X(NOPERM)         \
    X(WRONGPASS)      \
    X(NOTLS)          \
    X(ERR)            \
    X(NOPROTO)        \
    X(NOSCRIPT)       \
    X(WRONGTYPE)      \
    X(EXECABORT)

/* The verdict on a request, set by the code that decides it and never read
 * from the reply (core/outcome.h). */
enum core_word {
    WORD_NONE, /* No error: data, nil or OK. */
#define CORE_WORD_OF(word) WORD_##word,
    CORE_WORDS(CORE_WORD_OF)
#undef CORE_WORD_OF
        WORD_OTHER, /* A newer node's word. */
    CORE_WORD_COUNT,
    /* ERR, because hasp does not run that script; it is counted apart, too. */
    WORD_UNSUPPORTED = CORE_WORD_COUNT,
    CORE_WORD_END
};

/* What has happened at this node since its start, for INFO and the metrics. */
struct core_counts {
    uint64_t commands;
    uint64_t grants;
    uint64_t sessions_ended;
    uint64_t searches_given_up; /* For deadlocks, at DEADLOCK_STEP_MAX. */
    uint64_t unclean_ends; /* Holds that expired or outlasted their limit. */
    uint64_t refusals;     /* Error answers to clients of this node, ... */
    uint64_t by_word[CORE_WORD_COUNT]; /* ... by enum core_word. */
    uint64_t scrubbed;  /* Records that were compared with the table. */
    uint64_t elected;   /* Times that this node has become the leader. */
    uint64_t leaders;   /* Leaders that it has seen, one after the other. */
    uint64_t transfers; /* Of leadership, that this node has begun, ... */
    uint64_t transfers_failed; /* ... and that have come to nothing. */
    uint64_t unknown_scripts;  /* EVAL, LOAD of what hasp does not run. */
    /* As far as this node has applied it since its start; those that waited. */
    struct histogram wait;
    struct histogram hold; /* Of holds that have ended. */
    /* As the leader: from proposing a batch until a majority has it, and from
     * proposing an entry to applying it. */
    struct histogram replicate;
    struct histogram commit;
};
const struct core_counts *core_counts(const struct core *core);

/* What clients of this node were denied, alike, gathered
 * (core/session/audit_denied.h). Times are of CLOCK_MONOTONIC (_ns), and of the
 * wall clock for people. */
struct core_denial {
    char user[65];           /* "": who has not said who he is. */
    char from[ADDRESS_SIZE]; /* The newest; "": several. */
    const char *command;     /* "LOCK.ACQUIRE"; "": several. */
    char why[256];           /* "NOPERM user ..."; longer ones are cut. */
    uint64_t count;
    uint64_t untold_count;
    uint64_t unwritten_count; /* Told, and in no file; the writer counts ... */
    uint64_t in_writing;      /* ... these out when they stand there. */
    uint64_t first_ms;
    uint64_t last_ms;
    uint64_t last_ns;
    uint64_t tell_ns; /* When it is to be told; UINT64_MAX: it has been. */
    uint64_t period_ns;
};
/* Number 'place' of them, from 0 on; the last one is of those for which there
 * is no room, and has an empty why while there are none. NULL: there are no
 * more. */
struct core_denial *core_denial(struct core *core, uint32_t place);
/* The text of each word; WORD_NONE has "", WORD_OTHER "other". */
extern const char *const core_words[CORE_WORD_END];
/* How long requests of this node's clients took, waits included: by the
 * command's place. NULL: there is no such place. */
const struct histogram *core_request_times(const struct core *core,
                                           uint32_t place,
                                           const char **ret_name);
/* How long the oldest wait has waited, as far as this node knows; 0: none. */
uint64_t core_oldest_wait_ms(const struct core *core);
/* A member: up to where its log is known to be that of this node, the leader
 * (0: not known), and how long it has been silent (UINT64_MAX: for ever). */
void core_member(const struct core *core, uint64_t id, uint64_t *ret_match,
                 uint64_t *ret_silence_ms);

#endif /* HASP_CORE_CORE_H */
