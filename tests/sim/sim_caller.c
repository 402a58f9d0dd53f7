/* SPDX-License-Identifier: MIT */

/* What the callers of a program choose to do, and how they call the machine. */

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "tests/sim/sim_check.h"
#include "tests/sim/sim_pairs.h"
#include "tests/sim/sim_program.h"

void sim_caller_reset(struct sim_caller *caller, struct sim_program *program,
                      uint32_t number)
{
    *caller = (struct sim_caller){.program = program, .number = number};
    snprintf(caller->tag, sizeof caller->tag, "t%u", number);
    caller->think_until_ns = program->sim->now_ns +
                             sim_between(program->sim, 0, 300) * SIM_MS;
}

static uint32_t held_count(const struct sim_caller *caller)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < HOLD_MAX; i++) {
        count += caller->hold[i].hold != NULL;
    }
    return count;
}

bool sim_caller_is_idle(const struct sim_caller *caller)
{
    return caller->kind == CALL_NONE && held_count(caller) == 0;
}

static struct sim_hold *any_hold(struct sim_caller *caller)
{
    uint64_t pick = prng_below(&caller->program->sim->prng, held_count(caller));
    for (uint32_t i = 0; i < HOLD_MAX; i++) {
        if (caller->hold[i].hold != NULL && pick-- == 0) {
            return &caller->hold[i];
        }
    }
    return NULL;
}

/* The mode in which the caller's own name already holds the lock, since the
 * next request must repeat it; NULL: it does not hold it. */
static const enum hasp_mode *held_mode(const struct sim_caller *caller,
                                       uint32_t lock)
{
    for (uint32_t i = 0; i < HOLD_MAX; i++) {
        const struct sim_hold *held = &caller->hold[i];
        for (uint32_t k = 0; held->hold != NULL && k < held->count; k++) {
            if (held->lock[k] == lock && strcmp(held->tag, caller->tag) == 0) {
                return &held->mode[k];
            }
        }
    }
    return NULL;
}

bool sim_caller_has(const struct sim_caller *caller, uint32_t lock)
{
    return held_mode(caller, lock) != NULL;
}

static bool is_own(const struct sim_caller *caller, const struct sim_hold *held)
{
    return strcmp(held->tag, caller->tag) == 0;
}

/* --- Calling -------------------------------------------------------------- */

static void told(struct client_call *call)
{
    struct sim_caller *caller = call->data;
    if (caller->kind == CALL_NONE || caller->is_told) {
        sim_fail(caller->program->sim, ORACLE_RESULTS,
                 "a call ends once: t%u of %s ended again", caller->number,
                 caller->program->client->host.name);
    }
    caller->is_told = true;
}

static void begin(struct sim_caller *caller, enum call_kind kind)
{
    struct sim *sim = caller->program->sim;
    caller->kind = kind;
    caller->is_told = caller->is_interrupted = false;
    caller->was_believed = caller->is_own = caller->is_pushed = false;
    caller->number_of_call = 0;
    caller->connection = caller->program->line->is_connected
                             ? caller->program->line->asker.number
                             : 0;
    caller->newest = sim_check_newest(sim);
    caller->since_ns = sim->now_ns;
    caller->call = (struct client_call){.done = told, .data = caller};
}

/* 'error' is the result of machine_...(): memory is sufficient, so the call has
 * begun. */
static void begun(struct sim_caller *caller, bool has_number, int error)
{
    struct sim_program *program = caller->program;
    CHECK(error == 0);
    if (has_number) {
        caller->number_of_call = program->machine.numbers.newest;
    }
    sim_note(program->sim, &program->client->host, "calls", caller->number,
             (uint64_t)caller->kind * 100 + caller->lock[0],
             caller->number_of_call);
}

static struct lease_clock now(const struct sim_caller *caller)
{
    return sim_client_clock(caller->program->client);
}

static void acquire(struct sim_caller *caller)
{
    const char *names[2];
    for (uint32_t i = 0; i < caller->count; i++) {
        names[i] = sim_lock_name(caller->lock[i]);
    }
    begin(caller, CALL_ACQUIRE);
    caller->is_own = caller->options.owner != NULL;
    for (uint32_t i = 0; caller->is_own && i < caller->count; i++) {
        sim_pairs_object(caller, caller->lock[i]);
    }
    begun(caller, true,
          session_fsm_acquire(&caller->program->machine, names, caller->count,
                              &caller->options, &caller->call, now(caller)));
}

