/* SPDX-License-Identifier: MIT */

/* Sessions of the door for Consul, and what clients ask of an agent. */

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/check.h"
#include "base/memory.h"
#include "base/minmax.h"
#include "base/sha.h"
#include "base/units.h"
#include "core/core.h"
#include "http/exchange.h"
#include "net/json.h"

#define TTL_MIN_NS (10 * NS_PER_S)
#define DELAY_DEFAULT_NS (15 * NS_PER_S)
#define DELAY_MAX_NS (60 * NS_PER_S)
/* Sizes of a client's name and of a label. */
#define NAME_MAX_SIZE (128 - (sizeof CONSUL_PREFIX - 1))
#define TEXT_MAX_SIZE 128

/* The body of /v1/session/create. The texts are borrowed from its document. */
struct create {
    struct bytes name;
    struct bytes node;
    struct bytes ttl;
    struct bytes behavior;
    uint64_t ttl_ns; /* 0: none. */
    uint64_t delay_ns;
};

static enum route_kind session_kind(const struct exchange *exchange)
{
    return exchange->fields.route->kind;
}

/* --- Creating ------------------------------------------------------------- */

static bool create_refuse(struct problem *problem, const char *text)
{
    problem_set(problem, 400, "BADARG", NULL, "%s", text);
    return false;
}

/* Reads a text of at most 'max' bytes; null is none. */
static bool create_text(const json_t *value, const char *what, size_t max,
                        struct bytes *ret_text, struct problem *problem)
{
    if (json_is_null(value)) {
        return true;
    }
    *ret_text = bytes_of(json_string_value(value), json_string_length(value));
    if (json_is_string(value) && ret_text->size <= max &&
        (ret_text->size == 0 ||
         memchr(ret_text->data, '\0', ret_text->size) == NULL)) {
        return true;
    }
    problem_set(problem, 400, "BADARG", NULL,
                "%s must be a text of at most %zu bytes", what, max);
    return false;
}

/* A duration, or a number: below 1000 it is seconds, otherwise ns. */
static bool create_delay(const json_t *value, struct create *create,
                         struct problem *problem)
{
    bool is_read = true;
    if (json_is_integer(value) && json_integer_value(value) >= 0) {
        uint64_t number = (uint64_t)json_integer_value(value);
        create->delay_ns = number < 1000 ? number * NS_PER_S : number;
    } else if (json_is_string(value)) {
        is_read = consul_duration_get(
            bytes_of(json_string_value(value), json_string_length(value)),
            &create->delay_ns);
    } else {
        is_read = json_is_null(value);
    }
    return (is_read && create->delay_ns <= DELAY_MAX_NS) ||
           create_refuse(problem, "LockDelay must be from 0s to 60s");
}

/* hasp checks no health of nodes or services. */
static bool create_checks(const json_t *value, struct problem *problem)
{
    bool is_good = json_is_null(value) || json_is_array(value);
    for (size_t i = 0; is_good && i < json_array_size(value); i++) {
        const char *one = json_string_value(json_array_get(value, i));
        is_good = one != NULL && strcmp(one, "serfHealth") == 0;
    }
    return is_good || create_refuse(problem, "no health checks here: leave out "
                                             "Checks, NodeChecks and "
                                             "ServiceChecks");
}

static bool create_member(const char *name, const json_t *value,
                          struct create *create, struct problem *problem)
{
    if (strcasecmp(name, "Name") == 0) {
        return create_text(value, "Name", NAME_MAX_SIZE, &create->name,
                           problem);
    }
    if (strcasecmp(name, "Node") == 0) {
        return create_text(value, "Node", TEXT_MAX_SIZE, &create->node,
                           problem);
    }
    if (strcasecmp(name, "TTL") == 0) {
        return create_text(value, "TTL", TEXT_MAX_SIZE, &create->ttl, problem);
    }
    if (strcasecmp(name, "LockDelay") == 0) {
        return create_delay(value, create, problem);
    }
    if (strcasecmp(name, "Behavior") == 0) {
        return create_text(value, "Behavior", TEXT_MAX_SIZE, &create->behavior,
                           problem);
    }
    if (strcasecmp(name, "Checks") == 0 ||
        strcasecmp(name, "NodeChecks") == 0 ||
        strcasecmp(name, "ServiceChecks") == 0) {
        return create_checks(value, problem);
    }
    return true;
}

