/* SPDX-License-Identifier: MIT */

#include "core/propose.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/memory.h"
#include "core/commands/commands.h"
#include "core/feature.h"
#include "core/questions.h"
#include "core/request.h"
#include "core/state.h"
#include "core/trail.h"
#include "core/update.h"

#define RING_SIZE_FIRST 1024
/* Sessions after which a HEARD takes no further heartbeat: the batch must not
 * be refused because one entry is too big. */
#define HEARD_SESSION_MAX 4096
/* In the ring: an entry of our own, for which nobody waits. */
#define RING_OWN ((struct request *)core)

static void add_item(struct core *core, size_t start, struct request *chain);
static void add_heard(struct core *core);
static void enter(struct core *core, uint64_t first);
static void refused(struct core *core, int error);
static void refuse_level(struct core *core, struct request *request,
                         const char *what);

bool propose_is_open(const struct core *core)
{
    return core->is_serving && !replica_is_transferring(core->replica);
}

struct buffer *propose_begin(struct core *core)
{
    core->propose.item_start = core->propose.batch.size;
    return &core->propose.batch;
}

void propose_end(struct core *core, struct request *request)
{
    const char *what;
    if (request != NULL && (request->command->flags & COMMAND_TRAIL) != 0) {
        trail_append(core, request, &core->propose.batch);
    }
    struct bytes command = bytes_of(
        core->propose.batch.data + core->propose.item_start,
        core->propose.batch.size - core->propose.item_start);
    if (request != NULL && !feature_allows(core, command, &what)) {
        core->propose.batch.size = core->propose.item_start;
        refuse_level(core, request, what);
        return;
    }
    if (request != NULL) {
        request_move(core, request, &core->requests.logged, REQUEST_LOGGED);
        request->next = NULL;
    }
    add_item(core, core->propose.item_start, request);
}

bool propose_own(void *data, struct bytes command)
{
    struct core *core = data;
    if (!propose_is_open(core) ||
        core->propose.own_in_flight >= core->options.limits.own_in_flight) {
        return false;
    }
    const char *what;
    CHECK(feature_allows(core, command, &what));
    buffer_put_bytes(propose_begin(core), command);
    propose_end(core, NULL);
    core->propose.own_in_flight++;
    return true;
}

void propose_heard(struct core *core, uint64_t session)
{
    if (core->propose.hearing_count == core->propose.hearing_capacity) {
        core->propose.hearing_capacity = core->propose.hearing_capacity == 0
                                             ? 64
                                             : 2 * core->propose
                                                       .hearing_capacity;
        core->propose.hearing = memory_resize(
            core->propose.hearing,
            core->propose.hearing_capacity * sizeof *core->propose.hearing);
    }
    core->propose.hearing[core->propose.hearing_count++] = (struct hearing){
        session, NULL};
    timers_hearing(core->timers, session);
}

void propose_after_heard(struct core *core, struct request *request)
{
    CHECK(core->propose.hearing_count > 0);
    request_move(core, request, &core->requests.logged, REQUEST_LOGGED);
    core->propose.hearing[core->propose.hearing_count - 1].request = request;
}

bool propose_has_work(const struct core *core)
{
    return core->propose.item_count > 0 ||
           (core->propose.hearing_count > 0 && core->propose.heard_index == 0);
}

void propose_submit(struct core *core)
{
    uint64_t first;
    struct replica_update update;
    if (core->propose.hearing_count > 0 && core->propose.heard_index == 0) {
        add_heard(core);
    }
    if (core->propose.item_count == 0) {
        return;
    }
    for (uint32_t i = 0; i < core->propose.item_count; i++) {
        core->propose.commands[i] = bytes_of(core->propose.batch.data +
                                                 core->propose.items[i].start,
                                             core->propose.items[i].size);
    }
    int error = replica_submit(core->replica, core->propose.commands,
                               core->propose.item_count,
                               core->now_ns / NS_PER_MS, &first, &update);
    if (error != 0) {
        refused(core, error);
        return;
    }
    enter(core, first);
    core->propose.item_count = 0;
    core->propose.heard_item = 0;
    buffer_clear(&core->propose.batch);
    update_carry_out(core, &update);
}

void propose_abandon(struct core *core)
{
    /* The requests stand in core->requests.logged, and stepping down deals with
     * them: but these were never submitted, so nothing was done. */
    for (uint32_t i = 0; i < core->propose.hearing_count; i++) {
        if (core->propose.hearing[i].request != NULL) {
            request_return(core, core->propose.hearing[i].request);
        }
    }
    core->propose.hearing_count = 0;
    for (uint32_t i = 0; i < core->propose.item_count; i++) {
        struct request *next;
        for (struct request *r = core->propose.items[i].requests; r != NULL;
             r = next) {
            next = r->next;
            request_return(core, r);
        }
    }
    core->propose.item_count = 0;
    core->propose.heard_item = 0;
    buffer_clear(&core->propose.batch);
}

struct request *propose_take(struct core *core, uint64_t log_index)
{
    if (log_index < core->propose.ring_first ||
        log_index >= core->propose.ring_end) {
        return NULL;
    }
    CHECK(log_index == core->propose.ring_first);
    core->propose.ring_first++;
    if (log_index == core->propose.heard_index) {
        core->propose.heard_index = 0;
    }
    struct request
        *chain = core->propose.ring[log_index & (core->propose.ring_size - 1)];
    if (chain == RING_OWN) {
        core->propose.own_in_flight--;
        return NULL;
    }
    return chain;
}

