/* SPDX-License-Identifier: MIT */

/* Any bytes as the entries of a log: two machines under different hash seeds
 * have the same output and the same hash; the state stays sound, and is the
 * same again after it was flushed and loaded.
 *
 * The input is a row of entries, each a size (u16) and that many bytes. An
 * entry that is not a command is skipped, so that the rest of the row still
 * counts; the test also checks that it changes nothing. */

#include "lockfsm/lockfsm.h"

#include "base/check.h"
#include "base/hash.h"
#include "lockfsm/entry.h"
#include "lockfsm/user/access.h"
#include "storage/table.h"
#include "tests/unit/lockfsm_delta.h"

#define ENTRY_COUNT_MAX 200

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct lockfsm_limits limits = {{[LIMIT_SESSIONS] = 8,
                                              [LIMIT_LOCKS] = 8,
                                              [LIMIT_HOLDS_PER_SESSION] = 8,
                                              [LIMIT_WAITS_PER_LOCK] = 6,
                                              [LIMIT_WAITS_PER_SESSION] = 6,
                                              [LIMIT_OWNERS_PER_SESSION] = 4,
                                              [LIMIT_FENCES] = 3,
                                              [LIMIT_BLACKLIST] = 3}};

/* Counts the outputs, so that two runs can be compared. */
static uint64_t count_effects(const struct effects *effects)
{
    uint64_t sum = effects->count;
    for (uint32_t i = 0; i < effects->count; i++) {
        const struct effect *effect = &effects->effect[i];
        const uint64_t parts[] = {(uint64_t)effect->type,
                                  (uint64_t)effect->result.code,
                                  effect->result.token,
                                  effect->result.count,
                                  effect->result.text.size,
                                  effect->session,
                                  effect->token,
                                  effect->wait_index,
                                  effect->time_ms,
                                  effect->count,
                                  effect->lock.size,
                                  effect->owner.size};
        for (size_t j = 0; j < sizeof parts / sizeof parts[0]; j++) {
            sum = (sum ^ parts[j]) * UINT64_C(0x9e3779b97f4a7c15);
            sum ^= sum >> 31;
        }
    }
    return sum;
}

static void check_reloading(struct lockfsm *fsm)
{
    struct table *table = table_new_memory();
    char why[HASP_WHY_SIZE];
    uint64_t hash = lockfsm_hash(fsm);
    CHECK(lockfsm_flush(fsm, table) == 0);
    struct lockfsm *other = lockfsm_new();
    CHECK(lockfsm_load(other, table, why) == 0);
    CHECK(lockfsm_hash(other) == hash);
    CHECK(lockfsm_check_basic(other) == NULL);
    lockfsm_free(other);
    table_close(table);
}

/* Entry 1: small limits, so that an input meets them. */
static void begin(struct lockfsm *fsm, struct effects *effects)
{
    struct buffer command = {0};
    encode_begin(&command, &(struct begin_command){.node = 1,
                                                   .limits = limits.of,
                                                   .limit_count = LIMIT_COUNT});
    CHECK(lockfsm_apply(fsm, 1, 1, buffer_bytes(&command), effects) == 0);
    buffer_done(&command);
}

/* The entry, as an anonymous one unless it names its user. */
static int apply(struct lockfsm *fsm, uint64_t index, struct bytes entry,
                 struct effects *effects)
{
    struct buffer command = {0};
    buffer_put_bytes(&command, entry);
    encode_user(&command, USER_ANYONE);
    int error = lockfsm_apply(fsm, index, 1, buffer_bytes(&command), effects);
    buffer_done(&command);
    return error == 0 ? 0 : lockfsm_apply(fsm, index, 1, entry, effects);
}

/* Applies the row; returns a hash of the output and of the state. */
static uint64_t run(struct bytes input, uint64_t seed)
{
    hash_seed_set(seed);
    struct lockfsm *fsm = lockfsm_new();
    struct lockfsm_delta *delta = lockfsm_delta_new();
    struct effects effects = {0};
    struct reader reader = reader_of(input);
    uint64_t told = 0;
    begin(fsm, &effects);
    for (uint64_t index = 2;
         index <= ENTRY_COUNT_MAX && reader_left(&reader) > 2; index++) {
        uint16_t entry_size = reader_u16(&reader);
        struct bytes entry = reader_bytes(
            &reader, entry_size < reader_left(&reader) ? entry_size
                                                       : reader_left(&reader));
        uint64_t hash = lockfsm_hash(fsm);
        effects_clear(&effects);
        if (apply(fsm, index, entry, &effects) != 0) {
            CHECK(lockfsm_hash(fsm) == hash);
            lockfsm_skip(fsm, index, 1);
        }
        told = told * 31 + count_effects(&effects);
        CHECK(lockfsm_check_basic(fsm) == NULL);
        CHECK(lockfsm_delta_check(delta, fsm) == NULL);
    }
    told ^= lockfsm_hash(fsm);
    check_reloading(fsm);
    lockfsm_delta_free(delta);
    effects_done(&effects);
    lockfsm_free(fsm);
    return told;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes input = bytes_of(data, size);
    CHECK(run(input, 1) == run(input, 2));
    return 0;
}
