/* SPDX-License-Identifier: MIT */

/* The parts of a client; and the workers of a rogue, owners that acquire, hold
 * and release, with the oracles on the answers that they get. Each has a
 * connection and one request at a time. A rogue believes in a hold from the
 * answer until its RELEASE is sent, as long as its lease is held by its own
 * clock. */

#ifndef HASP_TESTS_SIM_SIM_WORKER_H
#define HASP_TESTS_SIM_SIM_WORKER_H

#include "lockfsm/limits.h"
#include "lockfsm/model.h"
#include "tests/sim/sim_belief.h"
#include "tests/sim/sim_channel.h"
#include "tests/sim/sim_client.h"
#include "tests/sim/sim_crowd.h"
#include "tests/sim/sim_drawn.h"
#include "tests/sim/sim_durable.h"
#include "tests/sim/sim_keeper.h"
#include "tests/sim/sim_line.h"
#include "tests/sim/sim_lister.h"
#include "tests/sim/sim_redis.h"
#include "tests/sim/sim_replace.h"
#include "tests/sim/sim_saver.h"
#include "tests/sim/sim_watcher.h"
#include "tests/sim/sim_witness.h"

#define WORKER_COUNT 2
#define PROGRAM_COUNT_MAX 3
#define HOLD_MAX 3
#define LOCK_COUNT_MAX 8
#define SLOT_COUNT 2
#define TAG_SIZE 24

enum ask_kind {
    ASK_NONE,
    ASK_ACQUIRE,
    ASK_RELEASE,
    ASK_CANCEL, /* The other worker's wait. */
    ASK_SHOW,
    ASK_NOTE,
    ASK_ADMIN
};

enum admin_kind {
    ADMIN_TRANSFER,
    ADMIN_SNAPSHOT,
    ADMIN_BLACKLIST_SESSION,
    ADMIN_BLACKLIST_CLIENT,
    ADMIN_PARDON_CLIENT,
    ADMIN_PLEASE,
    ADMIN_LIMIT, /* 'id' is its key, 'token' the new value. */
    ADMIN_FINALIZE,
    ADMIN_TRIAL,     /* A new feature; 'id' 1: a field, else an entry. */
    ADMIN_RELEASEIF, /* A hold of a dead client. */
    ADMIN_ADD,
    ADMIN_REMOVE,
    ADMIN_DEMOTE,
    ADMIN_PROMOTE,
    ADMIN_UPDATE /* 'host' and its port 'token', see sim_move.h. */
};

enum op_wait { WAIT_NOT, WAIT_SOME, WAIT_EVER };

struct op {
    enum ask_kind kind;
    uint32_t lock;
    enum admin_kind admin;
    uint64_t id;    /* ADMIN: a session, client or member. */
    uint32_t host;  /* ADMIN_ADD: its host. */
    bool is_forced; /* ADMIN: a member is removed, even if others are silent. */
    uint32_t owner; /* The worker that it acts for, and its tag. */
    char tag[TAG_SIZE];
    uint64_t req;       /* 0: without a number. */
    uint64_t acked;     /* All numbers up to here are over, and ... */
    uint64_t also_from; /* ... these, if not 0. */
    uint64_t also_to;
    enum lock_mode mode;
    enum op_wait wait;
    uint64_t wait_ms;
    uint64_t hold_ms;
    uint64_t delay_ms;
    bool is_barging;
    uint64_t value; /* ACQUIRE without a number: its own; 0. */
    uint64_t token;
    bool was_sent;
    bool is_asked;     /* Sent, not yet answered. */
    bool is_uncertain; /* An earlier try may have taken effect. */
    bool was_believed; /* RELEASE of a certain hold. */
    uint64_t newest;   /* The newest entry when it was first sent. */
    uint64_t since_ns;
    struct lease_clock sent; /* When it was first sent. */
};

/* A hold that the client was granted. */
struct rogue_hold {
    bool is_there;
    bool is_over; /* RELEASE has been sent: the belief is over. */
    uint32_t lock;
    enum lock_mode mode;
    uint64_t token;
    uint64_t count;
    uint64_t hold_ms;
    struct lease_clock sent;
};

struct worker {
    struct sim_client *client;
    uint32_t number;
    char tag[TAG_SIZE]; /* The owner's: "a", "b". */
    struct sim_channel channel;
    struct op op;
    struct rogue_hold held[HOLD_MAX];
    uint64_t think_until_ns;
    uint64_t last_token[LOCK_COUNT_MAX];
    /* + 1: the outcome is unknown; to be cancelled and given back. */
    uint32_t dirty_lock;
    bool has_cancelled;
    bool has_lost; /* A request without a number, in this session. */
};

struct sim_program;

