/* SPDX-License-Identifier: MIT */

/* Holds: for how long each may be trusted, and what ends it. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "base/units.h"
#include "client/machine.h"
#include "lease/rules.h"

struct hasp_hold *client_hold_new(struct machine *machine, size_t count)
{
    struct hasp_hold *hold = calloc(1, sizeof *hold);
    if (hold != NULL) {
        hold->held = calloc(count, sizeof *hold->held);
    }
    if (hold == NULL || hold->held == NULL) {
        free(hold);
        return NULL;
    }
    hold->release = change_room(machine, count);
    if (hold->release == NULL) {
        free(hold->held);
        free(hold);
        return NULL;
    }
    hold->machine = machine;
    hold->count = count;
    for (size_t i = 0; i < count; i++) {
        hold->held[i].is_token_sure = true;
    }
    list_init(&hold->in_machine);
    return hold;
}

void client_hold_free(struct hasp_hold *hold)
{
    list_remove(&hold->in_machine);
    if (hold->release != NULL) {
        change_room_free(hold->machine, hold->release);
    }
    for (size_t i = 0; i < hold->count; i++) {
        free(hold->held[i].name);
    }
    free(hold->held);
    free(hold);
}

void machine_forget(struct machine *machine, struct hasp_hold *hold)
{
    (void)machine;
    owner_put(hold->owner);
    client_hold_free(hold);
}

/* For how long the hold's own limit lets it be trusted, whatever its session's
 * lease. */
static uint64_t limit_left_ns(const struct hasp_hold *hold,
                              struct lease_clock now)
{
    if (hold->has_ended) {
        return 0;
    }
    return hold->limit_ms == 0
               ? UINT64_MAX
               : lease_hold_remaining(hold->limit_sent, hold->left_ms, now);
}

/* A re-entry has the token of the hold that it counts up. */
static bool is_entered_again(const struct hasp_hold *outer,
                             const struct hasp_hold *hold)
{
    for (size_t i = 0; i < outer->count; i++) {
        for (size_t j = 0; j < hold->count; j++) {
            if (strcmp(outer->held[i].name, hold->held[j].name) == 0 &&
                (outer->held[i].token == hold->held[j].token ||
                 !outer->held[i].is_token_sure)) {
                return true;
            }
        }
    }
    return false;
}

void client_hold_begin(struct hasp_hold *hold)
{
    struct machine *machine = hold->machine;
    struct lease_clock now = machine->asker->now;
    LIST_FOR (const struct hasp_hold, outer, &machine->holds, in_machine) {
        if (outer->owner == hold->owner && outer->limit_ms != 0 &&
            !outer->has_ended && is_entered_again(outer, hold) &&
            limit_left_ns(outer, now) < limit_left_ns(hold, now)) {
            hold->limit_ms = outer->limit_ms;
            hold->left_ms = outer->left_ms;
            hold->limit_sent = outer->limit_sent;
        }
    }
    list_push_back(&machine->holds, &hold->in_machine);
}

void holds_converted(struct machine *machine, const struct owner *owner,
                     const char *name, uint64_t token)
{
    LIST_FOR (struct hasp_hold, hold, &machine->holds, in_machine) {
        for (size_t i = 0; hold->owner == owner && i < hold->count; i++) {
            struct held *held = &hold->held[i];
            if (strcmp(held->name, name) == 0) {
                held->token = token != 0 ? token : held->token;
                held->is_token_sure = token != 0;
            }
        }
    }
}

void machine_look(struct machine *machine, const struct hasp_hold *hold,
                  struct lease_clock now, struct hasp_lease *ret_lease)
{
    struct lease *lease = &machine->lease;
    uint64_t limit_ns = hold != NULL ? limit_left_ns(hold, now) : UINT64_MAX;
    bool is_lost = lease_check(lease, now) == LEASE_LOST;
    struct lease sure = *lease;
    sure.linger_ns = 0;
    uint64_t most_ns = lease_promised_ns(lease);
    if (hold != NULL && hold->limit_ms != 0) {
        most_ns = u64_min(most_ns, hold->limit_ms * NS_PER_MS);
    }
    *ret_lease = (struct hasp_lease){
        .remaining_ns = u64_min(limit_ns, lease_remaining(lease, now)),
        .sure_ns = u64_min(limit_ns, lease_remaining(&sure, now)),
        .most_ns = most_ns == UINT64_MAX ? most_ns : rules_trusted(most_ns),
        .is_refused = machine->is_refused};
    snprintf(ret_lease->why, sizeof ret_lease->why, "%s",
             !is_lost && limit_ns == 0 ? "the hold has ended" : machine->why);
}

void holds_ended(struct machine *machine, struct bytes lock, struct bytes owner,
                 struct bytes reason, uint64_t token)
{
    LIST_FOR (struct hasp_hold, hold, &machine->holds, in_machine) {
        if (hold->has_ended ||
            !bytes_equal(owner, bytes_of_text(hold->owner->tag))) {
            continue;
        }
        for (size_t i = 0; i < hold->count && !hold->has_ended; i++) {
            hold->has_ended = bytes_equal(lock,
                                          bytes_of_text(hold->held[i].name)) &&
                              (token == hold->held[i].token ||
                               !hold->held[i].is_token_sure);
        }
        if (hold->has_ended && !hold->is_told) {
            hold->is_told = true;
            machine_add_event(machine, HASP_EVENT_LOST, token, lock, reason);
        }
    }
}

void holds_turn(struct machine *machine)
{
    LIST_FOR (struct hasp_hold, hold, &machine->holds, in_machine) {
        if (hold->is_told || limit_left_ns(hold, machine->asker->now) != 0) {
            continue;
        }
        hold->is_told = true;
        if (!machine->is_over) {
            machine_add_event(machine, HASP_EVENT_LOST, hold->held[0].token,
                              bytes_of_text(hold->held[0].name),
                              BYTES_LITERAL("max hold"));
        }
    }
}

uint64_t holds_left_ns(struct machine *machine, struct lease_clock now)
{
    uint64_t least_ns = UINT64_MAX;
    LIST_FOR (struct hasp_hold, hold, &machine->holds, in_machine) {
        uint64_t left_ns = limit_left_ns(hold, now);
        if (!hold->is_told && left_ns < least_ns) {
            least_ns = left_ns;
        }
    }
    return least_ns;
}
