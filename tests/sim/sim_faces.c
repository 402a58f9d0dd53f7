/* SPDX-License-Identifier: MIT */

#include "tests/sim/sim_faces.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/minmax.h"
#include "tests/sim/sim_check.h"
#include "tests/sim/sim_node.h"
#include "tests/sim/sim_users.h"

#define BEAT_MAX 16

struct version {
    struct list in_shown;
    struct face_version told;
    struct buffer face;
    struct buffer holds;
};

/* A lock, session or fence. */
struct shown {
    UT_hash_handle hh;
    struct list versions;
    uint64_t seen; /* By the newest entry after which it existed. */
    enum face_kind kind;
    uint64_t id;
    struct bytes name;
    size_t key_size;
    uint8_t key[];
};

/* The newest heartbeats of a session that were answered. */
struct beats {
    UT_hash_handle hh;
    uint64_t session;
    uint64_t sent_ns[BEAT_MAX];
    uint64_t answered_ns[BEAT_MAX];
    uint64_t count;
    uint64_t lives_until_ns; /* As an answer showed ... */
    uint32_t told_in;        /* ... when this many leaders had served. */
};

/* A limited hold whose remaining time was shown. */
struct rest {
    UT_hash_handle hh;
    uint64_t until_ns;
    size_t key_size;
    uint8_t key[];
};

struct reign {
    uint32_t node;
    uint64_t begun_ns;
    uint64_t ended_ns; /* NEVER_SHOWN. */
};

struct runner {
    struct buffer applied_ns; /* By place: u64. */
    uint64_t started_ns;
    bool serves;
};

struct sim_faces {
    struct sim *sim;
    struct shown *shown;
    struct beats *beats;
    struct rest *rests;
    struct buffer first_ns; /* By place: u64. */
    struct runner runner[SIM_NODE_MAX];
    struct reign *reigns; /* In the order of their beginnings. */
    uint32_t reign_count;
    uint32_t reign_capacity;
    uint64_t life_ns; /* When the present life began. */
    uint64_t life_place;
    uint64_t quarantined; /* Newest place with a quarantine; 0. */
    struct buffer key;
    struct version draft;
};

struct sim_faces *sim_faces_new(struct sim *sim)
{
    struct sim_faces *faces = memory_new(sizeof *faces);
    faces->sim = sim;
    return faces;
}

static void version_free(struct version *version)
{
    buffer_done(&version->face);
    buffer_done(&version->holds);
    free(version);
}

void sim_faces_free(struct sim_faces *faces)
{
    struct shown *shown, *next;
    HASH_ITER (hh, faces->shown, shown, next) {
        HASH_DEL(faces->shown, shown);
        LIST_EACH_SAFE (node, &shown->versions) {
            version_free(LIST_ENTRY(node, struct version, in_shown));
        }
        free(shown);
    }
    struct beats *beats, *next_beats;
    HASH_ITER (hh, faces->beats, beats, next_beats) {
        HASH_DEL(faces->beats, beats);
        free(beats);
    }
    struct rest *rest, *next_rest;
    HASH_ITER (hh, faces->rests, rest, next_rest) {
        HASH_DEL(faces->rests, rest);
        free(rest);
    }
    for (int i = 0; i < SIM_NODE_MAX; i++) {
        buffer_done(&faces->runner[i].applied_ns);
    }
    buffer_done(&faces->first_ns);
    buffer_done(&faces->key);
    buffer_done(&faces->draft.face);
    buffer_done(&faces->draft.holds);
    free(faces->reigns);
    free(faces);
}

/* --- Versions ------------------------------------------------------------- */

static struct shown *find(const struct sim_faces *faces, enum face_kind kind,
                          struct bytes name, uint64_t id)
{
    struct buffer *key = &((struct sim_faces *)(uintptr_t)faces)->key;
    struct shown *shown = NULL;
    buffer_clear(key);
    buffer_put_u8(key, (uint8_t)kind);
    buffer_put_u64(key, id);
    buffer_put_bytes(key, name);
    HASH_FIND(hh, faces->shown, key->data, key->size, shown);
    return shown;
}

