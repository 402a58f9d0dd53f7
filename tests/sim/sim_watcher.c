/* SPDX-License-Identifier: MIT */

#include "tests/sim/sim_watcher.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/memory.h"
#include "client/reply.h"
#include "tests/sim/sim_check.h"
#include "tests/sim/sim_events.h"
#include "tests/sim/sim_node.h"
#include "tests/sim/sim_worker.h"

#define NOT_ASKED UINT64_MAX
/* If more would have to be sent again, `gap` is allowed. */
#define AGAIN_COUNT_MAX 2048
#define ANSWER_NS (4 * SIM_S)

static bool is_text(struct bytes bytes, const char *text)
{
    return bytes_equal(bytes, bytes_of_text(text));
}

static struct sim *sim_of(const struct sim_watcher *watcher)
{
    return watcher->client->sim;
}

static struct sim_events *events_of(const struct sim_watcher *watcher)
{
    return sim_check_events(sim_of(watcher));
}

static const char *name_of(const struct sim_watcher *watcher)
{
    return watcher->client->host.name;
}

/* --- The expected next event -----------------------------------------------
 */

static bool fits(const struct sim_watcher *watcher,
                 const struct log_event *event)
{
    return bytes_has_prefix(event->lock, bytes_of_text(watcher->prefix));
}

/* The first event that fits, from 'number' on; their count if there is none. */
static uint64_t first_fitting(const struct sim_watcher *watcher,
                              uint64_t number)
{
    const struct sim_events *events = events_of(watcher);
    while (number < sim_events_count(events) &&
           !fits(watcher, sim_events_at(events, number))) {
        number++;
    }
    return number;
}

static uint32_t node_number(const struct sim_watcher *watcher)
{
    return watcher->channel.wire->host[1];
}

static bool is_same_process(const struct sim_watcher *watcher)
{
    struct sim *sim = sim_of(watcher);
    return sim_node_core(sim->node[node_number(watcher)]) != NULL &&
           sim_events_process(events_of(watcher), node_number(watcher)) ==
               watcher->process;
}

static uint64_t applied_of(const struct sim_watcher *watcher)
{
    struct sim *sim = sim_of(watcher);
    struct sim_node *node = sim->node[node_number(watcher)];
    struct core *core = sim_node_core(node);
    return core != NULL
               ? sim_check_place(sim, node,
                                 lockfsm_applied_index(core_state(core)))
               : 0;
}

/* The least and the most that the node can have applied when it answered. */
static uint64_t applied_at_most(const struct sim_watcher *watcher)
{
    return is_same_process(watcher) ? applied_of(watcher)
                                    : sim_check_newest(sim_of(watcher));
}

/* The answer to WATCH has arrived. Its first event may be any that the node
 * applied during the request. With FROM it is the next one, unless the node has
 * applied less and sends some again. */
static void begin_to_watch(struct sim_watcher *watcher)
{
    const struct sim_events *events = events_of(watcher);
    watcher->is_watching = true;
    sim_users_read(sim_of(watcher), name_of(watcher),
                   &watcher->channel.wire->shown,
                   bytes_of_text(watcher->prefix), READS_PREFIX,
                   watcher->channel.sent_applied, applied_at_most(watcher));
    watcher->watched_from = watcher->known_from;
    watcher->low = sim_events_behind(events, watcher->applied);
    watcher->high = sim_events_behind(events, applied_at_most(watcher));
    if (watcher->from != NOT_ASKED) {
        watcher->high = watcher->from;
        watcher->low = watcher->from < watcher->low ? watcher->from
                                                    : watcher->low;
    }
}

