/* SPDX-License-Identifier: MIT */

/* Changes of locks: how each is written, the same again under the same number
 * after a lost answer, what the answer means, and what becomes of those that
 * nobody waits for any more. machine.h has the drawing. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/number.h"
#include "base/units.h"
#include "client/machine.h"
#include "client/reply.h"

/* How often, at least, a wait is asked for again, keeping its place: its push
 * may be lost if its node skips to a snapshot. */
#define LOOK_MS 15000
/* How long a wait of a session without end lasts, counted anew each time it is
 * asked for: otherwise nobody would end the wait of a client that has died. */
#define ENDLESS_WAIT_MS (UINT64_C(4) * LOOK_MS)
/* How long to wait for the push beyond the wait itself. */
#define PUSH_MS 1000
/* How long an interrupted call may take to clear up what it began; after that
 * this goes on in the background. */
#define WITHDRAW_MS 500
/* How often it is looked whether the last request of an owner is settled. */
#define BEHIND_MS 50
/* How long the question takes at most of how much of a limited hold is left. */
#define SHOW_MS 2000

enum change_kind {
    CHANGE_ACQUIRE,
    CHANGE_CONVERT,
    CHANGE_RELEASE,
    CHANGE_RESUME,
    CHANGE_QUERY
};

enum change_step {
    STEP_ASK,
    STEP_PARKED,
    STEP_WITHDRAW,
    STEP_SHOW,
    STEP_SETTLE
};

struct change {
    struct list in_machine;
    struct machine *machine;
    struct client_call *call; /* NULL if nobody waits for it. */
    enum change_kind kind;
    enum change_step step;
    struct asking ask;
    struct owner *owner; /* NULL if it has no number, or the hold has it. */
    uint64_t number;
    char **names;
    size_t count;
    uint64_t token; /* The token of a release; 0 for any. */
    struct hasp_acquire_options options;
    char *value;
    struct hasp_hold *hold; /* ACQUIRE fills it; CONVERT has the caller's. */
    uint64_t *tokens;
    uint64_t end_ns;  /* When the wait is over; UINT64_MAX for never. */
    uint64_t look_ns; /* How long it stays PARKED. */
    bool is_placed;   /* It has been queued, ... */
    uint64_t place;   /* ... at this place: the entry in the log. */
    uint64_t hint; /* The place whose end was pushed before the answer came. */
    bool is_interrupted;
    struct lease_clock first_sent;
};

static asking_done_fn answered;

/* --- Words ---------------------------------------------------------------- */

/* How long the wait still lasts; 0 once it is over, which asks for the outcome
 * and gives the place up. */
static uint64_t wait_left_ms(const struct change *change, uint64_t now_ns)
{
    if (change->step == STEP_WITHDRAW || change->step == STEP_SETTLE) {
        return 0;
    }
    if (change->end_ns == UINT64_MAX) {
        return change->machine->lease.is_endless ? ENDLESS_WAIT_MS
                                                 : HASP_FOREVER;
    }
    return now_ns < change->end_ns
               ? (change->end_ns - now_ns - 1) / NS_PER_MS + 1
               : 0;
}

static void write_names(struct change *change, const char *one,
                        const char *many)
{
    query_begin(&change->ask.query, change->count == 1 ? one : many);
    if (change->count > 1) {
        query_number(&change->ask.query, change->count);
    }
    for (size_t i = 0; i < change->count; i++) {
        query_text(&change->ask.query, change->names[i]);
    }
}

static void write_acquire(struct change *change)
{
    const struct hasp_acquire_options *options = &change->options;
    struct query *query = &change->ask.query;
    write_names(change, "LOCK.ACQUIRE", "LOCK.MACQUIRE");
    if (options->mode == HASP_SHARED) {
        query_text(query, "SHARED");
    }
    query_option(query, "SLOTS", options->slots);
    if (change->value != NULL) {
        query_text(query, "VALUE");
        query_text(query, change->value);
    }
    query_option(query, "DELAY", options->delay_ms);
    query_option(query, "HOLD", options->hold_ms);
    if (options->is_barging) {
        query_text(query, "BARGE");
    }
}

