/* SPDX-License-Identifier: MIT */

/* The numbers that a session has spent, as ranges. A client counts upwards, so
 * there is usually one range; a gap is a request that is still in flight, or
 * that was never sent. */

#include "base/minmax.h"
#include "lockfsm/session/session.h"
#include "lockfsm/store/store.h"
#include "lockfsm/user/user.h"

#define ROOM_FIRST 1

struct numbers *request_ids_obtain(struct lockfsm *fsm, struct session *session)
{
    struct numbers *numbers = session->numbers;
    if (numbers == NULL) {
        numbers = pool_take(&fsm->pool, sizeof *numbers);
        numbers->session = session;
        list_init(&numbers->answered);
        stored_init(&numbers->stored, RECORD_NUMBERS);
        session->numbers = numbers;
    }
    return numbers;
}

static size_t size_of(uint32_t room)
{
    return room * 2 * sizeof(uint64_t);
}

void request_ids_free(struct lockfsm *fsm, struct numbers *numbers)
{
    while (!list_is_empty(&numbers->answered)) {
        result_cache_drop(
            fsm, LIST_FIRST(&numbers->answered, struct kept_result, in_order));
    }
    CHECK(numbers->session->result_count == 0);
    CHECK(fsm->uses.spent_ranges >= numbers->spent_count);
    record_gone(fsm, &numbers->stored);
    user_gives(numbers->session->user, QUOTA_BYTES, numbers_bytes(numbers));
    fsm->uses.spent_ranges -= numbers->spent_count;
    pool_give(&fsm->pool, numbers->spent, size_of(numbers->spent_room));
    numbers->session->numbers = NULL;
    pool_give(&fsm->pool, numbers, sizeof *numbers);
}

/* Finds the first range that ends at 'number' or above, from the end: most
 * requests have the newest numbers. */
static uint32_t request_ids_find(const struct numbers *numbers, uint64_t number)
{
    uint32_t at = numbers->spent_count;
    while (at > 0 && numbers->spent[2 * at - 1] >= number) {
        at--;
    }
    return at;
}

bool request_ids_has(const struct numbers *numbers, uint64_t number)
{
    uint32_t at = request_ids_find(numbers, number);
    return at < numbers->spent_count && numbers->spent[2 * at] <= number;
}

/* Makes room for one more range. */
static void request_ids_grow(struct lockfsm *fsm, struct numbers *numbers)
{
    if (numbers->spent_count < numbers->spent_room) {
        return;
    }
    uint32_t room = numbers->spent_room == 0 ? ROOM_FIRST
                                             : 2 * numbers->spent_room;
    uint64_t *spent = pool_take(&fsm->pool, size_of(room));
    if (numbers->spent_count > 0) {
        memcpy(spent, numbers->spent, size_of(numbers->spent_count));
    }
    pool_give(&fsm->pool, numbers->spent, size_of(numbers->spent_room));
    numbers->spent = spent;
    numbers->spent_room = room;
}

/* Moves the ranges from 'at' on by one, up or down. */
static void request_ids_move(struct numbers *numbers, uint32_t at, int by)
{
    CHECK(at <= numbers->spent_count && (by > 0 || at > 0));
    memmove(&numbers->spent[2 * (at + (uint32_t)by)], &numbers->spent[2 * at],
            size_of(numbers->spent_count - at));
    numbers->spent_count += (uint32_t)by;
}

/* Adds a range, and joins it with those that it touches. */
static void add_range(struct lockfsm *fsm, struct numbers *numbers,
                      uint64_t from, uint64_t to, uint32_t at)
{
    uint64_t *range = &numbers->spent[2 * at];
    if (at == numbers->spent_count || (to < UINT64_MAX && range[0] > to + 1)) {
        request_ids_grow(fsm, numbers);
        request_ids_move(numbers, at, 1);
        numbers->spent[2 * at] = from;
        numbers->spent[2 * at + 1] = to;
    } else {
        range[0] = u64_min(range[0], from);
        range[1] = u64_max(range[1], to);
        while (at + 1 < numbers->spent_count &&
               (range[1] == UINT64_MAX || range[2] <= range[1] + 1)) {
            range[1] = u64_max(range[1], range[3]);
            request_ids_move(numbers, at + 2, -1);
        }
    }
    /* Joining the two lowest ranges marks the numbers between them as used: a
     * number may be refused wrongly, but never executed twice (rule 20). */
    if (numbers->spent_count > SPENT_RANGE_MAX) {
        numbers->spent[2] = numbers->spent[0];
        request_ids_move(numbers, 1, -1);
    }
    CHECK(numbers->spent_count > 0 && numbers->spent_count <= SPENT_RANGE_MAX);
}

void request_ids_spend(struct lockfsm *fsm, struct numbers *numbers,
                       uint64_t from, uint64_t to)
{
    struct user *user = numbers->session->user;
    if (from == 0 || from > to) {
        return;
    }
    /* The first range that touches the new one, or is above it. */
    uint32_t at = request_ids_find(numbers, from - 1);
    const uint64_t *range = &numbers->spent[2 * at];
    if (at < numbers->spent_count && range[0] <= from && range[1] >= to) {
        return;
    }
    CHECK(fsm->uses.spent_ranges >= numbers->spent_count);
    fsm->uses.spent_ranges -= numbers->spent_count;
    user_gives(user, QUOTA_BYTES, numbers_bytes(numbers));
    add_range(fsm, numbers, from, to, at);
    CHECK_SLOW(request_ids_has(numbers, from) && request_ids_has(numbers, to));
    fsm->uses.spent_ranges += numbers->spent_count;
    user_takes(user, QUOTA_BYTES, numbers_bytes(numbers));
    record_changed(fsm, &numbers->stored);
}
