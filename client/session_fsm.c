/* SPDX-License-Identifier: MIT */

/* A session: opening, heartbeats, loss, events, closing. */

#include "client/session_fsm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/minmax.h"
#include "base/sha.h"
#include "base/units.h"
#include "client/reply.h"

/* Events that other clients cause without limit. */
#define OTHER_MAX 64

/* --- Events --------------------------------------------------------------- */

static bool is_from_others(enum hasp_event_kind kind)
{
    return kind == HASP_EVENT_PLEASE || kind == HASP_EVENT_NOTICE;
}

struct event_node *session_fsm_take_event(struct session_fsm *fsm)
{
    struct event_node *node = LIST_FIRST(&fsm->events, struct event_node,
                                         in_machine);
    if (node != NULL) {
        list_remove(&node->in_machine);
        fsm->other_count -= is_from_others(node->event.kind);
    }
    return node;
}

static void session_fsm_copy_text(char *out, size_t size, struct bytes text)
{
    size_t count = text.size < size - 1 ? text.size : size - 1;
    if (count > 0) {
        memcpy(out, text.data, count);
    }
    out[count] = '\0';
}

void session_fsm_add_event(struct session_fsm *fsm, enum hasp_event_kind kind,
                           uint64_t token, struct bytes name, struct bytes text)
{
    if (is_from_others(kind) && fsm->other_count >= OTHER_MAX) {
        return;
    }
    struct event_node *node = calloc(1, sizeof *node);
    if (node == NULL) {
        return; /* hasp_guard() reports it, too. */
    }
    node->event.kind = kind;
    node->event.token = token;
    session_fsm_copy_text(node->event.name, sizeof node->event.name, name);
    session_fsm_copy_text(node->event.text, sizeof node->event.text, text);
    fsm->other_count += is_from_others(kind);
    list_push_back(&fsm->events, &node->in_machine);
}

static void tell_news(struct session_fsm *fsm)
{
    if (fsm->news != NULL &&
        (!list_is_empty(&fsm->events) || fsm->hooks.count > 0)) {
        fsm->news(fsm);
    }
}

/* Takes a push: ["lock", "please" or "breaking", {lock, session, token, index,
 * message}] or ["lock", "answer", {session, owner, index, wait, tokens}]. */
static void session_fsm_pushed(void *data, const struct resp_reply *reply)
{
    struct session_fsm *fsm = data;
    struct bytes kind = reply->value[2].bytes;
    if (bytes_is_word(kind, "PLEASE") || bytes_is_word(kind, "BREAKING")) {
        session_fsm_add_event(
            fsm, HASP_EVENT_PLEASE, reply_number(reply, 3, "token"),
            reply_text(reply, 3, "lock"), reply_text(reply, 3, "message"));
    } else if (bytes_is_word(kind, "ANSWER")) {
        operations_pushed(fsm, reply);
    }
}

static void session_fsm_noticed(void *data, const char *text)
{
    struct session_fsm *fsm = data;
    if (fsm->is_open) {
        session_fsm_add_event(fsm, HASP_EVENT_NOTICE, 0, bytes_of(NULL, 0),
                              bytes_of_text(text));
    }
}

static void tell_state(struct session_fsm *fsm)
{
    static const struct {
        enum hasp_event_kind kind;
        const char *text;
    } events[] = {
        [LEASE_HELD] = {HASP_EVENT_SAFE, "the lease is renewed"},
        [LEASE_JEOPARDY] = {HASP_EVENT_JEOPARDY, "no answer for too long"},
        [LEASE_LOST] = {HASP_EVENT_LOST, "the lease has run out"},
    };
    enum lease_state state = lease_check(&fsm->lease, fsm->conn->now);
    if (state == fsm->reported) {
        return;
    }
    const char *text = events[state].text;
    if (state != LEASE_HELD && fsm->why[0] != '\0') {
        text = fsm->why;
    }
    fsm->reported = state;
    session_fsm_add_event(fsm, events[state].kind, 0, bytes_of(NULL, 0),
                          bytes_of_text(text));
}

/* --- Errors --------------------------------------------------------------- */

