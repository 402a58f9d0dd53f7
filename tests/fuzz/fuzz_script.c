/* SPDX-License-Identifier: MIT */

/* A hostile client's script: whatever it contains, it ends within its bounds;
 * and its entry does, on the state on which it was decided, exactly what the
 * script saw. */

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/memory.h"
#include "core/redis/keys.h"
#include "lease/timers.h"
#include "lockfsm/entry.h"
#include "lockfsm/user/access.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct bytes names[] = {BYTES_LITERAL("a"), BYTES_LITERAL("b"),
                                     BYTES_LITERAL("c")};
static const struct bytes arguments[] = {
    BYTES_LITERAL("token"), BYTES_LITERAL("1000"), BYTES_LITERAL("0")};
#define KEY_COUNT 3

static uint64_t apply(struct lockfsm *fsm, const struct redis_command *redis)
{
    struct buffer command = {0};
    struct effects effects = {0};
    encode_redis(&command, redis);
    encode_user(&command, USER_ANYONE);
    int error = lockfsm_apply(fsm, lockfsm_applied_index(fsm) + 1, 1,
                              buffer_bytes(&command), &effects);
    CHECK(error == 0 && effects.count > 0);
    CHECK(effects.effect[0].result.code == RESULT_OK);
    uint64_t count = effects.effect[0].result.count;
    buffer_done(&command);
    effects_done(&effects);
    CHECK(lockfsm_check_basic(fsm) == NULL);
    return count;
}

/* The caller holds the first key, another session the second. */
static struct lockfsm *new_state(void)
{
    struct lockfsm *fsm = lockfsm_new();
    struct redis_key key[] = {{.name = names[0],
                               .change = REDIS_SET,
                               .new_value = arguments[0],
                               .ttl_ms = 1255,
                               .px_ms = 1000},
                              {.name = names[1],
                               .change = REDIS_SET,
                               .new_value = BYTES_LITERAL("other"),
                               .ttl_ms = 1255,
                               .px_ms = 1000}};
    for (size_t i = 0; i < 2; i++) {
        CHECK(apply(fsm, &(struct redis_command){.keys = &key[i],
                                                 .key_count = 1}) == 1);
    }
    return fsm;
}

static void apply_outcome(struct lockfsm *fsm, const struct redis_keys *keys)
{
    struct redis_key key[MULTI_COUNT_MAX];
    const struct hold *hold;
    for (uint32_t i = 0; i < keys->count; i++) {
        key[i] = keys->view[i].key;
        if (key[i].px_ms > 60000) {
            return; /* ttl_max refuses it. */
        }
    }
    CHECK(apply(fsm, &(struct redis_command){.keys = key,
                                             .key_count = keys->count}) == 1);
    for (uint32_t i = 0; i < keys->count; i++) {
        const struct redis_view *view = &keys->view[i];
        enum redis_state state = lockfsm_redis(fsm, keys->user, key[i].name,
                                               &hold);
        CHECK((state == REDIS_VALUE) == view->is_there);
        CHECK(hold == NULL || bytes_equal(hold->value, view->value));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct redis_keys keys;
    struct arena arena = {0};
    struct script script;
    struct script_error error;
    struct value value;
    struct lockfsm *fsm = new_state();
    struct timers *timers = timers_new();
    uint8_t *copy = memory_copy(data, size);
    keys = (struct redis_keys){.fsm = fsm,
                               .timers = timers,
                               .user = lockfsm_user(fsm, USER_ANYONE),
                               .arena = &arena,
                               .is_script = true,
                               .declared = names,
                               .declared_count = KEY_COUNT};
    struct script_run run = {.arena = &arena,
                             .key = names,
                             .key_count = KEY_COUNT,
                             .argument = arguments,
                             .argument_count = 3,
                             .call = redis_keys_call,
                             .call_steps = &keys.steps,
                             .data = &keys};
    bool is_good = script_parse(bytes_of(copy, size), &arena, redis_keys_know,
                                &script, &error) &&
                   script_run(&script, &run, &value, &error);
    if (!is_good) {
        CHECK(strncmp(error.text, "line ", 5) == 0);
    } else if (redis_keys_finish(&keys) && redis_keys_change(&keys)) {
        apply_outcome(fsm, &keys);
    }
    free(copy);
    timers_free(timers);
    lockfsm_free(fsm);
    arena_done(&arena);
    return 0;
}