static struct shown *obtain(struct sim_faces *faces, enum face_kind kind,
                            struct bytes name, uint64_t id)
{
    struct shown *shown = find(faces, kind, name, id);
    if (shown == NULL) {
        struct bytes key = buffer_bytes(&faces->key);
        shown = memory_new(sizeof *shown + key.size);
        shown->kind = kind;
        shown->id = id;
        shown->key_size = key.size;
        memcpy(shown->key, key.data, key.size);
        shown->name = bytes_of(shown->key + key.size - name.size, name.size);
        list_init(&shown->versions);
        HASH_ADD_KEYPTR(hh, faces->shown, shown->key, shown->key_size, shown);
    }
    return shown;
}

static struct version *newest(const struct shown *shown)
{
    return list_is_empty(&shown->versions)
               ? NULL
               : LIST_ENTRY(shown->versions.prev, struct version, in_shown);
}

static bool is_same(const struct version *a, const struct version *b)
{
    return a->told.is_there == b->told.is_there &&
           bytes_equal(buffer_bytes(&a->face), buffer_bytes(&b->face)) &&
           bytes_equal(buffer_bytes(&a->holds), buffer_bytes(&b->holds)) &&
           a->told.delay_ms == b->told.delay_ms &&
           a->told.delay_index == b->told.delay_index &&
           a->told.has_free_slots == b->told.has_free_slots &&
           memcmp(&a->told.session, &b->told.session, sizeof a->told.session) ==
               0;
}

/* From 'place' on its view is the draft. */
static void put_version(struct sim_faces *faces, struct shown *shown,
                        uint64_t place)
{
    struct version *last = newest(shown);
    struct version *draft = &faces->draft;
    shown->seen = place;
    if (last != NULL && is_same(last, draft)) {
        return;
    }
    if (last != NULL) {
        last->told.to = place;
    }
    struct version *version = memory_new(sizeof *version);
    version->told = draft->told;
    version->told.from = place;
    version->told.to = NEVER_SHOWN;
    buffer_put_bytes(&version->face, buffer_bytes(&draft->face));
    buffer_put_bytes(&version->holds, buffer_bytes(&draft->holds));
    list_push_back(&shown->versions, &version->in_shown);
}

static void begin_draft(struct sim_faces *faces, bool is_there)
{
    struct version *draft = &faces->draft;
    memset(&draft->told, 0, sizeof draft->told);
    draft->told.is_there = is_there;
    buffer_clear(&draft->face);
    buffer_clear(&draft->holds);
}

static void describe(struct face_hold *out, const struct session *session,
                     const struct hold *hold)
{
    memset(out, 0, sizeof *out); /* It is compared as bytes. */
    out->session = session->id;
    out->ttl_ms = session->ttl_ms;
    out->linger_ms = session->linger_ms;
    out->is_over = session->end != SESSION_LIVES;
    out->is_leased = !session->is_durable && !session->is_redis &&
                     !out->is_over;
    if (hold != NULL) {
        out->granted_index = hold->granted_index;
        out->hold_ms = hold->hold_ms;
        out->delay_ms = hold->delay_ms;
    }
}

static void write_lock(struct sim_faces *faces, uint64_t place,
                       const struct lock *lock)
{
    struct version *draft = &faces->draft;
    begin_draft(faces, true);
    sim_face_of_lock(&draft->face, lock, !sim_users_are_there(faces->sim));
    LIST_FOR (const struct hold, hold, &lock->holds, in_lock) {
        struct face_hold described;
        describe(&described, hold->session, hold);
        buffer_put(&draft->holds, &described, sizeof described);
    }
    draft->told.hold_count = lock->hold_count;
    draft->told.delay_ms = lock->delay_ms;
    draft->told.delay_index = lock->delay_ms != 0 ? lock->delay_index : 0;
    draft->told.has_free_slots = lock->mode == LOCK_SLOTS &&
                                 lock->hold_count < lock->slots;
    put_version(faces, obtain(faces, FACE_LOCK, lock->name, 0), place);
}

