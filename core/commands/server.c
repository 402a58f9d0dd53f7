/* SPDX-License-Identifier: MIT */

/* Commands with which Redis clients start: HELLO, AUTH, CLIENT and others. The
 * asked node answers them at once, truthfully. */

#include <inttypes.h>
#include <stdio.h>

#include "base/check.h"
#include "core/authorize.h"
#include "core/commands/commands.h"
#include "core/conn.h"
#include "core/events/watches.h"
#include "core/request.h"
#include "core/session/attach.h"
#include "core/state.h"
#include "core/transaction.h"

#define NAME_SIZE_MAX CLIENT_NAME_SIZE_MAX
/* The largest pattern of CONFIG GET, because each is matched with each
 * parameter. */
#define CONFIG_PATTERN_SIZE_MAX 64
#define CONFIG_PATTERN_COUNT_MAX 64

/* Names are shown in lists of lines, so they may not contain spaces or control
 * characters. */
static bool server_is_name(struct bytes name)
{
    for (size_t i = 0; i < name.size; i++) {
        if (name.data[i] <= ' ' || name.data[i] > '~') {
            return false;
        }
    }
    return name.size <= NAME_SIZE_MAX;
}

/* The arguments of HELLO. */
struct hello {
    int version;
    bool has_user;
    struct bytes user;
    struct bytes secret;
    bool has_name;
    struct bytes name;
};

/* Parses the options after the version in HELLO. */
static bool hello_options(struct core *core, struct request *request,
                          const struct call *call, struct hello *hello)
{
    CHECK(hello->version == 0 && !hello->has_user && !hello->has_name);
    for (uint32_t i = 2; i < call->count;) {
        struct bytes word = call->argument[i];
        if (bytes_is_word(word, "AUTH") && i + 2 < call->count) {
            hello->has_user = true;
            hello->user = call->argument[i + 1];
            hello->secret = call->argument[i + 2];
            i += 3;
        } else if (bytes_is_word(word, "SETNAME") && i + 1 < call->count) {
            if (!server_is_name(call->argument[i + 1])) {
                return request_refuse(
                    core, request, WORD_ERR,
                    "Client names cannot contain spaces, newlines "
                    "or special characters.");
            }
            hello->has_name = true;
            hello->name = call->argument[i + 1];
            i += 2;
        } else {
            return request_refuse(core, request, WORD_ERR,
                                  "Syntax error in HELLO option");
        }
    }
    return true;
}

void server_hello(struct core *core, struct request *request)
{
    const struct call *call = request->call;
    struct conn *conn = request->conn;
    struct hello hello = {0};
    uint64_t version = (uint64_t)conn->version;
    if (call->count > 1 && (!bytes_to_u64(call->argument[1], &version) ||
                            version < 2 || version > 3)) {
        request_refuse(core, request, WORD_NOPROTO,
                       "unsupported protocol version");
        return;
    }
    /* All options are checked before any takes effect. */
    if (!hello_options(core, request, call, &hello)) {
        return;
    }
    if (hello.has_name) {
        conn_set_name(conn, hello.name);
    }
    if (hello.has_user) {
        identity_authenticate(core, request, hello.user, hello.secret,
                              (int)version);
    } else {
        identity_say_hello(core, request, (int)version);
    }
}

void server_auth(struct core *core, struct request *request)
{
    const struct call *call = request->call;
    static const struct bytes none = {NULL, 0};
    if (call->count > 3) {
        request_refuse(core, request, WORD_ERR, "syntax error");
        return;
    }
    CHECK(call->count >= 2); /* The table of commands sets the arity. */
    identity_authenticate(core, request,
                          call->count == 3 ? call->argument[1] : none,
                          call->argument[call->count - 1], 0);
}

void server_ping(struct core *core, struct request *request)
{
    const struct call *call = request->call;
    struct conn *conn = request->conn;
    if (call->count > 2) {
        request_refuse(core, request, WORD_ERR,
                       "wrong number of arguments for 'ping' command");
        return;
    }
    struct resp_writer *writer = request_reply(core, request);
    /* A RESP2 client that has subscribed expects a message (Redis, PING). */
    if (conn->version == 2 && conn->channel_count > 0) {
        resp_array(writer, 2);
        resp_text(writer, "pong");
        resp_bulk(writer,
                  call->count == 2 ? call->argument[1] : BYTES_LITERAL(""));
    } else if (call->count == 2) {
        resp_bulk(writer, call->argument[1]);
    } else {
        resp_simple(writer, "PONG");
    }
    request_done(core, request);
}

void server_echo(struct core *core, struct request *request)
{
    resp_bulk(request_reply(core, request), request->call->argument[1]);
    request_done(core, request);
}

void server_quit(struct core *core, struct request *request)
{
    struct conn *conn = request->conn;
    uint64_t slot = request->slot;
    request_answer_ok(core, request);
    conn_quit(core, conn, slot);
}

void server_reset(struct core *core, struct request *request)
{
    struct conn *conn = request->conn;
    CHECK(conn != NULL);
    watches_remove(core, conn);
    transaction_forget(core, conn);
    attach_remove_conn(core, conn);
    identity_reset(core, conn);
    conn_set_name(conn, (struct bytes){NULL, 0});
    conn->version = 2;
    request->version = 2;
    resp_simple(request_reply(core, request), "RESET");
    request_done(core, request);
}

void server_select(struct core *core, struct request *request)
{
    uint64_t index;
    if (bytes_to_u64(request->call->argument[1], &index) && index == 0) {
        request_answer_ok(core, request);
    } else {
        request_refuse(core, request, WORD_ERR, "DB index is out of range");
    }
}

