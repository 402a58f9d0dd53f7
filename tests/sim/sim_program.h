/* SPDX-License-Identifier: MIT */

/* A program that uses the client library: its session is the library's own
 * machine (client/session_fsm.h), on a line (sim_line.h) that it shares with
 * other programs of its process, or on its own line; each session draws which.
 *
 * The program has callers, each a thread of control that makes one call at a
 * time (sim_caller.c). The program believes what the machine says; sim_told.c
 * checks what the machine reports against the history. */

#ifndef HASP_TESTS_SIM_SIM_PROGRAM_H
#define HASP_TESTS_SIM_SIM_PROGRAM_H

#include "client/session_fsm.h"
#include "lockfsm/model.h"
#include "tests/sim/sim_belief.h"
#include "tests/sim/sim_hoard.h"
#include "tests/sim/sim_line.h"
#include "tests/sim/sim_worker.h"

#define CALLER_COUNT_MAX 4

enum call_kind {
    CALL_NONE,
    CALL_ACQUIRE, /* One lock, or two at once. */
    CALL_RELEASE,
    CALL_CONVERT, /* To exclusive or to shared. */
    CALL_CHECK,
    CALL_ADMIT,
    CALL_PLEASE,
    CALL_NOTE,
    /* For an own hold: */
    CALL_TAKE, /* RELEASEIF */
    CALL_BREAK,
    CALL_BLACKLIST
};

/* A hold that a caller has. */
struct sim_hold {
    struct hasp_hold *hold; /* The machine's; NULL: none. */
    char tag[OWNER_TAG_SIZE];
    uint32_t lock[2];
    uint32_t count;
    enum hasp_mode mode[2];
    bool has_limit;
};

/* What its own name has encountered at a lock, see sim_pairs.h. */
struct pair_life {
    uint32_t met;     /* By enum pair_option. */
    uint32_t objects; /* Objects that have made requests. */
    uint64_t idle_since_ns;
};

struct sim_caller {
    struct sim_program *program;
    uint32_t number;
    char tag[TAG_SIZE]; /* Its own name, if it has one as an owner. */
    struct client_call call;
    enum call_kind kind; /* NONE: no call in progress. */
    bool is_told;
    bool is_interrupted;
    struct hasp_acquire_options options;
    uint32_t lock[2];
    uint32_t count;
    char value[24];
    uint64_t token; /* CHECK, ADMIT. */
    uint64_t floor; /* ADMIT: the highest known to be admitted before. */
    uint64_t number_of_call; /* Its REQ; 0: it has none. */
    uint64_t newest;         /* The newest entry when it began. */
    uint64_t since_ns;
    bool was_believed;     /* RELEASE, CONVERT of a certain hold. */
    struct sim_hold *held; /* CONVERT. */
    struct sim_hold hold[HOLD_MAX];
    uint64_t last_token[LOCK_COUNT_MAX];
    uint64_t think_until_ns;
    bool is_own;         /* The call is about a hold of its own name. */
    bool was_cancelled;  /* So was its last call, for its own name. */
    bool is_pushed;      /* A push has reported the end of the call's wait. */
    uint32_t connection; /* The asker's at its begin; 0: none. */
    struct pair_life life[LOCK_COUNT_MAX];
};

struct sim_program {
    struct sim_client *client;
    struct sim *sim;
    enum { PROGRAM_REST, PROGRAM_OPENING, PROGRAM_OPEN, PROGRAM_CLOSING } state;
    struct session_fsm machine; /* Unless at rest. */
    void (*push)(void *data, const struct resp_reply *reply); /* Its own. */
    struct client_call call;
    bool is_told; /* For OPENING, CLOSING. */
    bool is_lost; /* The event has come. */
    uint64_t rest_until_ns;
    uint64_t hour_ns;      /* When it closes its session by itself. */
    uint64_t session;      /* 0: none. */
    struct sim_line *line; /* Unless at rest: 'own', or the client's. */
    struct sim_line own;
    bool is_done;             /* It is at rest for good. */
    char word[40];            /* Its session's death word, or "". */
    bool is_durable;          /* Its session has no end, ... */
    bool has_linger;          /* ... or lingers. */
    struct lease before;      /* Its lease, before the present turn. */
    struct lease_clock kept;  /* Sending of the newest answered heartbeat. */
    struct lease_clock asked; /* Sending of the newest heartbeat ... */
    uint64_t asked_newest;    /* ... and the newest entry then, ... */
    uint64_t asked_applied;   /* ... and what the node had applied. */
    uint64_t told_newest; /* 'asked_newest' of the newest answered heartbeat. */
    struct sim_caller caller[CALLER_COUNT_MAX];
    uint32_t caller_count;
    struct sim_hoard hoard;
};

/* Freed with free(), once it is dead. */
struct sim_program *sim_program_new(struct sim_client *client);
/* The process is new. */
void sim_program_start(struct sim_program *program);
/* It is dead; the kernel handles its connections. */
void sim_program_die(struct sim_program *program);
/* Its line sends to that host what its machine has written. */
void sim_program_sends(struct sim_program *program, uint32_t host);
/* Takes the events of its machine. */
void sim_program_take_events(struct sim_program *program);
void sim_program_work(struct sim_program *program);
/* When it next has work, in true time. */
uint64_t sim_program_next(struct sim_program *program);
/* At this moment the machine says that locks of its session are held. */
bool sim_program_trusts(struct sim_program *program);
/* It says so of that hold. */
bool sim_program_believes(struct sim_program *program,
                          const struct hasp_hold *hold);
/* It has been informed of all holds that ended without it up to that entry. */
bool sim_program_has_heard(const struct sim_program *program, uint64_t index);
void sim_program_beliefs(struct sim_program *program, sim_belief_fn *each,
                         void *data);

/* sim_caller.c */
void sim_caller_reset(struct sim_caller *caller, struct sim_program *program,
                      uint32_t number);
/* Takes the results, begins the next call. */
void sim_caller_work(struct sim_caller *caller);
uint64_t sim_caller_next(const struct sim_caller *caller);
bool sim_caller_is_idle(const struct sim_caller *caller);
/* An object of its own name stands for that lock. */
bool sim_caller_has(const struct sim_caller *caller, uint32_t lock);
/* A push reports the end of a wait of that owner. */
void sim_caller_pushed(struct sim_caller *caller, struct bytes owner);
/* The machine says that a hold with that token is over. */
void sim_caller_lost(struct sim_caller *caller, const struct hasp_event *event);

/* sim_told.c: what programs learn, checked against the history. */
/* The call that has ended; before the caller uses its result. */
void sim_told_call(struct sim_caller *caller);
void sim_told_event(struct sim_program *program,
                    const struct hasp_event *event);
/* After each turn: heartbeats that were answered, and a session that was
 * considered lost although its lease, as it was 'before', had not run out. */
void sim_told_lease(struct sim_program *program, const struct lease *before);
/* Everything was released, and nothing is in progress: the log agrees. */
void sim_told_rest(struct sim_program *program);

#endif /* HASP_TESTS_SIM_SIM_PROGRAM_H */
