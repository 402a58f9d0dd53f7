/* SPDX-License-Identifier: MIT */

/* Each pair of functions writes the same things in the same order: one from the
 * state, one from an answer. */

#include "tests/sim/sim_face.h"

/* --- From an answer --------------------------------------------------------
 */

bool sim_face_has_number(const struct resp_reply *reply, uint32_t at,
                         const char *key)
{
    const struct resp_value *value = resp_find(reply, at, key);
    return value != NULL && value->type == RESP_INTEGER;
}

uint64_t sim_face_number(const struct resp_reply *reply, uint32_t at,
                         const char *key)
{
    return sim_face_has_number(reply, at, key)
               ? (uint64_t)resp_find(reply, at, key)->integer
               : 0;
}

struct bytes sim_face_text(const struct resp_reply *reply, uint32_t at,
                           const char *key)
{
    const struct resp_value *value = resp_find(reply, at, key);
    bool is_text = value != NULL &&
                   (value->type == RESP_BULK || value->type == RESP_SIMPLE);
    return is_text ? value->bytes : BYTES_LITERAL("");
}

uint32_t sim_face_array(const struct resp_reply *reply, uint32_t at,
                        const char *key, uint32_t *ret_count)
{
    const struct resp_value *value = resp_find(reply, at, key);
    bool is_array = value != NULL && value->type == RESP_ARRAY;
    *ret_count = is_array ? value->count : 0;
    return is_array ? (uint32_t)(value - reply->value) + 1 : 0;
}

/* The number of members of a map, so that an answer has no member that is not
 * checked. */
static uint32_t members_of(const struct resp_reply *reply, uint32_t at)
{
    const struct resp_value *map = &reply->value[at];
    return map->type == RESP_MAP ? map->count : map->count / 2;
}

static void put_text(struct buffer *out, const struct resp_reply *reply,
                     uint32_t at, const char *key)
{
    buffer_put_run(out, sim_face_text(reply, at, key));
}

static void put_number(struct buffer *out, const struct resp_reply *reply,
                       uint32_t at, const char *key)
{
    buffer_put_u64(out, sim_face_number(reply, at, key));
}

static bool is_told(const struct resp_reply *reply, uint32_t at,
                    const char *key)
{
    return resp_find(reply, at, key) != NULL;
}

/* --- Holds ---------------------------------------------------------------- */

static struct bytes reason_of(const struct session *session)
{
    for (uint32_t i = 0; i < session->label_count; i++) {
        if (bytes_equal(session->labels[i].key, BYTES_LITERAL("reason"))) {
            return session->labels[i].value;
        }
    }
    return BYTES_LITERAL("");
}

static uint32_t hold_members(const struct hold *hold)
{
    return 11u + (hold->hold_ms != 0) + (hold->delay_ms != 0) +
           hold->has_barged +
           (hold->session->is_durable ? 2 + 3 * hold->break_count : 0);
}

static void put_hold(struct buffer *out, const struct hold *hold,
                     bool with_addresses)
{
    const struct session *session = hold->session;
    bool is_breaking = session->is_durable && hold->break_count > 0;
    buffer_put_u32(out, hold_members(hold));
    buffer_put_u64(out, session->id);
    buffer_put_run(out, session->name);
    buffer_put_run(out, with_addresses ? session->address : BYTES_LITERAL(""));
    buffer_put_run(out, hold->owner);
    buffer_put_run(out, hold->value);
    buffer_put_u64(out, hold->token);
    buffer_put_run(out, bytes_of_text(lock_mode_name(hold->mode)));
    buffer_put_u64(out, hold->count);
    buffer_put_u64(out, hold->delay_ms);
    buffer_put_u64(out, hold->has_barged);
    buffer_put_run(out, session->user->name);
    buffer_put_u8(out, !session->is_durable);
    buffer_put_u64(out, session->is_durable ? session->opened_ms : 0);
    buffer_put_run(out, session->is_durable ? reason_of(session)
                                            : BYTES_LITERAL(""));
    buffer_put_u8(out, hold->hold_ms != 0);
    buffer_put_u8(out, is_breaking);
    buffer_put_run(out, is_breaking ? hold->breaks->by : BYTES_LITERAL(""));
    buffer_put_run(out, is_breaking ? hold->breaks->reason : BYTES_LITERAL(""));
}

static void put_told_hold(struct buffer *out, const struct resp_reply *reply,
                          uint32_t at, bool with_addresses)
{
    buffer_put_u32(out, members_of(reply, at));
    put_number(out, reply, at, "session");
    put_text(out, reply, at, "client");
    buffer_put_run(out, with_addresses ? sim_face_text(reply, at, "address")
                                       : BYTES_LITERAL(""));
    put_text(out, reply, at, "owner");
    put_text(out, reply, at, "value");
    put_number(out, reply, at, "token");
    put_text(out, reply, at, "mode");
    put_number(out, reply, at, "count");
    put_number(out, reply, at, "delay_ms");
    put_number(out, reply, at, "barged");
    put_text(out, reply, at, "user");
    buffer_put_u8(out, sim_face_has_number(reply, at, "lease_left_ms"));
    put_number(out, reply, at, "opened_ms");
    put_text(out, reply, at, "reason");
    buffer_put_u8(out, is_told(reply, at, "hold_left_ms"));
    buffer_put_u8(out, is_told(reply, at, "break_left_ms"));
    put_text(out, reply, at, "break_by");
    put_text(out, reply, at, "break_reason");
}

/* --- Waits ---------------------------------------------------------------- */

