/* SPDX-License-Identifier: MIT */

/* The life of a request: it is kept, parsed, moved from state to state,
 * answered or refused, and its structure is used again. */

#include "core/request.h"

#include <stdlib.h>
#include <string.h>

#include "base/account.h"
#include "base/check.h"
#include "base/memory.h"
#include "core/command.h"
#include "core/state.h"
#include "core/transaction.h"

/* At most this many requests, and buffers up to this size, are kept for
 * reuse. */
#define FREE_COUNT_MAX 4096
#define BODY_IDLE_SIZE 2048
#define ARGUMENT_IDLE_COUNT 32

static struct request *new_request(struct core *core)
{
    struct request *request = core->requests.free;
    struct buffer body = {0}, answer = {0}, renewed = {0};
    if (request != NULL) {
        core->requests.free = request->next;
        core->requests.free_count--;
        /* The buffers keep their capacity, so that the usual request allocates
         * nothing. */
        body = request->body;
        answer = request->answer;
        renewed = request->renewed;
    } else {
        request = memory_new(sizeof *request);
    }
    *request = (struct request){
        .body = body, .answer = answer, .renewed = renewed};
    buffer_clear(&request->body);
    list_init(&request->in_list);
    list_init(&request->in_asker);
    request->received_ns = core->now_ns;
    request->clock.since_ns = core->now_ns;
    return request;
}

struct request *request_new_local(struct core *core, struct conn *conn)
{
    struct request *request = new_request(core);
    CHECK(!conn->is_closing);
    request->conn = conn;
    request->version = (uint8_t)conn->version;
    request->user = conn->user;
    request->secret_number = conn->secret;
    request->slot = conn_slot_new(conn, request);
    request->payer = conn->user != USER_ANYONE ? account_key_of_user(conn->user)
                                               : conn->stranger;
    in_flight_add(core, request);
    return request;
}

/* Returns a call with space for 'count' arguments. */
static struct call *new_call(struct core *core, uint32_t count)
{
    struct call *call = core->requests.free_calls;
    if (call != NULL) {
        core->requests.free_calls = call->next;
        core->requests.free_call_count--;
    } else {
        call = memory_new(sizeof *call);
    }
    ROOM(call->own, call->own_capacity, count);
    call->command = NULL;
    return call;
}

static void free_call(struct call *call)
{
    free(call->own);
    free(call);
}

void request_release_call(struct core *core, struct request *request)
{
    struct call *call = request->call;
    request->call = NULL;
    if (call == NULL) {
        return;
    }
    if (call->own_capacity > ARGUMENT_IDLE_COUNT ||
        core->requests.free_call_count >= FREE_COUNT_MAX) {
        free_call(call);
        return;
    }
    call->next = core->requests.free_calls;
    core->requests.free_calls = call;
    core->requests.free_call_count++;
}

/* Decodes the call from the body, a FORWARD that this node has written or
 * checked. */
static void request_decode(struct core *core, struct request *request)
{
    CHECK(request->call == NULL && request->body.size >= FRAME_HEADER_SIZE);
    struct call *call = new_call(core, request->count);
    struct frame_forward forward = {.argument = call->own};
    int error = frame_get_forward(
        bytes_of(request->body.data + FRAME_HEADER_SIZE,
                 request->body.size - FRAME_HEADER_SIZE),
        &forward);
    CHECK(error == 0 && forward.count == request->count);
    call->argument = call->own;
    call->count = request->count;
    request->call = call;
    request->address = forward.address;
    request->client = forward.client;
}

int request_new_remote(struct core *core, uint64_t peer, struct bytes body,
                       struct request **ret_request, uint64_t *ret_term)
{
    struct frame_forward forward = {.argument = NULL};
    int error = frame_get_forward(body, &forward);
    if (error != 0 || forward.count == 0) {
        return HASP_EPROTO;
    }
    struct request *request = new_request(core);
    request->peer = peer;
    request->peer_conn = forward.conn;
    request->slot = forward.slot;
    request->sending = forward.sending;
    request->session = forward.session;
    request->user = forward.user;
    request->secret_number = forward.secret;
    request->version = forward.version;
    request->count = forward.count;
    request->effect.earlier = forward.may_be_done;
    /* The peer's buffer is reused after this call, so the body is copied before
     * it is decoded: the call borrows from the copy. */
    size_t start = frame_begin(&request->body, FRAME_FORWARD);
    buffer_put_bytes(&request->body, body);
    frame_end(&request->body, start);
    request_decode(core, request);
    request->command = command_find(core, request->call->argument[0]);
    request->payer = forward.user != USER_ANYONE
                         ? account_key_of_user(forward.user)
                         : in_flight_stranger(request->address);
    in_flight_add(core, request);
    *ret_request = request;
    *ret_term = forward.term;
    return 0;
}

