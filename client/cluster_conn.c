/* SPDX-License-Identifier: MIT */

/* A connection to a cluster: choice of the node, greeting, sending and
 * receiving, and the times of its turns. */

#include "client/cluster_conn.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/memory.h"
#include "base/minmax.h"
#include "base/units.h"

/* Time for the answer to the last attempt; a quarter of a short timeout. */
#define ATTEMPT_MIN_MS 250
/* Nodes whose MOVED form a circle count as nodes without a leader. */
#define MOVED_MAX 8
/* A connection that was open for so long was good. */
#define STEADY_NS NS_PER_S
/* Time between two attempts after a refusal. */
#define DENIED_MIN_MS 100
#define DENIED_MAX_MS 1000
/* The largest reply is a list of everything. */
#define REPLY_VALUE_MAX (16u << 20)
#define REPLY_SIZE_MAX ((size_t)1 << 30)

int cluster_conn_init(struct cluster_conn *conn,
                      const struct endpoints *endpoints, uint64_t seed)
{
    CHECK(endpoints->count > 0);
    *conn = (struct cluster_conn){.random = seed, .due_ns = UINT64_MAX};
    conn->endpoint = calloc(endpoints->count, sizeof *conn->endpoint);
    conn->last = calloc(endpoints->count, sizeof *conn->last);
    int error = known_cluster_init(&conn->own_known, endpoints->count);
    if (conn->endpoint == NULL || conn->last == NULL || error != 0) {
        known_cluster_done(&conn->own_known);
        free(conn->endpoint);
        free(conn->last);
        return HASP_ENOMEM;
    }
    conn->known = &conn->own_known;
    memcpy(conn->endpoint, endpoints->endpoint,
           endpoints->count * sizeof *conn->endpoint);
    conn->count = endpoints->count;
    list_init(&conn->asks);
    list_init(&conn->sent);
    list_init(&conn->members);
    return 0;
}

void cluster_conn_done(struct cluster_conn *conn)
{
    CHECK(list_is_empty(&conn->members));
    buffer_done(&conn->in);
    buffer_done(&conn->out);
    resp_reply_done(&conn->reply);
    explicit_bzero(conn->secret, sizeof conn->secret);
    known_cluster_done(&conn->own_known);
    free(conn->endpoint);
    free(conn->last);
    free(conn->flight);
}

void cluster_conn_ask(struct cluster_conn *conn, struct client_request *ask,
                      struct lease_clock now)
{
    conn->now = now;
    client_request_begin(conn, ask);
    if (ask->is_urgent) {
        list_push_front(&conn->asks, &ask->in_asker);
    } else {
        list_push_back(&conn->asks, &ask->in_asker);
    }
    cluster_conn_member_asks(ask);
}

/* True if no session is attached here, so that another node will do. */
static bool cluster_conn_is_free(const struct cluster_conn *conn)
{
    LIST_FOR (const struct cluster_conn_member, member, &conn->members,
              in_asker) {
        if (member->is_attached) {
            return false;
        }
    }
    return true;
}

static bool cluster_conn_is_wanted(const struct cluster_conn *conn)
{
    LIST_FOR (const struct cluster_conn_member, member, &conn->members,
              in_asker) {
        if (member->is_wanted) {
            return true;
        }
    }
    return !list_is_empty(&conn->asks);
}

void cluster_conn_begin_at(struct cluster_conn *conn, uint32_t endpoint)
{
    CHECK(conn->state == CLUSTER_CONN_REST);
    conn->at = endpoint % conn->count;
}

bool cluster_conn_is_awaiting(const struct cluster_conn *conn)
{
    return conn->flight_count > 0;
}

const struct endpoint *cluster_conn_endpoint(const struct cluster_conn *conn)
{
    return conn->is_moved ? &conn->moved : &conn->endpoint[conn->at];
}

/* --- The connection ------------------------------------------------------- */

/* Ends the requests that cannot be repeated. The search restarts after each,
 * since `done` can change the list. */
