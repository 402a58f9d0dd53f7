/* SPDX-License-Identifier: MIT */

/* How the changes of locks are written. */

#include "base/units.h"
#include "client/change.h"

/* How long a wait of a session without end lasts, counted anew each time it is
 * asked for: otherwise nobody would end the wait of a client that has died. */
#define ENDLESS_WAIT_MS (UINT64_C(4) * LOOK_MS)
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

void change_write_number(const struct change *change, struct query *query)
{
    struct machine *machine = change->machine;
    query_option(query, "SESSION", machine->credentials.session);
    numbers_write(&machine->numbers, change->owner, change->number, query);
}

static void write_release(struct change *change)
{
    struct query *query = &change->ask.query;
    write_names(change, "LOCK.RELEASE", "LOCK.MRELEASE");
    if (change->grants[0].token == 0) {
        return;
    }
    query_text(query, change->count == 1 ? "TOKEN" : "TOKENS");
    for (size_t i = 0; i < change->count; i++) {
        query_number(query, change->grants[i].token);
    }
}

static void write_convert(struct change *change)
{
    struct query *query = &change->ask.query;
    query_begin(query, "LOCK.CONVERT");
    query_text(query, change->names[0]);
    query_text(query,
               change->options.mode == HASP_SHARED ? "SHARED" : "EXCLUSIVE");
    query_option(query, "TOKEN", change->token);
    query_text(query, "FULL");
}

void change_write(struct asking *ask, struct lease_clock now)
{
    struct change *change = ask->data;
    switch (change->kind) {
    case CHANGE_ACQUIRE:
        write_acquire(change);
        write_wait(&ask->query, wait_left_ms(change, now.monotonic_ns));
        break;
    case CHANGE_CONVERT:
        write_convert(change);
        write_wait(&ask->query, wait_left_ms(change, now.monotonic_ns));
        break;
    case CHANGE_RELEASE:
        write_release(change);
        break;
    case CHANGE_RESUME:
    case CHANGE_QUERY:
        return; /* It was written before. */
    }
    change_write_number(change, &ask->query);
}