static int of_word(const char *word)
{
    static const struct {
        const char *word;
        int error;
    } words[] = {
        {"NOTHELD", HASP_ENOTHELD},
        {"DEADLOCK", HASP_EDEADLOCK},
        {"LIMIT", HASP_EFULL},
        {"BADARG", HASP_EINVALID},
        {"NOAUTH", HASP_EREFUSED},
        {"WRONGPASS", HASP_EREFUSED},
        {"NOPERM", HASP_EREFUSED},
        {"NOTLS", HASP_EREFUSED},
        {"BLACKLISTED", HASP_EBLACKLISTED},
        {"FOREIGN", HASP_EFOREIGN},
        {"EXPIRED", HASP_ELOST},
        {"NOSESSION", HASP_ELOST},
        {"FORGOTTEN", HASP_EUNKNOWN},
    };
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strcmp(word, words[i].word) == 0) {
            return words[i].error;
        }
    }
    return HASP_EREPLY;
}

/* The session is lost: nothing of it can be trusted. */
static void end_lease(struct session_fsm *fsm)
{
    lease_refused(&fsm->lease);
    if (fsm->is_endless) {
        fsm->is_endless = false;
        known_cluster_endless(fsm->conn->known, -1);
    }
}

/* The cluster reports that the session has ended: after this no hold may be
 * trusted. */
static void session_fsm_lose(struct session_fsm *fsm, const char *code,
                             const char *why)
{
    end_lease(fsm);
    fsm->is_refused = true;
    snprintf(fsm->why, sizeof fsm->why, "%s %.440s", code, why);
}

int session_fsm_error(struct session_fsm *fsm,
                      const struct client_request_end *end,
                      char why[HASP_WHY_SIZE])
{
    if (end->error == HASP_EREPLY) {
        int error = of_word(end->code);
        snprintf(why, HASP_WHY_SIZE, "%s: %.470s", end->code, end->why);
        if (error == HASP_ELOST && fsm->is_open) {
            session_fsm_lose(fsm, end->code, end->why);
        }
        return error;
    }
    snprintf(why, HASP_WHY_SIZE, "%s",
             end->why[0] != '\0' ? end->why : hasp_strerror(end->error));
    return end->error == HASP_ETIMEDOUT ? HASP_EUNKNOWN : end->error;
}

static void refused_session(void *data, const char *code, const char *why)
{
    struct session_fsm *fsm = data;
    if (of_word(code) == HASP_ELOST) {
        session_fsm_lose(fsm, code, why);
    }
}

/* --- Opening and closing -------------------------------------------------- */

/* An OPEN or a CLOSE, which has no number and belongs to no change. */
struct client_act {
    struct client_request ask;
    struct session_fsm *fsm;
    struct list in_machine;
    struct client_call *call; /* NULL: its call has ended. */
    /* End of the call of an OPEN, in CLOCK_MONOTONIC; UINT64_MAX: with
     * 'ask'. */
    uint64_t report_by_ns;
    struct credentials credentials;
};

static void session_fsm_act_free(struct client_act *act)
{
    client_request_cancel(act->fsm->conn, &act->ask);
    list_remove(&act->in_machine);
    query_done(&act->ask.query);
    free(act);
}

static void end_act(struct client_act *act, int error)
{
    struct client_call *call = act->call;
    session_fsm_act_free(act);
    call->error = error;
    call->done(call);
}

static struct client_act *session_fsm_act_new(struct session_fsm *fsm,
                                              const char *command,
                                              client_request_done_fn *done,
                                              struct client_call *call)
{
    struct client_act *act = calloc(1, sizeof *act);
    if (act != NULL) {
        act->fsm = fsm;
        list_push_back(&fsm->acts, &act->in_machine);
        act->call = call;
        act->ask.member = &fsm->member;
        act->ask.data = act;
        act->ask.done = done;
        act->ask.is_read = true;
        act->report_by_ns = UINT64_MAX;
        act->ask.deadline_ns = fsm->conn->now.monotonic_ns +
                               fsm->timeout_ms * NS_PER_MS;
        query_begin(&act->ask.query, command);
    }
    return act;
}

/* Renews the lease from the map of OPEN or KEEP FULL; false if the answer is
 * not such a map. A durable session has null as its TTL. */
