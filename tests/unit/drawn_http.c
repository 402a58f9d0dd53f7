/* SPDX-License-Identifier: MIT */

#include "tests/unit/drawn_http.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/memory.h"
#include "http/consul_format.h"
#include "http/routes.h"
#include "net/json.h"

#define SECRET "00000000000000000000000000000000"

struct http_exchange {
    const char *method;
    struct buffer target; /* With a zero at its end. */
    struct buffer body;
    struct buffer stream;
    char session[128];
    const char *bearer; /* Or NULL. */
    void *owner;
    bool is_answered;
    bool is_stream;
};

/* --- In place of net/http.c ----------------------------------------------- */

const char *http_method(const struct http_exchange *exchange)
{
    return exchange->method;
}

const char *http_target(const struct http_exchange *exchange)
{
    return (const char *)exchange->target.data;
}

struct bytes http_body(const struct http_exchange *exchange)
{
    return buffer_bytes(&exchange->body);
}

const char *http_address(const struct http_exchange *exchange)
{
    (void)exchange;
    return "127.0.0.1:1";
}

const struct tls_identity *http_identity(const struct http_exchange *exchange)
{
    (void)exchange;
    return NULL;
}

const char *http_header(const struct http_exchange *exchange, const char *name)
{
    if (strcmp(name, "Host") == 0) {
        return "127.0.0.1:1";
    }
    if (strcmp(name, "Content-Type") == 0) {
        return "application/json";
    }
    if (strcmp(name, "Hasp-Session") == 0) {
        return exchange->session;
    }
    return strcmp(name, "Authorization") == 0 ? exchange->bearer : NULL;
}

void http_set_owner(struct http_exchange *exchange, void *owner)
{
    exchange->owner = owner;
}

void *http_owner(const struct http_exchange *exchange)
{
    return exchange->owner;
}

/* The newest sessions of listen.consul. */
static char consul_ids[4][CONSUL_ID_SIZE];

static void keep_consul_id(json_t *json)
{
    static uint32_t next;
    const char *id = json_string_value(json_object_get(json, "ID"));
    if (id != NULL && strlen(id) == CONSUL_ID_SIZE - 1) {
        memcpy(consul_ids[next++ % 4], id, CONSUL_ID_SIZE);
    }
}

void http_answer(struct http_exchange *exchange, struct http_reply *reply)
{
    struct bytes body = buffer_bytes(&reply->body);
    CHECK(!exchange->is_answered && !exchange->is_stream);
    CHECK(reply->status >= 200 && reply->status < 600);
    exchange->is_answered = true;
    if (reply->content_type != NULL &&
        strstr(reply->content_type, "json") != NULL) {
        json_error_t error;
        json_t *json = json_loadb(
            (const char *)body.data, body.size,
            JSON_DECODE_ANY | JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES, &error);
        CHECK(json != NULL);
        keep_consul_id(json);
        json_decref(json);
    }
    buffer_done(&reply->body);
}

void http_stream(struct http_exchange *exchange, struct http_reply *reply)
{
    CHECK(!exchange->is_answered && reply->body.size == 0);
    exchange->is_stream = true;
}

struct buffer *http_stream_output(struct http_exchange *exchange)
{
    return &exchange->stream;
}

void http_stream_more(struct http_exchange *exchange)
{
    buffer_clear(&exchange->stream);
}

size_t http_stream_unsent(const struct http_exchange *exchange)
{
    return exchange->stream.size;
}

void http_stream_end(struct http_exchange *exchange)
{
    exchange->is_answered = true;
}

/* --- Drawing -------------------------------------------------------------- */

struct draw {
    const struct choice *choice;
    const struct drawn_heard *heard;
};

static uint32_t below(const struct draw *draw, uint32_t bound)
{
    return draw->choice->below(draw->choice->data, bound);
}

