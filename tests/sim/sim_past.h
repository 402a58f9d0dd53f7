/* SPDX-License-Identifier: MIT */

/* The records of the history: sim_history.c writes them, sim_past.c reads them.
 * Entries are identified by their places (sim_check.h). */

#ifndef HASP_TESTS_SIM_SIM_PAST_H
#define HASP_TESTS_SIM_SIM_PAST_H

#include "base/bytes.h"
#include "base/hash.h"
#include "base/list.h"
#include "tests/sim/sim_full.h"
#include "tests/sim/sim_history.h"

#define NEVER UINT64_MAX

struct past_grant {
    struct list in_lock;
    struct bytes owner; /* Owned. */
    uint64_t session;
    uint64_t token;
    uint64_t from; /* Entry that granted it. */
    uint64_t to;   /* Entry that ended it; NEVER. */
    uint32_t told; /* Number of reports to a program. */
    bool is_exclusive;
    /* The reason, if an operator has ended it while its holder believed in it;
     * NULL. */
    const char *taken;
};

struct past_wait {
    struct list in_lock;
    struct bytes owner; /* Owned. */
    uint64_t session;
    uint64_t wait_index;
    bool is_upgrade;
    bool is_shared;
    bool is_slots;
    bool is_several; /* It may wait because of another lock. */
    bool is_granted; /* Granted by the entry that is being recorded. */
};

struct past_lock {
    UT_hash_handle hh;
    struct list grants; /* In the order of entries, ended ones too. */
    struct list waits;
    uint64_t last_token;
    size_t name_size;
    uint8_t name[];
};

struct past_session {
    UT_hash_handle hh;
    uint64_t id;
    uint64_t opened_ns; /* True time. */
    uint64_t ended_index;
    bool is_dropped;       /* Ended by a restore. */
    bool is_blacklisted;   /* Blacklisting ended it. */
    uint64_t beat_sent_ns; /* True time; 0: none was answered. */
    uint64_t renewed_ns;   /* True time; 0: no entry has renewed it. */
    uint64_t ttl_ms;       /* 0: it is durable. */
    uint64_t linger_ms;
    uint64_t acked;     /* All numbers up to here, and ... */
    struct buffer also; /* ... pairs of from and to. */
};

struct past_request {
    UT_hash_handle hh;
    struct past_result result;
    uint64_t wait_index; /* It waits there; 0: answered. */
    size_t key_size;
    uint8_t key[];
};

struct sim_history {
    struct sim_uses uses;
    struct sim *sim;
    struct past_lock *locks;
    struct past_session *sessions;
    struct past_request *requests;
    struct sim_promises *promises;
    struct sim_pushes *pushes;
    struct sim_rights *rights;
    struct sim_silence *silence;
    struct buffer key;
};

/* True if a request has set the time of a Redis value: its session has a lease
 * of time_ms from now on, or none if that is 0. */
bool past_is_renewal(const struct effect *effect);
/* True if the session holds the lock of that name. */
bool past_holds(const struct sim_history *history, struct bytes name,
                uint64_t session);

/* NULL: there is none. */
struct past_lock *past_find_lock(const struct sim_history *history,
                                 struct bytes name);
struct past_session *past_find_session(const struct sim_history *history,
                                       uint64_t id);
struct past_request *past_find_request(struct sim_history *history,
                                       uint64_t session, uint64_t req);
/* Key of a request; valid until the next one. */
struct bytes past_key(struct sim_history *history, uint64_t session,
                      uint64_t req);

#endif /* HASP_TESTS_SIM_SIM_PAST_H */
