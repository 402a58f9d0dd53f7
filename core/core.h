/* SPDX-License-Identifier: MIT */

/* The core of a node: requests, forwarding, leases and the replica, without
 * I/O.
 *
 * It joins raft/ (who leads, what is committed) with lockfsm/ (what the entries
 * mean), and connects both to clients and peers. Events come in as calls with
 * the time at which they happened; actions go out through struct core_port. The
 * daemon uses libuv, the WAL and LMDB; the simulator uses virtual ones; both
 * link these same objects.
 *
 * A turn: the caller feeds all its events (bytes read, frames, completions),
 * then calls core_turn() once. In it the core
 *
 *     1. proposes all commands collected in this turn as ONE batch,
 *     2. asks ONE question for all waiting heartbeats and reads,
 *     3. expires what is due (after a confirmation, rule 6),
 *     4. applies what is committed, answers, and flushes the state now and
 *        then.
 *
 * The port's calls only record or start; they never call back into the core.
 *
 * The path of a request: core_client_request() finds its command in the table
 * of core/dispatch.c. A follower wraps it in FORWARD (or answers MOVED). The
 * leader handles it: a refusal, a heartbeat or a read waits for a confirmed
 * question, a change waits until its entry is applied. Each request has a slot
 * in its connection; answers leave in the order of the requests. A request that
 * may wait (WAIT, OPEN, ATTACH) blocks the later ones of its connection.
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

/* A member's claim that this node has acknowledged entries of a term up to an
 * index and has lost them (core/members/log_loss.h). Term 0: no claim. */
struct core_accusation {
    uint64_t term;
    uint64_t last_index;
};

/* The stages of a turn. */
enum core_stage {
    CORE_STAGE_PROPOSE, /* Decisions, and a batch to Raft. */
    CORE_STAGE_APPLY,   /* Entries into the state, and their answers. */
    CORE_STAGE_TABLE,   /* Writing the state's changes to the table. */
    CORE_STAGE_UPKEEP   /* Everything else. */
};

/* What the core needs from its environment. All calls are on the core's thread
 * and return at once; 'data' is the first argument of each. */
/* A number with its name, for people. */
struct core_fact {
    const char *name; /* Static text. */
    int64_t value;
};
#define CORE_FACT_MAX 24
/* What only the port knows of its node. */
struct core_facts {
    uint32_t machine_count;
    uint32_t settings_count;
    /* The process and its disk. -1: unknown, or it does not apply. */
    struct core_fact machine[CORE_FACT_MAX];
    /* Settings that should be the same at all members. */
    struct core_fact settings[CORE_FACT_MAX];
};

#define SETTING_NAME_SIZE_MAX 64
#define SETTING_VALUE_SIZE_MAX 1024
/* A setting of the program by name; the texts are valid until the next call of
 * the port. */
struct core_setting {
    const char *name;
    const char *value;
    const char *source;
    const char *changes; /* "reload", "restart" ... */
};

struct core_port {
    /* Disk. None of these calls waits: save_vote ends in core_vote_saved(), and
     * core_persisted() reports that the log is durable. While a vote is being
     * saved, no write of the log may start. Errors are fatal: the port itself
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
    /* Bytes of disk space that a received snapshot may use. */
    uint64_t (*snapshot_room)(void *data);
    /* Writes a received chunk (in order; offset 0 restarts). */
    void (*snapshot_write)(void *data, uint64_t offset, struct bytes chunk);
    /* Checks what was written and makes it durable as the newest snapshot; ends
     * in core_snapshot_received(). */
    void (*snapshot_adopt)(void *data);
    /* Empties the log, which continues at 'next_index', and loads the adopted
     * snapshot into the table; ends in core_snapshot_installed(). Until then
     * the core neither uses the table nor appends to the log. */
    void (*snapshot_install)(void *data, uint64_t next_index);