static void free_buffers(struct request *request)
{
    buffer_done(&request->body);
    buffer_done(&request->answer);
    buffer_done(&request->renewed);
}

void requests_free(struct core *core)
{
    while (core->requests.free != NULL) {
        struct request *request = core->requests.free;
        core->requests.free = request->next;
        free_buffers(request);
        free(request);
    }
    while (core->requests.free_calls != NULL) {
        struct call *call = core->requests.free_calls;
        core->requests.free_calls = call->next;
        free_call(call);
    }
    buffer_done(&core->requests.reply);
}

void request_keep(struct core *core, struct request *request,
                  const struct bytes *argument, uint32_t count)
{
    struct conn *conn = request->conn;
    struct frame_forward forward = {
        .conn = conn->id,
        .slot = request->slot,
        .user = request->user,
        .secret = request->secret_number,
        .version = request->version,
        .argument = (struct bytes *)argument,
        .count = count,
        .address = bytes_of_text(conn->address),
        .client = conn->name,
    };
    /* A request is kept only once. */
    CHECK(request->body.size == 0 && request->held_size == 0);
    CHECK(request->call == NULL);
    struct call *call = new_call(core, count);
    frame_keep_forward(&request->body, &forward, call->own);
    call->argument = call->own;
    call->count = count;
    request->call = call;
    request->address = forward.address;
    request->client = forward.client;
    request->count = count;
    request->held_size = request->body.size;
    conn_hold(core, conn, request->held_size);
}

bool request_understand(struct core *core, struct request *request)
{
    if (request->call == NULL) {
        request_decode(core, request);
    }
    struct call *call = request->call;
    return call->command != NULL ||
           request_understand_borrowed(core, request, call->argument,
                                       call->count);
}

bool request_understand_borrowed(struct core *core, struct request *request,
                                 const struct bytes *argument, uint32_t count)
{
    if (request->call == NULL) {
        request->call = new_call(core, 0);
    }
    enum core_word word = call_parse(request->call, request->command, argument,
                                     count, request_reply(core, request));
    if (word != WORD_NONE) {
        request->outcome.word = word;
        request_release_call(core, request);
        return false;
    }
    request->req = call_req(request, request->call);
    return true;
}

void request_move(struct core *core, struct request *request,
                  enum request_state state)
{
    CHECK(state > REQUEST_CHANGING && state != REQUEST_QUEUED);
    request_leave(core, request);
    if (state == REQUEST_READY &&
        (request->command->flags & COMMAND_KEEPS) != 0) {
        list_push_front(&core->requests.at[state], &request->in_list);
    } else {
        list_push_back(&core->requests.at[state], &request->in_list);
    }
    request->state = state;
    if (state == REQUEST_LOGGED && request->req != 0) {
        request->number = (struct request_number){request->session,
                                                  request->req};
        HASH_ADD(by_number, core->requests.by_number, number,
                 sizeof request->number, request);
    }
}

bool requests_are_logged(const struct core *core,
                         const struct request_number *number)
{
    const struct request *found;
    HASH_FIND(by_number, core->requests.by_number, number, sizeof *number,
              found);
    return found != NULL;
}

/* Removes a queued request from the chain of its wait. */
static void leave_wait(struct core *core, struct request *request)
{
    struct request *first;
    HASH_FIND(by_wait, core->requests.by_wait, &request->index,
              sizeof request->index, first);
    CHECK(first != NULL);
    /* The hash has only the first request of a chain: if that one leaves, the
     * next takes its place. */
    if (first == request) {
        HASH_DELETE(by_wait, core->requests.by_wait, request);
        struct request *next = request->next;
        if (next != NULL) {
            HASH_ADD(by_wait, core->requests.by_wait, index, sizeof next->index,
                     next);
        }
    } else {
        struct request *before = first;
        while (before->next != request) {
            before = before->next;
            CHECK(before != NULL);
        }
        before->next = request->next;
    }
    request->next = NULL;
}

