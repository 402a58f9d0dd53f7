/* SPDX-License-Identifier: MIT */

/* A change as it goes over the wire: its words, the same ones again under the
 * same number after a lost answer, and what the answer means. */

#include <stdlib.h>
#include <string.h>

#include "client/hasp_session.h"

/* A wait is asked for anew, keeping its place, when its node has been silent
 * for so long: it may be paused, which no time-out of TCP notices. */
#define SILENCE_MS 15000
/* Beyond the wait itself: for its answer to come. */
#define ANSWER_MS 2000

static void write_change(struct change *change, uint64_t wait_ms);
static int ask(struct change *change, uint64_t deadline_ns, int interrupt_fd,
               struct change_result *result);

static void done(struct change *change)
{
    query_done(&change->query);
    for (size_t i = 0; change->names != NULL && i < change->count; i++) {
        free(change->names[i]);
    }
    free(change->names);
    free(change->value);
    free(change);
}

int change_new(struct hasp_session *session, enum change_kind kind,
               struct owner *owner, const char *const *names, size_t count,
               const struct hasp_acquire_options *options,
               struct change **ret_change)
{
    struct change *change = calloc(1, sizeof *change);
    if (change == NULL) {
        return why_set(HASP_ENOMEM, "out of memory");
    }
    change->session = session;
    change->kind = kind;
    change->owner = owner;
    change->count = count;
    list_init(&change->in_session);
    bool is_ok = true;
    if (options != NULL) {
        change->options = *options;
        if (options->value != NULL) {
            change->value = strdup(options->value);
            is_ok = change->value != NULL;
        }
    }
    change->names = calloc(count, sizeof *change->names);
    is_ok = is_ok && change->names != NULL;
    for (size_t i = 0; is_ok && i < count; i++) {
        change->names[i] = strdup(names[i]);
        is_ok = change->names[i] != NULL;
    }
    int error = is_ok ? owner_begin(session, owner, &change->number)
                      : why_set(HASP_ENOMEM, "out of memory");
    if (error != 0) {
        done(change);
        return error;
    }
    *ret_change = change;
    return 0;
}

void change_free(struct change *change)
{
    owner_end(change->session, change->owner, change->number);
    done(change);
}

/* What is left of the wait; nothing, once it is over: that asks for the outcome
 * and gives the place up. */
static uint64_t wait_left_ms(const struct change *change)
{
    if (change->end_ns == UINT64_MAX) {
        return HASP_FOREVER;
    }
    uint64_t now_ns = client_now_ns();
    return now_ns < change->end_ns
               ? (change->end_ns - now_ns - 1) / NS_PER_MS + 1
               : 0;
}

static uint64_t patience_ms(uint64_t wait_ms)
{
    if (wait_ms == 0) {
        return 0; /* client_ask() knows. */
    }
    return wait_ms < SILENCE_MS - ANSWER_MS ? wait_ms + ANSWER_MS : SILENCE_MS;
}

static void ask_again(void *data)
{
    struct change *change = data;
    uint64_t left_ms = wait_left_ms(change);
    write_change(change, left_ms);
    change->ask.attempt_ms = patience_ms(left_ms);
}

int change_ask(struct change *change, uint64_t wait_ms, int interrupt_fd,
               struct change_result *result)
{
    uint64_t now_ns = client_now_ns();
    uint64_t timeout_ns = change->session->timeout_ms * NS_PER_MS;
    uint64_t room_ns = UINT64_MAX - now_ns - timeout_ns;
    bool is_endless = wait_ms >= room_ns / NS_PER_MS;
    change->end_ns = is_endless ? UINT64_MAX : now_ns + wait_ms * NS_PER_MS;
    change->first_sent = client_clock_read();
    ask_again(change);
    return ask(change, is_endless ? UINT64_MAX : change->end_ns + timeout_ns,
               interrupt_fd, result);
}

int change_go_on(struct change *change, int interrupt_fd,
                 struct change_result *result)
{
    uint64_t timeout_ns = change->session->timeout_ms * NS_PER_MS;
    bool is_endless = change->end_ns == UINT64_MAX;
    change->leaves_node = true;
    ask_again(change);
    int error = ask(change,
                    is_endless ? UINT64_MAX : change->end_ns + timeout_ns,
                    interrupt_fd, result);
    change->leaves_node = false;
    return error;
}

int change_withdraw(struct change *change, uint64_t deadline_ns,
                    int interrupt_fd, struct change_result *result)
{
    change->end_ns = 0;
    ask_again(change);
    return ask(change, deadline_ns, interrupt_fd, result);
}