static bool session_fsm_renew(struct session_fsm *fsm,
                              const struct client_request *ask,
                              const struct resp_reply *reply)
{
    const struct resp_value *ttl = resp_find(reply, 0, "ttl_ms");
    uint64_t ttl_ms = reply_number(reply, 0, "ttl_ms");
    if (ttl != NULL && ttl->type == RESP_NULL) {
        lease_answered_endless(&fsm->lease, ask->sent);
        if (!fsm->is_endless) {
            fsm->is_endless = true;
            known_cluster_endless(fsm->conn->known, 1);
        }
        return true;
    }
    if (ttl_ms == 0) {
        return false;
    }
    /* Counted from the sending of this heartbeat (rule 1). */
    lease_answered(&fsm->lease, ask->sent, ttl_ms,
                   reply_number(reply, 0, "linger_ms"));
    struct lease_clock now = fsm->conn->now;
    known_cluster_believe(fsm->conn->known,
                          now.boottime_ns + lease_remaining(&fsm->lease, now));
    return true;
}

/* Writes a heartbeat, which needs no attachment and so leaves before that. */
static void write_keep(struct session_fsm *fsm)
{
    struct query *query = &fsm->keep.query;
    query_begin(query, "SESSION.KEEP");
    query_number(query, fsm->credentials.session);
    query_text(query, fsm->credentials.secret);
    query_text(query, "FULL");
    query_option(query, "AFTER", fsm->seen);
}

/* Starts the heartbeats of the session. */
static void session_fsm_begin(struct session_fsm *fsm)
{
    fsm->is_open = true;
    fsm->member.is_wanted = true;
    fsm->member.open_ms = lease_period_ns(&fsm->lease) / NS_PER_MS;
}

static void closed_late(struct client_request *ask,
                        const struct client_request_end *end)
{
    struct client_act *act = ask->data;
    struct session_fsm *fsm = act->fsm;
    if (end->error == 0) {
        cluster_conn_set_session(&fsm->member, NULL, fsm->conn->now);
    }
    session_fsm_act_free(act); /* Otherwise its lease ends it, if it has one. */
}

/* Closes a session whose OPEN was answered after its call had ended: no other
 * process knows it. */
static void opened_late(struct client_act *act,
                        const struct client_request_end *end)
{
    struct client_request *ask = &act->ask;
    struct session_fsm *fsm = act->fsm;
    uint64_t session = end->error == 0 ? reply_number(end->reply, 0, "id") : 0;
    if (session == 0) {
        session_fsm_act_free(act);
        return;
    }
    act->credentials.session = session;
    /* A session that nobody knows would count against limits until it expires,
     * and a durable one for ever. */
    cluster_conn_adopt_session(&fsm->member, &act->credentials);
    ask->is_once = false;
    ask->done = closed_late;
    ask->deadline_ns = fsm->conn->now.monotonic_ns +
                       fsm->timeout_ms * NS_PER_MS;
    query_begin(&ask->query, "SESSION.CLOSE");
    query_option(&ask->query, "SESSION", session);
    cluster_conn_ask(fsm->conn, ask, fsm->conn->now);
}

/* Ends the call of an OPEN at its timeout. The request may still be done, so
 * its answer is awaited, as long as for any request. */
static void tell_late(struct client_act *act)
{
    struct session_fsm *fsm = act->fsm;
    struct client_call *call = act->call;
    struct client_request_end end = {.code = "", .why = fsm->conn->why};
    end.error = asking_judge(fsm->conn, &act->ask);
    call->error = session_fsm_error(fsm, &end, call->why);
    act->call = NULL;
    act->report_by_ns = UINT64_MAX;
    act->ask.is_once = true;
    if (!act->ask.is_sent) {
        session_fsm_act_free(act);
    }
    call->done(call);
}

static void acts_turn(struct session_fsm *fsm)
{
    LIST_FOR_SAFE (struct client_act, act, &fsm->acts, in_machine) {
        if (fsm->conn->now.monotonic_ns >= act->report_by_ns) {
            tell_late(act);
        }
    }
}

static uint64_t acts_left_ns(const struct session_fsm *fsm,
                             struct lease_clock now)
{
    uint64_t next_ns = UINT64_MAX;
    LIST_FOR (const struct client_act, act, &fsm->acts, in_machine) {
        next_ns = u64_min(next_ns, act->report_by_ns);
    }
    return next_ns == UINT64_MAX        ? next_ns
           : next_ns > now.monotonic_ns ? next_ns - now.monotonic_ns
                                        : 0;
}

bool machine_is_clearing(const struct session_fsm *fsm)
{
    LIST_FOR (const struct client_act, act, &fsm->acts, in_machine) {
        if (act->call == NULL) {
            return true;
        }
    }
    return false;
}

