/* SPDX-License-Identifier: MIT */

/* The log line about the quarantine, and QUARANTINE.END. */

#include "core/session/quarantine.h"

#include <inttypes.h>

#include "base/check.h"
#include "base/log.h"
#include "core/command.h"
#include "core/state.h"

#define LOG_NS (60 * NS_PER_S)

uint64_t core_quarantine_ms(struct core *core)
{
    uint64_t time_ms;
    uint64_t since_index = lockfsm_quarantine(core->fsm, &time_ms);
    if (since_index == 0) {
        return 0;
    }
    if (is_serving(core)) {
        uint64_t left_ns = timers_quarantine_left(core->timers, core->fsm,
                                                  core->now_ns);
        return (left_ns + NS_PER_MS - 1) / NS_PER_MS;
    }
    CHECK(lockfsm_clock(core->fsm) >= lockfsm_quarantine_clock(core->fsm));
    uint64_t passed_ms = lockfsm_clock(core->fsm) -
                         lockfsm_quarantine_clock(core->fsm);
    return passed_ms < time_ms ? time_ms - passed_ms : 1;
}

void quarantine_turn(struct core *core)
{
    if (lockfsm_quarantine(core->fsm, NULL) == 0) {
        core->run.logged.quarantine_due_ns = 0;
        return;
    }
    if (core->now_ns < core->run.logged.quarantine_due_ns) {
        return;
    }
    core->run.logged.quarantine_due_ns = core->now_ns + LOG_NS;
    LOG_WARN("quarantine after a restore",
             "left_ms=%" PRIu64
             " hint=\"no lock is granted; if no client from before the "
             "restore is left, run: hasp quarantine end --i-vouch REASON\"",
             core_quarantine_ms(core));
}

uint64_t quarantine_next(const struct core *core)
{
    return core->run.logged.quarantine_due_ns != 0
               ? core->run.logged.quarantine_due_ns
               : UINT64_MAX;
}
