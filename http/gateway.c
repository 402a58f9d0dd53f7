/* SPDX-License-Identifier: MIT */

/* The life of an exchange: from an HTTP request to commands, and back. */

#include "http/gateway.h"

#include <string.h>
#include <strings.h>

#include "base/account.h"
#include "base/address.h"
#include "base/check.h"
#include "base/memory.h"
#include "base/minmax.h"
#include "base/units.h"
#include "core/core.h"
#include "http/bearer.h"
#include "http/exchange.h"
#include "http/openapi.h"
#include "http/origin_check.h"
#include "http/page.h"
#include "http/uri.h"
#include "net/json.h"

#define REPLY_VALUE_MAX 1000000
#define POLL_NS (50 * NS_PER_S)
#define COMMENT_NS (5 * NS_PER_S)

static const struct door *const doors[GATEWAY_DOOR_COUNT] = {
    [GATEWAY_LEASE] = &door_lease,
    [GATEWAY_TERRAFORM] = &door_terraform,
    [GATEWAY_FLEETLOCK] = &door_fleetlock,
    [GATEWAY_CONSUL] = &door_consul};

const char *gateway_door_name(enum gateway_door door)
{
    return doors[door]->name;
}

/* GATEWAY_DOOR_COUNT if the route, which may be NULL, belongs to none. */
static enum gateway_door door_of(const struct route *route)
{
    if (route != NULL && route >= consul_routes &&
        route < consul_routes + consul_route_count) {
        return GATEWAY_CONSUL;
    }
    switch (route != NULL ? route->kind : ROUTE_COMMAND) {
    case ROUTE_LEASE_TAKE:
    case ROUTE_LEASE_DROP:
        return GATEWAY_LEASE;
    case ROUTE_TERRAFORM_LOCK:
    case ROUTE_TERRAFORM_UNLOCK:
        return GATEWAY_TERRAFORM;
    case ROUTE_FLEETLOCK_TAKE:
    case ROUTE_FLEETLOCK_DROP:
        return GATEWAY_FLEETLOCK;
    default:
        return GATEWAY_DOOR_COUNT;
    }
}

static bool has_door(const struct route *route)
{
    return door_of(route) != GATEWAY_DOOR_COUNT;
}

/* The door of the route, or of the whole gateway; NULL: none. */
static const struct door *door_for(const struct gateway *gateway,
                                   const struct route *route)
{
    enum gateway_door door = has_door(route) ? door_of(route) : gateway->only;
    return door != GATEWAY_DOOR_COUNT ? doors[door] : NULL;
}

static void count_answer(struct gateway *gateway, const struct route *route,
                         unsigned status, bool is_held)
{
    enum gateway_door door = has_door(route) ? door_of(route) : gateway->only;
    if (door != GATEWAY_DOOR_COUNT) {
        struct gateway_door_count *count = &gateway->doors[door];
        is_held |= status == 409 || status == 423;
        count->done += status < 300 && !is_held;
        count->held += is_held;
        count->refused += status >= 300 && !is_held;
    }
}

/* Fills the answer to a refusal. */
static void fill_refusal(const struct gateway *gateway,
                         const struct route *route,
                         const struct problem *problem, json_t *more,
                         struct http_reply *reply)
{
    const struct door *door = door_for(gateway, route);
    if (door != NULL && door->refuse != NULL) {
        CHECK(more == NULL);
        door->refuse(problem, reply);
    } else {
        problem_reply(problem, more, reply);
    }
}

struct words *exchange_step(struct exchange *exchange)
{
    CHECK(exchange->step_count < EXCHANGE_STEP_MAX);
    return &exchange->step[exchange->step_count++];
}

static void hang_up(struct exchange *exchange)
{
    struct gateway *gateway = exchange->gateway;
    struct core *core = gateway->port.core(gateway->port.data);
    if (exchange->is_open) {
        exchange->is_open = false;
        HASH_DELETE(by_conn, gateway->visits, exchange);
        if (core != NULL) {
            core_client_closed(core, exchange->conn,
                               gateway->port.now_ns(gateway->port.data));
            gateway->port.wake(gateway->port.data);
        }
    }
}

void exchange_answer(struct exchange *exchange, struct http_reply *reply)
{
    CHECK(!exchange->is_answered && !exchange->is_stream);
    exchange->is_answered = true;
    exchange_end_wait(exchange);
    count_answer(exchange->gateway, exchange->fields.route, reply->status,
                 exchange->was_held);
    http_answer(exchange->raw_exchange, reply);
    hang_up(exchange);
}

