/* SPDX-License-Identifier: MIT */

/* LOCK.WATCH, SUBSCRIBE and their opposites; LOCK.HISTORY. */

#include "base/bytes.h"
#include "base/check.h"
#include "core/commands/commands.h"
#include "core/commands/rows.h"
#include "core/conn.h"
#include "core/events/event_log.h"
#include "core/events/events.h"
#include "core/events/watches.h"
#include "core/request.h"
#include "core/state.h"
#include "core/stats.h"

/* How many events LOCK.HISTORY shows without COUNT, and at most. */
#define HISTORY_SHOWN 100
#define HISTORY_SHOWN_MAX 1000

bool lock_watch_parse(struct call *call, struct resp_writer *writer)
{
    struct event_log_id id;
    call->name = call->count > 1 ? call->argument[1] : bytes_of("", 0);
    if (call->name.size > LOCK_NAME_SIZE_MAX) {
        return call_fail(call, writer, "the prefix must have 0 to 511 bytes");
    }
    if (call->count == 2) {
        return true;
    }
    if (call->count != 4 || !bytes_is_word(call->argument[2], "FROM")) {
        return call_fail(call, writer,
                         "expected a prefix, optionally followed by FROM and "
                         "the id of an event");
    }
    return event_log_id_parse(call->argument[3], &id) ||
           call_fail(call, writer,
                     "FROM must be the id of an event, life-index-ordinal as "
                     "events show it, or life-index");
}

void lock_watch_run(struct core *core, struct request *request)
{
    const struct call *call = request->call;
    struct conn *conn = request->conn;
    struct event_log_id from;
    bool has_from = call->count > 2 &&
                    event_log_id_parse(call->argument[3], &from);
    struct bytes prefix = call->name;
    CHECK(conn != NULL); /* A COMMAND_LOCAL comes from no peer. */
    if (conn->version == 2) {
        request_refuse(core, request, WORD_BADARG,
                       "LOCK.WATCH needs RESP3 (HELLO 3); with RESP2 use "
                       "PSUBSCRIBE lock:prefix*");
        return;
    }
    const char *why;
    enum core_word word = watch_add(core, conn, WATCH_PREFIX, prefix, &why);
    if (word != WORD_NONE) {
        request_refuse(core, request, word, why);
        return;
    }
    const struct watch *watch = watch_find(core, conn, WATCH_PREFIX, prefix);
    /* The watch has just been added, or was there before. */
    CHECK(watch != NULL);
    /* This also frees the call, and 'prefix' with it. */
    request_answer_ok(core, request);
    if (has_from) {
        events_again(core, conn, watch_text(watch), &from);
    }
}

static void history_put(struct core *core, const struct event_log_event *event,
                        struct resp_writer *writer)
{
    char id[EVENT_LOG_ID_SIZE], trace[TRACE_TEXT_SIZE];
    event_log_id_format(core, event->index, event->ordinal, id);
    event_log_trace(&core->event_log, event, trace);
    resp_map(writer, trace[0] != '\0' ? 7 : 6);
    resp_key_text(writer, "id", id);
    resp_key_number(writer, "time_ms", event->wall_ms);
    resp_key_text(writer, "kind", event->kind);
    resp_key_number(writer, "session", event->session);
    resp_key_number(writer, "token", event->token);
    resp_key_bulk(writer, "message",
                  event_log_message(&core->event_log, event));
    if (trace[0] != '\0') {
        resp_key_text(writer, "trace", trace);
    }
}

/* Shows the newest events of one lock that fit, the oldest of them first. */
void lock_history_run(struct core *core, struct request *request)
{
    const struct call *call = request->call;
    const struct event_log *event_log = &core->event_log;
    uint64_t wanted = call_number(call, OPTION_COUNT, HISTORY_SHOWN);
    wanted = wanted < HISTORY_SHOWN_MAX ? wanted : HISTORY_SHOWN_MAX;
    size_t begins[HISTORY_SHOWN_MAX + 1] = {0};
    uint64_t at = event_log->next, steps = 0;
    struct rows rows;
    rows_begin(&rows, request, (uint32_t)wanted, ROWS_SIZE_MAX);
    while (rows_have_room(&rows) &&
           event_log_find(event_log, call->name, at, &at, &steps)) {
        history_put(core, event_log_event(event_log, at), &rows.writer);
        if (rows_keep(&rows)) {
            begins[rows.count] = rows.kept;
        }
    }
    /* Passing over events of other locks is work, too. */
    command_spend(core, steps / EVENTS_PER_UNIT + rows.count);
    struct resp_writer *writer = request_reply(core, request);
    resp_map(writer, 4);
    resp_key_bulk(writer, "lock", call->name);
    resp_key_number(writer, "known_from", event_log->missing.index + 1);
    resp_key_bool(writer, "is_cut", rows.is_full);
    resp_key_array(writer, "events", rows.count);
    for (uint32_t i = rows.count; i > 0; i--) {
        buffer_put(writer->out, rows.out.data + begins[i - 1],
                   begins[i] - begins[i - 1]);
    }
    rows_done(core, &rows);
    request_done(core, request);
}

