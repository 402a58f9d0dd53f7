/* SPDX-License-Identifier: MIT */

/* Stored results as structures: created, found, answered, dropped. dedup.c
 * explains their use. */

#include "lockfsm/lock/lock.h"
#include "lockfsm/session/session.h"
#include "lockfsm/store/store.h"
#include "lockfsm/user/user.h"

struct kept_result *result_cache_find(const struct lockfsm *fsm,
                                      uint64_t session, uint64_t req)
{
    struct holder_place *place = holder_index_find(
        &fsm->places,
        &(struct place_key){PLACE_RESULT, req, session, {NULL, 0}});
    return place == NULL ? NULL : LIST_ENTRY(place, struct kept_result, place);
}

struct kept_result *result_cache_add(struct lockfsm *fsm,
                                     struct numbers *numbers, uint64_t req)
{
    CHECK(req != 0);
    CHECK_SLOW(result_cache_find(fsm, numbers->session->id, req) == NULL);
    struct kept_result *kept = pool_take(&fsm->pool, sizeof *kept);
    kept->numbers = numbers;
    kept->req = req;
    list_init(&kept->in_order);
    stored_init(&kept->stored, RECORD_RESULT);
    holder_index_add(&fsm->places, &kept->place,
                     &(struct place_key){
                         PLACE_RESULT, req, numbers->session->id, {NULL, 0}});
    numbers->session->result_count++;
    return kept;
}

static struct user *user_of(const struct kept_result *kept)
{
    return kept->numbers->session->user;
}

void result_cache_link(struct kept_result *kept)
{
    CHECK((kept->waiter != NULL) == (kept->wait_index != 0));
    user_takes(user_of(kept), QUOTA_BYTES, kept_bytes(kept));
    if (kept->waiter != NULL) {
        list_push_back(&kept->waiter->waiting, &kept->in_order);
        kept->waiter->waiting_count++;
    } else {
        list_push_back(&kept->numbers->answered, &kept->in_order);
        kept->numbers->answered_count++;
    }
}

static void unlink_kept(struct kept_result *kept)
{
    user_gives(user_of(kept), QUOTA_BYTES, kept_bytes(kept));
    list_remove(&kept->in_order);
    if (kept->waiter != NULL) {
        CHECK(kept->waiter->waiting_count > 0);
        kept->waiter->waiting_count--;
        kept->waiter = NULL;
    } else {
        CHECK(kept->numbers->answered_count > 0);
        kept->numbers->answered_count--;
    }
}

void result_cache_drop(struct lockfsm *fsm, struct kept_result *kept)
{
    record_gone(fsm, &kept->stored);
    unlink_kept(kept);
    holder_index_remove(&fsm->places, &kept->place);
    CHECK(kept->numbers->session->result_count > 0);
    kept->numbers->session->result_count--;
    if (kept->token_count > 1) {
        struct bytes tokens = bytes_of(kept->tokens,
                                       kept->token_count * sizeof(uint64_t));
        pool_drop(&fsm->pool, &tokens);
    }
    pool_drop(&fsm->pool, &kept->text);
    pool_give(&fsm->pool, kept, sizeof *kept);
}

/* Fills in a stored result that has none yet. */
static void result_cache_fill(struct lockfsm *fsm, struct kept_result *kept,
                              const struct result *result)
{
    CHECK(kept->tokens == NULL);
    CHECK(kept->text.size == 0);
    kept->code = result->code;
    kept->token = result->token;
    kept->count = result->count;
    kept->text = pool_copy(&fsm->pool, result->text);
    kept->token_count = result->token_count;
    if (result->token_count > 1) {
        struct bytes tokens = bytes_of(result->tokens,
                                       result->token_count * sizeof(uint64_t));
        kept->tokens = (uint64_t *)pool_copy(&fsm->pool, tokens).data;
    } else if (result->token_count == 1) {
        kept->tokens = &kept->token;
    }
}

void result_cache_answer(struct lockfsm *fsm, struct kept_result *kept,
                         const struct result *result)
{
    struct numbers *numbers = kept->numbers;
    CHECK(kept->waiter == NULL && result->code != RESULT_QUEUED);
    result_cache_fill(fsm, kept, result);
    kept->wait_index = 0;
    kept->serial = ++fsm->next_serial;
    result_cache_link(kept);
    record_changed(fsm, &kept->stored);
    if (numbers->answered_count > ANSWERED_COUNT_MAX) {
        result_cache_drop(
            fsm, LIST_FIRST(&numbers->answered, struct kept_result, in_order));
    }
}

void result_cache_finish(struct lockfsm *fsm, struct waiter *waiter,
                         uint64_t wait_index, const struct result *result)
{
    LIST_FOR_SAFE (struct kept_result, kept, &waiter->waiting, in_order) {
        if (kept->wait_index == wait_index) {
            unlink_kept(kept);
            result_cache_answer(fsm, kept, result);
        }
    }
}

void result_cache_result_of(const struct kept_result *kept,
                            struct result *ret_result)
{
    *ret_result = (struct result){.code = kept->code,
                                  .token = kept->token,
                                  .count = kept->count,
                                  .tokens = kept->tokens,
                                  .token_count = kept->token_count,
                                  .text = kept->text};
}