/* Belief ends here, whatever the answer will be. */
static void release(struct sim_caller *caller, struct sim_hold *held)
{
    struct hasp_hold *hold = held->hold;
    begin(caller, CALL_RELEASE);
    caller->is_own = is_own(caller, held);
    caller->count = held->count;
    memcpy(caller->lock, held->lock, sizeof caller->lock);
    caller->was_believed = !held->has_limit &&
                           sim_program_trusts(caller->program);
    held->hold = NULL;
    begun(caller, true,
          session_fsm_release(&caller->program->machine, hold, &caller->call,
                              now(caller)));
}

/* However often its owner has acquired the lock, it is one hold. */
static void set_mode(struct sim_caller *caller, const struct sim_hold *held,
                     enum hasp_mode mode)
{
    for (uint32_t i = 0; i < HOLD_MAX; i++) {
        struct sim_hold *other = &caller->hold[i];
        for (uint32_t k = 0; other->hold != NULL && k < other->count; k++) {
            if (other->lock[k] == held->lock[0] &&
                strcmp(other->tag, held->tag) == 0) {
                other->mode[k] = mode;
            }
        }
    }
}

static void convert(struct sim_caller *caller, struct sim_hold *held)
{
    struct sim *sim = caller->program->sim;
    bool is_down = held->mode[0] == HASP_EXCLUSIVE;
    begin(caller, CALL_CONVERT);
    caller->is_own = is_own(caller, held);
    caller->held = held;
    caller->count = 1;
    caller->lock[0] = held->lock[0];
    caller->was_believed = !held->has_limit &&
                           sim_program_trusts(caller->program);
    caller->options = (struct hasp_acquire_options){
        .size = sizeof caller->options,
        .mode = is_down ? HASP_SHARED : HASP_EXCLUSIVE,
        .wait_ms = sim_chance(sim, 0.7) ? sim_between(sim, 20, 2000) : 0,
        .interrupt_fd = -1};
    if (is_down) {
        set_mode(caller, held, HASP_SHARED);
    }
    begun(caller, true,
          session_fsm_convert(&caller->program->machine, held->hold,
                              &caller->options, &caller->call, now(caller)));
}

static void ask(struct sim_caller *caller, enum call_kind kind)
{
    struct sim *sim = caller->program->sim;
    struct query query = {0};
    uint32_t lock = caller->lock[0];
    bool is_change = kind != CALL_CHECK;
    begin(caller, kind);
    query_begin(&query, kind == CALL_CHECK   ? "LOCK.CHECK"
                        : kind == CALL_ADMIT ? "FENCE.ADMIT"
                                             : "LOCK.PLEASE");
    query_text(&query, sim_lock_name(lock));
    if (kind != CALL_PLEASE) {
        query_number(&query, caller->token);
    }
    if (kind == CALL_ADMIT) {
        caller->floor = sim->fence_admitted[lock];
        if (sim->fence_asked[lock] < caller->token) {
            sim->fence_asked[lock] = caller->token;
        }
    }
    begun(caller, is_change,
          session_fsm_query(&caller->program->machine, &query, is_change,
                            &caller->call, now(caller)));
}

/* NOTE, and what an operator does to a hold, requested by its owner. */
static void ask_about(struct sim_caller *caller, enum call_kind kind,
                      const struct sim_hold *held)
{
    static const char *const words[] = {[CALL_NOTE] = "LOCK.NOTE",
                                        [CALL_TAKE] = "LOCK.RELEASEIF",
                                        [CALL_BREAK] = "LOCK.BREAK",
                                        [CALL_BLACKLIST] = "BLACKLIST.ADD"};
    struct sim *sim = caller->program->sim;
    struct query query = {0};
    bool is_change = kind == CALL_NOTE;
    begin(caller, kind);
    caller->is_own = is_own(caller, held);
    caller->was_believed = kind == CALL_NOTE && !held->has_limit &&
                           sim_program_trusts(caller->program);
    caller->lock[0] = held->lock[0];
    caller->count = 1;
    query_begin(&query, words[kind]);
    if (kind != CALL_BLACKLIST) {
        query_text(&query, sim_lock_name(held->lock[0]));
    }
    if (kind == CALL_NOTE) {
        query_number(&query, held->hold->held[0].token);
        query_text(&query, sim_chance(sim, 0.5) ? "a note" : "");
    }
    if (kind == CALL_NOTE || kind == CALL_TAKE) {
        query_text(&query, "OWNER");
        query_text(&query, held->tag);
    }
    if (kind == CALL_TAKE) {
        query_option(&query, "TOKEN", held->hold->held[0].token);
    }
    if (kind == CALL_BREAK) {
        query_option(&query, "AFTER", sim_between(sim, 20, 300));
    }
    if (kind == CALL_BLACKLIST) {
        query_option(&query, "FOR", sim_between(sim, 100, 3000));
    }
    if (!is_change) {
        query_option(&query, "SESSION", caller->program->session);
    }
    begun(caller, is_change,
          session_fsm_query(&caller->program->machine, &query, is_change,
                            &caller->call, now(caller)));
}