/* Consul's own words: clients compare how they begin. */
static bool create_ttl(struct exchange *exchange, struct create *create,
                       struct problem *problem)
{
    struct gateway *gateway = exchange->gateway;
    const struct core *core = gateway->port.core(gateway->port.data);
    uint64_t max_s = core != NULL ? core_ttl_max_ms(core) / 2000 : UINT32_MAX;
    if (create->ttl.size > 0 &&
        !consul_duration_get(create->ttl, &create->ttl_ns)) {
        problem_set(problem, 500, "ERR", NULL,
                    "Session TTL '%.*s' invalid: not a duration such as 15s",
                    (int)create->ttl.size, (const char *)create->ttl.data);
        return false;
    }
    bool is_durable = create->ttl_ns == 0 && gateway->consul.is_durable;
    if (is_durable ||
        (create->ttl_ns >= TTL_MIN_NS && create->ttl_ns <= max_s * NS_PER_S)) {
        return true;
    }
    problem_set(problem, 500, "ERR", NULL,
                "Invalid Session TTL '%" PRIu64 "', must be between "
                "[10s=%" PRIu64 "s]%s",
                create->ttl_ns, max_s,
                create->ttl_ns == 0 ? "; hasp needs a TTL, or consul.no_ttl = "
                                      "durable"
                                    : "; see the limit ttl_max");
    return false;
}

/* Reads the document, which may be NULL: no body. */
static bool create_read(const json_t *document, struct create *create,
                        struct problem *problem)
{
    const char *name;
    json_t *value;
    *create = (struct create){.node = BYTES_LITERAL(CONSUL_NODE),
                              .behavior = BYTES_LITERAL("release"),
                              .delay_ns = DELAY_DEFAULT_NS};
    json_object_foreach ((json_t *)(uintptr_t)document, name, value) {
        if (!create_member(name, value, create, problem)) {
            return false;
        }
    }
    if (create->node.size == 0) {
        create->node = BYTES_LITERAL(CONSUL_NODE);
    }
    if (create->behavior.size == 0) {
        create->behavior = BYTES_LITERAL("release");
    }
    return bytes_equal(create->behavior, BYTES_LITERAL("release")) ||
           bytes_equal(create->behavior, BYTES_LITERAL("delete")) ||
           create_refuse(problem, "Invalid Behavior: release or delete");
}

static void put_label(struct words *step, const char *key, struct bytes value)
{
    words_put_text(step, "LABEL");
    words_put_text(step, key);
    words_put(step, value);
}

/* The hash of the session's secret; the cluster stores only that. */
static void put_proof(struct words *step, const struct consul_id *id)
{
    char secret[CONSUL_SECRET_SIZE], digits[2 * SHA256_SIZE + 1];
    uint8_t proof[SHA256_SIZE];
    consul_id_secret(id, secret);
    int error = sha256(bytes_of_text(secret), proof);
    CHECK(error == 0);
    hex_put(digits, bytes_of(proof, sizeof proof));
    words_put_text(step, "PROOF");
    words_put_text(step, digits);
}

static void put_open(struct exchange *exchange, const struct create *create)
{
    struct gateway *gateway = exchange->gateway;
    struct core *core = gateway->port.core(gateway->port.data);
    struct consul_id *id = &exchange->consul.id;
    AUTO(buffer_done) struct buffer name = {0};
    struct words *step = exchange_step(exchange);
    char text[32];
    while (id->random == 0) {
        core_random(core, &id->random, sizeof id->random);
    }
    buffer_put_text(&name, CONSUL_PREFIX);
    buffer_put_bytes(&name, create->name);
    words_put_text(step, "SESSION.OPEN");
    words_put_text(step, "TTL");
    if (create->ttl_ns == 0) {
        words_put_text(step, "NONE");
    } else {
        /* Consul ends a session after twice its TTL at the latest, and clients
         * renew every half of it. */
        words_put_number(step, 2 * create->ttl_ns / NS_PER_MS);
    }
    words_put_text(step, "NAME");
    words_put(step, buffer_bytes(&name));
    snprintf(text, sizeof text, "%016" PRIx64, id->random);
    put_label(step, "consul", bytes_of_text(text));
    snprintf(text, sizeof text, "%" PRIu64, create->delay_ns / NS_PER_MS);
    put_label(step, "lock_delay_ms", bytes_of_text(text));
    put_label(step, "ttl", create->ttl);
    put_label(step, "behavior", create->behavior);
    put_label(step, "node", create->node);
    put_proof(step, id);
    exchange->consul.stage = CONSUL_SESSION;
}

