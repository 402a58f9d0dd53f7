/* SPDX-License-Identifier: MIT */

/* Clients' connections of this node: their reply slots and their blocks.
 *
 * Each request has a slot; answers leave in the order of the slots. The answer
 * of the first one goes straight into the connection's output; others wait in
 * their slot. A connection is blocked (the caller feeds no further request)
 * while a command that may wait has not been answered, or while too many have
 * not. */

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
    struct request *request; /* NULL: its reply stands in 'reply'. */
    struct buffer reply;
    uint8_t order; /* enum conn_order. */
};

/* What a connection sends without waiting for answers has its effect in the
 * order in which it was sent. Changes keep it by themselves, since they stand
 * in one log, and reads change nothing; a read and a change that may touch the
 * same thing wait for each other. A command of Redis is a read until it is
 * found to be a change, so it waits for both, and they for it. */
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
    uint64_t looked_at;  /* conns.changes then. */
    bool is_untold;      /* Something was not pushed, so it has to end. */
    uint64_t id;
    uint64_t opened_ns;
    char *address;
    enum identity_way way;
    bool is_private; /* See core/session/identity.h. */
    char *certified; /* The user's name in its certificate; or NULL. */
    uint8_t fingerprint[FINGERPRINT_SIZE]; /* Of that; zeros: there is none. */
    uint8_t ca[FINGERPRINT_SIZE];          /* Of the CA that has made it. */
    uint64_t user;   /* Who it is: USER_ANYONE until that is known. */
    bool is_surplus; /* He of its certificate has too many already. */
    uint32_t auth_failures;
    struct list in_settling; /* While its certificate's user is sought ... */
    uint64_t settling_ns;    /* ... until then; 0: he is not. */
    uint64_t secret;   /* The number of the secret that has told; 0: none. */
    struct bytes name; /* CLIENT SETNAME; owned. */
    int version;       /* RESP 2 or 3. */
    struct transaction *transaction; /* core/transaction.h; or NULL. */
    struct slot *slots;
    uint32_t slot_capacity; /* A power of two. */
    uint64_t first_slot;    /* The oldest that is not answered. */
    uint64_t next_slot;
    uint64_t blocking_slot; /* Holds back what follows it; UINT64_MAX: none. */
    uint64_t quit_slot;     /* Its answer is the last; UINT64_MAX: none. */
    struct list sessions;   /* Of attachment.in_owner, newest last. */
    uint32_t session_count;
    struct list watches;
    struct watch_payer *watch_payer; /* While it watches. */
    uint32_t watch_count;   /* Of all kinds; channels and patterns as well in */
    uint32_t channel_count; /* ... this one (the mode of RESP2). */
    uint32_t glob_count;
    uint64_t last_event; /* The newest that was pushed to it. */
    /* Of those that are not answered, by enum conn_order: how many, and a bit
     * for the hash of each name that they touch. */
    uint32_t open_count[ORDER_COUNT];
    uint64_t open_names[ORDER_COUNT];
    uint64_t held_size; /* Bytes, see core_limits.bytes_per_conn. */
    bool is_blocked;
    bool hears_answers; /* It is told when a wait of its sessions is over. */
    bool may_back_up; /* A leader has said that who it is may (RAFT.BACKUP). */
    bool is_known;   /* It has done something, see core_client_is_stranger(). */
    bool is_closing; /* We have closed it; nothing more is written. */
    bool is_quiet;   /* And its client has not died: no linger begins. */
};

/* The connections of a user to this node, while he has any. */
struct presence {
    UT_hash_handle by_user;
    uint64_t user;
    uint32_t count;
};

/* Lives as long as the core. */
struct conns {
    struct conn *by_id;
    struct list by_age;
    struct list settling; /* See core/session/identity.h. */
    uint64_t changes;     /* Of rights, see identity_changed(). */
    struct list due; /* All, first who has not been looked at for longest. */
    struct presence *present; /* How many each user has here. */
    uint32_t count;
    uint64_t held_size; /* Of all of them. */
};

#define SLOT_NONE UINT64_MAX

struct conn *conn_open(struct core *core, uint64_t id, const char *address,
                       const struct identity *identity);
struct conn *conn_find(struct core *core, uint64_t id);
/* Forgets it; its requests that still run lose their asker. */
void conn_free(struct core *core, struct conn *conn);

/* A new place at the end of the order, for 'request'. */
uint64_t conn_slot_new(struct conn *conn, struct request *request);
/* The request that stands in 'slot', or NULL if it has been answered. */
struct request *conn_slot_request(struct conn *conn, uint64_t slot);
/* Where the reply of 'slot' is to be written. */
struct buffer *conn_slot_output(struct core *core, struct conn *conn,
                                uint64_t slot);
/* The reply has been written: sends it and those behind it that are ready. */
void conn_slot_done(struct core *core, struct conn *conn, uint64_t slot);

/* Notes what 'slot' does to what is hashed into 'names'. False if it must wait
 * for those before it: it is then parked when they are done. */
bool conn_order_slot(struct core *core, struct conn *conn, uint64_t slot,
                     enum conn_order order, uint64_t names);

/* Holds back what follows 'slot' until it is done. */
void conn_block(struct core *core, struct conn *conn, uint64_t slot);
void conn_block_update(struct core *core, struct conn *conn);
/* The answer in 'slot' is the last: once it has gone the connection ends. */
void conn_quit(struct core *core, struct conn *conn, uint64_t slot);

/* Closes it without an answer; its sessions live on for all of their leases. */
void conn_close_quietly(struct core *core, struct conn *conn,
                        const char *reason);

/* It is that user's from now on. */
void conn_set_user(struct core *core, struct conn *conn, uint64_t user);
/* How many connections a user has here; of those that are built in 0, as they
 * have no bound. */
uint32_t conn_count_of(const struct core *core, uint64_t user);

void conn_set_name(struct conn *conn, struct bytes name);

/* Bytes that are kept for it: a request without an answer, an answer that waits
 * for earlier ones. */
void conn_hold(struct core *core, struct conn *conn, uint64_t size);
void conn_give_back(struct core *core, struct conn *conn, uint64_t size);
/* All connections hold too much, and this one more than its share. */
bool conn_is_over(const struct core *core, const struct conn *conn);

/* In logins.c: "none", "socket", "secret:7" or "certificate:", the beginning of
 * its fingerprint, and that of its CA. */
void login_put(const struct conn *conn, struct buffer *out);

#endif /* HASP_CORE_CONN_H */
