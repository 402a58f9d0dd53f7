/* SPDX-License-Identifier: MIT */

/* What the core is made of. Private to core.
 *
 * One structure, struct request, follows a command through all its stations;
 * the list it stands in says what it waits for:
 *
 *     (none: held) for those before it on its connection to be answered
 *     parked      for a leader to be known, or for this one's BEGIN
 *     forwarded   for the leader's ANSWER
 *     asking      for a confirmed question (reads, heartbeats, refusals)
 *     logged      for its entry to be applied
 *     queued      for the end of its wait in a lock's queue
 *     doomed      heartbeats whose session's EXPIRE is under way
 *     ready       for nothing: its turn comes at the end of this stage
 *
 * Invariant: a request of a local connection stands in exactly one slot of it;
 * when it is answered it leaves its list, its slot and the count in flight. */

#ifndef HASP_CORE_STATE_H
#define HASP_CORE_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/hash.h"
#include "base/list.h"
#include "base/log_limit.h"
#include "base/units.h"
#include "core/clock_rate.h"
#include "core/core.h"
#include "core/history.h"
#include "core/redis/scripts.h"
#include "lease/timers.h"
#include "lockfsm/encode.h"
#include "net/frame.h"

/* How long a request waits for a leader before NOLEADER. */
#define LEADER_WAIT_NS (3000 * NS_PER_MS)
/* Questions asked for heartbeats alone are so far apart. */
#define HEARTBEAT_SPACING_NS (2 * NS_PER_MS)
/* A request that a node refused is not sent there again sooner. */
#define FORWARD_RETRY_NS (20 * NS_PER_MS)
#define PEER_COUNT_MAX 32
/* A leader whose disk is scarce tries so often to hand over. */
#define SCARCE_RETRY_NS (5000 * NS_PER_MS)

/* Entries of our own that may be under way beside those of clients. */
#define OWN_IN_FLIGHT_DEFAULT 8192
#define BYTES_IN_FLIGHT_DEFAULT (64u << 20)
#define BYTES_PER_CONN_DEFAULT (4u << 20)

/* Of a session's secret. */
#define SECRET_SIZE 16

struct command;
struct request;

/* --- Connections ---------------------------------------------------------- */

/* The place of one reply in the order of a connection's requests. */
struct slot {
    struct request *request; /* NULL: its reply stands in 'reply'. */
    struct buffer reply;
    uint8_t order; /* enum conn_order. */
};

/* What a connection sends without waiting for answers has its effect in the
 * order in which it was sent. Changes keep it by themselves, since they stand
 * in one log; a read and a change that may touch the same thing wait for each
 * other. */
enum conn_order { ORDER_NONE, ORDER_CHANGE, ORDER_READ, ORDER_COUNT };

/* A connection closed while no leader could be told (rule 8). */
struct untold_close {
    uint64_t conn;
    uint64_t session;
};
#define UNTOLD_CLOSE_MAX 4096

enum watch_kind { WATCH_PREFIX, WATCH_CHANNEL, WATCH_PATTERN };

/* What is watched, once for all who do; see watches.h. */
struct pattern {
    UT_hash_handle by_key;
    struct list in_core; /* core->prefixes[], or core->globs. */
    struct list watches;
    uint64_t turn;       /* Of the steps. */
    uint64_t steps;      /* That it has cost in that turn. */
    uint64_t event;      /* The newest that it was tried for. */
    uint64_t bound;      /* Of a glob: what one try may cost. */
    uint32_t open_count; /* Of those who watch it: not being closed. */
    enum watch_kind kind;
    size_t size;
    uint8_t key[]; /* The kind, then the text. */
};

struct watch {
    UT_hash_handle by_owner;
    struct list in_conn;
    struct list in_pattern;
    struct watch_of {
        struct conn *conn;
        struct pattern *pattern;
    } of;
    bool is_closed; /* It was too costly, and the connection is closed. */
};

struct conn {
    UT_hash_handle by_id;
    struct list in_core; /* By age, for CLIENT LIST. */
    uint64_t id;
    uint64_t opened_ns;
    char *address;
    struct bytes name; /* CLIENT SETNAME; owned. */
    int version;       /* RESP 2 or 3. */
    struct slot *slots;
    uint32_t slot_capacity; /* A power of two. */
    uint64_t first_slot;    /* The oldest that is not answered. */
    uint64_t next_slot;
    uint64_t blocking_slot; /* Holds back what follows it; UINT64_MAX: none. */
    uint64_t quit_slot;     /* Its answer is the last; UINT64_MAX: none. */
    struct list sessions;   /* Of attachment.in_owner, newest last. */
    uint32_t session_count;
    struct list watches;
    uint32_t watch_count;   /* Of all kinds; channels and patterns as well in */
    uint32_t channel_count; /* ... this one (the mode of RESP2). */
    uint32_t glob_count;
    uint64_t told_event; /* The newest that was pushed to it. */
    /* Of those that are not answered, by enum conn_order: how many, and a bit
     * for the hash of each name that they touch. */
    uint32_t open_count[ORDER_COUNT];
    uint64_t open_names[ORDER_COUNT];
    uint64_t held_size; /* Bytes, see core_limits.bytes_per_conn. */
    bool is_blocked;
    bool is_known;   /* It has done something, see core_client_is_stranger(). */
    bool is_closing; /* We have closed it; nothing more is written. */
};

