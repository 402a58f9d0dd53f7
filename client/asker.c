/* SPDX-License-Identifier: MIT */

/* Asking a cluster: requests that outlive connections. */

#include "client/asker.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/memory.h"
#include "base/number.h"
#include "base/units.h"
#include "client/reply.h"

/* Between two rounds over the endpoints: short at first, since an election
 * takes a fraction of a second, and with a random part, since all clients of a
 * dead leader come at once. */
#define BACKOFF_FIRST_MS 20
#define BACKOFF_LAST_MS 400
/* For the answer to the last attempt; a quarter of a short time-out. */
#define ATTEMPT_MIN_MS 250
/* Nodes that send us round in a circle are like nodes without a leader. */
#define MOVED_MAX 8
/* The largest reply is a list of everything. */
#define REPLY_VALUE_MAX (16u << 20)
#define REPLY_SIZE_MAX ((size_t)1 << 30)

/* How an attempt ended. */
enum outcome {
    OUTCOME_NONE,
    OUTCOME_REFUSED,     /* Asking again would give the same error. */
    OUTCOME_NO_LEADER,   /* Nothing was done. */
    OUTCOME_BUSY,        /* Nothing was done. */
    OUTCOME_MOVED,       /* Nothing was done. */
    OUTCOME_UNREACHABLE, /* Nothing was done. */
    OUTCOME_DISTRUSTED,  /* Nothing was done: certificates. */
    OUTCOME_UNKNOWN,     /* It may have been done. */
    OUTCOME_STRANGER     /* What answers is no node of hasp. */
};

int asker_init(struct asker *asker, const struct endpoints *endpoints,
               uint64_t seed)
{
    CHECK(endpoints->count > 0);
    *asker = (struct asker){
        .random = seed, .open_ms = CLIENT_OPEN_MS, .due_ns = UINT64_MAX};
    asker->endpoint = calloc(endpoints->count, sizeof *asker->endpoint);
    asker->last = calloc(endpoints->count, sizeof *asker->last);
    if (asker->endpoint == NULL || asker->last == NULL) {
        free(asker->endpoint);
        free(asker->last);
        return HASP_ENOMEM;
    }
    memcpy(asker->endpoint, endpoints->endpoint,
           endpoints->count * sizeof *asker->endpoint);
    asker->count = endpoints->count;
    memcpy(asker->secret, endpoints->secret, sizeof asker->secret);
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
    free(asker->endpoint);
    free(asker->last);
    free(asker->flight);
}

static asking_done_fn attach_answered;

static void begin_asking(struct asker *asker, struct asking *ask)
{
    CHECK(!ask->is_asked && ask->done != NULL);
    ask->is_asked = true;
    ask->is_sent = false;
    ask->tried = ask->seen = 0;
    ask->not_before_ns = ask->begun_ns = asker->now.monotonic_ns;
}

/* Sends the ATTACH of a member, behind the heartbeats and before all else. */
static void ask_attach(struct asker_member *member)
{
    struct asker *asker = member->asker;
    if (member->attach.is_asked) {
        list_remove(&member->attach.in_asker);
    } else {
        begin_asking(asker, &member->attach);
    }
    struct list *before = asker->asks.next;
    while (before != &asker->asks &&
           LIST_ENTRY(before, struct asking, in_asker)->is_urgent) {
        before = before->next;
    }
    list_insert_before(before, &member->attach.in_asker);
}

/* Who has something to ask comes before those that are quiet. */
static void hurry_attach(const struct asking *ask)
{
    struct asker_member *member = ask->member;
    if (member != NULL && !ask->is_apart && member->attach.is_asked &&
        !member->attach.is_sent) {
        ask_attach(member);
    }
}

static uint64_t pause_ns(struct asker *asker, uint32_t round)
{
    uint64_t limit_ms = BACKOFF_FIRST_MS;
    while (round-- > 1 && limit_ms < BACKOFF_LAST_MS) {
        limit_ms *= 2;
    }
    asker->random = asker->random * 6364136223846793005u + 1442695040888963407u;
    return (limit_ms / 2 + (asker->random >> 33) % limit_ms) * NS_PER_MS;
}

/* Sends a refused ATTACH again, after a pause. */
static void attach_again(struct asker_member *member)
{
    struct asker *asker = member->asker;
    if (member->refusals > 0 && !member->attach.is_asked) {
        ask_attach(member);
        member->attach.not_before_ns += pause_ns(asker, member->refusals);
    }
}

