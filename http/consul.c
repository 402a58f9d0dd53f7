/* SPDX-License-Identifier: MIT */

/* Keys, and what all requests to the door have in common. */

#include "http/consul.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/base64.h"
#include "base/check.h"
#include "base/memory.h"
#include "base/minmax.h"
#include "base/units.h"
#include "core/core.h"
#include "http/bearer.h"
#include "http/exchange.h"
#include "http/uri.h"
#include "net/json.h"

#define VALUE_SIZE 4096
#define HISTORY_SHOWN 16
/* How long a GET waits if this node may not report a change. */
#define SHORT_NS NS_PER_S
#define LOCKS_ONLY "hasp keeps locks, not values: "

void consul_done(struct consul *consul)
{
    buffer_done(&consul->key);
    buffer_done(&consul->value);
}

static enum route_kind consul_kind(const struct exchange *exchange)
{
    return exchange->fields.route->kind;
}

static struct core *consul_core(const struct exchange *exchange)
{
    struct gateway *gateway = exchange->gateway;
    return gateway->port.core(gateway->port.data);
}

void consul_note_base(struct exchange *exchange)
{
    struct core *core = consul_core(exchange);
    /* Never 0, which would mean "do not wait". */
    exchange->consul.base = core != NULL ? u64_max(core_token_now(core), 1) : 1;
}

/* --- The query ------------------------------------------------------------ */

/* True if the query has this parameter, with its decoded value. */
static bool query_get(const struct exchange *exchange, const char *name,
                      struct buffer *ret_value)
{
    struct bytes query = exchange->query, key, value;
    buffer_clear(ret_value);
    while (uri_next(&query, &key, &value)) {
        if (bytes_equal(key, bytes_of_text(name))) {
            bool is_decoded = uri_decode(value, true, ret_value);
            CHECK(is_decoded); /* consul_begin() has checked all. */
            return true;
        }
    }
    return false;
}

static bool query_has(const struct exchange *exchange, const char *name)
{
    AUTO(buffer_done) struct buffer value = {0};
    return query_get(exchange, name, &value);
}

/* True if the parameter is given, and neither empty nor this text. */
static bool query_differs(const struct exchange *exchange, const char *name,
                          const char *text)
{
    AUTO(buffer_done) struct buffer value = {0};
    return query_get(exchange, name, &value) && value.size > 0 &&
           !bytes_equal(buffer_bytes(&value), bytes_of_text(text));
}

bool consul_rest(const struct exchange *exchange, const char *what,
                 struct buffer *out, struct problem *problem)
{
    size_t before = out->size;
    if (!uri_decode(exchange->match.rest, false, out)) {
        problem_set(problem, 400, "BADARG", NULL,
                    "the path has a '%%' without two hex digits");
        return false;
    }
    if (out->size > before &&
        memchr(out->data + before, '\0', out->size - before) != NULL) {
        problem_set(problem, 400, "BADARG", NULL, "%s has a zero byte", what);
        return false;
    }
    return true;
}

static bool query_is_good(const struct exchange *exchange)
{
    AUTO(buffer_done) struct buffer text = {0};
    struct bytes query = exchange->query, key, value;
    while (uri_next(&query, &key, &value)) {
        buffer_clear(&text);
        if (!uri_decode(value, true, &text)) {
            return false;
        }
    }
    return true;
}

/* --- Answers -------------------------------------------------------------- */

void consul_answer(struct exchange *exchange, unsigned status,
                   const char *content_type, struct buffer *body,
                   uint64_t index)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRIu64, index);
    struct http_reply reply = {.status = status,
                               .content_type = content_type,
                               .header = {{"X-Consul-Index", text},
                                          {"X-Consul-KnownLeader", "true"},
                                          {"X-Consul-LastContact", "0"}},
                               .body = *body};
    *body = (struct buffer){0};
    exchange_answer(exchange, &reply);
}

void consul_answer_text(struct exchange *exchange, unsigned status,
                        const char *text)
{
    struct http_reply reply = {
        .status = status,
        .content_type = status == 200 ? "application/json" : "text/plain"};
    buffer_put_text(&reply.body, text);
    exchange_answer(exchange, &reply);
}

