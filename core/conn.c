/* SPDX-License-Identifier: MIT */

/* Reply slots, their order, and when a connection is not read. */

#include "core/conn.h"

#include <stdlib.h>

#include "base/check.h"
#include "base/memory.h"
#include "core/state.h"
#include "core/transaction.h"

#define SLOT_COUNT_FIRST 4
/* An idle connection keeps at most this many slots, and a slot no larger
 * buffer, because there may be very many of them. */
#define SLOT_COUNT_IDLE 64

struct conn *conn_open(struct core *core, uint64_t id, const char *address,
                       const struct identity *identity)
{
    struct conn *conn = memory_new(sizeof *conn);
    conn->id = id;
    conn->address = memory_text(address);
    conn->stranger = in_flight_stranger(bytes_of_text(address));
    conn->opened_ns = core->now_ns;
    conn->way = identity->way;
    conn->is_private = identity->is_private;
    conn->certified = identity->way == IDENTITY_CERTIFICATE
                          ? memory_text(identity->user)
                          : NULL;
    if (identity->fingerprint != NULL) {
        memcpy(conn->fingerprint, identity->fingerprint, FINGERPRINT_SIZE);
    }
    if (identity->ca != NULL) {
        memcpy(conn->ca, identity->ca, FINGERPRINT_SIZE);
    }
    /* A certificate's user is looked up afterwards, by identity_opened(). */
    conn->user = identity->way == IDENTITY_LOCAL ? USER_LOCAL : USER_ANYONE;
    conn->version = 2;
    conn->blocking_slot = SLOT_NONE;
    conn->quit_slot = SLOT_NONE;
    list_init(&conn->sessions);
    list_init(&conn->watches);
    HASH_ADD(by_id, core->conns.by_id, id, sizeof conn->id, conn);
    list_push_back(&core->conns.by_age, &conn->in_core);
    list_push_back(&core->conns.due, &conn->in_due);
    conn->looked_at = core->conns.changes;
    core->conns.count++;
    list_init(&conn->in_settling);
    return conn;
}

struct conn *conn_find(struct core *core, uint64_t id)
{
    struct conn *conn = core->conns.found;
    /* Requests of a connection, and answers to it, come in rows. */
    if (conn == NULL || conn->id != id) {
        HASH_FIND(by_id, core->conns.by_id, &id, sizeof id, conn);
        core->conns.found = conn;
    }
    return conn;
}

static struct slot *slot_at(struct conn *conn, uint64_t slot)
{
    /* A connection without slots has no mask. */
    CHECK(conn->slot_capacity > 0);
    return &conn->slots[slot & (conn->slot_capacity - 1)];
}

static void free_slots(struct conn *conn)
{
    for (uint32_t i = 0; i < conn->slot_capacity; i++) {
        buffer_done(&conn->slots[i].reply);
    }
    free(conn->slots);
    conn->slots = NULL;
    conn->slot_capacity = 0;
}

static struct presence *find_presence(const struct core *core, uint64_t user)
{
    struct presence *presence = NULL;
    HASH_FIND(by_user, core->conns.present, &user, sizeof user, presence);
    return presence;
}

uint32_t conn_count_of(const struct core *core, uint64_t user)
{
    const struct presence *presence = find_presence(core, user);
    return presence != NULL ? presence->count : 0;
}

static void conn_leave(struct core *core, uint64_t user)
{
    struct presence *presence = find_presence(core, user);
    CHECK((presence != NULL) == (user > USER_LOCAL));
    if (presence != NULL && --presence->count == 0) {
        HASH_DELETE(by_user, core->conns.present, presence);
        free(presence);
    }
}

void conn_set_user(struct core *core, struct conn *conn, uint64_t user)
{
    struct presence *presence = find_presence(core, user);
    if (user > USER_LOCAL && presence == NULL) {
        presence = memory_new(sizeof *presence);
        presence->user = user;
        HASH_ADD(by_user, core->conns.present, user, sizeof presence->user,
                 presence);
    }
    if (presence != NULL) {
        presence->count++;
    }
    conn_leave(core, conn->user);
    conn->user = user;
    if (core->port.client_user != NULL) {
        core->port.client_user(core->port.data, conn->id, user);
    }
}

