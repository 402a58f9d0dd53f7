/* SPDX-License-Identifier: MIT */

#include "tests/sim/sim_counted.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/memory.h"
#include "raft/message.h"
#include "raft/replica.h"
#include "tests/sim/sim_check.h"
#include "tests/sim/sim_node.h"

enum said { SAID_VOTE, SAID_ENTRY, SAID_LEADER, SAID_COUNT };

/* What one directory has said to a node, in its newest term. */
struct saying {
    uint64_t incarnation;
    uint64_t term[SAID_COUNT];
    uint64_t number[SAID_COUNT]; /* ENTRY: index; LEADER: request. */
};

struct listener {
    struct saying saying[SIM_NODE_MAX]; /* By the other's machine. */
    struct replica_members members;     /* After its last turn. */
    uint64_t term;                      /* It was checked as its leader. */
    uint64_t inherited;                 /* Entries after this are its own. */
    uint64_t committed;
    uint64_t confirmed;
};

struct sim_counted {
    struct listener listener[SIM_NODE_MAX];
};

struct sim_counted *sim_counted_new(void)
{
    return memory_new(sizeof(struct sim_counted));
}

void sim_counted_free(struct sim_counted *counted)
{
    free(counted);
}

void sim_counted_started(struct sim_counted *counted, struct sim_node *node)
{
    counted->listener[sim_node_number(node)] = (struct listener){.term = 0};
}

static void note(struct saying *saying, enum said said, uint64_t term,
                 uint64_t number)
{
    if (term > saying->term[said] ||
        (term == saying->term[said] && number > saying->number[said])) {
        saying->term[said] = term;
        saying->number[said] = number;
    }
}

void sim_counted_heard(struct sim_counted *counted, const struct sim_node *node,
                       const struct sim_node *from, uint64_t incarnation,
                       struct bytes message)
{
    struct listener *listener = &counted->listener[sim_node_number(node)];
    struct saying *saying = &listener->saying[sim_node_number(from)];
    struct message said;
    if (message_decode(message, &said) != 0) {
        return;
    }
    if (saying->incarnation != incarnation) {
        *saying = (struct saying){.incarnation = incarnation};
    }
    if (said.kind == MESSAGE_VOTE_RESULT && said.vote_result.is_granted &&
        !said.vote_result.is_pre_vote) {
        note(saying, SAID_VOTE, said.term, 1);
    } else if (said.kind == MESSAGE_APPEND_RESULT &&
               said.append_result.rejected_index == 0) {
        note(saying, SAID_ENTRY, said.term, said.append_result.last_index);
    } else if (said.kind == MESSAGE_CONFIRMED) {
        note(saying, SAID_LEADER, said.term, said.number);
    }
}

/* True if that very directory, which is another one, has said it. */
static bool has_said(const struct listener *listener, uint64_t incarnation,
                     enum said said, uint64_t term, uint64_t number)
{
    bool has = false;
    for (uint32_t i = 0; i < SIM_NODE_MAX; i++) {
        const struct saying *saying = &listener->saying[i];
        has |= saying->incarnation == incarnation &&
               saying->term[said] == term && saying->number[said] >= number;
    }
    return has;
}

/* True if more than half of the voters have; 'is_own' speaks for the node
 * itself. */
static bool is_said(const struct listener *listener,
                    const struct sim_node *node,
                    const struct replica_members *members, enum said said,
                    uint64_t number, bool is_own)
{
    uint64_t own = sim_node_incarnation(node);
    uint64_t term = sim_node_term(node);
    uint32_t voters = 0, have_said = 0;
    MEMBER_EACH (member, members) {
        if (member->role == MEMBER_VOTER) {
            voters++;
            have_said += member->incarnation == own
                             ? is_own
                             : has_said(listener, member->incarnation, said,
                                        term, number);
        }
    }
    return 2 * have_said > voters;
}

/* A turn may count first and change the members afterwards. */
static bool is_by_majority(const struct listener *listener,
                           struct sim_node *node, enum said said,
                           uint64_t number, bool is_own)
{
    struct replica_members members;
    replica_members(core_replica(sim_node_core(node)), &members);
    return is_said(listener, node, &members, said, number, is_own) ||
           is_said(listener, node, &listener->members, said, number, is_own);
}

