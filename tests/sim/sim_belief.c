/* SPDX-License-Identifier: MIT */

#include "tests/sim/sim_belief.h"

#include <inttypes.h>
#include <string.h>

#include "tests/sim/sim_check.h"
#include "tests/sim/sim_client.h"
#include "tests/sim/sim_history.h"
#include "tests/sim/sim_worker.h"

struct comparison {
    struct sim *sim;
    const struct sim_belief *belief;
    uint32_t slots; /* Slots that other owners of the semaphore use. */
};

static bool is_same_owner(const struct sim_belief *a,
                          const struct sim_belief *b)
{
    return a->session == b->session && strcmp(a->tag, b->tag) == 0;
}

/* The caller of RELEASEIF has to know that the holder has stopped. If it has
 * not, the holder believes until its next heartbeat is answered, and no
 * longer. */
static bool is_excused(struct sim *sim, const struct sim_belief *belief)
{
    uint64_t index = sim_history_taken(
        sim_check_history(sim), sim_lock_bytes(belief->lock), belief->session,
        bytes_of_text(belief->tag), belief->token);
    return index != 0 &&
           !sim_client_has_heard(belief->client, belief->session, index);
}

static void compare(void *data, const struct sim_belief *other)
{
    struct comparison *comparison = data;
    const struct sim_belief *belief = comparison->belief;
    if (other->lock != belief->lock || is_same_owner(belief, other) ||
        is_excused(comparison->sim, other)) {
        return;
    }
    comparison->slots++;
    if (belief->mode == LOCK_EXCLUSIVE || other->mode == LOCK_EXCLUSIVE) {
        sim_fail(comparison->sim, ORACLE_BELIEVERS,
                 "one believer per exclusive lock: %s.%s believes in '%s' with "
                 "token %" PRIu64 ", and so does %s.%s with token %" PRIu64,
                 sim_client_host(belief->client)->name, belief->tag,
                 sim_lock_name(belief->lock), belief->token,
                 sim_client_host(other->client)->name, other->tag,
                 other->token);
    }
}

static void check(void *data, const struct sim_belief *belief)
{
    struct sim *sim = data;
    struct comparison comparison = {.sim = sim, .belief = belief};
    if (is_excused(sim, belief)) {
        return;
    }
    for (uint32_t i = 0; i < sim->client_count; i++) {
        sim_client_beliefs(sim->client[i], compare, &comparison);
    }
    if (sim_lock_is_slots(belief->lock) && comparison.slots >= SLOT_COUNT) {
        sim_fail(sim, ORACLE_BELIEVERS,
                 "a semaphore has as many believers as slots: '%s' has more "
                 "than %d",
                 sim_lock_name(belief->lock), SLOT_COUNT);
    }
}

void sim_beliefs_check(struct sim_client *client)
{
    sim_client_beliefs(client, check, client->sim);
}

struct end {
    struct sim *sim;
    uint64_t log_index;
    struct bytes lock;
    uint64_t session;
    struct bytes owner;
    uint64_t token;
};

static void look_at_end(void *data, const struct sim_belief *belief)
{
    const struct end *end = data;
    if (belief->session == end->session && belief->token <= end->token &&
        bytes_equal(end->owner, bytes_of_text(belief->tag)) &&
        bytes_equal(end->lock, sim_lock_bytes(belief->lock)) &&
        !is_excused(end->sim, belief)) {
        sim_fail(end->sim, ORACLE_LEASES,
                 "the client ends first: %s.%s believes in '%s' with token "
                 "%" PRIu64 ", and entry %" PRIu64 " ends that hold",
                 sim_client_host(belief->client)->name, belief->tag,
                 sim_lock_name(belief->lock), end->token, end->log_index);
    }
}

void sim_beliefs_end(struct sim *sim, uint64_t log_index, struct bytes lock,
                     uint64_t session, struct bytes owner, uint64_t token)
{
    struct end end = {sim, log_index, lock, session, owner, token};
    for (uint32_t i = 0; i < sim->client_count; i++) {
        sim_client_beliefs(sim->client[i], look_at_end, &end);
    }
}
