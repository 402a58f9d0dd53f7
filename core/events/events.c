/* SPDX-License-Identifier: MIT */

/* Effects as pushes and messages, when they happen and again later. */

#include "core/events/events.h"

#include <string.h>

#include "base/check.h"
#include "core/command.h"
#include "core/state.h"

/* An event as it is sent: when it happens (core->event_log.newest), or again
 * later. */
struct event {
    const char *kind;
    struct bytes lock;
    struct bytes message;
    uint64_t session;
    uint64_t token;
    uint64_t index;
    uint32_t ordinal;
    char id[EVENT_LOG_ID_SIZE]; /* Empty until id_of() has made it. */
};

/* How many past events, and how many of their bytes, are sent again at once. */
#define AGAIN_COUNT_MAX 2048
#define AGAIN_SIZE_MAX (256u << 10)
static struct bytes message_of(const struct effect *effect)
{
    if (effect->text.size > 0) {
        return effect->text;
    }
    return bytes_of_text(effect->reason != NULL ? effect->reason : "");
}

/* NULL: nothing may be pushed to it. */
static struct buffer *output_of(struct core *core, struct conn *conn)
{
    return conn->is_closing || !identity_may_see_events(core, conn)
               ? NULL
               : core->port.client_output(core->port.data, conn->id);
}

/* Makes the id only for the first watcher, since most events have none. */
static const char *id_of(const struct core *core, struct event *event)
{
    if (event->id[0] == '\0') {
        event_log_id_format(core, event->index, event->ordinal, event->id);
    }
    return event->id;
}

static void events_push(struct core *core, struct conn *conn,
                        struct event *event)
{
    struct resp_writer writer = {output_of(core, conn), 3};
    if (writer.out == NULL || conn->version != 3) {
        /* The client may have gone back to RESP2, which has no pushes. */
        return;
    }
    resp_push(&writer, 3);
    resp_text(&writer, "lock");
    resp_text(&writer, event->kind);
    resp_map(&writer, 6);
    resp_key_bulk(&writer, "lock", event->lock);
    resp_key_number(&writer, "session", event->session);
    resp_key_number(&writer, "token", event->token);
    resp_key_number(&writer, "index", event->index);
    resp_key_bulk(&writer, "message", event->message);
    resp_key_text(&writer, "id", id_of(core, event));
}

/* Writes bytes as a JSON string. Bytes that are not ASCII become Latin-1
 * characters, so that any name gives valid JSON. */
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

/* Writes a message up to its text. */
static void put_message(struct resp_writer *writer, const struct watch *watch,
                        struct bytes channel)
{
    bool is_pattern = watch->of.pattern->kind == WATCH_PATTERN;
    resp_push(writer, is_pattern ? 4 : 3);
    resp_text(writer, is_pattern ? "pmessage" : "message");
    if (is_pattern) {
        resp_bulk(writer, watch_text(watch));
    }
    resp_bulk(writer, channel);
}

static void events_publish(struct core *core, const struct watch *watch,
                           struct event *event)
{
    struct conn *conn = watch->of.conn;
    struct resp_writer writer = {output_of(core, conn), conn->version};
    CHECK(watch->of.pattern->kind != WATCH_PREFIX);
    if (writer.out == NULL) {
        return;
    }
    struct buffer *json = &core->watches.message;
    buffer_clear(json);
    buffer_put_text(json, CHANNEL_PREFIX);
    buffer_put_bytes(json, event->lock);
    put_message(&writer, watch, buffer_bytes(json));
    buffer_clear(json);
    buffer_put_text(json, "{\"kind\":");
    put_json(json, bytes_of_text(event->kind));
    buffer_put_text(json, ",\"lock\":");
    put_json(json, event->lock);
    buffer_printf(json, ",\"session\":%llu,\"token\":%llu,\"index\":%llu",
                  (unsigned long long)event->session,
                  (unsigned long long)event->token,
                  (unsigned long long)event->index);
    buffer_put_text(json, ",\"message\":");
    put_json(json, event->message);
    buffer_printf(json, ",\"id\":\"%s\"", id_of(core, event));
    buffer_put_u8(json, '}');
    resp_bulk(&writer, buffer_bytes(json));
}

/* Notifies a connection once, even if it watches several matching prefixes. */
static void notify_watch(struct core *core, const struct watch *watch,
                         void *data)
{
    struct event *event = data;
    struct conn *conn = watch->of.conn;
    if (watch->of.pattern->kind != WATCH_PREFIX) {
        events_publish(core, watch, event);
    } else if (conn->last_event != core->watches.event) {
        conn->last_event = core->watches.event;
        events_push(core, conn, event);
    }
}

/* Records the event and notifies its watchers; sets 'ret_event' for the
 * caller's own use. */