static const char *text(const struct draw *draw)
{
    static const char *const texts[] = {
        "k",
        "k",
        "a",
        "b",
        "a/b",
        "v",
        "w",
        "",
        "0",
        "lock:k",
        "u",
        "r",
        "read:*",
        "x\\n\\\"y",
        "\\u0000",
        "=k",
        "127.0.0.1:7104",
        "0000000000000000000000000000000000000000000000000000000000000000"};
    return texts[below(draw, sizeof texts / sizeof *texts)];
}

static uint64_t number(const struct draw *draw, const struct field *field)
{
    uint64_t min, max;
    field_range(field, &min, &max);
    const uint64_t numbers[] = {
        min,
        min + 1,
        1,
        2,
        300,
        5000,
        max,
        max + 1,
        3,
        4,
        60000,
        0,
        draw->heard->number[below(draw, DRAWN_HEARD_COUNT)]};
    uint64_t one = numbers[below(draw, sizeof numbers / sizeof *numbers)];
    bool is_good = one >= min && one <= max;
    return is_good || below(draw, 8) == 0 ? one : min;
}

static void put_choice(const struct draw *draw, const struct field *field,
                       struct buffer *out)
{
    const char *at = field->word;
    uint32_t count = 1;
    for (const char *c = at; *c != '\0'; c++) {
        count += *c == '|';
    }
    for (uint32_t which = below(draw, count); which > 0; which--) {
        at = strchr(at, '|') + 1;
    }
    for (; *at != '\0' && *at != '|'; at++) {
        buffer_put_u8(out,
                      (uint8_t)(*at >= 'A' && *at <= 'Z' ? *at + 32 : *at));
    }
}

static void put_json(const struct draw *draw, const struct field *field,
                     struct buffer *out)
{
    switch (field->kind) {
    case FIELD_TEXT:
        buffer_printf(out, "\"%s\"", text(draw));
        return;
    case FIELD_NUMBER:
        buffer_printf(out, "%" PRIu64, number(draw, field));
        return;
    case FIELD_FLAG:
        buffer_put_text(out, below(draw, 4) == 0 ? "false" : "true");
        return;
    case FIELD_CHOICE:
        buffer_put_u8(out, '"');
        put_choice(draw, field, out);
        buffer_put_u8(out, '"');
        return;
    case FIELD_TEXTS:
        buffer_printf(out, "[\"%s\"", text(draw));
        for (uint32_t i = below(draw, 3); i > 0; i--) {
            buffer_printf(out, ",\"%s\"", text(draw));
        }
        buffer_put_u8(out, ']');
        return;
    case FIELD_NUMBERS:
        buffer_printf(out, "[%" PRIu64 ",%u]",
                      draw->heard->number[below(draw, DRAWN_HEARD_COUNT)],
                      below(draw, 5));
        return;
    case FIELD_PAIRS:
        if (field->word == NULL) {
            buffer_printf(out, "{\"%" PRIu64 "\":\"%s\"}",
                          draw->heard->number[below(draw, DRAWN_HEARD_COUNT)],
                          "0123456789abcdef0123456789abcdef");
            return;
        }
        buffer_printf(out, "{\"a\":\"%s\"}", text(draw));
        return;
    case FIELD_ACKED:
        buffer_put_text(out, below(draw, 2) == 0 ? "\"1,3-4\"" : "1");
        return;
    case FIELD_END:
        return;
    }
}

/* A value in a query: digits, a name, or "true". */
static void put_plain(const struct draw *draw, const struct field *field,
                      struct buffer *out)
{
    static const char *const names[] = {"k", "a", "b", "a%2Fb", "%00", ""};
    if (field->kind == FIELD_NUMBER) {
        buffer_printf(out, "%" PRIu64, number(draw, field));
    } else if (field->kind == FIELD_FLAG) {
        buffer_put_text(out, "true");
    } else if (field->kind == FIELD_CHOICE) {
        put_choice(draw, field, out);
    } else {
        buffer_put_text(out, names[below(draw, sizeof names / sizeof *names)]);
    }
}