static void end_some(struct cluster_conn *conn)
{
    struct list *node = conn->asks.next;
    while (node != &conn->asks) {
        struct client_request *ask = LIST_ENTRY(node, struct client_request,
                                                in_asker);
        node = node->next;
        if (!client_request_may_go_on(ask) && ask->seen != 0) {
            client_request_give_up(conn, ask);
            node = conn->asks.next;
        }
    }
}

/* Moves the sent requests back to be sent again, in order, after the urgent
 * ones. The requests that were waiting for an answer get 'outcome', and so do
 * all if the connection was never open. */
static void take_back(struct cluster_conn *conn, bool was_open,
                      enum outcome outcome)
{
    LIST_FOR (struct client_request, ask, &conn->asks, in_asker) {
        if (!was_open) {
            client_request_count(ask, outcome);
        }
    }
    /* From the newest to the oldest, so that pushing to the front keeps their
     * order. */
    while (!list_is_empty(&conn->sent)) {
        struct client_request *ask = LIST_ENTRY(
            conn->sent.prev, struct client_request, in_asker);
        list_remove(&ask->in_asker);
        list_push_front(&conn->asks, &ask->in_asker);
        ask->is_sent = false;
        client_request_count(
            ask, outcome == OUTCOME_STRANGER ? outcome : OUTCOME_UNKNOWN);
    }
    LIST_EACH_SAFE (node, &conn->asks) {
        if (LIST_ENTRY(node, struct client_request, in_asker)->is_urgent) {
            list_remove(node);
            list_push_front(&conn->asks, node);
        }
    }
}

/* Time for connection and greeting: the shortest of its members'. */
static uint64_t open_ms(const struct cluster_conn *conn)
{
    uint64_t least_ms = CLIENT_OPEN_MS;
    LIST_FOR (const struct cluster_conn_member, member, &conn->members,
              in_asker) {
        if (member->open_ms != 0) {
            least_ms = u64_min(least_ms, member->open_ms);
        }
    }
    return least_ms;
}

/* The pause after a refusal; shorter than the time that a heartbeat can
 * wait. */
static uint64_t denied_pause_ns(struct cluster_conn *conn)
{
    uint64_t range_ms = DENIED_MAX_MS - DENIED_MIN_MS;
    conn->random = conn->random * 6364136223846793005u + 1442695040888963407u;
    uint64_t pause_ms = DENIED_MIN_MS + (conn->random >> 33) % range_ms;
    return u64_min(pause_ms, open_ms(conn)) * NS_PER_MS;
}

/* The number of the endpoint; the address of a MOVED has none. */
static uint32_t endpoint_number(const struct cluster_conn *conn)
{
    return conn->is_moved ? KNOWN_CLUSTER_ELSEWHERE : conn->at;
}

/* Ends the connection, by 'outcome'; the next one goes to the next endpoint. */
static void cluster_conn_lose(struct cluster_conn *conn, enum outcome outcome,
                              struct lease_clock now)
{
    bool was_open = conn->state == CLUSTER_CONN_OPEN;
    conn->now = now;
    conn->number++;
    conn->state = CLUSTER_CONN_REST;
    cluster_conn_members_forget(conn);
    conn->flight_count = 0;
    conn->used = 0;
    buffer_clear(&conn->in);
    buffer_clear(&conn->out);
    take_back(conn, was_open, outcome);
    /* Answers are no proof of a good connection: a node that answers heartbeats
     * can end each connection at the same request, which is sent again. */
    if (was_open && now.monotonic_ns - conn->opened_ns >= STEADY_NS) {
        conn->failed = 0;
    }
    conn->failed++;
    conn->is_moved = outcome == OUTCOME_MOVED && conn->failed % MOVED_MAX != 0;
    if (!conn->is_moved) {
        conn->at = (conn->at + 1) % conn->count;
    }
    conn->until_ns = now.monotonic_ns;
    if (conn->is_denied) {
        conn->is_denied = false;
        conn->until_ns += denied_pause_ns(conn);
    } else if (conn->failed % conn->count == 0 && !conn->is_moved) {
        conn->until_ns += cluster_conn_pause_ns(conn,
                                                conn->failed / conn->count);
    }
    /* Last: members may send requests from here, to the next node. */
    cluster_conn_members_notify_lost(conn);
    end_some(conn);
}

