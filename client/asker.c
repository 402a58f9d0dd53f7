/* SPDX-License-Identifier: MIT */

/* The connection of an asker: where it goes, its greeting, what is sent on it
 * and what comes, and when its turns are due. */

#include "client/asker.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/memory.h"
#include "base/number.h"
#include "base/units.h"

/* For the answer to the last attempt; a quarter of a short time-out. */
#define ATTEMPT_MIN_MS 250
/* Nodes that send us round in a circle are like nodes without a leader. */
#define MOVED_MAX 8
/* Between two attempts of who is not let in. */
#define DENIED_MIN_MS 100
#define DENIED_MAX_MS 1000
/* The largest reply is a list of everything. */
#define REPLY_VALUE_MAX (16u << 20)
#define REPLY_SIZE_MAX ((size_t)1 << 30)

int asker_init(struct asker *asker, const struct endpoints *endpoints,
               uint64_t seed)
{
    CHECK(endpoints->count > 0);
    *asker = (struct asker){.random = seed, .due_ns = UINT64_MAX};
    asker->endpoint = calloc(endpoints->count, sizeof *asker->endpoint);
    asker->last = calloc(endpoints->count, sizeof *asker->last);
    int error = known_cluster_init(&asker->own_known, endpoints->count);
    if (asker->endpoint == NULL || asker->last == NULL || error != 0) {
        known_cluster_done(&asker->own_known);
        free(asker->endpoint);
        free(asker->last);
        return HASP_ENOMEM;
    }
    asker->known = &asker->own_known;
    memcpy(asker->endpoint, endpoints->endpoint,
           endpoints->count * sizeof *asker->endpoint);
    asker->count = endpoints->count;
    list_init(&asker->asks);
    list_init(&asker->sent);
    list_init(&asker->members);
    return 0;
}

void asker_done(struct asker *asker)
{
    CHECK(list_is_empty(&asker->members));
    buffer_done(&asker->in);
    buffer_done(&asker->out);
    resp_reply_done(&asker->reply);
    explicit_bzero(asker->secret, sizeof asker->secret);
    known_cluster_done(&asker->own_known);
    free(asker->endpoint);
    free(asker->last);
    free(asker->flight);
}

void asker_ask(struct asker *asker, struct asking *ask, struct lease_clock now)
{
    asker->now = now;
    asking_begin(asker, ask);
    if (ask->is_urgent) {
        list_push_front(&asker->asks, &ask->in_asker);
    } else {
        list_push_back(&asker->asks, &ask->in_asker);
    }
    asker_member_asks(ask);
}

/* True if no session is attached here, so that another node is as good. */
static bool is_free(const struct asker *asker)
{
    LIST_FOR (const struct asker_member, member, &asker->members, in_asker) {
        if (member->is_attached) {
            return false;
        }
    }
    return true;
}

static bool is_wanted(const struct asker *asker)
{
    LIST_FOR (const struct asker_member, member, &asker->members, in_asker) {
        if (member->is_wanted) {
            return true;
        }
    }
    return !list_is_empty(&asker->asks);
}

void asker_begin_at(struct asker *asker, uint32_t endpoint)
{
    CHECK(asker->state == ASKER_REST);
    asker->at = endpoint % asker->count;
}

bool asker_is_awaiting(const struct asker *asker)
{
    return asker->flight_count > 0;
}

const struct endpoint *asker_endpoint(const struct asker *asker)
{
    return asker->is_moved ? &asker->moved : &asker->endpoint[asker->at];
}

/* --- The connection ------------------------------------------------------- */

/* Ends the requests that may not be asked again. The search begins anew after
 * each, whatever `done` does. */
static void end_some(struct asker *asker)
{
    struct list *node = asker->asks.next;
    while (node != &asker->asks) {
        struct asking *ask = LIST_ENTRY(node, struct asking, in_asker);
        node = node->next;
        if (!asking_may_go_on(ask) && ask->seen != 0) {
            asking_give_up(asker, ask);
            node = asker->asks.next;
        }
    }
}