static void take_event(struct sim_watcher *watcher, uint64_t number)
{
    const struct sim_events *events = events_of(watcher);
    const struct log_event *event = sim_events_at(events, number);
    uint64_t next = first_fitting(watcher, watcher->high);
    if (watcher->is_of_other_life) {
        sim_fail(sim_of(watcher), ORACLE_EVENTS,
                 "a watcher from another life gets a gap: %s gets %s of '%.*s' "
                 "by entry %" PRIu64,
                 name_of(watcher), event->kind, (int)event->lock.size,
                 event->lock.data, event->index);
    } else if (!watcher->is_watching || !fits(watcher, event)) {
        sim_fail(sim_of(watcher), ORACLE_EVENTS,
                 "a watcher gets only what it watches: %s gets '%.*s' by entry "
                 "%" PRIu64,
                 name_of(watcher), (int)event->lock.size, event->lock.data,
                 event->index);
    } else if (number < watcher->low) {
        sim_fail(
            sim_of(watcher), ORACLE_EVENTS,
            "no event is sent twice: %s gets %s of '%.*s' by entry %" PRIu64
            " again",
            name_of(watcher), event->kind, (int)event->lock.size,
            event->lock.data, event->index);
    } else if (number > next) {
        const struct log_event *left_out = sim_events_at(events, next);
        sim_fail(sim_of(watcher), ORACLE_EVENTS,
                 "no event is left out: %s gets %s of '%.*s' by entry %" PRIu64
                 " and not %s of '%.*s' by entry %" PRIu64 " before it",
                 name_of(watcher), event->kind, (int)event->lock.size,
                 event->lock.data, event->index, left_out->kind,
                 (int)left_out->lock.size, left_out->lock.data,
                 left_out->index);
    }
    sim_of(watcher)->stats.events++;
    sim_users_read(sim_of(watcher), name_of(watcher),
                   &watcher->channel.wire->shown,
                   bytes_of_text(watcher->prefix), READS_PREFIX,
                   event->index - 1, sim_check_newest(sim_of(watcher)));
    watcher->low = watcher->high = number + 1;
    if (!watcher->has_known || watcher->known < number) {
        watcher->has_known = true;
        watcher->known = number;
    }
}

/* A gap is correct for events that this process cannot know or need not send
 * again because there are too many, and whenever it has installed a snapshot.
 * The events after it are then those after its index. */
static void take_gap(struct sim_watcher *watcher, uint64_t log_index,
                     struct bytes id)
{
    struct sim *sim = sim_of(watcher);
    const struct sim_events *events = events_of(watcher);
    uint64_t place = sim_check_place_in(sim, watcher->life, log_index);
    uint64_t from = watcher->high > 0
                        ? sim_events_at(events, watcher->high - 1)->place
                        : 0;
    uint64_t known_from = sim_events_known_from(events, node_number(watcher));
    bool is_much = sim_events_count(events) - watcher->low > AGAIN_COUNT_MAX;
    bool has_installed = known_from != watcher->watched_from;
    /* Before the first BEGIN a node does not know of any life. */
    bool has_life = !bytes_has_prefix(id, BYTES_LITERAL("0-"));
    sim->stats.gaps++;
    if (!watcher->is_watching ||
        (is_same_process(watcher) && known_from < from && !is_much &&
         has_life && !has_installed && !watcher->is_of_other_life)) {
        sim_fail(sim, ORACLE_EVENTS,
                 "a reported gap is one: %s gets one after place %" PRIu64
                 ", and the node knows everything after %" PRIu64,
                 name_of(watcher), from, known_from);
    } else if (place > applied_at_most(watcher)) {
        sim_fail(sim, ORACLE_EVENTS,
                 "a gap ends where the node is: %s gets %" PRIu64,
                 name_of(watcher), log_index);
    }
    watcher->is_of_other_life = false;
    watcher->watched_from = known_from;
    watcher->low = watcher->high = sim_events_behind(events, place);
    if (watcher->low > 0) {
        watcher->has_known = true;
        watcher->known = watcher->low - 1;
    }
}

/* --- The events that arrive ------------------------------------------------
 */

static bool is_told_so(const struct log_event *event, struct bytes kind,
                       const struct resp_reply *reply, uint32_t map)
{
    return is_text(kind, event->kind) &&
           reply_number(reply, map, "session") == event->session &&
           reply_number(reply, map, "token") == event->token &&
           bytes_equal(reply_text(reply, map, "message"), event->message);
}

static void fail_other(struct sim_watcher *watcher, struct bytes what,
                       struct bytes id)
{
    sim_fail(sim_of(watcher), ORACLE_EVENTS,
             "an event is that of the log: %s gets '%.*s' with id '%.*s'",
             name_of(watcher), (int)what.size, (const char *)what.data,
             (int)id.size, (const char *)id.data);
}