/* --- Choosing ------------------------------------------------------------- */

static void choose_mode(struct sim_caller *caller, uint32_t lock)
{
    struct sim *sim = caller->program->sim;
    struct hasp_acquire_options *options = &caller->options;
    const enum hasp_mode *held = options->owner != NULL
                                     ? held_mode(caller, lock)
                                     : NULL;
    if (sim_lock_is_slots(lock)) {
        options->mode = HASP_SLOTS;
        options->slots = SLOT_COUNT;
    } else if (sim_lock_is_shared(lock) && sim_chance(sim, 0.6)) {
        options->mode = HASP_SHARED;
    }
    if (held != NULL) {
        options->mode = *held;
    }
}

/* Adds a second lock to the request; both are exclusive. */
static void choose_second(struct sim_caller *caller)
{
    uint32_t second = (uint32_t)prng_below(&caller->program->sim->prng,
                                           caller->program->client->lock_count);
    if (second != caller->lock[0] && !sim_lock_is_slots(second)) {
        caller->lock[1] = second;
        caller->count = 2;
        caller->options.mode = HASP_EXCLUSIVE;
    }
}

static void choose_acquire(struct sim_caller *caller)
{
    struct sim *sim = caller->program->sim;
    struct hasp_acquire_options *options = &caller->options;
    static const uint64_t waits_ms[] = {0, 4000, 4000, HASP_FOREVER};
    uint32_t lock = (uint32_t)prng_below(&sim->prng,
                                         caller->program->client->lock_count);
    *options = (struct hasp_acquire_options){.size = sizeof *options,
                                             .interrupt_fd = -1};
    caller->lock[0] = lock;
    caller->count = 1;
    options->owner = sim_chance(sim, 0.4) ? caller->tag : NULL;
    options->wait_ms = waits_ms[prng_below(&sim->prng, 4)];
    if (options->wait_ms == 4000) {
        options->wait_ms = sim_between(sim, 20, 4000);
    }
    choose_mode(caller, lock);
    bool is_new = options->owner == NULL || held_mode(caller, lock) == NULL;
    options->is_barging = is_new && sim_chance(sim, 0.03);
    if (held_count(caller) == 0 && !sim_lock_is_slots(lock) &&
        sim_chance(sim, 0.15)) {
        choose_second(caller);
    } else if (is_new && sim_chance(sim, 0.08)) {
        options->hold_ms = sim_between(sim, 300, 4000);
    }
    if (is_new && sim_chance(sim, 0.1)) {
        options->delay_ms = sim_between(sim, 100, 2000);
    }
    if (sim_chance(sim, 0.2)) {
        snprintf(caller->value, sizeof caller->value, "value %" PRIu64,
                 prng_next(&sim->prng) % 1000);
        options->value = caller->value;
    }
    acquire(caller);
}

/* As choose_acquire(), in a run of pairs: mostly under its own name, for locks
 * that it already holds, with any options. */
static void choose_own(struct sim_caller *caller, uint32_t lock)
{
    struct sim *sim = caller->program->sim;
    struct hasp_acquire_options *options = &caller->options;
    *options = (struct hasp_acquire_options){
        .size = sizeof *options, .owner = caller->tag, .interrupt_fd = -1};
    caller->lock[0] = lock;
    caller->count = 1;
    options->wait_ms = sim_chance(sim, 0.6) ? sim_between(sim, 20, 3000) : 0;
    choose_mode(caller, lock);
    options->is_barging = sim_chance(sim, 0.15);
    options->hold_ms = sim_chance(sim, 0.25) ? sim_between(sim, 100, 3000) : 0;
    options->delay_ms = sim_chance(sim, 0.2) ? sim_between(sim, 50, 1000) : 0;
    uint32_t second = (uint32_t)prng_below(&sim->prng,
                                           caller->program->client->lock_count);
    const enum hasp_mode *held = held_mode(caller, second);
    bool is_right = options->mode == HASP_SLOTS    ? sim_lock_is_slots(second)
                    : sim_lock_is_slots(second)    ? false
                    : options->mode == HASP_SHARED ? sim_lock_is_shared(second)
                                                   : true;
    if (second != lock && is_right &&
        (held == NULL || *held == options->mode) && sim_chance(sim, 0.3)) {
        caller->lock[1] = second;
        caller->count = 2;
    }
    acquire(caller);
}

