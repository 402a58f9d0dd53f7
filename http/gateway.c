/* SPDX-License-Identifier: MIT */

/* The life of a visit: from a request of HTTP to commands, and back. */

#include "http/gateway.h"

#include <string.h>
#include <strings.h>

#include "base/address.h"
#include "base/check.h"
#include "base/memory.h"
#include "base/units.h"
#include "core/core.h"
#include "http/guard.h"
#include "http/json.h"
#include "http/openapi.h"
#include "http/page.h"
#include "http/uri.h"
#include "http/visit.h"

#define REPLY_VALUE_MAX 1000000
#define POLL_NS (50 * NS_PER_S)
#define COMMENT_NS (5 * NS_PER_S)

struct words *visit_step(struct visit *visit)
{
    CHECK(visit->step_count < VISIT_STEP_MAX);
    return &visit->step[visit->step_count++];
}

static void hang_up(struct visit *visit)
{
    struct gateway *gateway = visit->gateway;
    struct core *core = gateway->port.core(gateway->port.data);
    if (visit->is_open) {
        visit->is_open = false;
        HASH_DELETE(by_conn, gateway->visits, visit);
        if (core != NULL) {
            core_client_closed(core, visit->conn,
                               gateway->port.now_ns(gateway->port.data));
            gateway->port.wake(gateway->port.data);
        }
    }
}

/* Answers; the visit ends with its exchange. */
static void give_answer(struct visit *visit, struct http_reply *reply)
{
    CHECK(!visit->is_answered && !visit->is_stream);
    visit->is_answered = true;
    http_answer(visit->exchange, reply);
    hang_up(visit);
}

void visit_refuse(struct visit *visit, const struct problem *problem,
                  json_t *more)
{
    struct http_reply reply = {0};
    problem_reply(problem, more, &reply);
    give_answer(visit, &reply);
}

void visit_answer_json(struct visit *visit, unsigned status, json_t *document)
{
    struct http_reply reply = {.status = status,
                               .content_type = "application/json"};
    json_write(document, &reply.body);
    give_answer(visit, &reply);
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
        return json_of_reply(reply, 0);
    case ANSWER_PAGE:
        CHECK(value->count == 2);
        json_put_text(document, "cursor", reply->value[1].bytes);
        json_put(document, answer->name, json_of_reply(reply, 2));
        return document;
    default:
        /* A simple string says only OK. */
        json_put(document, answer->name,
                 value->type == RESP_SIMPLE ? json_true()
                                            : json_of_reply(reply, 0));
        return document;
    }
}

static void take_answer(struct visit *visit, const struct resp_reply *reply)
{
    const struct route *route = visit->fields.route;
    if (reply->value[0].type == RESP_NULL &&
        (route->flags & ROUTE_MAY_BE_HELD) != 0) {
        struct problem problem;
        problem_set(&problem, 423, "HELD", NULL,
                    "the lock was not to be had in this time");
        visit_refuse(visit, &problem, NULL);
        return;
    }
    visit_answer_json(visit, 200, document_of(&route->answer, reply));
}

static void take_reply(struct visit *visit, const struct resp_reply *reply)
{
    const struct route *route = visit->fields.route;
    const struct resp_value *value = &reply->value[0];
    bool is_last = visit->at + 1 == visit->step_count;
    bool is_lease = route->kind == ROUTE_LEASE_TAKE ||
                    route->kind == ROUTE_LEASE_DROP;
    visit->is_sent = false;
    if (value->type == RESP_ERROR) {
        struct problem problem;
        problem_of_error(&problem, value->bytes);
        visit_refuse(visit, &problem, NULL);
    } else if (is_lease && visit->at >= visit->first_own) {
        lease_reply(visit, reply);
    } else if (is_last && route->kind == ROUTE_MONITOR) {
        struct http_reply answer = {.status = 200};
        visit->gateway->port.monitor(visit->gateway->port.data, route->path,
                                     &answer);
        give_answer(visit, &answer);
    } else if (is_last && route->kind == ROUTE_COMMAND) {
        take_answer(visit, reply);
    } else if (is_last) {
        stream_begin(visit);
    }
    visit->at++;
}