/* [lock, kind, {lock, session, token, index, message, id}] */
static void take_push(struct sim_watcher *watcher,
                      const struct resp_reply *reply)
{
    struct bytes kind = reply->value[2].bytes;
    struct bytes id = reply_text(reply, 3, "id");
    uint64_t index = reply_number(reply, 3, "index");
    const struct sim_events *events = events_of(watcher);
    uint64_t number;
    if (is_text(kind, "gap")) {
        take_gap(watcher, index, id);
        return;
    }
    if (!sim_events_find(events, id, &number)) {
        fail_other(watcher, kind, id);
        return;
    }
    const struct log_event *event = sim_events_at(events, number);
    if (!is_told_so(event, kind, reply, 3) || event->index != index ||
        !bytes_equal(reply_text(reply, 3, "lock"), event->lock)) {
        fail_other(watcher, kind, id);
        return;
    }
    take_event(watcher, number);
}

/* The text after the last "id":" of an object, without its end. */
static struct bytes id_in(struct bytes json)
{
    static const char mark[] = "\"id\":\"";
    for (size_t at = json.size; at-- > 0;) {
        struct bytes rest = bytes_of(json.data + at, json.size - at);
        if (bytes_has_prefix(rest, bytes_of_text(mark))) {
            size_t size = sizeof mark - 1;
            return rest.size < size + 2
                       ? bytes_of_text("")
                       : bytes_of(rest.data + size, rest.size - size - 2);
        }
    }
    return bytes_of_text("");
}

/* The number after "index": in an object. */
static uint64_t index_in(struct bytes json)
{
    char text[512] = "";
    uint64_t index = 0;
    memcpy(text, json.data, json.size < 511 ? json.size : 511);
    const char *at = strstr(text, "\"index\":");
    return at != NULL && sscanf(at, "\"index\":%" SCNu64, &index) == 1 ? index
                                                                       : 0;
}

/* pmessage, pattern, channel, object: byte for byte as expected. */
static void take_message(struct sim_watcher *watcher,
                         const struct resp_reply *reply)
{
    const struct sim_events *events = events_of(watcher);
    struct bytes json = reply->value[4].bytes;
    struct bytes id = id_in(json);
    char expected[512];
    uint64_t number;
    if (bytes_has_prefix(json, BYTES_LITERAL("{\"kind\":\"gap\""))) {
        take_gap(watcher, index_in(json), id);
        return;
    }
    if (!sim_events_find(events, id, &number)) {
        fail_other(watcher, json, id);
        return;
    }
    const struct log_event *event = sim_events_at(events, number);
    snprintf(expected, sizeof expected,
             "{\"kind\":\"%s\",\"lock\":\"%.*s\",\"session\":%" PRIu64
             ",\"token\":%" PRIu64 ",\"index\":%" PRIu64
             ",\"message\":\"%.*s\",\"id\":\"%.*s\"}",
             event->kind, (int)event->lock.size, event->lock.data,
             event->session, event->token, event->index,
             (int)event->message.size, (const char *)event->message.data,
             (int)id.size, id.data);
    if (!is_text(json, expected)) {
        fail_other(watcher, json, id);
        return;
    }
    take_event(watcher, number);
}

static bool is_message(const struct resp_reply *reply)
{
    return reply->value[0].type == RESP_ARRAY && reply->value[0].count == 4 &&
           is_text(reply->value[1].bytes, "pmessage");
}

static bool pushed(struct sim_channel *channel)
{
    struct sim_watcher *watcher = LIST_ENTRY(channel, struct sim_watcher,
                                             channel);
    const struct resp_reply *reply = &channel->reply;
    if (watcher->is_json && is_message(reply)) {
        take_message(watcher, reply);
        return true;
    }
    if (reply->value[0].type != RESP_PUSH) {
        return false;
    }
    take_push(watcher, reply);
    return true;
}

/* --- The history of a lock ------------------------------------------------ */

/* The event of 'lock' before 'number' (exclusive); UINT64_MAX: none. */
static uint64_t before(const struct sim_watcher *watcher, uint64_t number)
{
    const struct sim_events *events = events_of(watcher);
    while (number-- > 0) {
        if (bytes_equal(sim_events_at(events, number)->lock,
                        sim_lock_bytes(watcher->lock))) {
            return number;
        }
    }
    return UINT64_MAX;
}

static void fail_history(struct sim_watcher *watcher, const char *what,
                         uint64_t index)
{
    sim_fail(sim_of(watcher), ORACLE_EVENTS,
             "the history of a lock is that of the log: %s is shown that of "
             "'%s', and %s (entry %" PRIu64 ")",
             name_of(watcher), sim_lock_name(watcher->lock), what, index);
}