static void choose_question(struct sim_caller *caller)
{
    struct sim *sim = caller->program->sim;
    uint32_t lock = (uint32_t)prng_below(&sim->prng,
                                         caller->program->client->lock_count);
    caller->lock[0] = lock;
    caller->token = caller->last_token[lock];
    if (caller->token == 0) {
        ask(caller, CALL_PLEASE);
    } else {
        ask(caller, sim_chance(sim, 0.3) ? CALL_ADMIT : CALL_CHECK);
    }
}

static void choose_while_holding(struct sim_caller *caller)
{
    struct sim *sim = caller->program->sim;
    struct sim_hold *held = any_hold(caller);
    uint64_t dice = prng_below(&sim->prng, 100);
    if (caller->program->client->is_draining || dice < 55) {
        release(caller, held);
    } else if (dice < 65 && held->count == 1 && !held->has_limit &&
               sim_lock_is_shared(held->lock[0])) {
        convert(caller, held);
    } else if (dice < 80 && held_count(caller) < HOLD_MAX) {
        choose_acquire(caller);
    } else {
        choose_question(caller);
    }
}

/* In a run of pairs: the caller repeats its request for a hold of its own name,
 * and an operator acts on it. */
static void choose_about_own(struct sim_caller *caller)
{
    struct sim *sim = caller->program->sim;
    struct sim_hold *held = any_hold(caller);
    uint32_t lock = held->lock[prng_below(&sim->prng, held->count)];
    uint64_t dice = prng_below(&sim->prng, 100);
    if (caller->program->client->is_draining || dice < 32) {
        release(caller, held);
    } else if (dice < 62) {
        if (held_count(caller) < HOLD_MAX) {
            choose_own(caller, lock);
        } else {
            release(caller, held);
        }
    } else if (dice < 74 && held->count == 1 &&
               sim_lock_is_shared(held->lock[0])) {
        convert(caller, held);
    } else if (caller->program->is_durable && dice < 98 &&
               sim_chance(sim, 0.6)) {
        ask_about(caller, CALL_BREAK, held);
    } else if (dice < 81) {
        ask_about(caller, CALL_NOTE, held);
    } else if (dice < 92) {
        ask_about(caller, CALL_TAKE, held);
    } else if (dice >= 98) {
        ask_about(caller, CALL_BLACKLIST, held);
    } else {
        choose_question(caller);
    }
}

static void choose_in_pairs(struct sim_caller *caller)
{
    struct sim *sim = caller->program->sim;
    bool is_draining = caller->program->client->is_draining;
    sim_pairs_end(caller, false);
    if (held_count(caller) > 0) {
        choose_about_own(caller);
    } else if (!is_draining && caller->was_cancelled && sim_chance(sim, 0.6)) {
        choose_own(caller, caller->lock[0]);
    } else if (!is_draining) {
        choose_own(caller,
                   (uint32_t)prng_below(&sim->prng,
                                        caller->program->client->lock_count));
    }
}

static void choose(struct sim_caller *caller)
{
    struct sim_client *client = caller->program->client;
    struct sim *sim = client->sim;
    if (sim_pairs_are_drawn(sim) && sim_chance(sim, 0.8)) {
        choose_in_pairs(caller);
    } else if (held_count(caller) > 0) {
        choose_while_holding(caller);
    } else if (client->is_draining) {
        return;
    } else if (sim_chance(sim, 0.1)) {
        choose_question(caller);
    } else {
        choose_acquire(caller);
    }
}

/* --- Working -------------------------------------------------------------- */

static void keep(struct sim_caller *caller)
{
    struct hasp_hold *hold = caller->call.hold;
    struct sim_hold *free = NULL;
    for (uint32_t i = 0; i < HOLD_MAX; i++) {
        free = caller->hold[i].hold == NULL ? &caller->hold[i] : free;
    }
    CHECK(free != NULL && hold->count == caller->count);
    *free = (struct sim_hold){
        .hold = hold,
        .count = caller->count,
        .mode = {caller->options.mode, caller->options.mode},
        .has_limit = hold->has_limit};
    snprintf(free->tag, sizeof free->tag, "%s", hold->owner->tag);
    for (uint32_t i = 0; i < caller->count; i++) {
        free->lock[i] = caller->lock[i];
        caller->last_token[caller->lock[i]] = hold->held[i].token;
    }
}