static void write_wait(struct query *query, uint64_t wait_ms)
{
    if (wait_ms == 0) {
        return;
    }
    query_text(query, "WAIT");
    if (wait_ms == HASP_FOREVER) {
        query_text(query, "FOREVER");
    } else {
        query_number(query, wait_ms);
    }
    query_text(query, "PUSH");
}

/* Writes whose request it is, and its number. */
static void write_number(const struct change *change, struct query *query)
{
    struct machine *machine = change->machine;
    query_option(query, "SESSION", machine->credentials.session);
    numbers_write(&machine->numbers, change->owner, change->number, query);
}

static void write_change(struct asking *ask, struct lease_clock now)
{
    struct change *change = ask->data;
    switch (change->kind) {
    case CHANGE_ACQUIRE:
        write_acquire(change);
        write_wait(&ask->query, wait_left_ms(change, now.monotonic_ns));
        break;
    case CHANGE_CONVERT:
        query_begin(&ask->query, "LOCK.CONVERT");
        query_text(&ask->query, change->names[0]);
        query_text(&ask->query, change->options.mode == HASP_SHARED
                                    ? "SHARED"
                                    : "EXCLUSIVE");
        write_wait(&ask->query, wait_left_ms(change, now.monotonic_ns));
        break;
    case CHANGE_RELEASE:
        write_names(change, "LOCK.RELEASE", "LOCK.MRELEASE");
        query_option(&ask->query, "TOKEN", change->token);
        break;
    case CHANGE_RESUME:
    case CHANGE_QUERY:
        return; /* It was written before. */
    }
    write_number(change, &ask->query);
}

/* --- Beginning and ending ------------------------------------------------- */

static void change_free(struct change *change)
{
    asking_cancel(change->machine->asker, &change->ask);
    list_remove(&change->in_machine);
    query_done(&change->ask.query);
    if (change->number != 0) {
        numbers_end(&change->machine->numbers, change->number);
    }
    if (change->owner != NULL) {
        owner_put(change->owner);
    }
    if (change->kind != CHANGE_CONVERT && change->hold != NULL) {
        client_hold_free(change->hold);
    }
    for (size_t i = 0; change->names != NULL && i < change->count; i++) {
        free(change->names[i]);
    }
    free(change->names);
    free(change->tokens);
    free(change->value);
    free(change);
}

static void free_room(struct change *room)
{
    free(room->names);
    free(room->tokens);
    free(room);
}

static struct change *make_room(size_t count)
{
    struct change *room = calloc(1, sizeof *room);
    if (room == NULL) {
        return NULL;
    }
    room->names = calloc(count + 1, sizeof *room->names);
    room->tokens = calloc(count + 1, sizeof *room->tokens);
    if (room->names == NULL || room->tokens == NULL) {
        free_room(room);
        return NULL;
    }
    return room;
}

struct change *change_room(struct machine *machine, size_t count)
{
    struct change *room = make_room(count);
    if (room != NULL && numbers_keep(&machine->numbers) != 0) {
        free_room(room);
        return NULL;
    }
    return room;
}

void change_room_free(struct machine *machine, struct change *room)
{
    numbers_give_back(&machine->numbers);
    free_room(room);
}

/* Begins a change for which there is room. */
static void enter(struct change *change, struct machine *machine,
                  enum change_kind kind, size_t count, struct client_call *call)
{
    change->machine = machine;
    change->kind = kind;
    change->count = count;
    change->call = call;
    change->end_ns = machine->asker->now.monotonic_ns;
    change->first_sent = machine->asker->now;
    change->ask.member = &machine->member;
    change->ask.data = change;
    change->ask.done = answered;
    change->ask.is_repeatable = true;
    list_push_back(&machine->changes, &change->in_machine);
}