/* That a connection acts for a session: of this node, or of another one. */
struct attachment {
    struct list in_owner;   /* conn.sessions or peer.attachments. */
    struct list in_session; /* attached.attachments. */
    struct attached *attached;
    struct conn *conn;  /* NULL: of a peer. */
    uint64_t peer_conn; /* Of a peer: its number there. */
    uint64_t peer;
    bool is_ended;
};

/* A session to which connections known here are attached. */
struct attached {
    UT_hash_handle by_session;
    uint64_t session;
    struct list attachments;
};

/* --- Peers ---------------------------------------------------------------- */

struct snapshot_sender {
    bool is_active;
    uint64_t index;
    uint64_t term;
    uint64_t size;
    uint64_t sent;
    uint64_t acked;
    uint64_t moved_ns; /* When it began, or a part was acknowledged. */
};

/* What the newest digests of a state were (core/digests.h). */
#define DIGEST_POINT_COUNT 16
struct digest_points {
    struct frame_digest point[DIGEST_POINT_COUNT]; /* log_index 0: none. */
    uint32_t next;
};

struct digests {
    struct digest_points own;
    uint64_t applied_index;  /* At the last look, and ... */
    uint64_t quiet_since_ns; /* ... since when it is that. */
    uint64_t scrub_due_ns;
    uint64_t sent_index;    /* The newest point that ... */
    uint64_t sent_to;       /* ... this leader has been sent; 0: none. */
    uint64_t agreed_index;  /* Of a leader: a majority had the same there. */
    uint64_t differs_index; /* Here they differed, and no majority was known. */
};

struct peer {
    uint64_t id;                  /* 0: free. */
    struct digest_points digests; /* Of that directory. */
    bool is_up;
    uint64_t incarnation;
    uint32_t feature_level; /* As it last announced. */
    struct clock_rate clock;
    bool is_clock_known;
    int32_t clock_ppm;    /* Then: as at the last look. */
    bool is_clock_told;   /* That it differs. */
    uint64_t acked_term;  /* That directory's log was durable, when this ... */
    uint64_t acked_index; /* ... node led in acked_term; 0: not known. */
    bool has_lost;        /* It is not any more. */
    bool says_removed;    /* That this node was. */
    bool has_asked;       /* Whether that is so: with this accusation, ... */
    struct frame_lost asked;
    uint64_t question; /* ... to be answered after this confirmed question. */
    bool is_removed;   /* Its connection counts no more, as of the next look. */
    uint64_t registering_term;  /* In which this connection's directory was
                                   proposed for registration. */
    struct frame_members named; /* By it; index 0: it has not said. */
    struct list attachments;
    struct snapshot_sender sender;
};

/* --- Requests ------------------------------------------------------------- */

enum request_state {
    REQUEST_NEW,
    REQUEST_HELD, /* Until all before it on its connection are answered. */
    REQUEST_PARKED,
    REQUEST_FORWARDED,
    REQUEST_ASKING,
    REQUEST_LOGGED,
    REQUEST_QUEUED,
    REQUEST_DOOMED,
    REQUEST_READY,   /* To be read or answered. */
    REQUEST_RESUMED, /* To be dealt with anew. */
    REQUEST_CHANGING /* Membership, see membership.c. */
};

/* What may have come of a request by now. Every refusal takes its word from it:
 * request_refuse(). Of what only reads it says NOTHING_DONE for ever. */
enum request_effect {
    NOTHING_DONE, /* No leader has logged it, nor can one still do so. */
    MAY_BE_DONE   /* It was logged here, or sent to a leader. */
};