/* From the newest to the oldest, each has to be the one before. */
static void check_history(struct sim_watcher *watcher, const uint32_t *at,
                          uint32_t count, uint64_t known_from)
{
    const struct sim_events *events = events_of(watcher);
    const struct resp_reply *reply = &watcher->channel.reply;
    uint64_t number = sim_events_behind(events, applied_at_most(watcher));
    uint64_t next = UINT64_MAX;
    for (uint32_t i = count; i-- > 0; next = number) {
        struct bytes id = reply_text(reply, at[i], "id");
        uint64_t expected = before(watcher, number), newest = expected;
        bool is_found = sim_events_find(events, id, &number);
        if (!is_found || number > newest ||
            !is_told_so(sim_events_at(events, number),
                        reply_text(reply, at[i], "kind"), reply, at[i])) {
            fail_history(watcher, "an event is another one", expected);
            return;
        }
        /* The node need not have applied more than the newest event that it
         * shows. */
        bool may_miss = next == UINT64_MAX && number < expected &&
                        before(watcher,
                               sim_events_behind(events, watcher->applied)) <=
                            number;
        if (number != expected && !may_miss) {
            fail_history(watcher, "an event is left out",
                         sim_events_at(events, expected)->index);
            return;
        }
    }
    uint64_t oldest = before(
        watcher,
        count > 0 ? number : sim_events_behind(events, watcher->applied));
    if (count < watcher->count && oldest != UINT64_MAX &&
        sim_events_at(events, oldest)->place >= known_from) {
        fail_history(watcher, "an event is left out",
                     sim_events_at(events, oldest)->index);
    }
}

static void take_history(struct sim_watcher *watcher)
{
    uint32_t at[100], first = 0;
    const struct resp_reply *reply = &watcher->channel.reply;
    uint64_t known_from = sim_check_place_in(
        sim_of(watcher), watcher->life, reply_number(reply, 0, "known_from"));
    uint32_t count = reply_array(reply, 0, "events", &first);
    CHECK(watcher->count <= 100);
    sim_users_read(sim_of(watcher), name_of(watcher),
                   &watcher->channel.wire->shown, sim_lock_bytes(watcher->lock),
                   READS_LOCK, watcher->channel.sent_applied,
                   applied_at_most(watcher));
    if (count > watcher->count) {
        fail_history(watcher, "there is more than was asked for", count);
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        at[i] = first;
        first += reply->value[first].span;
    }
    /* The start of its knowledge when it got the request, or a snapshot
     * installed since. */
    if (is_same_process(watcher) &&
        (known_from <= watcher->known_from ||
         known_from >
             sim_events_known_from(events_of(watcher), node_number(watcher)) +
                 1)) {
        fail_history(watcher, "the reported gap is wrong", known_from);
    }
    sim_of(watcher)->stats.reads++;
    check_history(watcher, at, count, known_from);
}

/* --- Asking --------------------------------------------------------------- */

static void think(struct sim_watcher *watcher, uint64_t high_ms)
{
    struct sim *sim = sim_of(watcher);
    watcher->asked = WATCHER_NONE;
    watcher->think_until_ns = sim->now_ns +
                              sim_between(sim, 0, high_ms) * SIM_MS;
}

static void put_from(struct sim_watcher *watcher)
{
    struct sim_channel *channel = &watcher->channel;
    const struct sim_events *events = events_of(watcher);
    const struct log_event *known = sim_events_at(events, watcher->known);
    bool is_whole = sim_chance(sim_of(watcher), 0.3);
    char id[64];
    snprintf(id, sizeof id, "%" PRIu64 "-%" PRIu64, known->life, known->index);
    if (!is_whole) {
        snprintf(id + strlen(id), sizeof id - strlen(id), "-%" PRIu32,
                 known->ordinal);
    }
    watcher->from = is_whole ? sim_events_behind(events, known->place)
                             : watcher->known + 1;
    watcher->is_of_other_life = sim_check_life_at(sim_of(watcher),
                                                  known->place) !=
                                watcher->life;
    sim_channel_word(channel, "FROM");
    sim_channel_word(channel, id);
}

