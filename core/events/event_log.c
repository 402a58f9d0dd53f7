/* SPDX-License-Identifier: MIT */

/* Two rings: one of events, one of their bytes, each event's in one piece. */

#include "core/events/event_log.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/hash.h"
#include "base/memory.h"
#include "core/state.h"

/* 0 until the first BEGIN after a restore is applied: what a restored node
 * loads has earlier tokens, but is no longer one of the earlier cluster's
 * states. */
static uint64_t life_of(const struct core *core)
{
    uint8_t id[CLUSTER_ID_SIZE];
    lockfsm_cluster_id(core->fsm, id);
    return cluster_id_is_known(id) ? lockfsm_token_base(core->fsm) >> 20 : 0;
}

void event_log_reset(struct core *core, uint64_t applied_index)
{
    struct event_log *event_log = &core->event_log;
    event_log->first = event_log->next;
    event_log->missing = (struct event_log_id){0, applied_index, UINT32_MAX};
    event_log->newest = event_log->missing;
}

void event_log_done(struct event_log *event_log)
{
    free(event_log->events);
    free(event_log->bytes);
    free(event_log->newest_of);
}

const struct event_log_event *event_log_event(const struct event_log *event_log,
                                              uint64_t number)
{
    CHECK(number >= event_log->first && number < event_log->next);
    return &event_log->events[number % EVENT_LOG_COUNT];
}

struct bytes event_log_name(const struct event_log *event_log,
                            const struct event_log_event *event)
{
    /* The name has not been overwritten. */
    CHECK(event->at + EVENT_LOG_SIZE >= event_log->bytes_next);
    return bytes_of(event_log->bytes + event->at % EVENT_LOG_SIZE,
                    event->name_size);
}

struct bytes event_log_message(const struct event_log *event_log,
                               const struct event_log_event *event)
{
    return bytes_of(event_log->bytes + event->at % EVENT_LOG_SIZE +
                        event->name_size,
                    event->message_size);
}

void event_log_trace(const struct event_log *event_log,
                     const struct event_log_event *event,
                     char out[TRACE_TEXT_SIZE])
{
    out[0] = '\0';
    if (event->has_trace) {
        traceparent_format(event_log->bytes + event->at % EVENT_LOG_SIZE +
                               event->name_size + event->message_size,
                           out);
    }
}

static void event_log_forget_oldest(struct event_log *event_log)
{
    const struct event_log_event *oldest = event_log_event(event_log,
                                                           event_log->first);
    event_log->first++;
    CHECK(oldest->index >= event_log->missing.index);
    event_log->missing.index = oldest->index;
    event_log->missing.ordinal = oldest->ordinal;
}

/* Makes space for 'size' bytes in one piece, and returns its place. */
static uint64_t event_log_make_room(struct event_log *event_log, size_t size)
{
    size_t left = EVENT_LOG_SIZE - event_log->bytes_next % EVENT_LOG_SIZE;
    uint64_t at = event_log->bytes_next + (left < size ? left : 0);
    CHECK(size <= EVENT_LOG_SIZE / 2);
    if (event_log->next - event_log->first == EVENT_LOG_COUNT) {
        event_log_forget_oldest(event_log);
    }
    while (event_log->first < event_log->next &&
           at + size > event_log_event(event_log, event_log->first)->at +
                           EVENT_LOG_SIZE) {
        event_log_forget_oldest(event_log);
    }
    event_log->bytes_next = at + size;
    return at;
}

static uint64_t *newest_of(const struct event_log *event_log, struct bytes name)
{
    return &event_log
                ->newest_of[hash_bytes(name.data, name.size) % EVENT_LOG_COUNT];
}

bool event_log_find(const struct event_log *event_log, struct bytes name,
                    uint64_t below, uint64_t *ret_number, uint64_t *steps)
{
    if (event_log->newest_of == NULL) {
        return false;
    }
    /* If the last search ended here, the events above 'below' need not be
     * searched again: the chain continues from there. */
    uint64_t next = below < event_log->next && below >= event_log->first
                        ? event_log_event(event_log, below)->before
                        : *newest_of(event_log, name);
    while (next > event_log->first) {
        const struct event_log_event *event = event_log_event(event_log,
                                                              next - 1);
        *steps += 1;
        if (bytes_equal(event_log_name(event_log, event), name)) {
            *ret_number = next - 1;
            return true;
        }
        next = event->before;
    }
    return false;
}