void exchange_refuse(struct exchange *exchange, const struct problem *problem,
                     json_t *more)
{
    struct http_reply reply = {0};
    fill_refusal(exchange->gateway, exchange->fields.route, problem, more,
                 &reply);
    exchange_answer(exchange, &reply);
}

void exchange_answer_json(struct exchange *exchange, unsigned status,
                          json_t *document)
{
    struct http_reply reply = {.status = status,
                               .content_type = "application/json"};
    json_write(document, &reply.body);
    exchange_answer(exchange, &reply);
}

/* Makes the document of a reply, such as "{name: the reply}". */
static json_t *document_of(const struct answer *answer,
                           const struct resp_reply *reply)
{
    const struct resp_value *value = &reply->value[0];
    json_t *document = json_object();
    switch (answer->kind) {
    case ANSWER_MAP:
        json_decref(document);
        return json_of_reply(reply, 0, NULL);
    case ANSWER_PAGE:
        CHECK(value->count == 2);
        json_put_text(document, "cursor", reply->value[1].bytes);
        json_put(document, answer->name, json_of_reply(reply, 2, NULL));
        return document;
    default:
        /* A simple string is always OK. */
        json_put(document, answer->name,
                 value->type == RESP_SIMPLE ? json_true()
                                            : json_of_reply(reply, 0, NULL));
        return document;
    }
}

static void gateway_take_answer(struct exchange *exchange,
                                const struct resp_reply *reply)
{
    const struct route *route = exchange->fields.route;
    struct problem problem;
    if ((route->flags & ROUTE_IS_GATE) != 0 && reply->value[0].integer == 0 &&
        fields_get(&exchange->fields, "gate")->number != 0) {
        problem_set(&problem, 403, "STALE", "token",
                    "a higher token has been admitted: another client holds "
                    "the lock, or has held it since");
        exchange_refuse(exchange, &problem, NULL);
        return;
    }
    if (reply->value[0].type == RESP_NULL &&
        (route->flags & ROUTE_MAY_BE_HELD) != 0) {
        problem_set(&problem, 423, "HELD", NULL,
                    "the lock was not granted within wait_ms");
        exchange_refuse(exchange, &problem, NULL);
        return;
    }
    exchange_answer_json(exchange, 200, document_of(&route->answer, reply));
}

/* Parses "id:secret". */
static bool read_session(struct exchange *exchange, struct words *credentials,
                         struct problem *problem)
{
    const char *header = http_header(exchange->raw_exchange, "Hasp-Session");
    const char *mark = header != NULL ? strchr(header, ':') : NULL;
    if (mark == NULL) {
        problem_set(problem, 400, "BADARG", NULL,
                    "the header Hasp-Session must be id:secret, as "
                    "/v1/session/open returns them");
        return false;
    }
    words_put(credentials, bytes_of(header, (size_t)(mark - header)));
    words_put_text(credentials, mark + 1);
    return true;
}

/* Which headers may have a secret. 'route' may be NULL. */
static enum bearer_kind bearer_kind(const struct gateway *gateway,
                                    const struct route *route)
{
    return gateway->only == GATEWAY_CONSUL ? BEARER_CONSUL
           : has_door(route)               ? BEARER_BASIC
                                           : BEARER_ONLY;
}

static void put_authentication(struct exchange *exchange,
                               const struct route *route)
{
    AUTO(bearer_done) struct bearer bearer;
    struct words *hello = exchange_step(exchange);
    words_put_text(hello, "HELLO");
    words_put_text(hello, "3");
    bearer_read(exchange->raw_exchange, bearer_kind(exchange->gateway, route),
                &bearer);
    if (bearer.secret.data != NULL) {
        struct words *auth = exchange_step(exchange);
        words_put_text(auth, "AUTH");
        if (bearer.user.size > 0) {
            words_put(auth, bearer.user);
        }
        words_put(auth, bearer.secret);
    }
}

static void put_attach(struct exchange *exchange,
                       const struct words *credentials)
{
    if ((exchange->fields.route->flags & ROUTE_NEEDS_SESSION) != 0) {
        struct words *attach = exchange_step(exchange);
        words_put_text(attach, "SESSION.ATTACH");
        words_put(attach, words_at(credentials, 0));
        words_put(attach, words_at(credentials, 1));
    }
    /* The answers to the steps so far are checked and not shown to the
     * client. */
    exchange->first_own = exchange->step_count;
}

/* Puts the command for events. Browsers, among others, reconnect with the
 * header. */