    /* Network. Frames to one peer arrive in order or the connection goes
     * down. */
    bool (*peer_is_up)(void *data, uint64_t id);
    /* Where to append a frame of this type; NULL: the peer is not up, or speaks
     * a version without it. */
    struct buffer *(*peer_output)(void *data, uint64_t id,
                                  enum frame_type type);
    void (*peers_changed)(void *data, const struct replica_members *members);
    /* The link with 'id' must no longer be used, because its directory may not
     * be a member. core_peer_down() is not expected. The next HELLO is
     * checked. */
    void (*peer_drop)(void *data, uint64_t id);
    uint64_t (*peer_silence_ms)(void *data, uint64_t id);
    /* The round trip time, for people; -1: unknown. NULL: not measured. */
    int64_t (*peer_round_trip_us)(void *data, uint64_t id);
    /* True if the peer is up and has presented a certificate of that node. */
    bool (*peer_is_proven)(void *data, uint64_t id);
    /* Dials "peer,client", as the other nodes and clients will, to check that
     * node 'id' is there and which data directory it has. Ends in
     * core_address_probed() with 'number' within a few seconds. 'address' is
     * copied. */
    void (*probe_address)(void *data, uint64_t number, uint64_t id,
                          const char *address);

    /* Clients. The output is sent at the end of the turn. */
    struct buffer *(*client_output)(void *data, uint64_t conn);
    void (*client_close)(void *data, uint64_t conn, const char *reason);
    /* While blocked, the caller holds back further requests of 'conn'. */
    void (*client_block)(void *data, uint64_t conn, bool is_blocked);
    /* Reports the user of the connection; USER_ANYONE until it is known. NULL:
     * not needed. */
    void (*client_user)(void *data, uint64_t conn, uint64_t user);

    /* Random bytes for secrets. */
    void (*random)(void *data, void *out, size_t size);
    /* Facts on this node, for RAFT.STATUS; 'ret_facts' is empty at first. NULL:
     * there are none. */
    void (*facts)(void *data, struct core_facts *ret_facts);
    /* Describes the setting with number 'index'; false: there is none. NULL:
     * there are none. */
    bool (*setting)(void *data, uint32_t index,
                    struct core_setting *ret_setting);
    /* Changes a setting of this node for 'for_ms' (0: until it ends); an error
     * with 'why'. NULL with 'setting'. */
    int (*set_setting)(void *data, struct bytes name, struct bytes value,
                       uint64_t for_ms, char why[HASP_WHY_SIZE]);
    /* Milliseconds since 1970, for people only: nothing is decided by it. */
    uint64_t (*wall_ms)(void *data);
    /* The clock of 'now_ns' as it is at this moment, for people only. NULL: the
     * time of the event is precise enough. */
    uint64_t (*clock_ns)(void *data);
    /* Reports the cluster's id when it becomes known (also at each start). */
    void (*cluster_known)(void *data,
                          const uint8_t cluster_id[CLUSTER_ID_SIZE]);
    /* Certificates may have been revoked: links with members that have
     * presented one must be closed (core_certificate_is_revoked()). */
    void (*access_changed)(void *data);
    /* A member claims that the disk has lost entries which this node has
     * acknowledged. The port records the claim, so that the node starts with it
     * from now on (core_options.accused), or deletes the record if the claim
     * was wrong. Calls are carried out in order and nobody waits for them: the
     * core knows until the process ends. */
    void (*bar)(void *data, const struct core_accusation *accusation,
                const char *why);
    void (*unbar)(void *data);
    /* The claim is true. The port records that no node may start from this
     * directory again, then the node must stop. It sends nothing from now
     * on. */
    void (*data_lost)(void *data, const char *why);
    /* In core_turn(): a stage is over. NULL: stages are not timed. */
    void (*stage_over)(void *data, enum core_stage stage);
    /* For the simulator, else NULL: an entry was applied; a heartbeat or
     * renewal has moved a deadline of this leader. */
    void (*applied)(void *data, uint64_t log_index,
                    const struct effects *effects);
    void (*heard)(void *data, uint64_t session);
    /* The node must stop: exit code and a message for a person. */
    void (*fatal)(void *data, int exit_code, const char *why);
    void *data;
};

