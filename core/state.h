/* SPDX-License-Identifier: MIT */

/* The parts of the core. Private to core.
 *
 * Each part is declared in the header of the module that owns it. Only that
 * module writes its fields; the comment at the struct says how long they live.
 *
 * One structure, struct request, follows a command through all its states
 * (request.h) and says what it waits for.
 *
 * Invariant: a request of a local connection is in exactly one slot of it; when
 * it is answered it leaves its list, its slot and the count in flight. */

#ifndef HASP_CORE_STATE_H
#define HASP_CORE_STATE_H

#include "base/log_limit.h"
#include "base/minmax.h"
#include "core/conn.h"
#include "core/core.h"
#include "core/drain.h"
#include "core/events/event_log.h"
#include "core/events/history.h"
#include "core/events/watches.h"
#include "core/forward_queue.h"
#include "core/leadership.h"
#include "core/members/apart.h"
#include "core/members/clocks.h"
#include "core/members/digests.h"
#include "core/members/disks.h"
#include "core/members/log_loss.h"
#include "core/members/peer.h"
#include "core/raft_output.h"
#include "core/request.h"
#include "core/scripts.h"
#include "core/session/attach.h"
#include "core/session/pending_access.h"
#include "core/slow_log.h"
#include "core/snapshot/flush.h"
#include "core/snapshot/snapshots.h"
#include "core/stats.h"
#include "lease/timers.h"
#include "lockfsm/entry.h"
#include "lockfsm/user/access.h"

struct core {
    struct core_options options;
    struct core_port port;
    struct replica *replica;
    struct lockfsm *fsm;
    struct timers *timers;
    uint64_t now_ns;

    struct leadership leadership;
    struct leader leader;
    struct member_view members;
    struct peer peers[PEER_COUNT_MAX];
    struct log_loss loss;
    struct clocks clocks;
    struct disks disks;
    struct apart apart;
    struct drain drain;
    struct digests digests;

    struct conns conns;
    struct pending_access pending_access;
    struct attach attach;
    struct watches watches;
    struct event_log event_log;
    struct requests requests;
    struct forward_queue forward_queue;
    struct scripts scripts;
    struct stats stats;
    struct slow_log slow_log;

    struct flush flush;
    struct snapshots snapshots;
    struct history history;

    /* Lives as long as the process. */
    struct run {
        uint64_t started_ns;
        uint64_t replayed_index; /* The last entry in the log at the start. */
        enum core_disk disk;
        bool has_fatal;
        bool is_stopping;
        const struct command_table *commands;
        uint16_t command_slots[512]; /* Hash of a name -> place in the table +
                                        1; of command.c. */
        /* Answers of COMMAND that describe all commands, made once by
         * command_info.c: by DOCS, and by RESP3. */
        struct buffer described[2][2];
        /* What has been logged for people, so that it is not repeated too
         * often. */
        struct logged {
            struct log_limit ignored; /* Frames. */
            struct log_limit pleas;
            struct log_limit searches;
            uint64_t quarantine_due_ns; /* When its next line is due; 0. */
            /* The level to which the cluster could be raised. */
            uint32_t level;
        } logged;
    } run;
    /* The state of one turn. */
    struct turn {
        struct effects effects; /* The effects of the current entry. */
        bool has_left_over;     /* Work was left to the next turn. */
        bool has_spent_budget;  /* Applying has used up its budget. */
        bool has_session_ended; /* Since doomed heartbeats were last checked. */
        uint64_t scan_budget;   /* Records for LIST and scripts. */
        uint64_t read_budget;   /* Units for answers to reads. */
    } turn;
};

/* This node leads, as far as the core has noticed. */
static inline bool is_leader(const struct core *core)
{
    return core->leadership.stage != LEADERSHIP_NONE;
}

/* The time since this entry was applied here, if that is known. */
static inline uint64_t age_ms(const struct core *core, uint64_t log_index)
{
    return history_age_ms(&core->history, log_index, core->now_ns);
}

/* See core_is_serving(). */
static inline bool is_serving(const struct core *core)
{
    return core->leadership.stage == LEADERSHIP_SERVING;
}

/* See core_is_barred(). */
static inline bool is_barred(const struct core *core)
{
    return core->loss.accused.term != 0;
}

/* True if clients may send writes here (Redis libraries send them only to a
 * "master"): this node leads, or it forwards them. */
static inline bool takes_writes(const struct core *core)
{
    return core->options.redirect == REDIRECT_FORWARD ||
           replica_role(core->replica) == REPLICA_LEADER;
}

/* Sets the time. It does not go back, in whatever order the events arrive. */
static inline void set_now(struct core *core, uint64_t now_ns)
{
    core->now_ns = u64_max(core->now_ns, now_ns);
}

#endif /* HASP_CORE_STATE_H */
