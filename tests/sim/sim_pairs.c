/* SPDX-License-Identifier: MIT */

#include "tests/sim/sim_pairs.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "tests/sim/sim_check.h"
#include "tests/sim/sim_history.h"
#include "tests/sim/sim_program.h"

/* An owner without holds for this long is still in the same life. */
#define IDLE_NS (500 * SIM_MS)

static const char *const names[] = {
    [PAIR_SHARED] = "SHARED",
    [PAIR_SLOTS] = "SLOTS",
    [PAIR_WAIT] = "WAIT",
    [PAIR_BARGE] = "BARGE",
    [PAIR_REENTRY] = "OWNER re-entry",
    [PAIR_HOLD] = "HOLD",
    [PAIR_DELAY] = "DELAY",
    [PAIR_DURABLE] = "DURABLE",
    [PAIR_SEVERAL] = "several",
    [PAIR_PUSH] = "PUSH",
    [PAIR_REQ] = "REQ",
    [PAIR_CONVERT] = "convert",
    [PAIR_CANCEL] = "cancel",
    [PAIR_NOTE] = "note",
    [PAIR_LINGER] = "linger",
    [PAIR_CONNECTION] = "shared connection",
    [PAIR_RELEASEIF] = "RELEASEIF",
    [PAIR_BREAK] = "BREAK",
    [PAIR_BLACKLIST] = "blacklist",
    [PAIR_MAX_HOLD] = "max hold",
};
_Static_assert(sizeof names / sizeof names[0] == SIM_PAIR_COUNT,
               "sim.h has room for them");

/* Pairs that cannot occur in one life, and why. */
static const struct {
    enum pair_option a, b;
    const char *why;
} impossible[] = {
    {PAIR_SHARED, PAIR_SLOTS,
     "a request has one mode, and a hold keeps its own"},
    {PAIR_SLOTS, PAIR_CONVERT, "a slot cannot be converted"},
    {PAIR_DURABLE, PAIR_LINGER, "a session without end has no lease to lower"},
    {PAIR_LINGER, PAIR_BREAK, "only holds of durable sessions are broken"},
};

bool sim_pairs_are_drawn(const struct sim *sim)
{
    return sim->options.seed % 4 == 0;
}

/* --- Lives ---------------------------------------------------------------- */

static struct pair_life *life_of(struct sim_caller *caller, uint32_t lock)
{
    CHECK(lock < LOCK_COUNT_MAX);
    return &caller->life[lock];
}

void sim_pairs_meet(struct sim_caller *caller, uint32_t lock,
                    enum pair_option option)
{
    life_of(caller, lock)->met |= UINT32_C(1) << option;
}

void sim_pairs_object(struct sim_caller *caller, uint32_t lock)
{
    life_of(caller, lock)->objects++;
}

static bool is_own(const struct sim_caller *caller)
{
    return caller->is_own;
}

static bool is_busy(const struct sim_caller *caller, uint32_t lock)
{
    for (uint32_t i = 0; caller->kind != CALL_NONE && i < caller->count; i++) {
        if (caller->lock[i] == lock) {
            return true;
        }
    }
    return sim_caller_has(caller, lock);
}

static void count(struct sim_caller *caller, const struct pair_life *life)
{
    struct sim_program *program = caller->program;
    uint32_t met = life->met;
    met |= (uint32_t)program->is_durable << PAIR_DURABLE;
    met |= (uint32_t)program->has_linger << PAIR_LINGER;
    for (uint32_t a = 0; a < SIM_PAIR_COUNT; a++) {
        for (uint32_t b = a; b < SIM_PAIR_COUNT; b++) {
            bool is_met = (met >> a & 1) != 0 && (met >> b & 1) != 0;
            program->sim->cover.option[a][b] += is_met;
        }
    }
}

static struct sim_history *history_of(const struct sim_caller *caller)
{
    return sim_check_history(caller->program->sim);
}

/* The cluster has reported that the session is blacklisted, or has ended it for
 * that. */
static bool is_blacklisted(const struct sim_caller *caller)
{
    const struct session_fsm *machine = &caller->program->machine;
    return (machine->is_refused &&
            bytes_has_prefix(bytes_of_text(machine->why),
                             BYTES_LITERAL("BLACKLISTED"))) ||
           sim_history_was_blacklisted(history_of(caller),
                                       caller->program->session);
}

/* An operator has ended the hold of an object. */
static void meet_taken(struct sim_caller *caller)
{
    for (uint32_t i = 0; i < HOLD_MAX; i++) {
        const struct sim_hold *held = &caller->hold[i];
        bool is_mine = held->hold != NULL &&
                       strcmp(held->tag, caller->tag) == 0;
        for (uint32_t k = 0; is_mine && k < held->count; k++) {
            const char *why = sim_history_taken_by(
                history_of(caller), sim_lock_bytes(held->lock[k]),
                caller->program->session, bytes_of_text(caller->tag),
                held->hold->held[k].token);
            if (strcmp(why, "releaseif") == 0) {
                sim_pairs_meet(caller, held->lock[k], PAIR_RELEASEIF);
            } else if (strcmp(why, "broken") == 0) {
                sim_pairs_meet(caller, held->lock[k], PAIR_BREAK);
            }
        }
    }
}