static void events_notify(struct core *core, const char *kind,
                          const struct effect *effect, struct event *ret_event)
{
    *ret_event = (struct event){.kind = kind,
                                .lock = effect->lock,
                                .message = message_of(effect),
                                .session = effect->session,
                                .token = effect->token,
                                .index = effect->log_index};
    event_log_add(core, kind, effect, ret_event->message);
    CHECK(core->event_log.newest.index == ret_event->index);
    ret_event->ordinal = core->event_log.newest.ordinal;
    watches_hit(core, effect->lock, notify_watch, ret_event);
}

/* Watches are on locks: sends one event for each lock that the session holds,
 * and that will go to another session unless this one is unblocked. */
static void notify_blacklisted(struct core *core, const struct effect *effect)
{
    const struct session *session = lockfsm_session(core->fsm, effect->session);
    if (session == NULL) {
        return;
    }
    LIST_FOR (const struct hold, hold, &session->holds, in_session) {
        struct effect one = *effect;
        struct event event;
        CHECK(hold->session == session);
        one.lock = hold->lock->name;
        one.owner = hold->owner;
        one.token = hold->token;
        /* An effect without the operator's reason has no message. */
        one.reason = NULL;
        events_notify(core, "blacklisted", &one, &event);
    }
}

static const char *kind_of(const struct effect *effect)
{
    switch (effect->type) {
    case EFFECT_GRANTED:
        return "granted";
    case EFFECT_QUEUED:
        /* A repeated request is not queued again. */
        return effect->count == 0 ? "queued" : NULL;
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
    case EFFECT_BREAKING:
        return "breaking";
    case EFFECT_OBJECTED:
        return "objected";
    case EFFECT_PLEASE:
        return "please";
    default:
        return NULL;
    }
}

/* Notifies each connection of this node that acts for the holder's session and
 * does not watch the lock anyway. */
static void notify_holder(struct core *core, const struct effect *effect,
                          struct event *event)
{
    CHECK(effect->session != 0); /* Only a held lock can be asked for. */
    const struct list *attachments = attach_list(core, effect->session);
    if (attachments == NULL) {
        return;
    }
    LIST_FOR (struct attachment, attachment, attachments, in_session) {
        struct conn *conn = attachment->conn;
        if (conn != NULL && conn->version == 3 &&
            conn->last_event != core->watches.event) {
            events_push(core, conn, event);
        }
    }
}

/* Relays to the connections of the message's own user, and to those of users
 * that may read everything. */
static void relay_message(struct core *core, const struct watch *watch,
                          void *data)
{
    const struct effect *effect = data;
    struct conn *conn = watch->of.conn;
    struct resp_writer writer = {output_of(core, conn), conn->version};
    if (writer.out == NULL ||
        (conn->user != effect->count &&
         !lockfsm_may(core->fsm, lockfsm_user(core->fsm, conn->user), VERB_READ,
                      (struct bytes){NULL, 0}, EXTENT_PREFIX, NULL))) {
        return;
    }
    put_message(&writer, watch, effect->lock);
    resp_bulk(&writer, effect->text);
}

void events_effect(struct core *core, const struct effect *effect)
{
    if (effect->type == EFFECT_MESSAGE) {
        watches_hit_channel(core, effect->lock, relay_message, (void *)effect);
        return;
    }
    if (effect->type == EFFECT_SESSION_CHANGED && effect->reason != NULL &&
        strcmp(effect->reason, "blacklisted") == 0) {
        notify_blacklisted(core, effect);
        return;
    }
    const char *kind = kind_of(effect);
    if (kind == NULL) {
        return;
    }
    struct event event;
    events_notify(core, kind, effect, &event);
    if (effect->type == EFFECT_PLEASE || effect->type == EFFECT_BREAKING) {
        notify_holder(core, effect, &event);
    }
}

/* Counts the events after 'id' that begin with 'prefix', and their bytes; false
 * if there are too many to send again. '*ret_from' is the first one after
 * it. */
static bool is_little(struct core *core, struct bytes prefix,
                      const struct event_log_id *id, uint64_t *ret_from)
{
    const struct event_log *event_log = &core->event_log;
    uint64_t count = 0, size = 0;
    uint64_t i = event_log->next;
    while (i > event_log->first &&
           event_log_is_behind(event_log_event(event_log, i - 1), id) &&
           count <= AGAIN_COUNT_MAX && size <= AGAIN_SIZE_MAX) {
        const struct event_log_event *event = event_log_event(event_log, --i);
        if (bytes_has_prefix(event_log_name(event_log, event), prefix)) {
            count++;
            size += event->name_size + event->message_size;
        }
    }
    command_spend(core, (event_log->next - i) / EVENTS_PER_UNIT);
    *ret_from = i;
    return count <= AGAIN_COUNT_MAX && size <= AGAIN_SIZE_MAX;
}

static struct event event_again(struct core *core,
                                const struct event_log_event *event_log)
{
    return (struct event){
        .kind = event_log->kind,
        .lock = event_log_name(&core->event_log, event_log),
        .message = event_log_message(&core->event_log, event_log),
        .session = event_log->session,
        .token = event_log->token,
        .index = event_log->index,
        .ordinal = event_log->ordinal};
}

