/* SPDX-License-Identifier: MIT */

#include "tests/sim/sim_program.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/memory.h"
#include "client/reply.h"
#include "tests/sim/sim_check.h"
#include "tests/sim/sim_history.h"
#include "tests/sim/sim_node.h"
#include "tests/sim/sim_pairs.h"
#include "tests/sim/sim_push.h"

struct sim_program *sim_program_new(struct sim_client *client)
{
    struct sim_program *program = memory_new(sizeof *program);
    program->client = client;
    program->sim = client->sim;
    program->own.client = client;
    return program;
}

static struct lease_clock now(const struct sim_program *program)
{
    return sim_client_clock(program->client);
}

/* --- What the machine says ------------------------------------------------ */

/* A query is not an event: the machine does not change. */
static bool is_trusted(struct sim_program *program,
                       const struct hasp_hold *hold)
{
    struct hasp_lease look;
    if (!program->client->host.is_running || program->state == PROGRAM_REST) {
        return false;
    }
    struct lease lease = program->machine.lease;
    session_fsm_look(&program->machine, hold, now(program), &look);
    program->machine.lease = lease;
    return look.remaining_ns > 0;
}

bool sim_program_trusts(struct sim_program *program)
{
    return is_trusted(program, NULL);
}

bool sim_program_believes(struct sim_program *program,
                          const struct hasp_hold *hold)
{
    return is_trusted(program, hold);
}

/* To others an owner that has a lock twice has it once, but the client can
 * believe in each of the two without the other. */
static bool is_again(const struct sim_caller *caller,
                     const struct sim_hold *hold, uint32_t lock, uint64_t token)
{
    for (const struct sim_hold *first = caller->hold; first < hold; first++) {
        bool counts = first->hold != NULL &&
                      is_trusted(caller->program, first->hold);
        for (uint32_t i = 0; counts && i < first->count; i++) {
            if (first->lock[i] == lock && strcmp(first->tag, hold->tag) == 0 &&
                first->hold->held[i].token == token) {
                return true;
            }
        }
    }
    return false;
}

static void beliefs_of_hold(struct sim_caller *caller,
                            const struct sim_hold *hold, sim_belief_fn *each,
                            void *data)
{
    static const enum lock_mode modes[] = {[HASP_EXCLUSIVE] = LOCK_EXCLUSIVE,
                                           [HASP_SHARED] = LOCK_SHARED,
                                           [HASP_SLOTS] = LOCK_SLOTS};
    struct sim_program *program = caller->program;
    for (uint32_t i = 0; i < hold->count; i++) {
        if (is_again(caller, hold, hold->lock[i], hold->hold->held[i].token)) {
            continue;
        }
        struct sim_belief belief = {
            .client = program->client,
            .session = program->machine.credentials.session,
            .tag = hold->tag,
            .lock = hold->lock[i],
            .mode = modes[hold->mode[i]],
            .token = hold->hold->held[i].token,
        };
        each(data, &belief);
    }
}

bool sim_program_has_heard(const struct sim_program *program, uint64_t index)
{
    return index <= program->told_newest &&
           program->machine.seen >= program->machine.heard;
}

void sim_program_beliefs(struct sim_program *program, sim_belief_fn *each,
                         void *data)
{
    if (!sim_program_trusts(program)) {
        return;
    }
    for (uint32_t i = 0; i < program->caller_count; i++) {
        struct sim_caller *caller = &program->caller[i];
        for (uint32_t k = 0; k < HOLD_MAX; k++) {
            struct sim_hold *hold = &caller->hold[k];
            if (hold->hold != NULL && is_trusted(program, hold->hold)) {
                beliefs_of_hold(caller, hold, each, data);
            }
        }
    }
}

/* --- The line ------------------------------------------------------------- */

void sim_program_sends(struct sim_program *program, uint32_t host)
{
    const struct client_request *keep = &program->machine.keep;
    if (keep->is_sent && keep->sent.boottime_ns != program->asked.boottime_ns) {
        program->asked = keep->sent;
        program->asked_newest = sim_check_newest(program->sim);
        program->asked_applied = sim_users_has_applied(program->sim, host);
    }
}

void sim_program_take_events(struct sim_program *program)
{
    struct event_node *node;
    while ((node = session_fsm_take_event(&program->machine)) != NULL) {
        sim_told_event(program, &node->event);
        program->is_lost |= node->event.kind == HASP_EVENT_LOST &&
                            node->event.token == 0;
        free(node);
    }
}

