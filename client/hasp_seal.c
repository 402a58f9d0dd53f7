/* SPDX-License-Identifier: MIT */

/* on_grant: seals the resource at the token before the caller of an acquisition
 * learns that it has the lock. */

#include <inttypes.h>
#include <stdio.h>

#include "base/units.h"
#include "client/hasp_session.h"

/* Puts the hold under the limit of the hook: the machine gives it back then,
 * even if the hook never returns. Renewals of the lease while the hook runs do
 * not prolong it. */
static void seal_begin(struct hasp_hold *hold, uint64_t seal_ms,
                       struct sealing *sealing)
{
    struct hasp_lease lease;
    struct hasp_session *session = hold->session;
    session_lock(session);
    struct lease_clock now = client_clock_read();
    session_fsm_look(&session->fsm, hold, now, &lease);
    *sealing = (struct sealing){
        .hold = hold, .from = now, .limit_ns = lease.remaining_ns};
    if (seal_ms != 0 && seal_ms < sealing->limit_ns / NS_PER_MS) {
        sealing->limit_ns = seal_ms * NS_PER_MS;
    }
    hold->sealing = sealing;
    session->link->driver->drive(session->link);
    session_unlock(session);
}

/* Finds the next lock, from '*at' on, that the owner did not hold before;
 * false: there is none, or the hold was given back. */
static bool seal_next(struct hasp_session *session,
                      const struct sealing *sealing, size_t *at,
                      uint64_t *ret_token)
{
    session_lock(session);
    const struct hasp_hold *hold = sealing->hold;
    while (hold != NULL && *at < hold->count && !hold->held[*at].is_first) {
        ++*at;
    }
    bool is_found = hold != NULL && *at < hold->count;
    if (is_found) {
        *ret_token = hold->held[*at].token;
    }
    session_unlock(session);
    return is_found;
}

static int seal_call(struct hasp_session *session,
                     const struct hasp_acquire_options *options,
                     const char *const *names, const struct sealing *sealing)
{
    uint64_t token = 0;
    int failure = 0;
    for (size_t i = 0; failure == 0 && seal_next(session, sealing, &i, &token);
         i++) {
        failure = options->on_grant(options->grant_data, names[i], token);
    }
    return failure;
}

/* Ends the limit. The hold is NULL if it was given back, otherwise it still
 * belongs to the caller. Returns HASP_ELOST, HASP_ESEAL or 0. */
static int seal_end(struct hasp_session *session, struct sealing *sealing,
                    const char *name, int failure)
{
    char text[HASP_WHY_SIZE];
    session_lock(session);
    struct lease_clock now = client_clock_read();
    struct hasp_hold *hold = sealing->hold;
    bool is_late = hold == NULL || sealing_left_ns(sealing, now) == 0;
    bool was_lost = hold != NULL && hold->has_ended;
    int error = session_fsm_check(&session->fsm, now, text);
    if (hold != NULL) {
        hold->sealing = NULL;
    }
    session_unlock(session);
    if (error != 0) {
        return why_set(error, "%s", text);
    }
    if (was_lost) {
        return why_set(HASP_ELOST, "'%.200s' was taken away while on_grant ran",
                       name);
    }
    if (is_late) {
        return why_set(HASP_ESEAL,
                       "on_grant of '%.200s' took longer than %" PRIu64
                       " ms; the lock was given back",
                       name, sealing->limit_ns / NS_PER_MS);
    }
    if (failure != 0) {
        return why_set(HASP_ESEAL,
                       "on_grant of '%.200s' failed with %d, and the lock was "
                       "given back",
                       name, failure);
    }
    return 0;
}

int seal_run(struct hasp_hold *hold, const char *const *names,
             const struct hasp_acquire_options *options)
{
    struct hasp_session *session = hold->session;
    struct sealing sealing;
    seal_begin(hold, options->seal_ms, &sealing);
    int failure = seal_call(session, options, names, &sealing);
    if (session_check_process(session) != 0) {
        return HASP_EFORKED; /* The hold is the parent's. */
    }
    int error = seal_end(session, &sealing, names[0], failure);
    if (error != 0 && sealing.hold != NULL) {
        char why[HASP_WHY_SIZE];
        snprintf(why, sizeof why, "%s", hasp_why());
        (void)hasp_release(sealing.hold);
        return why_set(error, "%s", why);
    }
    return error;
}
