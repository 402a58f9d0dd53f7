/* SPDX-License-Identifier: MIT */

/* Clients' connections of this node: their reply slots and when they block.
 *
 * Each request has a slot, and answers leave in the order of the slots. The
 * answer of the first slot goes straight into the connection's output; others
 * are stored in their slot. A connection is blocked (the caller feeds no
 * further request) while a command that may wait is unanswered, or while too
 * many requests are. */

#ifndef HASP_CORE_CONN_H
#define HASP_CORE_CONN_H

#include "base/bytes.h"
#include "base/hash.h"
#include "base/list.h"
#include "core/session/identity.h"
#include "lockfsm/model.h"

struct core;
struct request;
struct transaction;

/* The place of one reply in the order of a connection's requests. */
struct slot {
    struct request *request; /* NULL: 'reply' has the reply. */
    struct buffer reply;
    uint8_t order; /* enum conn_order. */
};

/* Requests that a connection sends without waiting for answers take effect in
 * the order in which they were sent. Changes keep this order by themselves,
 * since one log has them all, and reads change nothing; a read and a change
 * that may touch the same name wait for each other. A Redis command is a read
 * until it turns out to be a change, so it waits for both, and they wait for
 * it. */
enum conn_order {
    ORDER_NONE,
    ORDER_CHANGE,
    ORDER_READ,
    ORDER_EITHER,
    ORDER_COUNT
};

struct conn {
    UT_hash_handle by_id;
    struct list in_core; /* By age, for CLIENT LIST. */
    struct list in_due;  /* See conns.due. */
    /* The value of conns.changes when it was last checked. */
    uint64_t looked_at;
    bool has_lost_push; /* A push was lost, so the connection has to end. */
    uint64_t id;
    uint64_t opened_ns;
    char *address;
    uint64_t stranger; /* The payer while it has no user: in_flight.h. */
    enum identity_way way;
    bool is_private; /* See core/session/identity.h. */
    char *certified; /* The user's name in its certificate, or NULL. */
    /* That certificate's; zeros: none. */
    uint8_t fingerprint[FINGERPRINT_SIZE];
    uint8_t ca[FINGERPRINT_SIZE]; /* That of the CA that issued it. */
    uint64_t user;                /* Its user; USER_ANYONE until it is known. */
    bool is_surplus; /* The certificate's user had too many connections. */
    uint32_t auth_failures;
    /* While the certificate's user is looked up, ... */
    struct list in_settling;
    uint64_t settling_ns; /* ... until this time; 0: not looked up. */
    uint64_t secret;      /* The secret that authenticated it; 0: none. */
    struct bytes name;    /* CLIENT SETNAME; owned. */
    int version;          /* RESP 2 or 3. */
    struct transaction *transaction; /* core/transaction.h; or NULL. */
    struct slot *slots;
    uint32_t slot_capacity; /* A power of two. */
    uint64_t first_slot;    /* The oldest unanswered one. */
    uint64_t next_slot;
    uint64_t blocking_slot; /* Blocks all later ones; UINT64_MAX: none. */
    uint64_t quit_slot;   /* The connection ends after it; UINT64_MAX: none. */
    struct list sessions; /* attachment.in_owner, newest last. */
    uint32_t session_count;
    struct list watches;
    struct watch_payer *watch_payer; /* While it watches. */
    uint32_t watch_count;            /* Watches of all kinds, including ... */
    uint32_t channel_count; /* ... channels and patterns (RESP2's mode). */
    uint32_t glob_count;
    uint64_t last_event; /* The newest event pushed to it. */
    /* Unanswered requests by enum conn_order: how many, and a bit for the hash
     * of each name that they touch. */
    uint32_t open_count[ORDER_COUNT];
    uint64_t open_names[ORDER_COUNT];
    uint64_t held_size; /* Bytes, see core_limits.bytes_per_conn. */
    bool is_blocked;
    /* It gets a push when a wait of its sessions is over. */
    bool hears_answers;
    bool may_back_up; /* A leader has authorized its user for RAFT.BACKUP. */
    bool is_known;    /* It has done something, see core_client_is_fresh(). */
    bool is_closing;  /* This node has closed it; nothing more is written. */
    bool must_leave;  /* A request was refused: this node is drained. */
    bool is_quiet;    /* Its client has not died, so no linger starts. */
};

/* How many connections a user has to this node, if any. */
struct presence {
    UT_hash_handle by_user;
    uint64_t user;
    uint32_t count;
};

/* Lives as long as the core. */
struct conns {
    struct conn *by_id;
    struct conn *found; /* The last one that conn_find() found, or NULL. */
    struct list by_age;
    struct list settling;     /* See core/session/identity.h. */
    uint64_t changes;         /* Changes of rights, see identity_changed(). */
    struct list due;          /* All, the one checked longest ago first. */
    struct presence *present; /* Connections of each user. */
    uint32_t count;
    uint64_t held_size; /* The sum over all connections. */
};

#define SLOT_NONE UINT64_MAX

struct conn *conn_open(struct core *core, uint64_t id, const char *address,
                       const struct identity *identity);
struct conn *conn_find(struct core *core, uint64_t id);
/* Frees it; its requests that are still under way become orphans. */
void conn_free(struct core *core, struct conn *conn);

/* Adds a slot for 'request' at the end of the order. */
uint64_t conn_slot_new(struct conn *conn, struct request *request);
/* The request in 'slot', or NULL if it has been answered. */
struct request *conn_slot_request(struct conn *conn, uint64_t slot);
/* Where to write the reply of 'slot'. */
struct buffer *conn_slot_output(struct core *core, struct conn *conn,
                                uint64_t slot);
/* Sends the reply that was written, and those after it that are ready. */
void conn_slot_done(struct core *core, struct conn *conn, uint64_t slot);

/* Records how 'slot' touches the names in 'names', a bit for the hash of each.
 * False if it must wait for earlier requests; it is parked when they are
 * done. */
bool conn_order_slot(struct core *core, struct conn *conn, uint64_t slot,
                     enum conn_order order, uint64_t names);

/* Blocks what follows 'slot' until it is answered. */
void conn_block(struct core *core, struct conn *conn, uint64_t slot);
void conn_block_update(struct core *core, struct conn *conn);
/* The connection ends once the answer in 'slot' has been sent. */
void conn_quit(struct core *core, struct conn *conn, uint64_t slot);

/* Closes it without an answer; its sessions keep all of their leases. */
void conn_close_quietly(struct core *core, struct conn *conn,
                        const char *reason);

/* Sets the connection's user. */
void conn_set_user(struct core *core, struct conn *conn, uint64_t user);
/* How many connections a user has to this node; 0 for the built-in users, which
 * have no bound. */
uint32_t conn_count_of(const struct core *core, uint64_t user);

void conn_set_name(struct conn *conn, struct bytes name);

/* Counts bytes stored for the connection: an unanswered request, or an answer
 * that waits for earlier ones. */
void conn_hold(struct core *core, struct conn *conn, uint64_t size);
void conn_give_back(struct core *core, struct conn *conn, uint64_t size);
/* True if all connections together hold too many bytes, and this one more than
 * its share. */
bool conn_is_over(const struct core *core, const struct conn *conn);

/* In logins.c. Writes how the connection was authenticated: "none", "socket",
 * "secret:7" or "certificate:" with the beginnings of its fingerprint and of
 * its CA's. */
void login_put(const struct conn *conn, struct buffer *out);

#endif /* HASP_CORE_CONN_H */