void asker_ask(struct asker *asker, struct asking *ask, struct lease_clock now)
{
    asker->now = now;
    begin_asking(asker, ask);
    if (ask->is_urgent) {
        list_push_front(&asker->asks, &ask->in_asker);
    } else {
        list_push_back(&asker->asks, &ask->in_asker);
    }
    if (ask->member != NULL) {
        attach_again(ask->member);
    }
    hurry_attach(ask);
}

static void leave_flight(struct asker *asker, const struct asking *ask)
{
    for (uint32_t i = 0; i < asker->flight_count; i++) {
        if (asker->flight[i] == ask) {
            asker->flight[i] = NULL;
        }
    }
}

void asker_cancel(struct asker *asker, struct asking *ask)
{
    if (ask->is_asked) {
        leave_flight(asker, ask);
        list_remove(&ask->in_asker);
        ask->is_asked = ask->is_sent = false;
    }
}

/* --- Members -------------------------------------------------------------- */

void asker_join(struct asker *asker, struct asker_member *member)
{
    member->asker = asker;
    member->attach.done = attach_answered;
    member->attach.data = member->attach.member = member;
    member->attach.deadline_ns = UINT64_MAX;
    member->attach.is_read = member->attach.is_apart = true;
    member->attach.blocks = true;
    member->due_ns = UINT64_MAX;
    list_push_back(&asker->members, &member->in_asker);
}

void asker_part(struct asker_member *member)
{
    asker_cancel(member->asker, &member->attach);
    query_done(&member->attach.query);
    list_remove(&member->in_asker);
}

void asker_touch(struct asker_member *member)
{
    member->is_touched = member->asker->is_touched = true;
}

void asker_set_session(struct asker_member *member,
                       const struct credentials *credentials,
                       struct lease_clock now)
{
    struct asker *asker = member->asker;
    asker->now = now;
    asker_cancel(asker, &member->attach);
    member->is_attached = false;
    member->refusals = 0;
    member->has_session = credentials != NULL;
    if (credentials == NULL) {
        return;
    }
    member->credentials = *credentials;
    query_begin(&member->attach.query, "SESSION.ATTACH");
    query_number(&member->attach.query, credentials->session);
    query_text(&member->attach.query, credentials->secret);
    if (asker->state == ASKER_OPEN) {
        ask_attach(member);
    }
}

void asker_adopt_session(struct asker_member *member,
                         const struct credentials *credentials)
{
    CHECK(member->asker->state == ASKER_OPEN);
    asker_set_session(member, credentials, member->asker->now);
    asker_cancel(member->asker, &member->attach);
    member->is_attached = true;
}

/* Detaches a request whose answer nobody waits for. */
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

static struct asker_member *find_member(struct asker *asker, uint64_t session)
{
    LIST_FOR (struct asker_member, member, &asker->members, in_asker) {
        if (member->has_session && member->credentials.session == session) {
            return member;
        }
    }
    return NULL;
}

