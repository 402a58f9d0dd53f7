/* SPDX-License-Identifier: MIT */

/* Frames: the messages between nodes.
 *
 *     offset 0  u32  size of the body
 *            4  u8   type (enum frame_type)
 *            5  u8   0
 *            6  u16  0
 *            8  ...  body
 *
 * The first frame in each direction of a connection is FRAME_HELLO; if it is
 * invalid, the connection is closed. This module is pure: bytes in, structures
 * out. Every length is checked against FRAME_SIZE_MAX before memory is
 * allocated for it. Bytes in a decoded frame are borrowed from the input. */

#ifndef HASP_NET_FRAME_H
#define HASP_NET_FRAME_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/cluster_id.h"
#include "base/digest.h"
#include "base/err.h"

#define FRAME_HEADER_SIZE 8
#define FRAME_SIZE_MAX (32u << 20) /* Body. */
/* Largest reply that fits into an ANSWER. */
#define FRAME_REPLY_SIZE_MAX (FRAME_SIZE_MAX - 64u)
#define FRAME_HELLO_SIZE_MAX 512u /* Body of the first frame. */
/* The size of a HELLO modulo 256 is never this value, since a connection that
 * begins with this byte uses TLS (TLS_FIRST_BYTE). */
#define FRAME_NOT_SIZE 0x16

/* Versions of the frames. Each node announces in its HELLO the range of
 * versions that it supports; both sides of a connection then use the highest
 * version in both ranges. The table in frame.c has the version since which each
 * frame exists, and no frame is sent on a connection of an older version
 * (peers_output()). So nodes can be upgraded or downgraded one by one.
 *
 * To add a frame after a release: give it a type and a row, and raise
 * FRAME_VERSION_NEWEST if that version has been released. The body of a frame
 * never changes: a longer body is a new frame. The header, REFUSED, and the
 * fields of HELLO up to 'to' are the same in all versions. FRAME_VERSION_OLDEST
 * is raised when a frame that all nodes need is no longer understood. */
#define FRAME_VERSION_OLDEST 1
#ifdef HASP_FEATURE_LEVEL_EXTRA /* For tests: see lockfsm/feature.h. */
#define FRAME_VERSION_NEWEST 2
#else
#define FRAME_VERSION_NEWEST 1
#endif

enum frame_type {
    FRAME_HELLO = 1,
    FRAME_RAFT = 2,     /* Body: a message of raft/replica.h. */
    FRAME_FORWARD = 3,  /* A client's request, follower to leader. */
    FRAME_ANSWER = 4,   /* The answer to FORWARD, leader to follower. */
    FRAME_CLOSED = 5,   /* A client's connection was closed. */
    FRAME_SNAPSHOT = 6, /* A chunk of a snapshot. */
    FRAME_SNAPSHOT_ACK = 7,
    FRAME_PING = 8, /* Body: u64, echoed by PONG. */
    FRAME_PONG = 9,
    FRAME_LOST = 10,     /* The receiver lost acknowledged entries. */
    FRAME_DIGEST = 11,   /* A digest of the sender's state, for its leader. */
    FRAME_DIVERGED = 12, /* The digest of a majority; the receiver's differs. */
    FRAME_MEMBERS = 13,  /* The sender's newest configuration. */
    FRAME_ACCUSED = 14,  /* To the leader: is a LOST about me true? */
    FRAME_CLEARED = 15,  /* The leader's answer to ACCUSED: no. */
    FRAME_CLOCK = 16,    /* The times of both ends, and the sender's disk. */
    FRAME_REFUSED = 17,  /* Why the receiver's HELLO was refused. */
#ifdef HASP_FEATURE_LEVEL_EXTRA
    FRAME_TRIAL = 18, /* Body: u64. Sent at each greeting, logged. */
#endif
    FRAME_TYPE_END
};

/* Parses one frame at the start of 'input': 0, HASP_EMORE, HASP_EPROTO (unknown
 * type, reserved bytes set) or HASP_ETOOBIG (the body is larger than
 * 'size_max'). */
MUST_CHECK int frame_parse(struct bytes input, uint32_t size_max,
                           enum frame_type *ret_type, struct bytes *ret_body,
                           size_t *ret_used);

/* Begins a frame in 'out' and returns where it starts; the caller appends the
 * body and calls frame_end(), which fills in the size. */
size_t frame_begin(struct buffer *out, enum frame_type type);
void frame_end(struct buffer *out, size_t start);

/* The first version with frames of this type. */
uint32_t frame_since(enum frame_type type);