static void send_step(struct visit *visit)
{
    struct gateway *gateway = visit->gateway;
    struct core *core = gateway->port.core(gateway->port.data);
    const struct words *words = &visit->step[visit->at];
    struct bytes *argument = memory_new(words->count * sizeof *argument);
    for (uint32_t i = 0; i < words->count; i++) {
        argument[i] = words_at(words, i);
    }
    struct resp_request request = {argument, words->count};
    visit->is_sent = true;
    core_client_request(core, visit->conn, &request,
                        gateway->port.now_ns(gateway->port.data));
    gateway->port.wake(gateway->port.data);
    free(argument);
}

/* Gives the visit up. */
static void cut(struct visit *visit)
{
    if (visit->is_stream && !visit->is_answered) {
        visit->is_answered = true;
        http_stream_end(visit->exchange);
        hang_up(visit);
    } else if (!visit->is_answered) {
        struct problem problem;
        problem_set(&problem, 503, "BUSY", NULL, "the node has given it up");
        visit_refuse(visit, &problem, NULL);
    }
}

/* How large a reply is depends on what clients have put into the state. */
static void refuse_reply(struct visit *visit)
{
    struct problem problem;
    buffer_clear(&visit->output);
    if (visit->is_stream) {
        cut(visit);
        return;
    }
    problem_set(&problem, 500, "LIMIT", NULL,
                "the answer is too large for HTTP: ask for less, or by RESP");
    visit_refuse(visit, &problem, NULL);
}

/* Goes as far as it can with what the core has answered by now. */
static void advance(struct visit *visit)
{
    struct resp_reply *reply = &visit->gateway->reply;
    if (visit->is_stream && visit->output.size > 0 && stream_is_slow(visit)) {
        /* The client misses events from now on, and has to know that. */
        buffer_clear(http_stream_output(visit->exchange));
        cut(visit);
    }
    while (!visit->is_answered) {
        size_t used;
        if (!visit->is_sent && !visit->is_stream) {
            send_step(visit);
        }
        if (visit->output.size == 0) {
            return;
        }
        int rv = resp_parse_reply(buffer_bytes(&visit->output), REPLY_VALUE_MAX,
                                  reply, &used);
        if (rv == HASP_EMORE) {
            return;
        }
        if (rv != 0) {
            refuse_reply(visit);
            return;
        }
        if (reply->value[0].type != RESP_PUSH) {
            take_reply(visit, reply);
        } else if (visit->is_stream) {
            stream_push(visit, reply);
        }
        buffer_consume(&visit->output, used);
    }
}

/* Reads "id:secret". */
static bool read_session(struct visit *visit, struct words *credentials,
                         struct problem *problem)
{
    const char *header = http_header(visit->exchange, "Hasp-Session");
    const char *mark = header != NULL ? strchr(header, ':') : NULL;
    if (mark == NULL) {
        problem_set(problem, 400, "BADARG", NULL,
                    "the header Hasp-Session must be id:secret, as the answer "
                    "of /v1/session/open has them");
        return false;
    }
    words_put(credentials, bytes_of(header, (size_t)(mark - header)));
    words_put_text(credentials, mark + 1);
    return true;
}

/* The bearer's secret; no data: there is none. */
static struct bytes bearer_of(const struct http_exchange *exchange)
{
    static const char bearer[] = "Bearer ";
    const char *user = http_header(exchange, "Authorization");
    return user != NULL && strncasecmp(user, bearer, sizeof bearer - 1) == 0
               ? bytes_of_text(user + sizeof bearer - 1)
               : (struct bytes){NULL, 0};
}

static void put_first_steps(struct visit *visit,
                            const struct words *credentials)
{
    struct bytes secret = bearer_of(visit->exchange);
    struct words *hello = visit_step(visit);
    words_put_text(hello, "HELLO");
    words_put_text(hello, "3");
    if (secret.data != NULL) {
        struct words *auth = visit_step(visit);
        words_put_text(auth, "AUTH");
        words_put(auth, secret);
    }
    if ((visit->fields.route->flags & ROUTE_NEEDS_SESSION) != 0) {
        struct words *attach = visit_step(visit);
        words_put_text(attach, "SESSION.ATTACH");
        words_put(attach, words_at(credentials, 0));
        words_put(attach, words_at(credentials, 1));
    }
    visit->first_own = visit->step_count;
}

/* Puts the command for events. Browsers and the like reconnect with the header.
 */