static bool create_begin(struct exchange *exchange, struct problem *problem)
{
    struct bytes body = http_body(exchange->raw_exchange);
    struct create create;
    json_error_t error;
    json_t *document = NULL;
    bool is_good = true;
    if (body.size > 0) {
        document = json_loadb((const char *)body.data, body.size, 0, &error);
        is_good = json_is_object(document) ||
                  create_refuse(problem, "the body must be a JSON object");
    }
    struct gateway *gateway = exchange->gateway;
    is_good = is_good && create_read(document, &create, problem) &&
              create_ttl(exchange, &create, problem);
    if (is_good && gateway->port.core(gateway->port.data) != NULL) {
        put_open(exchange, &create);
    }
    json_decref(document);
    return is_good;
}

/* --- Other requests ------------------------------------------------------- */

/* Adds a command, and the id of the session if 'has_id'. */
static struct words *session_put_command(struct exchange *exchange,
                                         const char *command,
                                         enum consul_stage stage)
{
    struct words *step = exchange_step(exchange);
    words_put_text(step, command);
    exchange->consul.stage = stage;
    return step;
}

static void session_put_show(struct exchange *exchange)
{
    words_put_number(
        session_put_command(exchange, "SESSION.SHOW", CONSUL_SESSION),
        exchange->consul.id.session);
}

static void put_keep(struct exchange *exchange)
{
    char secret[CONSUL_SECRET_SIZE];
    struct words *step = session_put_command(exchange, "SESSION.KEEP",
                                             CONSUL_KEEP);
    consul_id_secret(&exchange->consul.id, secret);
    words_put_number(step, exchange->consul.id.session);
    words_put_text(step, secret);
}

static void put_list(struct exchange *exchange)
{
    struct words *step = session_put_command(exchange, "SESSION.LIST",
                                             CONSUL_SESSION);
    words_put_text(step, "PREFIX");
    words_put_text(step, CONSUL_PREFIX);
    words_put_text(step, "COUNT");
    words_put_number(step, CONSUL_LIST_MAX);
}

bool consul_session_begin(struct exchange *exchange, struct problem *problem)
{
    AUTO(buffer_done) struct buffer text = {0};
    struct consul *consul = &exchange->consul;
    consul_note_base(exchange);
    switch (session_kind(exchange)) {
    case ROUTE_CONSUL_CREATE:
        return create_begin(exchange, problem);
    case ROUTE_CONSUL_SELF:
    case ROUTE_CONSUL_LEADER:
    case ROUTE_CONSUL_PEERS:
        (void)session_put_command(exchange, "RAFT.STATUS", CONSUL_STATUS);
        return true;
    case ROUTE_CONSUL_NODE:
        if (!consul_rest(exchange, "the node", &consul->key, problem)) {
            return false;
        }
        put_list(exchange);
        return true;
    case ROUTE_CONSUL_LIST:
        put_list(exchange);
        return true;
    default:
        break;
    }
    if (!consul_rest(exchange, "the session", &text, problem)) {
        return false;
    }
    if (!consul_id_get(buffer_bytes(&text), &consul->id)) {
        /* Not a session of this door: one that does not exist. */
        consul->id = (struct consul_id){1, 1};
        session_put_show(exchange);
    } else if (session_kind(exchange) == ROUTE_CONSUL_RENEW) {
        put_keep(exchange);
    } else if (session_kind(exchange) == ROUTE_CONSUL_DESTROY) {
        consul_attach(exchange);
    } else {
        session_put_show(exchange);
    }
    return true;
}

/* --- Answers -------------------------------------------------------------- */

/* A label of the session at value[at]; empty: it has none. */
static struct bytes label_of(const struct resp_reply *reply, uint32_t at,
                             const char *key)
{
    const struct resp_value *labels = resp_find(reply, at, "labels");
    const struct resp_value *value = resp_find(
        reply, (uint32_t)(labels - reply->value), key);
    return value != NULL ? value->bytes : BYTES_LITERAL("");
}