static void put_watch(struct exchange *exchange, struct words *step)
{
    struct bytes from = fields_text(&exchange->fields, "from");
    const char *header = http_header(exchange->raw_exchange, "Last-Event-ID");
    if (from.size == 0 && header != NULL) {
        from = bytes_of_text(header);
    }
    words_put_text(step, "LOCK.WATCH");
    words_put(step, fields_text(&exchange->fields, "prefix"));
    if (from.size > 0) {
        words_put_text(step, "FROM");
        words_put(step, from);
    }
}

/* False: a door has refused the request. */
static bool put_steps(struct exchange *exchange,
                      const struct words *credentials, struct problem *problem)
{
    const struct route *route = exchange->fields.route;
    struct words *step;
    put_attach(exchange, credentials);
    if (has_door(route)) {
        return doors[door_of(route)]->begin(exchange, problem);
    }
    switch (route->kind) {
    case ROUTE_EVENTS:
        put_watch(exchange, exchange_step(exchange));
        break;
    case ROUTE_PRESENCE:
        break;          /* The whole request is ATTACH. */
    case ROUTE_MONITOR: /* Every user may send this command. */
        words_put_text(exchange_step(exchange), "RAFT.STATUS");
        break;
    default:
        step = exchange_step(exchange);
        fields_command(&exchange->fields, credentials, step);
        fields_trace(&exchange->fields,
                     http_header(exchange->raw_exchange, "traceparent"), step);
    }
    return true;
}

/* Sets how long the client waits, if its command waits at all. */
static void begin_poll(struct exchange *exchange)
{
    struct gateway *gateway = exchange->gateway;
    if ((exchange->fields.route->flags & ROUTE_WAITS) == 0 ||
        fields_get(&exchange->fields, "wait_ms")->number == 0) {
        return;
    }
    const struct value *poll = fields_get(&exchange->fields, "poll_ms");
    exchange->due_ns = gateway->port.now_ns(gateway->port.data) +
                       (poll->is_given ? poll->number * NS_PER_MS : POLL_NS);
    list_push_back(&gateway->polls, &exchange->in_waiting);
}

/* Parses the request and adds its steps; false: it is refused. */
static bool gateway_read_fields(struct exchange *exchange,
                                const struct match *match, struct bytes query)
{
    AUTO(words_done) struct words credentials = {0};
    struct problem problem;
    unsigned needs_session = ROUTE_NEEDS_SESSION | ROUTE_KEEPS;
    const struct door *door = door_for(exchange->gateway, match->route);
    exchange->match = *match;
    exchange->query = query;
    if (door != NULL && door->reads_all) {
        exchange->fields.route = match->route;
    } else if (fields_read(&exchange->fields, match, query,
                           http_body(exchange->raw_exchange), &problem) != 0 ||
               ((match->route->flags & needs_session) != 0 &&
                !read_session(exchange, &credentials, &problem))) {
        exchange_refuse(exchange, &problem, NULL);
        return false;
    }
    if (!put_steps(exchange, &credentials, &problem)) {
        exchange_refuse(exchange, &problem, NULL);
        return false;
    }
    return true;
}

/* Doors read by LOCK.SHOW; their other commands may change something. */
static bool step_changes(const struct exchange *exchange)
{
    return !bytes_is_word(words_at(&exchange->step[exchange->at], 0),
                          "LOCK.SHOW");
}

/* The answer to an error of a door's command. An error promises that its own
 * command did nothing, but an earlier one of the same request may have. */
static void refuse_step(struct exchange *exchange, const struct door *door,
                        const struct problem *problem)
{
    struct problem unknown;
    if (door != NULL && door->fail != NULL && door->fail(exchange, problem)) {
        return;
    }
    if (door == NULL || door->fail != NULL || !exchange->may_have_changed) {
        exchange_refuse(exchange, problem, NULL);
        return;
    }
    problem_set(&unknown, 504, "UNKNOWN", NULL,
                "it may have been done, since its result could not be read: "
                "%s %s",
                problem->code, problem->detail);
    exchange_refuse(exchange, &unknown, NULL);
}