void consul_answer_json(struct exchange *exchange, void *document)
{
    struct buffer body = {0};
    json_write(document, &body);
    consul_answer(exchange, 200, "application/json", &body,
                  u64_max(exchange->consul.base, 1));
}

static void answer_held(struct exchange *exchange)
{
    exchange->was_held = true;
    consul_answer_text(exchange, 200, "false");
}

static void consul_refuse_with(struct exchange *exchange, unsigned status,
                               const char *text)
{
    struct problem problem;
    problem_set(&problem, status, status == 400 ? "BADARG" : "ERR", NULL, "%s",
                text);
    exchange_refuse(exchange, &problem, NULL);
}

/* --- What LOCK.SHOW says -------------------------------------------------- */

struct consul_key {
    struct bytes name; /* With the prefix. */
    uint32_t holder;   /* Where the first holder is; 0: nobody holds it. */
    bool is_delayed;
    uint64_t token;
    struct consul_id id;
    struct bytes owner;
    struct bytes value;
    uint64_t count;
};

static void key_read(const struct resp_reply *show, uint32_t at,
                     struct consul_key *ret_key)
{
    uint32_t holder = show_holder(show, at);
    const struct resp_value *name = resp_find(show, at, "name");
    const struct resp_value *delay = resp_find(show, at, "delay_left_ms");
    struct consul_key key = {.name = name->bytes,
                             .is_delayed = delay->integer > 0};
    if (holder != 0) {
        key.holder = holder;
        key.is_delayed = false;
        key.owner = resp_find(show, holder, "owner")->bytes;
        key.value = resp_find(show, holder, "value")->bytes;
        key.token = (uint64_t)resp_find(show, holder, "token")->integer;
        key.count = (uint64_t)resp_find(show, holder, "count")->integer;
        key.id.session = (uint64_t)resp_find(show, holder, "session")->integer;
        key.id.random = consul_owner_random(key.owner);
    }
    *ret_key = key;
}

static bool key_is_ours(const struct exchange *exchange,
                        const struct consul_key *key)
{
    const struct consul_id *id = &exchange->consul.id;
    return key->holder != 0 && key->id.session == id->session &&
           key->id.random == id->random;
}

static uint64_t key_index(const struct exchange *exchange,
                          const struct consul_key *key)
{
    return key->holder != 0 ? key->token : exchange->consul.base;
}

static json_t *key_document(const struct exchange *exchange,
                            const struct consul_key *key)
{
    AUTO(buffer_done) struct buffer digits = {0};
    char session[CONSUL_ID_SIZE];
    size_t skipped = sizeof CONSUL_PREFIX - 1;
    uint64_t flags;
    struct bytes body = consul_value_get(key->value, &flags);
    json_int_t index = (json_int_t)key_index(exchange, key);
    json_t *document = json_pack("{sI, sI, sI}", "LockIndex", index,
                                 "CreateIndex", index, "ModifyIndex", index);
    json_put_text(document, "Key",
                  bytes_of(key->name.data + skipped, key->name.size - skipped));
    json_put(document, "Flags", json_integer((json_int_t)flags));
    base64_put(&digits, body);
    json_put(document, "Value",
             body.size > 0
                 ? json_stringn((const char *)digits.data, digits.size)
                 : json_null());
    consul_id_put(&key->id, session);
    json_put(document, "Session", json_string(session));
    return document;
}

/* --- PUT and DELETE ------------------------------------------------------- */

void consul_attach(struct exchange *exchange)
{
    struct words *step = exchange_step(exchange);
    char secret[CONSUL_SECRET_SIZE];
    consul_id_secret(&exchange->consul.id, secret);
    words_put_text(step, "SESSION.ATTACH");
    words_put_number(step, exchange->consul.id.session);
    words_put_text(step, secret);
    exchange->consul.stage = CONSUL_ATTACH;
}

