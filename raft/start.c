/* SPDX-License-Identifier: MIT */

/* The start of a replica: what disk holds, checked and given to the core. */

#include "raft/replica_state.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/check.h"
#include "base/memory.h"
#include "base/minmax.h"

/* The state with which the core is started. */
struct plan {
    uint64_t term;
    uint64_t voted_for;
    bool has_new_vote;
    /* The log ends before the snapshot, or does not belong to it. */
    bool is_log_obsolete;
    uint64_t last_index;
    const struct replica_entry *entries; /* None if the log is obsolete. */
    uint32_t entry_count;
};

static int check_entry(const struct replica_start *start, uint32_t i,
                       char why[HASP_WHY_SIZE])
{
    const struct replica_entry *entry = &start->entries[i];
    uint64_t index = start->entries[0].log_index + i;
    uint64_t term_before = i > 0 ? start->entries[i - 1].term : 1;
    struct replica_members members;
    const char *what = NULL;
    /* The core takes all of this for granted (README): a damaged log must end
     * the start here. */
    if (entry->log_index != index || index == 0) {
        what = "is not at its index";
    } else if (entry->term < term_before) {
        what = "has a lower term than the one before";
    } else if (entry->term > MESSAGE_NUMBER_MAX) {
        what = "has an invalid term";
    } else if ((int)entry->type < ENTRY_COMMAND || entry->type > ENTRY_CHANGE) {
        what = "has an unknown type";
    } else if (entry->body.size > REPLICA_ENTRY_SIZE_MAX) {
        what = "is too big";
    } else if (entry->type == ENTRY_CHANGE &&
               replica_members_decode(entry->body, &members) != 0) {
        what = "is a configuration that cannot be decoded";
    } else if (entry->type != ENTRY_CHANGE && index == 1) {
        what = "is the first one and not a configuration";
    }
    if (what == NULL) {
        return 0;
    }
    snprintf(why, HASP_WHY_SIZE, "the entry at index %" PRIu64 " of the log %s",
             index, what);
    return HASP_ECORRUPT;
}

static int check_entries(const struct replica_start *start,
                         char why[HASP_WHY_SIZE])
{
    for (uint32_t i = 0; i < start->entry_count; i++) {
        int error = check_entry(start, i, why);
        if (error != 0) {
            return error;
        }
    }
    if (start->entry_count > 0 &&
        start->entries[0].log_index > start->snapshot_index + 1) {
        snprintf(why, HASP_WHY_SIZE,
                 "the log begins at index %" PRIu64
                 ", but the snapshot ends at %" PRIu64,
                 start->entries[0].log_index, start->snapshot_index);
        return HASP_ECORRUPT;
    }
    return 0;
}

/* Checks the term and the vote. A term is written to disk before any entry of
 * it. */
static int check_votes(const struct replica_start *start, struct plan *ret_plan,
                       char why[HASP_WHY_SIZE])
{
    uint64_t term = start->snapshot_index > 0 ? start->snapshot_term : 0;
    if (start->entry_count > 0 &&
        start->entries[start->entry_count - 1].term > term) {
        term = start->entries[start->entry_count - 1].term;
    }
    ret_plan->term = start->term;
    ret_plan->voted_for = start->voted_for;
    if (start->term == 0 && start->voted_for == 0 && term == 1 &&
        start->snapshot_index == 0 && start->entry_count == 1) {
        /* A new cluster: its log holds only the first configuration. */
        ret_plan->term = 1;
        ret_plan->has_new_vote = true;
        return 0;
    }
    if (start->term < term || start->term > MESSAGE_NUMBER_MAX ||
        (start->term == 0 && start->voted_for != 0)) {
        snprintf(why, HASP_WHY_SIZE,
                 "the saved term is %" PRIu64
                 ", but the log or the snapshot has term %" PRIu64,
                 start->term, term);
        return HASP_ECORRUPT;
    }
    return 0;
}

static int check_snapshot(struct replica *replica,
                          const struct replica_start *start,
                          char why[HASP_WHY_SIZE])
{
    struct replica_members members;
    if (start->snapshot_index == 0) {
        return 0;
    }
    if (start->snapshot_term == 0 || start->snapshot_members_index == 0 ||
        start->snapshot_members_index > start->snapshot_index ||
        start->snapshot_index > MESSAGE_NUMBER_MAX) {
        snprintf(why, HASP_WHY_SIZE,
                 "the snapshot's index and term contradict each other");
        return HASP_ECORRUPT;
    }
    if (replica_members_decode(start->snapshot_members, &members) != 0) {
        snprintf(why, HASP_WHY_SIZE,
                 "the snapshot's configuration cannot be decoded");
        return HASP_ECORRUPT;
    }
    members_history_put(&replica->history, start->snapshot_members_index,
                        &members);
    return 0;
}

static uint64_t last_of(const struct replica_start *start)
{
    return start->entry_count > 0
               ? start->entries[start->entry_count - 1].log_index
               : 0;
}