void cluster_conn_drop(struct cluster_conn *conn, const char *why,
                       struct lease_clock now)
{
    if (why != NULL) {
        cluster_conn_note(conn, "%s", why);
    }
    if (conn->state != CLUSTER_CONN_REST) {
        cluster_conn_lose(conn, OUTCOME_UNREACHABLE, now);
    }
}

/* Detaches the session, by a request whose answer is not awaited. */
static void cluster_conn_detach(struct cluster_conn_member *member)
{
    struct cluster_conn *conn = member->conn;
    struct query query = {0};
    query_begin(&query, "SESSION.DETACH");
    query_text(&query, "SESSION");
    query_number(&query, member->credentials.session);
    ROOM(conn->flight, conn->flight_room, conn->flight_count + 1);
    conn->flight[conn->flight_count++] = NULL;
    query_encode(&query, &conn->out);
    query_done(&query);
}

void cluster_conn_leave(struct cluster_conn_member *member,
                        struct lease_clock now)
{
    struct cluster_conn *conn = member->conn;
    bool is_alone = conn->members.next == conn->members.prev;
    if ((member->is_attached || member->attach.is_sent) && !is_alone) {
        cluster_conn_detach(member);
    }
    cluster_conn_set_session(member, NULL, now);
    member->is_wanted = false;
    if (is_alone) {
        cluster_conn_drop(conn, NULL, now);
    }
}

void cluster_conn_failed(struct cluster_conn *conn, const char *why,
                         struct lease_clock now)
{
    CHECK(conn->state != CLUSTER_CONN_REST);
    cluster_conn_note(conn, "%.80s", why);
    known_cluster_miss(conn->known, endpoint_number(conn));
    cluster_conn_lose(conn, OUTCOME_UNREACHABLE, now);
}

void cluster_conn_distrusted(struct cluster_conn *conn, const char *why,
                             struct lease_clock now)
{
    CHECK(conn->state != CLUSTER_CONN_REST);
    cluster_conn_note(conn, "%s", why);
    known_cluster_miss(conn->known, endpoint_number(conn));
    conn->is_denied = conn->was_let_in;
    cluster_conn_lose(conn, OUTCOME_DISTRUSTED, now);
}

void cluster_conn_connected(struct cluster_conn *conn)
{
    struct query query = {0};
    CHECK(conn->state == CLUSTER_CONN_OPENING);
    conn->state = CLUSTER_CONN_GREETING;
    conn->has_said_hello = false;
    query_begin(&query, "HELLO");
    query_number(&query, 3);
    query_encode(&query, &conn->out);
    query_done(&query);
}

/* Shows the secret, to a node of the known cluster only. */
static void authenticate(struct cluster_conn *conn)
{
    struct query query = {0};
    query_begin(&query, "AUTH");
    query_text(&query, "default"); /* A secret contains the user's name. */
    query_text(&query, conn->secret);
    query_encode(&query, &conn->out);
    query_done(&query);
}

/* Ends all requests that wait for the connection with the refusal. */
static void refuse_all(struct cluster_conn *conn, struct lease_clock now)
{
    struct client_request_refused refused;
    client_request_take_refused(conn, NULL, &refused);
    cluster_conn_lose(conn, OUTCOME_REFUSED, now);
    client_request_end_refused(conn, &refused);
}

/* The node refused the credentials: true if that is not final, since they are
 * read again before the next connection. */
