/* SPDX-License-Identifier: MIT */

/* The search for deadlocks. It runs when a request is queued, and when a
 * request for several locks loses a hold that it counted on and now waits
 * there, too.
 *
 * The nodes of the wait-for graph are waiters (session, owner). A waiter has
 * edges to the holders that conflict with it and to the incompatible waits
 * ahead of it in each of its queues (Holt 1972; the edges to waits make the
 * search complete). The graph had no cycle before, so a cycle goes through the
 * newcomer: it is enough to check whether the newcomer can be reached from
 * itself.
 *
 * A wait for a slot is different: it needs one of several holders to end, not
 * all. So a cycle through such a wait is only a suspicion, and a reduction
 * follows: waiters that can end are removed until nothing changes. It is a
 * deadlock if the newcomer is left over.
 *
 * If no waiter waits for the newcomer it closes no cycle, and there is no
 * search. Both steps have a bound on the edges examined, the same on every
 * node. Past the bound the request is queued (WAIT or a lease ends such a
 * deadlock), and an effect reports it. */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"
#include "base/minmax.h"
#include "lockfsm/lock/lock.h"

/* Longer names are cut in the text of a cycle. */
#define NAME_SHOWN_MAX 40

struct deadlock_node {
    struct waiter *waiter;
    uint32_t parent;         /* The node from which it was first reached ... */
    const struct lock *lock; /* ... because of this lock. */
    bool can_end;            /* The reduction has found that it can end. */
};

struct deadlock_search {
    uint64_t number;
    struct deadlock_node
        *nodes; /* The nodes in the order in which they were reached. */
    uint32_t count;
    uint32_t capacity;
    uint32_t step_count;
    uint32_t step_max;
    bool has_slots;
    bool is_reducing; /* The steps are those of the reduction. */
};

/* Called for each edge; false ends the walk, which then returns false, too. */
typedef bool edge_fn(void *data, struct waiter *blocker,
                     const struct wait *because, bool is_one_of_many);

static bool count_step(struct deadlock_search *search)
{
    return ++search->step_count <= search->step_max;
}

static bool walk_holders(struct lockfsm *fsm, const struct wait *wait,
                         bool is_one_of_many, edge_fn *edge, void *data)
{
    LIST_FOR (const struct hold, hold, &wait->lock->holds, in_lock) {
        if (!count_step(fsm->search)) {
            return false;
        }
        struct waiter *waiter = waiter_find(fsm, hold->session->id,
                                            hold->owner);
        if (waiter == NULL || waiter->wait_count == 0 ||
            (waiter == wait->waiter && wait->is_upgrade)) {
            continue;
        }
        if (!edge(data, waiter, wait, is_one_of_many)) {
            return false;
        }
    }
    return true;
}

/* An exclusive wait ahead waits for everything ahead of it, so the walk can
 * stop there, unless its owner has the lock already and waits for others. */
static bool waits_for_all_ahead(const struct lockfsm *fsm,
                                const struct wait *wait)
{
    return wait->mode == LOCK_EXCLUSIVE &&
           (wait->is_upgrade ||
            hold_find(fsm, wait->lock, wait->session->id, wait->owner) == NULL);
}

static bool walk_queue(struct lockfsm *fsm, const struct wait *wait,
                       edge_fn *edge, void *data)
{
    const struct lock *lock = wait->lock;
    if (wait->mode == LOCK_SHARED && lock->waits_by_mode[LOCK_EXCLUSIVE] == 0 &&
        lock->waits_by_mode[LOCK_SLOTS] == 0) {
        return true;
    }
    for (const struct list *node = wait->in_lock.prev; node != &lock->queue;
         node = node->prev) {
        const struct wait *ahead = LIST_ENTRY(node, struct wait, in_lock);
        if (!count_step(fsm->search)) {
            return false;
        }
        if (request_is_going(fsm, ahead)) {
            continue;
        }
        bool is_compatible = wait->mode == LOCK_SHARED &&
                             ahead->mode == LOCK_SHARED;
        bool is_one_of_many = wait->mode == LOCK_SLOTS &&
                              ahead->mode == LOCK_SLOTS;
        if (!is_compatible &&
            !edge(data, ahead->waiter, wait, is_one_of_many)) {
            return false;
        }
        /* That waiter's own edges lead to the rest of the queue, so that a long
         * queue is not walked once for each of its waiters. */
        if (waits_for_all_ahead(fsm, ahead)) {
            return true;
        }
    }
    return true;
}