struct request {
    struct list in_list;
    struct request *next; /* Of those that wait for the same entry or place. */
    const struct command *command;
    enum request_state state;
    enum request_effect effect;
    bool has_req;
    bool is_heard;     /* KEEP: all its sessions' deadlines were moved. */
    bool is_unwelcome; /* A change that is to be refused: no room on the disk,
                          or a feature level that is too low. */
    uint8_t version;
    struct conn *conn;  /* Of a local one. */
    uint64_t peer;      /* Of a remote one; with conn NULL and 0: nobody's. */
    uint64_t peer_conn; /* Of a remote one. */
    uint64_t slot;
    uint64_t session; /* That acts; 0: none. */
    uint64_t received_ns;
    uint64_t deadline_ns;   /* Parked: until when. */
    uint64_t not_before_ns; /* Parked: not to be sent sooner. */
    uint64_t question;      /* Asking: the number that it needs. */
    uint64_t read_index;    /* Asking: must be applied. */
    uint64_t index;         /* Logged: its entry. Queued: its wait. */
    uint64_t sent_to;       /* Forwarded. */
    uint64_t sent_term;
    uint32_t step; /* Of a script over several keys: the one at hand. */
    uint32_t hits;
    bool is_undoing;
    char secret[2 * SECRET_SIZE + 1]; /* OPEN: made here, told once; or "". */
    UT_hash_handle by_wait;           /* Queued: the first of its wait. */
    struct buffer body;               /* The FORWARD frame; empty: not kept. */
    uint64_t held_size;               /* Counted with its connection. */
};

/* A session that is to be logged as heard; the last of a heartbeat's has the
 * request, which is looked at again when that is done. */
struct hearing {
    uint64_t session;
    struct request *request; /* Or NULL. */
};

struct batch_item {
    size_t start;
    size_t size;
    struct request *requests; /* NULL: an entry of our own. */
};

struct snapshot_receiver {
    bool is_active;   /* Chunks are coming in. */
    bool is_adopting; /* All is there, the port checks it ... */
    bool must_adopt;  /* ... or will, when the vote has been saved. */
    uint64_t from;
    uint64_t leader_term;
    uint64_t index;
    uint64_t term;
    uint64_t size;
    uint64_t offset;
};

/* A connection that reads a backup. */
struct backup_reader {
    uint64_t conn; /* 0: none. */
    uint64_t read_ns;
};
#define BACKUP_READER_MAX 16

enum change_probe {
    PROBE_NONE,
    PROBE_DUE,
    PROBE_UNDER_WAY,
    PROBE_DONE,
    PROBE_FAILED
};

struct core {
    struct core_options options;
    struct core_port port;
    char *version;
    struct replica *replica;
    struct lockfsm *fsm;
    struct timers *timers;
    struct table *table;
    struct effects effects;
    uint64_t now_ns;
    uint64_t started_ns;
    core_applied_fn *hook;
    core_heard_fn *heard_hook;
    void *hook_data;
    uint16_t command_slots[512]; /* Hash of a name -> place in the table + 1. */

    /* Leadership, as last seen. */
    bool is_leader;
    bool must_begin; /* BEGIN has yet to be submitted. */
    bool is_serving; /* BEGIN of 'led_term' has been applied. */
    uint64_t led_term;
    uint64_t known_leader; /* 0: none. */
    uint64_t last_leader;  /* The newest that was known. */
    uint64_t known_term;
    bool is_cluster_told;
    struct log_limit ignored;       /* Frames. */
    struct core_accusation accused; /* Then it is barred. */
    uint64_t asked_leader;          /* About that; 0: none, or again. */
    uint64_t asked_term;
    bool has_fatal;
    bool has_removed_peers; /* One of the peers is_removed. */
    uint64_t snapshot_to;   /* This member wants a snapshot; 0: none. */

    /* Connections, sessions, peers. */
    struct conn *conns;
    struct list conns_by_age;
    uint32_t conn_count;
    struct attached *attached;
    struct untold_close *untold; /* UNTOLD_CLOSE_MAX, or NULL. */
    uint32_t untold_count;
    struct watch *watches;
    struct pattern *patterns;
    struct list prefixes[LOCK_NAME_SIZE_MAX + 1]; /* By size. */
    struct list globs;
    uint64_t match_turn;
    uint64_t match_steps; /* Of this turn. */
    uint64_t event_number;
    struct peer peers[PEER_COUNT_MAX];

    /* Requests. */
    struct request *free_requests;
    uint32_t free_count;
    uint32_t in_flight;     /* All but the queued. */
    uint32_t in_flight_max; /* Entries, of the replica. */
    uint64_t held_size;     /* Of all connections. */
    struct list parked;
    struct list forwarded;
    struct list asking;
    struct list logged;
    struct list queued;
    struct list doomed;
    struct list ready;
    struct list snapshotting; /* RAFT.SNAPSHOT. */
    struct request *by_wait;
    struct resp_writer writer;
    size_t reply_start; /* Of the reply at hand, in writer.out. */
    struct buffer scratch;
    struct buffer parse_error;
    struct buffer event;         /* The payload of a message. */
    uint64_t *closed_sessions;   /* FRAME_SESSION_MAX, for decoding. */
    struct bytes *arguments;     /* FRAME_ARGUMENT_MAX, for decoding. */
    struct bytes remote_address; /* Of the forwarded request at hand. */
    struct bytes remote_client;