static void take_reply(struct exchange *exchange,
                       const struct resp_reply *reply)
{
    const struct route *route = exchange->fields.route;
    const struct resp_value *value = &reply->value[0];
    const struct door *door = has_door(route) &&
                                      exchange->at >= exchange->first_own
                                  ? doors[door_of(route)]
                                  : NULL;
    bool is_last = exchange->at + 1 == exchange->step_count;
    exchange->is_sent = false;
    is_last &= !exchange->awaits_auth;
    /* An error ends the exchange: the steps after it would be executed without
     * the user or the session. */
    if (value->type == RESP_ERROR) {
        struct problem problem;
        problem_of_error(&problem, value->bytes);
        refuse_step(exchange, door, &problem);
    } else if (door != NULL) {
        exchange->may_have_changed |= step_changes(exchange);
        door->reply(exchange, reply);
    } else if (is_last && route->kind == ROUTE_MONITOR) {
        struct http_reply answer = {.status = 200};
        exchange->gateway->port.monitor(exchange->gateway->port.data,
                                        route->path, &answer);
        exchange_answer(exchange, &answer);
    } else if (is_last && route->kind == ROUTE_COMMAND) {
        gateway_take_answer(exchange, reply);
    } else if (is_last) {
        stream_begin(exchange);
    }
    exchange->at++;
    if (exchange->awaits_auth && !exchange->is_answered &&
        exchange->at == exchange->step_count) {
        exchange->awaits_auth = false;
        if (gateway_read_fields(exchange, &exchange->match, exchange->query)) {
            begin_poll(exchange);
        }
    }
}

static void send_step(struct exchange *exchange)
{
    struct gateway *gateway = exchange->gateway;
    struct core *core = gateway->port.core(gateway->port.data);
    const struct words *words = &exchange->step[exchange->at];
    struct bytes *argument = memory_new(words->count * sizeof *argument);
    for (uint32_t i = 0; i < words->count; i++) {
        argument[i] = words_at(words, i);
    }
    struct resp_request request = {argument, words->count};
    exchange->is_sent = true;
    core_client_request(core, exchange->conn, &request,
                        gateway->port.now_ns(gateway->port.data));
    gateway->port.wake(gateway->port.data);
    free(argument);
}

/* Gives the exchange up. */
static void gateway_cut(struct exchange *exchange)
{
    if (exchange->is_stream && !exchange->is_answered) {
        exchange->is_answered = true;
        http_stream_end(exchange->raw_exchange);
        hang_up(exchange);
    } else if (!exchange->is_answered) {
        struct problem problem;
        problem_set(&problem, 503, "BUSY", NULL,
                    "the node has cancelled this request");
        exchange_refuse(exchange, &problem, NULL);
    }
}

/* The size of a reply depends on what clients have put into the state. */
static void refuse_reply(struct exchange *exchange)
{
    struct problem problem;
    buffer_clear(&exchange->output);
    if (exchange->is_stream) {
        gateway_cut(exchange);
        return;
    }
    problem_set(&problem, 500, "LIMIT", NULL,
                "the answer is too large for HTTP: ask for less, or use RESP");
    exchange_refuse(exchange, &problem, NULL);
}

/* Takes a push; the reply to SUBSCRIBE is one. */
static void gateway_take_push(struct exchange *exchange,
                              const struct resp_reply *reply)
{
    const struct route *route = exchange->fields.route;
    if (exchange->is_stream) {
        stream_push(exchange, reply);
    } else if (has_door(route) && doors[door_of(route)]->push != NULL &&
               doors[door_of(route)]->push(exchange, reply)) {
        take_reply(exchange, reply);
    }
}

/* Proceeds until the core has to answer. */
static void gateway_advance(struct exchange *exchange)
{
    struct resp_reply *reply = &exchange->gateway->reply;
    if (exchange->is_stream && exchange->output.size > 0 &&
        stream_is_slow(exchange)) {
        /* The client misses events from now on, and has to learn that. */
        buffer_clear(http_stream_output(exchange->raw_exchange));
        gateway_cut(exchange);
    }
    while (!exchange->is_answered) {
        size_t used;
        if (!exchange->is_sent && !exchange->is_stream &&
            exchange->at < exchange->step_count) {
            send_step(exchange);
        }
        if (exchange->output.size == 0) {
            return;
        }
        int rv = resp_parse_reply(buffer_bytes(&exchange->output),
                                  REPLY_VALUE_MAX, reply, &used);
        if (rv == HASP_EMORE) {
            return;
        }
        if (rv != 0) {
            refuse_reply(exchange);
            return;
        }
        if (reply->value[0].type != RESP_PUSH) {
            take_reply(exchange, reply);
        } else {
            gateway_take_push(exchange, reply);
        }
        buffer_consume(&exchange->output, used);
    }
}