void lock_unwatch_run(struct core *core, struct request *request)
{
    struct watch *watch = watch_find(core, request->conn, WATCH_PREFIX,
                                     request->call->name);
    if (watch != NULL) {
        watch_drop(core, watch);
    }
    request_answer_ok(core, request);
}

/* Confirms one channel; the confirmations of all channels are in the slot of
 * the command. */
static void channel_confirm(const struct request *request,
                            struct resp_writer *writer, const char *word,
                            struct bytes channel, bool has_channel)
{
    resp_push(writer, 3);
    resp_text(writer, word);
    if (has_channel) {
        resp_bulk(writer, channel);
    } else {
        resp_null(writer);
    }
    resp_integer(writer, request->conn->channel_count);
}

/* Refuses one channel, in the same slot. */
static void channel_refuse(struct core *core, const struct request *request,
                           struct resp_writer *writer, enum core_word word,
                           const char *why)
{
    const struct buffer *out = writer->out;
    size_t start = out->size;
    word_put(writer, word, "%s", why);
    stats_refused(core, request, word,
                  bytes_of(out->data + start, out->size - start));
}

static void channels_subscribe(struct core *core, struct request *request,
                               const struct call *call, enum watch_kind kind,
                               const char *word)
{
    struct conn *conn = request->conn;
    CHECK(conn != NULL && kind != WATCH_PREFIX);
    struct resp_writer *writer = request_reply(core, request);
    for (uint32_t i = 1; i < call->count; i++) {
        const char *why;
        enum core_word refusal = watch_add(core, conn, kind, call->argument[i],
                                           &why);
        if (refusal == WORD_NONE) {
            channel_confirm(request, writer, word, call->argument[i], true);
        } else {
            channel_refuse(core, request, writer, refusal, why);
        }
    }
    request_done(core, request);
}

static void channels_unsubscribe(struct core *core, struct request *request,
                                 const struct call *call, enum watch_kind kind,
                                 const char *word)
{
    struct conn *conn = request->conn;
    bool has_any = false;
    CHECK(conn != NULL && kind != WATCH_PREFIX);
    struct resp_writer *writer = request_reply(core, request);
    for (uint32_t i = 1; i < call->count; i++) {
        struct watch *watch = watch_find(core, conn, kind, call->argument[i]);
        if (watch != NULL) {
            watch_drop(core, watch);
        }
        channel_confirm(request, writer, word, call->argument[i], true);
        has_any = true;
    }
    if (call->count == 1) {
        LIST_FOR_SAFE (struct watch, watch, &conn->watches, in_conn) {
            if (watch->of.pattern->kind == kind) {
                struct buffer text = {0};
                /* Copied, because the last watch_drop() frees the pattern's
                 * text. */
                buffer_put_bytes(&text, watch_text(watch));
                watch_drop(core, watch);
                channel_confirm(request, writer, word, buffer_bytes(&text),
                                true);
                buffer_done(&text);
                has_any = true;
            }
        }
    }
    if (!has_any) {
        channel_confirm(request, writer, word, (struct bytes){NULL, 0}, false);
    }
    request_done(core, request);
}

bool watch_texts_check(struct call *call, struct resp_writer *writer)
{
    for (uint32_t i = 1; i < call->count; i++) {
        if (call->argument[i].size > WATCH_SIZE_MAX) {
            return call_fail(call, writer,
                             "a channel or pattern has at most 516 bytes");
        }
    }
    return true;
}

void subscribe_run(struct core *core, struct request *request)
{
    channels_subscribe(core, request, request->call, WATCH_CHANNEL,
                       "subscribe");
}

void unsubscribe_run(struct core *core, struct request *request)
{
    channels_unsubscribe(core, request, request->call, WATCH_CHANNEL,
                         "unsubscribe");
}

void psubscribe_run(struct core *core, struct request *request)
{
    channels_subscribe(core, request, request->call, WATCH_PATTERN,
                       "psubscribe");
}

void punsubscribe_run(struct core *core, struct request *request)
{
    channels_unsubscribe(core, request, request->call, WATCH_PATTERN,
                         "punsubscribe");
}
