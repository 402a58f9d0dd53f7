/* SPDX-License-Identifier: MIT */

#include "tests/sim/sim_push.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/memory.h"
#include "client/reply.h"

/* Of all lives: session ids are never reused. */
struct wait_key {
    uint64_t wait_index;
    uint64_t session;
};

/* The end of a wait; that of a granted one has a token for each lock. */
struct wait_end {
    UT_hash_handle hh;
    struct wait_key key;
    uint64_t log_index;
    struct bytes owner; /* Owned. */
    uint32_t token_count;
    uint64_t tokens[];
};

struct sim_pushes {
    struct sim *sim;
    struct wait_end *ends;
};

struct sim_pushes *sim_pushes_new(struct sim *sim)
{
    struct sim_pushes *pushes = memory_new(sizeof *pushes);
    pushes->sim = sim;
    return pushes;
}

void sim_pushes_free(struct sim_pushes *pushes)
{
    struct wait_end *end, *next;
    HASH_ITER (hh, pushes->ends, end, next) {
        HASH_DEL(pushes->ends, end);
        free((void *)(uintptr_t)end->owner.data);
        free(end);
    }
    free(pushes);
}

static struct wait_end *find(struct sim_pushes *pushes, struct wait_key key)
{
    struct wait_end *end;
    HASH_FIND(hh, pushes->ends, &key, sizeof key, end);
    return end;
}

static void add(struct sim_pushes *pushes, const struct effect *effect)
{
    const struct result *result = &effect->result;
    uint32_t count = result->code == RESULT_OK ? result->token_count : 0;
    struct wait_key key = {effect->wait_index, effect->session};
    if (find(pushes, key) != NULL) {
        sim_fail(pushes->sim, ORACLE_RESULTS,
                 "a wait ends once: %" PRIu64 " at entry %" PRIu64,
                 effect->wait_index, effect->log_index);
        return;
    }
    struct wait_end *end = memory_new(sizeof *end + count * sizeof(uint64_t));
    end->key = key;
    end->log_index = effect->log_index;
    end->owner = bytes_of(memory_copy(effect->owner.data, effect->owner.size),
                          effect->owner.size);
    end->token_count = count;
    if (count > 0) {
        memcpy(end->tokens, result->tokens, count * sizeof(uint64_t));
    }
    HASH_ADD(hh, pushes->ends, key, sizeof end->key, end);
}

void sim_pushes_entry(struct sim_pushes *pushes, const struct effects *effects)
{
    for (uint32_t i = 0; i < effects->count; i++) {
        if (effects->effect[i].type == EFFECT_WAIT_RESULT) {
            add(pushes, &effects->effect[i]);
        }
    }
}

void sim_pushes_told(struct sim_pushes *pushes, const char *client,
                     const struct resp_reply *reply)
{
    if (reply->value[0].count != 3 || reply->count < 4 ||
        !bytes_is_word(reply->value[2].bytes, "ANSWER")) {
        return;
    }
    uint32_t at = 0;
    uint32_t count = reply_array(reply, 3, "tokens", &at);
    struct wait_key key = {reply_number(reply, 3, "wait"),
                           reply_number(reply, 3, "session")};
    const struct wait_end *end = find(pushes, key);
    bool is_right = end != NULL &&
                    end->log_index == reply_number(reply, 3, "index") &&
                    bytes_equal(end->owner, reply_text(reply, 3, "owner")) &&
                    end->token_count == count;
    for (uint32_t i = 0; is_right && i < count; i++) {
        is_right = (uint64_t)reply->value[at + i].integer == end->tokens[i];
    }
    pushes->sim->stats.pushes++;
    if (!is_right) {
        sim_fail(pushes->sim, ORACLE_RESULTS,
                 "a push is that of the log: %s gets wait %" PRIu64
                 " with %u tokens",
                 client, key.wait_index, count);
    }
}
