/* SPDX-License-Identifier: MIT */

/* A session: opening, heartbeats, what is lost, events, closing. */

#include "client/machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/number.h"
#include "base/sha.h"
#include "base/units.h"
#include "client/reply.h"

/* Of events that the session has no part in, so that nobody bounds them. */
#define TOLD_MAX 64

/* --- Events --------------------------------------------------------------- */

static bool is_from_others(enum hasp_event_kind kind)
{
    return kind == HASP_EVENT_PLEASE || kind == HASP_EVENT_NOTICE;
}

struct event_node *machine_take_event(struct machine *machine)
{
    struct event_node *node = LIST_FIRST(&machine->events, struct event_node,
                                         in_machine);
    if (node != NULL) {
        list_remove(&node->in_machine);
        machine->told_count -= is_from_others(node->event.kind);
    }
    return node;
}

static void copy_text(char *out, size_t size, struct bytes text)
{
    size_t count = text.size < size - 1 ? text.size : size - 1;
    if (count > 0) {
        memcpy(out, text.data, count);
    }
    out[count] = '\0';
}

void machine_add_event(struct machine *machine, enum hasp_event_kind kind,
                       uint64_t token, struct bytes name, struct bytes text)
{
    if (is_from_others(kind) && machine->told_count >= TOLD_MAX) {
        return;
    }
    struct event_node *node = calloc(1, sizeof *node);
    if (node == NULL) {
        return; /* hasp_guard() tells it, too. */
    }
    node->event.kind = kind;
    node->event.token = token;
    copy_text(node->event.name, sizeof node->event.name, name);
    copy_text(node->event.text, sizeof node->event.text, text);
    machine->told_count += is_from_others(kind);
    list_push_back(&machine->events, &node->in_machine);
}

static void tell_news(struct machine *machine)
{
    if (machine->news != NULL && !list_is_empty(&machine->events)) {
        machine->news(machine);
    }
}

/* Takes a push: ["lock", "please" or "breaking", {lock, session, token, index,
 * message}] or ["lock", "answer", {session, owner, index, wait, tokens}]. */
static void pushed(void *data, const struct resp_reply *reply)
{
    struct machine *machine = data;
    struct bytes kind = reply->value[2].bytes;
    if (bytes_is_word(kind, "PLEASE") || bytes_is_word(kind, "BREAKING")) {
        machine_add_event(
            machine, HASP_EVENT_PLEASE, reply_number(reply, 3, "token"),
            reply_text(reply, 3, "lock"), reply_text(reply, 3, "message"));
    } else if (bytes_is_word(kind, "ANSWER")) {
        changes_pushed(machine, reply);
    }
}

static void noticed(void *data, const char *text)
{
    struct machine *machine = data;
    if (machine->is_open) {
        machine_add_event(machine, HASP_EVENT_NOTICE, 0, bytes_of(NULL, 0),
                          bytes_of_text(text));
    }
}