static void look_at_votes(struct sim *sim, struct listener *listener,
                          struct sim_node *node)
{
    uint64_t term = sim_node_term(node);
    if (listener->term == term) {
        return;
    }
    listener->term = term;
    listener->committed = listener->confirmed = 0;
    if (!is_by_majority(listener, node, SAID_VOTE, 1, true)) {
        sim_fail(sim, ORACLE_ELECTORS,
                 "a leader is elected by the directories that its newest "
                 "configuration names: %s leads term %" PRIu64
                 " without the votes of more than half of them",
                 sim_node_host(node)->name, term);
    }
}

static void look_at_commits(struct sim *sim, struct listener *listener,
                            struct sim_node *node)
{
    const struct replica *replica = core_replica(sim_node_core(node));
    uint64_t committed = replica_commit_index(replica);
    if (committed <= listener->committed || committed <= listener->inherited) {
        return; /* An earlier leader had committed it. */
    }
    listener->committed = committed;
    if (!is_by_majority(listener, node, SAID_ENTRY, committed,
                        replica_appliable(replica) >= committed)) {
        sim_fail(sim, ORACLE_COMMITTERS,
                 "what is committed is on disk in the directories that the "
                 "newest configuration names: %s commits %" PRIu64
                 " of term %" PRIu64 " without more than half of them",
                 sim_node_host(node)->name, committed, listener->term);
    }
}

static void look_at_confirmations(struct sim *sim, struct listener *listener,
                                  struct sim_node *node)
{
    uint64_t confirmed = replica_confirmed(core_replica(sim_node_core(node)));
    if (confirmed <= listener->confirmed) {
        return;
    }
    listener->confirmed = confirmed;
    if (!is_by_majority(listener, node, SAID_LEADER, confirmed, true)) {
        sim_fail(sim, ORACLE_COMMITTERS,
                 "a leader is confirmed by the directories that its newest "
                 "configuration names: %s leads term %" PRIu64
                 ", it believes, without more than half of them",
                 sim_node_host(node)->name, listener->term);
    }
}

/* The node that has this directory; NULL: none, no longer. */
static struct sim_node *holder_of(const struct sim *sim, uint64_t incarnation)
{
    struct sim_node *holder = NULL;
    for (uint32_t i = 0; i < sim->node_count; i++) {
        holder = sim_node_incarnation(sim->node[i]) == incarnation
                     ? sim->node[i]
                     : holder;
    }
    return holder;
}

/* A node that has yet to learn of a replacement knows the number under the old
 * directory, and may have the new one as an unlisted peer. The reverse is
 * allowed only while its log does not name itself, or it hears no leader: then
 * it may be the node that does not know (core/members/standing.h). */
static void look_at_links(struct sim *sim, struct sim_node *node)
{
    struct replica_members members;
    const struct replica *replica = core_replica(sim_node_core(node));
    replica_members(replica, &members);
    bool is_sure = sim_node_is_named(node, &members) &&
                   replica_leader(replica) != 0;
    MEMBER_EACH (member, &members) {
        uint64_t linked = sim_node_linked(node, member->id);
        const struct sim_node *old = holder_of(sim, linked);
        const struct sim_node *named = holder_of(sim, member->incarnation);
        if (is_sure && linked != 0 && linked != member->incarnation &&
            old != NULL && named != NULL && sim_node_is_before(old, named)) {
            sim_fail(sim, ORACLE_LINKS,
                     "whom the newest configuration has replaced is connected "
                     "with nobody: %s names %016" PRIx64 " as n%" PRIu64
                     ", and is connected with %016" PRIx64,
                     sim_node_host(node)->name, member->incarnation, member->id,
                     linked);
        }
    }
}

void sim_counted_stepped(struct sim_counted *counted, struct sim_node *node)
{
    struct sim *sim = sim_node_sim(node);
    struct listener *listener = &counted->listener[sim_node_number(node)];
    if (sim_node_leads(node)) {
        look_at_votes(sim, listener, node);
        look_at_commits(sim, listener, node);
        look_at_confirmations(sim, listener, node);
    }
    const struct replica *replica = core_replica(sim_node_core(node));
    look_at_links(sim, node);
    replica_members(replica, &listener->members);
    if (!sim_node_leads(node)) {
        listener->inherited = replica_last_index(replica);
    }
}