void conn_free(struct core *core, struct conn *conn)
{
    /* An orphaned request must not point to the freed connection. */
    for (uint64_t slot = conn->first_slot; slot < conn->next_slot; slot++) {
        struct request *request = slot_at(conn, slot)->request;
        if (request != NULL) {
            request_orphan(core, request);
        }
    }
    transaction_forget(core, conn);
    conn_give_back(core, conn, conn->held_size);
    free_slots(conn);
    watches_remove(core, conn);
    attach_remove_conn(core, conn);
    conn_leave(core, conn->user);
    CHECK(conn->session_count == 0 && conn->watch_count == 0);
    HASH_DELETE(by_id, core->conns.by_id, conn);
    core->conns.found = NULL;
    list_remove(&conn->in_core);
    list_remove(&conn->in_due);
    list_remove(&conn->in_settling);
    core->conns.count--;
    free((void *)conn->name.data);
    free(conn->certified);
    free(conn->address);
    free(conn);
}

/* Doubles the ring; each slot moves to its place under the new mask. */
static void conn_grow(struct conn *conn)
{
    uint32_t capacity = conn->slot_capacity == 0 ? SLOT_COUNT_FIRST
                                                 : 2 * conn->slot_capacity;
    struct slot *slots = memory_new(capacity * sizeof *slots);
    /* The capacity minus one is the mask. */
    CHECK((capacity & (capacity - 1)) == 0);
    for (uint64_t slot = conn->first_slot; slot < conn->next_slot; slot++) {
        slots[slot & (capacity - 1)] = *slot_at(conn, slot);
    }
    free(conn->slots);
    conn->slots = slots;
    conn->slot_capacity = capacity;
}

uint64_t conn_slot_new(struct conn *conn, struct request *request)
{
    if (conn->next_slot - conn->first_slot == conn->slot_capacity) {
        conn_grow(conn);
    }
    uint64_t slot = conn->next_slot++;
    /* The ring has room, so the slot was free. */
    CHECK(slot_at(conn, slot)->request == NULL);
    slot_at(conn, slot)->request = request;
    slot_at(conn, slot)->order = ORDER_NONE;
    return slot;
}

/* True if a request of this order must wait for earlier ones that touch its
 * names. */
static bool conn_must_wait(const struct conn *conn, enum conn_order order,
                           uint64_t names)
{
    for (int other = ORDER_CHANGE; other < ORDER_COUNT; other++) {
        bool is_alike = other == (int)order && order != ORDER_EITHER;
        if (!is_alike && (conn->open_names[other] & names) != 0) {
            return true;
        }
    }
    return false;
}

bool conn_order_slot(struct core *core, struct conn *conn, uint64_t slot,
                     enum conn_order order, uint64_t names)
{
    struct slot *at = slot_at(conn, slot);
    bool is_held = conn_must_wait(conn, order, names);
    CHECK(order != ORDER_NONE && at->order == ORDER_NONE);
    at->order = (uint8_t)order;
    conn->open_count[order]++;
    conn->open_names[order] |= names;
    if (is_held) {
        at->request->state = REQUEST_HELD;
        conn_block(core, conn, slot);
    }
    return !is_held;
}

struct request *conn_slot_request(struct conn *conn, uint64_t slot)
{
    if (slot < conn->first_slot || slot >= conn->next_slot) {
        return NULL;
    }
    return slot_at(conn, slot)->request;
}

struct buffer *conn_slot_output(struct core *core, struct conn *conn,
                                uint64_t slot)
{
    CHECK(slot >= conn->first_slot && slot < conn->next_slot);
    if (slot != conn->first_slot) {
        buffer_clear(&slot_at(conn, slot)->reply);
        return &slot_at(conn, slot)->reply;
    }
    struct buffer *out = conn->is_closing ? NULL
                                          : core->port.client_output(
                                                core->port.data, conn->id);
    if (out == NULL) {
        buffer_clear(&core->requests.reply);
        out = &core->requests.reply;
    }
    return out;
}

/* Ends the connection; what was written before is still sent. */
static void conn_end(struct core *core, struct conn *conn)
{
    if (!conn->is_closing) {
        conn->is_closing = true;
        core->port.client_close(core->port.data, conn->id, "quit");
    }
}

void conn_close_quietly(struct core *core, struct conn *conn,
                        const char *reason)
{
    conn->is_quiet = true;
    if (!conn->is_closing) {
        conn->is_closing = true;
        core->port.client_close(core->port.data, conn->id, reason);
    }
}