static bool walk_edges(struct lockfsm *fsm, const struct wait *wait,
                       edge_fn *edge, void *data)
{
    const struct lock *lock = wait->lock;
    const struct hold *own = hold_find(fsm, lock, wait->session->id,
                                       wait->owner);
    if (request_is_going(fsm, wait) ||
        (own != NULL && !wait->is_upgrade && hold_covers(own, wait->mode))) {
        return true;
    }
    bool is_slots = wait->mode == LOCK_SLOTS && lock->mode == LOCK_SLOTS;
    bool is_shared = wait->mode == LOCK_SHARED && lock->mode == LOCK_SHARED;
    if (lock->hold_count > 0 && !is_shared &&
        !walk_holders(fsm, wait, is_slots, edge, data)) {
        return false;
    }
    return walk_queue(fsm, wait, edge, data);
}

/* --- The search ----------------------------------------------------------- */

static uint32_t add_node(struct deadlock_search *search, struct waiter *waiter,
                         uint32_t parent, const struct lock *lock)
{
    /* A node is added after its parent, so each path back ends at the newcomer.
     */
    CHECK(parent < search->count || search->count == 0);
    ROOM(search->nodes, search->capacity, search->count + 1);
    waiter->search_number = search->number;
    waiter->search_slot = search->count;
    search->nodes[search->count] = (struct deadlock_node){
        .waiter = waiter, .parent = parent, .lock = lock};
    return search->count++;
}

/* The state of one walk over a node's edges. */
struct reaching {
    struct deadlock_search *search;
    uint32_t from;
    bool is_cycle;                 /* The newcomer was reached ... */
    uint32_t cycle_from;           /* ... from here ... */
    const struct lock *cycle_lock; /* ... because of this lock. */
};

static bool deadlock_reach(void *data, struct waiter *blocker,
                           const struct wait *because, bool is_one_of_many)
{
    struct reaching *reaching = data;
    struct deadlock_search *search = reaching->search;
    search->has_slots |= is_one_of_many;
    if (blocker->search_number != search->number) {
        add_node(search, blocker, reaching->from, because->lock);
    } else if (blocker->search_slot == 0 && !reaching->is_cycle) {
        reaching->is_cycle = true;
        reaching->cycle_from = reaching->from;
        reaching->cycle_lock = because->lock;
    }
    return !reaching->is_cycle || search->has_slots;
}

/* Searches breadth-first, so that it reports a short cycle. Stops at the first
 * cycle unless slots are involved: the reduction needs all nodes. Returns false
 * past the bound. */
static bool search_all(struct lockfsm *fsm, struct reaching *reaching)
{
    struct deadlock_search *search = reaching->search;
    for (uint32_t slot = 0; slot < search->count; slot++) {
        reaching->from = slot;
        LIST_FOR (const struct wait, wait, &search->nodes[slot].waiter->waits,
                  in_asker) {
            if (walk_edges(fsm, wait, deadlock_reach, reaching)) {
                continue;
            }
            return reaching->is_cycle && search->step_count <= search->step_max;
        }
        if (reaching->is_cycle && !search->has_slots) {
            return true;
        }
    }
    return true;
}

/* --- The reduction -------------------------------------------------------- */

struct reducing {
    struct deadlock_search *search;
    /* Slots of holders and waits ahead that are not known to end. */
    uint64_t stuck_slots;
    bool is_stuck;
};

static bool reduce_edge(void *data, struct waiter *blocker,
                        const struct wait *because, bool is_one_of_many)
{
    struct reducing *reducing = data;
    const struct deadlock_search *search = reducing->search;
    (void)because;
    CHECK(blocker->search_number != search->number ||
          blocker->search_slot < search->count);
    if (blocker->search_number == search->number &&
        search->nodes[blocker->search_slot].can_end) {
        return true;
    }
    if (is_one_of_many) {
        reducing->stuck_slots++;
        return true;
    }
    reducing->is_stuck = true;
    return false;
}

/* True if all waits of the node would be granted after those that can end have
 * ended. */