static void session_fsm_opened(struct client_request *ask,
                               const struct client_request_end *end)
{
    struct client_act *act = ask->data;
    struct session_fsm *fsm = act->fsm;
    if (act->call == NULL) {
        opened_late(act, end);
        return;
    }
    if (end->error != 0) {
        end_act(act, session_fsm_error(fsm, end, act->call->why));
        return;
    }
    /* The lease counts from the sending of OPEN (rule 1). */
    if (!session_fsm_renew(fsm, ask, end->reply)) {
        snprintf(act->call->why, sizeof act->call->why,
                 "the answer does not fit the request");
        end_act(act, HASP_EPROTO);
        return;
    }
    if (act->credentials.session == 0) {
        act->credentials.session = reply_number(end->reply, 0, "id");
        cluster_conn_adopt_session(&fsm->member, &act->credentials);
    }
    fsm->credentials = act->credentials;
    session_fsm_begin(fsm);
    end_act(act, 0);
}

static int query_hash(struct query *query, const char *option,
                      const char *secret)
{
    uint8_t hash[SHA256_SIZE];
    char text[2 * SHA256_SIZE + 1];
    int error = sha256(bytes_of_text(secret), hash);
    if (error == 0) {
        hex_put(text, bytes_of(hash, sizeof hash));
        query_text(query, option);
        query_text(query, text);
    }
    return error;
}

int session_fsm_open(struct session_fsm *fsm,
                     const struct hasp_options *options, const char *name,
                     const uint8_t random[SESSION_FSM_RANDOM_SIZE],
                     struct client_call *call, struct lease_clock now)
{
    session_fsm_enter(fsm, now);
    struct client_act *act = session_fsm_act_new(fsm, "SESSION.OPEN",
                                                 session_fsm_opened, call);
    if (act == NULL) {
        return HASP_ENOMEM;
    }
    act->ask.blocks = true;
    /* Only the call ends at the deadline. The request continues, so that a
     * session opened late is noticed and closed. */
    act->report_by_ns = act->ask.deadline_ns;
    act->ask.deadline_ns = UINT64_MAX;
    hex_put(act->credentials.secret, bytes_of(random, SESSION_FSM_RANDOM_SIZE));
    struct query *query = &act->ask.query;
    if (options->is_durable) {
        query_text(query, "TTL");
        query_text(query, "NONE");
    } else {
        query_option(query, "TTL", options->ttl_ms);
        query_option(query, "LINGER", options->linger_ms);
    }
    if (options->reason != NULL) {
        query_text(query, "LABEL");
        query_text(query, "reason");
        query_text(query, options->reason);
    }
    query_text(query, "NAME");
    query_text(query, name);
    int error = query_hash(query, "PROOF", act->credentials.secret);
    if (error == 0 && options->death_word != NULL) {
        error = query_hash(query, "WILL", options->death_word);
    }
    if (error != 0) {
        session_fsm_act_free(act);
        return error;
    }
    cluster_conn_ask(fsm->conn, &act->ask, now);
    return 0;
}

int session_fsm_attach(struct session_fsm *fsm,
                       const struct credentials *credentials, uint64_t number,
                       struct client_call *call, struct lease_clock now)
{
    session_fsm_enter(fsm, now);
    struct client_act *act = session_fsm_act_new(fsm, "SESSION.KEEP",
                                                 session_fsm_opened, call);
    if (act == NULL) {
        return HASP_ENOMEM;
    }
    query_option(&act->ask.query, "SESSION", credentials->session);
    query_text(&act->ask.query, "FULL");
    act->credentials = *credentials;
    fsm->numbers.newest = number;
    cluster_conn_set_session(&fsm->member, credentials, now);
    cluster_conn_ask(fsm->conn, &act->ask, now);
    return 0;
}

static void session_fsm_ended(struct client_request *ask,
                              const struct client_request_end *end)
{
    struct client_act *act = ask->data;
    int error = end->error == 0
                    ? 0
                    : session_fsm_error(act->fsm, end, act->call->why);
    act->fsm->member.is_wanted = false;
    end_act(act, error);
}

/* The node has detached it from the connection. */
static void session_fsm_closed(struct client_request *ask,
                               const struct client_request_end *end)
{
    struct session_fsm *fsm = ((struct client_act *)ask->data)->fsm;
    if (end->error == 0) {
        cluster_conn_set_session(&fsm->member, NULL, fsm->conn->now);
    }
    session_fsm_ended(ask, end);
}

