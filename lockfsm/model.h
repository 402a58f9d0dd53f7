/* SPDX-License-Identifier: MIT */

/* The replicated state in memory: sessions, locks, holds and waits, and how
 * they are linked.
 *
 *     lockfsm -- sessions by id -----> session --holds--> hold <--holds-- lock
 *             -- locks by name -----------|----waits----> wait <--queue-----|
 *             -- fences, blacklist
 *
 * Outside lockfsm/ these structures are for reading only (SHOW, LIST, timers);
 * only lockfsm_apply() changes them. Lists are in the order of log index; hash
 * tables have no order, and nothing replicated depends on theirs. Structures
 * that are listed page by page are also in a set ordered by name
 * (base/treap.h). */

#ifndef HASP_LOCKFSM_MODEL_H
#define HASP_LOCKFSM_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/cluster_id.h"
#include "base/hash.h"
#include "base/list.h"
#include "base/traceparent.h"
#include "base/treap.h"
#include "lockfsm/user/quota.h"

/* SHA-256 of a session's secret, which the state never contains: a log, table,
 * snapshot or backup gives no access to a session. */
#define PROOF_SIZE 32

/* SHA-256 of a certificate in DER. */
#define FINGERPRINT_SIZE 32

enum lock_mode { LOCK_EXCLUSIVE, LOCK_SHARED, LOCK_SLOTS };

const char *lock_mode_name(enum lock_mode mode); /* "exclusive" ... */

/* The state of a Redis key, and its change. Stored in entries. */
enum redis_state {
    REDIS_FREE,  /* It could be acquired now. */
    REDIS_VALUE, /* A Redis client of this user holds it, with a value. */
    REDIS_OTHER  /* Neither: held by other means, waited for, or closed. */
};
enum redis_change {
    REDIS_KEEP,
    REDIS_SET, /* A free key is acquired; another value is a new grant. */
    REDIS_RENEW,
    REDIS_DELETE
};

struct label {
    struct bytes key;
    struct bytes value;
};

/* Links a structure with the table and the digest of the state; private to
 * lockfsm/store/dirty.c. */
struct stored {
    struct list in_list; /* Changed since the last flush, or all others. */
    uint64_t share;      /* Its share of the digest; 0: none. */
    uint8_t kind;        /* enum record_kind. */
    uint8_t flags;
};

/* A node of the holder index (private to lockfsm/lock/holder_index.c). */
struct holder_place {
    struct holder_place *next;
    uint64_t hash;
    uint64_t number;    /* Lock id, or wait index; see enum place_kind. */
    uint64_t session;   /* Session id. */
    struct bytes owner; /* Owner of the enclosing structure. */
    uint8_t kind;
};

/* Links a hold that can have others beside it with those of the same lock and
 * owner (private to lockfsm/lock/claims.c): those of all users, and those of
 * its own user. */
struct claim {
    struct holder_place place; /* Used by the first of them. */
    struct list ring;          /* Circular, in the order of their serials. */
};
enum { CLAIM_OF_ALL, CLAIM_OF_USER, CLAIM_COUNT };
struct claims {
    struct claim of[CLAIM_COUNT];
    struct hold *hold;
};

/* One (session, owner) that waits; private to lockfsm/lock/waiters.c. */
struct waiter;
/* Request numbers and stored results of a session; private to
 * lockfsm/session/dedup.c. */
struct numbers;

/* A notice: a hold was taken away while its session lived. A session keeps the
 * newest ENDED_COUNT_MAX of them. */
enum hold_loss { LOSS_RELEASE_IF, LOSS_MAX_HOLD, LOSS_BREAK }; /* Stored. */
struct ended_hold {
    struct list in_session;
    struct bytes lock;  /* Owned. */
    struct bytes owner; /* Owned. */
    uint64_t token;
    uint64_t first_token;
    uint64_t number; /* token_base + index of the entry that ended the hold. */
    enum hold_loss loss;
};

/* "releaseif", "max hold", "broken". */
const char *hold_loss_name(enum hold_loss loss);

/* An announcement that an operator will take a hold unless its holder objects
 * in time. */
struct hold_break {
    uint64_t since_index; /* Log index of the BREAK. */
    uint64_t after_ms;    /* Delay from that entry. */
    uint64_t clock_ms;    /* The log's clock then. */
    struct bytes by;      /* Owned; may be empty. */
    struct bytes reason;  /* Owned; may be empty. */
};

