/* SPDX-License-Identifier: MIT */

/* Operations on locks: their requests, repeated under the same number after a
 * lost answer (rule 20), the meaning of the answers, and the cleanup of
 * operations whose callers no longer wait. session_fsm.h has the drawing. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/minmax.h"
#include "base/units.h"
#include "client/operation.h"
#include "client/reply.h"

/* Time to wait for the push after the end of the wait. */
#define PUSH_MS 1000
/* Time for an interrupted call to clean up; after that the cleanup continues in
 * the background. */
#define WITHDRAW_MS 500
/* Interval of checks whether the last request of an owner is settled. */
#define BEHIND_MS 50

static client_request_done_fn operation_answered;
static const char lost_before[] = "some of these locks were no longer held";

/* --- Beginning and ending ------------------------------------------------- */

static uint64_t now_ns(const struct operation *operation)
{
    return operation->fsm->conn->now.monotonic_ns;
}

static void operation_free(struct operation *operation)
{
    client_request_cancel(operation->fsm->conn, &operation->ask);
    list_remove(&operation->in_machine);
    query_done(&operation->ask.query);
    hooked_failed(operation->reported, "the session is being closed",
                  now_ns(operation));
    hooked_free(operation->reported);
    if (operation->number != 0) {
        request_numbers_end(&operation->fsm->numbers, operation->number);
    }
    if (operation->owner != NULL) {
        owner_put(operation->owner);
    }
    /* A conversion borrows the caller's hold. */
    if (operation->kind != OPERATION_CONVERT && operation->hold != NULL) {
        client_hold_free(operation->hold);
    }
    for (size_t i = 0; operation->names != NULL && i < operation->count; i++) {
        free(operation->names[i]);
    }
    free(operation->names);
    free(operation->grants);
    free(operation->value);
    free(operation->trace);
    free(operation);
}

static void free_room(struct operation *room)
{
    free(room->names);
    free(room->grants);
    free(room);
}