static void put_look(struct exchange *exchange)
{
    struct words *step = exchange_step(exchange);
    struct bytes key = buffer_bytes(&exchange->consul.key);
    consul_note_base(exchange);
    words_put_text(step, exchange->consul.is_list ? "LOCK.LIST" : "LOCK.SHOW");
    if (exchange->consul.is_list) {
        words_put_text(step, "PREFIX");
        words_put(step, key);
        words_put_text(step, "COUNT");
        words_put_number(step, CONSUL_LIST_MAX);
    } else {
        words_put(step, key);
    }
    exchange->consul.stage = CONSUL_LOOK;
}

/* Adds a command of the session for its hold of the key. */
static struct words *put_step_of_hold(struct exchange *exchange,
                                      const char *command,
                                      enum consul_stage stage)
{
    struct words *step = exchange_step(exchange);
    char owner[CONSUL_OWNER_SIZE];
    consul_id_owner(&exchange->consul.id, owner);
    words_put_text(step, command);
    words_put(step, buffer_bytes(&exchange->consul.key));
    words_put_text(step, "OWNER");
    words_put_text(step, owner);
    exchange->consul.stage = stage;
    return step;
}

static void put_acquire(struct exchange *exchange)
{
    struct words *step = put_step_of_hold(exchange, "LOCK.ACQUIRE",
                                          CONSUL_ACQUIRE);
    words_put_text(step, "VALUE");
    words_put(step, buffer_bytes(&exchange->consul.value));
    words_put_text(step, "DELAY");
    words_put_number(step, exchange->consul.delay_ms);
    words_put_text(step, "FULL");
}

static void consul_put_release(struct exchange *exchange, uint64_t token,
                               enum consul_stage stage)
{
    struct words *step = put_step_of_hold(exchange, "LOCK.RELEASE", stage);
    words_put_text(step, "TOKEN");
    words_put_number(step, token);
}

static bool put_refuse(struct problem *problem, const char *text)
{
    problem_set(problem, 400, "BADARG", NULL, "%s", text);
    return false;
}

/* Reads the key of PUT and DELETE. */
static bool put_read_key(struct exchange *exchange, struct problem *problem)
{
    struct buffer *key = &exchange->consul.key;
    buffer_put_text(key, CONSUL_PREFIX);
    return consul_rest(exchange, "the key", key, problem);
}

static bool put_read_value(struct exchange *exchange, struct problem *problem)
{
    AUTO(buffer_done) struct buffer text = {0};
    struct bytes body = http_body(exchange->raw_exchange);
    uint64_t flags = 0;
    if (query_get(exchange, "flags", &text) &&
        (!bytes_to_u64(buffer_bytes(&text), &flags) || flags > INT64_MAX)) {
        return put_refuse(problem, "flags must be from 0 to 2^63 - 1");
    }
    if (body.size > VALUE_SIZE - CONSUL_VALUE_HEAD) {
        problem_set(problem, 400, "BADARG", NULL,
                    "the value has %zu bytes; hasp keeps at most %d with a "
                    "lock",
                    body.size, VALUE_SIZE - CONSUL_VALUE_HEAD);
        return false;
    }
    consul_value_put(&exchange->consul.value, flags, body);
    return true;
}

static bool put_begin(struct exchange *exchange, struct problem *problem)
{
    AUTO(buffer_done) struct buffer text = {0};
    bool acquires = query_has(exchange, "acquire");
    bool releases = query_has(exchange, "release");
    bool compares = query_has(exchange, "cas");
    if (acquires + releases + compares > 1) {
        return put_refuse(problem, "Conflicting flags: one of acquire, release "
                                   "and cas is allowed");
    }
    if (!acquires && !releases) {
        return put_refuse(problem, LOCKS_ONLY "PUT needs acquire=SESSION or "
                                              "release=SESSION");
    }
    if (!put_read_key(exchange, problem) ||
        (acquires && !put_read_value(exchange, problem))) {
        return false;
    }
    query_get(exchange, acquires ? "acquire" : "release", &text);
    if (!consul_id_get(buffer_bytes(&text), &exchange->consul.id)) {
        problem_set(problem, 500, "NOSESSION", NULL, "invalid session '%.*s'",
                    (int)text.size, (const char *)text.data);
        return false;
    }
    consul_attach(exchange);
    return true;
}