struct frame_versions {
    uint32_t oldest;
    uint32_t newest;
};
extern const struct frame_versions frame_versions_spoken; /* This program's. */
/* The highest version in both ranges; 0: none. */
uint32_t frame_common_version(const struct frame_versions *one,
                              const struct frame_versions *other);

/* What founders must agree on. */
#define FRAME_LIMIT_MAX 24
#define FRAME_NAME_SIZE 128
struct frame_terms {
    uint64_t limit[FRAME_LIMIT_MAX];
    uint32_t limit_count; /* 0: no terms. */
    uint8_t members[DIGEST_SIZE];
    char name[FRAME_NAME_SIZE];
    bool is_access_required;
};

struct frame_hello {
    struct frame_versions versions;
    uint64_t from; /* Node id. */
    uint64_t to;
    uint32_t feature_level; /* The highest that the sender supports. */
    uint32_t cluster_level; /* Level of its cluster; 0: unknown. */
    uint8_t cluster_id[CLUSTER_ID_SIZE];
    uint64_t incarnation;
    uint64_t applied_index; /* How far the sender has applied the log. */
    /* Index of the newest configuration in its log, if that names the sender;
     * otherwise 0. */
    uint64_t members_index;
    uint64_t term;       /* Raft's current term. */
    uint64_t last_index; /* Last entry of its log and its term; 0: empty. */
    uint64_t last_term;
    struct frame_terms terms; /* From a founder before the founding. */
    bool is_marked;           /* Its volume is there, not a missing mount. */
};
void frame_put_hello(struct buffer *out, const struct frame_hello *hello);
/* If this program supports none of the HELLO's versions, only the fields up to
 * 'to' are read; the others are zero. */
MUST_CHECK int frame_get_hello(struct bytes body, struct frame_hello *ret);
/* Whether two nodes with these greetings can be connected. */
enum frame_age { FRAME_FITS, FRAME_OTHER_TOO_OLD, FRAME_SELF_TOO_OLD };
enum frame_age frame_compare_levels(const struct frame_hello *self,
                                    const struct frame_hello *other);

#define FRAME_ARGUMENT_MAX 1024

/* 'conn' and 'slot' are numbers of the sending node, by which it assigns the
 * answer. */
struct frame_forward {
    uint64_t term;    /* Term of the leader that it is sent to. */
    bool may_be_done; /* An earlier leader may have carried it out. */
    uint64_t conn;
    uint64_t slot;
    uint64_t session;       /* Acting session; 0: none. */
    uint32_t sending;       /* Number of this attempt, from 1. */
    uint64_t user;          /* The client's user ... */
    uint64_t secret;        /* ... and the secret that it used; 0: none. */
    uint8_t version;        /* RESP version of the answer: 2 or 3. */
    struct bytes address;   /* The client's. */
    struct bytes client;    /* CLIENT SETNAME, may be empty. */
    struct bytes *argument; /* For decoding: the caller's array, or NULL ... */
    uint32_t count;         /* ... to count; at most FRAME_ARGUMENT_MAX. */
};
void frame_put_forward(struct buffer *out, const struct frame_forward *forward);
/* The same; then '*forward' borrows its address, client and arguments from
 * 'out', the latter by 'argument', which has room for 'count'. So there is no
 * need to decode what was just encoded. */
void frame_keep_forward(struct buffer *out, struct frame_forward *forward,
                        struct bytes *argument);
/* Overwrites these fields of an encoded FORWARD, header and body. */
void frame_stamp_forward(uint8_t *frame, uint64_t term, bool may_be_done,
                         uint64_t session, uint32_t sending);
MUST_CHECK int frame_get_forward(struct bytes body,
                                 struct frame_forward *ret_forward);

enum frame_answer_kind {
    ANSWER_REPLY = 0,      /* Send 'reply' to the client; a push has no slot. */
    ANSWER_ATTACHED = 1,   /* As REPLY; 'session' is now attached. */
    ANSWER_ENDED = 2,      /* As REPLY; 'session' has ended. */
    ANSWER_NOT_LEADER = 3, /* Nothing was done by any leader: try another. */
    ANSWER_UNKNOWN = 4,    /* Possibly done; this node no longer leads. */
    ANSWER_WATCHED = 5,    /* 'reply' has the versions of WATCH's keys. */
    /* The receiver is to answer the request itself, once it has applied entry
     * 'session'. */
    ANSWER_ALLOWED = 6
};
struct frame_answer {
    uint64_t conn;
    uint64_t slot;
    uint32_t sending; /* The FORWARD's; 0 in a push. */
    enum frame_answer_kind kind;
    uint64_t session;
    uint8_t word;       /* The error word's number in core; 0: no error. */
    bool has_changed;   /* It changed something (core/outcome.h). */
    uint32_t waited_ms; /* For people: in a lock's queue, in milliseconds. */
    struct bytes reply; /* Encoded RESP, passed on unread. */
};
void frame_put_answer(struct buffer *out, const struct frame_answer *answer);
MUST_CHECK int frame_get_answer(struct bytes body, struct frame_answer *ret);