static struct operation *operation_make_room(size_t count)
{
    struct operation *room = calloc(1, sizeof *room);
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

struct operation *operation_room(struct session_fsm *fsm, size_t count)
{
    struct operation *room = operation_make_room(count);
    if (room != NULL && request_numbers_keep(&fsm->numbers) != 0) {
        free_room(room);
        return NULL;
    }
    return room;
}

void operation_room_free(struct session_fsm *fsm, struct operation *room)
{
    request_numbers_give_back(&fsm->numbers);
    free_room(room);
}

/* Ends the call with the result. 'why' can be the call's own. */
static void operation_tell(struct operation *operation, int error,
                           const char *why)
{
    struct client_call *call = operation->call;
    if (call == NULL) {
        return;
    }
    if (error != 0) {
        hooked_failed(operation->reported,
                      why[0] != '\0' ? why : "not granted in time",
                      now_ns(operation));
    }
    operation->call = NULL;
    call->operation = NULL;
    call->error = error;
    if (why != call->why) {
        size_t size = strnlen(why, sizeof call->why - 1);
        memcpy(call->why, why, size);
        call->why[size] = '\0';
    }
    call->done(call);
}

static void end_change(struct operation *operation, int error, const char *why)
{
    operation_tell(operation, error, why);
    operation_free(operation);
}

/* Starts an operation with reserved memory. */
static void operation_enter(struct operation *operation,
                            struct session_fsm *fsm, enum operation_kind kind,
                            size_t count, struct client_call *call)
{
    operation->fsm = fsm;
    operation->kind = kind;
    operation->count = count;
    operation->call = call;
    operation->end_ns = fsm->conn->now.monotonic_ns;
    operation->ask.member = &fsm->member;
    operation->ask.data = operation;
    operation->ask.done = operation_answered;
    operation->ask.is_repeatable = true;
    list_push_back(&fsm->changes, &operation->in_machine);
}

static struct operation *operation_new(struct session_fsm *fsm,
                                       enum operation_kind kind,
                                       const char *const *names, size_t count,
                                       struct client_call *call)
{
    struct operation *operation = operation_make_room(count);
    bool is_ok = true;
    if (operation == NULL) {
        return NULL;
    }
    operation_enter(operation, fsm, kind, count, call);
    for (size_t i = 0; is_ok && i < count; i++) {
        operation->names[i] = strdup(names[i]);
        is_ok = operation->names[i] != NULL;
    }
    if (!is_ok) {
        operation_free(operation);
        return NULL;
    }
    return operation;
}

static uint64_t after_ms(const struct session_fsm *fsm, uint64_t time_ms)
{
    return fsm->conn->now.monotonic_ns + time_ms * NS_PER_MS;
}

/* True while an earlier request of this named owner, for which no call waits,
 * has an unknown outcome: its grant must be released, and must not be mistaken
 * for a grant of the owner's next request. */
static bool operation_is_behind(const struct operation *operation)
{
    LIST_FOR (const struct operation, other, &operation->fsm->changes,
              in_machine) {
        if (other != operation && other->step == STEP_SETTLE &&
            other->owner == operation->owner) {
            return true;
        }
    }
    return false;
}

static bool has_name(const struct operation *operation, const char *name)
{
    for (size_t i = 0; i < operation->count; i++) {
        if (strcmp(operation->names[i], name) == 0) {
            return true;
        }
    }
    return false;
}

/* True if another call requests one of these locks for the same owner: the
 * cluster would treat both waits as one, with one grant. */
static bool has_rival(const struct operation *operation)
{
    LIST_FOR (const struct operation, other, &operation->fsm->changes,
              in_machine) {
        bool asks = other->kind == OPERATION_ACQUIRE ||
                    other->kind == OPERATION_CONVERT;
        for (size_t i = 0; asks && other->call != NULL && i < other->count;
             i++) {
            if (other != operation && other->owner == operation->owner &&
                has_name(operation, other->names[i])) {
                return true;
            }
        }
    }
    return false;
}

/* Refuses the call, and frees its change. */
static int refuse_rival(struct operation *operation, struct client_call *call)
{
    call->error = HASP_EINVALID;
    snprintf(call->why, sizeof call->why,
             "owner '%s' is already requesting this lock in another call: an "
             "owner is one thread of control",
             operation->owner->tag);
    hooked_failed(operation->reported, call->why, now_ns(operation));
    operation_free(operation);
    return HASP_EINVALID;
}

/* Assigns a number to the operation and sends it; frees it on an error. */
static int operation_begin(struct operation *operation, uint64_t deadline_ns)
{
    int error = request_numbers_begin(&operation->fsm->numbers,
                                      &operation->number);
    if (error != 0) {
        operation_free(operation);
        return error;
    }
    operation_write(&operation->ask, operation->fsm->conn->now);
    operation->ask.again = operation_write;
    operation->ask.deadline_ns = deadline_ns;
    if (operation->call != NULL) {
        operation->call->operation = operation;
    }
    if (operation->kind != OPERATION_RELEASE &&
        operation_is_behind(operation)) {
        /* An earlier request of this owner has to be settled first. A release
         * never waits for that, since it names its tokens (rule 17). */
        operation->step = STEP_PARKED;
        operation->look_ns = after_ms(operation->fsm, BEHIND_MS);
        return 0;
    }
    cluster_conn_ask(operation->fsm->conn, &operation->ask,
                     operation->fsm->conn->now);
    return 0;
}

static void ask_once_more(struct operation *operation, enum operation_step step,
                          uint64_t deadline_ns)
{
    struct session_fsm *fsm = operation->fsm;
    operation->step = step;
    operation->hint = 0;
    client_request_cancel(fsm->conn, &operation->ask);
    operation_write(&operation->ask, fsm->conn->now);
    operation->ask.deadline_ns = deadline_ns;
    cluster_conn_ask(fsm->conn, &operation->ask, fsm->conn->now);
}

static uint64_t limit_ns(const struct operation *operation)
{
    uint64_t timeout_ns = operation->fsm->timeout_ms * NS_PER_MS;
    return operation->end_ns > UINT64_MAX - timeout_ns
               ? UINT64_MAX
               : operation->end_ns + timeout_ns;
}

static void set_wait(struct operation *operation, uint64_t wait_ms)
{
    uint64_t now_ns = operation->fsm->conn->now.monotonic_ns;
    bool is_endless = wait_ms >= (UINT64_MAX - now_ns) / NS_PER_MS;
    operation->end_ns = is_endless ? UINT64_MAX : now_ns + wait_ms * NS_PER_MS;
}

int session_fsm_acquire(struct session_fsm *fsm, const char *const *names,
                        size_t count,
                        const struct hasp_acquire_options *options,
                        struct client_call *call, struct lease_clock now)
{
    session_fsm_enter(fsm, now);
    struct operation *operation = operation_new(fsm, OPERATION_ACQUIRE, names,
                                                count, call);
    if (operation == NULL) {
        return HASP_ENOMEM;
    }
    operation->options = *options;
    /* All memory of the hold is taken before the request is sent: a grant that
     * cannot be stored would stay held. */
    operation->hold = client_hold_new(fsm, count);
    operation->owner = owner_take(&fsm->numbers, options->owner);
    if (options->value != NULL) {
        operation->value = strdup(options->value);
    }
    if (options->trace != NULL) {
        operation->trace = strdup(options->trace);
    }
    if (operation->hold == NULL || operation->owner == NULL ||
        (options->value != NULL && operation->value == NULL) ||
        (options->trace != NULL && operation->trace == NULL)) {
        operation_free(operation);
        return HASP_ENOMEM;
    }
    operation->reported = hooked_new(&fsm->hooks, names[0], options->trace,
                                     now.monotonic_ns);
    if (has_rival(operation)) {
        return refuse_rival(operation, call);
    }
    set_wait(operation, options->wait_ms);
    return operation_begin(operation, limit_ns(operation));
}

void session_fsm_refused(struct session_fsm *fsm, const char *name,
                         const char *trace, const char *why,
                         struct lease_clock now)
{
    struct hooked *one = hooked_new(&fsm->hooks, name, trace, now.monotonic_ns);
    hooked_failed(one, why, now.monotonic_ns);
    hooked_free(one);
    if (fsm->news != NULL && one != NULL) {
        fsm->news(fsm);
    }
}

int session_fsm_convert(struct session_fsm *fsm, struct hasp_hold *hold,
                        const struct hasp_acquire_options *options,
                        struct client_call *call, struct lease_clock now)
{
    const char *name = hold->held[0].name;
    session_fsm_enter(fsm, now);
    CHECK(hold->count == 1);
    struct operation *operation = operation_new(fsm, OPERATION_CONVERT, &name,
                                                1, call);
    if (operation == NULL) {
        return HASP_ENOMEM;
    }
    operation->options = *options;
    operation->options.value = operation->options.trace = NULL;
    operation->hold = hold;
    operation->token = hold->held[0].token;
    operation->owner = hold->owner;
    operation->owner->use_count++;
    if (has_rival(operation)) {
        return refuse_rival(operation, call);
    }
    /* A downgrade never waits: it only gives up rights. */
    set_wait(operation, options->mode == HASP_SHARED ? 0 : options->wait_ms);
    return operation_begin(operation, limit_ns(operation));
}

int session_fsm_release(struct session_fsm *fsm, struct hasp_hold *hold,
                        struct client_call *call, struct lease_clock now)
{
    struct operation *operation = hold->release;
    session_fsm_enter(fsm, now);
    hooked_released(hold->reported, now.monotonic_ns);
    hold->release = NULL;
    operation_enter(operation, fsm, OPERATION_RELEASE, 0, call);
    operation->owner = hold->owner;
    for (size_t i = 0; i < hold->count; i++) {
        struct held *held = &hold->held[i];
        if (held->is_over) {
            operation->was_lost = true;
            continue;
        }
        operation->names[operation->count] = held->name;
        operation->grants[operation->count++].token = held->token;
        held->name = NULL;
    }
    client_hold_free(hold);
    /* The release gets the place of this number. */
    request_numbers_give_back(&fsm->numbers);
    if (operation->count == 0) {
        /* The cluster has reported the end: no request is needed. */
        end_change(operation, HASP_ENOTHELD, lost_before);
        return 0;
    }
    int error = operation_begin(operation, limit_ns(operation));
    CHECK(error == 0);
    return error;
}

int session_fsm_query(struct session_fsm *fsm, struct query *query,
                      bool is_change, struct client_call *call,
                      struct lease_clock now)
{
    session_fsm_enter(fsm, now);
    struct operation *operation = operation_new(fsm, OPERATION_QUERY, NULL, 0,
                                                call);
    if (operation == NULL) {
        return HASP_ENOMEM;
    }
    if (is_change) {
        operation->owner = owner_take(&fsm->numbers, "");
        if (operation->owner == NULL ||
            request_numbers_begin(&fsm->numbers, &operation->number) != 0) {
            operation_free(operation);
            return HASP_ENOMEM;
        }
        operation_write_number(operation, query);
    }
    operation->ask.query = *query;
    /* The caller's query is moved only when nothing can fail any longer. */
    *query = (struct query){0};
    operation->ask.is_read = !is_change;
    operation->ask.deadline_ns = limit_ns(operation);
    call->operation = operation;
    cluster_conn_ask(fsm->conn, &operation->ask, now);
    return 0;
}

/* Requests the list of holds from 'cursor' on, to find one in it. */
static void look_for(struct operation *operation, struct bytes cursor)
{
    struct session_fsm *fsm = operation->fsm;
    struct query *query = &operation->ask.query;
    query_begin(query, "SESSION.HOLDS");
    query_text(query, "PREFIX");
    query_text(query, operation->names[0]);
    if (cursor.size > 0) {
        query_text(query, "CURSOR");
        query_bytes(query, cursor);
    }
    query_option(query, "SESSION", fsm->credentials.session);
    operation->ask.is_read = true;
    operation->ask.deadline_ns = limit_ns(operation);
    cluster_conn_ask(fsm->conn, &operation->ask, fsm->conn->now);
}

int session_fsm_resume(struct session_fsm *fsm, const char *name,
                       const char *owner, struct client_call *call,
                       struct lease_clock now)
{
    session_fsm_enter(fsm, now);
    struct operation *operation = operation_new(fsm, OPERATION_RESUME, &name, 1,
                                                call);
    if (operation == NULL) {
        return HASP_ENOMEM;
    }
    operation->hold = client_hold_new(fsm, 1);
    operation->owner = owner_take(&fsm->numbers, owner);
    if (operation->hold == NULL || operation->owner == NULL) {
        operation_free(operation);
        return HASP_ENOMEM;
    }
    call->operation = operation;
    look_for(operation, bytes_of(NULL, 0));
    return 0;
}

/* --- Answers -------------------------------------------------------------- */

/* True if after 'error' the change may have been, or may still be, done. With
 * the last four errors the last attempts did nothing, but an earlier attempt
 * may have. */
static bool is_open(int error)
{
    return error == HASP_EUNKNOWN || error == HASP_EPROTO ||
           error == HASP_ECONNECT || error == HASP_ECERT ||
           error == HASP_ENOTLEADER || error == HASP_EBUSY;
}

/* No caller waits any longer, so it is repeated until there is an answer. */
static void operation_settle(struct operation *operation, int error,
                             const char *why)
{
    if (operation->kind == OPERATION_CONVERT) {
        operation
            /* The hold belongs to the caller, which may release it. */
            ->hold = NULL;
    }
    operation_tell(operation, error, why);
    operation->ask.was_sent = true;
    ask_once_more(operation, STEP_SETTLE, UINT64_MAX);
}

/* Sends the change under a new number, with no caller. */
static void operation_send_anew(struct operation *operation)
{
    struct request_numbers *numbers = &operation->fsm->numbers;
    request_numbers_end(numbers, operation->number);
    /* The number that has just ended leaves room for this one. */
    int error = request_numbers_begin(numbers, &operation->number);
    CHECK(error == 0);
    ask_once_more(operation, STEP_SETTLE, UINT64_MAX);
}

/* Turns a granted ACQUIRE into its RELEASE. */
static void turn_into_release(struct operation *operation)
{
    client_hold_free(operation->hold);
    operation->hold = NULL;
    operation->kind = OPERATION_RELEASE;
    operation_send_anew(operation);
}

/* Reads a number, what was granted, or nil; OK (of LOCK.NOTE) is 0. */
static int read_result(struct operation *operation,
                       const struct resp_reply *reply, bool *ret_is_granted)
{
    const struct resp_value *value = reply->value;
    *ret_is_granted = false;
    if (operation->kind == OPERATION_QUERY &&
        (value->type == RESP_SIMPLE || value->type == RESP_BULK)) {
        return bytes_is_word(value->bytes, "OK") ? 0 : HASP_EPROTO;
    }
    if (operation->kind == OPERATION_RELEASE ||
        operation->kind == OPERATION_QUERY) {
        if (value->type != RESP_INTEGER) {
            return HASP_EPROTO;
        }
        if (operation->call != NULL) {
            operation->call->number = (uint64_t)value->integer;
        }
        /* For one lock the number is the remaining count of the hold; for
         * several, the number of released locks. */
        bool is_short = operation->count > 1 &&
                        (uint64_t)value->integer < operation->count;
        return is_short || operation->was_lost ? HASP_ENOTHELD : 0;
    }
    if (value->type == RESP_NULL) {
        return 0;
    }
    if (!grants_read(reply, operation->count, operation->grants)) {
        return HASP_EPROTO;
    }
    *ret_is_granted = true;
    return 0;
}

/* True for the answer "QUEUED place". */
static bool is_queued(struct operation *operation,
                      const struct resp_reply *reply)
{
    struct bytes word = BYTES_LITERAL("QUEUED ");
    struct bytes text = reply->value[0].bytes;
    return reply->value[0].type == RESP_SIMPLE &&
           bytes_has_prefix(text, word) &&
           bytes_to_u64(bytes_of(text.data + word.size, text.size - word.size),
                        &operation->place);
}

static void operation_park(struct operation *operation)
{
    struct session_fsm *fsm = operation->fsm;
    operation->ask.was_sent = true;
    hooked_waits(operation->reported, now_ns(operation));
    if (operation->hint == operation->place) {
        ask_once_more(operation, STEP_ASK, limit_ns(operation));
        return;
    }
    operation->step = STEP_PARKED;
    operation->look_ns = after_ms(fsm, LOOK_MS);
    if (operation->end_ns < operation->look_ns - PUSH_MS * NS_PER_MS) {
        operation->look_ns = operation->end_ns + PUSH_MS * NS_PER_MS;
    }
}

/* Passes the hold to the caller. */
static void operation_hand_over(struct operation *operation)
{
    struct hasp_hold *hold = operation->hold;
    if (lease_check(&operation->fsm->lease, operation->fsm->conn->now) ==
        LEASE_LOST) {
        end_change(operation, HASP_ELOST,
                   "the session was lost while it waited");
        return;
    }
    hold->owner = operation->owner;
    hold->limit_ms = operation->options.hold_ms;
    for (size_t i = 0; i < operation->count; i++) {
        hold->held[i].name = operation->names[i];
        operation->names[i] = NULL;
    }
    operation->owner = NULL;
    operation->hold = NULL;
    operation->call->hold = hold;
    /* Belief counts from the sending of the request, not from the arrival of
     * its answer (rules 1 and 16). */
    client_hold_begin(hold, operation->grants, operation->ask.sent);
    hold->reported = operation->reported;
    operation->reported = NULL;
    hooked_granted(hold->reported, hold->held[0].token, now_ns(operation));
    if (hold->has_ended) {
        hooked_lost(hold->reported, "", 0, now_ns(operation));
    }
    end_change(operation, 0, "");
}

/* True if the grant cannot be trusted: because a notice that was received
 * meanwhile is newer, and could be about this hold (rule 17); or because
 * nothing is left of its limit, counted from the sending of the request, as in
 * a push (rule 16). */
static bool is_stale(struct operation *operation, bool is_pushed)
{
    const struct session_fsm *fsm = operation->fsm;
    bool has_no_time = false;
    for (size_t i = 0; i < operation->count; i++) {
        const struct granted *grant = &operation->grants[i];
        if (grant->as_of < fsm->heard) {
            return true;
        }
        has_no_time |= grant->count > 0 && grant->has_limit &&
                       (is_pushed || lease_hold_remaining(operation->ask.sent,
                                                          grant->left_ms,
                                                          fsm->conn->now) == 0);
    }
    bool asks = has_no_time && (is_pushed || !operation->is_repeated);
    operation->is_repeated |= asks;
    return asks;
}

static void operation_converted(struct operation *operation)
{
    struct session_fsm *fsm = operation->fsm;
    const struct granted *grant = &operation->grants[0];
    struct ended ended = {.lock = bytes_of_text(operation->names[0]),
                          .owner = bytes_of_text(operation->owner->tag),
                          .reason = BYTES_LITERAL("ended"),
                          .first = u64_min(operation->token, grant->first),
                          .token = grant->token};
    if (grant->count == 0) {
        holds_ended(fsm, &ended);
    } else {
        holds_converted(fsm, operation->owner, operation->names[0], grant);
        client_hold_limit(operation->hold, grant, operation->ask.sent);
    }
    end_change(operation, 0, "");
}

static void operation_granted(struct operation *operation, bool is_pushed)
{
    struct session_fsm *fsm = operation->fsm;
    if (is_stale(operation, is_pushed)) {
        bool is_withdrawn = operation->step == STEP_WITHDRAW;
        uint64_t timeout_ns = after_ms(fsm, fsm->timeout_ms);
        operation->ask.was_sent = true;
        ask_once_more(operation, is_withdrawn ? STEP_WITHDRAW : STEP_ASK,
                      is_withdrawn ? after_ms(fsm, WITHDRAW_MS)
                                   : u64_max(limit_ns(operation), timeout_ns));
    } else if (operation->kind == OPERATION_CONVERT) {
        operation_converted(operation);
    } else {
        operation_hand_over(operation);
    }
}

/* Finds a hold of the owner in a page of this session's holds. */
static bool operation_is_found(struct operation *operation,
                               const struct resp_reply *reply)
{
    uint32_t at = 0;
    uint32_t count = reply_array(reply, 0, "holds", &at);
    for (uint32_t i = 0; i < count; i++) {
        if (bytes_equal(reply_text(reply, at, "lock"),
                        bytes_of_text(operation->names[0])) &&
            bytes_equal(reply_text(reply, at, "owner"),
                        bytes_of_text(operation->owner->tag)) &&
            grant_read(reply, at, &operation->grants[0])) {
            return true;
        }
        at += reply->value[at].span;
    }
    return false;
}

static void looked_for(struct operation *operation,
                       const struct client_request_end *end)
{
    char why[HASP_WHY_SIZE] = "";
    if (end->error != 0) {
        int error = session_fsm_error(operation->fsm, end, why);
        end_change(operation, error, why);
        return;
    }
    struct bytes cursor = reply_text(end->reply, 0, "cursor");
    if (operation_is_found(operation, end->reply)) {
        operation_hand_over(operation);
    } else if (cursor.size > 0 && !bytes_is_word(cursor, "0")) {
        look_for(operation, cursor);
    } else {
        end_change(operation, HASP_NOT_ACQUIRED, "");
    }
}

/* Requests the outcome, without a wait, which gives up the place in the
 * queue. */
static void operation_withdraw(struct operation *operation)
{
    operation->ask.was_sent = true;
    ask_once_more(operation, STEP_WITHDRAW,
                  after_ms(operation->fsm, WITHDRAW_MS));
}

static bool is_forgotten(const struct client_request_end *end)
{
    return end->error == HASP_EREPLY && strcmp(end->code, "FORGOTTEN") == 0;
}

/* True if the owner has no other hold of these locks, and no other operation on
 * them. */
static bool is_sole(const struct operation *operation)
{
    LIST_FOR (const struct operation, other, &operation->fsm->changes,
              in_machine) {
        for (size_t i = 0; i < other->count; i++) {
            if (other != operation && other->owner == operation->owner &&
                has_name(operation, other->names[i])) {
                return false;
            }
        }
    }
    LIST_FOR (const struct hasp_hold, hold, &operation->fsm->holds,
              in_machine) {
        for (size_t i = 0; i < hold->count; i++) {
            const struct held *held = &hold->held[i];
            if (hold->owner == operation->owner && !held->is_over &&
                has_name(operation, held->name)) {
                return false;
            }
        }
    }
    return true;
}

/* True if a change that gives up rights is to be sent under a new number after
 * FORGOTTEN: its number is spent, but perhaps not by this request, if it was
 * overtaken by more than 64 others (lockfsm/README.md). It names its tokens, so
 * it cannot change a later hold. A RELEASE could end one of several
 * acquisitions of the same hold that the owner still relies on, so then it is
 * not repeated; the end of the session ends the hold. */
static bool gives_up_anew(const struct operation *operation)
{
    return operation->kind == OPERATION_CONVERT
               ? operation->options.mode == HASP_SHARED
               : operation->kind == OPERATION_RELEASE && is_sole(operation);
}

/* No caller waits for it. The cluster returns the outcome, or FORGOTTEN. After
 * a forgotten ACQUIRE any grant is released to be safe, unless the owner has a
 * name, since it could have other holds of these locks. */
static void operation_settled(struct operation *operation,
                              const struct client_request_end *end,
                              bool is_granted)
{
    bool may_be_granted = is_granted ||
                          (is_forgotten(end) && operation->owner->is_private);
    if (operation->kind == OPERATION_ACQUIRE && may_be_granted) {
        turn_into_release(operation);
    } else if (is_forgotten(end) && gives_up_anew(operation)) {
        operation_send_anew(operation);
    } else {
        operation_free(operation);
    }
}

/* Ends an operation that the cluster has refused. If the lock is no longer
 * held, the owner's repeated acquisitions of that hold have ended, too. */
static void operation_end_refused(struct operation *operation, int error,
                                  const char *why)
{
    uint64_t token = operation->kind == OPERATION_CONVERT
                         ? operation->token
                         : operation->grants[0].token;
    if (error == HASP_ENOTHELD && operation->count == 1 && token != 0 &&
        !operation->was_lost) {
        holds_ended(
            operation->fsm,
            &(struct ended){.lock = bytes_of_text(operation->names[0]),
                            .owner = bytes_of_text(operation->owner->tag),
                            .reason = BYTES_LITERAL("ended"),
                            .first = token,
                            .token = token});
    }
    end_change(operation, error, why);
}

/* After a withdrawal: releases a grant if the caller no longer wants it, but
 * accepts one whose answer was lost. */
static void operation_withdrawn(struct operation *operation, int error,
                                bool is_granted, const char *why)
{
    bool is_convert = operation->kind == OPERATION_CONVERT;
    if (is_open(error) && operation->is_interrupted) {
        operation_settle(operation, HASP_EINTR, "interrupted");
    } else if (is_open(error)) {
        operation_settle(
            operation, HASP_EUNKNOWN,
            "no answer in time, it may have been done or not; it is being "
            "given back");
    } else if (error != 0 && error != HASP_ELOST && operation->is_interrupted &&
               !is_convert) {
        /* The caller has given up the request, so it needs no refusal of it. */
        end_change(operation, HASP_EINTR, why);
    } else if (error != 0) {
        operation_end_refused(operation, error, why);
    } else if (is_granted && operation->is_interrupted && !is_convert) {
        operation_tell(operation, HASP_EINTR, "interrupted");
        /* The caller no longer waits, so nobody would release the grant. */
        turn_into_release(operation);
    } else if (is_granted) {
        operation_granted(operation, false);
    } else if (operation->is_interrupted) {
        end_change(operation, HASP_EINTR, "interrupted");
    } else {
        end_change(operation, HASP_NOT_ACQUIRED, "");
    }
}

/* Handles the end of the first attempts or of the wait. */
static void operation_asked(struct operation *operation, int error,
                            bool is_granted, const char *why)
{
    /* An earlier attempt can have been done even if there is no leader now. */
    bool may_be_done = error == HASP_EUNKNOWN || error == HASP_EPROTO ||
                       (is_open(error) && operation->ask.was_sent);
    switch (operation->kind) {
    case OPERATION_RESUME:
    case OPERATION_QUERY:
        end_change(operation, error, why);
        break;
    case OPERATION_RELEASE:
        /* The user is refused at present, but the lock must still be
         * released. */
        if (is_open(error) || error == HASP_EREFUSED) {
            operation_settle(operation, error, why);
        } else {
            operation_end_refused(operation, error, why);
        }
        break;
    case OPERATION_ACQUIRE:
    case OPERATION_CONVERT:
        if (may_be_done) {
            operation_withdraw(operation);
        } else if (error == 0 && is_granted) {
            operation_granted(operation, false);
        } else {
            operation_end_refused(operation,
                                  error != 0 ? error : HASP_NOT_ACQUIRED, why);
        }
        break;
    }
}

static void operation_answered(struct client_request *ask,
                               const struct client_request_end *end)
{
    struct operation *operation = ask->data;
    char why[HASP_WHY_SIZE] = "";
    bool is_granted = false;
    if (operation->kind == OPERATION_RESUME) {
        looked_for(operation, end);
        return;
    }
    if (end->error == 0 && operation->step == STEP_ASK &&
        is_queued(operation, end->reply)) {
        operation_park(operation);
        return;
    }
    int error = end->error == 0
                    ? read_result(operation, end->reply, &is_granted)
                    : session_fsm_error(operation->fsm, end, why);
    /* The node answered OK: the fault is in the answer, not in the request. */
    if (error != 0 && end->error == 0) {
        snprintf(why, sizeof why, "%s",
                 error == HASP_ENOTHELD
                     ? lost_before
                     : "the answer does not fit the request");
    }
    if (operation->step == STEP_SETTLE) {
        operation_settled(operation, end, is_granted);
    } else if (operation->step == STEP_WITHDRAW) {
        operation_withdrawn(operation, error, is_granted, why);
    } else {
        operation_asked(operation, error, is_granted, why);
    }
}

void session_fsm_interrupt(struct session_fsm *fsm, struct client_call *call,
                           struct lease_clock now)
{
    struct operation *operation = call->operation;
    session_fsm_enter(fsm, now);
    if (operation == NULL || operation->is_interrupted ||
        (operation->kind != OPERATION_ACQUIRE &&
         operation->kind != OPERATION_CONVERT) ||
        (operation->step != STEP_ASK && operation->step != STEP_PARKED)) {
        return;
    }
    operation->is_interrupted = true;
    if (operation->ask.sent.monotonic_ns == 0) {
        /* The cluster does not have it. */
        end_change(operation, HASP_EINTR, "interrupted");
    } else {
        operation_withdraw(operation);
    }
}

/* --- For the machine ------------------------------------------------------ */

/* Reads the grant from the push; if it has none, the request is repeated. */
static bool take_push(struct operation *operation,
                      const struct resp_reply *reply)
{
    uint32_t at = 0;
    uint32_t count = reply_array(reply, 3, "grants", &at);
    for (uint32_t i = 0; i < count && i < operation->count; i++) {
        if (!grant_read(reply, at, &operation->grants[i])) {
            return false;
        }
        at += reply->value[at].span;
    }
    return count == operation->count;
}

void operations_pushed(struct session_fsm *fsm, const struct resp_reply *reply)
{
    struct bytes owner = reply_text(reply, 3, "owner");
    uint64_t place = reply_number(reply, 3, "wait");
    LIST_FOR_SAFE (struct operation, operation, &fsm->changes, in_machine) {
        if (operation->owner == NULL ||
            !bytes_equal(owner, bytes_of_text(operation->owner->tag))) {
            continue;
        }
        if (operation->step == STEP_ASK) {
            operation->hint = place;
        } else if (operation->step != STEP_PARKED ||
                   operation->place != place) {
            continue; /* A push of an earlier wait, or a repeated one. */
        } else if (take_push(operation, reply)) {
            operation_granted(operation, true);
        } else {
            ask_once_more(operation, STEP_ASK, limit_ns(operation));
        }
    }
}

void operations_ask_again(struct session_fsm *fsm)
{
    LIST_FOR (struct operation, operation, &fsm->changes, in_machine) {
        operation->hint = 0;
        if (operation->step == STEP_PARKED && !operation_is_behind(operation)) {
            ask_once_more(operation, STEP_ASK, limit_ns(operation));
        }
    }
}

void operations_turn(struct session_fsm *fsm)
{
    LIST_FOR (struct operation, operation, &fsm->changes, in_machine) {
        if (operation->step == STEP_PARKED &&
            fsm->conn->now.monotonic_ns >= operation->look_ns) {
            uint64_t limit = limit_ns(operation);
            if (operation_is_behind(operation) &&
                fsm->conn->now.monotonic_ns < limit) {
                operation->look_ns = after_ms(fsm, BEHIND_MS);
            } else {
                ask_once_more(operation, STEP_ASK, limit);
            }
        }
    }
}

uint64_t operations_next_ns(const struct session_fsm *fsm)
{
    uint64_t next_ns = UINT64_MAX;
    LIST_FOR (const struct operation, operation, &fsm->changes, in_machine) {
        if (operation->step == STEP_PARKED && operation->look_ns < next_ns) {
            next_ns = operation->look_ns;
        }
    }
    return next_ns;
}

void operations_end(struct session_fsm *fsm, bool are_notified)
{
    while (!list_is_empty(&fsm->changes)) {
        struct operation *operation = LIST_FIRST(&fsm->changes,
                                                 struct operation, in_machine);
        if (are_notified) {
            operation_tell(operation, HASP_ELOST,
                           "the session was lost while it waited");
        }
        if (operation->call != NULL) {
            operation->call->operation = NULL;
        }
        operation_free(operation);
    }
}