static void ask_to_watch(struct sim_watcher *watcher)
{
    static const char *const prefixes[] = {"", "l", "s", "k", "r", "l0", "s0"};
    struct sim *sim = sim_of(watcher);
    struct sim_channel *channel = &watcher->channel;
    bool comes_back = !watcher->is_json && watcher->has_known &&
                      sim_chance(sim, 0.8);
    watcher->asked = WATCHER_WATCH;
    watcher->from = NOT_ASKED;
    watcher->is_of_other_life = false;
    if (!comes_back) {
        watcher->prefix = prefixes[prng_below(&sim->prng, 7)];
    }
    if (watcher->is_json) {
        char pattern[32];
        snprintf(pattern, sizeof pattern, "lock:%s*", watcher->prefix);
        sim_channel_begin(channel, 2);
        sim_channel_word(channel, "PSUBSCRIBE");
        sim_channel_word(channel, pattern);
        return;
    }
    sim_channel_begin(channel, comes_back ? 4 : 2);
    sim_channel_word(channel, "LOCK.WATCH");
    sim_channel_word(channel, watcher->prefix);
    if (comes_back) {
        put_from(watcher);
    }
}

static void ask_history(struct sim_watcher *watcher)
{
    struct sim *sim = sim_of(watcher);
    struct sim_channel *channel = &watcher->channel;
    watcher->asked = WATCHER_HISTORY;
    watcher->lock = (uint32_t)prng_below(&sim->prng,
                                         watcher->client->lock_count);
    watcher->count = sim_between(sim, 1, 100);
    sim_channel_begin(channel, 4);
    sim_channel_word(channel, "LOCK.HISTORY");
    sim_channel_word(channel, sim_lock_name(watcher->lock));
    sim_channel_word(channel, "COUNT");
    sim_channel_number(channel, watcher->count);
}

static void ask_to_leave_off(struct sim_watcher *watcher)
{
    struct sim_channel *channel = &watcher->channel;
    watcher->asked = WATCHER_UNWATCH;
    sim_channel_begin(channel, watcher->is_json ? 1 : 2);
    sim_channel_word(channel,
                     watcher->is_json ? "PUNSUBSCRIBE" : "LOCK.UNWATCH");
    if (!watcher->is_json) {
        sim_channel_word(channel, watcher->prefix);
    }
}

static void ask_to_watch_too(struct sim_watcher *watcher)
{
    char prefix[16];
    snprintf(prefix, sizeof prefix, "%sl", watcher->prefix);
    watcher->asked = WATCHER_WATCH_TOO;
    sim_channel_begin(&watcher->channel, 2);
    sim_channel_word(&watcher->channel, "LOCK.WATCH");
    sim_channel_word(&watcher->channel, prefix);
}

/* A client with two watches also closes the connection when it ends them. */
static void ask_something(struct sim_watcher *watcher)
{
    struct sim_channel *channel = &watcher->channel;
    uint64_t dice = prng_below(&sim_of(watcher)->prng, 100);
    if (watcher->client->is_draining || dice < 30) {
        watcher->asked = WATCHER_PING;
        sim_channel_begin(channel, 1);
        sim_channel_word(channel, "PING");
    } else if (dice < 50 || watcher->is_json) {
        if (dice < 60) {
            sim_channel_close(channel);
            return;
        }
        ask_to_leave_off(watcher);
    } else if (dice < 65) {
        ask_to_leave_off(watcher);
    } else if (dice < 75) {
        ask_to_watch_too(watcher);
    } else {
        ask_history(watcher);
    }
}

static void ask(struct sim_watcher *watcher)
{
    struct sim_channel *channel = &watcher->channel;
    const struct sim_events *events = events_of(watcher);
    uint32_t node = node_number(watcher);
    watcher->life = sim_node_life(sim_of(watcher)->node[node]);
    watcher->process = sim_events_process(events, node);
    watcher->known_from = sim_events_known_from(events, node);
    watcher->applied = applied_of(watcher);
    if (!watcher->is_json && !watcher->is_greeted) {
        watcher->asked = WATCHER_HELLO;
        sim_channel_begin(channel, 2);
        sim_channel_word(channel, "HELLO");
        sim_channel_word(channel, "3");
    } else if (!watcher->is_watching) {
        ask_to_watch(watcher);
    } else {
        ask_something(watcher);
    }
    if (watcher->asked != WATCHER_NONE) {
        sim_note(sim_of(watcher), &watcher->client->host, "watcher",
                 watcher->asked, watcher->low, watcher->high);
        sim_channel_send(channel, sim_client_clock(watcher->client), ANSWER_NS);
    }
}