/* Takes [kind, kind, {session: ...}], which is for that session's member. */
static void take_push(struct asker *asker)
{
    const struct resp_reply *reply = &asker->reply;
    struct asker_member *member = NULL;
    if (reply->value[0].count == 3 && reply->count > 3 &&
        reply->value[3].type == RESP_MAP) {
        member = find_member(asker, reply_number(reply, 3, "session"));
    }
    if (member != NULL && member->hooks.push != NULL) {
        asker_touch(member);
        member->hooks.push(member->hooks.data, reply);
    } else if (asker->push != NULL) {
        asker->push(asker->push_data, reply);
    }
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

/* --- What came of it ------------------------------------------------------ */

__attribute__((format(printf, 2, 3))) static void note(struct asker *asker,
                                                       const char *format, ...)
{
    va_list args;
    if (asker->is_moved) {
        return; /* The address is none of those that were given. */
    }
    va_start(args, format);
    vsnprintf(asker->last[asker->at], sizeof asker->last[0], format, args);
    va_end(args);
}

/* Splits "CODE text" of an error reply. */
static void keep_error(struct asker *asker, struct bytes text)
{
    const uint8_t *blank = text.size == 0 ? NULL
                                          : memchr(text.data, ' ', text.size);
    size_t size = blank != NULL ? (size_t)(blank - text.data) : text.size;
    size_t rest = blank != NULL ? text.size - size - 1 : 0;
    snprintf(asker->code, sizeof asker->code, "%.*s", (int)size,
             (const char *)text.data);
    snprintf(asker->why, sizeof asker->why, "%.*s",
             (int)(rest > 0 ? rest : text.size),
             (const char *)(rest > 0 ? blank + 1 : text.data));
}

/* What the word of an error reply means for asking again. */
static enum outcome of_reply_error(struct asker *asker, struct bytes text)
{
    char why[HASP_WHY_SIZE];
    keep_error(asker, text);
    if (strcmp(asker->code, "NOLEADER") == 0) {
        /* The reason; that nothing was done is said of all together. */
        note(asker, "%.*s", (int)strcspn(asker->why, ";"), asker->why);
        return OUTCOME_NO_LEADER;
    }
    if (strcmp(asker->code, "BUSY") == 0) {
        /* The text says with what, and perhaps for how long. */
        note(asker, "%s", asker->why);
        return OUTCOME_BUSY;
    }
    if (strcmp(asker->code, "UNKNOWN") == 0) {
        note(asker, "does not know the outcome");
        return OUTCOME_UNKNOWN;
    }
    if (strcmp(asker->code, "MOVED") == 0) {
        const char *address = strrchr(asker->why, ' ');
        address = address != NULL ? address + 1 : asker->why;
        if (endpoint_parse(address, strlen(address), &asker->moved, why) == 0) {
            note(asker, "sent us to %s", asker->moved.text);
            return OUTCOME_MOVED;
        }
        return OUTCOME_NO_LEADER;
    }
    return OUTCOME_REFUSED;
}

/* "127.0.0.1:7420: Connection refused; 127.0.0.1:7430: no leader was found" */
static void list_endpoints(const struct asker *asker, char *out, size_t size)
{
    size_t used = 0;
    out[0] = '\0';
    for (uint32_t i = 0; i < asker->count && used < size; i++) {
        int count = snprintf(out + used, size - used, "%s%s: %s",
                             i > 0 ? "; " : "", asker->endpoint[i].text,
                             asker->last[i][0] != '\0' ? asker->last[i]
                                                       : "not asked");
        used += count > 0 ? (size_t)count : 0;
    }
}

static void finish(struct asker *asker, struct asking *ask, int error)
{
    struct asking_end end = {.error = error, .code = "", .why = ""};
    leave_flight(asker, ask);
    list_remove(&ask->in_asker);
    ask->is_asked = ask->is_sent = false;
    if (ask->member != NULL) {
        asker_touch(ask->member);
    }
    if (error == 0) {
        end.reply = &asker->reply;
    } else {
        end.code = asker->code;
        end.why = asker->why;
    }
    ask->done(ask, &end);
}

/* Ends a request with the worst outcome of its attempts. */
static void give_up(struct asker *asker, struct asking *ask)
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
        {OUTCOME_STRANGER, HASP_EPROTO, "what answers is no node of hasp"},
        {OUTCOME_DISTRUSTED, HASP_ECERT, "no trust between client and node"},
        {OUTCOME_UNREACHABLE, HASP_ECONNECT, "no node answers"},
    };
    char list[HASP_WHY_SIZE - 80];
    size_t i = 0;
    if (ask->is_sent || ask->seen == 0) {
        if (asker->state != ASKER_REST) {
            note(asker, "no answer");
        }
        ask->seen |= 1u << (ask->is_sent && !ask->is_read
                                ? OUTCOME_UNKNOWN
                                : OUTCOME_UNREACHABLE);
    }
    while ((ask->seen & 1u << ends[i].outcome) == 0) {
        i++;
        CHECK(i < sizeof ends / sizeof ends[0]);
    }
    list_endpoints(asker, list, sizeof list);
    asker->code[0] = '\0';
    snprintf(asker->why, sizeof asker->why, "%s (%s)", ends[i].text, list);
    finish(asker, ask, ends[i].error);
}

/* --- The connection ------------------------------------------------------- */

static void note_outcome(struct asking *ask, enum outcome outcome)
{
    if (outcome == OUTCOME_UNKNOWN && ask->is_read) {
        outcome = OUTCOME_UNREACHABLE;
    }
    ask->seen |= 1u << outcome;
}