/* What was sent is to be sent again, in its order, behind what is urgent. The
 * requests that waited for an answer have had 'outcome', as all have if the
 * connection never was open. */
static void take_back(struct asker *asker, bool was_open, enum outcome outcome)
{
    LIST_FOR (struct asking, ask, &asker->asks, in_asker) {
        if (!was_open) {
            asking_count(ask, outcome);
        }
    }
    while (!list_is_empty(&asker->sent)) {
        struct asking *ask = LIST_ENTRY(asker->sent.prev, struct asking,
                                        in_asker);
        list_remove(&ask->in_asker);
        list_push_front(&asker->asks, &ask->in_asker);
        ask->is_sent = false;
        asking_count(ask,
                     outcome == OUTCOME_STRANGER ? outcome : OUTCOME_UNKNOWN);
    }
    LIST_EACH_SAFE (node, &asker->asks) {
        if (LIST_ENTRY(node, struct asking, in_asker)->is_urgent) {
            list_remove(node);
            list_push_front(&asker->asks, node);
        }
    }
}

/* Of the hastiest of its members: in so long a connection must stand. */
static uint64_t open_ms(const struct asker *asker)
{
    uint64_t least_ms = CLIENT_OPEN_MS;
    LIST_FOR (const struct asker_member, member, &asker->members, in_asker) {
        if (member->open_ms != 0) {
            least_ms = u64_min(least_ms, member->open_ms);
        }
    }
    return least_ms;
}

/* After a node that does not let it in; no longer than a heartbeat may wait. */
static uint64_t denied_pause_ns(struct asker *asker)
{
    uint64_t range_ms = DENIED_MAX_MS - DENIED_MIN_MS;
    asker->random = asker->random * 6364136223846793005u + 1442695040888963407u;
    uint64_t pause_ms = DENIED_MIN_MS + (asker->random >> 33) % range_ms;
    return u64_min(pause_ms, open_ms(asker)) * NS_PER_MS;
}

/* By its number; an address that a node has named is none of them. */
static uint32_t endpoint_number(const struct asker *asker)
{
    return asker->is_moved ? KNOWN_CLUSTER_ELSEWHERE : asker->at;
}

/* Ends the connection, by 'outcome'; the next one goes to the next endpoint. */
static void lose(struct asker *asker, enum outcome outcome,
                 struct lease_clock now)
{
    bool was_open = asker->state == ASKER_OPEN;
    asker->now = now;
    asker->number++;
    asker->state = ASKER_REST;
    asker_members_forget(asker);
    asker->flight_count = 0;
    asker->used = 0;
    buffer_clear(&asker->in);
    buffer_clear(&asker->out);
    take_back(asker, was_open, outcome);
    asker->failed++;
    asker->is_moved = outcome == OUTCOME_MOVED &&
                      asker->failed % MOVED_MAX != 0;
    if (!asker->is_moved) {
        asker->at = (asker->at + 1) % asker->count;
    }
    asker->until_ns = now.monotonic_ns;
    if (asker->is_denied) {
        asker->is_denied = false;
        asker->until_ns += denied_pause_ns(asker);
    } else if (asker->failed % asker->count == 0 && !asker->is_moved) {
        asker->until_ns += asker_pause_ns(asker, asker->failed / asker->count);
    }
    asker_members_notify_lost(asker);
    end_some(asker);
}

void asker_drop(struct asker *asker, const char *why, struct lease_clock now)
{
    if (why != NULL) {
        asker_note(asker, "%s", why);
    }
    if (asker->state != ASKER_REST) {
        lose(asker, OUTCOME_UNREACHABLE, now);
    }
}

/* Detaches the session by a request whose answer nobody waits for. */
static void detach(struct asker_member *member)
{
    struct asker *asker = member->asker;
    struct query query = {0};
    query_begin(&query, "SESSION.DETACH");
    query_text(&query, "SESSION");
    query_number(&query, member->credentials.session);
    ROOM(asker->flight, asker->flight_room, asker->flight_count + 1);
    asker->flight[asker->flight_count++] = NULL;
    query_encode(&query, &asker->out);
    query_done(&query);
}

