/* SPDX-License-Identifier: MIT */

/* The one place that proposes: gathers the commands of a turn into one batch
 * and remembers who waits for which entry.
 *
 *     struct buffer *out = propose_begin(core);
 *     encode_...(out, ...);
 *     propose_end(core, request);
 */

#ifndef HASP_CORE_PROPOSE_H
#define HASP_CORE_PROPOSE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"

struct core;
struct request;

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

/* An entry in the ring, and who waits for it. */
struct expected {
    struct request *requests; /* A chain by 'next'; NULL: nobody. */
    bool is_own;              /* An entry of our own. */
    uint64_t proposed_ns;     /* 0: it was not proposed here. */
};

/* The batch of this turn, and who waits for which entry. Of a leader. */
struct propose {
    struct buffer batch;
    struct batch_item *items;
    struct bytes *commands; /* For the replica; as many as items. */
    uint32_t item_count;
    uint32_t item_capacity;
    size_t item_start;
    uint32_t own_in_flight;  /* Entries of our own. */
    struct expected *ring;   /* By log index. */
    uint64_t ring_size;      /* A power of two. */
    uint64_t ring_first;     /* Indexes from here on ... */
    uint64_t ring_end;       /* ... to before here are in it, ... */
    uint64_t ring_committed; /* ... of which a majority has those before. */
    struct hearing *hearing; /* For the next HEARD. */
    uint32_t hearing_count;
    uint32_t hearing_capacity;
    uint64_t heard_index; /* The HEARD under way; 0: none. */
    uint32_t heard_item;  /* It stands in the batch, at this place + 1. */
};

/* True if a submission now would be taken: leading, begun, no transfer. */
bool propose_is_open(const struct core *core);

struct buffer *propose_begin(struct core *core);
/* 'request' is answered by the entry's result; NULL: an entry of our own. */
void propose_end(struct core *core, struct request *request);
/* A command that is encoded already, of our own; timers_propose_fn. */
bool propose_own(void *core, struct bytes command);
/* A HEARD of 'session', in the next such entry; 'request' is looked at again
 * when the HEARDs that were asked for before it have been applied. At most one
 * such entry is under way: what comes meanwhile shares the next one. */
void propose_heard(struct core *core, uint64_t session);
void propose_after_heard(struct core *core, struct request *request);
/* True if there is something that propose_submit() would submit now. */
bool propose_has_work(const struct core *core);

/* Submits what was gathered. */
void propose_submit(struct core *core);
/* Notes how long what is committed by now took to get there. */
void propose_replicated(struct core *core);
/* Takes those that wait for the entry 'log_index': a chain by 'next'. */
struct request *propose_take(struct core *core, uint64_t log_index);

/* The end of a reign: what was gathered and not submitted goes back, or
 * elsewhere. Those that wait for an entry are left in requests.logged. */
void propose_abandon(struct core *core);
void propose_done(struct propose *propose);

#endif /* HASP_CORE_PROPOSE_H */