static void put_watch(struct visit *visit, struct words *step)
{
    struct bytes from = fields_text(&visit->fields, "from");
    const char *header = http_header(visit->exchange, "Last-Event-ID");
    if (from.size == 0 && header != NULL) {
        from = bytes_of_text(header);
    }
    words_put_text(step, "LOCK.WATCH");
    words_put(step, fields_text(&visit->fields, "prefix"));
    if (from.size > 0) {
        words_put_text(step, "FROM");
        words_put(step, from);
    }
}

static void put_steps(struct visit *visit, const struct words *credentials)
{
    put_first_steps(visit, credentials);
    switch (visit->fields.route->kind) {
    case ROUTE_LEASE_TAKE:
    case ROUTE_LEASE_DROP:
        lease_begin(visit);
        break;
    case ROUTE_EVENTS:
        put_watch(visit, visit_step(visit));
        break;
    case ROUTE_PRESENCE:
        break;          /* ATTACH is the whole request. */
    case ROUTE_MONITOR: /* Every user may send this command. */
        words_put_text(visit_step(visit), "RAFT.STATUS");
        break;
    default:
        fields_command(&visit->fields, credentials, visit_step(visit));
    }
}

/* Sets how long the client wants to wait, if its command waits at all. */
static void begin_poll(struct visit *visit)
{
    struct gateway *gateway = visit->gateway;
    if ((visit->fields.route->flags & ROUTE_WAITS) == 0 ||
        fields_get(&visit->fields, "wait_ms")->number == 0) {
        return;
    }
    const struct value *poll = fields_get(&visit->fields, "poll_ms");
    visit->due_ns = gateway->port.now_ns(gateway->port.data) +
                    (poll->is_given ? poll->number * NS_PER_MS : POLL_NS);
    list_push_back(&gateway->polls, &visit->in_waiting);
}

/* True if a secret may be sent: over TLS, or over loopback. */
static bool is_private(const struct visit *visit)
{
    char host[128];
    uint16_t port;
    return http_identity(visit->exchange) != NULL ||
           (address_split(http_address(visit->exchange), host, sizeof host,
                          &port) == 0 &&
            address_is_loopback(host));
}

/* Opens a connection without a user, whatever its address, unless there was a
 * certificate. */
static void open_connection(struct visit *visit)
{
    struct gateway *gateway = visit->gateway;
    struct identity identity = {.way = IDENTITY_NONE,
                                .is_private = is_private(visit)};
    const struct tls_identity *who = http_identity(visit->exchange);
    if (who != NULL && who->name.role == TLS_USER) {
        identity.way = IDENTITY_CERTIFICATE;
        identity.user = who->name.user;
        identity.fingerprint = who->fingerprint;
        identity.ca = who->ca;
    }
    bool is_brief = visit->fields.route->kind != ROUTE_PRESENCE;
    visit->conn = ++gateway->number | GATEWAY_CONN |
                  (is_brief ? CORE_CONN_BRIEF : 0);
    visit->is_open = true;
    HASH_ADD(by_conn, gateway->visits, conn, sizeof visit->conn, visit);
    core_client_opened(gateway->port.core(gateway->port.data), visit->conn,
                       http_address(visit->exchange), &identity,
                       gateway->port.now_ns(gateway->port.data));
}

static bool is_stream(const struct route *route)
{
    return route->kind == ROUTE_EVENTS || route->kind == ROUTE_PRESENCE;
}

static void begin(struct visit *visit, const struct match *match,
                  struct bytes query)
{
    struct gateway *gateway = visit->gateway;
    struct words credentials = {0};
    struct problem problem;
    unsigned needs_session = ROUTE_NEEDS_SESSION | ROUTE_KEEPS;
    if (fields_read(&visit->fields, match, query, http_body(visit->exchange),
                    &problem) != 0 ||
        ((match->route->flags & needs_session) != 0 &&
         !read_session(visit, &credentials, &problem))) {
        visit_refuse(visit, &problem, NULL);
    } else if (gateway->port.core(gateway->port.data) == NULL) {
        problem_set(&problem, 503, "NOLEADER", NULL,
                    "the cluster has not begun, or this node is ending: see "
                    "/readyz");
        visit_refuse(visit, &problem, NULL);
    } else if (is_stream(match->route) &&
               gateway->stream_count >= STREAM_COUNT_MAX) {
        problem_set(&problem, 503, "BUSY", NULL,
                    "this node has %d streams, and takes no more",
                    STREAM_COUNT_MAX);
        visit_refuse(visit, &problem, NULL);
    } else {
        put_steps(visit, &credentials);
        open_connection(visit);
        begin_poll(visit);
        advance(visit);
    }
    words_done(&credentials);
}

