/* SPDX-License-Identifier: MIT */

/* The oracle of what is shown: LOCK.SHOW, LOCK.LIST, SESSION.SHOW,
 * SESSION.LIST, FENCE.LIST.
 *
 *   - What is told of a lock (mode, slots, holders, queue, note), a session or
 *     a fence is all so at one moment between question and answer, and a page
 *     is of one moment, whole from where it begins to where it ends: so what is
 *     there from the first to the last one is shown, once.
 *   - Ages are those of the entries: no more than since the first node has
 *     applied them, and no less than since the leader has, or began to run.
 *   - A lease, a limited hold and a delay have no less left than their length
 *     less what has passed since the newest heartbeat that was answered, the
 *     grant, the entry that closed the lock; and no more than less what has
 *     passed since the leader has heard it, has applied it, or began to serve;
 *     both by the clocks that make it hardest. sim_faces.h looks at what comes
 *     of it.
 *   - earliest_ms follows from what else is told. */

#ifndef HASP_TESTS_SIM_SIM_SHOWN_H
#define HASP_TESTS_SIM_SIM_SHOWN_H

#include "tests/sim/sim_channel.h"
#include "tests/sim/sim_faces.h"

/* The answer in 'channel' to a SHOW of this lock; 'who' asked. */
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
    bool is_over; /* There is no more. */
};

void sim_shown_begin(struct shown_listing *listing, enum face_kind kind,
                     const char *prefix);
void sim_shown_done(struct shown_listing *listing);
/* The answer in 'channel', a cursor and an array, is its next page. */
void sim_shown_page(const struct sim_channel *channel, const char *who,
                    struct shown_listing *listing);

#endif /* HASP_TESTS_SIM_SIM_SHOWN_H */