/* The rights in a grant; stored as bits, so append only. The first ones apply
 * to names, the others to the cluster. Only the role "admin" has those from
 * VERB_COMPOSED_COUNT on. */
enum verb {
    VERB_READ,
    VERB_SHARE,
    VERB_LOCK, /* Implies VERB_SHARE. */
    VERB_FENCE,
    VERB_KICK,
    VERB_SESSIONS,
    VERB_BLACKLIST,
    VERB_CLUSTER,
    VERB_BACKUP,
    VERB_AUDIT,
    VERB_ADMIN,
    VERB_ACCESS,
    VERB_COUNT
};
#define VERB_NAMED_COUNT VERB_SESSIONS
#define VERB_COMPOSED_COUNT VERB_ADMIN

struct grant {
    uint32_t verbs;    /* 1 << enum verb. */
    struct bytes name; /* Owned; none if the verbs apply to the cluster. */
    bool is_prefix;    /* All names with this prefix. */
};

struct role {
    UT_hash_handle by_name;
    struct treap_node in_order;
    struct bytes name;    /* Owned. */
    struct grant *grants; /* Owned. */
    uint32_t grant_count;
    uint32_t user_count; /* Users that have it. */
    uint64_t changed;    /* Token of the entry that changed it last. */
    struct stored stored;
};

/* A secret, of which only the hash is known. */
struct secret {
    UT_hash_handle by_hash;
    struct list in_user;
    struct user *user;
    uint64_t number; /* Token of the entry that added it. */
    uint8_t hash[PROOF_SIZE];
    struct bytes label; /* Owned; may be empty. */
};

struct role_name {
    struct bytes name; /* Owned. */
};

/* A removed user remains without number, roles and secrets, so that its name is
 * not reused by mistake. */
struct user {
    UT_hash_handle by_name;
    UT_hash_handle by_number;
    struct treap_node in_order;
    struct bytes name; /* Owned. */
    uint64_t number;   /* From the entry that created it; 0: removed. */
    uint64_t changed;  /* Token of the entry that changed it last. */
    bool is_disabled;
    struct role_name *roles; /* Owned; in the order in which they were given. */
    uint32_t role_count;
    struct list secrets; /* Nodes: secret.in_user. */
    uint32_t secret_count;
    struct quota bound;     /* Quotas; unused for built-in users. */
    uint32_t bound_count;   /* QUOTA_COUNT, after it was created. */
    struct quota use;       /* Holds without the waits. */
    struct quota recounted; /* Private to lockfsm/user/quota.c. */
    struct treap sessions;  /* Its sessions, by name and id. */
    struct stored stored;
};

/* How a session has ended; stored. */
enum session_end {
    SESSION_LIVES,
    SESSION_CLOSED,
    SESSION_EXPIRED,
    SESSION_BLACKLISTED,
    SESSION_DIED,    /* A witness with its death word has said so. */
    SESSION_DELETED, /* Redis: the last key was deleted, ... */
    SESSION_RELEASED /* ... or taken away. */
};

/* A session that ended with more than one entry can remove is no longer in any
 * set of sessions: a search by its id or name finds nothing. What it left
 * exists until SWEEP removes it. */