static bool delete_begin(struct exchange *exchange, struct problem *problem)
{
    if (query_has(exchange, "recurse") || query_has(exchange, "cas")) {
        return put_refuse(problem,
                          LOCKS_ONLY "DELETE with recurse or cas is refused");
    }
    if (!put_read_key(exchange, problem)) {
        return false;
    }
    put_look(exchange);
    return true;
}

/* Takes what LOCK.SHOW says to an acquisition, before or after it. */
static void take_look_of_acquire(struct exchange *exchange,
                                 const struct consul_key *key)
{
    struct bytes value = buffer_bytes(&exchange->consul.value);
    if (!key_is_ours(exchange, key)) {
        if (key->holder == 0 && !key->is_delayed && !exchange->was_done) {
            put_acquire(exchange);
        } else {
            answer_held(exchange);
        }
    } else if (bytes_equal(key->value, value)) {
        consul_answer_text(exchange, 200, "true");
    } else {
        consul_refuse_with(
            exchange, 400,
            "hasp keeps the value and flags under which a lock was "
            "acquired: release it first");
    }
}

static void take_acquire(struct exchange *exchange,
                         const struct resp_reply *reply)
{
    if (reply->value[0].type != RESP_MAP) {
        answer_held(exchange);
        return;
    }
    uint64_t token = (uint64_t)resp_find(reply, 0, "token")->integer;
    exchange->was_done = true;
    if (resp_find(reply, 0, "count")->integer > 1) {
        /* Another request of this session was faster. */
        consul_put_release(exchange, token, CONSUL_UNDO);
    } else {
        consul_answer_text(exchange, 200, "true");
    }
}

static void take_look_of_release(struct exchange *exchange,
                                 const struct consul_key *key)
{
    if (key_is_ours(exchange, key)) {
        consul_put_release(exchange, key->token, CONSUL_RELEASE);
        exchange->consul.token = key->token;
    } else {
        answer_held(exchange);
    }
}

/* A hold that was acquired twice at once is released twice. */
static void take_release(struct exchange *exchange,
                         const struct resp_reply *reply)
{
    if (reply->value[0].integer == 0) {
        consul_answer_text(exchange, 200, "true");
    } else if (exchange->step_count < EXCHANGE_STEP_MAX) {
        consul_put_release(exchange, exchange->consul.token, CONSUL_RELEASE);
    } else {
        consul_refuse_with(exchange, 500,
                           "the session acquires this key at the same "
                           "time: release it again");
    }
}

static void take_look_of_delete(struct exchange *exchange,
                                const struct consul_key *key)
{
    if (key->holder == 0 && !key->is_delayed) {
        consul_answer_text(exchange, 200, "true");
    } else {
        consul_refuse_with(exchange, 400,
                           LOCKS_ONLY
                           "this key is held; release it, or destroy the "
                           "session that holds it");
    }
}

/* --- GET ------------------------------------------------------------------ */

/* Reads "index" and "wait". */
static bool get_read_wait(struct exchange *exchange, struct problem *problem)
{
    AUTO(buffer_done) struct buffer text = {0};
    struct consul *consul = &exchange->consul;
    uint64_t most = CONSUL_WAIT_MAX_S * NS_PER_S;
    consul->wait_ns = most;
    if (query_get(exchange, "index", &text) && text.size > 0 &&
        !bytes_to_u64(buffer_bytes(&text), &consul->wanted)) {
        return put_refuse(problem, "Invalid index");
    }
    if (query_get(exchange, "wait", &text) && text.size > 0 &&
        !consul_duration_get(buffer_bytes(&text), &consul->wait_ns)) {
        return put_refuse(problem, "Invalid wait time");
    }
    /* 0 is the default. An earlier answer is always allowed. */
    consul->wait_ns = consul->wait_ns == 0 ? most
                                           : u64_min(consul->wait_ns, most);
    return true;
}

