/* SPDX-License-Identifier: MIT */

#include "tests/sim/sim_places.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/memory.h"
#include "lockfsm/entry.h"
#include "tests/sim/sim_cover.h"
#include "tests/sim/sim_node.h"
#include "tests/sim/sim_replace.h"

/* Separate from all other random choices of the run. */
#define DICE UINT64_C(0x656d707479207331)
/* Directories that a run's log can name. */
#define PLACE_MAX 512
/* The requester of a replacement that the leader has begun (membership.c). */
#define BY_ITSELF "cluster.replace_empty of"

/* A directory that the committed log has named, or that was to replace one. */
struct place {
    uint64_t id;
    uint64_t incarnation;
    bool is_member;
    bool was_member;
    bool is_unasked; /* It was to replace one, by the leader's own choice. */
    /* The newest term in which a leader that did not hear the other voter has
     * removed it. */
    uint64_t unheard_term;
    uint64_t unheard;
};

struct sim_places {
    struct sim *sim;
    uint64_t empty_ns;
    struct place place[PLACE_MAX];
    uint32_t count;
    const struct place *removed; /* Who has removed it is not known yet. */
    uint64_t removed_term;
};

static uint64_t choose_empty_ns(const struct sim *sim)
{
    struct prng dice = {sim->options.seed + DICE};
    bool is_wanted = prng_below(&dice, 2) == 0;
    uint64_t ms = 500 + prng_below(&dice, 3000);
    return is_wanted && sim_replace_machines(sim) > 0 ? ms * SIM_MS : 0;
}

struct sim_places *sim_places_new(struct sim *sim)
{
    struct sim_places *places = memory_new(sizeof *places);
    places->sim = sim;
    places->empty_ns = choose_empty_ns(sim);
    return places;
}

void sim_places_free(struct sim_places *places)
{
    free(places);
}

uint64_t sim_places_empty_ns(const struct sim *sim)
{
    return sim->places->empty_ns;
}

static struct place *place_of(struct sim_places *places, uint64_t id,
                              uint64_t incarnation)
{
    for (uint32_t i = 0; i < places->count; i++) {
        struct place *place = &places->place[i];
        if (place->id == id && place->incarnation == incarnation) {
            return place;
        }
    }
    CHECK(places->count < PLACE_MAX);
    struct place *place = &places->place[places->count++];
    *place = (struct place){.id = id, .incarnation = incarnation};
    return place;
}

/* --- Committed entries ---------------------------------------------------- */

static void places_name(struct sim_places *places, uint64_t term,
                        const struct replica_members *members)
{
    for (uint32_t i = 0; i < places->count; i++) {
        struct place *place = &places->place[i];
        bool is_named = replica_members_name(members, place->id,
                                             place->incarnation);
        if (place->is_member && !is_named) {
            places->removed = place;
            places->removed_term = term;
        }
        place->is_member &= is_named;
    }
    MEMBER_EACH (member, members) {
        struct place *place = place_of(places, member->id, member->incarnation);
        if (place->was_member && !place->is_member) {
            sim_fail(
                places->sim, ORACLE_PLACES,
                "a directory that was removed is never named again: n%" PRIu64
                " with %016" PRIx64,
                member->id, member->incarnation);
        }
        place->is_member = place->was_member = true;
    }
}

static void places_replace_unasked(struct sim_places *places, uint64_t id,
                                   uint64_t incarnation)
{
    struct sim *sim = places->sim;
    place_of(places, id, incarnation)->is_unasked = true;
    for (uint32_t i = 0; i < places->count; i++) {
        const struct place *place = &places->place[i];
        if (place->id == id && place->incarnation != incarnation &&
            place->is_unasked && place->was_member) {
            sim_fail(
                sim, ORACLE_PLACES,
                "a leader replaces a member by itself once an hour: n%" PRIu64
                " gets %016" PRIx64 " after %016" PRIx64,
                id, incarnation, place->incarnation);
        }
    }
    for (uint32_t i = 0; i < sim->node_count; i++) {
        const struct sim_node *node = sim->node[i];
        if (sim_node_incarnation(node) == incarnation &&
            !sim_node_is_marked(node)) {
            sim_fail(sim, ORACLE_PLACES,
                     "a missing mount does not replace a directory by itself: "
                     "n%" PRIu64 " gets %016" PRIx64,
                     id, incarnation);
        }
    }
    if (sim_places_empty_ns(sim) == 0) {
        sim_fail(sim, ORACLE_PLACES,
                 "without cluster.replace_empty only an operator begins a "
                 "replacement: n%" PRIu64,
                 id);
    }
    sim_cover_unasked(sim);
}

