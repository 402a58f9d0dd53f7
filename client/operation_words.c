/* SPDX-License-Identifier: MIT */

/* Writes the requests of operations on locks. */

#include "base/units.h"
#include "client/operation.h"

/* Length of a wait of a durable session, restarted at each request: otherwise
 * the wait of a dead client would never end. */
#define ENDLESS_WAIT_MS (UINT64_C(4) * LOOK_MS)
/* How long the wait still lasts; 0 once it is over, which asks for the outcome
 * and gives the place up. */
static uint64_t wait_left_ms(const struct operation *operation, uint64_t now_ns)
{
    if (operation->step == STEP_WITHDRAW || operation->step == STEP_SETTLE) {
        return 0;
    }
    if (operation->end_ns == UINT64_MAX) {
        return operation->fsm->lease.is_endless ? ENDLESS_WAIT_MS
                                                : HASP_FOREVER;
    }
    return now_ns < operation->end_ns
               ? (operation->end_ns - now_ns - 1) / NS_PER_MS + 1
               : 0;
}

static void write_names(struct operation *operation, const char *one,
                        const char *many)
{
    query_begin(&operation->ask.query, operation->count == 1 ? one : many);
    if (operation->count > 1) {
        query_number(&operation->ask.query, operation->count);
    }
    for (size_t i = 0; i < operation->count; i++) {
        query_text(&operation->ask.query, operation->names[i]);
    }
}

static void write_acquire(struct operation *operation)
{
    const struct hasp_acquire_options *options = &operation->options;
    struct query *query = &operation->ask.query;
    write_names(operation, "LOCK.ACQUIRE", "LOCK.MACQUIRE");
    if (options->mode == HASP_SHARED) {
        query_text(query, "SHARED");
    }
    query_option(query, "SLOTS", options->slots);
    if (operation->value != NULL) {
        query_text(query, "VALUE");
        query_text(query, operation->value);
    }
    if (operation->trace != NULL) {
        query_text(query, "TRACE");
        query_text(query, operation->trace);
    }
    query_option(query, "DELAY", options->delay_ms);
    query_option(query, "HOLD", options->hold_ms);
    if (options->is_barging) {
        query_text(query, "BARGE");
    }
    query_text(query, "FULL");
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

void operation_write_number(const struct operation *operation,
                            struct query *query)
{
    struct session_fsm *fsm = operation->fsm;
    query_option(query, "SESSION", fsm->credentials.session);
    request_numbers_write(&fsm->numbers, operation->owner, operation->number,
                          query);
}

static void write_release(struct operation *operation)
{
    struct query *query = &operation->ask.query;
    write_names(operation, "LOCK.RELEASE", "LOCK.MRELEASE");
    if (operation->grants[0].token == 0) {
        return;
    }
    query_text(query, operation->count == 1 ? "TOKEN" : "TOKENS");
    for (size_t i = 0; i < operation->count; i++) {
        query_number(query, operation->grants[i].token);
    }
}

static void write_convert(struct operation *operation)
{
    struct query *query = &operation->ask.query;
    query_begin(query, "LOCK.CONVERT");
    query_text(query, operation->names[0]);
    query_text(query,
               operation->options.mode == HASP_SHARED ? "SHARED" : "EXCLUSIVE");
    query_option(query, "TOKEN", operation->token);
    query_text(query, "FULL");
}

void operation_write(struct client_request *ask, struct lease_clock now)
{
    struct operation *operation = ask->data;
    switch (operation->kind) {
    case OPERATION_ACQUIRE:
        write_acquire(operation);
        write_wait(&ask->query, wait_left_ms(operation, now.monotonic_ns));
        break;
    case OPERATION_CONVERT:
        write_convert(operation);
        write_wait(&ask->query, wait_left_ms(operation, now.monotonic_ns));
        break;
    case OPERATION_RELEASE:
        write_release(operation);
        break;
    case OPERATION_RESUME:
    case OPERATION_QUERY:
        return; /* It was written before. */
    }
    operation_write_number(operation, &ask->query);
}