struct core_limits {
    uint32_t requests_in_flight; /* On this node; more: BUSY. */
    uint32_t own_in_flight;      /* Besides, entries of the node; 0: 8192. */
    uint32_t requests_per_conn;  /* Pipelined, unanswered; more: block. */
    /* Bytes of unanswered requests and of answers that wait for earlier ones:
     * of all clients of the node (above it, a client with more than its share
     * gets BUSY and is not read) and of one client (above it, that client is
     * not read). 0: 64 and 4 MiB. */
    uint64_t bytes_in_flight;
    uint32_t bytes_per_conn;
    uint32_t sessions_per_conn;
    /* Bounds on new names and values; existing ones can be released whatever
     * their size. 0: what lockfsm allows. */
    uint32_t name_size;         /* A lock's or resource's name. */
    uint32_t value_size;        /* A value or message. */
    uint64_t snapshot_log_size; /* Log bytes before a snapshot is taken, ... */
    uint64_t snapshot_entries;  /* ... or entries. */
    uint32_t snapshot_chunk_size;
    /* An answer to a follower; 0: what fits into a frame. */
    uint32_t reply_size;
    /* For tests: lockfsm_set_slice(), and the sessions and locks whose
     * deadlines a new leader starts in a turn; 0: the default. */
    uint32_t slice;
    uint32_t flush_records; /* Dirty records before a flush, ... */
    uint32_t flush_ms;      /* ... or the time before it. */
    /* Limits of the state for a cluster that this node founds (other founders
     * get them from the log); 0: the default. */
    struct lockfsm_limits founding;
};
extern const struct core_limits core_default_limits;

/* Exit codes of the process, as in hasp/node.h. */
enum core_exit {
    CORE_EXIT_STORAGE = 70,
    CORE_EXIT_TOO_OLD = 76, /* Other nodes run a newer version. */
    CORE_EXIT_REMOVED = 78  /* It was removed from the members. */
};

/* The reason given to client_close() for watchers, see
 * core/events/watches.h. */
#define CORE_TOO_COSTLY "pattern too costly"

enum core_redirect { REDIRECT_FORWARD, REDIRECT_MOVED };

struct core_options {
    uint64_t id;
    uint64_t seed;
    uint64_t incarnation; /* The number of the data directory. */
    /* The first token if this node founds a cluster or restores one: seconds
     * since 2025 times 2^20 (rule 21). */
    uint64_t token_base;
    /* The cluster's id for BEGIN; all zero: drawn with port.random. */
    uint8_t cluster_id[CLUSTER_ID_SIZE];
    struct core_accusation accused; /* As recorded by port.bar. */
    uint64_t trusted; /* A guest admitted without a member's word; 0: none. */
    uint32_t election_ms;
    uint32_t heartbeat_ms;
    enum core_redirect redirect;
    bool allows_del; /* As the leader: DEL works without comparing the value. */
    /* As the leader: a Redis value without PX is durable. */
    bool allows_no_ttl;
    /* As the leader: Redis SET NX of the value that holds the key is OK. */
    bool renews_same_value;
    /* The feature level of this node (lockfsm/feature.h); 0: FEATURE_LEVEL. */
    uint32_t feature_level;
    /* At its founding: the lowest level that the founders have announced; 0:
     * unknown. The first leader uses it for founders that are not connected at
     * that moment. */
    uint32_t founders_level;
    /* Accept requests of other nodes' clients, and answers, without a
     * certificate that identifies the node: a program that reaches its port can
     * then act as any user. */
    bool believes_plain_peers;
    bool takes_secrets_in_clear; /* Accept AUTH where others may listen. */
    /* For a cluster that this node founds: unauthenticated clients may do
     * nothing (lockfsm/user/access.h). */
    bool founds_access_required;
    bool finalizes_itself; /* Raise the cluster to it without RAFT.FINALIZE. */
    uint32_t slow_ms; /* Requests that take longer are recorded; 0: none. */
    /* Prefixes that the metrics distinguish (core/name_classes.h), which must
     * be valid; read by core_new() and core_change(), not kept. */
    const char *classes;
    /* As the leader: replace a voter that lost its directory when it has been
     * missed for this time; 0: only on request. The nodes must authenticate
     * each other. */
    uint64_t replace_empty_ns;
    /* The volume of this node's directory has the file REPLACE_MARKER. */
    bool is_marked;
    struct core_limits limits;
    /* The resource that the caller shares out among clients, also for requests
     * of other nodes' clients; the core reports the cost of each request
     * (account_count()). Borrowed for the core's life. NULL: nothing is shared
     * out. */
    struct account *account;
    /* The program's version, for HELLO, INFO and STATUS; static text. */
    const char *version;
    /* "host:port" on which this node listens, as configured; NULL: unknown. */
    const char *listen_peer;
    const char *listen_client;
};