/* True if the client may send a secret: over TLS or loopback. */
static bool is_private(const struct exchange *exchange)
{
    char host[128];
    uint16_t port;
    return http_identity(exchange->raw_exchange) != NULL ||
           (address_split(http_address(exchange->raw_exchange), host,
                          sizeof host, &port) == 0 &&
            address_is_loopback(host));
}

/* Opens an unauthenticated connection, whatever its address, unless there was a
 * certificate. */
static void open_connection(struct exchange *exchange)
{
    struct gateway *gateway = exchange->gateway;
    struct identity identity = {.way = IDENTITY_NONE,
                                .is_private = is_private(exchange)};
    const struct tls_identity *who = http_identity(exchange->raw_exchange);
    if (who != NULL && who->name.role == TLS_USER) {
        identity.way = IDENTITY_CERTIFICATE;
        identity.user = who->name.user;
        identity.fingerprint = who->fingerprint;
        identity.ca = who->ca;
    }
    /* The end of a request does not show that its client is gone, so it does
     * not start linger; the end of a presence stream does (rule 8). */
    bool is_brief = exchange->fields.route->kind != ROUTE_PRESENCE;
    exchange->conn = ++gateway->number | GATEWAY_CONN |
                     (is_brief ? CORE_CONN_BRIEF : 0) |
                     (gateway->only != GATEWAY_DOOR_COUNT ? GATEWAY_CONN_CONSUL
                                                          : 0);
    exchange->is_open = true;
    HASH_ADD(by_conn, gateway->visits, conn, sizeof exchange->conn, exchange);
    core_client_opened(gateway->port.core(gateway->port.data), exchange->conn,
                       http_address(exchange->raw_exchange), &identity,
                       gateway->port.now_ns(gateway->port.data));
}

static bool is_stream(const struct route *route)
{
    return route->kind == ROUTE_EVENTS || route->kind == ROUTE_PRESENCE;
}

/* True, with the reason, if there are as many streams as may be, of all or from
 * the address of the request. One address gives up a stream for another that
 * has fewer, even with the new one. */
static bool streams_are_full(const struct exchange *exchange,
                             struct problem *problem)
{
    const struct gateway *gateway = exchange->gateway;
    uint32_t count = streams_from(gateway, exchange->origin), all, most;
    if (count >= STREAM_COUNT_ADDRESS_MAX) {
        problem_set(problem, 503, "BUSY", NULL,
                    "%u of %d streams from one address are open at this node; "
                    "close some, or use another node",
                    (unsigned)count, STREAM_COUNT_ADDRESS_MAX);
        return true;
    }
    if (gateway->stream_count < STREAM_COUNT_MAX) {
        return false;
    }
    struct exchange *oldest = streams_of_most(gateway, &all, &most);
    if (all < STREAM_COUNT_MAX) {
        return false; /* The others are ending. */
    }
    if (most > count + 1) {
        gateway_cut(oldest);
        return false;
    }
    problem_set(problem, 503, "BUSY", NULL,
                "this node has %d streams, its maximum: close one, or use "
                "another node",
                STREAM_COUNT_MAX);
    return true;
}

/* True if the client presents a secret that this node does not know (yet), with
 * a body: the body is parsed after AUTH. */
static bool is_unknown_with_body(const struct exchange *exchange,
                                 const struct route *route, struct core *core)
{
    const struct tls_identity *who = http_identity(exchange->raw_exchange);
    AUTO(bearer_done) struct bearer bearer;
    bearer_read(exchange->raw_exchange, bearer_kind(exchange->gateway, route),
                &bearer);
    return http_body(exchange->raw_exchange).size > 0 &&
           bearer.secret.data != NULL &&
           (who == NULL || who->name.role != TLS_USER) &&
           !core_secret_is_somebody(core, bearer.secret);
}

static void gateway_begin(struct exchange *exchange, const struct match *match,
                          struct bytes query)
{
    struct gateway *gateway = exchange->gateway;
    struct core *core = gateway->port.core(gateway->port.data);
    struct problem problem;
    put_authentication(exchange, match->route);
    exchange->awaits_auth = core != NULL &&
                            is_unknown_with_body(exchange, match->route, core);
    if (exchange->awaits_auth) {
        exchange->fields.route = match->route;
        exchange->first_own = EXCHANGE_STEP_MAX; /* Until it is known. */
        exchange->match = *match;
        exchange->query = query;
    } else if (!gateway_read_fields(exchange, match, query)) {
        return;
    }
    if (core == NULL) {
        problem_set(&problem, 503, "NOLEADER", NULL,
                    "the cluster has not started, or this node is stopping: "
                    "see /readyz");
        exchange_refuse(exchange, &problem, NULL);
    } else if (is_stream(match->route) &&
               streams_are_full(exchange, &problem)) {
        exchange_refuse(exchange, &problem, NULL);
    } else {
        open_connection(exchange);
        if (!exchange->awaits_auth) {
            begin_poll(exchange);
        }
        gateway_advance(exchange);
    }
}