struct session {
    /* The fields that nearly every entry reads come first, in few cache lines.
     */
    UT_hash_handle by_id;
    uint64_t id;          /* token_base + index of its OPEN. */
    enum session_end end; /* If not SESSION_LIVES: see above. */
    bool is_durable;      /* No lease: no TTL, no linger, no mark. */
    bool is_redis;        /* Opened by REDIS for the keys it sets. */
    struct user *user;    /* Opened it. */
    uint64_t user_number;
    uint64_t
        blacklist_index;     /* Entry of the blacklist that matches it, or 0. */
    uint64_t recheck_serial; /* Some of its waits may no longer be allowed, and
                                SWEEP has yet to find them: the order of those
                                sessions; 0: none. */
    struct list holds;       /* Nodes: hold.in_session. */
    uint32_t hold_count;
    uint32_t wait_count;
    uint32_t asker_count;
    bool is_disabled;    /* Its user is disabled, as of SWEEP's last visit. */
    struct list waits;   /* Nodes: wait.in_session. */
    struct list waiters; /* Private; nodes: waiter.in_session. */
    struct numbers *numbers; /* Private; NULL before the first one. */
    struct stored stored;
    struct treap_node in_order; /* By name and id. */
    struct treap_node in_user;
    uint8_t proof[PROOF_SIZE]; /* All zero for a Redis value: none. */
    uint8_t will[PROOF_SIZE];  /* The hash of its death word; zero: none. */
    uint64_t opened_ms; /* If durable: when it was opened, by a wall clock, for
                           people; 0: unknown. */
    uint32_t ttl_ms;    /* 0: durable. */
    uint32_t linger_ms; /* 0: none. */
    uint64_t heard_index; /* Newest OPEN, HEARD or renewal of it. */
    uint64_t
        mark_index; /* Newest TIME after heard_index that marks it; 0: none. */
    uint32_t mark_quiet_ms; /* Quiet time in that TIME ... */
    uint64_t mark_clock_ms; /* ... and the log's clock after it. */
    struct bytes name;      /* Owned. */
    struct bytes address;   /* Owned. */
    struct label *labels;   /* Owned. */
    uint32_t label_count;
    uint64_t px_ms;    /* The requested PX of a Redis value. */
    struct list ended; /* Nodes: ended_hold.in_session; the newest. */
    uint32_t ended_count;
    uint64_t dropped_number; /* Number of the newest notice that was dropped, or
                                0. */
    struct treap hold_order; /* Its holds by lock name and serial. */
    struct list in_durable;  /* If it is durable. */
    uint32_t result_count;   /* Results kept for exactly-once. */
    uint64_t end_serial;    /* Counter in the state: the order of ends; or 0. */
    struct list in_swept;   /* Private: sessions that SWEEP removes. */
    struct list in_recheck; /* Private: with recheck_serial. */
    uint64_t recheck_from;  /* With recheck_serial: SWEEP has yet to check its
                               waits from this serial on. */
    struct wait *recheck_at; /* The first of them, or NULL. */
};

struct lock {
    UT_hash_handle by_name;
    struct treap_node in_order;
    uint64_t id;         /* Counter in the state; never reused. */
    struct bytes name;   /* Owned. */
    enum lock_mode mode; /* The holders'; meaningless without holders. */
    uint32_t slots;      /* Capacity, after a request with SLOTS; or 0. */
    struct list holds;   /* Nodes: hold.in_lock. */
    uint32_t hold_count;
    struct list queue; /* Nodes: wait.in_lock; upgrades first. */
    uint32_t wait_count;
    uint32_t waits_by_mode[3]; /* Parts of wait_count, by enum lock_mode. */
    struct list waits_of[3];   /* The queue by mode. Nodes: wait.in_mode. */
    struct wait *slot_edge; /* Private: the first wait for a slot that must wait
                               for other slots, or NULL; ... */
    uint32_t slot_rank;     /* ... number of waits for slots ahead of it. */
    uint64_t delay_ms;    /* Closed for this time since ...; 0: not delayed. */
    uint64_t delay_index; /* ... this entry. */
    uint64_t delay_clock_ms; /* The log's clock then. */
    uint32_t
        delay_slots; /* Number of closed slots; 0: the whole lock is closed. */
    uint64_t last_token; /* The newest grant's; only grows. */
    uint64_t delay_user; /* Number of the user whose hold ended so; or 0. */
    struct bytes note;   /* Owned; left by a holder, until it is removed. */
    uint64_t note_user;  /* Number of the user that left it; 0: no note. */
    bool is_touched;     /* Private: in the list of locks to settle. */
    struct list in_touched;
    uint64_t cut_serial; /* Granting was cut off: the order in which SWEEP
                            continues; 0: it was not. */
    struct list in_cut;  /* Private: with cut_serial. */
    uint64_t cut_at; /* SWEEP continues with the first wait of this serial or a
                        higher one; 0: with the head. */
    bool cut_again; /* The lock was touched meanwhile: SWEEP makes another round
                       from the head. */
    struct wait *cut_wait; /* Private: the wait of cut_at; NULL: the head. */
    struct stored stored;
};