/* The events that follow are after the applied index. */
static struct event make_gap(const struct core *core, struct bytes lock)
{
    return (struct event){
        .kind = "gap",
        .lock = lock,
        .message = BYTES_LITERAL("events may be missing: read the locks"),
        .index = lockfsm_applied_index(core->fsm),
        .ordinal = UINT32_MAX};
}

static void notify_gap(struct core *core, const struct watch *watch)
{
    struct bytes channel = BYTES_LITERAL(CHANNEL_PREFIX);
    struct bytes text = watch_text(watch);
    struct event gap = make_gap(core, text);
    if (watch->of.pattern->kind == WATCH_PREFIX) {
        events_push(core, watch->of.conn, &gap);
        return;
    }
    if (bytes_has_prefix(text, channel)) {
        gap.lock = bytes_of(text.data + channel.size, text.size - channel.size);
    }
    events_publish(core, watch, &gap);
}

void events_missed(struct core *core)
{
    HASH_FOR (struct conn, conn, core->conns.by_id, by_id) {
        LIST_FOR (struct watch, watch, &conn->watches, in_conn) {
            CHECK(watch->of.conn == conn);
            notify_gap(core, watch);
        }
    }
}

void events_again(struct core *core, struct conn *conn, struct bytes prefix,
                  const struct event_log_id *id)
{
    const struct event_log *event_log = &core->event_log;
    uint64_t from;
    if (!event_log_knows(core, id) || !is_little(core, prefix, id, &from)) {
        struct event gap = make_gap(core, prefix);
        events_push(core, conn, &gap);
        return;
    }
    for (uint64_t i = from; i < event_log->next; i++) {
        const struct event_log_event *one = event_log_event(event_log, i);
        if (bytes_has_prefix(event_log_name(event_log, one), prefix)) {
            struct event event = event_again(core, one);
            events_push(core, conn, &event);
        }
    }
}

static void put_tokens(struct resp_writer *writer, const struct result *result)
{
    resp_key_array(writer, "tokens", result->token_count);
    for (uint32_t i = 0; i < result->token_count; i++) {
        resp_integer(writer, (int64_t)result->tokens[i]);
    }
}

static void events_put_grants(struct core *core, struct resp_writer *writer,
                              const struct effect *effect)
{
    const struct result *result = &effect->result;
    CHECK(effect->name_count == result->token_count);
    resp_key_array(writer, "grants", result->token_count);
    for (uint32_t i = 0; i < result->token_count; i++) {
        grant_put(core,
                  &(struct grant_of){.session = effect->session,
                                     .owner = effect->owner,
                                     .lock = effect->names[i],
                                     .token = result->tokens[i],
                                     .is_pushed = true},
                  writer);
    }
}

static void events_put_answer(struct core *core, struct buffer *out,
                              const struct effect *effect)
{
    struct resp_writer writer = {out, 3};
    bool is_granted = effect->result.code == RESULT_OK;
    resp_push(&writer, 3);
    resp_text(&writer, "lock");
    resp_text(&writer, "answer");
    resp_map(&writer, is_granted ? 6 : 4);
    resp_key_number(&writer, "session", effect->session);
    resp_key_bulk(&writer, "owner", effect->owner);
    resp_key_number(&writer, "index", effect->log_index);
    resp_key_number(&writer, "wait", effect->wait_index);
    if (is_granted) {
        put_tokens(&writer, &effect->result);
        events_put_grants(core, &writer, effect);
    }
}

void events_answer(struct core *core, const struct effect *effect)
{
    CHECK(effect->type == EFFECT_WAIT_RESULT && effect->session != 0);
    const struct list *attachments = attach_list(core, effect->session);
    if (attachments == NULL) {
        return;
    }
    LIST_FOR (const struct attachment, attachment, attachments, in_session) {
        if (!attach_hears(attachment)) {
            continue;
        }
        if (attachment->conn != NULL) {
            struct buffer *out = output_of(core, attachment->conn);
            if (out != NULL) {
                events_put_answer(core, out, effect);
            }
            continue;
        }
        /* A follower could report the grant only once it has applied the entry
         * itself: after the next entry, which says that this one is
         * committed. */
        struct frame_answer answer = {.conn = attachment->peer_conn,
                                      .slot = SLOT_NONE,
                                      .kind = ANSWER_REPLY};
        struct buffer *out = peer_output(core, attachment->peer, FRAME_ANSWER);
        if (out != NULL) {
            struct buffer push = {0};
            events_put_answer(core, &push, effect);
            answer.reply = buffer_bytes(&push);
            frame_put_answer(out, &answer);
            buffer_done(&push);
        }
    }
}

void events_relay(struct core *core, struct conn *conn, struct bytes push)
{
    struct buffer *out = output_of(core, conn);
    if (out != NULL && conn->hears_answers && conn->version == 3) {
        buffer_put_bytes(out, push);
    }
}