static void get_subscribe(struct exchange *exchange)
{
    AUTO(buffer_done) struct buffer channel = {0};
    struct words *step = exchange_step(exchange);
    buffer_put_text(&channel, "lock:");
    buffer_put_bytes(&channel, buffer_bytes(&exchange->consul.key));
    words_put_text(step, "SUBSCRIBE");
    words_put(step, buffer_bytes(&channel));
    exchange->consul.stage = CONSUL_SUBSCRIBE;
}

static bool get_begin(struct exchange *exchange, struct problem *problem)
{
    struct consul *consul = &exchange->consul;
    const struct gateway *gateway = exchange->gateway;
    consul->is_list = query_has(exchange, "keys") ||
                      query_has(exchange, "recurse");
    buffer_put_text(&consul->key, CONSUL_PREFIX);
    if (query_has(exchange, "separator")) {
        return put_refuse(problem, "separator is not supported");
    }
    if (!consul_rest(exchange, "the key", &consul->key, problem) ||
        !get_read_wait(exchange, problem)) {
        return false;
    }
    if (consul->key.size == sizeof CONSUL_PREFIX - 1 && !consul->is_list) {
        return put_refuse(problem, "Missing key name");
    }
    consul->is_unwatched = consul->is_list ||
                           gateway->wait_count >= gateway->consul.waits_max;
    if (consul->wanted != 0 && !consul->is_unwatched) {
        get_subscribe(exchange);
    } else {
        put_look(exchange);
    }
    return true;
}

static void put_history(struct exchange *exchange)
{
    struct words *step = exchange_step(exchange);
    words_put_text(step, "LOCK.HISTORY");
    words_put(step, buffer_bytes(&exchange->consul.key));
    words_put_text(step, "COUNT");
    words_put_number(step, HISTORY_SHOWN);
    exchange->consul.stage = CONSUL_HISTORY;
}

/* True if an event of this kind changes what GET shows. Unknown ones do. */
static bool kind_is_change(struct bytes kind)
{
    static const char *const others[] = {"queued",   "wait-ended",
                                         "please",   "blacklisted",
                                         "breaking", "objected"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        if (bytes_equal(kind, bytes_of_text(others[i]))) {
            return false;
        }
    }
    return true;
}

/* The entry of an event: its id is "life-index-ordinal". */
static uint64_t event_index(struct bytes id)
{
    uint64_t index = UINT64_MAX;
    (void)bytes_cut(&id, '-');
    (void)bytes_to_u64(bytes_cut(&id, '-'), &index);
    return index;
}

/* True if the key may have changed after entry 'since': this node has applied
 * such an event, or may have forgotten one. */
static bool history_has_change(const struct resp_reply *reply, uint64_t since)
{
    const struct resp_value *events = resp_find(reply, 0, "events");
    const struct resp_value *from = resp_find(reply, 0, "known_from");
    uint32_t at = (uint32_t)(events - reply->value) + 1;
    uint64_t oldest = UINT64_MAX;
    if ((uint64_t)from->integer > since + 1) {
        return true;
    }
    for (uint32_t i = 0; i < events->count; i++) {
        uint64_t index = event_index(resp_find(reply, at, "id")->bytes);
        oldest = u64_min(oldest, index);
        if (index > since &&
            kind_is_change(resp_find(reply, at, "kind")->bytes)) {
            return true;
        }
        at += reply->value[at].span;
    }
    /* There may be older ones that were not shown. */
    return events->count == HISTORY_SHOWN && oldest > since;
}

static void take_history(struct exchange *exchange,
                         const struct resp_reply *reply)
{
    struct consul *consul = &exchange->consul;
    const struct core *core = consul_core(exchange);
    uint64_t base = core != NULL ? core_token_base(core) : 0;
    /* An index of an earlier epoch, or of another cluster, says nothing. */
    consul->has_changed |= consul->wanted < base ||
                           history_has_change(reply, consul->wanted - base);
    put_look(exchange);
}