static int session_fsm_finish(struct session_fsm *fsm, struct client_act *act,
                              struct client_call *call, struct lease_clock now)
{
    if (act == NULL) {
        return HASP_ENOMEM;
    }
    int error = session_fsm_check(fsm, now, call->why);
    fsm->is_open = false;
    holds_report(fsm, NULL);
    operations_end(fsm, false);
    client_request_cancel(fsm->conn, &fsm->keep);
    client_request_cancel(fsm->conn, &fsm->list);
    if (error != 0) {
        end_act(act, error);
    } else {
        cluster_conn_ask(fsm->conn, &act->ask, now);
    }
    return 0;
}

int session_fsm_detach(struct session_fsm *fsm, struct client_call *call,
                       struct lease_clock now)
{
    session_fsm_enter(fsm, now);
    struct client_act *act = session_fsm_act_new(fsm, "SESSION.KEEP",
                                                 session_fsm_ended, call);
    if (act != NULL) {
        query_option(&act->ask.query, "SESSION", fsm->credentials.session);
        query_text(&act->ask.query, "FULL");
    }
    return session_fsm_finish(fsm, act, call, now);
}

int session_fsm_close(struct session_fsm *fsm, struct client_call *call,
                      struct lease_clock now)
{
    session_fsm_enter(fsm, now);
    struct client_act *act = session_fsm_act_new(fsm, "SESSION.CLOSE",
                                                 session_fsm_closed, call);
    if (act != NULL) {
        act->ask.blocks = true;
        query_option(&act->ask.query, "SESSION", fsm->credentials.session);
    }
    int error = session_fsm_finish(fsm, act, call, now);
    end_lease(fsm);
    return error;
}

/* --- Heartbeats ----------------------------------------------------------- */

/* Processes the answer to a heartbeat. EXPIRED and NOSESSION lose the lease at
 * once. BLACKLISTED does not: the session can finish its work, but its lease is
 * no longer renewed. */
static void session_fsm_kept(struct client_request *ask,
                             const struct client_request_end *end)
{
    struct session_fsm *fsm = ask->data;
    if (end->error == 0 && session_fsm_renew(fsm, ask, end->reply)) {
        fsm->why[0] = '\0';
        holds_notices(fsm, end->reply);
        return;
    }
    if (end->error == 0) { /* A lease is what each node answers. */
        cluster_conn_drop(fsm->conn, "does not speak the protocol",
                          fsm->conn->now);
        return;
    }
    snprintf(fsm->why, sizeof fsm->why, "%s%s%.440s", end->code,
             end->code[0] != '\0' ? " " : "", end->why);
    if (end->error == HASP_EREPLY) {
        int error = of_word(end->code);
        fsm->is_refused |= error == HASP_ELOST || error == HASP_EBLACKLISTED;
        if (error == HASP_ELOST) {
            end_lease(fsm);
        }
    }
}

static void session_fsm_beat(struct session_fsm *fsm)
{
    struct lease_clock now = fsm->conn->now;
    struct lease *lease = &fsm->lease;
    if (fsm->keep.is_asked || lease_next_beat(lease, now) != 0) {
        return;
    }
    lease_beat_sent(lease, now);
    if (fsm->alive_ms != 0 && now.boottime_ns >= fsm->alive_until_ns) {
        snprintf(fsm->why, sizeof fsm->why,
                 "no progress was reported in time (hasp_alive)");
        return;
    }
    /* Time for a node from each sending; the wait for a connection does not
     * count. */
    bool is_behind = cluster_conn_is_awaiting(fsm->conn);
    uint64_t patience_ns = lease_period_ns(lease) * (is_behind ? 2 : 1);
    write_keep(fsm);
    fsm->keep.attempt_ms = patience_ns / NS_PER_MS;
    fsm->keep.deadline_ns = now.monotonic_ns + 2 * patience_ns;
    cluster_conn_ask(fsm->conn, &fsm->keep, now);
}

void session_fsm_alive(struct session_fsm *fsm, struct lease_clock now)
{
    fsm->alive_until_ns = now.boottime_ns + fsm->alive_ms * NS_PER_MS;
}

int session_fsm_check(struct session_fsm *fsm, struct lease_clock now,
                      char why[HASP_WHY_SIZE])
{
    if (lease_check(&fsm->lease, now) != LEASE_LOST) {
        return 0;
    }
    snprintf(why, HASP_WHY_SIZE,
             "the session is lost%s%.440s; open another one",
             fsm->why[0] != '\0' ? ": " : "", fsm->why);
    return HASP_ELOST;
}