static bool may_come_again(struct cluster_conn *conn)
{
    if (!cluster_conn_is_refusal_of_asker(conn) ||
        (!conn->was_let_in && (!conn->may_renew || conn->was_doubted))) {
        return false;
    }
    cluster_conn_note(conn, "%s %s", conn->code, conn->why);
    if (conn->was_let_in) {
        conn->is_denied = true;
    } else {
        conn->is_doubted = conn->was_doubted = true;
        memcpy(conn->doubt_code, conn->code, sizeof conn->code);
        memcpy(conn->doubt_why, conn->why, sizeof conn->why);
    }
    return true;
}

void cluster_conn_show(struct cluster_conn *conn,
                       const char secret[CLIENT_USER_SECRET_SIZE])
{
    memcpy(conn->secret, secret, sizeof conn->secret);
}

void cluster_conn_renewed(struct cluster_conn *conn, bool has_changed,
                          const char *why, struct lease_clock now)
{
    bool is_refused = conn->is_doubted && !has_changed;
    conn->now = now;
    conn->is_doubted = false;
    if (why[0] != '\0') {
        cluster_conn_members_notice(conn, why);
    }
    if (is_refused && conn->state == CLUSTER_CONN_OPENING) {
        memcpy(conn->code, conn->doubt_code, sizeof conn->code);
        memcpy(conn->why, conn->doubt_why, sizeof conn->why);
        refuse_all(conn, now);
    }
}

/* Checks the cluster of the node in the answer to HELLO. False: none, or
 * another one; then the node is left, and this is reported. */
static bool is_of_cluster(struct cluster_conn *conn, struct lease_clock now)
{
    char known[CLUSTER_ID_TEXT_SIZE], text[CLUSTER_CONN_LAST_SIZE];
    enum cluster_view view = known_cluster_see(
        conn->known, endpoint_number(conn), &conn->reply, now.boottime_ns,
        conn->cluster);
    if (view == CLUSTER_UNBORN && conn->asks_unborn) {
        return true;
    }
    if (view == CLUSTER_UNBORN) {
        cluster_conn_note(conn, "belongs to no cluster yet");
    } else if (view != CLUSTER_FITS) {
        known_cluster_id(conn->known, known);
        cluster_conn_note(conn, "is a node of another cluster (%s, not %s)",
                          conn->cluster, known);
    }
    /* Reported once for each endpoint (then it is CLUSTER_STRANGER_STILL),
     * since the client tries it again and again. */
    if (view == CLUSTER_STRANGER) {
        snprintf(text, sizeof text,
                 "%.100s is a node of another cluster (%s, not %s); it is "
                 "asked nothing",
                 cluster_conn_endpoint(conn)->text, conn->cluster, known);
        cluster_conn_members_notice(conn, text);
    }
    if (view != CLUSTER_FITS) {
        cluster_conn_lose(conn, OUTCOME_UNREACHABLE, now);
    }
    return view == CLUSTER_FITS;
}

static void cluster_conn_greeted(struct cluster_conn *conn,
                                 struct lease_clock now)
{
    if (conn->reply.value[0].type == RESP_ERROR) {
        enum outcome outcome = cluster_conn_read_error(
            conn, conn->reply.value[0].bytes);
        if (outcome == OUTCOME_REFUSED && may_come_again(conn)) {
            cluster_conn_lose(
                conn, conn->is_doubted ? OUTCOME_NONE : OUTCOME_UNREACHABLE,
                now);
            return;
        }
        if (outcome == OUTCOME_REFUSED) {
            refuse_all(conn, now);
            return;
        }
        cluster_conn_lose(
            conn, outcome == OUTCOME_UNKNOWN ? OUTCOME_BUSY : outcome, now);
        return;
    }
    if (!conn->has_said_hello) {
        if (!is_of_cluster(conn, now)) {
            return;
        }
        conn->has_said_hello = true;
        /* Only now is the node known to belong to the cluster, so only now may
         * it see the secret. */
        if (conn->secret[0] != '\0' &&
            !endpoint_is_local(cluster_conn_endpoint(conn))) {
            authenticate(conn);
            return;
        }
    }
    conn->state = CLUSTER_CONN_OPEN;
    conn->opened_ns = now.monotonic_ns;
    cluster_conn_members_attach(conn);
}