void request_leave(struct core *core, struct request *request)
{
    slow_log_leave(core, request);
    list_remove(&request->in_list);
    if (request->state == REQUEST_QUEUED) {
        leave_wait(core, request);
        in_flight_add(core, request);
    }
    if (request->state == REQUEST_LOGGED && request->number.req != 0) {
        HASH_DELETE(by_number, core->requests.by_number, request);
        request->number.req = 0;
    }
    request->state = REQUEST_NEW;
    request->is_confirmed = false;
}

struct resp_writer *request_reply(struct core *core, struct request *request)
{
    core->requests.writer.version = request->version;
    if (request->conn != NULL) {
        core->requests.writer.out = conn_slot_output(core, request->conn,
                                                     request->slot);
    } else {
        buffer_clear(&core->requests.reply);
        core->requests.writer.out = &core->requests.reply;
    }
    core->requests.reply_start = core->requests.writer.out->size;
    return &core->requests.writer;
}

void request_done(struct core *core, struct request *request)
{
    request_done_as(core, request, ANSWER_REPLY, 0);
}

/* Stops counting the request's bytes. */
static void release_bytes(struct core *core, struct request *request)
{
    if (request->conn != NULL) {
        conn_give_back(core, request->conn, request->held_size);
        request->held_size = 0;
    }
}

static void free_request(struct core *core, struct request *request)
{
    release_bytes(core, request);
    request_release_call(core, request);
    free(request->authentication);
    request->authentication = NULL;
    CHECK(request->state == REQUEST_NEW);
    in_flight_remove(core, request);
    /* One large request must not keep its memory for as long as the process
     * lives. */
    if (request->body.capacity > BODY_IDLE_SIZE ||
        request->answer.capacity > BODY_IDLE_SIZE) {
        free_buffers(request);
    }
    if (core->requests.free_count >= FREE_COUNT_MAX) {
        free_buffers(request);
        free(request);
        return;
    }
    request->next = core->requests.free;
    core->requests.free = request;
    core->requests.free_count++;
}

static struct bytes reply_at_hand(const struct core *core)
{
    const struct buffer *out = core->requests.writer.out;
    return bytes_of(out->data + core->requests.reply_start,
                    out->size - core->requests.reply_start);
}

/* The size of a reply depends on what clients have put into the state: a reply
 * too large for a frame becomes an error. */
static void bound_reply(struct core *core, struct request *request)
{
    struct buffer *reply = &core->requests.reply;
    size_t max = core->options.limits.reply_size;
    if (reply->size <= (max != 0 ? max : FRAME_REPLY_SIZE_MAX)) {
        return;
    }
    buffer_clear(reply);
    struct resp_writer writer = {reply, request->version};
    enum core_word word = request->outcome.has_changed ? WORD_UNKNOWN
                                                       : WORD_LIMIT;
    request->outcome.word = word;
    word_put(&writer, word, "%s",
             word == WORD_UNKNOWN
                 ? "the request took effect, but its answer is too large to "
                   "be forwarded"
                 : "the answer is too large to be forwarded: ask the leader "
                   "directly, or ask for less");
}

static void answer_remote(struct core *core, struct request *request,
                          enum frame_answer_kind kind, uint64_t session)
{
    struct buffer *out = peer_output(core, request->peer, FRAME_ANSWER);
    if (out == NULL) {
        return;
    }
    bound_reply(core, request);
    struct frame_answer answer = {
        .conn = request->peer_conn,
        .slot = request->slot,
        .sending = request->sending,
        .kind = kind,
        .session = session,
        .word = (uint8_t)request->outcome.word,
        .has_changed = request->outcome.has_changed,
        .waited_ms = slow_log_wait_ms(request),
        .reply = buffer_bytes(&core->requests.reply),
    };
    frame_put_answer(out, &answer);
}

/* The value of TRACE after the argument 'at'. The call need not be parsed, so
 * the word can be another option's value; then no valid trace follows it. */