void asker_leave(struct asker_member *member, struct lease_clock now)
{
    struct asker *asker = member->asker;
    bool is_alone = asker->members.next == asker->members.prev;
    if ((member->is_attached || member->attach.is_sent) && !is_alone) {
        detach(member);
    }
    asker_set_session(member, NULL, now);
    member->is_wanted = false;
    if (is_alone) {
        asker_drop(asker, NULL, now);
    }
}

void asker_failed(struct asker *asker, const char *why, struct lease_clock now)
{
    CHECK(asker->state != ASKER_REST);
    asker_note(asker, "%.80s", why);
    known_cluster_miss(asker->known, endpoint_number(asker));
    lose(asker, OUTCOME_UNREACHABLE, now);
}

void asker_distrusted(struct asker *asker, const char *why,
                      struct lease_clock now)
{
    CHECK(asker->state != ASKER_REST);
    asker_note(asker, "%s", why);
    known_cluster_miss(asker->known, endpoint_number(asker));
    asker->is_denied = asker->was_let_in;
    lose(asker, OUTCOME_DISTRUSTED, now);
}

void asker_connected(struct asker *asker)
{
    struct query query = {0};
    CHECK(asker->state == ASKER_OPENING);
    asker->state = ASKER_GREETING;
    asker->has_said_hello = false;
    query_begin(&query, "HELLO");
    query_number(&query, 3);
    query_encode(&query, &asker->out);
    query_done(&query);
}

/* Shows the secret, to a node of the known cluster only. */
static void authenticate(struct asker *asker)
{
    struct query query = {0};
    query_begin(&query, "AUTH");
    query_text(&query, "default"); /* A secret contains the user's name. */
    query_text(&query, asker->secret);
    query_encode(&query, &asker->out);
    query_done(&query);
}

/* Tells all who wait for the connection that it was refused. */
static void refuse_all(struct asker *asker, struct lease_clock now)
{
    struct asking_refused refused;
    asking_take_refused(asker, NULL, &refused);
    lose(asker, OUTCOME_REFUSED, now);
    asking_end_refused(asker, &refused);
}

/* Who asks was refused: true if that is no end, since what it shows is read
 * again before the next connection. */
static bool may_come_again(struct asker *asker)
{
    if (!asker_is_refusal_of_asker(asker) ||
        (!asker->was_let_in && (!asker->may_renew || asker->was_doubted))) {
        return false;
    }
    asker_note(asker, "%s %s", asker->code, asker->why);
    if (asker->was_let_in) {
        asker->is_denied = true;
    } else {
        asker->is_doubted = asker->was_doubted = true;
        memcpy(asker->doubt_code, asker->code, sizeof asker->code);
        memcpy(asker->doubt_why, asker->why, sizeof asker->why);
    }
    return true;
}

void asker_show(struct asker *asker, const char secret[CLIENT_USER_SECRET_SIZE])
{
    memcpy(asker->secret, secret, sizeof asker->secret);
}

void asker_renewed(struct asker *asker, bool has_changed, const char *why,
                   struct lease_clock now)
{
    bool is_refused = asker->is_doubted && !has_changed;
    asker->now = now;
    asker->is_doubted = false;
    if (why[0] != '\0') {
        asker_members_notice(asker, why);
    }
    if (is_refused && asker->state == ASKER_OPENING) {
        memcpy(asker->code, asker->doubt_code, sizeof asker->code);
        memcpy(asker->why, asker->doubt_why, sizeof asker->why);
        refuse_all(asker, now);
    }
}

/* Reads from the answer to HELLO of which cluster the node is. False: of none,
 * or of another one; it is left, and people are told of it. */