static void take(struct sim_caller *caller)
{
    struct sim_program *program = caller->program;
    struct sim *sim = program->sim;
    sim_note(sim, &program->client->host, "told", caller->number,
             (uint64_t)-caller->call.error, caller->number_of_call);
    if (caller->call.error < 0) {
        sim_say(sim, &program->client->host, "t%u: %s", caller->number,
                caller->call.why);
    }
    sim_told_call(caller);
    sim_pairs_told(caller);
    caller->was_cancelled = caller->call.error == HASP_EINTR && caller->is_own;
    if (caller->call.error == 0 && caller->kind == CALL_ACQUIRE) {
        keep(caller);
    } else if (caller->call.error == 0 && caller->kind == CALL_CONVERT) {
        set_mode(caller, caller->held, caller->options.mode);
        caller->last_token[caller->lock[0]] = caller->held->hold->held[0].token;
    }
    sim->stats.operations++;
    program->client->progress++;
    caller->kind = CALL_NONE;
    caller->is_told = false;
    uint64_t think_ms = sim_chance(sim, 0.5) ? sim_between(sim, 0, 20)
                                             : sim_between(sim, 20, 800);
    caller->think_until_ns = sim->now_ns + think_ms * SIM_MS;
}

void sim_caller_pushed(struct sim_caller *caller, struct bytes owner)
{
    caller->is_pushed |= caller->kind != CALL_NONE && caller->is_own &&
                         bytes_equal(owner, bytes_of_text(caller->tag));
}

void sim_caller_lost(struct sim_caller *caller, const struct hasp_event *event)
{
    bool is_limit = strcmp(event->text, "max hold") == 0;
    for (uint32_t i = 0; i < HOLD_MAX; i++) {
        const struct sim_hold *held = &caller->hold[i];
        for (uint32_t k = 0; held->hold != NULL && k < held->count; k++) {
            bool is_meant = is_own(caller, held) &&
                            held->hold->held[k].token == event->token &&
                            strcmp(sim_lock_name(held->lock[k]), event->name) ==
                                0;
            if (is_meant && is_limit) {
                sim_pairs_meet(caller, held->lock[k], PAIR_MAX_HOLD);
            }
        }
    }
}

static bool is_waiting(const struct sim_caller *caller)
{
    return (caller->kind == CALL_ACQUIRE || caller->kind == CALL_CONVERT) &&
           caller->options.wait_ms != 0 && !caller->is_interrupted;
}

/* A call that has waited for a while may be interrupted, as by a signal. */
static void may_interrupt(struct sim_caller *caller)
{
    struct sim *sim = caller->program->sim;
    bool draws_pairs = sim_pairs_are_drawn(sim);
    if (sim->now_ns >= caller->think_until_ns) {
        caller->think_until_ns = sim->now_ns +
                                 sim_between(sim, 500, 3000) * SIM_MS;
        caller->is_interrupted = caller->program->client->is_draining ||
                                 sim_chance(sim, draws_pairs ? 0.6 : 0.2);
        if (caller->is_interrupted) {
            session_fsm_interrupt(&caller->program->machine, &caller->call,
                                  now(caller));
        }
    }
}

void sim_caller_work(struct sim_caller *caller)
{
    struct sim *sim = caller->program->sim;
    if (caller->is_told) {
        take(caller);
    }
    if (caller->kind == CALL_NONE && sim->now_ns >= caller->think_until_ns) {
        choose(caller);
        caller->think_until_ns = sim->now_ns +
                                 sim_between(sim, 300, 3000) * SIM_MS;
    } else if (is_waiting(caller)) {
        may_interrupt(caller);
    }
}

uint64_t sim_caller_next(const struct sim_caller *caller)
{
    if (caller->is_told) {
        return caller->program->sim->now_ns;
    }
    bool has_nothing = caller->program->client->is_draining &&
                       sim_caller_is_idle(caller);
    bool is_calling = caller->kind != CALL_NONE && !is_waiting(caller);
    return has_nothing || is_calling ? UINT64_MAX : caller->think_until_ns;
}