/* --- Sessions ------------------------------------------------------------- */

static void told(struct client_call *call)
{
    struct sim_program *program = call->data;
    CHECK(!program->is_told);
    program->is_told = true;
}

static void pushed(void *data, const struct resp_reply *reply)
{
    struct session_fsm *machine = data;
    struct sim_program *program = LIST_ENTRY(machine, struct sim_program,
                                             machine);
    sim_pushes_told(sim_history_pushes(sim_check_history(program->sim)),
                    program->client->host.name, reply);
    for (uint32_t i = 0; i < program->caller_count && reply->count > 3; i++) {
        sim_caller_pushed(&program->caller[i], reply_text(reply, 3, "owner"));
    }
    program->push(data, reply);
}

static void make_machine(struct sim_program *program)
{
    struct session_fsm *machine = &program->machine;
    struct sim *sim = program->sim;
    program->line = sim_chance(sim, 0.25) ? &program->own
                                          : &program->client->line;
    sim_line_join(program->line, program);
    session_fsm_init(machine, &program->line->asker);
    machine->timeout_ms = sim_between(sim, 1000, 10000);
    program->push = machine->member.hooks.push;
    machine->member.hooks.push = pushed;
}

static void open_session(struct sim_program *program)
{
    struct sim *sim = program->sim;
    struct hasp_options options = {.size = sizeof options};
    uint64_t random[SESSION_FSM_RANDOM_SIZE / sizeof(uint64_t)];
    make_machine(program);
    options.ttl_ms = program->line->ttl_ms;
    program->is_durable = options.is_durable = program->line->is_durable;
    if (!program->is_durable && sim_chance(sim, 0.4)) {
        options.linger_ms = (uint32_t)sim_between(sim, options.ttl_ms / 5,
                                                  options.ttl_ms);
    }
    program->has_linger = options.linger_ms != 0;
    program->word[0] = '\0';
    if (!program->is_durable && !program->has_linger) {
        /* Different for each session; the simulator's clients do not guess. */
        snprintf(program->word, sizeof program->word,
                 "%08" PRIx32 "%08" PRIx32 "%016" PRIx64,
                 (uint32_t)program->client->host.number,
                 ++program->client->word_count, sim->now_ns);
        options.death_word = program->word;
    }
    random[0] = prng_next(&sim->prng);
    random[1] = prng_next(&sim->prng);
    program->state = PROGRAM_OPENING;
    program->is_told = program->is_lost = false;
    program->kept = program->asked = (struct lease_clock){0, 0};
    program->told_newest = 0;
    program->call = (struct client_call){.done = told, .data = program};
    CHECK(session_fsm_open(&program->machine, &options,
                           program->is_durable ? SIM_DURABLE_NAME
                                               : program->client->host.name,
                           (const uint8_t *)random, &program->call,
                           now(program)) == 0);
}

static void end_callers(struct sim_program *program)
{
    for (uint32_t i = 0; i < program->caller_count; i++) {
        sim_pairs_end(&program->caller[i], true);
    }
    program->caller_count = 0;
}

/* The machine is freed, and with it all beliefs. */
static void rest(struct sim_program *program, uint64_t for_ms)
{
    end_callers(program);
    if (program->state != PROGRAM_REST) {
        session_fsm_done(&program->machine);
        program->state = PROGRAM_REST;
        sim_hoard_done(&program->hoard);
        sim_line_leave(program->line, program);
    }
    program->session = 0;
    program->rest_until_ns = program->sim->now_ns + for_ms * SIM_MS;
}

/* The others on its line continue. */
static void leave(struct sim_program *program, uint64_t for_ms)
{
    session_fsm_leave(&program->machine, now(program));
    rest(program, for_ms);
    if (program->line->program_count > 0) {
        sim_line_turn(program->line);
    }
}

static void take_opened(struct sim_program *program)
{
    struct sim_client *client = program->client;
    program->is_told = false;
    client->progress++;
    sim_note(program->sim, &client->host, "opened",
             program->machine.credentials.session,
             (uint64_t)(-program->call.error), 0);
    if (program->call.error != 0) {
        sim_say(program->sim, &client->host, "open: %s", program->call.why);
        leave(program, sim_between(program->sim, 10, 500));
        return;
    }
    program->session = program->machine.credentials.session;
    if (program->word[0] != '\0') {
        sim_witness_tie(client, program->session, program->word);
    }
    program->state = PROGRAM_OPEN;
    program->caller_count = (uint32_t)sim_between(program->sim, 1,
                                                  CALLER_COUNT_MAX);
    for (uint32_t i = 0; i < program->caller_count; i++) {
        sim_caller_reset(&program->caller[i], program, i);
    }
    sim_hoard_reset(&program->hoard, program);
    program->hour_ns = sim_chance(program->sim, 0.2)
                           ? program->sim->now_ns +
                                 sim_between(program->sim, 100, 20000) * SIM_MS
                           : UINT64_MAX;
}