/* --- Answers -------------------------------------------------------------- */

/* Puts the request off, to another node or by a pause; true: leave the node. */
static bool put_off(struct cluster_conn *conn, struct client_request *ask,
                    enum outcome outcome, struct lease_clock now)
{
    bool leaves = outcome == OUTCOME_NO_LEADER || outcome == OUTCOME_MOVED ||
                  conn->is_denied || conn->is_doubted ||
                  cluster_conn_is_free(conn);
    uint32_t round = leaves ? conn->count : 1;
    list_remove(&ask->in_asker);
    list_push_back(&conn->asks, &ask->in_asker);
    ask->is_sent = false;
    ask->tried++;
    ask->not_before_ns = now.monotonic_ns;
    if (ask->tried % round == 0 && outcome != OUTCOME_MOVED) {
        ask->not_before_ns += cluster_conn_pause_ns(conn, ask->tried / round);
    }
    return leaves;
}

static struct client_request *next_in_flight(struct cluster_conn *conn)
{
    struct client_request *ask = conn->flight[0];
    conn->flight_count--;
    memmove(conn->flight, conn->flight + 1,
            conn->flight_count * sizeof *conn->flight);
    return ask;
}

/* Processes one answer; returns how to leave the node, OUTCOME_NONE: stay. */
static enum outcome cluster_conn_answered(struct cluster_conn *conn,
                                          struct lease_clock now)
{
    struct client_request *ask = next_in_flight(conn);
    const struct resp_value *value = conn->reply.value;
    if (ask == NULL) {
        return OUTCOME_NONE; /* The request was cancelled. */
    }
    if (value->type != RESP_ERROR) {
        conn->was_let_in = true;
        known_cluster_learn(conn->known, conn->cluster);
        client_request_finish(conn, ask, 0);
        return OUTCOME_NONE;
    }
    enum outcome outcome = cluster_conn_read_error(conn, value->bytes);
    if (outcome == OUTCOME_REFUSED && may_come_again(conn)) {
        outcome = OUTCOME_UNREACHABLE;
    } else if (outcome == OUTCOME_REFUSED &&
               client_request_is_open_still(conn, ask)) {
        cluster_conn_note(conn, "%s", conn->why);
        outcome = OUTCOME_BUSY;
    }
    if (outcome == OUTCOME_REFUSED) {
        client_request_finish(conn, ask, HASP_EREPLY);
        return OUTCOME_NONE;
    }
    client_request_count(ask, conn->is_doubted ? OUTCOME_NONE : outcome);
    bool leaves = put_off(conn, ask, outcome, now);
    if (!conn->is_doubted && !client_request_may_go_on(ask)) {
        client_request_give_up(conn, ask);
    }
    return leaves ? outcome : OUTCOME_NONE;
}

/* Leaves a node whose bytes are not a reply. */
static void cluster_conn_estranged(struct cluster_conn *conn,
                                   struct lease_clock now)
{
    cluster_conn_note(conn, "does not speak the protocol");
    cluster_conn_lose(conn, OUTCOME_STRANGER, now);
}