/* --- Requests ------------------------------------------------------------ */

static void answer_problem(struct http_exchange *exchange,
                           const struct problem *problem, const char *allowed)
{
    struct http_reply reply = {0};
    problem_reply(problem, NULL, &reply);
    if (allowed != NULL) {
        reply.header[0] = (struct http_header){"Allow", allowed};
    }
    http_answer(exchange, &reply);
}

static void refuse_path(struct http_exchange *exchange,
                        const struct match *match)
{
    struct problem problem;
    if (match->allowed[0] != '\0') {
        problem_set(&problem, 405, "BADARG", NULL,
                    "this path takes %s, not %.20s", match->allowed,
                    http_method(exchange));
        answer_problem(exchange, &problem, match->allowed);
    } else {
        problem_set(&problem, 404, "BADARG", NULL,
                    "there is no such path; /v1/openapi.json has them all");
        answer_problem(exchange, &problem, NULL);
    }
}

/* Answers for the node's own pages, which are no part of the API. */
static void answer_monitor(struct gateway *gateway,
                           struct http_exchange *exchange,
                           const struct route *route)
{
    struct http_reply reply = {.status = 200};
    gateway->port.monitor(gateway->port.data, route->path, &reply);
    http_answer(exchange, &reply);
}

/* False if the request has been answered and needs no visit. */
static bool is_admitted(struct gateway *gateway, struct http_exchange *exchange,
                        const struct match *match)
{
    struct problem problem;
    struct guard_request request = {
        .method = http_method(exchange),
        .host = http_header(exchange, "Host"),
        .is_secure = http_identity(exchange) != NULL,
        .origin = http_header(exchange, "Origin"),
        .fetch_site = http_header(exchange, "Sec-Fetch-Site"),
        .content_type = http_header(exchange, "Content-Type"),
        .has_body = http_body(exchange).size > 0};
    if (!gateway->has_api) {
        problem_set(&problem, 404, "BADARG", NULL,
                    "this node has http.api = no: /healthz, /readyz and "
                    "/metrics are all there is");
    } else if (guard_admits(&request, gateway->names, &problem)) {
        if (match->route == NULL) {
            refuse_path(exchange, match);
            return false;
        }
        if (guard_takes_body(&request, &problem)) {
            return true;
        }
    }
    answer_problem(exchange, &problem, NULL);
    return false;
}

static void answer_document(struct gateway *gateway,
                            struct http_exchange *exchange)
{
    struct http_reply reply = {.status = 200,
                               .content_type = "application/json"};
    if (gateway->document.size == 0) {
        openapi_put(&gateway->document);
    }
    reply.constant = buffer_bytes(&gateway->document);
    http_answer(exchange, &reply);
}

uint32_t gateway_head(void *data, struct http_exchange *exchange)
{
    struct gateway *gateway = data;
    struct core *core = gateway->port.core(gateway->port.data);
    const struct tls_identity *who = http_identity(exchange);
    struct bytes secret = bearer_of(exchange);
    struct http_reply reply = {0};
    struct problem problem;
    if (core == NULL || !gateway->has_api) {
        return GATEWAY_GUEST_BODY; /* It is refused anyway. */
    }
    if ((who != NULL && who->name.role == TLS_USER) ||
        core_secret_is_somebody(core, secret)) {
        return UINT32_MAX;
    }
    if (secret.data != NULL) {
        /* This node may be about to learn of it: AUTH decides. */
        return GATEWAY_GUEST_BODY;
    }
    problem_set(&problem, 401, "NOAUTH", NULL,
                "not authenticated: the body was not read; present a client "
                "certificate or Authorization: Bearer SECRET");
    problem_reply(&problem, NULL, &reply);
    reply.header[1] = (struct http_header){"Connection", "close"};
    http_answer(exchange, &reply);
    return 0;
}