static bool may_go_on(const struct asking *ask)
{
    bool is_unknown = (ask->seen & 1u << OUTCOME_UNKNOWN) != 0;
    return !ask->is_once && (!is_unknown || ask->is_repeatable);
}

/* Ends the requests that may not be asked again. The search begins anew after
 * each, whatever `done` does. */
static void end_some(struct asker *asker)
{
    struct list *node = asker->asks.next;
    while (node != &asker->asks) {
        struct asking *ask = LIST_ENTRY(node, struct asking, in_asker);
        node = node->next;
        if (!may_go_on(ask) && ask->seen != 0) {
            give_up(asker, ask);
            node = asker->asks.next;
        }
    }
}

/* All members are attached anew on the next connection. */
static void forget_attached(struct asker *asker)
{
    LIST_FOR (struct asker_member, member, &asker->members, in_asker) {
        asker_cancel(asker, &member->attach);
        member->is_attached = false;
        member->refusals = 0;
    }
}

static void tell_lost(struct asker *asker)
{
    LIST_FOR (struct asker_member, member, &asker->members, in_asker) {
        asker_touch(member);
        if (member->hooks.lost != NULL) {
            member->hooks.lost(member->hooks.data);
        }
    }
}

/* Ends the connection. What was sent on it is sent again, in its order; the
 * requests that waited for an answer have had 'outcome'. */
static void lose(struct asker *asker, enum outcome outcome,
                 struct lease_clock now)
{
    bool was_open = asker->state == ASKER_OPEN;
    asker->number++;
    asker->state = ASKER_REST;
    forget_attached(asker);
    asker->flight_count = 0;
    asker->used = 0;
    buffer_clear(&asker->in);
    buffer_clear(&asker->out);
    LIST_FOR (struct asking, asking, &asker->asks, in_asker) {
        if (!was_open) {
            note_outcome(asking, outcome);
        }
    }
    while (!list_is_empty(&asker->sent)) {
        struct asking *ask = LIST_ENTRY(asker->sent.prev, struct asking,
                                        in_asker);
        list_remove(&ask->in_asker);
        list_push_front(&asker->asks, &ask->in_asker);
        ask->is_sent = false;
        note_outcome(ask,
                     outcome == OUTCOME_STRANGER ? outcome : OUTCOME_UNKNOWN);
    }
    LIST_EACH_SAFE (node, &asker->asks) {
        if (LIST_ENTRY(node, struct asking, in_asker)->is_urgent) {
            list_remove(node);
            list_push_front(&asker->asks, node);
        }
    }
    asker->failed++;
    asker->is_moved = outcome == OUTCOME_MOVED &&
                      asker->failed % MOVED_MAX != 0;
    if (!asker->is_moved) {
        asker->at = (asker->at + 1) % asker->count;
    }
    asker->until_ns = now.monotonic_ns;
    if (asker->failed % asker->count == 0 && !asker->is_moved) {
        asker->until_ns += pause_ns(asker, asker->failed / asker->count);
    }
    tell_lost(asker);
    end_some(asker);
}

void asker_drop(struct asker *asker, const char *why, struct lease_clock now)
{
    asker->now = now;
    if (why != NULL) {
        note(asker, "%s", why);
    }
    if (asker->state != ASKER_REST) {
        lose(asker, OUTCOME_UNREACHABLE, now);
    }
}

void asker_failed(struct asker *asker, const char *why, struct lease_clock now)
{
    asker->now = now;
    CHECK(asker->state != ASKER_REST);
    note(asker, "%.80s", why);
    lose(asker, OUTCOME_UNREACHABLE, now);
}

void asker_distrusted(struct asker *asker, const char *why,
                      struct lease_clock now)
{
    asker->now = now;
    CHECK(asker->state != ASKER_REST);
    note(asker, "%s", why);
    lose(asker, OUTCOME_DISTRUSTED, now);
}

void asker_connected(struct asker *asker)
{
    struct query query = {0};
    CHECK(asker->state == ASKER_OPENING);
    asker->state = ASKER_GREETING;
    query_begin(&query, "HELLO");
    query_number(&query, 3);
    if (asker->secret[0] != '\0' && !endpoint_is_local(asker_endpoint(asker))) {
        query_text(&query, "AUTH");
        query_text(&query, "default"); /* A secret contains the user's name. */
        query_text(&query, asker->secret);
    }
    query_encode(&query, &asker->out);
    query_done(&query);
}