/* The state that the caller found on disk. */
struct core_start {
    struct replica_start replica;
    struct table *table; /* Borrowed for the core's life. */
};

/* The commands that the core answers; the table outlives it. */
struct command_table;

struct core *core_new(const struct core_options *options,
                      const struct core_port *port,
                      const struct command_table *commands);
void core_free(struct core *core);
/* On an error such as HASP_ECORRUPT, 'why' has a message and the node must not
 * start. */
MUST_CHECK int core_begin(struct core *core, const struct core_start *start,
                          uint64_t now_ns, char why[HASP_WHY_SIZE]);

/* --- Events --------------------------------------------------------------- */

/* A bit in the id of a connection that carries one request for a client without
 * a connection of its own (HTTP). It acts for sessions, but does not show that
 * a client is alive: neither its beginning nor its end counts for linger (rule
 * 8). It never gets MOVED, because its client could not follow. */
#define CORE_CONN_BRIEF (UINT64_C(1) << 63)

void core_client_opened(struct core *core, uint64_t conn, const char *address,
                        const struct identity *identity, uint64_t now_ns);
/* Receives one request; its arguments are borrowed during the call. The caller
 * passes the next one unless client_block() has blocked the connection. */
void core_client_request(struct core *core, uint64_t conn,
                         const struct resp_request *request, uint64_t now_ns);
void core_client_closed(struct core *core, uint64_t conn, uint64_t now_ns);
/* True if the connection has done nothing for which it should be kept: it has
 * changed nothing, has no session, renews none, and watches nothing. At the
 * limit such connections are closed first. */
bool core_client_is_fresh(struct core *core, uint64_t conn);

/* True if the connection is not authenticated while access is required: it may
 * do nothing but authenticate. */
bool core_client_is_nobody(struct core *core, uint64_t conn);

/* True if a client with this secret (empty: none) could get any right: access
 * is open, or this node knows the secret. */
bool core_secret_is_somebody(struct core *core, struct bytes secret);

/* The number of the newest entry that this node has applied, in the order of
 * tokens; that of the cluster's epoch; and the longest TTL that a session may
 * have. For doors whose protocol has such numbers. */
uint64_t core_token_now(const struct core *core);
uint64_t core_token_base(const struct core *core);
uint64_t core_ttl_max_ms(const struct core *core);
void core_random(struct core *core, void *out, size_t size);

/* Fills in what only the core knows, such as the end of this node's log. */
void core_fill_hello(const struct core *core, struct frame_hello *hello);
/* 0 if a node with this HELLO may connect, else an error with its reason
 * (HASP_ENOENT: it is not a member). It must present this cluster's id, or none
 * yet, and its data directory must be admissible (core/members/standing.h): the
 * newest configuration in the log names the directory, or it may be a guest. */