/* Checks where the log ends, and decides whether it can still be used. */
static int check_reach(const struct replica_start *start, struct plan *plan,
                       char why[HASP_WHY_SIZE])
{
    uint64_t last = last_of(start);
    uint64_t snapshot = start->snapshot_index;
    plan->entries = start->entries;
    plan->entry_count = start->entry_count;
    plan->last_index = last;
    if (snapshot > 0 && start->entry_count > 0) {
        uint64_t first = start->entries[0].log_index;
        /* The process ended after a received snapshot was durable, and before
         * the log was emptied: the log is dropped now. */
        bool is_short = last < snapshot;
        bool is_other = !is_short && first <= snapshot &&
                        start->entries[snapshot - first].term !=
                            start->snapshot_term;
        if (is_short || is_other) {
            plan->is_log_obsolete = true;
            plan->entries = NULL;
            plan->entry_count = 0;
            plan->last_index = snapshot;
        } else if (first > snapshot &&
                   start->entries[0].term < start->snapshot_term) {
            snprintf(why, HASP_WHY_SIZE,
                     "the log continues after the snapshot with a lower term");
            return HASP_ECORRUPT;
        }
    }
    plan->last_index = u64_max(plan->last_index, snapshot);
    if (start->applied_index < snapshot ||
        start->applied_index > plan->last_index) {
        snprintf(why, HASP_WHY_SIZE,
                 "the table has applied %" PRIu64
                 ", but the snapshot ends at %" PRIu64
                 " and the log at %" PRIu64,
                 start->applied_index, snapshot, plan->last_index);
        return HASP_ECORRUPT;
    }
    return 0;
}

static int learn_members(struct replica *replica,
                         const struct replica_start *start,
                         const struct plan *plan, char why[HASP_WHY_SIZE])
{
    for (uint32_t i = 0; i < plan->entry_count; i++) {
        const struct replica_entry *entry = &plan->entries[i];
        struct replica_members members;
        if (entry->type != ENTRY_CHANGE ||
            (start->snapshot_index > 0 &&
             entry->log_index <= start->snapshot_members_index)) {
            continue;
        }
        /* A snapshot has the newest configuration at or below its index, so
         * this log and this snapshot do not belong together. */
        if (entry->log_index <= start->snapshot_index) {
            snprintf(why, HASP_WHY_SIZE,
                     "the snapshot's configuration is older than the one at "
                     "index %" PRIu64,
                     entry->log_index);
            return HASP_ECORRUPT;
        }
        int error = replica_members_decode(entry->body, &members);
        CHECK(error == 0);
        members_history_put(&replica->history, entry->log_index, &members);
    }
    return 0;
}

/* Writes the core's views of the configurations in the log one after the other.
 * Each has the size of the body that it replaces. */
static void view_configurations(struct replica *replica,
                                const struct plan *plan, struct buffer *out)
{
    for (uint32_t i = 0; i < plan->entry_count; i++) {
        const struct replica_entry *entry = &plan->entries[i];
        if (entry->type == ENTRY_CHANGE) {
            struct bytes view = core_body(replica, entry);
            CHECK(view.size == entry->body.size);
            buffer_put_bytes(out, view);
        }
    }
}

static void start_start_core(struct replica *replica,
                             const struct replica_start *start,
                             const struct plan *plan)
{
    struct raft_snapshot_metadata metadata = {0};
    struct raft_event event = {.type = RAFT_START};
    event.start.term = plan->term;
    event.start.voted_for = plan->voted_for;
    event.start.start_index = plan->entry_count > 0 ? plan->entries[0].log_index
                                                    : start->snapshot_index + 1;
    if (start->snapshot_index > 0) {
        metadata.index = start->snapshot_index;
        metadata.term = start->snapshot_term;
        metadata.configuration_index = start->snapshot_members_index;
        core_configuration(replica, &replica->history.records[0].members,
                           &metadata.configuration);
        /* The core takes over the configuration's memory. */
        event.start.metadata = &metadata;
    }
    ROOM(replica->core_entries, replica->core_entries_capacity,
         plan->entry_count);
    struct buffer views = {0};
    view_configurations(replica, plan, &views);
    for (uint32_t i = 0, at = 0; i < plan->entry_count; i++) {
        const struct replica_entry *entry = &plan->entries[i];
        struct bytes body = entry->body;
        if (entry->type == ENTRY_CHANGE) {
            body.data = views.data + at;
            at += (uint32_t)body.size;
        }
        replica->core_entries[i] = (struct raft_entry){
            .term = entry->term,
            .type = (enum raft_entry_type)entry->type,
            .buf = {.base = (void *)(uintptr_t)body.data, .len = body.size},
            /* The core frees a batch only if the start fails. */
            .batch = replica,
        };
    }
    event.start.entries = replica->core_entries;
    event.start.n_entries = plan->entry_count;
    log_reset(&replica->log, event.start.start_index - 1);
    log_append(&replica->log, plan->entries, plan->entry_count);
    step_core(replica, &event);
    buffer_done(&views);
}

int replica_begin(struct replica *replica, const struct replica_start *start,
                  uint64_t now_ms, struct replica_update *update,
                  char why[HASP_WHY_SIZE])
{
    struct plan plan = {0};
    CHECK(!replica->is_begun);
    int error = check_entries(start, why);
    error = error ?: check_votes(start, &plan, why);
    error = error ?: check_snapshot(replica, start, why);
    error = error ?: check_reach(start, &plan, why);
    error = error ?: learn_members(replica, start, &plan, why);
    if (error != 0) {
        return error;
    }
    replica->is_begun = true;
    replica->applied_index = start->applied_index;
    step_begin(replica, now_ms);
    if (is_sole_voter(replica)) {
        /* T2: the core makes a single voter the leader without a new term; an
         * entry that was not yet durable when the process ended would then
         * share its index and term with another one. */
        plan.term++;
        plan.voted_for = replica->id;
        plan.has_new_vote = true;
    }
    replica->out.save_vote = plan.has_new_vote;
    replica->asked_term = replica->saved_term = start->term;
    replica->asked_vote = replica->saved_vote = start->voted_for;
    if (plan.is_log_obsolete) {
        replica->out.truncate_from = start->entries[0].log_index;
    }
    start_start_core(replica, start, &plan);
    CHECK(replica->core.current_term == plan.term);
    step_end(replica, update);
    return 0;
}