static struct change *change_new(struct machine *machine, enum change_kind kind,
                                 const char *const *names, size_t count,
                                 struct client_call *call)
{
    struct change *change = make_room(count);
    bool is_ok = true;
    if (change == NULL) {
        return NULL;
    }
    enter(change, machine, kind, count, call);
    for (size_t i = 0; is_ok && i < count; i++) {
        change->names[i] = strdup(names[i]);
        is_ok = change->names[i] != NULL;
    }
    if (!is_ok) {
        change_free(change);
        return NULL;
    }
    return change;
}

static uint64_t after_ms(const struct machine *machine, uint64_t time_ms)
{
    return machine->asker->now.monotonic_ns + time_ms * NS_PER_MS;
}

/* The cluster has not said yet what became of a request of this owner, who has
 * a name, and for which nobody waits: a grant of it is to be given back, and
 * must not be taken for that of the owner's next request, nor with its terms.
 */
static bool is_behind(const struct change *change)
{
    LIST_FOR (const struct change, other, &change->machine->changes,
              in_machine) {
        if (other != change && other->step == STEP_SETTLE &&
            other->owner == change->owner) {
            return true;
        }
    }
    return false;
}

static bool has_name(const struct change *change, const char *name)
{
    for (size_t i = 0; i < change->count; i++) {
        if (strcmp(change->names[i], name) == 0) {
            return true;
        }
    }
    return false;
}

/* True if another call asks for one of these locks, for the same owner: the
 * cluster would take the waits of both for one, with one grant. */
static bool has_rival(const struct change *change)
{
    LIST_FOR (const struct change, other, &change->machine->changes,
              in_machine) {
        bool asks = other->kind == CHANGE_ACQUIRE ||
                    other->kind == CHANGE_CONVERT;
        for (size_t i = 0; asks && other->call != NULL && i < other->count;
             i++) {
            if (other != change && other->owner == change->owner &&
                has_name(change, other->names[i])) {
                return true;
            }
        }
    }
    return false;
}

/* Refuses the call, and frees its change. */
static int refuse_rival(struct change *change, struct client_call *call)
{
    call->error = HASP_EINVALID;
    snprintf(call->why, sizeof call->why,
             "the owner '%s' is asking for this lock just now: it stands for "
             "one thread of control",
             change->owner->tag);
    change_free(change);
    return HASP_EINVALID;
}

/* Gives the change its number and sends it; frees it on an error. */
static int begin(struct change *change, uint64_t deadline_ns)
{
    int error = numbers_begin(&change->machine->numbers, &change->number);
    if (error != 0) {
        change_free(change);
        return error;
    }
    write_change(&change->ask, change->machine->asker->now);
    change->ask.again = write_change;
    change->ask.deadline_ns = deadline_ns;
    change->call->change = change;
    if (change->kind != CHANGE_RELEASE && is_behind(change)) {
        change->step = STEP_PARKED;
        change->look_ns = after_ms(change->machine, BEHIND_MS);
        return 0;
    }
    asker_ask(change->machine->asker, &change->ask,
              change->machine->asker->now);
    return 0;
}

static void ask_anew(struct change *change, enum change_step step,
                     uint64_t deadline_ns)
{
    struct machine *machine = change->machine;
    change->step = step;
    change->hint = 0;
    asking_cancel(machine->asker, &change->ask);
    write_change(&change->ask, machine->asker->now);
    change->ask.deadline_ns = deadline_ns;
    asker_ask(machine->asker, &change->ask, machine->asker->now);
}

static uint64_t limit_ns(const struct change *change)
{
    uint64_t timeout_ns = change->machine->timeout_ms * NS_PER_MS;
    return change->end_ns > UINT64_MAX - timeout_ns
               ? UINT64_MAX
               : change->end_ns + timeout_ns;
}

