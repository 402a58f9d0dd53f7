/* SPDX-License-Identifier: MIT */

#include "node/core/events.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "node/core/attach.h"
#include "node/core/commands.h"
#include "node/core/request.h"

/* Of one connection. */
#define WATCH_COUNT_MAX 1024
#define CHANNEL_PREFIX "lock:"

static const char *kind_of(const struct effect *effect);
static void tell(struct core *core, const char *kind,
                 const struct effect *effect);
static void tell_blacklisted(struct core *core, const struct effect *effect);
static bool watch_hits(const struct watch *watch, struct bytes lock);
static void push(struct core *core, struct conn *conn, const char *kind,
                 const struct effect *effect);
static void publish(struct core *core, const struct watch *watch,
                    const char *kind, const struct effect *effect);
static void please(struct core *core, const struct effect *effect);
static struct watch *find_watch(struct conn *conn, int kind,
                                struct bytes pattern);
static bool add_watch(struct core *core, struct conn *conn, int kind,
                      struct bytes pattern);
static void drop_watch(struct watch *watch);

void events_effect(struct core *core, const struct effect *effect)
{
    if (effect->type == EFFECT_SESSION_CHANGED && effect->reason != NULL &&
        strcmp(effect->reason, "blacklisted") == 0) {
        tell_blacklisted(core, effect);
        return;
    }
    const char *kind = kind_of(effect);
    if (kind == NULL) {
        return;
    }
    tell(core, kind, effect);
    if (effect->type == EFFECT_PLEASE) {
        please(core, effect);
    }
}

void events_forget(struct conn *conn)
{
    LIST_EACH_SAFE (node, &conn->watches) {
        drop_watch(LIST_ENTRY(node, struct watch, in_conn));
    }
}

void lock_watch_run(struct core *core, struct request *request,
                    const struct call *call)
{
    struct conn *conn = request->conn;
    if (conn->version == 2) {
        request_refuse(core, request, "BADARG",
                       "lock.watch: needs RESP3 (HELLO 3); with RESP2 use "
                       "PSUBSCRIBE lock:prefix*");
        return;
    }
    if (!add_watch(core, conn, WATCH_PREFIX, call->name)) {
        request_refuse(core, request, "LIMIT", "watches of a connection");
        return;
    }
    resp_simple(request_reply(core, request), "OK");
    request_done(core, request);
}

void lock_unwatch_run(struct core *core, struct request *request,
                      const struct call *call)
{
    struct watch *watch = find_watch(request->conn, WATCH_PREFIX, call->name);
    if (watch != NULL) {
        drop_watch(watch);
    }
    resp_simple(request_reply(core, request), "OK");
    request_done(core, request);
}

/* One confirmation per channel, all in the slot of the command. */
static void confirm(struct core *core, struct request *request,
                    const char *word, struct bytes channel, bool has_channel)
{
    struct resp_writer *writer = &core->writer;
    resp_push(writer, 3);
    resp_text(writer, word);
    if (has_channel) {
        resp_bulk(writer, channel);
    } else {
        resp_null(writer);
    }
    resp_integer(writer, request->conn->channel_count);
}

static void subscribe(struct core *core, struct request *request,
                      const struct call *call, int kind, const char *word)
{
    struct conn *conn = request->conn;
    request_reply(core, request);
    for (uint32_t i = 1; i < call->count; i++) {
        if (add_watch(core, conn, kind, call->argument[i])) {
            confirm(core, request, word, call->argument[i], true);
        } else {
            request_count_refusal(core, "LIMIT");
            resp_error(&core->writer, "LIMIT", "watches of a connection");
        }
    }
    request_done(core, request);
}

static void unsubscribe(struct core *core, struct request *request,
                        const struct call *call, int kind, const char *word)
{
    struct conn *conn = request->conn;
    bool has_any = false;
    request_reply(core, request);
    for (uint32_t i = 1; i < call->count; i++) {
        struct watch *watch = find_watch(conn, kind, call->argument[i]);
        if (watch != NULL) {
            drop_watch(watch);
        }
        confirm(core, request, word, call->argument[i], true);
        has_any = true;
    }
    if (call->count == 1) {
        LIST_EACH_SAFE (node, &conn->watches) {
            struct watch *watch = LIST_ENTRY(node, struct watch, in_conn);
            if ((int)watch->kind == kind) {
                struct bytes pattern = watch->pattern;
                watch->pattern = (struct bytes){NULL, 0};
                drop_watch(watch);
                confirm(core, request, word, pattern, true);
                free((void *)pattern.data);
                has_any = true;
            }
        }
    }
    if (!has_any) {
        confirm(core, request, word, (struct bytes){NULL, 0}, false);
    }
    request_done(core, request);
}