static void write_session(struct sim_faces *faces, uint64_t place,
                          const struct lockfsm *fsm,
                          const struct session *session)
{
    begin_draft(faces, true);
    sim_face_of_session(&faces->draft.face, fsm, session);
    describe(&faces->draft.told.session, session, NULL);
    put_version(faces, obtain(faces, FACE_SESSION, session->name, session->id),
                place);
}

static void write_fence(struct sim_faces *faces, uint64_t place,
                        const struct fence *fence)
{
    begin_draft(faces, true);
    sim_face_of_fence(&faces->draft.face, fence);
    put_version(faces, obtain(faces, FACE_FENCE, fence->resource, 0), place);
}

static void write_state(struct sim_faces *faces, uint64_t place,
                        const struct lockfsm *fsm)
{
    for (const struct lock *lock = lockfsm_locks(fsm); lock != NULL;
         lock = lock->by_name.next) {
        write_lock(faces, place, lock);
    }
    for (const struct session *session = lockfsm_sessions(fsm); session != NULL;
         session = session->by_id.next) {
        write_session(faces, place, fsm, session);
    }
    /* The cast is for the set that it walks, which does not change. */
    struct treap *fences = lockfsm_fence_order(
        (struct lockfsm *)(uintptr_t)fsm);
    for (struct treap_node *node = treap_from(fences, BYTES_LITERAL(""), 0);
         node != NULL; node = treap_from(fences, node->key, 1)) {
        write_fence(faces, place, LIST_ENTRY(node, struct fence, in_order));
    }
    for (struct shown *shown = faces->shown; shown != NULL;
         shown = shown->hh.next) {
        if (shown->seen != place && newest(shown)->told.is_there) {
            begin_draft(faces, false);
            put_version(faces, shown, place);
        }
    }
    if (lockfsm_quarantine(fsm, NULL) != 0) {
        faces->quarantined = place;
    }
}

void sim_faces_versions(const struct sim_faces *faces, enum face_kind kind,
                        struct bytes name, uint64_t id, uint64_t from,
                        uint64_t to, face_version_fn *each, void *data)
{
    const struct shown *shown = find(faces, kind, name, id);
    if (shown == NULL) {
        return;
    }
    LIST_EACH (node, &shown->versions) {
        struct version *version = LIST_ENTRY(node, struct version, in_shown);
        if (version->told.from <= to && version->told.to > from) {
            struct face_version told = version->told;
            told.face = buffer_bytes(&version->face);
            told.holds = (const void *)version->holds.data;
            each(data, &told);
        }
    }
}

void sim_faces_names(const struct sim_faces *faces, enum face_kind kind,
                     face_name_fn *each, void *data)
{
    for (const struct shown *shown = faces->shown; shown != NULL;
         shown = shown->hh.next) {
        if (shown->kind == kind) {
            each(data, shown->name, shown->id);
        }
    }
}

bool sim_faces_quarantined(const struct sim_faces *faces, uint64_t place)
{
    return faces->quarantined != 0 && faces->quarantined >= place;
}

/* --- When ----------------------------------------------------------------- */

static uint64_t time_at(const struct buffer *times, uint64_t place)
{
    uint64_t ns = NEVER_SHOWN;
    if ((place + 1) * sizeof ns <= times->size) {
        memcpy(&ns, times->data + place * sizeof ns, sizeof ns);
    }
    return ns;
}

/* Sets this time for all entries up to 'place' that have none yet. */
static void put_times(struct buffer *times, uint64_t place, uint64_t ns)
{
    while (times->size < (place + 1) * sizeof ns) {
        buffer_put(times, &ns, sizeof ns);
    }
}

uint64_t sim_faces_first_ns(const struct sim_faces *faces, uint64_t place)
{
    uint64_t ns = time_at(&faces->first_ns, place);
    CHECK(ns != NEVER_SHOWN);
    return u64_max(ns, faces->life_ns);
}

