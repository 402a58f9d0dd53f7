/* SPDX-License-Identifier: MIT */

/* From memory into the table. */

#include "core/snapshot/flush.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/check.h"
#include "base/log.h"
#include "core/state.h"

/* A full table cannot grow before the snapshot's reader has ended. */
#define FULL_RETRY_NS NS_PER_S
/* While an earlier flush is being written the next one waits. */
#define BUSY_RETRY_NS (20 * NS_PER_MS)

void flush_start(struct core *core, struct table *table)
{
    CHECK(core->flush.table == NULL); /* core_begin() is called once. */
    core->flush.table = table;
}

void flush_plan(struct core *core)
{
    if (core->flush.due_ns == 0) {
        core->flush.due_ns = core->now_ns +
                             core->options.limits.flush_ms * NS_PER_MS;
    }
}

void flush_cancel(struct core *core)
{
    core->flush.due_ns = 0;
}

int flush_whole(struct core *core)
{
    /* While a snapshot is being installed the table belongs to it. */
    CHECK(core->snapshots.installing == 0);
    int error = lockfsm_flush(core->fsm, core->flush.table);
    while (error == HASP_EFULL) {
        uint64_t used, room;
        error = table_grow(core->flush.table);
        if (error == 0) {
            table_size(core->flush.table, &used, &room);
            LOG_INFO("table grown", "bytes=%" PRIu64 " room=%" PRIu64, used,
                     room);
            error = lockfsm_flush(core->fsm, core->flush.table);
        }
    }
    return error;
}

bool flush_state(struct core *core, bool is_now)
{
    if (core->run.has_fatal || core->snapshots.installing != 0 ||
        lockfsm_flushed_index(core->fsm) == lockfsm_applied_index(core->fsm)) {
        return false;
    }
    if (!is_now && core->now_ns < core->flush.due_ns &&
        (core->flush.is_table_full ||
         lockfsm_dirty_count(core->fsm) < core->options.limits.flush_records)) {
        return false;
    }
    if (!is_now && table_is_busy(core->flush.table)) {
        core->flush.due_ns = core->now_ns + BUSY_RETRY_NS;
        return false;
    }
    if (!is_now && core->turn.has_spent_budget && !core->flush.is_put_off) {
        core->flush.is_put_off = core->turn.has_left_over = true;
        return false;
    }
    int error = flush_whole(core);
    CHECK(error != 0 ||
          lockfsm_flushed_index(core->fsm) == lockfsm_applied_index(core->fsm));
    core->flush.is_put_off = false;
    core->flush.due_ns = 0;
    core->flush.is_table_full = error == HASP_EBUSY;
    if (core->flush.is_table_full) {
        /* A snapshot is being made from the table; the log keeps everything
         * meanwhile. */
        core->flush.due_ns = core->now_ns + FULL_RETRY_NS;
    } else if (error == HASP_ENOMEM) {
        core_fatal(core, 70,
                   "the table needs more address space than the process may "
                   "use; raise its limit (ulimit -v, LimitAS)");
    } else if (error != 0) {
        char why[HASP_WHY_SIZE];
        snprintf(why, sizeof why, "cannot write the state to the table: %s",
                 hasp_strerror(error));
        core_fatal(core, 70, why);
    }
    return true;
}
