/* SPDX-License-Identifier: MIT */

/* The only module that proposes. It collects the entries of a turn into one
 * batch and records which request waits for which entry.
 *
 *     propose_<name>(core, request, &(struct <name>_command){...});
 *
 * for each entry of lockfsm/entry.def. The entry is checked as a structure
 * (rights, size, feature level) and encoded once, if nothing refuses it. */

#ifndef HASP_CORE_PROPOSE_H
#define HASP_CORE_PROPOSE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "lockfsm/entry.h"

struct core;
struct request;

/* A session whose heartbeat must be logged. The last session of a heartbeat has
 * the request, which is decided on again when that is done. */
struct hearing {
    uint64_t session;
    struct request *request; /* Or NULL. */
};

struct batch_item {
    size_t start;
    size_t size;
    struct request *requests; /* NULL: an entry of this node. */
};

/* An entry in the ring, and the requests that wait for it. */
struct expected {
    struct request *requests; /* Chained by 'next'; NULL: none. */
    bool is_own;              /* An entry of this node. */
    uint64_t proposed_ns;     /* 0: not proposed here. */
    /* When it was on this node's disk, and when a majority had it; 0: not yet,
     * or not recorded because core_options.slow_ms is 0. */
    uint64_t flushed_ns;
    uint64_t committed_ns;
};

/* A leader's batch for this turn, and which request waits for which entry. */
struct propose {
    struct buffer batch;
    struct batch_item *items;
    struct bytes *commands; /* For the replica; as many as 'items'. */
    uint32_t item_count;
    uint32_t item_capacity;
    uint32_t own_in_flight;  /* This node's own entries. */
    struct expected *ring;   /* Indexed by log index. */
    uint64_t ring_size;      /* A power of two. */
    uint64_t ring_first;     /* The ring has the indexes from here ... */
    uint64_t ring_end;       /* ... to before here, ... */
    uint64_t ring_committed; /* ... and a majority has those before this one. */
    uint64_t ring_flushed;   /* Those before this one are on this disk. */
    struct hearing *hearing; /* Sessions for the next HEARD. */
    uint32_t hearing_count;
    uint32_t hearing_capacity;
    uint64_t heard_index; /* Of the HEARD in flight; 0: none. */
    /* The HEARD's place in the batch, plus 1; 0: it is not in it. */
    uint32_t heard_item;
};

/* The most entries of a leader that are not committed: those of clients, those
 * of this node, BEGIN, HEARD and a change. */
uint32_t propose_in_flight_max(const struct core *core);
/* True if a submission would be accepted now: this node leads, has begun, and
 * no transfer is in progress. */
bool propose_is_open(const struct core *core);

/* Proposes the entry of a request, whose result answers it; signs the entry
 * with the request's user. If the entry is refused, so is the request, or it
 * waits until this leader is confirmed. What the entry points at is borrowed
 * for the call. */
void propose_entry(struct core *core, struct request *request,
                   struct entry entry);
#define ENTRY(number, NAME, name, ...)                                \
    static inline void propose_##name(struct core *core,              \
                                      struct request *request,        \
                                      const struct name##_command *c) \
    {                                                                 \
        propose_entry(core, request, entry_of_##name(c));             \
    }
#include "lockfsm/entry.def"

/* Proposes an entry of this node; a timers_propose_fn. */
bool propose_own(void *core, const struct entry *entry);
/* Adds 'session' to the next HEARD. 'request' is decided on again when all
 * HEARDs requested before it have been applied. At most one HEARD is in flight;
 * heartbeats that arrive meanwhile share the next one. */
void propose_hearing(struct core *core, uint64_t session);
void propose_after_heard(struct core *core, struct request *request);
/* True if propose_submit() would submit something now. */
bool propose_has_work(const struct core *core);

/* Submits the batch. */
void propose_submit(struct core *core);
/* The entries up to 'log_index' are on this node's disk. */
void propose_flushed(struct core *core, uint64_t log_index);
/* Measures how long the entries committed since took to reach a majority. */
void propose_replicated(struct core *core);
/* Removes and returns the requests that wait for the entry 'log_index', chained
 * by 'next'. */
struct request *propose_take(struct core *core, uint64_t log_index);

/* Ends a leadership: requests collected but not submitted are returned or sent
 * elsewhere. Those that wait for an entry stay in requests.logged. */
void propose_abandon(struct core *core);
void propose_done(struct propose *propose);

#endif /* HASP_CORE_PROPOSE_H */