/* The wall clock, which is read once a turn. */
static uint64_t wall_ms_of(struct core *core)
{
    struct event_log *event_log = &core->event_log;
    if (event_log->wall_ms == 0 || event_log->wall_at_ns != core->now_ns) {
        event_log->wall_ms = core->port.wall_ms(core->port.data);
        event_log->wall_at_ns = core->now_ns;
    }
    return event_log->wall_ms;
}

void event_log_add(struct core *core, const char *kind,
                   const struct effect *effect, struct bytes message)
{
    struct event_log *event_log = &core->event_log;
    bool is_next = event_log->newest.index == effect->log_index &&
                   event_log->newest.ordinal != UINT32_MAX;
    bool is_replayed = effect->log_index <= core->run.replayed_index;
    size_t size = effect->lock.size + message.size +
                  (traceparent_is_set(effect->trace) ? TRACE_SIZE : 0);
    if (event_log->events == NULL) {
        event_log->events = memory_new(EVENT_LOG_COUNT *
                                       sizeof *event_log->events);
        event_log->bytes = memory_new(EVENT_LOG_SIZE);
        event_log->newest_of = memory_new(EVENT_LOG_COUNT *
                                          sizeof *event_log->newest_of);
    }
    /* The size of the message is bounded by event_log_make_room(). */
    CHECK(effect->lock.size <= LOCK_NAME_SIZE_MAX);
    struct event_log_event event = {
        .index = effect->log_index,
        .ordinal = is_next ? event_log->newest.ordinal + 1 : 0,
        .name_size = (uint16_t)effect->lock.size,
        .message_size = (uint32_t)message.size,
        .has_trace = traceparent_is_set(effect->trace),
        .kind = kind,
        .session = effect->session,
        .token = effect->token,
        .wall_ms = is_replayed ? 0 : wall_ms_of(core),
        .at = event_log_make_room(event_log, size)};
    uint8_t *to = event_log->bytes + event.at % EVENT_LOG_SIZE;
    if (effect->lock.size > 0) {
        memcpy(to, effect->lock.data, effect->lock.size);
    }
    if (message.size > 0) {
        memcpy(to + effect->lock.size, message.data, message.size);
    }
    if (event.has_trace) {
        memcpy(to + effect->lock.size + message.size, effect->trace,
               TRACE_SIZE);
    }
    uint64_t *newest = newest_of(event_log, effect->lock);
    event.before = *newest;
    event_log->events[event_log->next++ % EVENT_LOG_COUNT] = event;
    *newest = event_log->next;
    CHECK(event_log->next - event_log->first <= EVENT_LOG_COUNT);
    event_log->newest.index = event.index;
    event_log->newest.ordinal = event.ordinal;
}

bool event_log_is_behind(const struct event_log_event *event,
                         const struct event_log_id *id)
{
    return event->index > id->index ||
           (event->index == id->index && event->ordinal > id->ordinal);
}

bool event_log_knows(const struct core *core, const struct event_log_id *id)
{
    const struct event_log_id *missing = &core->event_log.missing;
    return id->life == life_of(core) &&
           (id->index > missing->index ||
            (id->index == missing->index && id->ordinal >= missing->ordinal));
}

void event_log_id_format(const struct core *core, uint64_t index,
                         uint32_t ordinal, char out[EVENT_LOG_ID_SIZE])
{
    snprintf(out, EVENT_LOG_ID_SIZE, "%" PRIu64 "-%" PRIu64 "-%" PRIu32,
             life_of(core), index, ordinal);
}

/* Takes the number before the next '-', or the rest. */
static bool cut_number(struct bytes *text, uint64_t *ret_number)
{
    const uint8_t *mark = text->size > 0 ? memchr(text->data, '-', text->size)
                                         : NULL;
    size_t size = mark != NULL ? (size_t)(mark - text->data) : text->size;
    bool is_good = bytes_to_u64(bytes_of(text->data, size), ret_number);
    size += mark != NULL;
    *text = bytes_of(text->data + size, text->size - size);
    return is_good;
}

bool event_log_id_parse(struct bytes text, struct event_log_id *ret_id)
{
    uint64_t ordinal = UINT32_MAX;
    if (text.size == 0 || text.data[text.size - 1] == '-' ||
        !cut_number(&text, &ret_id->life) || text.size == 0 ||
        !cut_number(&text, &ret_id->index) ||
        (text.size > 0 && (!cut_number(&text, &ordinal) || text.size > 0)) ||
        ordinal > UINT32_MAX) {
        return false;
    }
    ret_id->ordinal = (uint32_t)ordinal;
    return true;
}