/* --- Answers -------------------------------------------------------------- */

/* The node refuses by the rights that it has applied itself. */
static bool is_denied(struct sim_watcher *watcher, struct bytes text)
{
    const struct sim_channel *channel = &watcher->channel;
    char word[16] = "";
    memcpy(word, text.data, text.size < 6 ? text.size : 6);
    if (bytes_has_prefix(text, BYTES_LITERAL("NOLEADER this node has"))) {
        return true; /* It does not know whose rights were revoked. */
    }
    if (bytes_has_prefix(text,
                         BYTES_LITERAL("NOLEADER this node has not applied"))) {
        return true; /* Likewise, since it has started with an older state. */
    }
    if (!sim_users_is_refusal(word)) {
        return false;
    }
    sim_users_told(sim_of(watcher), name_of(watcher), &channel->wire->shown,
                   text, channel->sent_applied, channel->wire->accepted);
    sim_client_renew(watcher->client);
    return true;
}

static void take(struct sim_watcher *watcher)
{
    const struct resp_value *value = &watcher->channel.reply.value[0];
    if (value->type == RESP_ERROR && is_denied(watcher, value->bytes)) {
        sim_channel_close(&watcher->channel);
        think(watcher, 2000);
        return;
    }
    if (value->type == RESP_ERROR) {
        sim_fail(
            sim_of(watcher), ORACLE_REFUSALS,
            "errors are those of the contract: %s, which watches, got '%.*s'",
            name_of(watcher), (int)value->bytes.size,
            (const char *)value->bytes.data);
        return;
    }
    switch (watcher->asked) {
    case WATCHER_HELLO:
        watcher->is_greeted = true;
        think(watcher, 20);
        return;
    case WATCHER_WATCH:
        begin_to_watch(watcher);
        break;
    case WATCHER_UNWATCH:
        watcher->is_watching = false;
        /* The longer prefix may still be watched. */
        sim_channel_close(&watcher->channel);
        break;
    case WATCHER_HISTORY:
        take_history(watcher);
        break;
    default:
        break;
    }
    think(watcher, 3000);
}

void sim_watcher_init(struct sim_watcher *watcher, struct sim_client *client)
{
    struct sim *sim = client->sim;
    *watcher = (struct sim_watcher){.client = client, .from = NOT_ASKED};
    sim_channel_init(&watcher->channel, sim, &client->host);
    watcher->channel.pushed = pushed;
    watcher->is_there = sim_chance(sim, 0.5);
    watcher->is_json = sim_chance(sim, 0.25);
    watcher->prefix = "";
}

void sim_watcher_done(struct sim_watcher *watcher)
{
    sim_channel_done(&watcher->channel);
}

void sim_watcher_work(struct sim_watcher *watcher)
{
    struct sim_channel *channel = &watcher->channel;
    if (!watcher->is_there) {
        return;
    }
    while (channel->wire != NULL && sim_channel_take(channel)) {
        take(watcher);
    }
    sim_channel_watch(channel);
    if (channel->wire == NULL) {
        watcher->is_greeted = watcher->is_watching = false;
        watcher->asked = WATCHER_NONE;
    }
    if (watcher->asked == WATCHER_NONE &&
        sim_of(watcher)->now_ns >= watcher->think_until_ns &&
        sim_channel_is_ready(channel)) {
        ask(watcher);
    }
}

uint64_t sim_watcher_next(const struct sim_watcher *watcher)
{
    uint64_t at_ns = sim_channel_next(&watcher->channel);
    if (!watcher->is_there) {
        return UINT64_MAX;
    }
    return watcher->asked == WATCHER_NONE && watcher->think_until_ns > at_ns
               ? watcher->think_until_ns
               : at_ns;
}

bool sim_watcher_is_told(const struct sim_watcher *watcher)
{
    const struct sim_wire *wire = watcher->channel.wire;
    if (!watcher->is_there ||
        (wire != NULL &&
         !sim_check_is_member(sim_of(watcher),
                              sim_of(watcher)->node[wire->host[1]]))) {
        return true; /* A node that hears no member does not know either. */
    }
    return (watcher->is_watching && first_fitting(watcher, watcher->high) ==
                                        sim_events_count(events_of(watcher)));
}