static bool is_of_cluster(struct asker *asker, struct lease_clock now)
{
    char known[CLUSTER_ID_TEXT_SIZE], text[ASKER_LAST_SIZE];
    enum cluster_view view = known_cluster_see(
        asker->known, endpoint_number(asker), &asker->reply, now.boottime_ns,
        asker->cluster);
    if (view == CLUSTER_UNBORN) {
        asker_note(asker, "belongs to no cluster yet");
    } else if (view != CLUSTER_FITS) {
        known_cluster_id(asker->known, known);
        asker_note(asker, "is a node of another cluster (%s, not %s)",
                   asker->cluster, known);
    }
    if (view == CLUSTER_STRANGER) {
        snprintf(text, sizeof text,
                 "%.100s is a node of another cluster (%s, not %s); it is "
                 "asked nothing",
                 asker_endpoint(asker)->text, asker->cluster, known);
        asker_members_notice(asker, text);
    }
    if (view != CLUSTER_FITS) {
        lose(asker, OUTCOME_UNREACHABLE, now);
    }
    return view == CLUSTER_FITS;
}

static void greeted(struct asker *asker, struct lease_clock now)
{
    if (asker->reply.value[0].type == RESP_ERROR) {
        enum outcome outcome = asker_read_error(asker,
                                                asker->reply.value[0].bytes);
        if (outcome == OUTCOME_REFUSED && may_come_again(asker)) {
            lose(asker, asker->is_doubted ? OUTCOME_NONE : OUTCOME_UNREACHABLE,
                 now);
            return;
        }
        if (outcome == OUTCOME_REFUSED) {
            refuse_all(asker, now);
            return;
        }
        lose(asker, outcome == OUTCOME_UNKNOWN ? OUTCOME_BUSY : outcome, now);
        return;
    }
    if (!asker->has_said_hello) {
        if (!is_of_cluster(asker, now)) {
            return;
        }
        asker->has_said_hello = true;
        if (asker->secret[0] != '\0' &&
            !endpoint_is_local(asker_endpoint(asker))) {
            authenticate(asker);
            return;
        }
    }
    asker->state = ASKER_OPEN;
    asker_members_attach(asker);
}

/* --- Answers -------------------------------------------------------------- */

/* Puts the request off, to another node or by a pause; true: leave the node. */
static bool put_off(struct asker *asker, struct asking *ask,
                    enum outcome outcome, struct lease_clock now)
{
    bool leaves = outcome == OUTCOME_NO_LEADER || outcome == OUTCOME_MOVED ||
                  asker->is_denied || asker->is_doubted || is_free(asker);
    uint32_t round = leaves ? asker->count : 1;
    list_remove(&ask->in_asker);
    list_push_back(&asker->asks, &ask->in_asker);
    ask->is_sent = false;
    ask->tried++;
    ask->not_before_ns = now.monotonic_ns;
    if (ask->tried % round == 0 && outcome != OUTCOME_MOVED) {
        ask->not_before_ns += asker_pause_ns(asker, ask->tried / round);
    }
    return leaves;
}

static struct asking *next_in_flight(struct asker *asker)
{
    struct asking *ask = asker->flight[0];
    asker->flight_count--;
    memmove(asker->flight, asker->flight + 1,
            asker->flight_count * sizeof *asker->flight);
    return ask;
}

/* Takes one answer; tells how to leave the node, OUTCOME_NONE: not at all. */
static enum outcome answered(struct asker *asker, struct lease_clock now)
{
    struct asking *ask = next_in_flight(asker);
    const struct resp_value *value = asker->reply.value;
    if (ask == NULL) {
        return OUTCOME_NONE; /* Nobody waits for the answer any more. */
    }
    if (value->type != RESP_ERROR) {
        asker->failed = 0;
        asker->was_let_in = true;
        known_cluster_learn(asker->known, asker->cluster);
        asking_finish(asker, ask, 0);
        return OUTCOME_NONE;
    }
    enum outcome outcome = asker_read_error(asker, value->bytes);
    if (outcome == OUTCOME_REFUSED && may_come_again(asker)) {
        outcome = OUTCOME_UNREACHABLE;
    } else if (outcome == OUTCOME_REFUSED && asking_is_open_still(asker, ask)) {
        asker_note(asker, "%s", asker->why);
        outcome = OUTCOME_BUSY;
    }
    if (outcome == OUTCOME_REFUSED) {
        asker->failed = 0;
        asking_finish(asker, ask, HASP_EREPLY);
        return OUTCOME_NONE;
    }
    asking_count(ask, asker->is_doubted ? OUTCOME_NONE : outcome);
    bool leaves = put_off(asker, ask, outcome, now);
    if (!asker->is_doubted && !asking_may_go_on(ask)) {
        asking_give_up(asker, ask);
    }
    return leaves ? outcome : OUTCOME_NONE;
}

