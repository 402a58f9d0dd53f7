/* SPDX-License-Identifier: MIT */

#include "tests/sim/sim_events.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/memory.h"
#include "tests/sim/sim_check.h"
#include "tests/sim/sim_node.h"

/* A process of a node. */
struct knower {
    uint64_t process; /* From 1. */
    uint64_t known_from;
    uint64_t applied;
};

struct sim_events {
    struct sim *sim;
    struct log_event *event;
    uint64_t count;
    uint64_t capacity;
    struct knower knower[SIM_NODE_MAX];
};

struct sim_events *sim_events_new(struct sim *sim)
{
    struct sim_events *events = memory_new(sizeof *events);
    events->sim = sim;
    return events;
}

static void free_bytes(struct bytes bytes)
{
    free((void *)(uintptr_t)bytes.data);
}

void sim_events_free(struct sim_events *events)
{
    for (uint64_t i = 0; i < events->count; i++) {
        free_bytes(events->event[i].lock);
        free_bytes(events->event[i].message);
    }
    free(events->event);
    free(events);
}

/* --- What the log has ----------------------------------------------------- */

static struct bytes copy(struct bytes bytes)
{
    return bytes_of(memory_copy(bytes.data, bytes.size), bytes.size);
}

static void add(struct sim_events *events, const struct log_event *event)
{
    if (events->count == events->capacity) {
        events->capacity = 2 * events->capacity + 1024;
        events->event = memory_resize(events->event,
                                      events->capacity * sizeof *event);
    }
    struct log_event *added = &events->event[events->count++];
    *added = *event;
    sim_say(events->sim, NULL,
            "lock %.*s event: %s session %" PRIu64 " token %" PRIu64,
            (int)event->lock.size, (const char *)event->lock.data, event->kind,
            event->session, event->token);
    added->lock = copy(event->lock);
    added->message = copy(event->message);
}

/* The table of docs/protocol.md, "Events"; NULL: no event. */
static const char *kind_of(const struct effect *effect)
{
    static const char *const kinds[] = {
        [EFFECT_GRANTED] = "granted",       [EFFECT_QUEUED] = "queued",
        [EFFECT_RELEASED] = "released",     [EFFECT_HOLD_EXPIRED] = "expired",
        [EFFECT_WAIT_ENDED] = "wait-ended", [EFFECT_DELAYED] = "delayed",
        [EFFECT_DELAY_OVER] = "delay-over", [EFFECT_PLEASE] = "please",
        [EFFECT_BREAKING] = "breaking",     [EFFECT_OBJECTED] = "objected",
    };
    bool is_repeated = effect->type == EFFECT_QUEUED && effect->count != 0;
    return effect->type < sizeof kinds / sizeof *kinds && !is_repeated
               ? kinds[effect->type]
               : NULL;
}

static struct bytes message_of(const struct effect *effect)
{
    const char *reason = effect->reason != NULL ? effect->reason : "";
    return effect->text.size > 0 ? effect->text : bytes_of_text(reason);
}

/* One for each lock that the session holds. */
static void add_blacklisted(struct sim_events *events, struct log_event *event,
                            const struct effect *effect,
                            const struct lockfsm *fsm)
{
    const struct session *session = lockfsm_session(fsm, effect->session);
    event->kind = "blacklisted";
    event->message = effect->text;
    if (session == NULL) {
        return;
    }
    LIST_FOR (const struct hold, hold, &session->holds, in_session) {
        event->lock = hold->lock->name;
        event->token = hold->token;
        add(events, event);
        event->ordinal++;
    }
}

void sim_events_entry(struct sim_events *events, uint64_t place,
                      const struct effects *effects, const struct lockfsm *fsm)
{
    uint32_t ordinal = 0;
    for (uint32_t i = 0; i < effects->count; i++) {
        const struct effect *effect = &effects->effect[i];
        struct log_event event = {
            .life = lockfsm_token_base(fsm) >> 20,
            .place = place,
            .index = lockfsm_applied_index(fsm),
            .ordinal = ordinal,
            .kind = kind_of(effect),
            .lock = effect->lock,
            .message = message_of(effect),
            .session = effect->session,
            .token = effect->token,
        };
        if (event.kind != NULL) {
            add(events, &event);
            event.ordinal++;
        } else if (effect->type == EFFECT_SESSION_CHANGED &&
                   effect->reason != NULL &&
                   strcmp(effect->reason, "blacklisted") == 0) {
            add_blacklisted(events, &event, effect, fsm);
        }
        ordinal = event.ordinal;
    }
}

/* --- Who can know it ------------------------------------------------------ */

void sim_events_started(struct sim_events *events, const struct sim_node *node,
                        uint64_t log_index)
{
    struct knower *knower = &events->knower[sim_node_number(node)];
    knower->process++;
    knower->known_from = knower->applied = sim_check_place(events->sim, node,
                                                           log_index);
}

void sim_events_applied(struct sim_events *events, const struct sim_node *node,
                        uint64_t log_index)
{
    struct knower *knower = &events->knower[sim_node_number(node)];
    uint64_t place = sim_check_place(events->sim, node, log_index);
    if (place > knower->applied + 1) {
        knower->known_from = place - 1;
    }
    knower->applied = place;
}

void sim_events_stepped(struct sim_events *events, const struct sim_node *node,
                        uint64_t log_index)
{
    struct knower *knower = &events->knower[sim_node_number(node)];
    uint64_t place = sim_check_place(events->sim, node, log_index);
    if (place != knower->applied) {
        knower->known_from = knower->applied = place;
    }
}

uint64_t sim_events_known_from(const struct sim_events *events,
                               uint32_t node_number)
{
    return events->knower[node_number].known_from;
}

uint64_t sim_events_process(const struct sim_events *events,
                            uint32_t node_number)
{
    return events->knower[node_number].process;
}

/* --- Reading -------------------------------------------------------------- */

uint64_t sim_events_count(const struct sim_events *events)
{
    return events->count;
}

const struct log_event *sim_events_at(const struct sim_events *events,
                                      uint64_t number)
{
    CHECK(number < events->count);
    return &events->event[number];
}

uint64_t sim_events_behind(const struct sim_events *events, uint64_t place)
{
    uint64_t low = 0, high = events->count;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (events->event[middle].place > place) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low;
}

bool sim_events_find(const struct sim_events *events, struct bytes id,
                     uint64_t *ret_number)
{
    char text[64] = "";
    uint64_t life, index;
    uint32_t ordinal;
    if (id.size == 0 || id.size >= sizeof text) {
        return false;
    }
    memcpy(text, id.data, id.size);
    if (sscanf(text, "%" SCNu64 "-%" SCNu64 "-%" SCNu32, &life, &index,
               &ordinal) != 3 ||
        index == 0) {
        return false;
    }
    for (uint32_t i = 0; i <= events->sim->life; i++) {
        uint64_t place = sim_check_place_in(events->sim, i, index);
        uint64_t number = sim_events_behind(events, place - 1) + ordinal;
        if (number < events->count && events->event[number].place == place &&
            events->event[number].index == index &&
            events->event[number].life == life) {
            *ret_number = number;
            return true;
        }
    }
    return false;
}
