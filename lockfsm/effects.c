/* SPDX-License-Identifier: MIT */

/* Effects: the list that an entry produces, and the memory of its contents,
 * which is freed in one piece when the list is cleared. */

#include "lockfsm/state.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/memory.h"

static struct arena *arena_of(struct effects *effects)
{
    if (effects->arena == NULL) {
        effects->arena = memory_new(sizeof(struct arena));
    }
    return effects->arena;
}

void effects_clear(struct effects *effects)
{
    effects->count = 0;
    if (effects->arena != NULL) {
        arena_reset(effects->arena);
    }
}

void effects_done(struct effects *effects)
{
    if (effects->arena != NULL) {
        arena_done(effects->arena);
        free(effects->arena);
    }
    free(effects->effect);
    *effects = (struct effects){0};
}

struct effect *effect_add(struct lockfsm *fsm, enum effect_type type)
{
    struct effects *effects = fsm->entry.effects;
    CHECK(effects != NULL); /* Effects exist only while an entry is applied. */
    ROOM(effects->effect, effects->capacity, effects->count + 1);
    struct effect *effect = &effects->effect[effects->count++];
    fsm->entry.steps++;
    *effect = (struct effect){.type = type, .log_index = fsm->entry.log_index};
    return effect;
}

struct effect *effect_add_at(struct lockfsm *fsm, enum effect_type type,
                             const struct lock *lock,
                             const struct session *session, struct bytes owner)
{
    struct effect *effect = effect_add(fsm, type);
    effect->session = session->id;
    effect->lock = effect_copy(fsm, lock->name);
    effect->owner = effect_copy(fsm, owner);
    return effect;
}

struct bytes effect_copy(struct lockfsm *fsm, struct bytes bytes)
{
    fsm->entry.steps += bytes.size / BYTES_PER_STEP;
    return arena_copy(arena_of(fsm->entry.effects), bytes);
}

void *effect_take(struct lockfsm *fsm, size_t size)
{
    return arena_take(arena_of(fsm->entry.effects), size);
}

void refuse_because(struct lockfsm *fsm, struct result *result,
                    enum result_code code, const char *format, ...)
{
    char why[HASP_WHY_SIZE];
    va_list args;
    va_start(args, format);
    vsnprintf(why, sizeof why, format, args);
    va_end(args);
    result->code = code;
    result->text = effect_copy(fsm, bytes_of_text(why));
}

void effect_copy_result(struct lockfsm *fsm, struct result *ret_copy,
                        const struct result *result)
{
    *ret_copy = *result;
    ret_copy->text = effect_copy(fsm, result->text);
    if (result->token_count > 0) {
        size_t size = result->token_count * sizeof(uint64_t);
        uint64_t *tokens = effect_take(fsm, size);
        memcpy(tokens, result->tokens, size);
        ret_copy->tokens = tokens;
    }
}