/* --- Requests ------------------------------------------------------------- */

/* 'route' may be NULL. */
static void answer_problem(struct gateway *gateway,
                           struct http_exchange *raw_exchange,
                           const struct route *route,
                           const struct problem *problem, const char *allowed)
{
    struct http_reply reply = {0};
    fill_refusal(gateway, route, problem, NULL, &reply);
    count_answer(gateway, route, reply.status, false);
    if (allowed != NULL) {
        reply.header[0] = (struct http_header){"Allow", allowed};
    }
    http_answer(raw_exchange, &reply);
}

static void refuse_path(struct gateway *gateway,
                        struct http_exchange *raw_exchange,
                        const struct match *match)
{
    struct problem problem;
    if (match->allowed[0] != '\0') {
        /* A door decides its status. */
        problem_set(&problem, 405, "BADARG", NULL,
                    "this path accepts only %s, not %.20s", match->allowed,
                    http_method(raw_exchange));
        answer_problem(gateway, raw_exchange, NULL, &problem, match->allowed);
    } else {
        problem_set(&problem, 404, "BADARG", NULL,
                    gateway->only == GATEWAY_DOOR_COUNT
                        ? "unknown path; /v1/openapi.json lists all paths"
                        : "unknown path; see docs/consul.md");
        answer_problem(gateway, raw_exchange, NULL, &problem, NULL);
    }
}

/* Answers for the node's own pages, which are not part of the API. */
static void answer_monitor(struct gateway *gateway,
                           struct http_exchange *raw_exchange,
                           const struct route *route)
{
    struct http_reply reply = {.status = 200};
    gateway->port.monitor(gateway->port.data, route->path, &reply);
    http_answer(raw_exchange, &reply);
}

/* False if the request has been answered and needs no exchange. */
static bool is_admitted(struct gateway *gateway,
                        struct http_exchange *raw_exchange,
                        const struct match *match)
{
    struct problem problem;
    struct origin_check_request request = {
        .method = http_method(raw_exchange),
        .host = http_header(raw_exchange, "Host"),
        .is_secure = http_identity(raw_exchange) != NULL,
        .origin = http_header(raw_exchange, "Origin"),
        .fetch_site = http_header(raw_exchange, "Sec-Fetch-Site"),
        .content_type = http_header(raw_exchange, "Content-Type"),
        .has_body = http_body(raw_exchange).size > 0};
    if (!gateway->has_api) {
        problem_set(
            &problem, 404, "BADARG", NULL,
            "this node has http.api = no: it serves only /healthz, /readyz and "
            "/metrics");
    } else if (origin_check_admits(&request, gateway->names, &problem)) {
        if (match->route == NULL) {
            refuse_path(gateway, raw_exchange, match);
            return false;
        }
        if ((has_door(match->route) &&
             doors[door_of(match->route)]->has_own_guard) ||
            origin_check_takes_body(&request, &problem)) {
            return true;
        }
    }
    answer_problem(gateway, raw_exchange, match->route, &problem, NULL);
    return false;
}

static void answer_document(struct gateway *gateway,
                            struct http_exchange *raw_exchange)
{
    struct http_reply reply = {.status = 200,
                               .content_type = "application/json"};
    if (gateway->document.size == 0) {
        openapi_put(&gateway->document);
    }
    reply.constant = buffer_bytes(&gateway->document);
    http_answer(raw_exchange, &reply);
}

static void gateway_find_route(const struct gateway *gateway,
                               const char *method, struct bytes path,
                               struct match *ret_match)
{
    if (gateway->only == GATEWAY_CONSUL) {
        routes_find_consul(method, path, ret_match);
    } else {
        routes_find(method, path, ret_match);
    }
}