/* Unparks the oldest unanswered request if it no longer waits for an earlier
 * one. */
static void release_held(struct core *core, struct conn *conn)
{
    if (conn->first_slot == conn->next_slot) {
        return;
    }
    struct request *request = slot_at(conn, conn->first_slot)->request;
    CHECK(request != NULL); /* A slot that is answered has left the ring. */
    if (request->state == REQUEST_HELD) {
        request->deadline_ns = core->now_ns + LEADER_WAIT_NS;
        request->not_before_ns = 0;
        request_move(core, request, REQUEST_PARKED);
        core->turn.has_left_over = true;
    }
}

void conn_slot_done(struct core *core, struct conn *conn, uint64_t slot)
{
    enum conn_order order = slot_at(conn, slot)->order;
    CHECK(slot >= conn->first_slot && slot < conn->next_slot);
    CHECK(order == ORDER_NONE || conn->open_count[order] > 0);
    slot_at(conn, slot)->request = NULL;
    if (order != ORDER_NONE && --conn->open_count[order] == 0) {
        conn->open_names[order] = 0;
    }
    if (conn->blocking_slot == slot) {
        conn->blocking_slot = SLOT_NONE;
    }
    /* Answers leave in the order of the requests: one that is ready early stays
     * in its slot, and its bytes count until it leaves. */
    if (slot != conn->first_slot) {
        conn_hold(core, conn, slot_at(conn, slot)->reply.size);
    } else {
        conn->first_slot++;
        while (conn->first_slot < conn->next_slot) {
            struct slot *next = slot_at(conn, conn->first_slot);
            if (next->request != NULL) {
                break;
            }
            struct bytes reply = buffer_bytes(&next->reply);
            buffer_put_bytes(conn_slot_output(core, conn, conn->first_slot),
                             reply);
            conn_give_back(core, conn, reply.size);
            buffer_done(&next->reply);
            conn->first_slot++;
        }
    }
    if (conn->first_slot == conn->next_slot &&
        conn->slot_capacity > SLOT_COUNT_IDLE) {
        free_slots(conn);
    }
    release_held(core, conn);
    conn_block_update(core, conn);
    if (conn->quit_slot < conn->first_slot) {
        conn_end(core, conn);
    }
}

void conn_quit(struct core *core, struct conn *conn, uint64_t slot)
{
    CHECK(slot < conn->next_slot);
    conn->quit_slot = slot;
    if (slot < conn->first_slot) {
        conn_end(core, conn);
    }
}

void conn_block(struct core *core, struct conn *conn, uint64_t slot)
{
    if (slot >= conn->first_slot && slot < conn->next_slot &&
        slot_at(conn, slot)->request != NULL) {
        conn->blocking_slot = slot;
        conn_block_update(core, conn);
    }
}

void conn_block_update(struct core *core, struct conn *conn)
{
    bool is_blocked = conn->settling_ns != 0 ||
                      conn->blocking_slot != SLOT_NONE ||
                      conn->next_slot - conn->first_slot >=
                          core->options.limits.requests_per_conn ||
                      conn->held_size >= core->options.limits.bytes_per_conn ||
                      conn_is_over(core, conn);
    if (is_blocked != conn->is_blocked) {
        conn->is_blocked = is_blocked;
        core->port.client_block(core->port.data, conn->id, is_blocked);
    }
}

void conn_hold(struct core *core, struct conn *conn, uint64_t size)
{
    conn->held_size += size;
    core->conns.held_size += size;
}

void conn_give_back(struct core *core, struct conn *conn, uint64_t size)
{
    CHECK(conn->held_size >= size && core->conns.held_size >= size);
    conn->held_size -= size;
    core->conns.held_size -= size;
}

/* A connection that holds little is served even if others hold much. */
bool conn_is_over(const struct core *core, const struct conn *conn)
{
    uint64_t max = core->options.limits.bytes_in_flight;
    CHECK(core->conns.count > 0); /* At least 'conn' is counted. */
    return core->conns.held_size >= max &&
           conn->held_size > max / core->conns.count;
}

void conn_set_name(struct conn *conn, struct bytes name)
{
    free((void *)conn->name.data);
    conn->name = bytes_of(memory_copy(name.data, name.size), name.size);
}
