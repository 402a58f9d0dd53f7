/* SPDX-License-Identifier: MIT */

/* One queue for each client of another node that has requests waiting. */

#include "core/forward_queue.h"

#include <stdlib.h>

#include "base/account.h"
#include "base/check.h"
#include "base/memory.h"
#include "core/state.h"

struct forward_origin {
    UT_hash_handle by_conn;
    struct asker_key {
        uint64_t peer;
        uint64_t conn;
    } key;
    struct core *core;
    struct account_claim claim;
    struct list requests; /* Requests, by request.in_asker. */
    struct list closings;
    struct list in_idle;
    uint64_t held_size;
};

/* The end of the connection, as its node reported it. */
struct closing {
    struct list in_asker;
    struct buffer body;
};

static struct account *forward_queue_account_of(const struct core *core)
{
    return core->options.account;
}

void forward_queue_init(struct core *core, forward_queue_decide_fn *decide,
                        forward_queue_closed_fn *closed)
{
    core->forward_queue.decide = decide;
    core->forward_queue.closed = closed;
    list_init(&core->forward_queue.idle);
}

static struct forward_origin *forward_queue_find(const struct core *core,
                                                 uint64_t peer, uint64_t conn)
{
    struct asker_key key = {peer, conn};
    struct forward_origin *asker = NULL;
    HASH_FIND(by_conn, core->forward_queue.by_conn, &key, sizeof key, asker);
    return asker;
}

static void free_asker(struct core *core, struct forward_origin *asker)
{
    CHECK(list_is_empty(&asker->requests) && list_is_empty(&asker->closings));
    CHECK(asker->held_size == 0);
    account_leave(forward_queue_account_of(core), &asker->claim);
    list_remove(&asker->in_idle);
    HASH_DELETE(by_conn, core->forward_queue.by_conn, asker);
    free(asker);
}

static bool forward_queue_is_idle(const struct forward_origin *asker)
{
    return list_is_empty(&asker->requests) && list_is_empty(&asker->closings);
}

static struct closing *take_closing(struct forward_origin *asker)
{
    struct closing *closing = LIST_FIRST(&asker->closings, struct closing,
                                         in_asker);
    if (closing != NULL) {
        list_remove(&closing->in_asker);
    }
    return closing;
}

static void free_closing(struct closing *closing)
{
    buffer_done(&closing->body);
    free(closing);
}

static struct request *take_request(struct core *core,
                                    struct forward_origin *asker)
{
    struct request *request = LIST_FIRST(&asker->requests, struct request,
                                         in_asker);
    if (request != NULL) {
        list_remove(&request->in_asker);
        CHECK(asker->held_size >= request->body.size);
        asker->held_size -= request->body.size;
        core->forward_queue.held_size -= request->body.size;
        request_leave(core, request);
    }
    return request;
}

/* Handles the oldest request, or if there is none, the end of the
 * connection. */
static bool forward_queue_serve(struct account_claim *claim)
{
    struct forward_origin *asker = LIST_ENTRY(claim, struct forward_origin,
                                              claim);
    struct core *core = asker->core;
    struct request *request = take_request(core, asker);
    if (request != NULL) {
        core->forward_queue.decide(core, request);
    } else {
        struct closing *closing = take_closing(asker);
        if (closing != NULL) {
            int error = core->forward_queue.closed(
                core, asker->key.peer, buffer_bytes(&closing->body));
            CHECK(error == 0); /* It was decoded when it was received. */
            free_closing(closing);
        }
    }
    if (!forward_queue_is_idle(asker)) {
        return true;
    }
    /* The account still uses the claim. */
    if (list_is_empty(&asker->in_idle)) {
        list_push_back(&core->forward_queue.idle, &asker->in_idle);
    }
    return false;
}

static struct forward_origin *forward_queue_get(struct core *core,
                                                uint64_t peer, uint64_t conn)
{
    struct forward_origin *asker = forward_queue_find(core, peer, conn);
    if (asker == NULL) {
        asker = memory_new(sizeof *asker);
        asker->key = (struct asker_key){peer, conn};
        asker->core = core;
        list_init(&asker->requests);
        list_init(&asker->closings);
        list_init(&asker->in_idle);
        HASH_ADD(by_conn, core->forward_queue.by_conn, key, sizeof asker->key,
                 asker);
    }
    return asker;
}

bool forward_queue_hold(struct core *core, struct request *request)
{
    struct account *account = forward_queue_account_of(core);
    struct forward_origin *asker = forward_queue_find(core, request->peer,
                                                      request->peer_conn);
    /* A request waits if earlier ones of its connection do, so that none
     * overtakes another. */
    if (account == NULL || ((asker == NULL || forward_queue_is_idle(asker)) &&
                            account_is_open(account))) {
        return false;
    }
    asker = forward_queue_get(core, request->peer, request->peer_conn);
    list_remove(&asker->in_idle);
    request_release_call(core, request);
    request_move(core, request, REQUEST_RESTING);
    list_push_back(&asker->requests, &request->in_asker);
    asker->held_size += request->body.size;
    core->forward_queue.held_size += request->body.size;
    account_join(account, &asker->claim, request->payer, forward_queue_serve);
    account_rest(account, &asker->claim);
    return true;
}

bool forward_queue_hold_closed(struct core *core, uint64_t peer, uint64_t conn,
                               struct bytes body)
{
    struct forward_origin *asker = forward_queue_find(core, peer, conn);
    if (asker == NULL || list_is_empty(&asker->requests)) {
        return false;
    }
    struct closing *closing = memory_new(sizeof *closing);
    buffer_put_bytes(&closing->body, body);
    list_push_back(&asker->closings, &closing->in_asker);
    return true;
}

bool forward_queue_are_over(const struct core *core,
                            const struct request *request)
{
    uint64_t max = core->options.limits.bytes_in_flight;
    const struct forward_origin *asker = forward_queue_find(core, request->peer,
                                                            request->peer_conn);
    return core->forward_queue.held_size >= max && asker != NULL &&
           asker->held_size >
               max / HASH_CNT(by_conn, core->forward_queue.by_conn);
}

void forward_queue_peer_lost(struct core *core, uint64_t peer)
{
    HASH_FOR (struct forward_origin, asker, core->forward_queue.by_conn,
              by_conn) {
        struct request *request;
        struct closing *closing;
        if (asker->key.peer != peer) {
            continue;
        }
        while ((request = take_request(core, asker)) != NULL) {
            request_drop(core, request);
        }
        while ((closing = take_closing(asker)) != NULL) {
            free_closing(closing);
        }
        account_wake(&asker->claim);
        list_remove(&asker->in_idle);
        list_push_back(&core->forward_queue.idle, &asker->in_idle);
    }
}

void forward_queue_turn(struct core *core)
{
    while (!list_is_empty(&core->forward_queue.idle)) {
        free_asker(core, LIST_FIRST(&core->forward_queue.idle,
                                    struct forward_origin, in_idle));
    }
}

void forward_queue_done(struct core *core)
{
    HASH_FOR (struct forward_origin, asker, core->forward_queue.by_conn,
              by_conn) {
        forward_queue_peer_lost(core, asker->key.peer);
    }
    forward_queue_turn(core);
    CHECK(core->forward_queue.by_conn == NULL &&
          core->forward_queue.held_size == 0);
}