struct hold {
    struct holder_place place; /* By (lock, session, owner). */
    struct list in_lock;
    struct list in_session;
    struct treap_node in_order; /* In the session's holds. */
    struct lock *lock;
    struct session *session;
    struct bytes owner;        /* Owned. */
    struct bytes value;        /* Owned. */
    uint8_t trace[TRACE_SIZE]; /* Of the request; all zero: none. */
    enum lock_mode mode;
    uint64_t token;
    uint64_t first_token; /* Less than 'token' after an upgrade: the tokens from
                             this to 'token' name this hold. */
    uint64_t granted_index; /* Log index of the granting entry. */
    uint64_t serial;        /* Counter in the state: the order in both lists. */
    uint32_t count;         /* Reentrancy, at least 1. */
    uint64_t delay_ms;      /* Lock delay that it asked for. */
    uint64_t hold_ms;       /* Max hold; 0: none. */
    bool has_barged;        /* It was granted ahead of waiting requests. */
    uint64_t hold_clock_ms; /* If limited: the log's clock at the grant. */
    struct claims *claims;  /* Owned; NULL: exclusive. */
    struct hold_break *breaks; /* Owned; the announced break, ... */
    uint32_t break_count;      /* ... 1, or 0. */
    struct stored stored;
};

/* A place in the queue of one lock. The waits of one MACQUIRE share their
 * wait_index, session and owner and are granted together. */
struct wait {
    struct holder_place place; /* By (lock, session, owner). */
    struct holder_place
        by_request; /* By (wait_index, session, owner): the first. */
    struct list in_lock;
    struct list in_mode;
    struct list in_session;
    struct list in_asker;
    struct list in_group; /* Circular over the waits of one request. */
    struct list
        in_unbacked; /* Private: waits to check at the end of the entry. */
    struct list in_state;
    struct waiter *waiter;
    struct lock *lock;
    struct session *session;
    struct bytes owner;        /* Owned. */
    struct bytes value;        /* Owned. */
    uint8_t trace[TRACE_SIZE]; /* Of the request; all zero: none. */
    enum lock_mode mode;
    uint32_t slots;
    uint64_t wait_index;    /* Log index of the entry that queued it. */
    uint64_t asked_index;   /* The newest repetition that keeps the place. */
    uint64_t wait_ms;       /* 0: no limit. */
    uint64_t wait_clock_ms; /* With a limit: the log's clock at asked_index. */
    uint64_t delay_ms;
    uint64_t hold_ms;
    uint64_t req;    /* For exactly-once, or 0. */
    uint64_t serial; /* Counter in the state: the order in the lists. */
    bool is_upgrade; /* CONVERT from shared to exclusive. */
    struct stored stored;
};

struct fence {
    UT_hash_handle by_resource;
    struct treap_node in_order;
    struct bytes resource; /* Owned. */
    uint64_t token;        /* Highest admitted. */
    uint64_t user;         /* Number of the user that was the first. */
    struct stored stored;
};

/* A certificate that is refused, whichever client presents it. */
struct revocation {
    UT_hash_handle by_fingerprint;
    uint8_t fingerprint[FINGERPRINT_SIZE];
    struct treap_node in_order;            /* By its digits. */
    char digits[2 * FINGERPRINT_SIZE + 1]; /* Hexadecimal. */
    struct bytes subject; /* Owned: its subject, as given then; or empty. */
    uint64_t log_index;   /* The entry that revoked it. */
    struct stored stored;
};

/* A row of the map of cells (lockfsm/cells.h): a prefix of names, and whether
 * they are this cluster's. */
struct cell {
    struct list in_order; /* By prefix. */
    struct bytes prefix;  /* Owned. */
    bool is_own;
    struct bytes endpoints; /* Owned. Of the other cell; empty with is_own. */
    /* The cluster to which the prefix was given, or from which it was taken;
     * zero: no receipt. */
    uint8_t cluster[CLUSTER_ID_SIZE];
    uint64_t epoch;     /* Of the hand-over. */
    uint64_t log_index; /* The entry that made the row. */
    uint64_t token;     /* The giver's highest token. */
    struct stored stored;
};

struct blacklisting {
    struct list in_order; /* By since_index. */
    uint64_t session;     /* 0: by client. */
    struct bytes client;  /* Owned; a glob. */
    struct bytes reason;  /* Owned. */
    struct bytes by;      /* Owned. */
    uint64_t for_ms;      /* 0: until removed. */
    uint64_t since_index;
    uint64_t clock_ms; /* With for_ms: the log's clock then. */
    struct stored stored;
};

#endif /* HASP_LOCKFSM_MODEL_H */