static void put_wait(struct buffer *out, const struct wait *wait)
{
    buffer_put_u32(out, 7);
    buffer_put_u64(out, wait->session->id);
    buffer_put_run(out, wait->session->name);
    buffer_put_run(out, wait->owner);
    buffer_put_run(out, bytes_of_text(lock_mode_name(wait->mode)));
    buffer_put_u64(out, wait->wait_index);
    buffer_put_run(out, wait->session->user->name);
}

static void put_told_wait(struct buffer *out, const struct resp_reply *reply,
                          uint32_t at)
{
    buffer_put_u32(out, members_of(reply, at));
    put_number(out, reply, at, "session");
    put_text(out, reply, at, "client");
    put_text(out, reply, at, "owner");
    put_text(out, reply, at, "mode");
    put_number(out, reply, at, "index");
    put_text(out, reply, at, "user");
}

/* --- Locks ---------------------------------------------------------------- */

void sim_face_of_lock(struct buffer *out, const struct lock *lock,
                      bool with_addresses)
{
    bool is_held = lock != NULL && lock->hold_count > 0;
    bool has_slots = is_held && lock->mode == LOCK_SLOTS;
    const char *mode = is_held ? lock_mode_name(lock->mode) : "free";
    buffer_put_run(out, bytes_of_text(mode));
    buffer_put_u64(out, has_slots ? lock->slots : 0);
    buffer_put_run(out, lock != NULL ? lock->note : BYTES_LITERAL(""));
    buffer_put_u32(out, is_held ? lock->hold_count : 0);
    buffer_put_u32(out, lock != NULL ? lock->wait_count : 0);
    if (lock == NULL) {
        return;
    }
    LIST_FOR (const struct hold, hold, &lock->holds, in_lock) {
        put_hold(out, hold, with_addresses);
    }
    LIST_FOR (const struct wait, wait, &lock->queue, in_lock) {
        put_wait(out, wait);
    }
}

void sim_face_of_told_lock(struct buffer *out, const struct resp_reply *reply,
                           uint32_t at, bool with_addresses)
{
    uint32_t hold_count, wait_count;
    uint32_t hold = sim_face_array(reply, at, "holders", &hold_count);
    uint32_t wait = sim_face_array(reply, at, "queue", &wait_count);
    put_text(out, reply, at, "mode");
    put_number(out, reply, at, "slots");
    put_text(out, reply, at, "note");
    buffer_put_u32(out, hold_count);
    buffer_put_u32(out, wait_count);
    for (uint32_t i = 0; i < hold_count; i++) {
        put_told_hold(out, reply, hold, with_addresses);
        hold += reply->value[hold].span;
    }
    for (uint32_t i = 0; i < wait_count; i++) {
        put_told_wait(out, reply, wait);
        wait += reply->value[wait].span;
    }
}

/* --- Sessions ------------------------------------------------------------- */

void sim_face_of_session(struct buffer *out, const struct lockfsm *fsm,
                         const struct session *session)
{
    buffer_put_u32(out, session->is_durable ? 13 : 12);
    buffer_put_u64(out, session->id);
    buffer_put_run(out, session->name);
    buffer_put_run(out, session->address);
    buffer_put_u64(out, session->is_durable ? 0 : session->ttl_ms);
    buffer_put_u8(out, !session->is_durable);
    buffer_put_u64(out, session->linger_ms);
    buffer_put_u64(out, session->is_durable ? session->opened_ms : 0);
    buffer_put_u64(out, session->hold_count);
    buffer_put_u64(out, session->wait_count);
    buffer_put_u64(out, session_is_refused(fsm, session));
    buffer_put_run(out, session->user->name);
    buffer_put_u64(out, session_has_will(session));
    buffer_put_u32(out, 2 * session->label_count);
    for (uint32_t i = 0; i < session->label_count; i++) {
        buffer_put_run(out, session->labels[i].key);
        buffer_put_run(out, session->labels[i].value);
    }
}

void sim_face_of_told_session(struct buffer *out,
                              const struct resp_reply *reply, uint32_t at)
{
    uint32_t label_count;
    uint32_t label = sim_face_array(reply, at, "labels", &label_count);
    buffer_put_u32(out, members_of(reply, at));
    put_number(out, reply, at, "id");
    put_text(out, reply, at, "name");
    put_text(out, reply, at, "address");
    put_number(out, reply, at, "ttl_ms");
    buffer_put_u8(out, sim_face_has_number(reply, at, "left_ms"));
    put_number(out, reply, at, "linger_ms");
    put_number(out, reply, at, "opened_ms");
    put_number(out, reply, at, "holds");
    put_number(out, reply, at, "waits");
    put_number(out, reply, at, "blacklisted");
    put_text(out, reply, at, "user");
    put_number(out, reply, at, "will");
    buffer_put_u32(out, label_count);
    for (uint32_t i = 0; i < label_count; i++) {
        buffer_put_run(out, reply->value[label + i].bytes);
    }
}

/* --- Fences --------------------------------------------------------------- */

void sim_face_of_fence(struct buffer *out, const struct fence *fence)
{
    buffer_put_u32(out, 2);
    buffer_put_run(out, fence->resource);
    buffer_put_u64(out, fence->token);
}

void sim_face_of_told_fence(struct buffer *out, const struct resp_reply *reply,
                            uint32_t at)
{
    buffer_put_u32(out, members_of(reply, at));
    put_text(out, reply, at, "resource");
    put_number(out, reply, at, "token");
}