void subscribe_run(struct core *core, struct request *request,
                   const struct call *call)
{
    subscribe(core, request, call, WATCH_CHANNEL, "subscribe");
}

void unsubscribe_run(struct core *core, struct request *request,
                     const struct call *call)
{
    unsubscribe(core, request, call, WATCH_CHANNEL, "unsubscribe");
}

void psubscribe_run(struct core *core, struct request *request,
                    const struct call *call)
{
    subscribe(core, request, call, WATCH_PATTERN, "psubscribe");
}

void punsubscribe_run(struct core *core, struct request *request,
                      const struct call *call)
{
    unsubscribe(core, request, call, WATCH_PATTERN, "punsubscribe");
}

/* A connection that watches several fitting prefixes hears it once. */
static void tell(struct core *core, const char *kind,
                 const struct effect *effect)
{
    struct conn *last = NULL;
    LIST_EACH (node, &core->watches) {
        struct watch *watch = LIST_ENTRY(node, struct watch, in_core);
        if (!watch_hits(watch, effect->lock)) {
            continue;
        }
        if (watch->kind != WATCH_PREFIX) {
            publish(core, watch, kind, effect);
        } else if (watch->conn != last) {
            push(core, watch->conn, kind, effect);
            last = watch->conn;
        }
    }
}

/* Locks are what is watched: one event for each that the session holds, and
 * that will go to somebody else unless the session is pardoned. */
static void tell_blacklisted(struct core *core, const struct effect *effect)
{
    const struct session *session = lockfsm_session(core->fsm, effect->session);
    if (session == NULL || list_is_empty(&core->watches)) {
        return;
    }
    LIST_EACH (node, &session->holds) {
        const struct hold *hold = LIST_ENTRY(node, struct hold, in_session);
        struct effect event = *effect;
        event.lock = hold->lock->name;
        event.owner = hold->owner;
        event.token = hold->token;
        event.reason = NULL; /* The operator's reason, or no message. */
        tell(core, "blacklisted", &event);
    }
}

static const char *kind_of(const struct effect *effect)
{
    switch (effect->type) {
    case EFFECT_GRANTED:
        return "granted";
    case EFFECT_QUEUED:
        return effect->count == 0 ? "queued" : NULL; /* Asked again. */
    case EFFECT_RELEASED:
        return "released";
    case EFFECT_HOLD_EXPIRED:
        return "expired";
    case EFFECT_WAIT_ENDED:
        return "wait-ended";
    case EFFECT_DELAYED:
        return "delayed";
    case EFFECT_DELAY_OVER:
        return "delay-over";
    case EFFECT_PLEASE:
        return "please";
    default:
        return NULL;
    }
}

static bool watch_hits(const struct watch *watch, struct bytes lock)
{
    if (watch->kind == WATCH_PREFIX) {
        return bytes_has_prefix(lock, watch->pattern);
    }
    uint8_t channel[sizeof CHANNEL_PREFIX - 1 + LOCK_NAME_SIZE_MAX];
    size_t prefix_size = sizeof CHANNEL_PREFIX - 1;
    if (lock.size > LOCK_NAME_SIZE_MAX) {
        return false;
    }
    memcpy(channel, CHANNEL_PREFIX, prefix_size);
    memcpy(channel + prefix_size, lock.data, lock.size);
    struct bytes name = bytes_of(channel, prefix_size + lock.size);
    return watch->kind == WATCH_CHANNEL ? bytes_equal(watch->pattern, name)
                                        : bytes_match(watch->pattern, name);
}

static struct bytes message_of(const struct effect *effect)
{
    if (effect->text.size > 0) {
        return effect->text;
    }
    return bytes_of_text(effect->reason != NULL ? effect->reason : "");
}

static struct buffer *output_of(struct core *core, struct conn *conn)
{
    return conn->is_closing
               ? NULL
               : core->port.client_output(core->port.data, conn->id);
}

static void push(struct core *core, struct conn *conn, const char *kind,
                 const struct effect *effect)
{
    struct resp_writer writer = {output_of(core, conn), 3};
    if (writer.out == NULL || conn->version != 3) {
        return; /* It may have gone back to RESP2, which has no pushes. */
    }
    resp_push(&writer, 3);
    resp_text(&writer, "lock");
    resp_text(&writer, kind);
    resp_map(&writer, 5);
    resp_text(&writer, "lock");
    resp_bulk(&writer, effect->lock);
    resp_text(&writer, "session");
    resp_integer(&writer, (int64_t)effect->session);
    resp_text(&writer, "token");
    resp_integer(&writer, (int64_t)effect->token);
    resp_text(&writer, "index");
    resp_integer(&writer, (int64_t)effect->log_index);
    resp_text(&writer, "message");
    resp_bulk(&writer, message_of(effect));
}

