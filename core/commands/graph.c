/* SPDX-License-Identifier: MIT */

/* LOCK.GRAPH: which sessions wait for which.
 *
 * A node of the graph is a (session, owner), as in the search for deadlocks
 * (lockfsm/lock/deadlock.c). An edge names the lock for which a node waits and
 * the node that blocks it: each holder that conflicts or, if none does, the
 * wait ahead in the queue. The graph starts from the first waits of each lock,
 * the oldest lock first, and follows the nodes that block them, and those that
 * block these. It is cut at NODE_MAX nodes and at the size of rows.h: a picture
 * for people, not a proof.
 *
 * Sets of nodes are bits, so Warshall's algorithm computes reachability in a
 * few thousand operations. */

#include <stdlib.h>

#include "base/check.h"
#include "base/memory.h"
#include "core/authorize.h"
#include "core/commands/commands.h"
#include "core/commands/rows.h"
#include "core/read_index.h"
#include "core/state.h"

#define NODE_MAX 200
#define EDGE_MAX 1000
#define WAITS_SEEN_MAX 2000
/* How many waits of each lock are followed; later ones wait for the same
 * holders. */
#define WAITERS_PER_LOCK 8
#define SET_WORDS ((NODE_MAX + 63) / 64)

struct graph_node {
    const struct session *session;
    struct bytes owner;
    bool waits;
    /* The nodes that this node waits for, directly or not. */
    uint64_t reaches[SET_WORDS];
};

struct edge {
    uint32_t from;
    uint32_t to;
    const struct wait *wait;
};

struct graph {
    struct graph_node node[NODE_MAX];
    struct edge edge[EDGE_MAX];
    uint32_t node_count;
    uint32_t edge_count;
    bool is_cut;
    struct bytes prefix; /* A prefix of the locks' names. */
    uint64_t looked_at;  /* Waits, and pairs of nodes. */
};

static bool set_has(const uint64_t *set, uint32_t at)
{
    CHECK(at < NODE_MAX);
    return (set[at / 64] >> (at % 64) & 1) != 0;
}

/* The number of the node, which is added if it is new; NODE_MAX if there is no
 * space. */
static uint32_t node_of(struct graph *graph, const struct session *session,
                        struct bytes owner)
{
    for (uint32_t i = 0; i < graph->node_count; i++) {
        if (graph->node[i].session == session &&
            bytes_equal(graph->node[i].owner, owner)) {
            return i;
        }
    }
    if (graph->node_count == NODE_MAX) {
        graph->is_cut = true;
        return NODE_MAX;
    }
    graph->node[graph->node_count] = (struct graph_node){.session = session,
                                                         .owner = owner};
    return graph->node_count++;
}

static void add_edge(struct graph *graph, uint32_t from,
                     const struct wait *wait, const struct session *session,
                     struct bytes owner)
{
    uint32_t to = node_of(graph, session, owner);
    CHECK(from < graph->node_count);
    if (graph->edge_count == EDGE_MAX) {
        graph->is_cut = true;
    } else if (to != NODE_MAX) {
        graph->edge[graph->edge_count++] = (struct edge){from, to, wait};
        graph->node[from].reaches[to / 64] |= UINT64_C(1) << (to % 64);
    }
}

static bool is_own(const struct wait *wait, const struct session *session,
                   struct bytes owner)
{
    return wait->session == session && bytes_equal(wait->owner, owner);
}

static void add_blockers(struct graph *graph, uint32_t from,
                         const struct wait *wait)
{
    const struct lock *lock = wait->lock;
    bool is_shared = wait->mode == LOCK_SHARED && lock->mode == LOCK_SHARED;
    if (lock->hold_count > 0 && !is_shared) {
        LIST_FOR (const struct hold, hold, &lock->holds, in_lock) {
            if (graph->edge_count == EDGE_MAX) {
                graph->is_cut = true;
                return;
            }
            if (!is_own(wait, hold->session, hold->owner)) {
                add_edge(graph, from, wait, hold->session, hold->owner);
            }
        }
        return;
    }
    const struct list *before = wait->in_lock.prev;
    /* At least 'wait' is in the queue. */
    CHECK(!list_is_empty(&lock->queue));
    if (before != &lock->queue) {
        const struct wait *ahead = LIST_ENTRY(before, struct wait, in_lock);
        add_edge(graph, from, wait, ahead->session, ahead->owner);
    }
}

/* Follows the waits of each node; nodes added here come later in the loop. */
static void graph_follow(struct graph *graph)
{
    for (uint32_t i = 0; i < graph->node_count; i++) {
        struct graph_node *node = &graph->node[i];
        graph->looked_at += node->session->wait_count;
        LIST_FOR (const struct wait, wait, &node->session->waits, in_session) {
            if (!bytes_equal(wait->owner, node->owner)) {
                continue;
            }
            node->waits = true;
            if (bytes_has_prefix(wait->lock->name, graph->prefix)) {
                add_blockers(graph, i, wait);
            }
        }
    }
}

