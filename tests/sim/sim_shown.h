/* SPDX-License-Identifier: MIT */

/* The oracle of what is shown: LOCK.SHOW, LOCK.LIST, SESSION.SHOW,
 * SESSION.LIST, FENCE.LIST.
 *
 * - What is shown of a lock (mode, slots, holders, queue, note), a session or a
 *   fence is all true at one moment between request and answer. A page is of
 *   one moment, complete from its first to its last name: everything that
 *   exists between them is shown once.
 * - Ages are those of the entries: no more than since the first node has
 *   applied them, and no less than since the leader has, or began to run.
 * - A lease, a limited hold and a delay have at least their length left minus
 *   the time since the newest answered heartbeat, the grant, or the entry that
 *   closed the lock. They have at most their length minus the time since the
 *   leader has heard it, has applied it, or began to serve. Both bounds use the
 *   least favourable clocks. sim_faces.h checks that it becomes true.
 * - earliest_ms follows from the rest of the answer. */

#ifndef HASP_TESTS_SIM_SIM_SHOWN_H
#define HASP_TESTS_SIM_SIM_SHOWN_H

#include "tests/sim/sim_channel.h"
#include "tests/sim/sim_faces.h"

/* The answer in 'channel' to a SHOW of this lock; 'who' sent it. */
void sim_shown_lock(const struct sim_channel *channel, const char *who,
                    struct bytes name);
/* The answer in 'channel' to a SHOW of this session. */
void sim_shown_session(const struct sim_channel *channel, const char *who,
                       uint64_t id);

/* A listing, page by page. */
struct shown_listing {
    enum face_kind kind;
    const char *prefix;
    struct buffer last; /* The last that was shown, if any. */
    uint64_t last_id;
    bool has_last;
    bool is_over; /* There are no more. */
};

void sim_shown_begin(struct shown_listing *listing, enum face_kind kind,
                     const char *prefix);
void sim_shown_done(struct shown_listing *listing);
/* The answer in 'channel', a cursor and an array, is its next page. */
void sim_shown_page(const struct sim_channel *channel, const char *who,
                    struct shown_listing *listing);

#endif /* HASP_TESTS_SIM_SIM_SHOWN_H */
