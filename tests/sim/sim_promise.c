/* SPDX-License-Identifier: MIT */

#include "tests/sim/sim_promise.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/memory.h"

/* A request that an entry contains, or that no further entry may contain. */
struct known {
    UT_hash_handle hh;
    uint64_t entry;     /* Its first entry; 0: none. */
    uint64_t done;      /* The first one that was not denied; 0: none. */
    const char *client; /* The client that was refused; NULL: none. */
    char word[16];
    char key[];
};

struct sim_promises {
    struct sim *sim;
    struct known *known;
};

struct sim_promises *sim_promises_new(struct sim *sim)
{
    struct sim_promises *promises = memory_new(sizeof *promises);
    promises->sim = sim;
    return promises;
}

void sim_promises_free(struct sim_promises *promises)
{
    struct known *known, *next;
    HASH_ITER (hh, promises->known, known, next) {
        HASH_DEL(promises->known, known);
        free(known);
    }
    free(promises);
}

static struct known *find(struct sim_promises *promises, const char *key)
{
    struct known *known;
    HASH_FIND(hh, promises->known, key, strlen(key), known);
    return known;
}

static struct known *add(struct sim_promises *promises, const char *key)
{
    size_t size = strlen(key);
    struct known *known = memory_new(sizeof *known + size + 1);
    memcpy(known->key, key, size + 1);
    HASH_ADD_KEYPTR(hh, promises->known, known->key, size, known);
    return known;
}

static void put_key(char out[256], char kind, uint64_t session, uint64_t req,
                    struct bytes text)
{
    char shown[129] = "";
    if (text.size > 0) {
        memcpy(shown, text.data, text.size < 128 ? text.size : 128);
    }
    snprintf(out, 256, "%c %" PRIu64 " %" PRIu64 " %s", kind, session, req,
             shown);
}

/* False if nothing identifies the request of an entry. */
static bool key_of_entry(const struct entry *command,
                         const struct origin *origin, char out[256])
{
    if (origin != NULL && origin->req != 0) {
        put_key(out, 'n', origin->session, origin->req, bytes_of_text(""));
        return true;
    }
    char kind = 'v';
    struct bytes value = {NULL, 0};
    if (command->op == OP_ACQUIRE) {
        value = command->acquire->value;
    } else if (command->op == OP_REDIS) {
        const struct redis_key *key = command->redis->keys;
        kind = key->change == REDIS_DELETE ? 'd' : 'v';
        value = key->change == REDIS_SET      ? key->new_value
                : key->change == REDIS_DELETE ? key->value
                                              : value;
    }
    put_key(out, kind, 0, 0, value);
    return value.size > 0;
}

/* The entry was refused with a result that is not kept under its number
 * (dedup_keep() in lockfsm/session/dedup.c): because its client has no rights
 * at all, in a quarantine, or because the name is another cell's. It has done
 * nothing, and a repetition may be done. */
static bool is_denied(const struct effects *effects)
{
    for (uint32_t i = 0; i < effects->count; i++) {
        const struct effect *effect = &effects->effect[i];
        if (effect->type == EFFECT_RESULT) {
            return effect->result.code == RESULT_NO_AUTH ||
                   effect->result.code == RESULT_QUARANTINED ||
                   effect->result.code == RESULT_FOREIGN;
        }
    }
    return false;
}

void sim_promises_entry(struct sim_promises *promises, uint64_t index,
                        const struct entry *command,
                        const struct origin *origin,
                        const struct effects *effects)
{
    char key[256];
    if (!key_of_entry(command, origin, key)) {
        return;
    }
    struct known *known = find(promises, key);
    if (known != NULL && known->client != NULL) {
        sim_fail(promises->sim, ORACLE_REFUSALS,
                 "a refusal is true: %s got %s for '%s', left it at that, and "
                 "entry %" PRIu64 " does it",
                 known->client, known->word, key, index);
        return;
    }
    known = known != NULL ? known : add(promises, key);
    known->entry = known->entry != 0 ? known->entry : index;
    if (known->done == 0 && !is_denied(effects)) {
        known->done = index;
    }
}

uint64_t sim_promises_entry_of(struct sim_promises *promises, uint64_t session,
                               uint64_t req)
{
    char key[256];
    put_key(key, 'n', session, req, bytes_of_text(""));
    const struct known *known = find(promises, key);
    return known != NULL ? known->entry : 0;
}

bool sim_promises_told(struct sim_promises *promises, const char *client,
                       const char *word, const struct sim_request *request,
                       bool leaves)
{
    char key[256];
    if (request->kind == 0) {
        return false;
    }
    put_key(key, request->kind, request->session, request->req,
            bytes_of_text(request->value));
    struct known *known = find(promises, key);
    if (known != NULL && (known->done != 0 || known->client != NULL)) {
        sim_fail(promises->sim, ORACLE_REFUSALS,
                 "a refusal is true: %s got %s for '%s', which entry %" PRIu64
                 " has done",
                 client, word, key, known->done);
        return false;
    }
    if (!leaves) {
        return false;
    }
    known = known != NULL ? known : add(promises, key);
    known->client = client;
    snprintf(known->word, sizeof known->word, "%s", word);
    promises->sim->stats.promises++;
    return true;
}