struct sim_client {
    struct sim *sim;
    struct sim_host host;
    uint64_t process;    /* Counts its starts. */
    uint32_t word_count; /* Death words that it has made. */
    uint64_t session;    /* The rogue's; 0: none. */
    struct sim_program *program[PROGRAM_COUNT_MAX]; /* Unless it is a rogue. */
    uint32_t program_count;
    struct sim_line line; /* For programs that share one. */
    bool is_rogue;
    bool is_draining;
    bool is_done;           /* The rogue is. */
    struct sim_redis redis; /* Its Redis client, on a separate connection. */
    struct sim_watcher watcher;   /* Its watcher, likewise. */
    struct sim_lister lister;     /* Its reader, likewise. */
    struct sim_witness witness;   /* Its witness, likewise. */
    struct sim_saver saver;       /* Its saver, likewise. */
    struct sim_replacer replacer; /* Its replacer, likewise. */
    struct sim_crowd crowd;       /* Its crowd, likewise. */
    struct sim_drawn drawn;       /* Its drawn requests, likewise. */
    struct sim_durable durable;   /* Likewise; outlives the process. */
    struct sim_keeper keeper;     /* In the first client, if there are users. */
    struct sim_identity who;      /* The identity that its connections show. */
    uint32_t lock_count;
    uint64_t progress;
    bool is_suspended;
    uint64_t asleep_ns;       /* Sum of its suspensions, by its own clock. */
    uint64_t suspended_at_ns; /* Its clock when it fell asleep. */

    /* The rogue's. */
    bool makes_secret; /* And shows its hash; else the leader makes it. */
    char secret[40];
    char word[40]; /* Its session's death word, if it has no linger. */
    uint64_t ttl_ms;
    uint64_t linger_ms;
    struct lease lease;
    uint64_t next_req;
    bool is_closing; /* CLOSE has been sent: the belief is over. */
    struct sim_channel beat;
    enum {
        BEAT_NONE,
        BEAT_OPEN,
        BEAT_KEEP,
        BEAT_ATTACH,
        BEAT_CLOSE
    } beat_asked;
    struct worker worker[WORKER_COUNT];
};

struct lease_clock sim_client_clock(const struct sim_client *client);

/* sim_rogue.c: a rogue's session and heartbeats. */
void sim_rogue_start(struct sim_client *client);
void sim_rogue_die(struct sim_client *client);
void sim_rogue_reconnect(struct sim_client *client);
bool sim_rogue_feed(struct sim_client *client, const struct sim_news *news);
void sim_rogue_work(struct sim_client *client);
uint64_t sim_rogue_next(const struct sim_client *client);
/* The lease is held at this moment, and the process exists to trust it. */
bool sim_rogue_trusts(const struct sim_client *client);
void sim_rogue_beliefs(const struct sim_client *client, sim_belief_fn *each,
                       void *data);
/* PROOF of a secret, two arguments. */
void sim_rogue_put_proof(struct sim_channel *channel, const char *secret);
/* The session is gone, as an answer said. */
void sim_rogue_lose(struct sim_client *client, const char *why);

void sim_worker_init(struct worker *worker, struct sim_client *client,
                     uint32_t number);
void sim_worker_done(struct worker *worker);
/* A new session: nothing is held, numbers start again. */
void sim_worker_reset(struct worker *worker);
/* Does what is to be done now. */
void sim_worker_work(struct worker *worker);
/* When it next has work, in true time. */
uint64_t sim_worker_next(const struct worker *worker);
bool sim_worker_is_idle(const struct worker *worker);
/* The locks by number, and how they are used. */
const char *sim_lock_name(uint32_t lock);
struct bytes sim_lock_bytes(uint32_t lock);
bool sim_lock_is_shared(uint32_t lock);
bool sim_lock_is_slots(uint32_t lock);

struct rogue_hold *sim_held_find(struct worker *worker, uint32_t lock);
uint32_t sim_held_count(const struct worker *worker);
bool sim_held_believed(const struct worker *worker,
                       const struct rogue_hold *held);
void sim_worker_beliefs(const struct worker *worker, sim_belief_fn *each,
                        void *data);

struct replica_members;

/* sim_admin.c: what an operator does occasionally. */
/* Prepares a node to be added: it then has an empty directory, and these
 * members in its configuration. False if it must not be added, or not yet. */
struct sim_node *sim_admin_prepare(struct sim *sim, uint64_t id,
                                   const struct replica_members *members);
bool sim_admin_choose(struct worker *worker, struct op *op);
void sim_admin_put(struct sim_channel *channel, const struct op *op);
void sim_admin_take(struct sim *sim, const struct op *op,
                    const struct resp_value *value);

/* sim_ask.c: chooses what to do next, and sends it (again). */
void sim_ask_choose(struct worker *worker);
void sim_ask(struct worker *worker);
void sim_ask_attach(struct worker *worker);

/* sim_answer.c: handles the reply that has arrived, or the end of the wait for
 * it. */
void sim_answer_take(struct worker *worker);
void sim_answer_never_comes(struct worker *worker);

#endif /* HASP_TESTS_SIM_SIM_WORKER_H */
