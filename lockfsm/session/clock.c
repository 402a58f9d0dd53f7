/* SPDX-License-Identifier: MIT */

/* The log's clock, and marks: how long a session has been quiet according to
 * the log (ARCHITECTURE.md: the rules of time, 9 and 10).
 *
 * Only TIME and BEGIN move the clock, each by what its proposer has measured
 * since it applied the base, the newest of them. If that is no longer the
 * newest here, another entry has counted part of that time already, and this
 * one counts nothing. What is counted never overlaps, so the clock never runs
 * ahead of a clock on the wall by more than the tenth that any clock may. */

#include "base/minmax.h"
#include "lockfsm/session/session.h"
#include "lockfsm/store/store.h"

static void clock_step(struct lockfsm *fsm, uint64_t base_index,
                       uint32_t elapsed_ms)
{
    uint64_t moved_ms = 0;
    /* An entry counts only once. */
    CHECK(fsm->entry.log_index > fsm->clock.index);
    if (fsm->clock.index != 0 && base_index == fsm->clock.index) {
        moved_ms = u64_min(elapsed_ms, CLOCK_STEP_MS_MAX);
    }
    fsm->clock.ms += moved_ms;
    fsm->clock.index = fsm->entry.log_index;
    effect_add(fsm, EFFECT_TIME)->time_ms = moved_ms;
}

static void drop_begin(struct lockfsm *fsm, uint32_t at)
{
    CHECK(at < fsm->clock.begin_count);
    fsm->clock.begin_count--;
    memmove(&fsm->clock.begins[at], &fsm->clock.begins[at + 1],
            (fsm->clock.begin_count - at) * sizeof fsm->clock.begins[0]);
}

/* Of the BEGINs older than any lease only the newest is kept: a session that
 * has been quiet since then has expired anyway. */
static void drop_old_begins(struct lockfsm *fsm)
{
    while (fsm->clock.begin_count > 1 &&
           fsm->clock.ms - fsm->clock.begins[1].clock_ms >=
               SESSION_TTL_MS_MAX) {
        drop_begin(fsm, 0);
    }
}

/* Merges the BEGIN whose sessions lose least when they count from the next one,
 * relative to its age. With 64 of them the loss is less than a fifth, however
 * many there were. */
static void thin_begins(struct lockfsm *fsm)
{
    uint32_t best = 0;
    uint64_t least = UINT64_MAX;
    CHECK(fsm->clock.begin_count > 1);
    for (uint32_t i = 0; i + 1 < fsm->clock.begin_count; i++) {
        uint64_t since_ms = fsm->clock.begins[i].since_ms;
        CHECK(since_ms <= fsm->clock.begins[i + 1].clock_ms);
        uint64_t lost_ms = fsm->clock.begins[i + 1].clock_ms - since_ms;
        uint64_t cost = lost_ms * 1024 / (fsm->clock.ms - since_ms + 1);
        if (cost < least) {
            least = cost;
            best = i;
        }
    }
    fsm->clock.begins[best + 1].since_ms = fsm->clock.begins[best].since_ms;
    drop_begin(fsm, best);
}

void clock_begin(struct lockfsm *fsm, uint64_t base_index, uint32_t elapsed_ms)
{
    clock_step(fsm, base_index, elapsed_ms);
    drop_old_begins(fsm);
    if (fsm->clock.begin_count == BEGIN_MARK_MAX) {
        thin_begins(fsm);
    }
    CHECK(fsm->clock.begin_count < BEGIN_MARK_MAX);
    fsm->clock.begins[fsm->clock.begin_count++] = (struct begin_mark){
        fsm->entry.log_index, fsm->clock.ms, fsm->clock.ms};
}

void apply_time(struct lockfsm *fsm, const struct entry *command,
                struct result *result)
{
    const struct time_command *time = command->time;
    clock_step(fsm, time->base_index, time->elapsed_ms);
    for (size_t i = 0; i < time->mark_count; i++) {
        struct session *session = session_find(fsm, time->marks[i].session);
        if (session == NULL || session->is_durable) {
            continue; /* The session has ended, or has become durable. */
        }
        uint32_t quiet_ms = time->marks[i].quiet_ms;
        session->mark_index = fsm->entry.log_index;
        session->mark_quiet_ms = u64_min(quiet_ms, session->ttl_ms);
        session->mark_clock_ms = fsm->clock.ms;
        record_changed(fsm, &session->stored);
        struct effect *effect = effect_add(fsm, EFFECT_SESSION_MARKED);
        effect->session = session->id;
        effect->time_ms = session->mark_quiet_ms;
        result->count++;
    }
}

void session_heard(struct lockfsm *fsm, struct session *session)
{
    session->heard_index = fsm->entry.log_index;
    session->mark_index = 0;
    session->mark_quiet_ms = 0;
    session->mark_clock_ms = 0;
    record_changed(fsm, &session->stored);
}

void apply_heard(struct lockfsm *fsm, const struct entry *command,
                 struct result *result)
{
    const struct heard_command *heard = command->heard;
    for (size_t i = 0; i < heard->session_count; i++) {
        struct session *session = session_find(fsm, heard->sessions[i]);
        if (session != NULL && !session->is_durable) {
            session_heard(fsm, session);
            effect_add(fsm, EFFECT_SESSION_HEARD)->session = session->id;
            result->count++;
        }
    }
}

uint64_t lockfsm_clock(const struct lockfsm *fsm)
{
    return fsm->clock.ms;
}

uint64_t lockfsm_clock_index(const struct lockfsm *fsm)
{
    return fsm->clock.index;
}

/* The first BEGIN after 'log_index', or NULL. */
static const struct begin_mark *begin_after(const struct lockfsm *fsm,
                                            uint64_t log_index)
{
    uint32_t low = 0, high = fsm->clock.begin_count;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (fsm->clock.begins[middle].log_index > log_index) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low < fsm->clock.begin_count ? &fsm->clock.begins[low] : NULL;
}

bool lockfsm_mark(const struct lockfsm *fsm, const struct session *session,
                  struct quiet *ret_quiet)
{
    if (session->is_durable) {
        return false;
    }
    if (session->mark_index != 0) {
        /* Leaders count the time since the mark, so it cannot be in the future.
         */
        CHECK(session->mark_clock_ms <= fsm->clock.ms);
        *ret_quiet = (struct quiet){session->mark_quiet_ms,
                                    session->mark_clock_ms};
        return true;
    }
    const struct begin_mark *begin = begin_after(fsm, session->heard_index);
    if (begin == NULL) {
        return false;
    }
    CHECK(begin->clock_ms <= fsm->clock.ms);
    *ret_quiet = (struct quiet){0, begin->clock_ms};
    return true;
}