static void set_wait(struct change *change, uint64_t wait_ms)
{
    uint64_t now_ns = change->machine->asker->now.monotonic_ns;
    bool is_endless = wait_ms >= (UINT64_MAX - now_ns) / NS_PER_MS;
    change->end_ns = is_endless ? UINT64_MAX : now_ns + wait_ms * NS_PER_MS;
}

int machine_acquire(struct machine *machine, const char *const *names,
                    size_t count, const struct hasp_acquire_options *options,
                    struct client_call *call, struct lease_clock now)
{
    machine_enter(machine, now);
    struct change *change = change_new(machine, CHANGE_ACQUIRE, names, count,
                                       call);
    if (change == NULL) {
        return HASP_ENOMEM;
    }
    change->options = *options;
    change->hold = client_hold_new(machine, count);
    change->owner = owner_take(&machine->numbers, options->owner);
    if (options->value != NULL) {
        change->value = strdup(options->value);
    }
    if (change->hold == NULL || change->owner == NULL ||
        (options->value != NULL && change->value == NULL)) {
        change_free(change);
        return HASP_ENOMEM;
    }
    if (has_rival(change)) {
        return refuse_rival(change, call);
    }
    set_wait(change, options->wait_ms);
    return begin(change, limit_ns(change));
}

int machine_convert(struct machine *machine, struct hasp_hold *hold,
                    const struct hasp_acquire_options *options,
                    struct client_call *call, struct lease_clock now)
{
    const char *name = hold->held[0].name;
    machine_enter(machine, now);
    CHECK(hold->count == 1);
    struct change *change = change_new(machine, CHANGE_CONVERT, &name, 1, call);
    if (change == NULL) {
        return HASP_ENOMEM;
    }
    change->options = *options;
    change->options.value = NULL;
    change->hold = hold;
    change->owner = hold->owner;
    change->owner->use_count++;
    if (has_rival(change)) {
        return refuse_rival(change, call);
    }
    set_wait(change, options->mode == HASP_SHARED ? 0 : options->wait_ms);
    return begin(change, limit_ns(change));
}

int machine_release(struct machine *machine, struct hasp_hold *hold,
                    struct client_call *call, struct lease_clock now)
{
    struct change *change = hold->release;
    machine_enter(machine, now);
    hold->release = NULL;
    enter(change, machine, CHANGE_RELEASE, hold->count, call);
    change->owner = hold->owner;
    for (size_t i = 0; i < hold->count; i++) {
        change->names[i] = hold->held[i].name;
        hold->held[i].name = NULL;
    }
    if (hold->count == 1 && hold->held[0].is_token_sure) {
        change->token = hold->held[0].token;
    }
    client_hold_free(hold);
    /* The number of the release takes the place of this one. */
    numbers_give_back(&machine->numbers);
    int error = begin(change, limit_ns(change));
    CHECK(error == 0);
    return error;
}

int machine_query(struct machine *machine, struct query *query, bool is_change,
                  struct client_call *call, struct lease_clock now)
{
    machine_enter(machine, now);
    struct change *change = change_new(machine, CHANGE_QUERY, NULL, 0, call);
    if (change == NULL) {
        return HASP_ENOMEM;
    }
    if (is_change) {
        change->owner = owner_take(&machine->numbers, "");
        if (change->owner == NULL ||
            numbers_begin(&machine->numbers, &change->number) != 0) {
            change_free(change);
            return HASP_ENOMEM;
        }
        write_number(change, query);
    }
    change->ask.query = *query;
    *query = (struct query){0};
    change->ask.is_read = !is_change;
    change->ask.deadline_ns = limit_ns(change);
    call->change = change;
    asker_ask(machine->asker, &change->ask, now);
    return 0;
}

