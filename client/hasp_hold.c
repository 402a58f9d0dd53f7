/* SPDX-License-Identifier: MIT */

/* What is asked of a hold without a round trip: the shorter of its session's
 * lease (lease/lease.h) and of its own limit, and whether the cluster has
 * ended it. */

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "client/hasp_session.h"

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

/* Tells also whether it is lost for ever. */
static uint64_t remaining(struct hasp_hold *hold, bool *ret_is_lost)
{
    struct hasp_session *session = hold->session;
    struct keeper_view view;
    session_lock(session);
    uint64_t limit_ns = client_hold_limit_ns(hold, client_clock_read());
    session_unlock(session);
    keeper_view(session->keeper, &view);
    *ret_is_lost = limit_ns == 0 || view.state == LEASE_LOST;
    return limit_ns < view.remaining_ns ? limit_ns : view.remaining_ns;
}

uint64_t hasp_remaining(struct hasp_hold *hold)
{
    bool is_lost;
    if (hold == NULL || session_check_process(hold->session) != 0) {
        return 0;
    }
    return remaining(hold, &is_lost);
}

/* What is left right after a heartbeat, in a hold that has just begun. */
static uint64_t most(const struct hasp_hold *hold)
{
    uint64_t time_ns = lease_promised_ns(&hold->session->opened.lease);
    if (hold->limit_ms != 0 && hold->limit_ms < time_ns / NS_PER_MS) {
        time_ns = hold->limit_ms * NS_PER_MS;
    }
    return lease_trusted_ns(time_ns);
}

int hasp_guard(struct hasp_hold *hold, uint64_t need_ns)
{
    bool is_lost;
    if (hold == NULL) {
        return why_set(HASP_EINVALID, "hasp_guard: no hold");
    }
    int error = session_check_process(hold->session);
    if (error != 0) {
        return error;
    }
    uint64_t left_ns = remaining(hold, &is_lost);
    if (is_lost) {
        return why_set(HASP_ELOST, "the hold of '%.200s' is lost",
                       hold->held[0].name);
    }
    if (left_ns < need_ns || left_ns == 0) {
        uint64_t most_ns = most(hold);
        if (need_ns > most_ns) {
            return why_set(HASP_ESHORT,
                           "'%.200s': %" PRIu64 " ns are needed, and there are "
                           "never more than %" PRIu64 ", 0.8 of the smallest "
                           "of ttl_ms, linger_ms and hold_ms",
                           hold->held[0].name, need_ns, most_ns);
        }
        return why_set(HASP_ESHORT,
                       "'%.200s': %" PRIu64 " ns of the lease are left, "
                       "%" PRIu64 " ns are needed",
                       hold->held[0].name, left_ns, need_ns);
    }
    return 0;
}