static uint64_t delay_of(const struct resp_reply *reply, uint32_t at)
{
    uint64_t delay_ms = DELAY_DEFAULT_NS / NS_PER_MS;
    (void)bytes_to_u64(label_of(reply, at, "lock_delay_ms"), &delay_ms);
    return u64_min(delay_ms, DELAY_MAX_NS / NS_PER_MS);
}

uint64_t consul_session_delay(const struct resp_reply *reply)
{
    return delay_of(reply, 0);
}

/* NULL: it is not a session of this door, or not the one that was asked for. */
static json_t *session_document(const struct exchange *exchange,
                                const struct resp_reply *reply, uint32_t at)
{
    const struct consul_id *wanted = &exchange->consul.id;
    struct bytes node = buffer_bytes(&exchange->consul.key);
    char text[CONSUL_ID_SIZE];
    uint8_t random[8];
    struct consul_id id = {
        .session = (uint64_t)resp_find(reply, at, "id")->integer};
    struct bytes name = resp_find(reply, at, "name")->bytes;
    size_t skipped = sizeof CONSUL_PREFIX - 1;
    if (!hex_get(label_of(reply, at, "consul"), random, sizeof random) ||
        !bytes_has_prefix(name, BYTES_LITERAL(CONSUL_PREFIX))) {
        return NULL;
    }
    id.random = load_u64_be(random);
    if ((wanted->session != 0 && wanted->random != id.random) ||
        (session_kind(exchange) == ROUTE_CONSUL_NODE &&
         !bytes_equal(node, label_of(reply, at, "node")))) {
        return NULL;
    }
    consul_id_put(&id, text);
    json_t *document = json_pack(
        "{ss, sI, sI, sI, s[], s[]}", "ID", text, "LockDelay",
        (json_int_t)(delay_of(reply, at) * NS_PER_MS), "CreateIndex",
        (json_int_t)id.session, "ModifyIndex", (json_int_t)id.session,
        "NodeChecks", "ServiceChecks");
    CHECK(document != NULL);
    json_put_text(document, "Name",
                  bytes_of(name.data + skipped, name.size - skipped));
    json_put_text(document, "Node", label_of(reply, at, "node"));
    json_put_text(document, "Behavior", label_of(reply, at, "behavior"));
    json_put_text(document, "TTL", label_of(reply, at, "ttl"));
    return document;
}

static void answer_not_found(struct exchange *exchange)
{
    consul_answer_text(exchange, 404, "Session id not found");
}

static void answer_created(struct exchange *exchange,
                           const struct resp_reply *reply)
{
    struct consul_id *id = &exchange->consul.id;
    char text[CONSUL_ID_SIZE];
    id->session = (uint64_t)resp_find(reply, 0, "id")->integer;
    consul_id_put(id, text);
    consul_answer_json(exchange, json_pack("{ss}", "ID", text));
}

static void answer_session(struct exchange *exchange,
                           const struct resp_reply *reply)
{
    json_t *list = json_array(),
           *document = session_document(exchange, reply, 0);
    if (document != NULL) {
        json_add(list, document);
    }
    if (document == NULL && session_kind(exchange) == ROUTE_CONSUL_RENEW) {
        json_decref(list);
        answer_not_found(exchange);
        return;
    }
    consul_answer_json(exchange, list);
}

static void answer_sessions(struct exchange *exchange,
                            const struct resp_reply *reply)
{
    struct problem problem;
    json_t *list = json_array();
    uint32_t at = 3;
    if (!bytes_equal(reply->value[1].bytes, BYTES_LITERAL("0"))) {
        json_decref(list);
        problem_set(&problem, 500, "ERR", NULL, "more than %d sessions",
                    CONSUL_LIST_MAX);
        exchange_refuse(exchange, &problem, NULL);
        return;
    }
    for (uint32_t i = 0; i < reply->value[2].count; i++) {
        json_t *document = session_document(exchange, reply, at);
        if (document != NULL) {
            json_add(list, document);
        }
        at += reply->value[at].span;
    }
    consul_answer_json(exchange, list);
}

/* The client's part of a member's "PEER,CLIENT". */
static struct bytes consul_client_address(struct bytes address)
{
    (void)bytes_cut(&address, ',');
    return address;
}