static void put_path(const struct draw *draw, const struct route *route,
                     struct buffer *out)
{
    static const char *const names[] = {"k", "k", "a", "b", "a/b", "a%2Fb"};
    const char *mark = strchr(route->path, '{');
    if (mark == NULL) {
        buffer_put_text(out, route->path);
        return;
    }
    buffer_put(out, route->path, (size_t)(mark - route->path));
    buffer_put_text(out, names[below(draw, sizeof names / sizeof *names)]);
}

static bool is_given(const struct draw *draw, const struct route *route,
                     const struct field *field)
{
    size_t size;
    const char *name = route_parameter(route, &size);
    if (name != NULL && strlen(field->name) == size &&
        memcmp(field->name, name, size) == 0) {
        return false; /* It is part of the path. */
    }
    return (field->flags & FIELD_REQUIRED) != 0 ? below(draw, 16) != 0
                                                : below(draw, 4) == 0;
}

static void put_fields(const struct draw *draw, const struct route *route,
                       struct http_exchange *exchange)
{
    bool has_query = route_has_query(route);
    struct buffer *out = has_query ? &exchange->target : &exchange->body;
    uint32_t count = 0;
    buffer_put_text(out, has_query ? "" : "{");
    for (const struct field *field = route->fields;
         field != NULL && field->kind != FIELD_END; field++) {
        if (!is_given(draw, route, field)) {
            continue;
        }
        if (has_query) {
            buffer_printf(out, "%s%s=", count == 0 ? "?" : "&", field->name);
            put_plain(draw, field, out);
        } else {
            buffer_printf(out, "%s\"%s\":", count == 0 ? "" : ",", field->name);
            put_json(draw, field, out);
        }
        count++;
    }
    buffer_put_text(out, has_query ? "" : "}");
    if (!has_query && count == 0 && below(draw, 2) == 0) {
        buffer_clear(out); /* No body at all. */
    }
}

static const struct route *draw_route(const struct draw *draw)
{
    const struct route *route;
    do {
        route = &routes[below(draw, route_count)];
    } while (route->kind == ROUTE_PAGE || route->kind == ROUTE_DOCUMENT ||
             route->kind == ROUTE_MONITOR);
    return route;
}

/* --- Requests to listen.consul -------------------------------------------- */

static const char *consul_id(const struct draw *draw)
{
    uint32_t at = below(draw, 5);
    return at == 4 || consul_ids[at][0] == '\0'
               ? "0038bc00-0000-4500-8000-000000000000"
               : consul_ids[at];
}

static void put_consul_query(const struct draw *draw, struct buffer *out)
{
    static const char *const words[] = {
        "keys",        "recurse", "raw",      "dc=dc1",  "dc=x",
        "cas=1",       "flags=7", "token=",   "wait=1s", "wait=x",
        "separator=/", "stale",   "flags=-1", "a=%zz",   "index=0"};
    uint32_t count = below(draw, 4) == 0 ? 2 : 0;
    buffer_put_u8(out, '?');
    switch (below(draw, 4)) {
    case 0:
        buffer_printf(out, "release=%s&", consul_id(draw));
        break;
    case 1:
        buffer_printf(out, "index=%" PRIu64 "&wait=%ums&",
                      draw->heard->number[below(draw, DRAWN_HEARD_COUNT)],
                      below(draw, 3000));
        break;
    default:
        buffer_printf(out, "acquire=%s&", consul_id(draw));
    }
    for (uint32_t i = 0; i < count; i++) {
        buffer_put_text(out, words[below(draw, sizeof words / sizeof *words)]);
        buffer_put_u8(out, '&');
    }
}