void cluster_conn_input(struct cluster_conn *conn, struct bytes bytes,
                        struct lease_clock now)
{
    uint32_t number = conn->number;
    conn->now = now;
    enum outcome leaves = OUTCOME_NONE;
    CHECK(conn->state >= CLUSTER_CONN_GREETING);
    /* The replies of the last call were borrowed from these bytes until now. */
    buffer_consume(&conn->in, conn->used);
    conn->used = 0;
    buffer_put_bytes(&conn->in, bytes);
    /* An answer can end the connection: then the rest of the input belongs to
     * no request. */
    while (conn->number == number && conn->used < conn->in.size) {
        struct bytes left = bytes_of(conn->in.data + conn->used,
                                     conn->in.size - conn->used);
        size_t used = 0;
        int error = resp_parse_reply(left, REPLY_VALUE_MAX, &conn->reply,
                                     &used);
        if (error == HASP_EMORE && left.size <= REPLY_SIZE_MAX) {
            break;
        }
        if (error != 0) {
            cluster_conn_estranged(conn, now);
            return;
        }
        conn->used += used;
        if (conn->reply.value[0].type == RESP_PUSH) {
            cluster_conn_members_push(conn);
        } else if (conn->state == CLUSTER_CONN_GREETING) {
            cluster_conn_greeted(conn, now);
        } else if (conn->flight_count == 0) {
            cluster_conn_estranged(conn, now);
            return;
        } else {
            enum outcome outcome = cluster_conn_answered(conn, now);
            leaves = outcome != OUTCOME_NONE ? outcome : leaves;
        }
    }
    if (conn->number == number && leaves != OUTCOME_NONE) {
        cluster_conn_lose(conn, leaves, now);
    }
}

/* --- Time ----------------------------------------------------------------- */

static uint64_t attempt_end_ns(const struct client_request *ask)
{
    uint64_t attempt_ms = ask->attempt_ms != 0 ? ask->attempt_ms
                                               : CLIENT_ATTEMPT_MS;
    return ask->sent.monotonic_ns + attempt_ms * NS_PER_MS;
}

/* The first request of the list whose deadline has passed. */
static struct client_request *cluster_conn_overdue(struct list *list,
                                                   uint64_t now_ns)
{
    LIST_FOR (struct client_request, ask, list, in_asker) {
        if (now_ns >= ask->deadline_ns) {
            return ask;
        }
    }
    return NULL;
}

static void end_overdue(struct cluster_conn *conn, uint64_t now_ns)
{
    struct client_request *ask;
    while ((ask = cluster_conn_overdue(&conn->asks, now_ns)) != NULL ||
           (ask = cluster_conn_overdue(&conn->sent, now_ns)) != NULL) {
        client_request_give_up(conn, ask);
    }
}

/* Leaves a node that has been silent for too long. */
static void leave_silent(struct cluster_conn *conn, struct lease_clock now)
{
    bool is_silent = (conn->state == CLUSTER_CONN_OPENING ||
                      conn->state == CLUSTER_CONN_GREETING) &&
                     now.monotonic_ns >= conn->until_ns;
    LIST_FOR (const struct client_request, ask, &conn->sent, in_asker) {
        is_silent |= now.monotonic_ns >= attempt_end_ns(ask);
    }
    if (is_silent) {
        known_cluster_miss(conn->known, endpoint_number(conn));
        cluster_conn_drop(conn, "no answer", now);
    }
}

/* Cancelled requests are answered soon. */
static bool may_block(const struct cluster_conn *conn)
{
    uint32_t count = 0;
    LIST_FOR (const struct client_request, ask, &conn->sent, in_asker) {
        count += ask->blocks;
    }
    return count < CLUSTER_CONN_BLOCKING_MAX;
}

static void cluster_conn_send(struct cluster_conn *conn,
                              struct client_request *ask,
                              struct lease_clock now)
{
    CHECK(conn->state == CLUSTER_CONN_OPEN &&
          !cluster_conn_member_holds_up(ask));
    ROOM(conn->flight, conn->flight_room, conn->flight_count + 1);
    if (ask->seen != 0 && ask->again != NULL) {
        ask->again(ask, now);
    }
    conn->flight[conn->flight_count++] = ask;
    list_remove(&ask->in_asker);
    list_push_back(&conn->sent, &ask->in_asker);
    ask->is_sent = true;
    ask->sent = now;
    query_encode(&ask->query, &conn->out);
}

/* True if it is too late for another attempt: without an answer in time the
 * outcome would be unknown instead of "nothing was done". */