static void answer_key(struct exchange *exchange, const struct consul_key *key)
{
    struct buffer body = {0};
    const char *type = "application/json";
    uint64_t index = key_index(exchange, key), flags;
    if (key->holder == 0 && !key->is_delayed) {
        consul_answer(exchange, 404, "text/plain", &body, index);
        return;
    }
    if (query_has(exchange, "raw")) {
        type = "application/octet-stream";
        buffer_put_bytes(&body, consul_value_get(key->value, &flags));
    } else {
        json_t *list = json_array();
        json_add(list, key_document(exchange, key));
        json_write(list, &body);
    }
    consul_answer(exchange, 200, type, &body, index);
}

/* 'is_short': this node is not sure to report a change. */
static void get_wait(struct exchange *exchange, bool is_short)
{
    struct gateway *gateway = exchange->gateway;
    struct consul *consul = &exchange->consul;
    uint64_t now_ns = gateway->port.now_ns(gateway->port.data);
    uint64_t due_ns = now_ns + consul->wait_ns;
    consul->stage = CONSUL_WAIT;
    consul->until_ns = consul->is_unwatched ? 0 : due_ns;
    if (is_short) {
        /* Spread, so that they do not all come back at once. */
        uint32_t random;
        core_random(consul_core(exchange), &random, sizeof random);
        due_ns = u64_min(due_ns,
                         now_ns + SHORT_NS / 2 + random % (SHORT_NS / 2));
    }
    exchange_wait(exchange, due_ns);
}

/* True if a GET with an index is answered now. */
static bool get_is_due(const struct exchange *exchange,
                       const struct consul_key *key)
{
    const struct consul *consul = &exchange->consul;
    if (consul->wanted == 0 || consul->is_last) {
        return true;
    }
    if (consul->is_unwatched) {
        return false;
    }
    return consul->has_changed ||
           (key->holder != 0 && key->token > consul->wanted);
}

static void take_look_of_get(struct exchange *exchange,
                             const struct consul_key *key)
{
    const struct consul *consul = &exchange->consul;
    if (get_is_due(exchange, key)) {
        answer_key(exchange, key);
    } else {
        /* If this node has not reached the index, it lags, or another cluster
         * gave it; then the client hears that the index goes back. */
        get_wait(exchange,
                 consul->is_unwatched || (consul->wanted > consul->base &&
                                          consul->wanted != key->token));
    }
}

static void take_list(struct exchange *exchange, const struct resp_reply *reply)
{
    const struct consul *consul = &exchange->consul;
    bool is_keys = query_has(exchange, "keys");
    struct buffer body = {0};
    if (consul->wanted != 0 && !consul->is_last) {
        get_wait(exchange, true);
        return;
    }
    if (!bytes_equal(reply->value[1].bytes, BYTES_LITERAL("0"))) {
        consul_refuse_with(exchange, 500,
                           "more than 1000 keys: ask for a longer prefix");
        return;
    }
    json_t *list = json_array();
    uint32_t at = 3;
    for (uint32_t i = 0; i < reply->value[2].count; i++) {
        struct consul_key key;
        key_read(reply, at, &key);
        at += reply->value[at].span;
        if (key.holder == 0 && !key.is_delayed) {
            continue; /* It has only a note, or waits. */
        }
        json_t *document = key_document(exchange, &key);
        json_t *name = json_object_get(document, "Key");
        if (!is_keys) {
            json_add(list, document);
            continue;
        }
        if (name != NULL) {
            json_add(list, json_incref(name));
        }
        json_decref(document);
    }
    if (json_array_size(list) == 0) {
        json_decref(list);
        consul_answer(exchange, 404, "text/plain", &body, consul->base);
    } else {
        consul_answer_json(exchange, list);
    }
}