/* What is told of who asks, and not of what is asked, or that the leader has no
 * room on its disk, is no entry's result: it tells nothing of an earlier
 * sending, which may have been done, or be on its way to the log. */
static bool is_open_still(const struct asker *asker, const struct asking *ask)
{
    bool is_of_asker = strcmp(asker->code, "NOAUTH") == 0 ||
                       strcmp(asker->code, "WRONGPASS") == 0 ||
                       strcmp(asker->code, "NOTLS") == 0;
    bool is_disk = strcmp(asker->code, "LIMIT") == 0 &&
                   strncmp(asker->why, "disk", 4) == 0;
    return (ask->was_sent || (ask->seen & 1u << OUTCOME_UNKNOWN) != 0) &&
           (is_of_asker || is_disk);
}

/* Ends requests that wait to be sent, of one member or (NULL) of all, with the
 * refusal that was just read; those that may have been done go on. */
static void take_refused(struct asker *asker, const struct asker_member *member,
                         struct list *refused)
{
    list_init(refused);
    LIST_EACH_SAFE (node, &asker->asks) {
        struct asking *ask = LIST_ENTRY(node, struct asking, in_asker);
        if (member != NULL && (ask->member != member || ask->is_apart)) {
            continue;
        }
        if (is_open_still(asker, ask)) {
            note_outcome(ask, OUTCOME_UNKNOWN);
        } else {
            list_remove(node);
            list_push_back(refused, node);
        }
    }
}

static void end_refused(struct asker *asker, struct list *refused,
                        const char *code, const char *why)
{
    while (!list_is_empty(refused)) {
        memcpy(asker->code, code, sizeof asker->code);
        memcpy(asker->why, why, sizeof asker->why);
        finish(asker, LIST_FIRST(refused, struct asking, in_asker),
               HASP_EREPLY);
    }
}

/* Tells all who wait for the connection that it was refused. */
static void refuse_all(struct asker *asker, struct lease_clock now)
{
    char code[CLIENT_CODE_SIZE], why[HASP_WHY_SIZE];
    struct list refused;
    memcpy(code, asker->code, sizeof code);
    memcpy(why, asker->why, sizeof why);
    take_refused(asker, NULL, &refused);
    lose(asker, OUTCOME_REFUSED, now);
    end_refused(asker, &refused, code, why);
}

/* A refused ATTACH concerns only its member. */
static void attach_answered(struct asking *ask, const struct asking_end *end)
{
    char code[CLIENT_CODE_SIZE], why[HASP_WHY_SIZE];
    struct asker_member *member = ask->data;
    struct asker *asker = member->asker;
    struct list refused;
    if (end->error == 0) {
        member->is_attached = true;
        member->refusals = 0;
        return;
    }
    CHECK(end->error == HASP_EREPLY); /* The ATTACH is repeated until then. */
    memcpy(code, asker->code, sizeof code);
    memcpy(why, asker->why, sizeof why);
    note(asker, "%s", why);
    member->refusals++;
    take_refused(asker, member, &refused);
    if (member->hooks.ended != NULL) {
        member->hooks.ended(member->hooks.data, code, why);
    }
    end_refused(asker, &refused, code, why);
}

static void greeted(struct asker *asker, struct lease_clock now)
{
    if (asker->reply.value[0].type == RESP_ERROR) {
        enum outcome outcome = of_reply_error(asker,
                                              asker->reply.value[0].bytes);
        if (outcome == OUTCOME_REFUSED) {
            refuse_all(asker, now);
            return;
        }
        lose(asker, outcome == OUTCOME_UNKNOWN ? OUTCOME_BUSY : outcome, now);
        return;
    }
    asker->state = ASKER_OPEN;
    LIST_FOR (struct asker_member, member, &asker->members, in_asker) {
        if (member->has_session) {
            ask_attach(member);
        }
    }
    LIST_EACH_SAFE (node, &asker->asks) {
        hurry_attach(LIST_ENTRY(node, struct asking, in_asker));
    }
}

/* --- Answers -------------------------------------------------------------- */