void sim_pairs_end(struct sim_caller *caller, bool is_all)
{
    uint64_t now_ns = caller->program->sim->now_ns;
    bool is_refused = is_blacklisted(caller);
    meet_taken(caller);
    for (uint32_t lock = 0; lock < LOCK_COUNT_MAX; lock++) {
        struct pair_life *life = &caller->life[lock];
        if (life->objects == 0) {
            continue;
        }
        if (is_busy(caller, lock)) {
            life->idle_since_ns = now_ns;
            life->met |= (uint32_t)is_refused << PAIR_BLACKLIST;
        }
        if (is_all || now_ns - life->idle_since_ns > IDLE_NS) {
            if (life->objects > 1) {
                count(caller, life);
            }
            *life = (struct pair_life){0};
        }
    }
}

/* --- What answers say ----------------------------------------------------- */

static void told_options(struct sim_caller *caller, uint32_t lock)
{
    const struct hasp_acquire_options *options = &caller->options;
    const struct {
        bool is_met;
        enum pair_option option;
    } all[] = {
        {options->mode == HASP_SHARED, PAIR_SHARED},
        {options->mode == HASP_SLOTS, PAIR_SLOTS},
        {options->wait_ms != 0, PAIR_WAIT},
        {options->is_barging, PAIR_BARGE},
        {options->hold_ms != 0, PAIR_HOLD},
        {options->delay_ms != 0, PAIR_DELAY},
        {caller->count > 1, PAIR_SEVERAL},
        {caller->call.error == 0 && sim_caller_has(caller, lock), PAIR_REENTRY},
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        if (all[i].is_met) {
            sim_pairs_meet(caller, lock, all[i].option);
        }
    }
}

static void told_of(struct sim_caller *caller, uint32_t lock)
{
    const struct sim_program *program = caller->program;
    int error = caller->call.error;
    if (caller->kind == CALL_ACQUIRE) {
        told_options(caller, lock);
    } else if (caller->kind == CALL_CONVERT && error >= 0) {
        sim_pairs_meet(caller, lock, PAIR_CONVERT);
    } else if (caller->kind == CALL_NOTE && error == 0) {
        sim_pairs_meet(caller, lock, PAIR_NOTE);
    }
    if (error == HASP_EINTR) {
        sim_pairs_meet(caller, lock, PAIR_CANCEL);
    }
    if (caller->is_pushed) {
        sim_pairs_meet(caller, lock, PAIR_PUSH);
    }
    if (caller->number_of_call != 0 && error >= 0 &&
        caller->connection != program->line->asker.number) {
        sim_pairs_meet(caller, lock, PAIR_REQ);
    }
    if (program->line->program_count > 1) {
        sim_pairs_meet(caller, lock, PAIR_CONNECTION);
    }
}

void sim_pairs_told(struct sim_caller *caller)
{
    bool is_refused = caller->call.error == HASP_EBLACKLISTED ||
                      (caller->kind == CALL_BLACKLIST &&
                       caller->call.error == 0);
    bool is_answered = caller->call.error >= 0 ||
                       caller->call.error == HASP_EINTR ||
                       caller->call.error == HASP_EDEADLOCK;
    for (uint32_t i = 0; is_answered && is_own(caller) && i < caller->count;
         i++) {
        told_of(caller, caller->lock[i]);
    }
    for (uint32_t lock = 0; is_refused && lock < LOCK_COUNT_MAX; lock++) {
        if (is_busy(caller, lock)) {
            sim_pairs_meet(caller, lock, PAIR_BLACKLIST);
        }
    }
}

/* --- The table ------------------------------------------------------------ */

static const char *why_impossible(uint32_t a, uint32_t b)
{
    for (size_t i = 0; i < sizeof impossible / sizeof impossible[0]; i++) {
        if ((uint32_t)impossible[i].a == a && (uint32_t)impossible[i].b == b) {
            return impossible[i].why;
        }
    }
    return NULL;
}

uint32_t sim_pairs_print(const struct sim_cover *cover, uint32_t least)
{
    uint32_t wrong = 0, pairs = 0;
    uint32_t fewest = UINT32_MAX;
    for (uint32_t a = 0; a < SIM_PAIR_COUNT; a++) {
        for (uint32_t b = a; b < SIM_PAIR_COUNT; b++) {
            uint32_t met = cover->option[a][b];
            const char *why = why_impossible(a, b);
            bool is_wrong = why != NULL ? met != 0 : met < least;
            wrong += is_wrong;
            pairs += why == NULL && a != b;
            fewest = why == NULL && met < fewest ? met : fewest;
            printf("options\t%s + %s\t%" PRIu32 "%s%s%s\n", names[a],
                   a == b ? "any" : names[b], met,
                   why != NULL ? "\timpossible: " : "", why != NULL ? why : "",
                   is_wrong ? "\tWRONG" : "");
        }
    }
    printf("options: %" PRIu32 " pairs, each in %" PRIu32
           " lives of two lock objects or more, %" PRIu32
           " are wanted; %" PRIu32 " are wrong\n",
           pairs, fewest, least, wrong);
    return wrong;
}