static void take_look(struct exchange *exchange, const struct resp_reply *reply)
{
    struct consul_key key;
    if (exchange->consul.is_list) {
        take_list(exchange, reply);
        return;
    }
    key_read(reply, 0, &key);
    if (consul_kind(exchange) == ROUTE_CONSUL_GET) {
        take_look_of_get(exchange, &key);
    } else if (consul_kind(exchange) == ROUTE_CONSUL_DELETE) {
        take_look_of_delete(exchange, &key);
    } else if (query_has(exchange, "acquire")) {
        take_look_of_acquire(exchange, &key);
    } else {
        take_look_of_release(exchange, &key);
    }
}

/* --- The door ------------------------------------------------------------- */

static bool is_of_keys(const struct exchange *exchange)
{
    enum route_kind kind = consul_kind(exchange);
    return kind == ROUTE_CONSUL_GET || kind == ROUTE_CONSUL_PUT ||
           kind == ROUTE_CONSUL_DELETE;
}

static bool consul_begin(struct exchange *exchange, struct problem *problem)
{
    AUTO(bearer_done) struct bearer bearer;
    bearer_read(exchange->raw_exchange, BEARER_CONSUL, &bearer);
    if (bearer.is_ambiguous) {
        return put_refuse(problem, "two tokens that differ");
    }
    if (!query_is_good(exchange)) {
        return put_refuse(problem,
                          "the query has a '%' without two hex digits");
    }
    if (query_differs(exchange, "dc", exchange->gateway->consul.datacenter)) {
        problem_set(problem, 500, "ERR", NULL, "No path to datacenter");
        return false;
    }
    if (query_differs(exchange, "ns", "default") ||
        query_differs(exchange, "partition", "default") ||
        query_differs(exchange, "peer", "")) {
        return put_refuse(problem, "ns, partition and peer are not supported");
    }
    switch (consul_kind(exchange)) {
    case ROUTE_CONSUL_GET:
        return get_begin(exchange, problem);
    case ROUTE_CONSUL_PUT:
        return put_begin(exchange, problem);
    case ROUTE_CONSUL_DELETE:
        return delete_begin(exchange, problem);
    default:
        return consul_session_begin(exchange, problem);
    }
}

/* Asks for the session's lock-delay. */
static void put_show_session(struct exchange *exchange)
{
    struct words *step = exchange_step(exchange);
    words_put_text(step, "SESSION.SHOW");
    words_put_number(step, exchange->consul.id.session);
    exchange->consul.stage = CONSUL_SESSION;
}

static void consul_reply(struct exchange *exchange,
                         const struct resp_reply *reply)
{
    if (!is_of_keys(exchange)) {
        consul_session_reply(exchange, reply);
        return;
    }
    switch (exchange->consul.stage) {
    case CONSUL_ATTACH:
        if (query_has(exchange, "acquire")) {
            put_show_session(exchange);
        } else {
            put_look(exchange);
        }
        break;
    case CONSUL_SESSION:
        exchange->consul.delay_ms = consul_session_delay(reply);
        put_look(exchange);
        break;
    case CONSUL_LOOK:
        take_look(exchange, reply);
        break;
    case CONSUL_ACQUIRE:
        take_acquire(exchange, reply);
        break;
    case CONSUL_UNDO:
        put_look(exchange);
        break;
    case CONSUL_RELEASE:
        take_release(exchange, reply);
        break;
    case CONSUL_SUBSCRIBE:
        put_history(exchange);
        break;
    case CONSUL_HISTORY:
        take_history(exchange, reply);
        break;
    default:
        UNREACHABLE();
    }
}

static bool consul_fail(struct exchange *exchange,
                        const struct problem *problem)
{
    struct consul *consul = &exchange->consul;
    bool is_gone = strcmp(problem->code, "NOSESSION") == 0 ||
                   strcmp(problem->code, "EXPIRED") == 0;
    bool is_not_held = strcmp(problem->code, "NOTHELD") == 0;
    if (!is_of_keys(exchange)) {
        return consul_session_fail(exchange, problem);
    }
    if (is_gone && consul->id.session != 0) {
        char id[CONSUL_ID_SIZE], text[80];
        consul_id_put(&consul->id, id);
        snprintf(text, sizeof text, "invalid session '%s'", id);
        consul_refuse_with(exchange, 500, text);
        return true;
    }
    if (is_not_held && consul->stage == CONSUL_UNDO) {
        put_look(exchange);
        return true;
    }
    if (is_not_held && consul->stage == CONSUL_RELEASE) {
        answer_held(exchange);
        return true;
    }
    if (consul->stage == CONSUL_SUBSCRIBE && problem->status == 429) {
        consul->is_unwatched = true;
        put_look(exchange);
        return true;
    }
    return false;
}