static json_t *peers_document(const struct resp_reply *reply, int64_t node,
                              struct bytes *ret_own)
{
    const struct resp_value *members = resp_find(reply, 0, "members");
    uint32_t at = (uint32_t)(members - reply->value) + 1;
    json_t *list = json_array();
    *ret_own = BYTES_LITERAL("");
    for (uint32_t i = 0; i < members->count; i++) {
        struct bytes address = consul_client_address(
            resp_find(reply, at, "address")->bytes);
        json_add(list, json_stringn((const char *)address.data, address.size));
        if (resp_find(reply, at, "id")->integer == node) {
            *ret_own = address;
        }
        at += reply->value[at].span;
    }
    return list;
}

/* The host of "host:port" and "[host]:port". */
static struct bytes consul_host_of(struct bytes address)
{
    size_t size = address.size;
    while (size > 0 && address.data[size - 1] != ':') {
        size--;
    }
    size = size > 0 ? size - 1 : 0;
    bool is_v6 = size > 2 && address.data[0] == '[';
    return is_v6 ? bytes_of(address.data + 1, size - 2)
                 : bytes_of(address.data, size);
}

static void answer_status(struct exchange *exchange,
                          const struct resp_reply *reply)
{
    struct bytes own;
    struct bytes leader = resp_find(reply, 0, "leader_address")->bytes;
    int64_t node = resp_find(reply, 0, "node")->integer;
    json_t *peers = peers_document(reply, node, &own);
    if (session_kind(exchange) == ROUTE_CONSUL_PEERS) {
        consul_answer_json(exchange, peers);
        return;
    }
    json_decref(peers);
    if (session_kind(exchange) == ROUTE_CONSUL_LEADER) {
        struct buffer body = {0};
        buffer_printf(&body, "\"%.*s\"", (int)leader.size,
                      leader.size > 0 ? (const char *)leader.data : "");
        consul_answer(exchange, 200, "application/json", &body,
                      u64_max(exchange->consul.base, 1));
        return;
    }
    json_t *config = json_pack("{ss, ss, sb, sI}", "NodeName", CONSUL_NODE,
                               "Datacenter",
                               exchange->gateway->consul.datacenter, "Server",
                               1, "SessionTTLMin", (json_int_t)TTL_MIN_NS);
    json_t *member = json_pack("{ss}", "Name", CONSUL_NODE);
    json_put_text(member, "Addr", consul_host_of(own));
    json_put_text(config, "Version", resp_find(reply, 0, "version")->bytes);
    consul_answer_json(
        exchange, json_pack("{so, so}", "Config", config, "Member", member));
}

void consul_session_reply(struct exchange *exchange,
                          const struct resp_reply *reply)
{
    switch (exchange->consul.stage) {
    case CONSUL_STATUS:
        answer_status(exchange, reply);
        return;
    case CONSUL_KEEP:
        session_put_show(exchange);
        return;
    case CONSUL_ATTACH:
        /* The client can still believe in its locks: the delay runs. */
        words_put_text(
            session_put_command(exchange, "SESSION.CLOSE", CONSUL_SESSION),
            "UNCLEAN");
        return;
    default:
        break;
    }
    switch (session_kind(exchange)) {
    case ROUTE_CONSUL_CREATE:
        answer_created(exchange, reply);
        break;
    case ROUTE_CONSUL_DESTROY:
        consul_answer_text(exchange, 200, "true");
        break;
    case ROUTE_CONSUL_LIST:
    case ROUTE_CONSUL_NODE:
        answer_sessions(exchange, reply);
        break;
    default:
        answer_session(exchange, reply);
    }
}

bool consul_session_fail(struct exchange *exchange,
                         const struct problem *problem)
{
    if (strcmp(problem->code, "NOSESSION") != 0 &&
        strcmp(problem->code, "EXPIRED") != 0) {
        return false;
    }
    switch (session_kind(exchange)) {
    case ROUTE_CONSUL_RENEW:
        answer_not_found(exchange);
        return true;
    case ROUTE_CONSUL_DESTROY:
        consul_answer_text(exchange, 200, "true");
        return true;
    case ROUTE_CONSUL_INFO:
        consul_answer_json(exchange, json_array());
        return true;
    default:
        return false;
    }
}