static struct bytes trace_given(const struct call *call, uint32_t at)
{
    while (++at + 1 < call->count) {
        if (bytes_is_word(call->argument[at], "TRACE")) {
            return call->argument[at + 1];
        }
    }
    return (struct bytes){NULL, 0};
}

static void request_log_if_slow(struct core *core, struct request *request)
{
    struct slow_texts texts = {.client = request_client(request),
                               .from = request_address(request)};
    uint64_t took_ns = slow_log_took_ns(core, request);
    if (took_ns == 0) {
        return;
    }
    uint32_t at = slow_log_name_at(request->command);
    /* The call is gone if it was not needed; the kept arguments are not. */
    if (at != 0 && request->call == NULL && request->body.size > 0) {
        request_decode(core, request);
    }
    if (at != 0 && request->call != NULL && at < request->call->count) {
        texts.lock = request->call->argument[at];
        texts.trace = trace_given(request->call, at);
    }
    slow_log_add(core, request, &texts, took_ns);
}

void request_done_as(struct core *core, struct request *request,
                     enum frame_answer_kind kind, uint64_t session)
{
    CHECK(core->requests.writer.out->size >= core->requests.reply_start);
    request_leave(core, request);
    request_log_if_slow(core, request);
    struct conn *conn = request->conn;
    uint64_t slot = request->slot;
    if (conn == NULL && request->peer != 0) {
        answer_remote(core, request, kind, session);
    }
    if (conn != NULL && kind == ANSWER_WATCHED) {
        struct resp_writer *writer = &core->requests.writer;
        transaction_watched(conn, reply_at_hand(core));
        writer->out->size = core->requests.reply_start;
        resp_simple(writer, "OK");
    }
    if (conn != NULL) {
        stats_answered(core, request, reply_at_hand(core));
    }
    if (conn != NULL) {
        conn->is_known |= request->outcome.has_changed;
    }
    if (kind == ANSWER_ATTACHED) {
        attach_answered(core, request, session);
    } else if (kind == ANSWER_ENDED && conn != NULL) {
        attach_remove(core, conn, session);
    }
    free_request(core, request);
    /* Last, and after the request is freed: answering may unblock the
     * connection, end it, or unpark its next request. */
    if (conn != NULL) {
        conn_slot_done(core, conn, slot);
    }
}

void request_answer_ok(struct core *core, struct request *request)
{
    resp_simple(request_reply(core, request), "OK");
    request_done(core, request);
}

void request_answer_integer(struct core *core, struct request *request,
                            int64_t value)
{
    resp_integer(request_reply(core, request), value);
    request_done(core, request);
}

static bool is_change(const struct request *request)
{
    return (request->command->flags & COMMAND_CHANGE) != 0;
}

void request_mark_sent(struct request *request)
{
    request->effect.earlier |= is_change(request);
}

void request_mark_logged(struct request *request)
{
    request->effect.own |= is_change(request);
}

bool request_may_be_done(const struct request *request)
{
    return request->effect.earlier || request->effect.own;
}

void request_has_changed(struct request *request)
{
    request->outcome.has_changed = true;
}

bool request_may_go_on(const struct request *request)
{
    uint32_t flags = request->command->flags;
    /* A transfer asks for a new leader, so it continues with that one. */
    return !request_may_be_done(request) || request->req != 0 ||
           (flags & (COMMAND_REPEATABLE | COMMAND_TRANSFERS)) != 0;
}

#define NOT_KNOWN "; whether this took effect is not known"

/* The only function that refuses. An error about the arguments names the
 * command. */
static void refuse_with(struct core *core, struct request *request,
                        enum core_word word, struct bytes why,
                        const char *promise)
{
    char name[64] = "";
    bool is_named = word == WORD_BADARG;
    if (is_named) {
        command_name(request->command, name, sizeof name);
    }
    request->outcome = (struct outcome){.word = word};
    word_put(request_reply(core, request), word, "%s%s%.*s%s", name,
             is_named ? ": " : "", (int)why.size, (const char *)why.data,
             promise);
    request_done(core, request);
}

bool request_refuse(struct core *core, struct request *request,
                    enum core_word word, const char *why)
{
    const char *promise = "";
    if (request_may_be_done(request)) {
        word = WORD_UNKNOWN;
        promise = NOT_KNOWN;
    } else if (word == WORD_BUSY) {
        promise = "; nothing was done, try later";
    } else if (word == WORD_NOLEADER || word == WORD_LEVEL) {
        promise = "; nothing was done";
    }
    refuse_with(core, request, word, bytes_of_text(why), promise);
    return false;
}