static void begin_at(struct graph *graph, const struct lock *lock)
{
    uint32_t count = 0;
    LIST_FOR (const struct wait, wait, &lock->queue, in_lock) {
        if (count++ == WAITERS_PER_LOCK || graph->node_count == NODE_MAX) {
            graph->is_cut = true;
            return;
        }
        (void)node_of(graph, wait->session, wait->owner);
    }
}

/* Starts from each lock that has a queue, with the wait at its head. */
static void graph_begin(struct graph *graph, const struct lockfsm *fsm)
{
    uint32_t seen = 0;
    LIST_FOR (const struct wait, wait, lockfsm_waits(fsm), in_state) {
        graph->looked_at++;
        if (seen++ == WAITS_SEEN_MAX || graph->node_count >= NODE_MAX / 2) {
            graph->is_cut = true;
            return;
        }
        if (wait->in_lock.prev == &wait->lock->queue &&
            bytes_has_prefix(wait->lock->name, graph->prefix)) {
            begin_at(graph, wait->lock);
        }
    }
}

static void close_over(struct graph *graph)
{
    graph->looked_at += (uint64_t)graph->node_count * graph->node_count;
    for (uint32_t via = 0; via < graph->node_count; via++) {
        for (uint32_t i = 0; i < graph->node_count; i++) {
            if (set_has(graph->node[i].reaches, via)) {
                for (uint32_t k = 0; k < SET_WORDS; k++) {
                    graph->node[i].reaches[k] |= graph->node[via].reaches[k];
                }
            }
        }
    }
}

/* How many nodes wait for this one, directly or not. */
static uint32_t blocked_by(const struct graph *graph, uint32_t at)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < graph->node_count; i++) {
        count += i != at && set_has(graph->node[i].reaches, at);
    }
    return count;
}

static void put_node(const struct graph *graph, uint32_t at, struct core *core,
                     const struct request *request, struct resp_writer *writer)
{
    const struct graph_node *node = &graph->node[at];
    const struct session *session = node->session;
    uint32_t blocks = blocked_by(graph, at);
    resp_map(writer, 9);
    resp_key_number(writer, "session", session->id);
    resp_key_bulk(writer, "client", session->name);
    /* An address is shown only to a client that may see the user's sessions. */
    resp_key_bulk(writer, "address",
                  authorize_sees(core, request, session->user_number)
                      ? session->address
                      : BYTES_LITERAL(""));
    resp_key_bulk(writer, "owner", node->owner);
    resp_key_integer(writer, "holds", session->hold_count);
    resp_key_integer(writer, "waits", session->wait_count);
    resp_key_integer(writer, "blocks", blocks);
    resp_key_bool(writer, "root", blocks > 0 && !node->waits);
    resp_key_bool(writer, "cycle", set_has(node->reaches, at));
}

static void put_edge(const struct edge *edge, const struct core *core,
                     struct resp_writer *writer)
{
    resp_map(writer, 6);
    resp_key_integer(writer, "from", edge->from);
    resp_key_integer(writer, "to", edge->to);
    resp_key_bulk(writer, "lock", edge->wait->lock->name);
    resp_key_text(writer, "mode", lock_mode_name(edge->wait->mode));
    resp_key_number(writer, "waiting_ms", age_ms(core, edge->wait->wait_index));
    resp_key_integer(writer, "queue", edge->wait->lock->wait_count);
}

/* Edges are shown between nodes that are shown. */
static void graph_put_rows(struct graph *graph, struct core *core,
                           const struct request *request, struct rows *nodes,
                           struct rows *edges)
{
    rows_begin(nodes, request, NODE_MAX, ROWS_SIZE_MAX / 2);
    for (uint32_t i = 0; i < graph->node_count && rows_have_room(nodes); i++) {
        put_node(graph, i, core, request, &nodes->writer);
        (void)rows_keep(nodes);
    }
    rows_begin(edges, request, EDGE_MAX, ROWS_SIZE_MAX - nodes->size);
    for (uint32_t i = 0; i < graph->edge_count && rows_have_room(edges); i++) {
        const struct edge *edge = &graph->edge[i];
        if (edge->from < nodes->count && edge->to < nodes->count) {
            put_edge(edge, core, &edges->writer);
            (void)rows_keep(edges);
        }
    }
    graph->is_cut |= nodes->is_full || edges->is_full;
}

void lock_graph_read(struct core *core, struct request *request)
{
    struct graph *graph = memory_new(sizeof *graph);
    graph->prefix = call_text(request->call, OPTION_PREFIX);
    graph_begin(graph, core->fsm);
    graph_follow(graph);
    close_over(graph);
    /* The search is charged to the turn's budget for scans, so that heartbeats
     * do not wait for it. */
    read_index_spend(core, graph->looked_at);
    struct rows nodes, edges;
    graph_put_rows(graph, core, request, &nodes, &edges);
    struct resp_writer *writer = request_reply(core, request);
    resp_map(writer, 4);
    resp_key_number(writer, "wait_count", lockfsm_wait_count(core->fsm));
    resp_key_bool(writer, "is_cut", graph->is_cut);
    resp_text(writer, "nodes");
    rows_put(core, &nodes, writer);
    resp_text(writer, "edges");
    rows_put(core, &edges, writer);
    free(graph);
    request_done(core, request);
}