static void show(struct change *change)
{
    struct machine *machine = change->machine;
    change->step = STEP_SHOW;
    query_begin(&change->ask.query, "LOCK.SHOW");
    query_text(&change->ask.query, change->names[0]);
    change->ask.again = NULL;
    change->ask.is_read = true;
    change->ask.deadline_ns = after_ms(machine, SHOW_MS);
    asker_ask(machine->asker, &change->ask, machine->asker->now);
}

int machine_resume(struct machine *machine, const char *name, const char *owner,
                   struct client_call *call, struct lease_clock now)
{
    machine_enter(machine, now);
    struct change *change = change_new(machine, CHANGE_RESUME, &name, 1, call);
    if (change == NULL) {
        return HASP_ENOMEM;
    }
    change->hold = client_hold_new(machine, 1);
    change->owner = owner_take(&machine->numbers, owner);
    if (change->hold == NULL || change->owner == NULL) {
        change_free(change);
        return HASP_ENOMEM;
    }
    call->change = change;
    show(change);
    return 0;
}

/* --- Answers -------------------------------------------------------------- */

/* Tells the caller the result; nobody waits from now on. 'why' may be the
 * call's own. */
static void tell(struct change *change, int error, const char *why)
{
    struct client_call *call = change->call;
    if (call == NULL) {
        return;
    }
    change->call = NULL;
    call->change = NULL;
    call->error = error;
    if (why != call->why) {
        size_t size = strnlen(why, sizeof call->why - 1);
        memcpy(call->why, why, size);
        call->why[size] = '\0';
    }
    call->done(call);
}

static void end_change(struct change *change, int error, const char *why)
{
    tell(change, error, why);
    change_free(change);
}

/* True if 'error' leaves open whether it was, or will be, done. After the last
 * four nothing was done by the attempts that count here, but an earlier one
 * may have been. */
static bool is_open(int error)
{
    return error == HASP_EUNKNOWN || error == HASP_EPROTO ||
           error == HASP_ECONNECT || error == HASP_ECERT ||
           error == HASP_ENOTLEADER || error == HASP_EBUSY;
}

/* Nobody waits for the change any more, so it is asked for until there is an
 * answer. */
static void settle(struct change *change, int error, const char *why)
{
    if (change->kind == CHANGE_CONVERT) {
        change->hold = NULL; /* The hold is the caller's, who may release it. */
        holds_converted(change->machine, change->owner, change->names[0], 0);
    }
    tell(change, error, why);
    change->ask.was_sent = true;
    ask_anew(change, STEP_SETTLE, UINT64_MAX);
}

/* Turns an ACQUIRE that was granted into its RELEASE. */
static void turn_into_release(struct change *change)
{
    struct numbers *numbers = &change->machine->numbers;
    client_hold_free(change->hold);
    change->hold = NULL;
    change->kind = CHANGE_RELEASE;
    change->token = change->count == 1 ? change->tokens[0] : 0;
    numbers_end(numbers, change->number);
    /* The number that has just ended leaves room for this one. */
    int error = numbers_begin(numbers, &change->number);
    CHECK(error == 0);
    ask_anew(change, STEP_SETTLE, UINT64_MAX);
}

/* Reads "token", "[token, ...]" or nil. */
static int read_result(struct change *change, const struct resp_reply *reply,
                       bool *ret_is_granted)
{
    const struct resp_value *value = reply->value;
    *ret_is_granted = false;
    if (change->kind == CHANGE_RELEASE || change->kind == CHANGE_QUERY) {
        if (value->type != RESP_INTEGER) {
            return HASP_EPROTO;
        }
        if (change->call != NULL) {
            change->call->number = (uint64_t)value->integer;
        }
        /* For one lock the number says what is left of the hold; for several,
         * how many were released. */
        return change->count > 1 && (uint64_t)value->integer < change->count
                   ? HASP_ENOTHELD
                   : 0;
    }
    if (value->type == RESP_NULL) {
        return 0;
    }
    bool is_list = value->type == RESP_ARRAY;
    if ((is_list ? value->count : 1) != change->count) {
        return HASP_EPROTO;
    }
    for (size_t i = 0; i < change->count; i++) {
        const struct resp_value *token = is_list ? &value[i + 1] : value;
        if (token->type != RESP_INTEGER || token->integer <= 0) {
            return HASP_EPROTO;
        }
        change->tokens[i] = (uint64_t)token->integer;
    }
    *ret_is_granted = true;
    return 0;
}

