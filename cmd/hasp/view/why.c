/* SPDX-License-Identifier: MIT */

/* hasp why: who holds a lock, what the holder itself waits for, who waits, and
 * the earliest moment at which it could pass on, with each term of the sum. */

#include <inttypes.h>
#include <stdio.h>

#include "cmd/hasp/tool.h"

#define QUEUE_SHOWN 10
/* Rounding on the server's side is no delay. */
#define DELAY_SEEN_MS 50

/* The time under 'key' of a map. */
#define TIME(value, key) DURATION(value_number(value, key))

/* The map of a session, or NULL if it has gone meanwhile. */
static json_t *session_of(struct tool *tool, uint64_t id)
{
    json_t *session = NULL;
    tool_ask(tool, WORDS("SESSION.SHOW", NUMBER(id)), NULL, &session);
    return session;
}

/* The names of the locks in whose queue a session stands. */
static json_t *waited_for(json_t *locks, uint64_t session)
{
    json_t *names = json_array(), *lock, *waiter;
    size_t i, j;
    json_array_foreach(locks, i, lock)
    {
        json_array_foreach(value_at(lock, "queue"), j, waiter)
        {
            if (value_number(waiter, "session") == session) {
                json_array_append(names, value_at(lock, "name"));
                break;
            }
        }
    }
    return names;
}

/* Adds to each holder its session's state and what that session waits for. */
static int add_sessions(struct tool *tool, json_t *lock)
{
    size_t i;
    json_t *holder;
    json_auto_t *locks = NULL;
    json_array_foreach(value_at(lock, "holders"), i, holder)
    {
        uint64_t id = value_number(holder, "session");
        json_t *session = session_of(tool, id);
        if (session == NULL) {
            continue;
        }
        bool is_waiting = value_number(session, "waits") > 0;
        json_object_set_new(holder, "session_state", session);
        if (is_waiting && locks == NULL) {
            int exit_code = tool_list(tool, "LOCK.LIST", NULL, &locks);
            if (exit_code != 0) {
                return exit_code;
            }
        }
        if (is_waiting) {
            json_object_set_new(holder, "waits_for", waited_for(locks, id));
        }
    }
    return 0;
}

static void print_waits(json_t *names)
{
    json_t *name;
    size_t i;
    json_array_foreach(names, i, name)
    {
        printf("  it waits itself for '%s'; see: hasp why %s\n",
               json_string_value(name), json_string_value(name));
    }
}

static void print_holder(const char *name, json_t *holder)
{
    json_t *session = value_at(holder, "session_state");
    printf("'%s' is held, %s, by %s (session %" PRIu64, name,
           value_text(holder, "mode"),
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
    printf(") for %s with token %" PRIu64 "\n", TIME(holder, "since_ms"),
           value_number(holder, "token"));
    if (value_text(holder, "value")[0] != '\0') {
        printf("  it says: %s\n", value_text(holder, "value"));
    }
    if (session == NULL) {
        return;
    }
    printf("  its lease of %s has %s left", TIME(session, "ttl_ms"),
           TIME(holder, "lease_left_ms"));
    if (value_number(session, "linger_ms") != 0) {
        printf(", %s once its connections are closed",
               TIME(session, "linger_ms"));
    }
    puts(json_is_true(value_at(session, "blacklisted")) ||
                 value_number(session, "blacklisted") != 0
             ? "; it is on the blacklist, nothing prolongs it"
             : "; each heartbeat prolongs it");
    print_waits(value_at(holder, "waits_for"));
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
               value_text(waiter, "mode"), TIME(waiter, "waiting_ms"));
    }
}