uint64_t sim_faces_last_ns(const struct sim_faces *faces, uint64_t place,
                           uint64_t ns)
{
    uint64_t last_ns = 0;
    for (uint32_t i = faces->reign_count; i > 0; i--) {
        const struct reign *reign = &faces->reigns[i - 1];
        const struct runner *runner = &faces->runner[reign->node];
        if (reign->ended_ns >= ns) {
            last_ns = u64_max(last_ns, time_at(&runner->applied_ns, place));
        }
    }
    return u64_min(last_ns, faces->sim->now_ns);
}

uint64_t sim_faces_reign_ns(const struct sim_faces *faces, uint64_t ns)
{
    uint64_t begun_ns = 0;
    for (uint32_t i = 0; i < faces->reign_count; i++) {
        if (faces->reigns[i].ended_ns >= ns) {
            begun_ns = u64_max(begun_ns, faces->reigns[i].begun_ns);
        }
    }
    return begun_ns;
}

static void end_reign(struct sim_faces *faces, uint32_t node)
{
    for (uint32_t i = 0; i < faces->reign_count; i++) {
        struct reign *reign = &faces->reigns[i];
        if (reign->node == node && reign->ended_ns == NEVER_SHOWN) {
            reign->ended_ns = faces->sim->now_ns;
        }
    }
    faces->runner[node].serves = false;
}

static void begin_reign(struct sim_faces *faces, uint32_t node)
{
    if (faces->reign_count == faces->reign_capacity) {
        faces->reign_capacity = 2 * faces->reign_capacity + 16;
        faces->reigns = memory_resize(faces->reigns, faces->reign_capacity *
                                                         sizeof *faces->reigns);
    }
    faces->reigns[faces->reign_count++] = (struct reign){
        .node = node, .begun_ns = faces->sim->now_ns, .ended_ns = NEVER_SHOWN};
    faces->runner[node].serves = true;
}

void sim_faces_started(struct sim_faces *faces, struct sim_node *node)
{
    uint32_t number = sim_node_host(node)->number;
    end_reign(faces, number);
    buffer_clear(&faces->runner[number].applied_ns);
}

void sim_faces_stepped(struct sim_faces *faces, struct sim_node *node,
                       uint64_t place)
{
    uint32_t number = sim_node_host(node)->number;
    struct runner *runner = &faces->runner[number];
    bool serves = core_is_serving(sim_node_core(node));
    put_times(&runner->applied_ns, place, faces->sim->now_ns);
    if (runner->serves && !serves) {
        end_reign(faces, number);
    } else if (serves && !runner->serves) {
        begin_reign(faces, number);
    }
}

void sim_faces_stopped(struct sim_faces *faces, struct sim_node *node)
{
    end_reign(faces, sim_node_host(node)->number);
}

/* --- Sessions and their ends ---------------------------------------------- */

static struct beats *beats_of(const struct sim_faces *faces, uint64_t session)
{
    struct beats *beats = NULL;
    HASH_FIND(hh, faces->beats, &session, sizeof session, beats);
    return beats;
}

static struct beats *obtain_beats(struct sim_faces *faces, uint64_t session)
{
    struct beats *beats = beats_of(faces, session);
    if (beats == NULL) {
        beats = memory_new(sizeof *beats);
        beats->session = session;
        HASH_ADD(hh, faces->beats, session, sizeof beats->session, beats);
    }
    return beats;
}

void sim_faces_beat(struct sim_faces *faces, uint64_t session, uint64_t sent_ns)
{
    struct beats *beats = obtain_beats(faces, session);
    uint64_t at = beats->count++ % BEAT_MAX;
    beats->sent_ns[at] = sent_ns;
    beats->answered_ns[at] = faces->sim->now_ns;
}

uint64_t sim_faces_beat_ns(const struct sim_faces *faces, uint64_t session,
                           uint64_t ns)
{
    const struct beats *beats = beats_of(faces, session);
    uint64_t newest_ns = 0;
    for (uint64_t i = 0; beats != NULL && i < BEAT_MAX; i++) {
        if (beats->answered_ns[i] <= ns) {
            newest_ns = u64_max(newest_ns, beats->sent_ns[i]);
        }
    }
    return newest_ns;
}

