/* SPDX-License-Identifier: MIT */

/* What is asked of a hold without a round trip: the shorter of its session's
 * lease (lease/lease.h) and of its own limit, and whether the cluster has
 * ended it. */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/hasp_session.h"
#include "lease/rules.h"

int client_hold_new(struct change *change, const uint64_t *tokens,
                    struct hasp_hold **ret_hold)
{
    struct hasp_hold *hold = calloc(1, sizeof *hold);
    if (hold != NULL) {
        hold->held = calloc(change->count, sizeof *hold->held);
    }
    if (hold == NULL || hold->held == NULL) {
        free(hold);
        return why_set(HASP_ENOMEM, "out of memory");
    }
    hold->session = change->session;
    hold->owner = change->owner;
    hold->count = change->count;
    hold->is_token_sure = true;
    hold->limit_ms = change->options.hold_ms;
    hold->left_ms = hold->limit_ms;
    hold->limit_sent = change->first_sent;
    for (size_t i = 0; i < change->count; i++) {
        hold->held[i].name = change->names[i];
        hold->held[i].token = tokens[i];
        change->names[i] = NULL;
    }
    list_init(&hold->in_session);
    *ret_hold = hold;
    return 0;
}

void client_hold_free(struct hasp_hold *hold)
{
    for (size_t i = 0; i < hold->count; i++) {
        free(hold->held[i].name);
    }
    free(hold->held);
    free(hold);
}

/* A re-entry has the token of the hold that it counts up. */
static bool is_entered_again(const struct hasp_hold *outer,
                             const struct hasp_hold *hold)
{
    for (size_t i = 0; i < outer->count; i++) {
        for (size_t j = 0; j < hold->count; j++) {
            if (strcmp(outer->held[i].name, hold->held[j].name) == 0 &&
                (outer->held[i].token == hold->held[j].token ||
                 !outer->is_token_sure)) {
                return true;
            }
        }
    }
    return false;
}

void client_hold_enter_again(struct hasp_hold *hold)
{
    struct lease_clock now = client_clock_read();
    LIST_EACH (node, &hold->session->holds) {
        const struct hasp_hold *outer = LIST_ENTRY(node, struct hasp_hold,
                                                   in_session);
        if (outer->owner == hold->owner && outer->limit_ms != 0 &&
            !outer->has_ended && is_entered_again(outer, hold) &&
            client_hold_limit_ns(outer, now) <
                client_hold_limit_ns(hold, now)) {
            hold->limit_ms = outer->limit_ms;
            hold->left_ms = outer->left_ms;
            hold->limit_sent = outer->limit_sent;
        }
    }
}

uint64_t client_hold_limit_ns(const struct hasp_hold *hold,
                              struct lease_clock now)
{
    if (hold->has_ended) {
        return 0;
    }
    return hold->limit_ms == 0
               ? UINT64_MAX
               : lease_hold_remaining(hold->limit_sent, hold->left_ms, now);
}

uint64_t hasp_token(const struct hasp_hold *hold)
{
    return hasp_token_of(hold, 0);
}

uint64_t hasp_token_of(const struct hasp_hold *hold, size_t i)
{
    if (hold == NULL || session_check_process(hold->session) != 0 ||
        i >= hold->count) {
        return 0;
    }
    session_lock(hold->session);
    uint64_t token = hold->held[i].token;
    session_unlock(hold->session);
    return token;
}

/* What is left right after a heartbeat, in a hold that has just begun. */
static uint64_t most(const struct hasp_hold *hold)
{
    uint64_t time_ns = lease_promised_ns(&hold->session->opened.lease);
    if (hold->limit_ms != 0 && hold->limit_ms < time_ns / NS_PER_MS) {
        time_ns = hold->limit_ms * NS_PER_MS;
    }
    return rules_trusted(time_ns);
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

int hasp_look(struct hasp_hold *hold, struct hasp_lease *ret_lease)
{
    struct keeper_view view;
    if (ret_lease != NULL) {
        *ret_lease = (struct hasp_lease){0};
    }
    if (hold == NULL || ret_lease == NULL) {
        return why_set(HASP_EINVALID, "hasp_look: no hold, or nowhere to put "
                                      "what is known");
    }
    struct hasp_session *session = hold->session;
    int error = session_check_process(session);
    if (error != 0) {
        return error;
    }
    session_lock(session);
    uint64_t limit_ns = client_hold_limit_ns(hold, client_clock_read());
    session_unlock(session);
    keeper_view(session->keeper, &view);
    bool is_lost = view.state == LEASE_LOST;
    ret_lease->remaining_ns = is_lost ? 0
                                      : smaller(limit_ns, view.remaining_ns);
    ret_lease->sure_ns = is_lost ? 0 : smaller(limit_ns, view.sure_ns);
    ret_lease->most_ns = most(hold);
    ret_lease->is_refused = view.is_refused;
    snprintf(ret_lease->why, sizeof ret_lease->why, "%s",
             !is_lost && limit_ns == 0 ? "the hold has ended" : view.why);
    return 0;
}

uint64_t hasp_remaining(struct hasp_hold *hold)
{
    struct hasp_lease lease;
    return hasp_look(hold, &lease) == 0 ? lease.remaining_ns : 0;
}

int hasp_guard(struct hasp_hold *hold, uint64_t need_ns)
{
    struct hasp_lease lease;
    int error = hasp_look(hold, &lease);
    if (error != 0) {
        return error;
    }
    const char *name = hold->held[0].name;
    if (lease.sure_ns == 0) {
        return why_set(HASP_ELOST, "the hold of '%.200s' is lost", name);
    }
    if (lease.remaining_ns >= need_ns && lease.remaining_ns > 0) {
        return 0;
    }
    if (need_ns > lease.most_ns) {
        return why_set(HASP_ESHORT,
                       "'%.200s': %" PRIu64 " ns are needed, and there are "
                       "never more than %" PRIu64 ", 0.8 of the smallest "
                       "of ttl_ms, linger_ms and hold_ms",
                       name, need_ns, lease.most_ns);
    }
    return why_set(HASP_ESHORT,
                   "'%.200s': %" PRIu64 " ns of the lease are left, "
                   "%" PRIu64 " ns are needed",
                   name, lease.remaining_ns, need_ns);
}