MUST_CHECK int core_check_peer(struct core *core,
                               const struct frame_hello *hello,
                               char why[HASP_WHY_SIZE]);
/* True if the newest configuration in the log names node 'id' with this data
 * directory. */
bool core_names(const struct core *core, uint64_t id, uint64_t incarnation);
/* True if the directory in 'hello' goes before the connected one with the same
 * node id: the log names it; or a member has named it, and not the other; or
 * its log is newer, and both or neither are named. If a member was replaced
 * while this node was away, both its directories can be guests here, and one of
 * them may lead. */
bool core_goes_before(const struct core *core, const struct frame_hello *hello);
/* True if the certificate with this SHA-256 is revoked; nobody may connect with
 * it. */
bool core_certificate_is_revoked(const struct core *core,
                                 const uint8_t fingerprint[FINGERPRINT_SIZE]);
#define CORE_REVOKED "certificate was revoked"

/* After HASP_ENOENT: true if it was a member with this directory; 'why' says
 * who removed it, and when. This stays true, because a directory that was
 * removed is never added again. */
bool core_was_removed(const struct core *core, const struct frame_hello *hello,
                      char why[HASP_WHY_SIZE]);
/* Member 'id' reports, from its own address, that this node was removed. The
 * node must stop once more than half of the voters have reported it. */
void core_removed_by(struct core *core, uint64_t id, const char *why,
                     uint64_t now_ns);
/* A peer is connected. A HELLO that shows a loss of data
 * (core/members/log_loss.h) is answered with FRAME_LOST, and later frames of
 * that link are ignored. */
void core_peer_up(struct core *core, const struct frame_hello *hello,
                  uint64_t now_ns);
void core_peer_down(struct core *core, uint64_t id, bool was_closed_by_peer,
                    uint64_t now_ns);
/* Receives a frame. On an error the connection must be closed; 'why' may say
 * more (the caller empties it before). */
MUST_CHECK int core_peer_frame(struct core *core, uint64_t id,
                               enum frame_type type, struct bytes body,
                               uint64_t now_ns, char why[HASP_WHY_SIZE]);

/* Node 'from', which this node has a reason to believe, has sent a HELLO from
 * 'address' with the id of another cluster (core/members/apart.h). */
void core_another_cluster(struct core *core, uint64_t from, const char *address,
                          const uint8_t cluster_id[CLUSTER_ID_SIZE],
                          uint64_t now_ns);
/* True while this node therefore serves no clients. */
bool core_is_apart(const struct core *core, char why[HASP_WHY_SIZE]);

/* True if the newest configuration has other addresses for this node than those
 * on which it listens, so that other nodes or clients look for it elsewhere.
 * Hosts are compared only if they are numeric and not wildcards. */
bool core_is_elsewhere(const struct core *core, char why[HASP_WHY_SIZE]);

/* What a node reports about its data directory. */
struct core_directory {
    uint64_t incarnation;
    uint8_t cluster_id[CLUSTER_ID_SIZE]; /* All zero: it knows none. */
    uint64_t term;
    uint64_t last_index; /* Last entry of its log; 0: the log is empty. */
};

/* The result of a probe. 0: both addresses are that node's, and its data
 * directory is 'found'. HASP_ECONNECT: nobody answers yet. Another error:
 * another node answers, or the node does not report its directory. 'found' is
 * read only if the error is 0. */
void core_address_probed(struct core *core, uint64_t number, int error,
                         const struct core_directory *found, const char *why,
                         uint64_t now_ns);

/* See replica_persisted() and replica_vote_saved(). */
void core_persisted(struct core *core, uint64_t term, uint64_t log_index,
                    uint64_t flush_ns, uint64_t now_ns);
void core_vote_saved(struct core *core, uint64_t term, uint64_t voted_for,
                     uint64_t flush_ns, uint64_t now_ns);