/* Puts the request off, to another node or by a pause; true: leave the node. */
static bool put_off(struct asker *asker, struct asking *ask,
                    enum outcome outcome, struct lease_clock now)
{
    bool leaves = outcome == OUTCOME_NO_LEADER || outcome == OUTCOME_MOVED ||
                  is_free(asker);
    uint32_t round = leaves ? asker->count : 1;
    list_remove(&ask->in_asker);
    list_push_back(&asker->asks, &ask->in_asker);
    ask->is_sent = false;
    ask->tried++;
    ask->not_before_ns = now.monotonic_ns;
    if (ask->tried % round == 0 && outcome != OUTCOME_MOVED) {
        ask->not_before_ns += pause_ns(asker, ask->tried / round);
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
        finish(asker, ask, 0);
        return OUTCOME_NONE;
    }
    enum outcome outcome = of_reply_error(asker, value->bytes);
    if (outcome == OUTCOME_REFUSED && is_open_still(asker, ask)) {
        note(asker, "%s", asker->why);
        outcome = OUTCOME_BUSY;
    }
    if (outcome == OUTCOME_REFUSED) {
        asker->failed = 0;
        finish(asker, ask, HASP_EREPLY);
        return OUTCOME_NONE;
    }
    note_outcome(ask, outcome);
    bool leaves = put_off(asker, ask, outcome, now);
    if (!may_go_on(ask)) {
        give_up(asker, ask);
    }
    return leaves ? outcome : OUTCOME_NONE;
}

/* Leaves a node whose bytes are no reply. */
static void estranged(struct asker *asker, struct lease_clock now)
{
    note(asker, "does not speak the protocol");
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
            take_push(asker);
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
        give_up(asker, ask);
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
        asker_drop(asker, "no answer", now);
    }
}

/* True if the request's session must be attached first. */
static bool is_held_up(const struct asking *ask)
{
    const struct asker_member *member = ask->member;
    return member != NULL && member->has_session && !member->is_attached &&
           !ask->is_apart;
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
    CHECK(asker->state == ASKER_OPEN && !is_held_up(ask));
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
        if (now.monotonic_ns < ask->not_before_ns || is_held_up(ask) ||
            (ask->blocks && !may_block(asker))) {
            continue;
        }
        if (is_too_late(ask, now.monotonic_ns)) {
            give_up(asker, ask);
            node = asker->asks.next;
            continue;
        }
        send(asker, ask, now);
    }
}

static uint64_t later_ns(uint64_t now_ns, uint64_t left_ns)
{
    return left_ns < UINT64_MAX - now_ns ? now_ns + left_ns : UINT64_MAX;
}

/* Gives a turn to each member whose time has come, or that was touched. */
static void turn_members(struct asker *asker, struct lease_clock now)
{
    asker->is_touched = false;
    asker->due_ns = UINT64_MAX;
    LIST_FOR (struct asker_member, member, &asker->members, in_asker) {
        bool is_due = member->is_touched || now.boottime_ns >= member->due_ns;
        member->is_touched = false;
        if (is_due && member->hooks.turn != NULL) {
            uint64_t left_ns = member->hooks.turn(member->hooks.data, now);
            member->due_ns = later_ns(now.boottime_ns, left_ns);
        }
        asker->due_ns = u64_min(asker->due_ns, member->due_ns);
    }
}

void asker_turn(struct asker *asker, struct lease_clock now)
{
    asker->now = now;
    turn_members(asker, now);
    end_overdue(asker, now.monotonic_ns);
    leave_silent(asker, now);
    if (asker->state == ASKER_REST && now.monotonic_ns >= asker->until_ns &&
        is_wanted(asker)) {
        asker->state = ASKER_OPENING;
        asker->number++;
        asker->until_ns = now.monotonic_ns + asker->open_ms * NS_PER_MS;
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
        if (is_open && !is_held_up(ask) && (!ask->blocks || may_block(asker))) {
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

int credentials_parse(const char *text, struct credentials *ret_credentials)
{
    struct credentials credentials = {0};
    uint8_t secret[(CLIENT_SECRET_SIZE - 1) / 2];
    const char *colon = strchr(text, ':');
    if (colon == NULL ||
        !bytes_to_u64(bytes_of(text, (size_t)(colon - text)),
                      &credentials.session) ||
        credentials.session == 0 ||
        !hex_get(bytes_of_text(colon + 1), secret, sizeof secret)) {
        return HASP_EINVALID;
    }
    hex_put(credentials.secret, bytes_of(secret, sizeof secret));
    *ret_credentials = credentials;
    return 0;
}
