/* SPDX-License-Identifier: MIT */

/* Changes of locks: what is asked, the same again under the same number after a
 * lost answer, what the answer means, and what becomes of those that
 * nobody waits for any more. machine.h has the drawing. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/number.h"
#include "base/units.h"
#include "client/change.h"
#include "client/reply.h"

/* How long to wait for the push beyond the wait itself. */
#define PUSH_MS 1000
/* How long an interrupted call may take to clear up what it began; after that
 * this goes on in the background. */
#define WITHDRAW_MS 500
/* How often it is looked whether the last request of an owner is settled. */
#define BEHIND_MS 50

static asking_done_fn answered;
static const char lost_before[] = "some of these locks were not held any more";

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
    free(change->grants);
    free(change->value);
    free(change);
}

static void free_room(struct change *room)
{
    free(room->names);
    free(room->grants);
    free(room);
}

static struct change *make_room(size_t count)
{
    struct change *room = calloc(1, sizeof *room);
    if (room == NULL) {
        return NULL;
    }
    room->names = calloc(count + 1, sizeof *room->names);
    room->grants = calloc(count + 1, sizeof *room->grants);
    if (room->names == NULL || room->grants == NULL) {
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

/* Begins a change for which there is room. */
static void enter(struct change *change, struct machine *machine,
                  enum change_kind kind, size_t count, struct client_call *call)
{
    change->machine = machine;
    change->kind = kind;
    change->count = count;
    change->call = call;
    change->end_ns = machine->asker->now.monotonic_ns;
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
    change_write(&change->ask, change->machine->asker->now);
    change->ask.again = change_write;
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
    change_write(&change->ask, machine->asker->now);
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
    change->token = hold->held[0].token;
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
    enter(change, machine, CHANGE_RELEASE, 0, call);
    change->owner = hold->owner;
    for (size_t i = 0; i < hold->count; i++) {
        struct held *held = &hold->held[i];
        if (held->is_over) {
            change->was_lost = true;
            continue;
        }
        change->names[change->count] = held->name;
        change->grants[change->count++].token = held->token;
        held->name = NULL;
    }
    client_hold_free(hold);
    /* The number of the release takes the place of this one. */
    numbers_give_back(&machine->numbers);
    if (change->count == 0) {
        /* The cluster has told that it is over: there is nothing to ask. */
        end_change(change, HASP_ENOTHELD, lost_before);
        return 0;
    }
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
        change_write_number(change, query);
    }
    change->ask.query = *query;
    *query = (struct query){0};
    change->ask.is_read = !is_change;
    change->ask.deadline_ns = limit_ns(change);
    call->change = change;
    asker_ask(machine->asker, &change->ask, now);
    return 0;
}

/* Asks which holds there are, from 'cursor' on, to find one among them. */
static void look_for(struct change *change, struct bytes cursor)
{
    struct machine *machine = change->machine;
    struct query *query = &change->ask.query;
    query_begin(query, "SESSION.HOLDS");
    query_text(query, "PREFIX");
    query_text(query, change->names[0]);
    if (cursor.size > 0) {
        query_text(query, "CURSOR");
        query_bytes(query, cursor);
    }
    query_option(query, "SESSION", machine->credentials.session);
    change->ask.is_read = true;
    change->ask.deadline_ns = limit_ns(change);
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
    look_for(change, bytes_of(NULL, 0));
    return 0;
}

/* --- Answers -------------------------------------------------------------- */

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
    numbers_end(numbers, change->number);
    /* The number that has just ended leaves room for this one. */
    int error = numbers_begin(numbers, &change->number);
    CHECK(error == 0);
    ask_anew(change, STEP_SETTLE, UINT64_MAX);
}

/* Reads a number, what was granted, or nil. */
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
        bool is_short = change->count > 1 &&
                        (uint64_t)value->integer < change->count;
        return is_short || change->was_lost ? HASP_ENOTHELD : 0;
    }
    if (value->type == RESP_NULL) {
        return 0;
    }
    if (!grants_read(reply, change->count, change->grants)) {
        return HASP_EPROTO;
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
    hold->limit_ms = change->options.hold_ms;
    for (size_t i = 0; i < change->count; i++) {
        hold->held[i].name = change->names[i];
        change->names[i] = NULL;
    }
    change->owner = NULL;
    change->hold = NULL;
    change->call->hold = hold;
    client_hold_begin(hold, change->grants, change->ask.sent);
    end_change(change, 0, "");
}

/* True if belief cannot be made of what was granted: it is older than a notice
 * that was heard meanwhile, perhaps of this very hold; or it has a limit, and
 * nothing is left of that since the request was sent, as in a push. */
static bool is_stale(struct change *change, bool is_pushed)
{
    const struct machine *machine = change->machine;
    bool has_no_time = false;
    for (size_t i = 0; i < change->count; i++) {
        const struct granted *grant = &change->grants[i];
        if (grant->as_of < machine->heard) {
            return true;
        }
        has_no_time |= grant->count > 0 && grant->has_limit &&
                       (is_pushed ||
                        lease_hold_remaining(change->ask.sent, grant->left_ms,
                                             machine->asker->now) == 0);
    }
    bool asks = has_no_time && (is_pushed || !change->is_asked_anew);
    change->is_asked_anew |= asks;
    return asks;
}

