/* SPDX-License-Identifier: MIT */

/* A request of an asker: how it begins, what its attempts end with, and how it
 * ends. */

#include "client/client_request.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/minmax.h"
#include "base/units.h"
#include "client/cluster_conn.h"

/* Between two rounds over the endpoints: short at first, since an election
 * takes a fraction of a second, and with a random part, since all clients of a
 * dead leader come at once. */
#define BACKOFF_FIRST_MS 20
#define BACKOFF_LAST_MS 400

uint64_t cluster_conn_pause_ns(struct cluster_conn *conn, uint32_t round)
{
    uint64_t limit_ms = BACKOFF_FIRST_MS;
    while (round-- > 1 && limit_ms != BACKOFF_LAST_MS) {
        limit_ms = u64_min(2 * limit_ms, BACKOFF_LAST_MS);
    }
    conn->random = conn->random * 6364136223846793005u + 1442695040888963407u;
    return (limit_ms / 2 + (conn->random >> 33) % limit_ms) * NS_PER_MS;
}

void client_request_begin(struct cluster_conn *conn, struct client_request *ask)
{
    CHECK(!ask->is_asked && ask->done != NULL);
    ask->is_asked = true;
    ask->is_sent = false;
    ask->tried = ask->seen = 0;
    ask->not_before_ns = ask->begun_ns = conn->now.monotonic_ns;
}

static void leave_flight(struct cluster_conn *conn,
                         const struct client_request *ask)
{
    for (uint32_t i = 0; i < conn->flight_count; i++) {
        if (conn->flight[i] == ask) {
            conn->flight[i] = NULL;
        }
    }
}

void client_request_cancel(struct cluster_conn *conn,
                           struct client_request *ask)
{
    if (ask->is_asked) {
        leave_flight(conn, ask);
        list_remove(&ask->in_asker);
        ask->is_asked = ask->is_sent = false;
    }
}

/* --- What an attempt ended with ------------------------------------------- */

void cluster_conn_note(struct cluster_conn *conn, const char *format, ...)
{
    va_list args;
    if (conn->is_moved) {
        return; /* The address is none of those that were given. */
    }
    va_start(args, format);
    vsnprintf(conn->last[conn->at], sizeof conn->last[0], format, args);
    va_end(args);
}

/* Splits "CODE text" of an error reply. */
static void keep_error(struct cluster_conn *conn, struct bytes text)
{
    const uint8_t *blank = text.size == 0 ? NULL
                                          : memchr(text.data, ' ', text.size);
    size_t size = blank != NULL ? (size_t)(blank - text.data) : text.size;
    size_t rest = blank != NULL ? text.size - size - 1 : 0;
    snprintf(conn->code, sizeof conn->code, "%.*s", (int)size,
             (const char *)text.data);
    snprintf(conn->why, sizeof conn->why, "%.*s",
             (int)(rest > 0 ? rest : text.size),
             (const char *)(rest > 0 ? blank + 1 : text.data));
}

enum outcome cluster_conn_read_error(struct cluster_conn *conn,
                                     struct bytes text)
{
    char why[HASP_WHY_SIZE];
    keep_error(conn, text);
    if (strcmp(conn->code, "NOLEADER") == 0) {
        /* The reason; that nothing was done is said of all together. */
        cluster_conn_note(conn, "%.*s", (int)strcspn(conn->why, ";"),
                          conn->why);
        return OUTCOME_NO_LEADER;
    }
    if (strcmp(conn->code, "BUSY") == 0) {
        /* The text says with what, and perhaps for how long. */
        cluster_conn_note(conn, "%s", conn->why);
        return OUTCOME_BUSY;
    }
    if (strcmp(conn->code, "UNKNOWN") == 0) {
        cluster_conn_note(conn, "does not know the outcome");
        return OUTCOME_UNKNOWN;
    }
    if (strcmp(conn->code, "MOVED") == 0) {
        const char *address = strrchr(conn->why, ' ');
        address = address != NULL ? address + 1 : conn->why;
        if (endpoint_parse(address, strlen(address), &conn->moved, why) == 0) {
            cluster_conn_note(conn, "sent us to %s", conn->moved.text);
            return OUTCOME_MOVED;
        }
        return OUTCOME_NO_LEADER;
    }
    return OUTCOME_REFUSED;
}

void client_request_count(struct client_request *ask, enum outcome outcome)
{
    if (outcome == OUTCOME_UNKNOWN && ask->is_read) {
        outcome = OUTCOME_UNREACHABLE;
    }
    if (outcome != OUTCOME_NONE) {
        ask->seen |= 1u << outcome;
    }
}

bool client_request_may_go_on(const struct client_request *ask)
{
    bool is_unknown = (ask->seen & 1u << OUTCOME_UNKNOWN) != 0;
    return !ask->is_once && (!is_unknown || ask->is_repeatable);
}

bool cluster_conn_is_refusal_of_asker(const struct cluster_conn *conn)
{
    return strcmp(conn->code, "NOAUTH") == 0 ||
           strcmp(conn->code, "WRONGPASS") == 0 ||
           strcmp(conn->code, "NOTLS") == 0;
}