/* The requested snapshot is on disk ('error' 0), or could not be written; that
 * is not fatal, it is retried later. */
void core_snapshot_taken(struct core *core, uint64_t log_index, int error,
                         uint64_t now_ns);
/* The received snapshot was checked and made durable, or was damaged. */
void core_snapshot_received(struct core *core,
                            const struct snapshot_header *header, int error,
                            uint64_t now_ns);

/* Log and table are now those of the snapshot, and as durable as a flush makes
 * them. */
void core_snapshot_installed(struct core *core, uint64_t now_ns);

/* Ends a turn. All input that had arrived by 'read_ns' has been fed; 'read_ns'
 * is 'now_ns' unless the loop was delayed (rule 6). Returns the latest time of
 * the next call. */
uint64_t core_turn(struct core *core, uint64_t read_ns, uint64_t now_ns);

/* The state of the log's disk. */
enum core_disk {
    CORE_DISK_OK,
    CORE_DISK_FULL, /* Nearly full: space only for what frees some. */
    CORE_DISK_SLOW  /* Writes take too long. */
};

/* If the disk is not well, a leader hands leadership over, and refuses client
 * changes that acquire something. */
void core_disk_is(struct core *core, enum core_disk disk, uint64_t now_ns);

/* A clean stop: hands leadership over and refuses new requests. Once
 * core_is_quiet() is true the caller may proceed (it bounds the wait). */
void core_stop(struct core *core, uint64_t now_ns);
bool core_is_quiet(const struct core *core);
/* Takes over the options that may change while the core runs: redirect,
 * allows_del, allows_no_ttl, renews_same_value, finalizes_itself, slow_ms,
 * classes, and the limits requests_per_conn, name_size, value_size,
 * snapshot_log_size, snapshot_entries, flush_records and flush_ms. */
void core_change(struct core *core, const struct core_options *options);
/* The last call: flushes the state into the table. */
MUST_CHECK int core_flush(struct core *core);

/* --- Questions ------------------------------------------------------------ */

const struct lockfsm *core_state(const struct core *core);
/* Writes an act as the map that AUDIT.LIST and audit.file have. */
void core_act_put(const struct act *act, struct resp_writer *writer);
const struct replica *core_replica(const struct core *core);
/* True while this node must neither vote nor acknowledge, see port.bar. */
bool core_is_barred(const struct core *core);
/* The data directories refused within the last minute, because another one now
 * has their node id, or none has (core/members/standing.h). */
uint32_t core_replaced_count(const struct core *core, uint64_t now_ns);
/* How much faster a member's clock runs than this node's, in ppm, as measured
 * over the last 10 to 60 s; false if it is unknown. If messages were so slow
 * that the error exceeds 1 %, only as much as is proven. */
bool core_clock_ppm(const struct core *core, uint64_t id, int32_t *ret_ppm);
/* A member's flushes of the last 2 s, as it has reported them (for this node:
 * as measured): their median and number. False: unknown, or none. */
bool core_disk_flush(const struct core *core, uint64_t id, uint64_t *ret_us,
                     uint32_t *ret_count);
/* True while this node's flushes take 50 ms and more (core/members/disks.h).
 * That alone refuses no request. */
bool core_disk_is_slow(const struct core *core, uint64_t *ret_median_us);
/* How often this node has handed leadership over because of its slow disk, and
 * the last successor; 0: never. */
uint64_t core_disk_moved(const struct core *core, uint64_t *ret_to);
/* When this node last handed leadership over because its own clock is off; 0:
 * never. */
uint64_t core_clock_moved_ns(const struct core *core);
/* How far users' rights are enforced on this node. */
enum core_users {
    CORE_USERS_OPEN, /* Unauthenticated clients may do everything. */
    /* They may not, but a program that claims to be a node may:
     * options.believes_plain_peers. */
    CORE_USERS_UNENFORCED,
    CORE_USERS_ENFORCED
};
enum core_users core_users(const struct core *core);
/* This file shows that a volume is mounted (cluster.replace_empty). */
#define REPLACE_MARKER "hasp-volume"
/* True if a voter runs with another directory than its own, or is being
 * replaced; 'why' says what that waits for. Known to the leader. */
