/* SPDX-License-Identifier: MIT */

/* The slow log: where the time of a slow request went.
 *
 * Each request adds up how long it was in each stage. One that took at least
 * core_options.slow_ms without SLOW_WAIT is recorded when it is answered, by
 * the node that answers it: the leader records what it did for another node's
 * client, and that node records the same request with the time as
 * SLOW_FORWARD. The newest SLOW_COUNT_MAX are kept; the memory is allocated
 * with the first one. While slow_ms is 0, a request costs two subtractions at
 * each change of its state. */

#ifndef HASP_CORE_SLOW_LOG_H
#define HASP_CORE_SLOW_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/address.h"
#include "base/bytes.h"
#include "base/log_limit.h"
#include "base/traceparent.h"
#include "core/core.h"

struct command;
struct core;
struct expected;
struct request;
struct resp_writer;

#define SLOW_COUNT_MAX 256
/* Longer names of locks and clients are cut. */
#define SLOW_TEXT_SIZE 128

/* In the order in which a change passes through them.
 *
 *     QUEUE      until it was decided on
 *     FORWARD    until the leader answered
 *     CONFIRM    until leadership was confirmed
 *     PROPOSE    until its entry was in a batch
 *     FLUSH      until the entry was on this node's disk
 *     REPLICATE  until a majority had it, too
 *     APPLY      until its turn to be applied
 *     ANSWER     in the turn that applied or read it
 *     WAIT       in a lock's queue, after an earlier request of its connection,
 *                or until a change of the members or a snapshot is done: the
 *                client has asked for it, so it does not count */
#define SLOW_STAGES(X)        \
    X(QUEUE, "queue")         \
    X(FORWARD, "forward")     \
    X(CONFIRM, "confirm")     \
    X(PROPOSE, "propose")     \
    X(FLUSH, "flush")         \
    X(REPLICATE, "replicate") \
    X(APPLY, "apply")         \
    X(ANSWER, "answer")       \
    X(WAIT, "wait")

enum slow_stage {
#define SLOW_STAGE_OF(NAME, name) SLOW_##NAME,
    SLOW_STAGES(SLOW_STAGE_OF)
#undef SLOW_STAGE_OF
        SLOW_STAGE_COUNT
};

/* How long a request was in each stage so far; in struct request. */
struct slow_clock {
    uint64_t since_ns; /* Up to then its time is in 'spent_ns'. */
    uint64_t spent_ns[SLOW_STAGE_COUNT];
};

struct slow_request {
    uint64_t number; /* From 1 on, since the start of the node. */
    uint64_t wall_ms;
    uint64_t took_ns; /* Without SLOW_WAIT. */
    uint64_t spent_ns[SLOW_STAGE_COUNT];
    uint64_t session;
    uint64_t peer;       /* The node that forwarded it; 0: none. */
    const char *command; /* Static. */
    enum core_word word;
    char lock[SLOW_TEXT_SIZE]; /* Its first name or key; or "". */
    char client[SLOW_TEXT_SIZE];
    char user[65];
    char from[ADDRESS_SIZE];
    char trace[TRACE_TEXT_SIZE]; /* "" if it had none. */
};

/* What request.c knows of a slow request; borrowed. */
struct slow_texts {
    struct bytes lock;
    struct bytes client;
    struct bytes from;
    struct bytes trace; /* As given. */
};

/* Lives as long as the core. */
struct slow_log {
    struct slow_request *ring; /* NULL: none yet. */
    uint64_t count;            /* Since the start of the node. */
    struct log_limit lines;
};

void slow_log_done(struct core *core);
/* The request is about to leave its state: adds its time to a stage. */
void slow_log_leave(const struct core *core, struct request *request);
/* The entry that the requests of a chain wait for is applied in this turn. */
void slow_log_entry(const struct core *core, const struct expected *expected);
/* The leader reports that a forwarded request has waited this long. */
void slow_log_waited(const struct core *core, struct request *request,
                     uint32_t waited_ms);
/* SLOW_WAIT so far, for the node that has forwarded it. */
uint32_t slow_log_wait_ms(const struct request *request);
/* The request is answered. How long that took without SLOW_WAIT, if it has to
 * be recorded; otherwise 0. */
uint64_t slow_log_took_ns(const struct core *core, struct request *request);
/* The argument that names the first lock or key; 0: none. Other arguments can
 * be secrets. */
uint32_t slow_log_name_at(const struct command *command);
/* Records it; its outcome is set. */
void slow_log_add(struct core *core, const struct request *request,
                  const struct slow_texts *texts, uint64_t took_ns);

/* Number 'place' of those that are kept, from 0, the newest; NULL: none. */
const struct slow_request *slow_log_at(const struct core *core, uint64_t place);
/* Writes it as the map that NODE.SLOW answers. */
void slow_log_put(const struct slow_request *slow, struct resp_writer *writer);

#endif /* HASP_CORE_SLOW_LOG_H */