static void converted(struct change *change)
{
    struct machine *machine = change->machine;
    const struct granted *grant = &change->grants[0];
    struct ended ended = {.lock = bytes_of_text(change->names[0]),
                          .owner = bytes_of_text(change->owner->tag),
                          .reason = BYTES_LITERAL("ended"),
                          .first = u64_min(change->token, grant->first),
                          .token = grant->token};
    if (grant->count == 0) {
        holds_ended(machine, &ended);
    } else {
        holds_converted(machine, change->owner, change->names[0], grant);
        client_hold_limit(change->hold, grant, change->ask.sent);
    }
    end_change(change, 0, "");
}

static void granted(struct change *change, bool is_pushed)
{
    struct machine *machine = change->machine;
    if (is_stale(change, is_pushed)) {
        bool is_withdrawn = change->step == STEP_WITHDRAW;
        uint64_t timeout_ns = after_ms(machine, machine->timeout_ms);
        change->ask.was_sent = true;
        ask_anew(change, is_withdrawn ? STEP_WITHDRAW : STEP_ASK,
                 is_withdrawn ? after_ms(machine, WITHDRAW_MS)
                              : u64_max(limit_ns(change), timeout_ns));
    } else if (change->kind == CHANGE_CONVERT) {
        converted(change);
    } else {
        hand_over(change);
    }
}

/* Finds a hold of the owner in a page of this session's holds. */
static bool is_found(struct change *change, const struct resp_reply *reply)
{
    uint32_t at = 0;
    uint32_t count = reply_array(reply, 0, "holds", &at);
    for (uint32_t i = 0; i < count; i++) {
        if (bytes_equal(reply_text(reply, at, "lock"),
                        bytes_of_text(change->names[0])) &&
            bytes_equal(reply_text(reply, at, "owner"),
                        bytes_of_text(change->owner->tag)) &&
            grant_read(reply, at, &change->grants[0])) {
            return true;
        }
        at += reply->value[at].span;
    }
    return false;
}

static void looked_for(struct change *change, const struct asking_end *end)
{
    char why[HASP_WHY_SIZE] = "";
    if (end->error != 0) {
        int error = machine_error(change->machine, end, why);
        end_change(change, error, why);
        return;
    }
    struct bytes cursor = reply_text(end->reply, 0, "cursor");
    if (is_found(change, end->reply)) {
        hand_over(change);
    } else if (cursor.size > 0 && !bytes_is_word(cursor, "0")) {
        look_for(change, cursor);
    } else {
        end_change(change, HASP_NOT_ACQUIRED, "");
    }
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

/* Ends a change that the cluster has refused. If it is not held any more, what
 * the owner has acquired again with the same hold is over with it. */
static void end_refused(struct change *change, int error, const char *why)
{
    uint64_t token = change->kind == CHANGE_CONVERT ? change->token
                                                    : change->grants[0].token;
    if (error == HASP_ENOTHELD && change->count == 1 && token != 0 &&
        !change->was_lost) {
        holds_ended(change->machine,
                    &(struct ended){.lock = bytes_of_text(change->names[0]),
                                    .owner = bytes_of_text(change->owner->tag),
                                    .reason = BYTES_LITERAL("ended"),
                                    .first = token,
                                    .token = token});
    }
    end_change(change, error, why);
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
        end_refused(change, error, why);
    } else if (is_granted && change->is_interrupted && !is_convert) {
        tell(change, HASP_EINTR, "interrupted");
        turn_into_release(change);
    } else if (is_granted) {
        granted(change, false);
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
    /* What was sent before, and answered or queued, is no less done since
     * nobody leads now. */
    bool may_be_done = error == HASP_EUNKNOWN || error == HASP_EPROTO ||
                       (is_open(error) && change->ask.was_sent);
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
            end_refused(change, error, why);
        }
        break;
    case CHANGE_ACQUIRE:
    case CHANGE_CONVERT:
        if (may_be_done) {
            withdraw(change);
        } else if (error == 0 && is_granted) {
            granted(change, false);
        } else {
            end_refused(change, error != 0 ? error : HASP_NOT_ACQUIRED, why);
        }
        break;
    }
}

static void answered(struct asking *ask, const struct asking_end *end)
{
    struct change *change = ask->data;
    char why[HASP_WHY_SIZE] = "";
    bool is_granted = false;
    if (change->kind == CHANGE_RESUME) {
        looked_for(change, end);
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
                     ? lost_before
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
    uint32_t count = reply_array(reply, 3, "grants", &at);
    for (uint32_t i = 0; i < count && i < change->count; i++) {
        if (!grant_read(reply, at, &change->grants[i])) {
            return false;
        }
        at += reply->value[at].span;
    }
    return count == change->count;
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
            granted(change, true);
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