bool change_is_open(int error)
{
    /* After these nothing was done by the attempts that count here, but an
     * earlier one may have been. */
    return error == HASP_EUNKNOWN || error == HASP_EINTR ||
           error == HASP_ECONNECT || error == HASP_ENOTLEADER ||
           error == HASP_EBUSY || error == HASP_EPROTO;
}

static void write_names(struct change *change, const char *one,
                        const char *many)
{
    query_begin(&change->query, change->count == 1 ? one : many);
    if (change->count > 1) {
        query_number(&change->query, change->count);
    }
    for (size_t i = 0; i < change->count; i++) {
        query_text(&change->query, change->names[i]);
    }
}

static void write_acquire(struct change *change)
{
    const struct hasp_acquire_options *options = &change->options;
    struct query *query = &change->query;
    write_names(change, "LOCK.ACQUIRE", "LOCK.MACQUIRE");
    if (options->mode == HASP_SHARED) {
        query_text(query, "SHARED");
    } else if (options->mode == HASP_SLOTS) {
        query_text(query, "SLOTS");
        query_number(query, options->slots);
    }
    if (change->value != NULL) {
        query_text(query, "VALUE");
        query_text(query, change->value);
    }
    if (options->delay_ms != 0) {
        query_text(query, "DELAY");
        query_number(query, options->delay_ms);
    }
    if (options->hold_ms != 0) {
        query_text(query, "HOLD");
        query_number(query, options->hold_ms);
    }
    if (options->is_barging) {
        query_text(query, "BARGE");
    }
}

static void write_change(struct change *change, uint64_t wait_ms)
{
    struct query *query = &change->query;
    switch (change->kind) {
    case CHANGE_ACQUIRE:
        write_acquire(change);
        break;
    case CHANGE_CONVERT:
        query_begin(query, "LOCK.CONVERT");
        query_text(query, change->names[0]);
        query_text(query, change->options.mode == HASP_SHARED ? "SHARED"
                                                              : "EXCLUSIVE");
        break;
    case CHANGE_RELEASE:
        write_names(change, "LOCK.RELEASE", "LOCK.MRELEASE");
        if (change->token != 0) {
            query_text(query, "TOKEN");
            query_number(query, change->token);
        }
        break;
    }
    if (wait_ms != 0 && change->kind != CHANGE_RELEASE) {
        query_text(query, "WAIT");
        if (wait_ms == HASP_FOREVER) {
            query_text(query, "FOREVER");
        } else {
            query_number(query, wait_ms);
        }
    }
    owner_write(change->session, change->owner, change->number, query);
}

/* "token", or "[token, ...]", or nil. */
static int read_result(const struct change *change,
                       const struct resp_reply *reply,
                       struct change_result *result)
{
    const struct resp_value *value = reply->value;
    result->is_granted = false;
    if (value->type == RESP_NULL && change->kind != CHANGE_RELEASE) {
        return 0;
    }
    if (change->kind == CHANGE_RELEASE) {
        if (value->type != RESP_INTEGER) {
            return HASP_EPROTO;
        }
        /* Of one lock the number says what is left; of several, how many. */
        return change->count > 1 && (uint64_t)value->integer < change->count
                   ? HASP_ENOTHELD
                   : 0;
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
        result->tokens[i] = (uint64_t)token->integer;
    }
    result->is_granted = true;
    return 0;
}

static int ask(struct change *change, uint64_t deadline_ns, int interrupt_fd,
               struct change_result *result)
{
    struct hasp_session *session = change->session;
    struct line *line;
    const struct resp_reply *reply;
    int error = line_take(session, &line);
    if (error != 0) {
        return error;
    }
    if (change->leaves_node) {
        client_drop(line->client);
    }
    client_set_interrupt(line->client, interrupt_fd);
    change->ask.deadline_ns = deadline_ns;
    change->ask.ret_sent = &change->sent;
    change->ask.is_repeatable = true;
    change->ask.again = ask_again;
    change->ask.again_data = change;
    error = client_ask(line->client, &change->query, &change->ask, &reply);
    if (error != 0) {
        change->is_forgotten = error == HASP_EREPLY &&
                               strcmp(client_code(line->client), "FORGOTTEN") ==
                                   0;
        error = line_error(session, line, error);
    } else {
        error = read_result(change, reply, result);
        if (error != 0) {
            why_set(error, "%s",
                    error == HASP_ENOTHELD
                        ? "some of these locks were not held any more"
                        : "the answer is not what was asked for");
        }
    }
    line_put(session, line);
    return error;
}