    /* The batch of this turn, and who waits for which entry. */
    struct buffer batch;
    struct batch_item *items;
    struct bytes *commands;
    uint32_t item_count;
    uint32_t item_capacity;
    size_t item_start;
    uint32_t own_in_flight; /* Entries of our own. */
    /* While it is decided on: a request whose leadership is confirmed. */
    const struct request *confirmed;
    struct bytes asked_by;   /* Likewise: BY of the request. */
    struct request **ring;   /* By log index. */
    uint64_t ring_size;      /* A power of two. */
    uint64_t ring_first;     /* Indexes from here on ... */
    uint64_t ring_end;       /* ... to before here are in it. */
    struct hearing *hearing; /* For the next HEARD. */
    uint32_t hearing_count;
    uint32_t hearing_capacity;
    uint64_t heard_index; /* The HEARD under way; 0: none. */
    uint32_t heard_item;  /* It stands in the batch, at this place + 1. */

    /* Questions. */
    uint64_t asked;         /* The newest one. */
    uint64_t asked_before;  /* The one before it. */
    uint32_t unasked_reads; /* That wait, other than heartbeats. */
    uint64_t asked_ns;
    uint64_t asked_before_ns;
    uint64_t asked_first; /* One that was open when the others were asked: on a
                           * slow network both of those are, all the time. */
    uint64_t asked_first_ns;
    uint64_t confirmed_ns; /* When the newest confirmed one was asked. */
    bool wants_expiry_question;
    bool has_session_ended; /* Since doomed heartbeats were last looked at. */
    bool has_left_over;     /* Work was put off to the next turn. */
    bool has_spent_budget;  /* In this turn, by applying. */
    uint64_t scan_budget;   /* Of this turn, for LIST. */

    struct scripts scripts;
    struct backup_reader backup_readers[BACKUP_READER_MAX];
    struct history history; /* When was an entry applied? */
    struct digests digests;
    uint64_t quarantine_due_ns; /* Of the next line that tells of it; 0. */

    /* The table and snapshots. */
    uint64_t flush_due_ns; /* 0: nothing to flush. */
    bool has_put_off_flush;
    bool is_table_full; /* Until whoever reads it has ended. */
    bool is_taking_snapshot;
    uint64_t snapshot_index; /* Newest one taken or loaded. */
    uint64_t snapshot_retry_ns;
    struct snapshot_receiver receiver;

    /* Membership, transfer, stop. */
    struct buffer change_asker; /* See trail_append(). */
    struct log_limit pleas;
    struct request *changing; /* ADD, PROMOTE ...: at most one. */
    uint64_t change_index;
    uint64_t change_member;
    bool change_promotes;
    bool change_takes;     /* DEMOTE and REMOVE: not proposed yet. */
    bool change_is_forced; /* Whoever is silent. */
    char change_address[MEMBER_ADDRESS_SIZE]; /* ADD: what was announced ... */
    bool change_is_standby;                   /* ... and that it is to stay. */
    enum change_probe change_probe;           /* ADD: is it there? */
    uint64_t probe_number;                    /* The newest. */
    char probe_why[HASP_WHY_SIZE / 2];        /* It was not. */
    uint64_t change_settles; /* Not 0: the member lacks this index yet. */
    uint64_t change_retry_ns;
    uint64_t change_deadline_ns;
    struct request *transferring;
    bool wants_transfer; /* Once what is under way has been applied. */
    uint64_t transfer_to;
    uint64_t transfer_after_index;
    uint64_t transfer_deadline_ns;          /* Of the wait for them. */
    struct replica_members applied_members; /* The configuration applied. */
    struct replica_members wanted_members;  /* As the port was told. */
    bool must_register; /* Look for members without an incarnation. */
    bool must_look_at_levels;
    uint64_t clocks_due_ns;
    uint64_t clock_moved_ns; /* When this leader handed over for it; 0. */
    bool is_clock_off;
    uint64_t clock_heir; /* To hand over to for it; 0. */
    uint32_t told_level; /* That the cluster could be raised to it. */
    bool is_disk_scarce;
    uint64_t scarce_retry_ns;
    bool is_stopping;

    struct core_counts counts;
};

/* See core_is_barred(). */
static inline bool is_barred(const struct core *core)
{
    return core->accused.term != 0;
}

/* Time does not go back, whatever order the events come in. */
static inline void set_now(struct core *core, uint64_t now_ns)
{
    if (now_ns > core->now_ns) {
        core->now_ns = now_ns;
    }
}

#endif /* HASP_CORE_STATE_H */