/* True if the JSON of an event says that the key has changed after the index
 * for which the client asks. A node that lags reports older ones, too. */
static bool message_is_change(const struct exchange *exchange,
                              struct bytes text)
{
    const struct core *core = consul_core(exchange);
    json_error_t error;
    json_t *event = json_loadb((const char *)text.data, text.size, 0, &error);
    const char *kind = json_string_value(json_object_get(event, "kind"));
    const json_t *index = json_object_get(event, "index");
    bool is_change = kind == NULL || kind_is_change(bytes_of_text(kind));
    if (core != NULL && json_is_integer(index) &&
        strcmp(kind != NULL ? kind : "gap", "gap") != 0) {
        is_change &= core_token_base(core) +
                         (uint64_t)json_integer_value(index) >
                     exchange->consul.wanted;
    }
    json_decref(event);
    return is_change;
}

static bool consul_push(struct exchange *exchange,
                        const struct resp_reply *reply)
{
    struct consul *consul = &exchange->consul;
    if (reply->count < 4) {
        return false;
    }
    if (bytes_equal(reply->value[1].bytes, BYTES_LITERAL("subscribe"))) {
        return consul->stage == CONSUL_SUBSCRIBE;
    }
    if (!message_is_change(exchange, reply->value[3].bytes)) {
        return false;
    }
    consul->has_changed = true;
    if (exchange->is_waiting) {
        exchange_end_wait(exchange);
        consul->is_last = true;
        put_look(exchange);
    }
    return false;
}

static void consul_due(struct exchange *exchange)
{
    struct consul *consul = &exchange->consul;
    struct gateway *gateway = exchange->gateway;
    const struct core *core = consul_core(exchange);
    if (gateway->port.now_ns(gateway->port.data) < consul->until_ns &&
        core != NULL && core_token_now(core) >= consul->wanted) {
        /* This node has caught up with the client. */
        exchange_wait(exchange, consul->until_ns);
        return;
    }
    consul->is_last = true;
    put_look(exchange);
}

static void consul_refuse(const struct problem *problem,
                          struct http_reply *reply)
{
    bool is_wrong = strcmp(problem->code, "WRONGPASS") == 0;
    unsigned status = problem->status;
    switch (status) {
    case 401:
        status = 403;
        break;
    case 400:
    case 403:
        break;
    case 404:
        /* An unknown path; otherwise a session. */
        status = strcmp(problem->code, "BADARG") == 0 ? 404 : 500;
        break;
    case 429:
        status = 500;
        break;
    default:
        status = status >= 500 ? 500 : 400;
    }
    reply->status = status;
    reply->content_type = "text/plain";
    /* A text that no client can take for JSON. */
    if (is_wrong) {
        buffer_put_text(&reply->body, "ACL not found");
    } else if (status == 403) {
        buffer_printf(&reply->body, "Permission denied: %s", problem->detail);
    } else if (strcmp(problem->code, "ERR") == 0 ||
               strcmp(problem->code, "BADARG") == 0 ||
               strcmp(problem->code, "NOSESSION") == 0) {
        buffer_put_text(&reply->body, problem->detail);
    } else {
        buffer_printf(&reply->body, "%s: %s", problem->code, problem->detail);
    }
}

const struct door door_consul = {.name = "consul",
                                 .begin = consul_begin,
                                 .reply = consul_reply,
                                 .refuse = consul_refuse,
                                 .fail = consul_fail,
                                 .push = consul_push,
                                 .due = consul_due,
                                 .has_own_guard = true,
                                 .reads_all = true};