/* The act that a leader logs with a removal tells whether it is a step of a
 * replacement. */
static void look_at_removal(struct sim_places *places, uint64_t term,
                            const struct act_command *act)
{
    const struct place *removed = places->removed;
    if (removed == NULL || removed->id != act->member) {
        return;
    }
    places->removed = NULL;
    if (act->kind == ACT_REPLACE && places->removed_term == term &&
        removed->unheard_term == term) {
        sim_fail(places->sim, ORACLE_PLACES,
                 "a directory is replaced only while all other voters are "
                 "heard: n%" PRIu64 " is removed, and n%" PRIu64 " is silent",
                 removed->id, removed->unheard);
    }
}

void sim_places_entry(struct sim_places *places,
                      const struct replica_entry *entry,
                      const struct replica_members *members)
{
    struct arena arena = {0};
    struct codec_level level;
    struct entry decoded;
    size_t size = sizeof BY_ITSELF - 1;
    if (entry->type == ENTRY_CHANGE) {
        places_name(places, entry->term, members);
    }
    if (entry->type != ENTRY_COMMAND) {
        return;
    }
    CHECK(entry_get(entry->body, &arena, &decoded, &level));
    if (decoded.op == OP_ACT) {
        look_at_removal(places, entry->term, decoded.act);
    }
    if (decoded.op == OP_ACT && decoded.act->kind == ACT_REPLACE &&
        decoded.act->incarnation != 0 && decoded.by.size >= size &&
        memcmp(decoded.by.data, BY_ITSELF, size) == 0) {
        places_replace_unasked(places, decoded.act->member,
                               decoded.act->incarnation);
    }
    arena_done(&arena);
}

/* --- Configurations in logs ------------------------------------------------
 */

static void look_at_twins(struct sim *sim,
                          const struct replica_members *members)
{
    MEMBER_EACH (member, members) {
        uint32_t count = 0;
        MEMBER_EACH (other, members) {
            count += other->incarnation == member->incarnation;
        }
        if (count != 1 && member->incarnation != 0) {
            sim_fail(sim, ORACLE_PLACES,
                     "no two members have one directory: %016" PRIx64,
                     member->incarnation);
        }
    }
}

/* The voter whose directory the configuration has dropped. */
static const struct replica_member *
dropped(const struct replica_members *before,
        const struct replica_members *after)
{
    MEMBER_EACH (member, before) {
        if (member->role == MEMBER_VOTER &&
            !replica_members_name(after, member->id, member->incarnation)) {
            return member;
        }
    }
    return NULL;
}

void sim_places_look(struct sim_places *places, struct sim_node *node,
                     const struct replica_members *before,
                     const struct replica_members *after)
{
    const struct replica *replica = core_replica(sim_node_core(node));
    look_at_twins(places->sim, after);
    const struct replica_member *gone = dropped(before, after);
    if (gone == NULL || replica_role(replica) != REPLICA_LEADER) {
        return;
    }
    struct place *place = place_of(places, gone->id, gone->incarnation);
    MEMBER_EACH (member, after) {
        if (member->role == MEMBER_VOTER && member->id != sim_node_id(node) &&
            sim_node_silence_ms(node, member->id) >
                sim_node_election_ms(node)) {
            place->unheard_term = replica_term(replica);
            place->unheard = member->id;
        }
    }
}