uint32_t gateway_head(void *data, struct http_exchange *raw_exchange)
{
    struct gateway *gateway = data;
    struct core *core = gateway->port.core(gateway->port.data);
    const struct tls_identity *who = http_identity(raw_exchange);
    AUTO(bearer_done) struct bearer bearer;
    struct bytes path, query;
    struct match match;
    struct http_reply reply = {0};
    struct problem problem;
    uri_split(http_target(raw_exchange), &path, &query);
    gateway_find_route(gateway, http_method(raw_exchange), path, &match);
    bearer_read(raw_exchange, bearer_kind(gateway, match.route), &bearer);
    if (core == NULL || !gateway->has_api) {
        return GATEWAY_GUEST_BODY; /* It is refused anyway. */
    }
    if ((who != NULL && who->name.role == TLS_USER) ||
        core_secret_is_somebody(core, bearer.secret)) {
        return UINT32_MAX;
    }
    if (bearer.secret.data != NULL) {
        /* This node may be about to learn the secret: AUTH decides. */
        return GATEWAY_GUEST_BODY;
    }
    problem_set(&problem, 401, "NOAUTH", NULL,
                "not authenticated: the body was not read; present a client "
                "certificate or Authorization: Bearer SECRET");
    fill_refusal(gateway, match.route, &problem, NULL, &reply);
    count_answer(gateway, match.route, reply.status, false);
    reply.header[1] = (struct http_header){"Connection", "close"};
    http_answer(raw_exchange, &reply);
    return 0;
}

void gateway_request(void *data, struct http_exchange *raw_exchange)
{
    struct gateway *gateway = data;
    struct match match;
    struct bytes path, query;
    char origin[ADDRESS_SIZE];
    uri_split(http_target(raw_exchange), &path, &query);
    gateway_find_route(gateway, http_method(raw_exchange), path, &match);
    bool is_monitor = match.route != NULL && match.route->kind == ROUTE_MONITOR;
    bool is_guarded = is_monitor && gateway->guards_metrics &&
                      strcmp(match.route->path, "/metrics") == 0;
    /* No check of the origin: probes and metrics name no user, and are polled
     * under any name. */
    if (is_monitor && !is_guarded) {
        answer_monitor(gateway, raw_exchange, match.route);
    } else if (!is_monitor && !is_admitted(gateway, raw_exchange, &match)) {
        return;
    } else if (match.route->kind == ROUTE_DOCUMENT) {
        answer_document(gateway, raw_exchange);
    } else if (match.route->kind == ROUTE_PAGE) {
        page_answer(raw_exchange, &gateway->policy);
    } else {
        struct exchange *exchange = memory_new(sizeof *exchange);
        exchange->gateway = gateway;
        exchange->raw_exchange = raw_exchange;
        address_origin(http_address(raw_exchange), origin);
        exchange->origin = account_key_of_origin(origin);
        list_init(&exchange->in_dirty);
        list_init(&exchange->in_waiting);
        http_set_owner(raw_exchange, exchange);
        gateway_begin(exchange, &match, query);
    }
}

void gateway_end(void *data, struct http_exchange *raw_exchange)
{
    struct exchange *exchange = http_owner(raw_exchange);
    (void)data;
    if (exchange == NULL) {
        return;
    }
    hang_up(exchange);
    if (exchange->is_stream) {
        CHECK(exchange->gateway->stream_count > 0);
        exchange->gateway->stream_count--;
    }
    exchange_end_wait(exchange);
    list_remove(&exchange->in_dirty);
    list_remove(&exchange->in_waiting);
    for (uint32_t i = 0; i < EXCHANGE_STEP_MAX; i++) {
        words_done(&exchange->step[i]);
    }
    consul_done(&exchange->consul);
    fields_done(&exchange->fields);
    buffer_done(&exchange->output);
    free(exchange);
}

/* --- The core's side ------------------------------------------------------ */

static struct exchange *gateway_find(struct gateway *gateway, uint64_t conn)
{
    struct exchange *exchange;
    HASH_FIND(by_conn, gateway->visits, &conn, sizeof conn, exchange);
    return exchange;
}

struct buffer *gateway_output(struct gateway *gateway, uint64_t conn)
{
    struct exchange *exchange = gateway_find(gateway, conn);
    if (exchange == NULL || exchange->is_answered) {
        buffer_clear(&gateway->nowhere);
        return &gateway->nowhere;
    }
    if (list_is_empty(&exchange->in_dirty)) {
        list_push_back(&gateway->dirty, &exchange->in_dirty);
    }
    return &exchange->output;
}

void gateway_close(struct gateway *gateway, uint64_t conn)
{
    struct exchange *exchange = gateway_find(gateway, conn);
    if (exchange != NULL) {
        exchange->is_cut = true;
        (void)gateway_output(gateway, conn);
    }
}