/* True for the answer "QUEUED place". */
static bool is_queued(struct change *change, const struct resp_reply *reply)
{
    struct bytes word = BYTES_LITERAL("QUEUED ");
    struct bytes text = reply->value[0].bytes;
    return reply->value[0].type == RESP_SIMPLE &&
           bytes_has_prefix(text, word) &&
           bytes_to_u64(bytes_of(text.data + word.size, text.size - word.size),
                        &change->place);
}

static void park(struct change *change)
{
    struct machine *machine = change->machine;
    change->is_placed = true;
    change->ask.was_sent = true;
    if (change->hint == change->place) {
        ask_anew(change, STEP_ASK, limit_ns(change));
        return;
    }
    change->step = STEP_PARKED;
    change->look_ns = after_ms(machine, LOOK_MS);
    if (change->end_ns < change->look_ns - PUSH_MS * NS_PER_MS) {
        change->look_ns = change->end_ns + PUSH_MS * NS_PER_MS;
    }
}

/* Hands the hold over to the caller. */
static void hand_over(struct change *change)
{
    struct hasp_hold *hold = change->hold;
    if (lease_check(&change->machine->lease, change->machine->asker->now) ==
        LEASE_LOST) {
        end_change(change, HASP_ELOST, "the session was lost while it waited");
        return;
    }
    hold->owner = change->owner;
    for (size_t i = 0; i < change->count; i++) {
        hold->held[i].name = change->names[i];
        hold->held[i].token = change->tokens[i];
        change->names[i] = NULL;
    }
    change->owner = NULL;
    change->hold = NULL;
    change->call->hold = hold;
    client_hold_begin(hold);
    end_change(change, 0, "");
}

/* The limit of a hold is counted from before its request was sent, which is
 * safe. Where it was waited for, that may be long ago; then the cluster is
 * asked how much is left. With several locks the first stands for all: one
 * entry of the log granted them. */
static void granted(struct change *change)
{
    struct hasp_hold *hold = change->hold;
    if (change->kind == CHANGE_CONVERT) {
        holds_converted(change->machine, change->owner, change->names[0],
                        change->tokens[0]);
        end_change(change, 0, "");
        return;
    }
    hold->limit_ms = hold->left_ms = change->options.hold_ms;
    hold->limit_sent = change->first_sent;
    if (hold->limit_ms == 0 || change->options.wait_ms == 0) {
        hand_over(change);
        return;
    }
    show(change);
}

/* Finds this session's hold in the answer to LOCK.SHOW, and how much of its
 * limit is left. */
static bool shown(struct change *change, const struct resp_reply *reply)
{
    struct hasp_hold *hold = change->hold;
    uint32_t at = 0;
    uint32_t count = reply_array(reply, 0, "holders", &at);
    for (uint32_t i = 0; i < count; i++) {
        if (reply_number(reply, at, "session") ==
                change->machine->credentials.session &&
            bytes_equal(reply_text(reply, at, "owner"),
                        bytes_of_text(change->owner->tag))) {
            uint64_t left_ms = reply_number(reply, at, "hold_left_ms");
            if (change->kind == CHANGE_RESUME) {
                change->tokens[0] = reply_number(reply, at, "token");
                hold->limit_ms = left_ms;
            }
            if (left_ms > 0) {
                hold->left_ms = u64_min(left_ms, hold->limit_ms);
                hold->limit_sent = change->ask.sent;
            }
            return true;
        }
        at += reply->value[at].span;
    }
    return false;
}