bool core_replacement_waits(const struct core *core, char why[HASP_WHY_SIZE]);
/* True while NODE.DRAIN is in force (core/drain.h). */
bool core_is_draining(const struct core *core);
/* For how long; 0: it is not. */
uint64_t core_drained_ns(const struct core *core, uint64_t now_ns);
/* True if this node leads, its BEGIN has been applied, and all deadlines are
 * set. */
bool core_is_serving(const struct core *core);

/* What is left of the quarantine after a restore: exact on the leader,
 * elsewhere by the log's clock. 0: none. */
uint64_t core_quarantine_ms(struct core *core);
/* The newest index at which this node as the leader has seen a majority with
 * the same state (core/members/digests.h); 0: none yet. */
uint64_t core_agreed_index(const struct core *core);

/* Checks the invariants of a core after a turn: each request is where its state
 * says, once, and can still be answered; nothing is under way before BEGIN is
 * applied, and no state of a leader is left afterwards; counts are right.
 * Returns NULL, or a static text that says what is wrong. For tests: it walks
 * over everything under way. */
const char *core_check(const struct core *core);

/* The error words of docs/errors.md: whether the word tells a client that its
 * request had no effect, and the status of HTTP; 0: as ERR. */
#define CORE_WORDS(X)          \
    X(NOSESSION, false, 404)   \
    X(EXPIRED, false, 410)     \
    X(BLACKLISTED, false, 403) \
    X(NOTHELD, false, 409)     \
    X(DEADLOCK, true, 409)     \
    X(LIMIT, true, 429)        \
    X(LEVEL, true, 409)        \
    X(BUSY, true, 503)         \
    X(NOLEADER, true, 503)     \
    X(MOVED, true, 0)          \
    X(UNKNOWN, false, 504)     \
    X(UNFINISHED, false, 409)  \
    X(BADARG, true, 400)       \
    X(GONE, true, 410)         \
    X(FORGOTTEN, false, 409)   \
    X(NOAUTH, true, 401)       \
    X(NOPERM, true, 403)       \
    X(WRONGPASS, true, 401)    \
    X(NOTLS, true, 403)        \
    X(ERR, true, 400)          \
    X(NOPROTO, true, 0)        \
    X(NOSCRIPT, true, 0)       \
    X(WRONGTYPE, true, 0)      \
    X(EXECABORT, true, 0)      \
    X(FOREIGN, true, 421)

/* The verdict on a request, set by the code that decides it and never read from
 * the reply (core/outcome.h). */
enum core_word {
    WORD_NONE, /* No error: data, nil or OK. */
#define CORE_WORD_OF(word, denies, status) WORD_##word,
    CORE_WORDS(CORE_WORD_OF)
#undef CORE_WORD_OF
        WORD_OTHER, /* A word of a newer node. */
    CORE_WORD_COUNT,
    /* ERR for a script that hasp does not run; also counted separately. */
    WORD_UNSUPPORTED = CORE_WORD_COUNT,
    /* LIMIT for a user's quota; also counted separately, and a denial. */
    WORD_QUOTA,
    CORE_WORD_END
};

