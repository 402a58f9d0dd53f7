/* SPDX-License-Identifier: MIT */

#include "tests/sim/sim_program.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/memory.h"
#include "tests/sim/sim_check.h"
#include "tests/sim/sim_history.h"
#include "tests/sim/sim_node.h"
#include "tests/sim/sim_push.h"

/* A machine that is asked so often in one moment does not come to rest. */
#define TURN_COUNT_MAX 1000

struct sim_program *sim_program_new(struct sim_client *client)
{
    struct sim_program *program = memory_new(sizeof *program);
    program->client = client;
    program->sim = client->sim;
    return program;
}

static struct lease_clock now(const struct sim_program *program)
{
    return sim_client_clock(program->client);
}

/* --- What the machine says ------------------------------------------------ */

/* To ask is no event: the machine is left as it was. */
static bool is_trusted(struct sim_program *program,
                       const struct hasp_hold *hold)
{
    struct hasp_lease look;
    if (!program->client->host.is_running || program->state == PROGRAM_REST) {
        return false;
    }
    struct lease lease = program->machine.lease;
    machine_look(&program->machine, hold, now(program), &look);
    program->machine.lease = lease;
    return look.remaining_ns > 0;
}

bool sim_program_trusts(struct sim_program *program)
{
    return is_trusted(program, NULL);
}