/* Asks for the outcome, and gives the place in the queue up. */
static void withdraw(struct change *change)
{
    change->ask.was_sent = true;
    ask_anew(change, STEP_WITHDRAW, after_ms(change->machine, WITHDRAW_MS));
}

static bool is_forgotten(const struct asking_end *end)
{
    return end->error == HASP_EREPLY && strcmp(end->code, "FORGOTTEN") == 0;
}

/* Nobody waits for it. The cluster says what became of it, or that it has
 * forgotten: then a grant is released to be sure, but a named owner may have
 * other holds of these locks. */
static void settled(struct change *change, const struct asking_end *end,
                    bool is_granted)
{
    bool may_be_granted = is_granted ||
                          (is_forgotten(end) && change->owner->is_private);
    if (change->kind == CHANGE_ACQUIRE && may_be_granted) {
        turn_into_release(change);
    } else {
        change_free(change);
    }
}

/* After a withdrawal: gives back a grant that nobody wanted any more, but takes
 * one whose answer was lost. */
static void withdrawn(struct change *change, int error, bool is_granted,
                      const char *why)
{
    bool is_convert = change->kind == CHANGE_CONVERT;
    if (is_open(error) && change->is_interrupted) {
        settle(change, HASP_EINTR, "interrupted");
    } else if (is_open(error)) {
        settle(change, HASP_EUNKNOWN,
               "no answer in time, it may have been done or not; it is being "
               "given back");
    } else if (error != 0) {
        end_change(change, error, why);
    } else if (is_granted && change->is_interrupted && !is_convert) {
        tell(change, HASP_EINTR, "interrupted");
        turn_into_release(change);
    } else if (is_granted) {
        granted(change);
    } else if (change->is_interrupted) {
        end_change(change, HASP_EINTR, "interrupted");
    } else {
        end_change(change, HASP_NOT_ACQUIRED, "");
    }
}

/* Deals with how the first attempts, or the wait, have ended. */
static void asked(struct change *change, int error, bool is_granted,
                  const char *why)
{
    bool may_be_done = error == HASP_EUNKNOWN || error == HASP_EPROTO ||
                       (is_open(error) && change->is_placed);
    switch (change->kind) {
    case CHANGE_RESUME:
    case CHANGE_QUERY:
        end_change(change, error, why);
        break;
    case CHANGE_RELEASE:
        /* The user may do nothing just now, and the lock is still to be given
         * back. */
        if (is_open(error) || error == HASP_EREFUSED) {
            settle(change, error, why);
        } else {
            end_change(change, error, why);
        }
        break;
    case CHANGE_ACQUIRE:
    case CHANGE_CONVERT:
        if (may_be_done) {
            withdraw(change);
        } else if (error == 0 && is_granted) {
            granted(change);
        } else {
            end_change(change, error != 0 ? error : HASP_NOT_ACQUIRED, why);
        }
        break;
    }
}

static void answered(struct asking *ask, const struct asking_end *end)
{
    struct change *change = ask->data;
    char why[HASP_WHY_SIZE] = "";
    bool is_granted = false;
    if (change->step == STEP_SHOW) {
        bool is_there = end->error == 0 && shown(change, end->reply);
        if (is_there || change->kind == CHANGE_ACQUIRE) {
            hand_over(change);
        } else {
            int code = end->error == 0
                           ? HASP_NOT_ACQUIRED
                           : machine_error(change->machine, end, why);
            end_change(change, code, why);
        }
        return;
    }
    if (end->error == 0 && change->step == STEP_ASK &&
        is_queued(change, end->reply)) {
        park(change);
        return;
    }
    int error = end->error == 0 ? read_result(change, end->reply, &is_granted)
                                : machine_error(change->machine, end, why);
    if (error != 0 && end->error == 0) {
        snprintf(why, sizeof why, "%s",
                 error == HASP_ENOTHELD
                     ? "some of these locks were not held any more"
                     : "the answer is not what was asked for");
    }
    if (change->step == STEP_SETTLE) {
        settled(change, end, is_granted);
    } else if (change->step == STEP_WITHDRAW) {
        withdrawn(change, error, is_granted, why);
    } else {
        asked(change, error, is_granted, why);
    }
}

