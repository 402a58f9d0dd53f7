/* SPDX-License-Identifier: MIT */

/* Fences: the highest token that was admitted for a resource. They outlive all
 * sessions, and a new epoch of the cluster. */

#include "lockfsm/lock/lock.h"
#include "lockfsm/store/store.h"
#include "lockfsm/user/user.h"

struct fence *fence_find(const struct lockfsm *fsm, struct bytes resource)
{
    struct fence *fence = NULL;
    HASH_FIND(by_resource, fsm->fences, resource.data, resource.size, fence);
    return fence;
}

struct fence *fence_new(struct lockfsm *fsm, struct bytes resource)
{
    CHECK_SLOW(fence_find(fsm, resource) == NULL);
    struct fence *fence = pool_take(&fsm->pool, sizeof *fence);
    fence->resource = pool_copy(&fsm->pool, resource);
    stored_init(&fence->stored, RECORD_FENCE);
    HASH_ADD_KEYPTR(by_resource, fsm->fences, fence->resource.data,
                    fence->resource.size, fence);
    treap_add(&fsm->fence_order, &fence->in_order, fence->resource, 0);
    return fence;
}

static void fence_free(struct lockfsm *fsm, struct fence *fence)
{
    record_gone(fsm, &fence->stored);
    payers_count(fsm, &fence->stored, fence->resource, user_gives);
    HASH_DELETE(by_resource, fsm->fences, fence);
    treap_remove(&fsm->fence_order, &fence->in_order);
    pool_drop(&fsm->pool, &fence->resource);
    structure_free(fsm, &fence->stored);
}

/* True if the number is in the range of tokens. A resource may be fenced with
 * small numbers of its own instead. */
static bool is_token(uint64_t token)
{
    return token >= TOKEN_BASE_MIN;
}

bool fence_may_have(uint64_t token, uint64_t newest)
{
    return !is_token(token) || token <= newest;
}

/* A token of an earlier epoch that holds of durable sessions have. */
struct former_token {
    UT_hash_handle by_token;
    uint64_t token;
    uint64_t count;
};

static struct former_token *former_find(const struct lockfsm *fsm,
                                        uint64_t token)
{
    struct former_token *former = NULL;
    HASH_FIND(by_token, fsm->former, &token, sizeof token, former);
    return former;
}

bool hold_is_former(const struct lockfsm *fsm, const struct hold *hold)
{
    return hold->session->is_durable && is_token(hold->token) &&
           hold->token < fsm->epoch.token_base;
}

void former_takes(struct lockfsm *fsm, const struct hold *hold)
{
    if (!hold_is_former(fsm, hold)) {
        return;
    }
    struct former_token *former = former_find(fsm, hold->token);
    if (former == NULL) {
        former = pool_take(&fsm->pool, sizeof *former);
        former->token = hold->token;
        HASH_ADD(by_token, fsm->former, token, sizeof former->token, former);
    }
    former->count++;
}

void former_gives(struct lockfsm *fsm, const struct hold *hold)
{
    if (!hold_is_former(fsm, hold)) {
        return;
    }
    struct former_token *former = former_find(fsm, hold->token);
    CHECK(former != NULL && former->count > 0);
    if (--former->count == 0) {
        HASH_DELETE(by_token, fsm->former, former);
        pool_give(&fsm->pool, former, sizeof *former);
    }
}

void former_recount(struct lockfsm *fsm)
{
    HASH_FOR_SAFE (struct former_token, former, fsm->former, by_token) {
        HASH_DELETE(by_token, fsm->former, former);
        pool_give(&fsm->pool, former, sizeof *former);
    }
    HASH_FOR (const struct lock, lock, fsm->locks, by_name) {
        LIST_FOR (const struct hold, hold, &lock->holds, in_lock) {
            former_takes(fsm, hold);
        }
    }
}

void former_done(struct lockfsm *fsm)
{
    HASH_CLEAR(by_token, fsm->former);
}

uint64_t former_count(const struct lockfsm *fsm, uint64_t token)
{
    const struct former_token *former = former_find(fsm, token);
    return former != NULL ? former->count : 0;
}

uint64_t former_sum(const struct lockfsm *fsm)
{
    uint64_t sum = 0;
    HASH_FOR (const struct former_token, former, fsm->former, by_token) {
        sum += former->count;
    }
    return sum;
}

/* Rule 21: such tokens are below token_base. Unless their hold still exists,
 * because a restore keeps those of durable sessions, they are never admitted
 * again, even if the restored fence does not remember their successors. */
static bool is_of_former_life(const struct lockfsm *fsm, uint64_t token)
{
    return is_token(token) && token < fsm->epoch.token_base &&
           former_count(fsm, token) == 0;
}

void apply_fence_admit(struct lockfsm *fsm, const struct entry *command,
                       struct result *result)
{
    const struct fence_admit_command *message = command->fence_admit;
    struct bytes resource = message->resource;
    if (!name_is_valid(resource)) {
        entry_refuse(result, RESULT_BAD_ARGUMENT, "resource");
        return;
    }
    /* Otherwise any client could close the fence for all tokens to come. */
    if (message->token > TOKEN_MAX ||
        !fence_may_have(message->token, new_token(fsm))) {
        entry_refuse(result, RESULT_BAD_ARGUMENT,
                     "the token was never granted");
        return;
    }
    struct fence *fence = fence_find(fsm, resource);
    uint64_t highest = fence != NULL ? fence->token : 0;
    result->token = highest;
    if (message->token < highest || is_of_former_life(fsm, message->token)) {
        return;
    }
    if (fence == NULL) {
        if (HASH_CNT(by_resource, fsm->fences) >=
            fsm->limits.of[LIMIT_FENCES]) {
            entry_refuse(result, RESULT_LIMIT, "fences");
            return;
        }
        struct quota more = {{[QUOTA_BYTES] = left_bytes(resource, 0)}};
        if (growth_is_refused(fsm, 1, resource.size, result) ||
            user_growth_is_refused(fsm, &more, result)) {
            return;
        }
        fence = fence_new(fsm, resource);
        fence->user = command->user;
        payers_count(fsm, &fence->stored, resource, user_takes);
        record_changed(fsm, &fence->stored);
    }
    if (message->token > highest) {
        fence->token = message->token;
        record_changed(fsm, &fence->stored);
    }
    CHECK(fence->token == message->token); /* No higher one was admitted. */
    result->token = message->token;
    result->count = 1;
}

void apply_fence_remove(struct lockfsm *fsm, const struct entry *command,
                        struct result *result)
{
    struct bytes resource = command->fence_remove->resource;
    struct fence *fence = fence_find(fsm, resource);
    if (fence != NULL) {
        fence_free(fsm, fence);
        result->count = 1;
    }
}