static bool are_callers_idle(const struct sim_program *program)
{
    for (uint32_t i = 0; i < program->caller_count; i++) {
        if (!sim_caller_is_idle(&program->caller[i])) {
            return false;
        }
    }
    return true;
}

/* In the end after releasing everything; before that as it is, in the middle of
 * calls. */
static void close_session(struct sim_program *program)
{
    if (program->client->is_draining) {
        sim_told_rest(program);
    }
    sim_note(program->sim, &program->client->host, "closes", program->session,
             0, 0);
    program->state = PROGRAM_CLOSING;
    end_callers(program);
    program->call = (struct client_call){.done = told, .data = program};
    CHECK(session_fsm_close(&program->machine, &program->call, now(program)) ==
          0);
    sim_hoard_done(&program->hoard);
}

static void lose(struct sim_program *program)
{
    struct sim_client *client = program->client;
    sim_note(program->sim, &client->host, "loses its session", program->session,
             0, 0);
    program->sim->stats.lost++;
    leave(program, sim_between(program->sim, 1, 300));
}

/* --- Turns ---------------------------------------------------------------- */

/* Including what the machine wants after each call that was begun. */
static void work_callers(struct sim_program *program)
{
    for (uint32_t i = 0; i < program->caller_count; i++) {
        sim_caller_work(&program->caller[i]);
    }
    sim_hoard_work(&program->hoard);
    sim_line_turn(program->line);
    for (uint32_t i = 0; i < program->caller_count; i++) {
        if (program->caller[i].is_told) {
            sim_caller_work(&program->caller[i]);
        }
    }
}

static void work_open(struct sim_program *program)
{
    const struct sim_client *client = program->client;
    work_callers(program);
    bool is_over = client->is_draining && are_callers_idle(program) &&
                   sim_hoard_is_idle(&program->hoard) &&
                   list_is_empty(&program->machine.changes);
    if (program->is_lost) {
        lose(program);
    } else if (is_over || (program->sim->phase == SIM_CHAOS &&
                           program->sim->now_ns >= program->hour_ns)) {
        close_session(program);
        sim_line_turn(program->line);
    }
}

void sim_program_work(struct sim_program *program)
{
    struct sim_client *client = program->client;
    if (program->state == PROGRAM_REST &&
        program->sim->now_ns >= program->rest_until_ns && !program->is_done) {
        program->is_done = client->is_draining;
        if (!program->is_done) {
            open_session(program);
        }
    }
    if (program->state == PROGRAM_REST) {
        return;
    }
    sim_line_turn(program->line);
    if (program->state == PROGRAM_OPENING && program->is_told) {
        take_opened(program);
    }
    if (program->state == PROGRAM_OPEN) {
        work_open(program);
    }
    if (program->state == PROGRAM_CLOSING && program->is_told) {
        leave(program, sim_between(program->sim, 1, 300));
    }
}

uint64_t sim_program_next(struct sim_program *program)
{
    if (program->state == PROGRAM_REST) {
        return program->is_done ? UINT64_MAX : program->rest_until_ns;
    }
    /* It was informed in the turn of another program on its line, or needs a
     * check. */
    if (program->is_told || program->is_lost) {
        return program->sim->now_ns;
    }
    uint64_t next_ns = sim_line_next(program->line);
    for (uint32_t i = 0; i < program->caller_count; i++) {
        uint64_t at_ns = sim_caller_next(&program->caller[i]);
        next_ns = at_ns < next_ns ? at_ns : next_ns;
    }
    if (program->state == PROGRAM_OPEN) {
        uint64_t at_ns = sim_hoard_next(&program->hoard);
        next_ns = at_ns < next_ns ? at_ns : next_ns;
    }
    return next_ns;
}

/* --- What happens to it --------------------------------------------------- */

void sim_program_die(struct sim_program *program)
{
    sim_line_die(&program->own);
    rest(program, 0);
}

void sim_program_start(struct sim_program *program)
{
    program->is_done = false;
    rest(program, sim_between(program->sim, 0, 100));
}