/* Counters of this node since its start, for INFO and the metrics. */
struct core_counts {
    uint64_t commands;
    uint64_t grants;
    uint64_t sessions_ended;
    uint64_t sessions_died;     /* Those that SESSION.DIED has ended. */
    uint64_t searches_given_up; /* Deadlock searches, at DEADLOCK_STEP_MAX. */
    uint64_t unclean_ends; /* Holds that expired or outlasted their limit. */
    uint64_t refusals;     /* Error answers to this node's clients, ... */
    uint64_t by_word[CORE_WORD_COUNT]; /* ... by enum core_word. */
    uint64_t scrubbed;                 /* Records compared with the table. */
    uint64_t elected;   /* Times that this node became the leader. */
    uint64_t leaders;   /* Leaders that it has seen, in sequence. */
    uint64_t transfers; /* Transfers of leadership that it started, ... */
    uint64_t transfers_failed; /* ... and those that failed. */
    /* Backups of which a client has read the end here, and the time of the
     * newest. */
    uint64_t backups;
    uint64_t backup_ns;
    uint64_t unknown_scripts; /* EVAL, LOAD of scripts that hasp refuses. */
    uint64_t over_quota;      /* Refusals because of a user's quota. */
    /* The wait time of granted requests that this node has applied since its
     * start. */
    struct histogram wait;
    struct histogram hold; /* The length of holds that have ended. */
    /* As the leader: from proposing a batch until a majority has it, and from
     * proposing an entry to applying it. */
    struct histogram replicate;
    struct histogram commit;
};

/* What this node has applied since its start, or since the class was
 * configured, on locks whose names begin with 'prefix'. */
struct core_class {
    char prefix[64]; /* "other": all names without a class. */
    uint64_t waits;  /* Requests that had to wait. */
    uint64_t grants;
    uint64_t unclean_ends;
    struct histogram wait; /* The wait time of granted requests. */
    struct histogram hold; /* The length of holds that have ended. */
};
const struct core_counts *core_counts(const struct core *core);

/* Requests of this node's clients that were denied, grouped
 * (core/session/audit_denied.h). Times are of CLOCK_MONOTONIC (_ns), and of the
 * wall clock for people. */
struct core_denial {
    char user[65];           /* "": an unauthenticated client. */
    char from[ADDRESS_SIZE]; /* The newest address; "": several. */
    const char *command;     /* "LOCK.ACQUIRE"; "": several. */
    char why[256];           /* "NOPERM user ..."; longer ones are cut. */
    uint64_t count;
    uint64_t unreported_count;
    uint64_t unwritten_count; /* Counted, but not yet in the file; ... */
    uint64_t in_writing;      /* ... subtracted when they are written. */
    uint64_t first_ms;
    uint64_t last_ms;
    uint64_t last_ns;
    uint64_t tell_ns; /* When it is reported; UINT64_MAX: done. */
    uint64_t period_ns;
};
/* The denial with number 'place', from 0 on. The last one collects those for
 * which there is no space, and has an empty 'why' while there are none. NULL:
 * no more. */
struct core_denial *core_denial(struct core *core, uint32_t place);
/* Writes a denial as the map that AUDIT.DENIED and audit.file have. */
void core_denial_put(const struct core_denial *denial, uint64_t count,
                     struct resp_writer *writer);
/* The text of each word; WORD_NONE has "", WORD_OTHER "other". */
extern const char *const core_words[CORE_WORD_END];
/* The counts of a class of names, by its place, from 0; NULL after the last,
 * which is "other". */
const struct core_class *core_class(const struct core *core, uint32_t place);
/* How long requests of this node's clients took, including waits, by the
 * command's place. NULL: no such place. */
const struct histogram *core_request_times(const struct core *core,
                                           uint32_t place,
                                           const char **ret_name);
/* Requests in the slow log (core/slow_log.h) since the node's start. */
uint64_t core_slow_count(const struct core *core);
/* How long the oldest wait has lasted, if this node knows it; 0: none. */
uint64_t core_oldest_wait_ms(const struct core *core);
/* A member as this node, the leader, sees it: the index up to which their logs
 * are known to agree (0: unknown), and how long it has been silent (UINT64_MAX:
 * for ever). */
void core_member(const struct core *core, uint64_t id, uint64_t *ret_match,
                 uint64_t *ret_silence_ms);

#endif /* HASP_CORE_CORE_H */