/* Leaves a node whose bytes are no reply. */
static void estranged(struct asker *asker, struct lease_clock now)
{
    asker_note(asker, "does not speak the protocol");
    lose(asker, OUTCOME_STRANGER, now);
}

void asker_input(struct asker *asker, struct bytes bytes,
                 struct lease_clock now)
{
    uint32_t number = asker->number;
    asker->now = now;
    enum outcome leaves = OUTCOME_NONE;
    CHECK(asker->state >= ASKER_GREETING);
    buffer_consume(&asker->in, asker->used);
    asker->used = 0;
    buffer_put_bytes(&asker->in, bytes);
    while (asker->number == number && asker->used < asker->in.size) {
        struct bytes left = bytes_of(asker->in.data + asker->used,
                                     asker->in.size - asker->used);
        size_t used = 0;
        int error = resp_parse_reply(left, REPLY_VALUE_MAX, &asker->reply,
                                     &used);
        if (error == HASP_EMORE && left.size <= REPLY_SIZE_MAX) {
            break;
        }
        if (error != 0) {
            estranged(asker, now);
            return;
        }
        asker->used += used;
        if (asker->reply.value[0].type == RESP_PUSH) {
            asker_members_push(asker);
        } else if (asker->state == ASKER_GREETING) {
            greeted(asker, now);
        } else if (asker->flight_count == 0) {
            estranged(asker, now);
            return;
        } else {
            enum outcome outcome = answered(asker, now);
            leaves = outcome != OUTCOME_NONE ? outcome : leaves;
        }
    }
    if (asker->number == number && leaves != OUTCOME_NONE) {
        lose(asker, leaves, now);
    }
}

/* --- Time ----------------------------------------------------------------- */

static uint64_t attempt_end_ns(const struct asking *ask)
{
    uint64_t attempt_ms = ask->attempt_ms != 0 ? ask->attempt_ms
                                               : CLIENT_ATTEMPT_MS;
    return ask->sent.monotonic_ns + attempt_ms * NS_PER_MS;
}

/* The first request of the list whose deadline has come. */
static struct asking *overdue(struct list *list, uint64_t now_ns)
{
    LIST_FOR (struct asking, ask, list, in_asker) {
        if (now_ns >= ask->deadline_ns) {
            return ask;
        }
    }
    return NULL;
}

static void end_overdue(struct asker *asker, uint64_t now_ns)
{
    struct asking *ask;
    while ((ask = overdue(&asker->asks, now_ns)) != NULL ||
           (ask = overdue(&asker->sent, now_ns)) != NULL) {
        asking_give_up(asker, ask);
    }
}

/* Leaves a node that has been silent for too long. */
static void leave_silent(struct asker *asker, struct lease_clock now)
{
    bool is_silent = (asker->state == ASKER_OPENING ||
                      asker->state == ASKER_GREETING) &&
                     now.monotonic_ns >= asker->until_ns;
    LIST_FOR (const struct asking, ask, &asker->sent, in_asker) {
        is_silent |= now.monotonic_ns >= attempt_end_ns(ask);
    }
    if (is_silent) {
        known_cluster_miss(asker->known, endpoint_number(asker));
        asker_drop(asker, "no answer", now);
    }
}

/* Those that were given up are answered soon. */
static bool may_block(const struct asker *asker)
{
    uint32_t count = 0;
    LIST_FOR (const struct asking, ask, &asker->sent, in_asker) {
        count += ask->blocks;
    }
    return count < ASKER_BLOCKING_MAX;
}