/* An error about the asking user, or about the leader's full disk, is not the
 * result of an entry: it says nothing about an earlier sending, which may have
 * been done, or be on its way to the log. */
bool client_request_is_open_still(const struct cluster_conn *conn,
                                  const struct client_request *ask)
{
    bool is_disk = strcmp(conn->code, "LIMIT") == 0 &&
                   strncmp(conn->why, "disk", 4) == 0;
    return (ask->was_sent || (ask->seen & 1u << OUTCOME_UNKNOWN) != 0) &&
           (cluster_conn_is_refusal_of_asker(conn) || is_disk);
}

/* --- How a request ends --------------------------------------------------- */

void client_request_finish(struct cluster_conn *conn,
                           struct client_request *ask, int error)
{
    struct client_request_end end = {.error = error, .code = "", .why = ""};
    leave_flight(conn, ask);
    list_remove(&ask->in_asker);
    ask->is_asked = ask->is_sent = false;
    if (ask->member != NULL) {
        cluster_conn_touch(ask->member);
    }
    if (error == 0) {
        end.reply = &conn->reply;
    } else {
        end.code = conn->code;
        end.why = conn->why;
    }
    ask->done(ask, &end);
}

/* "127.0.0.1:7420: Connection refused; 127.0.0.1:7430: no leader was found" */
static void list_endpoints(const struct cluster_conn *conn, char *out,
                           size_t size)
{
    size_t used = 0;
    out[0] = '\0';
    for (uint32_t i = 0; i < conn->count && used < size; i++) {
        int count = snprintf(out + used, size - used, "%s%s: %s",
                             i > 0 ? "; " : "", conn->endpoint[i].text,
                             conn->last[i][0] != '\0' ? conn->last[i]
                                                      : "not asked");
        used += count > 0 ? (size_t)count : 0;
    }
}

int asking_judge(struct cluster_conn *conn, struct client_request *ask)
{
    static const struct {
        enum outcome outcome;
        int error;
        const char *text;
    } ends[] = {
        {OUTCOME_UNKNOWN, HASP_ETIMEDOUT,
         "no answer in time, it may have been done or not"},
        {OUTCOME_BUSY, HASP_EBUSY, "busy, nothing was done"},
        {OUTCOME_NO_LEADER, HASP_ENOTLEADER, "no leader, nothing was done"},
        {OUTCOME_MOVED, HASP_ENOTLEADER, "no leader, nothing was done"},
        {OUTCOME_STRANGER, HASP_EPROTO, "the peer is not a hasp node"},
        {OUTCOME_DISTRUSTED, HASP_ECERT, "no trust between client and node"},
        {OUTCOME_UNREACHABLE, HASP_ECONNECT, "no node answers"},
    };
    char list[HASP_WHY_SIZE - 80];
    size_t i = 0;
    if (ask->is_sent || ask->seen == 0) {
        if (conn->state != CLUSTER_CONN_REST) {
            cluster_conn_note(conn, "no answer");
        }
        ask->seen |= 1u << (ask->is_sent && !ask->is_read
                                ? OUTCOME_UNKNOWN
                                : OUTCOME_UNREACHABLE);
    }
    /* The table is in the order of importance: one attempt that may have been
     * executed outweighs any number that were refused. */
    while ((ask->seen & 1u << ends[i].outcome) == 0) {
        i++;
        CHECK(i < sizeof ends / sizeof ends[0]);
    }
    list_endpoints(conn, list, sizeof list);
    conn->code[0] = '\0';
    snprintf(conn->why, sizeof conn->why, "%s (%s)", ends[i].text, list);
    return ends[i].error;
}

void client_request_give_up(struct cluster_conn *conn,
                            struct client_request *ask)
{
    int error = asking_judge(conn, ask);
    client_request_finish(conn, ask, error);
}

void client_request_take_refused(struct cluster_conn *conn,
                                 const struct cluster_conn_member *member,
                                 struct client_request_refused *ret_refused)
{
    list_init(&ret_refused->asks);
    memcpy(ret_refused->code, conn->code, sizeof ret_refused->code);
    memcpy(ret_refused->why, conn->why, sizeof ret_refused->why);
    LIST_EACH_SAFE (node, &conn->asks) {
        struct client_request *ask = LIST_ENTRY(node, struct client_request,
                                                in_asker);
        if (member != NULL && (ask->member != member || ask->is_apart)) {
            continue;
        }
        /* An earlier attempt may have been executed: the outcome stays unknown,
         * and the request is repeated. */
        if (client_request_is_open_still(conn, ask)) {
            client_request_count(ask, OUTCOME_UNKNOWN);
        } else {
            list_remove(node);
            list_push_back(&ret_refused->asks, node);
        }
    }
}

void client_request_end_refused(struct cluster_conn *conn,
                                struct client_request_refused *refused)
{
    while (!list_is_empty(&refused->asks)) {
        memcpy(conn->code, refused->code, sizeof conn->code);
        memcpy(conn->why, refused->why, sizeof conn->why);
        client_request_finish(
            conn, LIST_FIRST(&refused->asks, struct client_request, in_asker),
            HASP_EREPLY);
    }
}