static void tell_state(struct machine *machine)
{
    static const struct {
        enum hasp_event_kind kind;
        const char *text;
    } events[] = {
        [LEASE_HELD] = {HASP_EVENT_SAFE, "the lease is renewed"},
        [LEASE_JEOPARDY] = {HASP_EVENT_JEOPARDY, "no answer for too long"},
        [LEASE_LOST] = {HASP_EVENT_LOST, "the lease has run out"},
    };
    enum lease_state state = lease_check(&machine->lease, machine->asker->now);
    if (state == machine->told) {
        return;
    }
    const char *text = events[state].text;
    if (state != LEASE_HELD && machine->why[0] != '\0') {
        text = machine->why;
    }
    machine->told = state;
    machine_add_event(machine, events[state].kind, 0, bytes_of(NULL, 0),
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

/* Nothing is believed of the session any more. */
static void end_lease(struct machine *machine)
{
    lease_refused(&machine->lease);
    if (machine->is_endless) {
        machine->is_endless = false;
        known_cluster_endless(machine->asker->known, -1);
    }
}

/* The cluster says that the session has ended: after this no hold may be found
 * held. */
static void lose(struct machine *machine, const char *code, const char *why)
{
    end_lease(machine);
    machine->is_refused = true;
    snprintf(machine->why, sizeof machine->why, "%s %.440s", code, why);
}

int machine_error(struct machine *machine, const struct asking_end *end,
                  char why[HASP_WHY_SIZE])
{
    if (end->error == HASP_EREPLY) {
        int error = of_word(end->code);
        snprintf(why, HASP_WHY_SIZE, "%s: %.470s", end->code, end->why);
        if (error == HASP_ELOST && machine->is_open) {
            lose(machine, end->code, end->why);
        }
        return error;
    }
    snprintf(why, HASP_WHY_SIZE, "%s",
             end->why[0] != '\0' ? end->why : hasp_strerror(end->error));
    return end->error == HASP_ETIMEDOUT ? HASP_EUNKNOWN : end->error;
}

static void refused_session(void *data, const char *code, const char *why)
{
    struct machine *machine = data;
    if (of_word(code) == HASP_ELOST) {
        lose(machine, code, why);
    }
}

/* --- Opening and closing -------------------------------------------------- */

/* An OPEN or a CLOSE, which has no number and belongs to no change. */
struct act {
    struct asking ask;
    struct machine *machine;
    struct list in_machine;
    struct client_call *call; /* NULL: its caller has been told. */
    /* The caller of an OPEN is told then, in CLOCK_MONOTONIC; UINT64_MAX: at
     * the end of 'ask'. */
    uint64_t told_by_ns;
    struct credentials credentials;
};

static void act_free(struct act *act)
{
    asking_cancel(act->machine->asker, &act->ask);
    list_remove(&act->in_machine);
    query_done(&act->ask.query);
    free(act);
}

static void end_act(struct act *act, int error)
{
    struct client_call *call = act->call;
    act_free(act);
    call->error = error;
    call->done(call);
}

static struct act *act_new(struct machine *machine, const char *command,
                           asking_done_fn *done, struct client_call *call)
{
    struct act *act = calloc(1, sizeof *act);
    if (act != NULL) {
        act->machine = machine;
        list_push_back(&machine->acts, &act->in_machine);
        act->call = call;
        act->ask.member = &machine->member;
        act->ask.data = act;
        act->ask.done = done;
        act->ask.is_read = true;
        act->told_by_ns = UINT64_MAX;
        act->ask.deadline_ns = machine->asker->now.monotonic_ns +
                               machine->timeout_ms * NS_PER_MS;
        query_begin(&act->ask.query, command);
    }
    return act;
}

/* Renews the lease by the map of OPEN or KEEP FULL; false if the answer is no
 * such map. A session without end has null for its TTL. */
static bool renew(struct machine *machine, const struct asking *ask,
                  const struct resp_reply *reply)
{
    const struct resp_value *ttl = resp_find(reply, 0, "ttl_ms");
    uint64_t ttl_ms = reply_number(reply, 0, "ttl_ms");
    if (ttl != NULL && ttl->type == RESP_NULL) {
        lease_answered_endless(&machine->lease, ask->sent);
        if (!machine->is_endless) {
            machine->is_endless = true;
            known_cluster_endless(machine->asker->known, 1);
        }
        return true;
    }
    if (ttl_ms == 0) {
        return false;
    }
    lease_answered(&machine->lease, ask->sent, ttl_ms,
                   reply_number(reply, 0, "linger_ms"));
    struct lease_clock now = machine->asker->now;
    known_cluster_believe(machine->asker->known,
                          now.boottime_ns +
                              lease_remaining(&machine->lease, now));
    return true;
}

/* Writes a heartbeat, which needs no attachment and so leaves before that. */
static void write_keep(struct machine *machine)
{
    struct query *query = &machine->keep.query;
    query_begin(query, "SESSION.KEEP");
    query_number(query, machine->credentials.session);
    query_text(query, machine->credentials.secret);
    query_text(query, "FULL");
    query_option(query, "AFTER", machine->seen);
}

/* Begins to keep the session. */
static void begin(struct machine *machine)
{
    machine->is_open = true;
    machine->member.is_wanted = true;
    machine->member.open_ms = lease_period_ns(&machine->lease) / NS_PER_MS;
}

static void closed_late(struct asking *ask, const struct asking_end *end)
{
    struct act *act = ask->data;
    struct machine *machine = act->machine;
    if (end->error == 0) {
        asker_set_session(&machine->member, NULL, machine->asker->now);
    }
    act_free(act); /* Else it ends by its lease, if it has one. */
}

/* Closes what a node has opened when nobody waited for it any more: nobody else
 * knows it. */
static void opened_late(struct act *act, const struct asking_end *end)
{
    struct asking *ask = &act->ask;
    struct machine *machine = act->machine;
    uint64_t session = end->error == 0 ? reply_number(end->reply, 0, "id") : 0;
    if (session == 0) {
        act_free(act);
        return;
    }
    act->credentials.session = session;
    asker_adopt_session(&machine->member, &act->credentials);
    ask->is_once = false;
    ask->done = closed_late;
    ask->deadline_ns = machine->asker->now.monotonic_ns +
                       machine->timeout_ms * NS_PER_MS;
    query_begin(&ask->query, "SESSION.CLOSE");
    query_option(&ask->query, "SESSION", session);
    asker_ask(machine->asker, ask, machine->asker->now);
}

/* Tells the caller of an OPEN that its time is over. What has been sent may
 * still be done, so its answer is awaited, for as long as that of any request.
 */
static void tell_late(struct act *act)
{
    struct machine *machine = act->machine;
    struct client_call *call = act->call;
    struct asking_end end = {.code = "", .why = machine->asker->why};
    end.error = asking_judge(machine->asker, &act->ask);
    call->error = machine_error(machine, &end, call->why);
    act->call = NULL;
    act->told_by_ns = UINT64_MAX;
    act->ask.is_once = true;
    if (!act->ask.is_sent) {
        act_free(act);
    }
    call->done(call);
}

static void acts_turn(struct machine *machine)
{
    LIST_FOR_SAFE (struct act, act, &machine->acts, in_machine) {
        if (machine->asker->now.monotonic_ns >= act->told_by_ns) {
            tell_late(act);
        }
    }
}

static uint64_t acts_left_ns(const struct machine *machine,
                             struct lease_clock now)
{
    uint64_t next_ns = UINT64_MAX;
    LIST_FOR (const struct act, act, &machine->acts, in_machine) {
        next_ns = u64_min(next_ns, act->told_by_ns);
    }
    return next_ns == UINT64_MAX        ? next_ns
           : next_ns > now.monotonic_ns ? next_ns - now.monotonic_ns
                                        : 0;
}

bool machine_is_clearing(const struct machine *machine)
{
    LIST_FOR (const struct act, act, &machine->acts, in_machine) {
        if (act->call == NULL) {
            return true;
        }
    }
    return false;
}

static void opened(struct asking *ask, const struct asking_end *end)
{
    struct act *act = ask->data;
    struct machine *machine = act->machine;
    if (act->call == NULL) {
        opened_late(act, end);
        return;
    }
    if (end->error != 0) {
        end_act(act, machine_error(machine, end, act->call->why));
        return;
    }
    if (!renew(machine, ask, end->reply)) {
        snprintf(act->call->why, sizeof act->call->why,
                 "the answer is not what was asked for");
        end_act(act, HASP_EPROTO);
        return;
    }
    if (act->credentials.session == 0) {
        act->credentials.session = reply_number(end->reply, 0, "id");
        asker_adopt_session(&machine->member, &act->credentials);
    }
    machine->credentials = act->credentials;
    begin(machine);
    end_act(act, 0);
}

int machine_open(struct machine *machine, const struct hasp_options *options,
                 const char *name, const uint8_t random[MACHINE_RANDOM_SIZE],
                 struct client_call *call, struct lease_clock now)
{
    uint8_t hash[SHA256_SIZE];
    char proof[2 * SHA256_SIZE + 1];
    machine_enter(machine, now);
    struct act *act = act_new(machine, "SESSION.OPEN", opened, call);
    if (act == NULL) {
        return HASP_ENOMEM;
    }
    act->ask.blocks = true;
    act->told_by_ns = act->ask.deadline_ns;
    act->ask.deadline_ns = UINT64_MAX;
    hex_put(act->credentials.secret, bytes_of(random, MACHINE_RANDOM_SIZE));
    int error = sha256(bytes_of_text(act->credentials.secret), hash);
    if (error != 0) {
        act_free(act);
        return error;
    }
    hex_put(proof, bytes_of(hash, sizeof hash));
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
    query_text(query, "PROOF");
    query_text(query, proof);
    asker_ask(machine->asker, &act->ask, now);
    return 0;
}

int machine_attach(struct machine *machine,
                   const struct credentials *credentials, uint64_t number,
                   struct client_call *call, struct lease_clock now)
{
    machine_enter(machine, now);
    struct act *act = act_new(machine, "SESSION.KEEP", opened, call);
    if (act == NULL) {
        return HASP_ENOMEM;
    }
    query_option(&act->ask.query, "SESSION", credentials->session);
    query_text(&act->ask.query, "FULL");
    act->credentials = *credentials;
    machine->numbers.newest = number;
    asker_set_session(&machine->member, credentials, now);
    asker_ask(machine->asker, &act->ask, now);
    return 0;
}

static void ended(struct asking *ask, const struct asking_end *end)
{
    struct act *act = ask->data;
    int error = end->error == 0
                    ? 0
                    : machine_error(act->machine, end, act->call->why);
    act->machine->member.is_wanted = false;
    end_act(act, error);
}

/* The node has detached it from the connection. */
static void closed(struct asking *ask, const struct asking_end *end)
{
    struct machine *machine = ((struct act *)ask->data)->machine;
    if (end->error == 0) {
        asker_set_session(&machine->member, NULL, machine->asker->now);
    }
    ended(ask, end);
}

static int finish(struct machine *machine, struct act *act,
                  struct client_call *call, struct lease_clock now)
{
    if (act == NULL) {
        return HASP_ENOMEM;
    }
    int error = machine_check(machine, now, call->why);
    machine->is_open = false;
    changes_end(machine, false);
    asking_cancel(machine->asker, &machine->keep);
    asking_cancel(machine->asker, &machine->list);
    if (error != 0) {
        end_act(act, error);
    } else {
        asker_ask(machine->asker, &act->ask, now);
    }
    return 0;
}

int machine_detach(struct machine *machine, struct client_call *call,
                   struct lease_clock now)
{
    machine_enter(machine, now);
    struct act *act = act_new(machine, "SESSION.KEEP", ended, call);
    if (act != NULL) {
        query_option(&act->ask.query, "SESSION", machine->credentials.session);
        query_text(&act->ask.query, "FULL");
    }
    return finish(machine, act, call, now);
}

int machine_close(struct machine *machine, struct client_call *call,
                  struct lease_clock now)
{
    machine_enter(machine, now);
    struct act *act = act_new(machine, "SESSION.CLOSE", closed, call);
    if (act != NULL) {
        act->ask.blocks = true;
        query_option(&act->ask.query, "SESSION", machine->credentials.session);
    }
    int error = finish(machine, act, call, now);
    end_lease(machine);
    return error;
}

/* --- Heartbeats ----------------------------------------------------------- */

/* Takes the answer to a heartbeat. EXPIRED and NOSESSION lose the lease at
 * once. BLACKLISTED does not: the session may finish what it does, but its
 * lease is renewed no more. */
static void kept(struct asking *ask, const struct asking_end *end)
{
    struct machine *machine = ask->data;
    if (end->error == 0 && renew(machine, ask, end->reply)) {
        machine->why[0] = '\0';
        holds_notices(machine, end->reply);
        return;
    }
    if (end->error == 0) { /* A lease is what each node answers. */
        asker_drop(machine->asker, "does not speak the protocol",
                   machine->asker->now);
        return;
    }
    snprintf(machine->why, sizeof machine->why, "%s%s%.440s", end->code,
             end->code[0] != '\0' ? " " : "", end->why);
    if (end->error == HASP_EREPLY) {
        int error = of_word(end->code);
        machine->is_refused |= error == HASP_ELOST ||
                               error == HASP_EBLACKLISTED;
        if (error == HASP_ELOST) {
            end_lease(machine);
        }
    }
}

static void beat(struct machine *machine)
{
    struct lease_clock now = machine->asker->now;
    struct lease *lease = &machine->lease;
    if (machine->keep.is_asked || lease_next_beat(lease, now) != 0) {
        return;
    }
    lease_beat_sent(lease, now);
    if (machine->alive_ms != 0 && now.boottime_ns >= machine->alive_until_ns) {
        snprintf(machine->why, sizeof machine->why,
                 "no progress was reported in time (hasp_alive)");
        return;
    }
    /* A node has this long from each sending; a heartbeat that waits for a
     * connection accuses no node. */
    bool is_behind = asker_is_awaiting(machine->asker);
    uint64_t patience_ns = lease_period_ns(lease) * (is_behind ? 2 : 1);
    write_keep(machine);
    machine->keep.attempt_ms = patience_ns / NS_PER_MS;
    machine->keep.deadline_ns = now.monotonic_ns + 2 * patience_ns;
    asker_ask(machine->asker, &machine->keep, now);
}

void machine_alive(struct machine *machine, struct lease_clock now)
{
    machine->alive_until_ns = now.boottime_ns + machine->alive_ms * NS_PER_MS;
}

int machine_check(struct machine *machine, struct lease_clock now,
                  char why[HASP_WHY_SIZE])
{
    if (lease_check(&machine->lease, now) != LEASE_LOST) {
        return 0;
    }
    snprintf(why, HASP_WHY_SIZE,
             "the session is lost%s%.440s; open another one",
             machine->why[0] != '\0' ? ": " : "", machine->why);
    return HASP_ELOST;
}

/* --- Turns ---------------------------------------------------------------- */

static uint64_t left_ns(struct machine *machine, struct lease_clock now)
{
    struct lease sure = machine->lease;
    if (!machine->is_open || machine->is_over) {
        return acts_left_ns(machine, now);
    }
    enum lease_state state = lease_check(&machine->lease, now);
    if (state != machine->told) {
        return 0;
    }
    if (state == LEASE_JEOPARDY) {
        sure.linger_ns = 0; /* Until it is lost. */
    }
    uint64_t left_ns = lease_remaining(&sure, now);
    left_ns = u64_min(left_ns, holds_left_ns(machine, now));
    if (!machine->keep.is_asked) {
        left_ns = u64_min(left_ns, lease_next_beat(&machine->lease, now));
    }
    uint64_t next_ns = changes_next_ns(machine);
    if (next_ns == UINT64_MAX) {
        return left_ns;
    }
    return u64_min(left_ns,
                   next_ns > now.monotonic_ns ? next_ns - now.monotonic_ns : 0);
}

static uint64_t turn(void *data, struct lease_clock now)
{
    struct machine *machine = data;
    acts_turn(machine);
    if (machine->is_open && !machine->is_over) {
        tell_state(machine);
        machine->is_over = machine->told == LEASE_LOST;
        holds_turn(machine);
        if (machine->is_over) {
            changes_end(machine, true);
            machine_leave(machine, now);
        } else {
            beat(machine);
            changes_turn(machine);
        }
    }
    tell_news(machine);
    return left_ns(machine, now);
}

/* --- The machine ---------------------------------------------------------- */

static void lost_connection(void *data)
{
    changes_ask_again(data);
}

void machine_enter(struct machine *machine, struct lease_clock now)
{
    machine->asker->now = now;
    asker_touch(&machine->member);
}

void machine_init(struct machine *machine, struct asker *asker)
{
    *machine = (struct machine){.asker = asker, .told = LEASE_HELD};
    machine->member.hooks = (struct asker_hooks){.turn = turn,
                                                 .push = pushed,
                                                 .lost = lost_connection,
                                                 .ended = refused_session,
                                                 .noticed = noticed,
                                                 .data = machine};
    asker_join(asker, &machine->member);
    machine->keep.member = &machine->member;
    machine->keep.data = machine;
    machine->keep.done = kept;
    machine->keep.is_read = machine->keep.is_urgent = true;
    machine->keep.is_apart = true;
    holds_listing(machine);
    numbers_init(&machine->numbers);
    list_init(&machine->acts);
    list_init(&machine->changes);
    list_init(&machine->holds);
    list_init(&machine->events);
    lease_init(&machine->lease);
}

void machine_leave(struct machine *machine, struct lease_clock now)
{
    asking_cancel(machine->asker, &machine->keep);
    asking_cancel(machine->asker, &machine->list);
    changes_end(machine, false);
    asker_leave(&machine->member, now);
}

void machine_done(struct machine *machine)
{
    end_lease(machine);
    changes_end(machine, false);
    LIST_FOR_SAFE (struct act, act, &machine->acts, in_machine) {
        act_free(act);
    }
    LIST_FOR_SAFE (struct hasp_hold, hold, &machine->holds, in_machine) {
        client_hold_free(hold);
    }
    struct event_node *event;
    while ((event = machine_take_event(machine)) != NULL) {
        free(event);
    }
    asking_cancel(machine->asker, &machine->keep);
    asking_cancel(machine->asker, &machine->list);
    query_done(&machine->keep.query);
    query_done(&machine->list.query);
    numbers_done(&machine->numbers);
    asker_part(&machine->member);
}