/* CLOSED: connection 'conn' of the sending node was closed; these sessions were
 * attached to it. 'is_quiet': the node closed it, so its client may still
 * run. */
#define FRAME_SESSION_MAX 4096
void frame_put_closed(struct buffer *out, uint64_t conn, bool is_quiet,
                      const uint64_t *sessions, uint32_t count);
MUST_CHECK int frame_get_closed(struct bytes body, uint64_t *ret_conn,
                                bool *ret_is_quiet,
                                uint64_t sessions[FRAME_SESSION_MAX],
                                uint32_t *ret_count);

struct frame_snapshot {
    uint64_t leader_term;
    uint64_t last_index;
    uint64_t last_term;
    uint64_t total_size;
    uint64_t offset;
    struct bytes chunk;
};
void frame_put_snapshot(struct buffer *out, const struct frame_snapshot *part);
MUST_CHECK int frame_get_snapshot(struct bytes body,
                                  struct frame_snapshot *ret_part);

/* 'offset' bytes have been received in order; 'is_done': installed or not
 * needed. */
struct frame_snapshot_ack {
    uint64_t leader_term;
    uint64_t last_index;
    uint64_t offset;
    bool is_done;
};
void frame_put_snapshot_ack(struct buffer *out,
                            const struct frame_snapshot_ack *ack);
MUST_CHECK int frame_get_snapshot_ack(struct bytes body,
                                      struct frame_snapshot_ack *ret_ack);

/* The node of this incarnation had its log on disk up to 'last_index' in
 * 'term'. */
struct frame_lost {
    uint64_t incarnation;
    uint64_t term;
    uint64_t last_index;
    uint64_t log_end; /* ACCUSED: current end of its log. */
};
/* LOST, ACCUSED, CLEARED. */
void frame_put_lost(struct buffer *out, enum frame_type type,
                    const struct frame_lost *lost);
MUST_CHECK int frame_get_lost(struct bytes body, struct frame_lost *ret_lost);

/* DIGEST, DIVERGED. */
struct frame_digest {
    uint64_t log_index;
    uint64_t digest;
};
void frame_put_digest(struct buffer *out, enum frame_type type,
                      const struct frame_digest *digest);
MUST_CHECK int frame_get_digest(struct bytes body,
                                struct frame_digest *ret_digest);

/* The members in the configuration at 'log_index' of the sender's log, with
 * their data directories. */
#define FRAME_MEMBER_MAX 15
struct frame_members {
    uint64_t log_index;
    uint64_t id[FRAME_MEMBER_MAX];
    uint64_t incarnation[FRAME_MEMBER_MAX];
    uint32_t count;
};
void frame_put_members(struct buffer *out, const struct frame_members *members);
MUST_CHECK int frame_get_members(struct bytes body,
                                 struct frame_members *ret_members);

enum frame_refusal {
    REFUSAL_OTHER = 0,
    REFUSAL_STRANGER = 1, /* The receiver is not a member. */
    REFUSAL_REMOVED = 2,  /* It was one. */
    REFUSAL_CROSSED = 3   /* The sender dials the receiver: no fault. */
};
#define FRAME_REFUSED_SIZE_MAX \
    400u /* Of the text; the frame is a first one. \ */
/* Truncates the text. */
void frame_put_refused(struct buffer *out, enum frame_refusal refusal,
                       struct bytes why);
MUST_CHECK int frame_get_refused(struct bytes body,
                                 enum frame_refusal *ret_refusal,
                                 struct bytes *ret_why);

/* Times of the clocks of both ends, and the disk of the sender
 * (core/members/clocks.h and disks.h). */
struct frame_clock {
    uint64_t time_ns;
    uint64_t echo_ns; /* The receiver's newest time, from its FRAME_CLOCK; 0 ...
                       */
    uint64_t echo_received_ns; /* ... and the sender's time when it came. */
    uint32_t flush_us; /* Median of its log's flushes in the last 2 s. */
    uint32_t flush_count;
};
void frame_put_clock(struct buffer *out, const struct frame_clock *clock);
MUST_CHECK int frame_get_clock(struct bytes body,
                               struct frame_clock *ret_clock);

void frame_put_u64(struct buffer *out, enum frame_type type, uint64_t value);
MUST_CHECK int frame_get_u64(struct bytes body, uint64_t *ret_value);

#endif /* HASP_NET_FRAME_H */