static bool node_can_end(struct lockfsm *fsm, struct deadlock_search *search,
                         const struct deadlock_node *at)
{
    LIST_FOR (const struct wait, wait, &at->waiter->waits, in_asker) {
        struct reducing reducing = {.search = search};
        walk_edges(fsm, wait, reduce_edge, &reducing);
        if (reducing.is_stuck ||
            (reducing.stuck_slots > 0 && reducing.stuck_slots >= wait->slots)) {
            return false;
        }
    }
    return true;
}

/* Subtracts the steps of this search from the budget of the entry. */
static void deadlock_spend(uint64_t *left, const struct deadlock_search *search)
{
    *left -= u64_min(search->step_count, *left);
}

/* True if the newcomer is left over, so that it can never end. */
static bool is_left_over(struct lockfsm *fsm, struct deadlock_search *search)
{
    bool has_changed = true;
    deadlock_spend(&fsm->entry.edges_left, search);
    search->is_reducing = true;
    search->step_count = 0;
    /* The reduction has a budget of its own in each entry; if it is used up,
     * the wait is queued (a search that was given up reports no deadlock). */
    search->step_max = (uint32_t)fsm->entry.reductions_left;
    while (has_changed) {
        has_changed = false;
        for (uint32_t slot = 0; slot < search->count; slot++) {
            struct deadlock_node *node = &search->nodes[slot];
            if (!node->can_end && node_can_end(fsm, search, node)) {
                node->can_end = true;
                has_changed = true;
            }
        }
        if (search->step_count > search->step_max || search->nodes[0].can_end) {
            return false;
        }
    }
    return true;
}

/* --- The cycle in words --------------------------------------------------- */

struct deadlock_words {
    char text[CYCLE_TEXT_SIZE_MAX];
    size_t size;
};

static void deadlock_put_text(struct deadlock_words *words, const char *text)
{
    while (*text != '\0' && words->size < sizeof words->text) {
        words->text[words->size++] = *text++;
    }
}

/* Writes a name that clients chose into an error line: control characters and
 * non-ASCII bytes become question marks, long names are cut. */
static void deadlock_put_name(struct deadlock_words *words, struct bytes name)
{
    char text[NAME_SHOWN_MAX + 1];
    size_t size = name.size < NAME_SHOWN_MAX ? name.size : NAME_SHOWN_MAX;
    for (size_t i = 0; i < size; i++) {
        bool is_plain = name.data[i] >= ' ' && name.data[i] < 0x7f;
        text[i] = is_plain ? (char)name.data[i] : '?';
    }
    text[size] = '\0';
    deadlock_put_text(words, text);
    if (size < name.size) {
        deadlock_put_text(words, "...");
    }
}

static void put_asker(struct deadlock_words *words, const struct waiter *waiter)
{
    char text[32];
    snprintf(text, sizeof text, "%" PRIu64, waiter->session->id);
    deadlock_put_text(words, text);
    if (waiter->owner.size > 0) {
        deadlock_put_text(words, "/");
        deadlock_put_name(words, waiter->owner);
    }
}

/* Writes one step of the cycle; a lock that 'reader' may neither read nor
 * acquire is shown without its name. */
static void put_step(const struct lockfsm *fsm, struct deadlock_words *words,
                     const struct user *reader, const struct lock *lock,
                     const struct waiter *waiter)
{
    bool is_shown = lockfsm_may(fsm, reader, VERB_READ, lock->name, EXTENT_NAME,
                                NULL) ||
                    lockfsm_may(fsm, reader, VERB_SHARE, lock->name,
                                EXTENT_NAME, NULL);
    deadlock_put_text(words, " -> ");
    deadlock_put_name(words, is_shown ? lock->name : BYTES_LITERAL("<hidden>"));
    deadlock_put_text(words, " -> ");
    put_asker(words, waiter);
}

/* The least size of a step's text, which bounds how many steps have room. */
#define STEP_TEXT_SIZE_MIN (sizeof " -> a -> 1" - 1)

/* Describes the cycle as "5/a -> lock -> 7/b -> other -> 5/a": the waiter, the
 * lock, the owner it waits for. */