void exchange_wait(struct exchange *exchange, uint64_t due_ns)
{
    struct gateway *gateway = exchange->gateway;
    CHECK(!exchange->is_waiting && !exchange->is_answered);
    exchange->is_waiting = true;
    exchange->due_ns = due_ns;
    gateway->wait_count++;
    gateway->wait_due_ns = u64_min(gateway->wait_due_ns, due_ns);
    list_push_back(&gateway->waits, &exchange->in_waiting);
}

void exchange_end_wait(struct exchange *exchange)
{
    if (exchange->is_waiting) {
        exchange->is_waiting = false;
        CHECK(exchange->gateway->wait_count > 0);
        exchange->gateway->wait_count--;
        list_remove(&exchange->in_waiting);
    }
}

uint64_t gateway_due(const struct gateway *gateway)
{
    return gateway->wait_due_ns;
}

/* Ends the waits that are over. */
static void gateway_end_waits(struct gateway *gateway)
{
    struct list over;
    uint64_t now_ns, next_ns = UINT64_MAX;
    if (gateway->wait_due_ns == UINT64_MAX) {
        return;
    }
    now_ns = gateway->port.now_ns(gateway->port.data);
    if (now_ns < gateway->wait_due_ns) {
        return;
    }
    list_init(&over);
    LIST_FOR_SAFE (struct exchange, exchange, &gateway->waits, in_waiting) {
        if (now_ns < exchange->due_ns) {
            next_ns = u64_min(next_ns, exchange->due_ns);
        } else {
            list_remove(&exchange->in_waiting);
            list_push_back(&over, &exchange->in_waiting);
        }
    }
    gateway->wait_due_ns = next_ns;
    /* An answer can end other exchanges, which then leave the list. */
    while (!list_is_empty(&over)) {
        struct exchange *exchange = LIST_FIRST(&over, struct exchange,
                                               in_waiting);
        exchange_end_wait(exchange);
        doors[door_of(exchange->fields.route)]->due(exchange);
        gateway_advance(exchange);
    }
}

void gateway_flush(struct gateway *gateway)
{
    struct account *account = gateway->port.account;
    if (account != NULL) {
        account_start(account);
    }
    gateway_end_waits(gateway);
    while (!list_is_empty(&gateway->dirty)) {
        struct exchange *exchange = LIST_FIRST(&gateway->dirty, struct exchange,
                                               in_dirty);
        list_remove(&exchange->in_dirty);
        if (exchange->is_open) {
            gateway_advance(exchange);
        }
        if (exchange->is_cut) {
            gateway_cut(exchange);
        }
        if (account != NULL) {
            account_charge_key(account, exchange->origin);
        }
    }
}

void gateway_tick(struct gateway *gateway, uint64_t now_ns)
{
    LIST_FOR_SAFE (struct exchange, exchange, &gateway->polls, in_waiting) {
        /* 202 means that the request is in the queue: its last command must
         * have been sent. */
        bool is_asked = exchange->is_sent &&
                        exchange->at + 1 == exchange->step_count;
        if (exchange->is_answered) {
            list_remove(&exchange->in_waiting);
        } else if (now_ns >= exchange->due_ns && is_asked) {
            list_remove(&exchange->in_waiting);
            exchange_answer_json(exchange, 202,
                                 json_pack("{sb}", "waiting", true));
        }
    }
    if (now_ns < gateway->comment_ns) {
        return;
    }
    gateway->comment_ns = now_ns + COMMENT_NS;
    LIST_FOR_SAFE (struct exchange, exchange, &gateway->streams, in_waiting) {
        if (!exchange->is_answered) {
            stream_comment(exchange);
        }
    }
}

void gateway_open(struct gateway *gateway, const struct gateway_port *port,
                  const char *names, bool has_api)
{
    *gateway = (struct gateway){
        .port = *port, .names = names, .has_api = has_api};
    list_init(&gateway->streams);
    list_init(&gateway->polls);
    list_init(&gateway->waits);
    list_init(&gateway->dirty);
    gateway->only = GATEWAY_DOOR_COUNT;
    gateway->wait_due_ns = UINT64_MAX;
}

void gateway_open_consul(struct gateway *gateway,
                         const struct gateway_port *port, const char *names,
                         const struct gateway_consul *consul)
{
    gateway_open(gateway, port, names, true);
    gateway->only = GATEWAY_CONSUL;
    gateway->consul = *consul;
}

void gateway_done(struct gateway *gateway)
{
    CHECK(gateway->visits == NULL);
    resp_reply_done(&gateway->reply);
    buffer_done(&gateway->nowhere);
    buffer_done(&gateway->document);
    buffer_done(&gateway->policy);
}