void request_fail(struct core *core, struct request *request,
                  enum core_word word, struct bytes text)
{
    bool is_unknown = request_may_be_done(request) && word_denies_effect(word);
    refuse_with(core, request, is_unknown ? WORD_UNKNOWN : word, text,
                is_unknown ? NOT_KNOWN : "");
}

void request_misunderstood(struct core *core, struct request *request)
{
    if (request_may_be_done(request)) {
        request_refuse(core, request, WORD_BADARG,
                       "this leader's version does not support it");
    } else {
        request_done(core, request);
    }
}

void request_return(struct core *core, struct request *request)
{
    /* From now on what this leader has logged counts as an earlier leader's. */
    request->effect.earlier |= request->effect.own;
    request->effect.own = false;
    if (request->conn != NULL && request_may_go_on(request)) {
        request->deadline_ns = core->now_ns + LEADER_WAIT_NS;
        request->not_before_ns = 0;
        request_move(core, request, REQUEST_PARKED);
        return;
    }
    if (request->conn != NULL) {
        request_refuse(core, request, WORD_NOLEADER, "the leader changed");
        return;
    }
    request_leave(core, request);
    buffer_clear(&core->requests.reply);
    if (request->peer != 0) {
        answer_remote(core, request,
                      request_may_be_done(request) ? ANSWER_UNKNOWN
                                                   : ANSWER_NOT_LEADER,
                      0);
    }
    free_request(core, request);
}

void request_drop(struct core *core, struct request *request)
{
    request_leave(core, request);
    free_request(core, request);
}

void request_abandon(struct core *core, struct request *request)
{
    if (request->conn == NULL) {
        request_drop(core, request);
    } else {
        request_return(core, request);
    }
}

void request_wait(struct core *core, struct request *request,
                  uint64_t wait_index)
{
    struct request *first;
    CHECK(wait_index != 0 && request->state == REQUEST_LOGGED);
    request_leave(core, request);
    request->index = wait_index;
    HASH_FIND(by_wait, core->requests.by_wait, &wait_index, sizeof wait_index,
              first);
    if (first != NULL) {
        request->next = first->next;
        first->next = request;
    } else {
        request->next = NULL;
        HASH_ADD(by_wait, core->requests.by_wait, index, sizeof request->index,
                 request);
    }
    list_push_back(&core->requests.at[REQUEST_QUEUED], &request->in_list);
    request->state = REQUEST_QUEUED;
    /* A wait can last for days: the state's limits bound it, and it must not
     * use up the requests in flight. */
    in_flight_remove(core, request);
}

struct request *requests_end_wait(struct core *core, uint64_t wait_index)
{
    struct request *first;
    HASH_FIND(by_wait, core->requests.by_wait, &wait_index, sizeof wait_index,
              first);
    if (first != NULL) {
        HASH_DELETE(by_wait, core->requests.by_wait, first);
    }
    for (struct request *one = first; one != NULL; one = one->next) {
        CHECK(one->state == REQUEST_QUEUED && one->index == wait_index);
        slow_log_leave(core, one);
        list_remove(&one->in_list);
        one->state = REQUEST_NEW;
        in_flight_add(core, one);
    }
    return first;
}

void request_orphan(struct core *core, struct request *request)
{
    CHECK(request->conn != NULL || request->peer != 0);
    release_bytes(core, request);
    if (request->conn != NULL) {
        request->peer_conn = request->conn->id;
    }
    request->conn = NULL;
    request->peer = 0;
    switch (request->state) {
    case REQUEST_LOGGED:
    case REQUEST_CHANGING:
    case REQUEST_SNAPSHOT:
        /* The log has its entry, or may have it: the result must still be
         * handled. */
        break;
    default:
        request_drop(core, request);
    }
}

struct bytes request_client(const struct request *request)
{
    if (request->conn != NULL) {
        return request->conn->name;
    }
    return request->client;
}

struct bytes request_address(const struct request *request)
{
    if (request->conn != NULL) {
        return bytes_of_text(request->conn->address);
    }
    return request->address;
}