void machine_interrupt(struct machine *machine, struct client_call *call,
                       struct lease_clock now)
{
    struct change *change = call->change;
    machine_enter(machine, now);
    if (change == NULL || change->is_interrupted ||
        (change->kind != CHANGE_ACQUIRE && change->kind != CHANGE_CONVERT) ||
        (change->step != STEP_ASK && change->step != STEP_PARKED)) {
        return;
    }
    change->is_interrupted = true;
    if (change->ask.sent.monotonic_ns == 0) {
        /* The cluster does not know of it. */
        end_change(change, HASP_EINTR, "interrupted");
    } else {
        withdraw(change);
    }
}

/* --- For the machine ------------------------------------------------------ */

/* Takes what the push says of the grant; if it says nothing, that is asked for.
 */
static bool take_push(struct change *change, const struct resp_reply *reply)
{
    uint32_t at = 0;
    uint32_t count = reply_array(reply, 3, "tokens", &at);
    if (count != change->count) {
        return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (reply->value[at + i].type != RESP_INTEGER ||
            reply->value[at + i].integer <= 0) {
            return false;
        }
        change->tokens[i] = (uint64_t)reply->value[at + i].integer;
    }
    return true;
}

void changes_pushed(struct machine *machine, const struct resp_reply *reply)
{
    struct bytes owner = reply_text(reply, 3, "owner");
    uint64_t place = reply_number(reply, 3, "wait");
    LIST_FOR_SAFE (struct change, change, &machine->changes, in_machine) {
        if (change->owner == NULL ||
            !bytes_equal(owner, bytes_of_text(change->owner->tag))) {
            continue;
        }
        if (change->step == STEP_ASK) {
            change->hint = place;
        } else if (change->step != STEP_PARKED || change->place != place) {
            continue; /* The push belongs to an earlier wait, or came twice. */
        } else if (take_push(change, reply)) {
            granted(change);
        } else {
            ask_anew(change, STEP_ASK, limit_ns(change));
        }
    }
}

void changes_ask_again(struct machine *machine)
{
    LIST_FOR (struct change, change, &machine->changes, in_machine) {
        change->hint = 0;
        if (change->step == STEP_PARKED && !is_behind(change)) {
            ask_anew(change, STEP_ASK, limit_ns(change));
        }
    }
}

void changes_turn(struct machine *machine)
{
    LIST_FOR (struct change, change, &machine->changes, in_machine) {
        if (change->step == STEP_PARKED &&
            machine->asker->now.monotonic_ns >= change->look_ns) {
            uint64_t limit = limit_ns(change);
            if (is_behind(change) && machine->asker->now.monotonic_ns < limit) {
                change->look_ns = after_ms(machine, BEHIND_MS);
            } else {
                ask_anew(change, STEP_ASK, limit);
            }
        }
    }
}

uint64_t changes_next_ns(const struct machine *machine)
{
    uint64_t next_ns = UINT64_MAX;
    LIST_FOR (const struct change, change, &machine->changes, in_machine) {
        if (change->step == STEP_PARKED && change->look_ns < next_ns) {
            next_ns = change->look_ns;
        }
    }
    return next_ns;
}

void changes_end(struct machine *machine, bool are_told)
{
    while (!list_is_empty(&machine->changes)) {
        struct change *change = LIST_FIRST(&machine->changes, struct change,
                                           in_machine);
        if (are_told) {
            tell(change, HASP_ELOST, "the session was lost while it waited");
        }
        if (change->call != NULL) {
            change->call->change = NULL;
        }
        change_free(change);
    }
}