static const struct route *draw_consul(const struct draw *draw,
                                       struct http_exchange *exchange)
{
    static const char *const bodies[] = {
        "{\"TTL\":\"10s\",\"LockDelay\":\"1s\"}",
        "{\"ttl\":\"15.0s\",\"LockDelay\":0,\"Name\":\"n\"}",
        "{\"TTL\":\"10s\",\"Checks\":[\"serfHealth\"],\"Node\":\"k\"}",
        "{\"TTL\":7}",
        "[]",
        "{",
        ""};
    static const char *const keys[] = {"k", "a", "a/b", "a%2Fb", "%00", "%"};
    const struct route *route;
    do { /* More of those that change something. */
        route = &consul_routes[below(draw, consul_route_count)];
    } while (route->kind != ROUTE_CONSUL_CREATE &&
             route->kind != ROUTE_CONSUL_PUT && below(draw, 4) != 0);
    const char *mark = strchr(route->path, '{');
    struct buffer *out = &exchange->target;
    if (mark == NULL) {
        buffer_put_text(out, route->path);
    } else {
        buffer_put(out, route->path, (size_t)(mark - route->path));
        buffer_put_text(out,
                        strncmp(mark, "{id}", 4) == 0
                            ? consul_id(draw)
                            : keys[below(draw, sizeof keys / sizeof *keys)]);
    }
    put_consul_query(draw, out);
    buffer_put_text(&exchange->body,
                    bodies[below(draw, 2) == 0
                               ? 0
                               : below(draw, sizeof bodies / sizeof *bodies)]);
    return route;
}

/* --- Exchanges ------------------------------------------------------------ */

void drawn_http_open(struct drawn_http *http, const struct gateway_port *port)
{
    struct gateway_consul consul = {
        .datacenter = "dc1", .is_durable = true, .waits_max = 2};
    gateway_open(&http->gateway, port, "", true);
    gateway_open_consul(&http->consul, port, "", &consul);
}

static void end(struct drawn_http *http, uint32_t place)
{
    struct http_exchange *exchange = http->exchange[place];
    http->exchange[place] = NULL;
    if (exchange != NULL) {
        gateway_end(&http->gateway, exchange);
        buffer_done(&exchange->target);
        buffer_done(&exchange->body);
        buffer_done(&exchange->stream);
        free(exchange);
    }
}

void drawn_http_close(struct drawn_http *http)
{
    for (uint32_t i = 0; i < DRAWN_EXCHANGE_MAX; i++) {
        end(http, i);
    }
    gateway_done(&http->gateway);
    gateway_done(&http->consul);
}

bool drawn_http_send(struct drawn_http *http, const struct choice *choice,
                     const struct drawn_heard *heard)
{
    struct draw draw = {choice, heard};
    bool is_consul = below(&draw, 3) == 0;
    uint32_t place = 0;
    while (place < DRAWN_EXCHANGE_MAX && http->exchange[place] != NULL) {
        place++;
    }
    if (place == DRAWN_EXCHANGE_MAX) {
        return false;
    }
    struct http_exchange *exchange = memory_new(sizeof *exchange);
    const struct route *route = is_consul ? draw_consul(&draw, exchange)
                                          : draw_route(&draw);
    exchange->method = route->method;
    exchange->bearer = below(&draw, 8) == 0 ? "Bearer hasp_x" : NULL;
    snprintf(exchange->session, sizeof exchange->session, "%" PRIu64 ":%s",
             heard->number[below(&draw, DRAWN_HEARD_COUNT)], SECRET);
    if (!is_consul) {
        put_path(&draw, route, &exchange->target);
        put_fields(&draw, route, exchange);
    }
    buffer_put_u8(&exchange->target, 0);
    http->exchange[place] = exchange;
    gateway_request(is_consul ? &http->consul : &http->gateway, exchange);
    return true;
}

void drawn_http_look_after(struct drawn_http *http, uint64_t now_ns,
                           const struct choice *choice)
{
    struct draw draw = {choice, NULL};
    gateway_flush(&http->gateway);
    gateway_flush(&http->consul);
    gateway_tick(&http->gateway, now_ns);
    gateway_tick(&http->consul, now_ns);
    for (uint32_t i = 0; i < DRAWN_EXCHANGE_MAX; i++) {
        struct http_exchange *exchange = http->exchange[i];
        if (exchange != NULL &&
            (exchange->is_answered || below(&draw, 64) == 0)) {
            end(http, i);
        }
    }
}