void server_readonly(struct core *core, struct request *request)
{
    request_answer_ok(core, request);
}

/* Answers for the few parameters that clients ask for. */
bool server_config_check(struct call *call, struct resp_writer *writer)
{
    if (call->count > 2 + CONFIG_PATTERN_COUNT_MAX) {
        return call_fail(call, writer, "at most 64 patterns are allowed");
    }
    for (uint32_t i = 2; i < call->count; i++) {
        if (call->argument[i].size > CONFIG_PATTERN_SIZE_MAX) {
            return call_fail(call, writer, "a pattern has at most 64 bytes");
        }
    }
    return true;
}

void server_config(struct core *core, struct request *request)
{
    const struct call *call = request->call;
    static const struct {
        const char *name;
        const char *value;
    } parameters[] = {
        {"save", ""},       {"appendonly", "yes"},
        {"databases", "1"}, {"maxmemory", "0"},
        {"timeout", "0"},   {"notify-keyspace-events", ""},
    };
    const uint32_t count = sizeof parameters / sizeof *parameters;
    uint32_t found = 0;
    if (!bytes_is_word(call->argument[1], "GET") || call->count < 3) {
        request_refuse(core, request, WORD_ERR,
                       "CONFIG supports only GET; hasp is configured by the "
                       "daemon's file");
        return;
    }
    uint64_t hits = 0;
    CHECK(count <= 64); /* 'hits' has one bit for each pattern. */
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t a = 2; a < call->count; a++) {
            if (bytes_match(call->argument[a],
                            bytes_of_text(parameters[i].name))) {
                hits |= UINT64_C(1) << i;
            }
        }
        found += (hits >> i & 1) != 0;
    }
    struct resp_writer *writer = request_reply(core, request);
    resp_map(writer, found);
    for (uint32_t i = 0; i < count; i++) {
        if ((hits >> i & 1) != 0) {
            resp_text(writer, parameters[i].name);
            resp_text(writer, parameters[i].value);
        }
    }
    request_done(core, request);
}

/* Clients read all of Redis's numbers from the line, or fail (redis-py does); a
 * number that hasp does not have is 0. */
static void server_put_client(struct core *core, const struct conn *conn,
                              struct buffer *out)
{
    CHECK(conn->opened_ns <= core->now_ns);
    struct bytes user = conn->user == USER_ANYONE
                            ? BYTES_LITERAL("default")
                            : identity_name(core, conn->user);
    buffer_printf(out,
                  "id=%" PRIu64 " addr=%s name=%.*s age=%" PRIu64
                  " idle=0 flags=%s db=0 sub=%u psub=0 multi=%d qbuf=0 "
                  "qbuf-free=0 argv-mem=0 obl=0 oll=0 omem=0 tot-mem=0 "
                  "events=r cmd=NULL user=%.*s redir=-1 sessions=%u "
                  "resp=%d by=",
                  conn->id & INT64_MAX, conn->address, (int)conn->name.size,
                  (const char *)conn->name.data,
                  (core->now_ns - conn->opened_ns) / NS_PER_S,
                  conn->channel_count > 0 ? "P" : "N", conn->channel_count,
                  transaction_length(conn), (int)user.size,
                  (const char *)user.data, conn->session_count, conn->version);
    login_put(conn, out);
    buffer_put_u8(out, '\n');
}

/* The most lines that CLIENT LIST shows. */
#define CLIENT_LIST_MAX 10000

static void client_list(struct core *core, struct request *request)
{
    struct buffer text = {0};
    uint32_t count = 0;
    LIST_FOR (struct conn, conn, &core->conns.by_age, in_core) {
        if (!authorize_sees(core, request, conn->user)) {
            continue;
        }
        if (count++ == CLIENT_LIST_MAX) {
            break;
        }
        server_put_client(core, conn, &text);
    }
    resp_bulk(request_reply(core, request), buffer_bytes(&text));
    buffer_done(&text);
    request_done(core, request);
}

void server_client(struct core *core, struct request *request)
{
    const struct call *call = request->call;
    struct conn *conn = request->conn;
    struct bytes what = call->argument[1];
    if (bytes_is_word(what, "ID")) {
        request_answer_integer(core, request, (int64_t)(conn->id & INT64_MAX));
    } else if (bytes_is_word(what, "GETNAME")) {
        struct resp_writer *writer = request_reply(core, request);
        if (conn->name.size > 0) {
            resp_bulk(writer, conn->name);
        } else {
            resp_null(writer);
        }
        request_done(core, request);
    } else if (bytes_is_word(what, "SETNAME") && call->count == 3) {
        if (!server_is_name(call->argument[2])) {
            request_refuse(core, request, WORD_ERR,
                           "Client names cannot contain spaces, newlines or "
                           "special characters.");
            return;
        }
        conn_set_name(conn, call->argument[2]);
        request_answer_ok(core, request);
    } else if (bytes_is_word(what, "INFO")) {
        struct buffer text = {0};
        server_put_client(core, conn, &text);
        resp_bulk(request_reply(core, request), buffer_bytes(&text));
        buffer_done(&text);
        request_done(core, request);
    } else if (bytes_is_word(what, "LIST")) {
        client_list(core, request);
    } else if (bytes_is_word(what, "SETINFO") ||
               bytes_is_word(what, "NO-EVICT") ||
               bytes_is_word(what, "NO-TOUCH")) {
        request_answer_ok(core, request);
    } else {
        request_refuse(core, request, WORD_ERR,
                       "unknown subcommand of CLIENT: try ID, GETNAME, "
                       "SETNAME, SETINFO, INFO or LIST");
    }
}