/* Bytes as a JSON string; what is not ASCII is taken for Latin-1, so that any
 * name gives valid JSON. */
static void put_json(struct buffer *out, struct bytes text)
{
    buffer_put_u8(out, '"');
    for (size_t i = 0; i < text.size; i++) {
        uint8_t c = text.data[i];
        if (c == '"' || c == '\\') {
            buffer_put_u8(out, '\\');
            buffer_put_u8(out, c);
        } else if (c >= 0x20 && c < 0x7f) {
            buffer_put_u8(out, c);
        } else {
            buffer_printf(out, "\\u%04x", c);
        }
    }
    buffer_put_u8(out, '"');
}

static void publish(struct core *core, const struct watch *watch,
                    const char *kind, const struct effect *effect)
{
    struct resp_writer writer = {output_of(core, watch->conn),
                                 watch->conn->version};
    if (writer.out == NULL) {
        return;
    }
    struct buffer *json = &core->event;
    bool is_pattern = watch->kind == WATCH_PATTERN;
    resp_push(&writer, is_pattern ? 4 : 3);
    resp_text(&writer, is_pattern ? "pmessage" : "message");
    if (is_pattern) {
        resp_bulk(&writer, watch->pattern);
    }
    buffer_clear(json);
    buffer_put_text(json, CHANNEL_PREFIX);
    buffer_put_bytes(json, effect->lock);
    resp_bulk(&writer, buffer_bytes(json));
    buffer_clear(json);
    buffer_put_text(json, "{\"kind\":");
    put_json(json, bytes_of_text(kind));
    buffer_put_text(json, ",\"lock\":");
    put_json(json, effect->lock);
    buffer_printf(json, ",\"session\":%llu,\"token\":%llu,\"index\":%llu",
                  (unsigned long long)effect->session,
                  (unsigned long long)effect->token,
                  (unsigned long long)effect->log_index);
    buffer_put_text(json, ",\"message\":");
    put_json(json, message_of(effect));
    buffer_put_u8(json, '}');
    resp_bulk(&writer, buffer_bytes(json));
}

/* To every connection of this node that acts for the holder's session and does
 * not watch the lock anyway. */
static void please(struct core *core, const struct effect *effect)
{
    const struct list *attachments = attach_list(core, effect->session);
    if (attachments == NULL) {
        return;
    }
    LIST_EACH (node, attachments) {
        struct conn *conn = LIST_ENTRY(node, struct attachment, in_session)
                                ->conn;
        if (conn == NULL || conn->version != 3) {
            continue;
        }
        bool is_told = false;
        LIST_EACH (at, &conn->watches) {
            const struct watch *watch = LIST_ENTRY(at, struct watch, in_conn);
            is_told |= watch->kind == WATCH_PREFIX &&
                       watch_hits(watch, effect->lock);
        }
        if (!is_told) {
            push(core, conn, "please", effect);
        }
    }
}

static struct watch *find_watch(struct conn *conn, int kind,
                                struct bytes pattern)
{
    LIST_EACH (node, &conn->watches) {
        struct watch *watch = LIST_ENTRY(node, struct watch, in_conn);
        if ((int)watch->kind == kind && bytes_equal(watch->pattern, pattern)) {
            return watch;
        }
    }
    return NULL;
}

static bool add_watch(struct core *core, struct conn *conn, int kind,
                      struct bytes pattern)
{
    if (find_watch(conn, kind, pattern) != NULL) {
        return true;
    }
    if (conn->watch_count >= WATCH_COUNT_MAX) {
        return false;
    }
    struct watch *watch = memory_new(sizeof *watch);
    watch->conn = conn;
    watch->kind = kind;
    watch->pattern = bytes_of(memory_copy(pattern.data, pattern.size),
                              pattern.size);
    /* Those of one connection stand together, see tell(). */
    if (list_is_empty(&conn->watches)) {
        list_push_back(&core->watches, &watch->in_core);
    } else {
        list_insert_before(
            &LIST_ENTRY(conn->watches.prev, struct watch, in_conn)->in_core,
            &watch->in_core);
    }
    list_push_back(&conn->watches, &watch->in_conn);
    conn->watch_count++;
    conn->channel_count += kind != WATCH_PREFIX;
    return true;
}

static void drop_watch(struct watch *watch)
{
    watch->conn->watch_count--;
    watch->conn->channel_count -= watch->kind != WATCH_PREFIX;
    list_remove(&watch->in_conn);
    list_remove(&watch->in_core);
    free((void *)watch->pattern.data);
    free(watch);
}