/* An owner that has a lock twice has it once, as far as others see. */
static bool is_again(const struct sim_caller *caller,
                     const struct sim_hold *hold, uint32_t lock)
{
    for (const struct sim_hold *first = caller->hold; first < hold; first++) {
        for (uint32_t i = 0; first->hold != NULL && i < first->count; i++) {
            if (first->lock[i] == lock && strcmp(first->tag, hold->tag) == 0) {
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
        if (is_again(caller, hold, hold->lock[i])) {
            continue;
        }
        struct sim_belief belief = {
            .client = program->client,
            .session = program->machine.credentials.session,
            .tag = hold->tag,
            .lock = hold->lock[i],
            .mode = modes[hold->mode[i]],
            .token = hold->hold->held[i].is_token_sure
                         ? hold->hold->held[i].token
                         : 0,
        };
        each(data, &belief);
    }
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

/* --- The connection ------------------------------------------------------- */

static void shut(struct sim_program *program)
{
    if (program->wire != NULL) {
        sim_net_close(program->sim, program->wire, 0, 0);
        program->wire = NULL;
    }
    program->is_connected = false;
}

static void dial(struct sim_program *program)
{
    const struct endpoint *endpoint = asker_endpoint(&program->machine.asker);
    unsigned id = 0;
    CHECK(sscanf(endpoint->host, "10.0.0.%u", &id) == 1 && id > 0 &&
          id <= program->sim->node_count);
    program->wire = sim_net_dial(program->sim, WIRE_CLIENT,
                                 program->client->host.number, id - 1);
    program->was = program->who;
    program->was_accepted = program->accepted;
    if (program->who.way == WHO_CERTIFICATE) {
        sim_identity_renew(program->sim, &program->who);
    }
    program->wire->shown = program->who;
}

static void send_out(struct sim_program *program)
{
    struct machine *machine = &program->machine;
    struct buffer *out = &machine->asker.out;
    if (!program->is_connected || out->size == 0) {
        return;
    }
    if (machine->keep.is_sent &&
        machine->keep.sent.boottime_ns != program->asked.boottime_ns) {
        program->asked = machine->keep.sent;
        program->asked_newest = sim_check_newest(program->sim);
        program->asked_applied = sim_users_has_applied(program->sim,
                                                       program->wire->host[1]);
    }
    sim_note(program->sim, &program->client->host, "asks", program->wire->id,
             out->size, program->wire->host[1] + 1);
    sim_net_send(program->sim, program->wire, 0, buffer_bytes(out), 0);
    buffer_clear(out);
}

/* Does what the asker wants. */
static void follow(struct sim_program *program)
{
    const struct asker *asker = &program->machine.asker;
    if (program->number != asker->number) {
        shut(program);
        program->number = asker->number;
        if (asker->state == ASKER_OPENING) {
            dial(program);
        }
    }
    send_out(program);
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
    struct machine *machine = data;
    struct sim_program *program = LIST_ENTRY(machine, struct sim_program,
                                             machine);
    sim_pushes_told(sim_history_pushes(sim_check_history(program->sim)),
                    program->client->host.name, reply);
    program->push(data, reply);
}

static void make_machine(struct sim_program *program)
{
    struct endpoints endpoints;
    char text[SIM_NODE_MAX * 16] = "", why[HASP_WHY_SIZE];
    struct machine *machine = &program->machine;
    struct sim *sim = program->sim;
    for (uint32_t i = 0; i < sim->node_count; i++) {
        size_t used = strlen(text);
        snprintf(text + used, sizeof text - used, "%s10.0.0.%u",
                 i > 0 ? "," : "", i + 1);
    }
    uint64_t seed = prng_next(&sim->prng);
    CHECK(endpoints_parse(text, &endpoints, why) == 0);
    sim_client_renew(program->client);
    program->who = *sim_client_identity(program->client);
    snprintf(endpoints.secret, sizeof endpoints.secret, "%s",
             program->who.secret);
    CHECK(machine_init(machine, &endpoints, seed) == 0);
    endpoints_done(&endpoints);
    asker_begin_at(&machine->asker, (uint32_t)(seed >> 33));
    machine->timeout_ms = sim_between(sim, 1000, 10000);
    program->push = machine->asker.hooks.push;
    machine->asker.hooks.push = pushed;
}

static void open_session(struct sim_program *program)
{
    static const uint32_t ttls_ms[] = {300, 1000, 1000, 2000, 4000, 8000};
    struct sim *sim = program->sim;
    struct hasp_options options = {.size = sizeof options};
    uint64_t random[MACHINE_RANDOM_SIZE / sizeof(uint64_t)];
    make_machine(program);
    options.ttl_ms = ttls_ms[prng_below(&sim->prng, 6)];
    if (sim_chance(sim, 0.4)) {
        options.linger_ms = (uint32_t)sim_between(sim, options.ttl_ms / 5,
                                                  options.ttl_ms);
    }
    random[0] = prng_next(&sim->prng);
    random[1] = prng_next(&sim->prng);
    program->state = PROGRAM_OPENING;
    program->is_told = program->is_lost = false;
    program->number = 0;
    program->kept = program->asked = (struct lease_clock){0, 0};
    program->call = (struct client_call){.done = told, .data = program};
    CHECK(machine_open(&program->machine, &options, program->client->host.name,
                       (const uint8_t *)random, &program->call,
                       now(program)) == 0);
}

/* The machine goes, and with it all that is believed. */
static void rest(struct sim_program *program, uint64_t for_ms)
{
    if (program->state != PROGRAM_REST) {
        shut(program);
        machine_done(&program->machine);
        program->state = PROGRAM_REST;
    }
    program->client->session = 0;
    program->caller_count = 0;
    program->rest_until_ns = program->sim->now_ns + for_ms * SIM_MS;
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
        rest(program, sim_between(program->sim, 10, 500));
        return;
    }
    client->session = program->machine.credentials.session;
    program->state = PROGRAM_OPEN;
    program->caller_count = (uint32_t)sim_between(program->sim, 1,
                                                  CALLER_COUNT_MAX);
    for (uint32_t i = 0; i < program->caller_count; i++) {
        sim_caller_reset(&program->caller[i], program, i);
    }
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

/* At the end with clean hands; in between as it is, in the middle of calls. */
static void close_session(struct sim_program *program)
{
    if (program->client->is_draining) {
        sim_told_rest(program);
    }
    sim_note(program->sim, &program->client->host, "closes",
             program->client->session, 0, 0);
    program->state = PROGRAM_CLOSING;
    program->caller_count = 0;
    program->call = (struct client_call){.done = told, .data = program};
    CHECK(machine_close(&program->machine, &program->call, now(program)) == 0);
}

static void lose(struct sim_program *program)
{
    struct sim_client *client = program->client;
    sim_note(program->sim, &client->host, "loses its session", client->session,
             0, 0);
    program->sim->stats.lost++;
    rest(program, sim_between(program->sim, 1, 300));
}

/* --- Turns ---------------------------------------------------------------- */

static void take_events(struct sim_program *program)
{
    struct event_node *node;
    while ((node = machine_take_event(&program->machine)) != NULL) {
        sim_told_event(program, &node->event);
        program->is_lost |= node->event.kind == HASP_EVENT_LOST &&
                            node->event.token == 0;
        free(node);
    }
}

static void turn(struct sim_program *program)
{
    for (int i = 0; i < TURN_COUNT_MAX; i++) {
        machine_turn(&program->machine, now(program));
        bool is_late = program->number != program->machine.asker.number;
        follow(program);
        if (!is_late && machine_left_ns(&program->machine, now(program)) > 0) {
            take_events(program);
            return;
        }
    }
    sim_fail(program->sim, ORACLE_PROGRESS,
             "a machine comes to rest: that of %s does not",
             program->client->host.name);
}

/* What the machine wants after each call that was begun, too. */
static void work_callers(struct sim_program *program)
{
    for (uint32_t i = 0; i < program->caller_count; i++) {
        sim_caller_work(&program->caller[i]);
    }
    turn(program);
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
                   list_is_empty(&program->machine.changes);
    if (program->is_lost) {
        lose(program);
    } else if (is_over || (program->sim->phase == SIM_CHAOS &&
                           program->sim->now_ns >= program->hour_ns)) {
        close_session(program);
        turn(program);
    }
}

void sim_program_work(struct sim_program *program)
{
    struct sim_client *client = program->client;
    if (program->state == PROGRAM_REST &&
        program->sim->now_ns >= program->rest_until_ns && !client->is_done) {
        client->is_done = client->is_draining;
        if (!client->is_done) {
            open_session(program);
        }
    }
    if (program->state == PROGRAM_REST) {
        return;
    }
    struct lease before = program->machine.lease;
    turn(program);
    sim_told_lease(program, &before);
    if (program->state == PROGRAM_OPENING && program->is_told) {
        take_opened(program);
    }
    if (program->state == PROGRAM_OPEN) {
        work_open(program);
    }
    if (program->state == PROGRAM_CLOSING && program->is_told) {
        rest(program, sim_between(program->sim, 1, 300));
    }
}

uint64_t sim_program_next(struct sim_program *program)
{
    if (program->state == PROGRAM_REST) {
        return program->client->is_done ? UINT64_MAX : program->rest_until_ns;
    }
    const struct sim_host *host = &program->client->host;
    uint64_t left_ns = machine_left_ns(&program->machine, now(program));
    uint64_t next_ns = UINT64_MAX;
    if (left_ns != UINT64_MAX) {
        uint64_t local_ns = sim_host_now(program->sim, host);
        next_ns = sim_clock_when(&host->clock, local_ns + left_ns);
    }
    for (uint32_t i = 0; i < program->caller_count; i++) {
        uint64_t at_ns = sim_caller_next(&program->caller[i]);
        next_ns = at_ns < next_ns ? at_ns : next_ns;
    }
    return next_ns;
}

/* --- What happens to it --------------------------------------------------- */

bool sim_program_feed(struct sim_program *program, const struct sim_news *news)
{
    struct asker *asker = &program->machine.asker;
    if (program->wire == NULL || news->wire != program->wire) {
        return false;
    }
    if (program->number != asker->number) {
        return true; /* The machine has given that connection up. */
    }
    struct lease before = program->machine.lease;
    switch (news->kind) {
    case NEWS_CONNECTED:
        program->is_connected = true;
        asker_connected(asker);
        break;
    case NEWS_DATA:
        program->accepted = program->wire->accepted;
        asker_input(asker, news->bytes, now(program));
        sim_told_lease(program, &before);
        break;
    default:
        shut(program);
        asker_failed(asker, "closed the connection", now(program));
        break;
    }
    return true;
}

void sim_program_reconnect(struct sim_program *program)
{
    if (program->wire != NULL &&
        program->number == program->machine.asker.number) {
        shut(program);
        asker_failed(&program->machine.asker, "reset", now(program));
    }
}

void sim_program_die(struct sim_program *program)
{
    program->wire = NULL;
    rest(program, 0);
}

void sim_program_start(struct sim_program *program)
{
    rest(program, sim_between(program->sim, 0, 100));
}