static struct bytes deadlock_describe(struct lockfsm *fsm,
                                      const struct reaching *reaching)
{
    const struct deadlock_search *search = reaching->search;
    CHECK(reaching->is_cycle && search->nodes[0].parent == 0);
    struct deadlock_words words = {.size = 0};
    const struct deadlock_node *path[CYCLE_TEXT_SIZE_MAX / STEP_TEXT_SIZE_MIN];
    const uint32_t shown_max = sizeof path / sizeof path[0];
    uint32_t length = 0;
    for (uint32_t slot = reaching->cycle_from; slot != 0;
         slot = search->nodes[slot].parent) {
        length++;
    }
    uint32_t at = length;
    for (uint32_t slot = reaching->cycle_from; slot != 0;
         slot = search->nodes[slot].parent) {
        at--;
        /* The path is found from its end; only its first part is shown, however
         * long the cycle is. */
        if (at < shown_max) {
            path[at] = &search->nodes[slot];
        }
    }
    const struct user *reader = search->nodes[0].waiter->session->user;
    put_asker(&words, search->nodes[0].waiter);
    for (uint32_t i = 0; i < length && i < shown_max; i++) {
        put_step(fsm, &words, reader, path[i]->lock, path[i]->waiter);
    }
    put_step(fsm, &words, reader, reaching->cycle_lock,
             search->nodes[0].waiter);
    return effect_copy(fsm, bytes_of(words.text, words.size));
}

/* --- Entry points --------------------------------------------------------- */

/* True if another waiter may wait for the newcomer: at a lock that it holds, or
 * after another of its waits. */
static bool is_waited_for(struct lockfsm *fsm, const struct waiter *waiter)
{
    CHECK(waiter->wait_count > 0);
    const struct wait *newest = LIST_ENTRY(waiter->waits.prev, struct wait,
                                           in_asker);
    const struct wait *oldest = LIST_FIRST(&waiter->waits, struct wait,
                                           in_asker);
    if (oldest->wait_index != newest->wait_index) {
        return true;
    }
    LIST_FOR (const struct hold, hold, &waiter->session->holds, in_session) {
        /* If in doubt, the whole search runs, with its own bound. */
        if (!count_step(fsm->search)) {
            return true;
        }
        if (hold->lock->wait_count > 0 &&
            bytes_equal(hold->owner, waiter->owner)) {
            return true;
        }
    }
    return false;
}

static struct deadlock_search *search_begin(struct lockfsm *fsm)
{
    if (fsm->search == NULL) {
        fsm->search = memory_new(sizeof *fsm->search);
    }
    fsm->search->is_reducing = false;
    fsm->search->step_count = 0;
    fsm->search->step_max = (uint32_t)fsm->entry.edges_left;
    return fsm->search;
}

bool deadlock_of_newcomer(struct lockfsm *fsm, struct waiter *waiter,
                          struct bytes *ret_cycle)
{
    search_begin(fsm);
    return is_waited_for(fsm, waiter) && deadlock_found(fsm, waiter, ret_cycle);
}

static void tell_given_up(struct lockfsm *fsm, const struct waiter *waiter)
{
    const struct wait *newest = LIST_ENTRY(waiter->waits.prev, struct wait,
                                           in_asker);
    struct effect *effect = effect_add(fsm, EFFECT_SEARCH_GIVEN_UP);
    effect->session = waiter->session->id;
    effect->owner = effect_copy(fsm, waiter->owner);
    effect->lock = effect_copy(fsm, newest->lock->name);
    effect->wait_index = newest->wait_index;
}

bool deadlock_found(struct lockfsm *fsm, struct waiter *waiter,
                    struct bytes *ret_cycle)
{
    CHECK(waiter->wait_count > 0);
    struct deadlock_search *search = search_begin(fsm);
    search->number++;
    search->count = 0;
    search->has_slots = false;
    add_node(search, waiter, 0, NULL);
    struct reaching reaching = {.search = search};
    bool is_found = search_all(fsm, &reaching) && reaching.is_cycle &&
                    /* With slots a cycle is not yet a deadlock, since any one
                     * of the holders can give way: the graph is reduced. */
                    (!search->has_slots || is_left_over(fsm, search));
    if (!is_found && search->step_count > search->step_max) {
        tell_given_up(fsm, waiter);
    }
    deadlock_spend(search->is_reducing ? &fsm->entry.reductions_left
                                       : &fsm->entry.edges_left,
                   search);
    if (!is_found) {
        return false;
    }
    *ret_cycle = deadlock_describe(fsm, &reaching);
    return true;
}

void deadlock_search_free(struct deadlock_search *search)
{
    if (search != NULL) {
        free(search->nodes);
        free(search);
    }
}