void gateway_request(void *data, struct http_exchange *exchange)
{
    struct gateway *gateway = data;
    struct match match;
    struct bytes path, query;
    uri_split(http_target(exchange), &path, &query);
    routes_find(http_method(exchange), path, &match);
    bool is_monitor = match.route != NULL && match.route->kind == ROUTE_MONITOR;
    bool is_guarded = is_monitor && gateway->guards_metrics &&
                      strcmp(match.route->path, "/metrics") == 0;
    if (is_monitor && !is_guarded) {
        answer_monitor(gateway, exchange, match.route);
    } else if (!is_monitor && !is_admitted(gateway, exchange, &match)) {
        return;
    } else if (match.route->kind == ROUTE_DOCUMENT) {
        answer_document(gateway, exchange);
    } else if (match.route->kind == ROUTE_PAGE) {
        page_answer(exchange, &gateway->policy);
    } else {
        struct visit *visit = memory_new(sizeof *visit);
        visit->gateway = gateway;
        visit->exchange = exchange;
        list_init(&visit->in_dirty);
        list_init(&visit->in_waiting);
        http_set_owner(exchange, visit);
        begin(visit, &match, query);
    }
}

void gateway_end(void *data, struct http_exchange *exchange)
{
    struct visit *visit = http_owner(exchange);
    (void)data;
    if (visit == NULL) {
        return;
    }
    hang_up(visit);
    if (visit->is_stream) {
        CHECK(visit->gateway->stream_count > 0);
        visit->gateway->stream_count--;
    }
    list_remove(&visit->in_dirty);
    list_remove(&visit->in_waiting);
    for (uint32_t i = 0; i < VISIT_STEP_MAX; i++) {
        words_done(&visit->step[i]);
    }
    fields_done(&visit->fields);
    buffer_done(&visit->output);
    free(visit);
}

/* --- The core's side ------------------------------------------------------ */

static struct visit *find(struct gateway *gateway, uint64_t conn)
{
    struct visit *visit;
    HASH_FIND(by_conn, gateway->visits, &conn, sizeof conn, visit);
    return visit;
}

struct buffer *gateway_output(struct gateway *gateway, uint64_t conn)
{
    struct visit *visit = find(gateway, conn);
    if (visit == NULL || visit->is_answered) {
        buffer_clear(&gateway->nowhere);
        return &gateway->nowhere;
    }
    if (list_is_empty(&visit->in_dirty)) {
        list_push_back(&gateway->dirty, &visit->in_dirty);
    }
    return &visit->output;
}

void gateway_close(struct gateway *gateway, uint64_t conn)
{
    struct visit *visit = find(gateway, conn);
    if (visit != NULL) {
        visit->is_cut = true;
        (void)gateway_output(gateway, conn);
    }
}

void gateway_flush(struct gateway *gateway)
{
    while (!list_is_empty(&gateway->dirty)) {
        struct visit *visit = LIST_FIRST(&gateway->dirty, struct visit,
                                         in_dirty);
        list_remove(&visit->in_dirty);
        if (visit->is_open) {
            advance(visit);
        }
        if (visit->is_cut) {
            cut(visit);
        }
    }
}

void gateway_tick(struct gateway *gateway, uint64_t now_ns)
{
    LIST_FOR_SAFE (struct visit, visit, &gateway->polls, in_waiting) {
        bool is_asked = visit->is_sent && visit->at + 1 == visit->step_count;
        if (visit->is_answered) {
            list_remove(&visit->in_waiting);
        } else if (now_ns >= visit->due_ns && is_asked) {
            list_remove(&visit->in_waiting);
            visit_answer_json(visit, 202, json_pack("{sb}", "waiting", true));
        }
    }
    if (now_ns < gateway->comment_ns) {
        return;
    }
    gateway->comment_ns = now_ns + COMMENT_NS;
    LIST_FOR_SAFE (struct visit, visit, &gateway->streams, in_waiting) {
        if (!visit->is_answered) {
            stream_comment(visit);
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
    list_init(&gateway->dirty);
}

void gateway_done(struct gateway *gateway)
{
    CHECK(gateway->visits == NULL);
    resp_reply_done(&gateway->reply);
    buffer_done(&gateway->nowhere);
    buffer_done(&gateway->document);
    buffer_done(&gateway->policy);
}