static bool is_too_late(const struct client_request *ask, uint64_t now_ns)
{
    uint64_t least_ns = u64_min(ATTEMPT_MIN_MS * NS_PER_MS,
                                (ask->deadline_ns - ask->begun_ns) / 4);
    bool was_refused = ask->seen != 0 && !ask->is_read &&
                       (ask->seen & 1u << OUTCOME_UNKNOWN) == 0;
    return was_refused && ask->deadline_ns - now_ns < least_ns;
}

/* Sends the requests that can be sent. Can close the connection, if a caller's
 * time is over. */
static void send_all(struct cluster_conn *conn, struct lease_clock now)
{
    struct list *node = conn->asks.next;
    while (conn->state == CLUSTER_CONN_OPEN && node != &conn->asks) {
        struct client_request *ask = LIST_ENTRY(node, struct client_request,
                                                in_asker);
        node = node->next;
        if (now.monotonic_ns < ask->not_before_ns ||
            cluster_conn_member_holds_up(ask) ||
            (ask->blocks && !may_block(conn))) {
            continue;
        }
        if (is_too_late(ask, now.monotonic_ns)) {
            client_request_give_up(conn, ask);
            /* A caller that is notified can begin and cancel requests, so that
             * 'node' may be gone: start again. */
            node = conn->asks.next;
            continue;
        }
        cluster_conn_send(conn, ask, now);
    }
}

void cluster_conn_turn(struct cluster_conn *conn, struct lease_clock now)
{
    conn->now = now;
    cluster_conn_members_turn(conn, now);
    end_overdue(conn, now.monotonic_ns);
    leave_silent(conn, now);
    if (conn->state == CLUSTER_CONN_REST &&
        now.monotonic_ns >= conn->until_ns && cluster_conn_is_wanted(conn)) {
        conn->state = CLUSTER_CONN_OPENING;
        conn->number++;
        conn->until_ns = now.monotonic_ns + open_ms(conn) * NS_PER_MS;
    }
    if (conn->state == CLUSTER_CONN_OPEN) {
        send_all(conn, now);
    }
}

/* When the next turn is due, in CLOCK_MONOTONIC. */
static uint64_t next_ns(const struct cluster_conn *conn)
{
    uint64_t next_ns = UINT64_MAX;
    bool is_open = conn->state == CLUSTER_CONN_OPEN;
    LIST_FOR (const struct client_request, ask, &conn->asks, in_asker) {
        next_ns = u64_min(next_ns, ask->deadline_ns);
        /* A request that cannot be sent yet must not wake the loop, which would
         * do nothing and spin. */
        if (is_open && !cluster_conn_member_holds_up(ask) &&
            (!ask->blocks || may_block(conn))) {
            next_ns = u64_min(next_ns, ask->not_before_ns);
        }
    }
    LIST_FOR (const struct client_request, ask, &conn->sent, in_asker) {
        uint64_t end_ns = u64_min(ask->deadline_ns, attempt_end_ns(ask));
        next_ns = u64_min(next_ns, end_ns);
    }
    if (conn->state == CLUSTER_CONN_OPENING ||
        conn->state == CLUSTER_CONN_GREETING ||
        (conn->state == CLUSTER_CONN_REST && cluster_conn_is_wanted(conn))) {
        next_ns = u64_min(next_ns, conn->until_ns);
    }
    return next_ns;
}

static uint64_t left_until(uint64_t at_ns, uint64_t now_ns)
{
    return at_ns == UINT64_MAX ? UINT64_MAX
           : at_ns > now_ns    ? at_ns - now_ns
                               : 0;
}

uint64_t cluster_conn_left_ns(const struct cluster_conn *conn,
                              struct lease_clock now)
{
    if (conn->is_touched) {
        return 0;
    }
    return u64_min(left_until(conn->due_ns, now.boottime_ns),
                   left_until(next_ns(conn), now.monotonic_ns));
}