static void send(struct asker *asker, struct asking *ask,
                 struct lease_clock now)
{
    CHECK(asker->state == ASKER_OPEN && !asker_member_holds_up(ask));
    ROOM(asker->flight, asker->flight_room, asker->flight_count + 1);
    if (ask->seen != 0 && ask->again != NULL) {
        ask->again(ask, now);
    }
    asker->flight[asker->flight_count++] = ask;
    list_remove(&ask->in_asker);
    list_push_back(&asker->sent, &ask->in_asker);
    ask->is_sent = true;
    ask->sent = now;
    query_encode(&ask->query, &asker->out);
}

/* True if no attempt should begin any more: one without an answer in time would
 * leave it unknown that nothing was done. */
static bool is_too_late(const struct asking *ask, uint64_t now_ns)
{
    uint64_t least_ns = u64_min(ATTEMPT_MIN_MS * NS_PER_MS,
                                (ask->deadline_ns - ask->begun_ns) / 4);
    bool was_refused = ask->seen != 0 && !ask->is_read &&
                       (ask->seen & 1u << OUTCOME_UNKNOWN) == 0;
    return was_refused && ask->deadline_ns - now_ns < least_ns;
}

/* Sends what can be sent. A caller without time may give the connection up. */
static void send_all(struct asker *asker, struct lease_clock now)
{
    struct list *node = asker->asks.next;
    while (asker->state == ASKER_OPEN && node != &asker->asks) {
        struct asking *ask = LIST_ENTRY(node, struct asking, in_asker);
        node = node->next;
        if (now.monotonic_ns < ask->not_before_ns ||
            asker_member_holds_up(ask) || (ask->blocks && !may_block(asker))) {
            continue;
        }
        if (is_too_late(ask, now.monotonic_ns)) {
            asking_give_up(asker, ask);
            node = asker->asks.next;
            continue;
        }
        send(asker, ask, now);
    }
}

void asker_turn(struct asker *asker, struct lease_clock now)
{
    asker->now = now;
    asker_members_turn(asker, now);
    end_overdue(asker, now.monotonic_ns);
    leave_silent(asker, now);
    if (asker->state == ASKER_REST && now.monotonic_ns >= asker->until_ns &&
        is_wanted(asker)) {
        asker->state = ASKER_OPENING;
        asker->number++;
        asker->until_ns = now.monotonic_ns + open_ms(asker) * NS_PER_MS;
    }
    if (asker->state == ASKER_OPEN) {
        send_all(asker, now);
    }
}

/* When the next turn is due, in CLOCK_MONOTONIC. */
static uint64_t next_ns(const struct asker *asker)
{
    uint64_t next_ns = UINT64_MAX;
    bool is_open = asker->state == ASKER_OPEN;
    LIST_FOR (const struct asking, ask, &asker->asks, in_asker) {
        next_ns = u64_min(next_ns, ask->deadline_ns);
        if (is_open && !asker_member_holds_up(ask) &&
            (!ask->blocks || may_block(asker))) {
            next_ns = u64_min(next_ns, ask->not_before_ns);
        }
    }
    LIST_FOR (const struct asking, ask, &asker->sent, in_asker) {
        uint64_t end_ns = u64_min(ask->deadline_ns, attempt_end_ns(ask));
        next_ns = u64_min(next_ns, end_ns);
    }
    if (asker->state == ASKER_OPENING || asker->state == ASKER_GREETING ||
        (asker->state == ASKER_REST && is_wanted(asker))) {
        next_ns = u64_min(next_ns, asker->until_ns);
    }
    return next_ns;
}

static uint64_t left_until(uint64_t at_ns, uint64_t now_ns)
{
    return at_ns == UINT64_MAX ? UINT64_MAX
           : at_ns > now_ns    ? at_ns - now_ns
                               : 0;
}

uint64_t asker_left_ns(const struct asker *asker, struct lease_clock now)
{
    if (asker->is_touched) {
        return 0;
    }
    return u64_min(left_until(asker->due_ns, now.boottime_ns),
                   left_until(next_ns(asker), now.monotonic_ns));
}