void propose_forget(struct core *core)
{
    core->propose.ring_first = core->propose.ring_end = 0;
    core->propose.heard_index = 0;
    core->propose.own_in_flight = 0;
}

void propose_free(struct core *core)
{
    buffer_done(&core->propose.batch);
    free(core->propose.items);
    free(core->propose.commands);
    free(core->propose.ring);
    free(core->propose.hearing);
}

static void add_item(struct core *core, size_t start, struct request *chain)
{
    if (core->propose.item_count == core->propose.item_capacity) {
        core->propose.item_capacity = core->propose.item_capacity == 0
                                          ? 256
                                          : 2 * core->propose.item_capacity;
        core->propose.items = memory_resize(core->propose.items,
                                            core->propose.item_capacity *
                                                sizeof *core->propose.items);
        core->propose.commands = memory_resize(
            core->propose.commands,
            core->propose.item_capacity * sizeof *core->propose.commands);
    }
    core->propose.items[core->propose.item_count++] = (struct batch_item){
        start, core->propose.batch.size - start, chain};
}

/* Takes whole heartbeats, so that each is looked at when all its sessions have
 * been heard. */
static void add_heard(struct core *core)
{
    struct request *chain = NULL;
    uint32_t count = 0;
    uint64_t *sessions = memory_new(core->propose.hearing_count *
                                    sizeof *sessions);
    while (count < core->propose.hearing_count) {
        struct request *request = core->propose.hearing[count].request;
        sessions[count] = core->propose.hearing[count].session;
        count++;
        if (request != NULL) {
            request->next = chain;
            chain = request;
            if (count >= HEARD_SESSION_MAX) {
                break;
            }
        }
    }
    size_t start = core->propose.batch.size;
    encode_heard(&core->propose.batch, sessions, count);
    free(sessions);
    core->propose.hearing_count -= count;
    memmove(core->propose.hearing, core->propose.hearing + count,
            core->propose.hearing_count * sizeof *core->propose.hearing);
    add_item(core, start, chain);
    core->propose.heard_item = core->propose.item_count;
}

/* Enters the batch into the ring, from index 'first' on. */
static void enter(struct core *core, uint64_t first)
{
    if (core->propose.ring_first == core->propose.ring_end) {
        core->propose.ring_first = core->propose.ring_end = first;
    }
    /* Between two batches there may be an entry that is not ours to answer (a
     * barrier, a change). */
    uint64_t end = first + core->propose.item_count;
    CHECK(first >= core->propose.ring_end);
    if (core->propose.ring_size == 0 ||
        end - core->propose.ring_first > core->propose.ring_size) {
        uint64_t size = core->propose.ring_size == 0 ? RING_SIZE_FIRST
                                                     : core->propose.ring_size;
        while (end - core->propose.ring_first > size) {
            size *= 2;
        }
        struct request **ring = memory_new(size * sizeof *ring);
        for (uint64_t i = core->propose.ring_first; i < core->propose.ring_end;
             i++) {
            ring[i & (size - 1)] = core->propose
                                       .ring[i & (core->propose.ring_size - 1)];
        }
        free(core->propose.ring);
        core->propose.ring = ring;
        core->propose.ring_size = size;
    }
    for (; core->propose.ring_end < first; core->propose.ring_end++) {
        core->propose.ring[core->propose.ring_end &
                           (core->propose.ring_size - 1)] = NULL;
    }
    for (uint32_t i = 0; i < core->propose.item_count;
         i++, core->propose.ring_end++) {
        struct request *chain = core->propose.items[i].requests;
        if (i + 1 == core->propose.heard_item) {
            core->propose.heard_index = core->propose.ring_end;
        }
        core->propose.ring[core->propose.ring_end &
                           (core->propose.ring_size - 1)] = chain != NULL
                                                                ? chain
                                                                : RING_OWN;
        for (struct request *r = chain; r != NULL; r = r->next) {
            r->index = core->propose.ring_end;
            request_mark(r);
        }
    }
}

/* Nothing of the batch was submitted. */
static void refused(struct core *core, int error)
{
    struct request *next;
    for (uint32_t i = 0; i < core->propose.item_count; i++) {
        /* Whoever proposes for us takes it for submitted: what is proposed only
         * while propose_is_open(), within own_in_flight, is never refused.
         */
        CHECK(core->propose.items[i].requests != NULL);
        for (struct request *r = core->propose.items[i].requests; r != NULL;
             r = next) {
            next = r->next;
            if (error == HASP_ENOTLEADER) {
                request_return(core, r);
            } else {
                request_refuse(core, r, "BUSY", "too much is in flight");
            }
        }
    }
    core->propose.item_count = 0;
    core->propose.heard_item = 0;
    buffer_clear(&core->propose.batch);
}

/* Another may lead and have raised the level: that must be known first (rule
 * 13). */
static void refuse_level(struct core *core, struct request *request,
                         const char *what)
{
    if (core->confirmed == request) {
        feature_refuse(core, request, what);
    } else {
        request->is_unwelcome = true;
        question_wait(core, request);
    }
}
