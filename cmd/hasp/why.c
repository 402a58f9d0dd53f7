/* SPDX-License-Identifier: MIT */

/* hasp why: who holds a lock, what the holder itself waits for, who waits, and
 * the earliest moment at which it could pass on, with each term of the sum. */

#include <inttypes.h>
#include <stdio.h>

#include "cmd/hasp/tool.h"

#define QUEUE_SHOWN 10

static const char *duration(json_t *value, const char *key)
{
    static char texts[4][32];
    static unsigned turn;
    char *text = texts[turn++ % 4];
    format_duration(value_number(value, key), text, 32);
    return text;
}

/* The map of a session, or NULL if it has gone meanwhile. */
static json_t *session_of(struct tool *tool, uint64_t id)
{
    struct query query = {0};
    const struct resp_reply *reply;
    struct client_options options = {.deadline_ns = tool_deadline_ns(tool),
                                     .is_read = true,
                                     .is_repeatable = true};
    query_begin(&query, "SESSION.SHOW");
    query_number(&query, id);
    int error = client_ask(tool_client(tool), &query, &options, &reply);
    query_done(&query);
    return error == 0 ? value_of_reply(reply, 0) : NULL;
}

/* Adds to each holder what is known of its session. */
static void add_sessions(struct tool *tool, json_t *lock)
{
    size_t i;
    json_t *holder;
    json_array_foreach(value_at(lock, "holders"), i, holder)
    {
        json_t *session = session_of(tool, value_number(holder, "session"));
        if (session != NULL) {
            json_object_set_new(holder, "session_state", session);
        }
    }
}

static void print_waits(json_t *session)
{
    json_t *waits = value_at(session, "waits"), *wait;
    size_t i;
    json_array_foreach(waits, i, wait)
    {
        const char *name = json_is_string(wait) ? json_string_value(wait)
                                                : value_text(wait, "name");
        if (name[0] == '\0') {
            name = value_text(wait, "lock");
        }
        printf("  it waits itself for '%s'; see: hasp why %s\n", name, name);
    }
    if (json_is_integer(waits) && json_integer_value(waits) > 0) {
        printf("  it waits itself for %" JSON_INTEGER_FORMAT " locks; see: "
               "hasp session show %" PRIu64 "\n",
               json_integer_value(waits), value_number(session, "id"));
    }
}

static void print_holder(json_t *holder)
{
    json_t *session = value_at(holder, "session_state");
    printf("held, %s, by %s (session %" PRIu64, value_text(holder, "mode"),
           value_text(holder, "client")[0] != '\0'
               ? value_text(holder, "client")
               : "a client without a name",
           value_number(holder, "session"));
    if (value_text(holder, "address")[0] != '\0') {
        printf(", %s", value_text(holder, "address"));
    }
    if (value_text(holder, "owner")[0] != '\0') {
        printf(", owner '%s'", value_text(holder, "owner"));
    }
    printf(") for %s with token %" PRIu64 "\n", duration(holder, "since_ms"),
           value_number(holder, "token"));
    if (value_text(holder, "value")[0] != '\0') {
        printf("  it says: %s\n", value_text(holder, "value"));
    }
    if (session == NULL) {
        return;
    }
    printf("  its lease of %s has %s left", duration(session, "ttl_ms"),
           duration(holder, "lease_left_ms"));
    if (value_number(session, "linger_ms") != 0) {
        printf(", %s once its connections are closed",
               duration(session, "linger_ms"));
    }
    puts(json_is_true(value_at(session, "blacklisted")) ||
                 value_number(session, "blacklisted") != 0
             ? "; it is on the blacklist, nothing prolongs it"
             : "; each heartbeat prolongs it");
    print_waits(session);
}

static void print_queue(json_t *queue)
{
    size_t i;
    json_t *waiter;
    if (json_array_size(queue) > 0) {
        printf("\n%zu waiting\n", json_array_size(queue));
    }
    json_array_foreach(queue, i, waiter)
    {
        if (i == QUEUE_SHOWN) {
            puts("  ...");
            break;
        }
        printf("  %zu. %s (session %" PRIu64 "), %s, for %s\n", i + 1,
               value_text(waiter, "client"), value_number(waiter, "session"),
               value_text(waiter, "mode"), duration(waiter, "waiting_ms"));
    }
}

/* earliest_ms is the server's; its terms are the longest of the leases that
 * must end and the delay that follows. */
static void print_earliest(json_t *lock)
{
    json_t *holders = value_at(lock, "holders"), *holder;
    size_t i;
    uint64_t lease_ms = 0;
    uint64_t earliest_ms = value_number(lock, "earliest_ms");
    uint64_t delay_ms = value_number(lock, "delay_left_ms");
    char total[32], lease[32], rest[32];
    json_array_foreach(holders, i, holder)
    {
        uint64_t left_ms = value_number(holder, "lease_left_ms");
        lease_ms = left_ms > lease_ms ? left_ms : lease_ms;
    }
    format_duration(earliest_ms, total, sizeof total);
    format_duration(lease_ms, lease, sizeof lease);
    putchar('\n');
    if (earliest_ms == 0) {
        puts("it could pass on now");
    } else if (json_array_size(holders) == 0) {
        printf("earliest it could pass on: in %s, when the delay after an "
               "unclean end is over\n",
               total);
    } else if (earliest_ms < lease_ms) {
        printf("earliest it could pass on, unless it is given back: in %s, "
               "when the first of its holders ends\n",
               total);
    } else {
        format_duration(earliest_ms - lease_ms, rest, sizeof rest);
        printf("earliest it could pass on, unless it is given back: in %s\n"
               "  = %s of lease left + %s of lock delay\n",
               total, lease, rest);
    }
    if (delay_ms != 0) {
        printf("  it is kept closed for %s\n", duration(lock, "delay_left_ms"));
    }
}

int run_why(struct tool *tool, int argc, char **argv)
{
    struct query query = {0};
    const struct resp_reply *reply;
    char what[600];
    tool_options_begin();
    if (tool_option(tool, argc, argv, "", NULL) != -1) {
        return EX_USAGE;
    }
    if (argc - optind != 1) {
        return tool_usage(tool, "which lock?");
    }
    snprintf(what, sizeof what, "cannot explain '%.511s'", argv[optind]);
    query_begin(&query, "LOCK.SHOW");
    query_text(&query, argv[optind]);
    int exit_code = tool_read(tool, &query, what, &reply);
    query_done(&query);
    if (exit_code != 0) {
        return exit_code;
    }
    json_t *lock = value_of_reply(reply, 0);
    add_sessions(tool, lock);
    if (tool->format == FORMAT_JSON) {
        output_json(lock);
        json_decref(lock);
        return 0;
    }
    size_t i;
    json_t *holder, *holders = value_at(lock, "holders");
    printf("'%s' is %s\n", argv[optind],
           json_array_size(holders) > 0 ? "not free" : "held by nobody");
    json_array_foreach(holders, i, holder)
    {
        print_holder(holder);
    }
    print_queue(value_at(lock, "queue"));
    print_earliest(lock);
    json_decref(lock);
    return 0;
}