/* --- Turns ---------------------------------------------------------------- */

static uint64_t left_ns(struct session_fsm *fsm, struct lease_clock now)
{
    struct lease sure = fsm->lease;
    if (!fsm->is_open || fsm->is_over) {
        return acts_left_ns(fsm, now);
    }
    enum lease_state state = lease_check(&fsm->lease, now);
    if (state != fsm->reported) {
        return 0;
    }
    if (state == LEASE_JEOPARDY) {
        sure.linger_ns = 0; /* Until it is lost. */
    }
    uint64_t left_ns = lease_remaining(&sure, now);
    left_ns = u64_min(left_ns, holds_left_ns(fsm, now));
    if (!fsm->keep.is_asked) {
        left_ns = u64_min(left_ns, lease_next_beat(&fsm->lease, now));
    }
    uint64_t next_ns = operations_next_ns(fsm);
    if (next_ns == UINT64_MAX) {
        return left_ns;
    }
    return u64_min(left_ns,
                   next_ns > now.monotonic_ns ? next_ns - now.monotonic_ns : 0);
}

static uint64_t session_fsm_turn(void *data, struct lease_clock now)
{
    struct session_fsm *fsm = data;
    acts_turn(fsm);
    if (fsm->is_open && !fsm->is_over) {
        tell_state(fsm);
        fsm->is_over = fsm->reported == LEASE_LOST;
        holds_turn(fsm);
        if (fsm->is_over) {
            holds_report(fsm, fsm->why[0] != '\0' ? fsm->why
                                                  : "the lease has run out");
            operations_end(fsm, true);
            session_fsm_leave(fsm, now);
        } else {
            session_fsm_beat(fsm);
            operations_turn(fsm);
        }
    }
    tell_news(fsm);
    return left_ns(fsm, now);
}

/* --- The machine ---------------------------------------------------------- */

static void lost_connection(void *data)
{
    operations_ask_again(data);
}

void session_fsm_enter(struct session_fsm *fsm, struct lease_clock now)
{
    fsm->conn->now = now;
    cluster_conn_touch(&fsm->member);
}

void session_fsm_init(struct session_fsm *fsm, struct cluster_conn *conn)
{
    *fsm = (struct session_fsm){.conn = conn, .reported = LEASE_HELD};
    fsm->member.hooks = (struct cluster_conn_hooks){
        .turn = session_fsm_turn,
        .push = session_fsm_pushed,
        .lost = lost_connection,
        .ended = refused_session,
        .noticed = session_fsm_noticed,
        .data = fsm};
    cluster_conn_join(conn, &fsm->member);
    fsm->keep.member = &fsm->member;
    fsm->keep.data = fsm;
    fsm->keep.done = session_fsm_kept;
    fsm->keep.is_read = fsm->keep.is_urgent = true;
    /* KEEP names session and secret, so it does not wait for an ATTACH. */
    fsm->keep.is_apart = true;
    holds_listing(fsm);
    request_numbers_init(&fsm->numbers);
    list_init(&fsm->acts);
    list_init(&fsm->changes);
    list_init(&fsm->holds);
    list_init(&fsm->events);
    hook_queue_init(&fsm->hooks);
    lease_init(&fsm->lease);
}

void session_fsm_leave(struct session_fsm *fsm, struct lease_clock now)
{
    client_request_cancel(fsm->conn, &fsm->keep);
    client_request_cancel(fsm->conn, &fsm->list);
    operations_end(fsm, false);
    cluster_conn_leave(&fsm->member, now);
}

void session_fsm_done(struct session_fsm *fsm)
{
    end_lease(fsm);
    /* Before the holds, which conversions refer to. */
    operations_end(fsm, false);
    LIST_FOR_SAFE (struct client_act, act, &fsm->acts, in_machine) {
        session_fsm_act_free(act);
    }
    LIST_FOR_SAFE (struct hasp_hold, hold, &fsm->holds, in_machine) {
        client_hold_free(hold);
    }
    struct event_node *event;
    while ((event = session_fsm_take_event(fsm)) != NULL) {
        free(event);
    }
    hook_queue_done(&fsm->hooks);
    client_request_cancel(fsm->conn, &fsm->keep);
    client_request_cancel(fsm->conn, &fsm->list);
    query_done(&fsm->keep.query);
    query_done(&fsm->list.query);
    request_numbers_done(&fsm->numbers);
    cluster_conn_part(&fsm->member);
}