static uint32_t reigns_since(const struct sim_faces *faces, uint64_t ns)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < faces->reign_count; i++) {
        count += faces->reigns[i].ended_ns >= ns;
    }
    return count;
}

void sim_faces_lease_told(struct sim_faces *faces, uint64_t session,
                          uint64_t asked_ns, uint64_t ns)
{
    struct beats *beats = obtain_beats(faces, session);
    if (reigns_since(faces, asked_ns) != 1) {
        return; /* The node that showed it may no longer lead. */
    }
    if (beats->told_in != faces->reign_count) {
        beats->told_in = faces->reign_count;
        beats->lives_until_ns = 0;
    }
    beats->lives_until_ns = u64_max(beats->lives_until_ns, ns);
}

static struct rest *find_rest(struct sim_faces *faces, struct bytes lock,
                              uint64_t session, struct bytes owner,
                              uint64_t token)
{
    struct rest *rest = NULL;
    buffer_clear(&faces->key);
    buffer_put_u64(&faces->key, session);
    buffer_put_u64(&faces->key, token);
    buffer_put_run(&faces->key, lock);
    buffer_put_run(&faces->key, owner);
    HASH_FIND(hh, faces->rests, faces->key.data, faces->key.size, rest);
    return rest;
}

void sim_faces_hold_told(struct sim_faces *faces, struct bytes lock,
                         uint64_t session, struct bytes owner, uint64_t token,
                         uint64_t ns)
{
    struct rest *rest = find_rest(faces, lock, session, owner, token);
    if (rest == NULL) {
        rest = memory_new(sizeof *rest + faces->key.size);
        rest->key_size = faces->key.size;
        memcpy(rest->key, faces->key.data, faces->key.size);
        HASH_ADD_KEYPTR(hh, faces->rests, rest->key, rest->key_size, rest);
    }
    rest->until_ns = u64_max(rest->until_ns, ns);
}

static void look_at_end(struct sim_faces *faces, uint64_t place,
                        const struct effect *e)
{
    struct sim *sim = faces->sim;
    bool is_expiry = e->reason != NULL && strcmp(e->reason, "expired") == 0;
    bool is_limit = e->reason != NULL && strcmp(e->reason, "max hold") == 0;
    const struct beats *beats = beats_of(faces, e->session);
    if (e->type == EFFECT_SESSION_ENDED && is_expiry && beats != NULL &&
        beats->told_in == faces->reign_count &&
        sim->now_ns < beats->lives_until_ns) {
        sim_fail(sim, ORACLE_LISTINGS,
                 "the shown rest of a lease is true: session %" PRIu64
                 " ends by entry %" PRIu64 " %" PRIu64 " ms too early",
                 e->session, place,
                 (beats->lives_until_ns - sim->now_ns) / SIM_MS);
    }
    if (e->type != EFFECT_HOLD_EXPIRED || !is_limit) {
        return;
    }
    const struct rest *rest = find_rest(faces, e->lock, e->session, e->owner,
                                        e->token);
    if (rest != NULL && sim->now_ns < rest->until_ns) {
        sim_fail(sim, ORACLE_LISTINGS,
                 "the shown rest of a hold is true: that of '%.*s' by session "
                 "%" PRIu64 " ends by entry %" PRIu64 " %" PRIu64
                 " ms too early",
                 (int)e->lock.size, (const char *)e->lock.data, e->session,
                 place, (rest->until_ns - sim->now_ns) / SIM_MS);
    }
}

void sim_faces_entry(struct sim_faces *faces, uint64_t place,
                     const struct effects *effects, const struct lockfsm *fsm)
{
    put_times(&faces->first_ns, place, faces->sim->now_ns);
    write_state(faces, place, fsm);
    for (uint32_t i = 0; i < effects->count; i++) {
        look_at_end(faces, place, &effects->effect[i]);
    }
}

void sim_faces_begin_life(struct sim_faces *faces, uint64_t place,
                          const struct lockfsm *fsm)
{
    put_times(&faces->first_ns, place, faces->sim->now_ns);
    faces->life_ns = faces->sim->now_ns;
    write_state(faces, place, fsm);
}
