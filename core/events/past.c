/* SPDX-License-Identifier: MIT */

/* Two rings: of events, and of their bytes, which lie in one piece each. */

#include "core/events/past.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/hash.h"
#include "base/memory.h"
#include "core/state.h"

/* 0 until the first BEGIN of a life is applied: what a restored node loads has
 * the tokens of the life before, and is none of its states any more. */
static uint64_t life_of(const struct core *core)
{
    uint8_t id[CLUSTER_ID_SIZE];
    lockfsm_cluster_id(core->fsm, id);
    return cluster_id_is_known(id) ? lockfsm_token_base(core->fsm) >> 20 : 0;
}

void past_reset(struct core *core, uint64_t applied_index)
{
    struct past *past = &core->past;
    past->first = past->next;
    past->missing = (struct past_id){0, applied_index, UINT32_MAX};
    past->newest = past->missing;
}

void past_done(struct past *past)
{
    free(past->events);
    free(past->bytes);
    free(past->newest_of);
}

const struct past_event *past_event(const struct past *past, uint64_t number)
{
    CHECK(number >= past->first && number < past->next);
    return &past->events[number % PAST_COUNT];
}

struct bytes past_name(const struct past *past, const struct past_event *event)
{
    /* The name has not been overwritten. */
    CHECK(event->at + PAST_SIZE >= past->bytes_next);
    return bytes_of(past->bytes + event->at % PAST_SIZE, event->name_size);
}

struct bytes past_message(const struct past *past,
                          const struct past_event *event)
{
    return bytes_of(past->bytes + event->at % PAST_SIZE + event->name_size,
                    event->message_size);
}

static void forget_oldest(struct past *past)
{
    const struct past_event *oldest = past_event(past, past->first);
    past->first++;
    CHECK(oldest->index >= past->missing.index);
    past->missing.index = oldest->index;
    past->missing.ordinal = oldest->ordinal;
}

/* Makes room for 'size' bytes in one piece, and returns its place. */
static uint64_t make_room(struct past *past, size_t size)
{
    size_t left = PAST_SIZE - past->bytes_next % PAST_SIZE;
    uint64_t at = past->bytes_next + (left < size ? left : 0);
    CHECK(size <= PAST_SIZE / 2);
    if (past->next - past->first == PAST_COUNT) {
        forget_oldest(past);
    }
    while (past->first < past->next &&
           at + size > past_event(past, past->first)->at + PAST_SIZE) {
        forget_oldest(past);
    }
    past->bytes_next = at + size;
    return at;
}

static uint64_t *newest_of(const struct past *past, struct bytes name)
{
    return &past->newest_of[hash_bytes(name.data, name.size) % PAST_COUNT];
}

bool past_find(const struct past *past, struct bytes name, uint64_t below,
               uint64_t *ret_number, uint64_t *steps)
{
    if (past->newest_of == NULL) {
        return false;
    }
    /* What is below 'below' needs no second look at what is above, if that was
     * found here: the chain goes on from there. */
    uint64_t next = below < past->next && below >= past->first
                        ? past_event(past, below)->before
                        : *newest_of(past, name);
    while (next > past->first) {
        const struct past_event *event = past_event(past, next - 1);
        *steps += 1;
        if (bytes_equal(past_name(past, event), name)) {
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
    struct past *past = &core->past;
    if (past->wall_ms == 0 || past->wall_at_ns != core->now_ns) {
        past->wall_ms = core->port.wall_ms(core->port.data);
        past->wall_at_ns = core->now_ns;
    }
    return past->wall_ms;
}

void past_add(struct core *core, const char *kind, const struct effect *effect,
              struct bytes message)
{
    struct past *past = &core->past;
    bool is_next = past->newest.index == effect->log_index &&
                   past->newest.ordinal != UINT32_MAX;
    bool is_replayed = effect->log_index <= core->run.replayed_index;
    if (past->events == NULL) {
        past->events = memory_new(PAST_COUNT * sizeof *past->events);
        past->bytes = memory_new(PAST_SIZE);
        past->newest_of = memory_new(PAST_COUNT * sizeof *past->newest_of);
    }
    /* The size of the message is bounded by make_room(). */
    CHECK(effect->lock.size <= LOCK_NAME_SIZE_MAX);
    struct past_event event = {
        .index = effect->log_index,
        .ordinal = is_next ? past->newest.ordinal + 1 : 0,
        .name_size = (uint16_t)effect->lock.size,
        .message_size = (uint32_t)message.size,
        .kind = kind,
        .session = effect->session,
        .token = effect->token,
        .wall_ms = is_replayed ? 0 : wall_ms_of(core),
        .at = make_room(past, effect->lock.size + message.size)};
    uint8_t *to = past->bytes + event.at % PAST_SIZE;
    if (effect->lock.size > 0) {
        memcpy(to, effect->lock.data, effect->lock.size);
    }
    if (message.size > 0) {
        memcpy(to + effect->lock.size, message.data, message.size);
    }
    uint64_t *newest = newest_of(past, effect->lock);
    event.before = *newest;
    past->events[past->next++ % PAST_COUNT] = event;
    *newest = past->next;
    CHECK(past->next - past->first <= PAST_COUNT);
    past->newest.index = event.index;
    past->newest.ordinal = event.ordinal;
}

bool past_is_behind(const struct past_event *event, const struct past_id *id)
{
    return event->index > id->index ||
           (event->index == id->index && event->ordinal > id->ordinal);
}

bool past_knows(const struct core *core, const struct past_id *id)
{
    const struct past_id *missing = &core->past.missing;
    return id->life == life_of(core) &&
           (id->index > missing->index ||
            (id->index == missing->index && id->ordinal >= missing->ordinal));
}

void past_id_format(const struct core *core, uint64_t index, uint32_t ordinal,
                    char out[PAST_ID_SIZE])
{
    snprintf(out, PAST_ID_SIZE, "%" PRIu64 "-%" PRIu64 "-%" PRIu32,
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

bool past_id_parse(struct bytes text, struct past_id *ret_id)
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