/* What a writer may wait for that is no fault of the oldest holder. */
static void print_barging(json_t *lock)
{
    json_t *holders = value_at(lock, "holders"), *holder;
    size_t i, count = 0, all = json_array_size(holders);
    json_array_foreach(holders, i, holder)
    {
        count += value_number(holder, "barged") != 0;
    }
    if (count == 0 || json_array_size(value_at(lock, "queue")) == 0) {
        return;
    }
    printf("\n%zu of %zu holder%s passed the queue (BARGE)", count, all,
           all == 1 ? "" : "s");
    puts(count == all ? "; those who wait are next, nobody may pass them again"
                      : "; readers that barge keep those who wait waiting, as "
                        "long as an older holder stays");
}

/* When this hold ends if its holder dies now: with its lease, its linger or its
 * maximum. 'ret_what' names which. */
static uint64_t end_of(json_t *holder, const char **ret_what)
{
    json_t *session = value_at(holder, "session_state");
    uint64_t end_ms = value_number(holder, "lease_left_ms");
    uint64_t linger_ms = value_number(session, "linger_ms");
    uint64_t hold_ms = value_number(holder, "hold_left_ms");
    *ret_what = "left of the lease";
    if (linger_ms != 0 && linger_ms < end_ms) {
        end_ms = linger_ms;
        *ret_what = "of linger, once its connections are closed";
    }
    if (value_at(holder, "hold_left_ms") != NULL && hold_ms < end_ms) {
        end_ms = hold_ms;
        *ret_what = "left of the hold's maximum";
    }
    return end_ms;
}

/* earliest_ms is the server's: when enough of the holders have ended and the
 * lock delay after an unclean end is over. The holder on which it depends is
 * the one whose own end lies nearest before it. */
static void print_earliest(json_t *lock)
{
    json_t *holders = value_at(lock, "holders"), *holder;
    size_t i;
    uint64_t earliest_ms = value_number(lock, "earliest_ms");
    uint64_t best_ms = 0;
    const char *best = "";
    const char *total = DURATION(earliest_ms);
    json_array_foreach(holders, i, holder)
    {
        const char *what;
        uint64_t end_ms = end_of(holder, &what);
        if (end_ms >= best_ms && end_ms <= earliest_ms) {
            best_ms = end_ms;
            best = what;
        }
    }
    if (earliest_ms == 0) {
        puts("\nit could pass on now");
        return;
    }
    if (json_array_size(holders) == 0 &&
        earliest_ms > value_number(lock, "delay_left_ms") + DELAY_SEEN_MS) {
        printf("\nthe cluster began a new life after a restore: nothing is "
               "granted for another %s\n",
               total);
        return;
    }
    if (json_array_size(holders) == 0) {
        printf("\nit is kept closed after an unclean end and could pass on in "
               "%s\n",
               total);
        return;
    }
    printf("\nunless it is given back it could pass on in %s at the earliest",
           total);
    printf(":\n  %s %s\n", DURATION(best_ms), best);
    if (earliest_ms >= best_ms + DELAY_SEEN_MS) {
        printf("+ %s of lock delay after it\n",
               DURATION(earliest_ms - best_ms));
    }
}

int run_why(struct tool *tool, char **argv)
{
    json_auto_t *lock = NULL;
    int exit_code = tool_show_lock(tool, argv[1], "explain", &lock);
    if (exit_code == 0) {
        exit_code = add_sessions(tool, lock);
    }
    if (exit_code != 0) {
        return exit_code;
    }
    if (tool->format == FORMAT_JSON) {
        output_json(lock);
        return 0;
    }
    size_t i;
    json_t *holder, *holders = value_at(lock, "holders");
    value_make_printable(lock);
    if (json_array_size(holders) == 0) {
        printf("'%s' is held by nobody\n", argv[1]);
    }
    json_array_foreach(holders, i, holder)
    {
        print_holder(argv[1], holder);
    }
    if (value_text(lock, "refused_script")[0] != '\0') {
        printf("  its client sent a script in vain, perhaps to give it back: "
               "%s\n",
               value_text(lock, "refused_script"));
    }
    print_queue(value_at(lock, "queue"));
    print_barging(lock);
    print_earliest(lock);
    return 0;
}
