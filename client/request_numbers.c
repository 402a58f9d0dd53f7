/* SPDX-License-Identifier: MIT */

/* Owner tags, request numbers, and which of them are over. */

#include "client/request_numbers.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"

void request_numbers_init(struct request_numbers *numbers)
{
    *numbers = (struct request_numbers){0};
    list_init(&numbers->owners);
}

void request_numbers_done(struct request_numbers *numbers)
{
    LIST_FOR_SAFE (struct owner, owner, &numbers->owners, in_numbers) {
        free(owner);
    }
    free(numbers->open);
}

bool owner_tag_is_good(const char *tag)
{
    return strlen(tag) < OWNER_TAG_SIZE && tag[0] != OWNER_PRIVATE_MARK;
}

static struct owner *request_numbers_find(struct request_numbers *numbers,
                                          const char *tag)
{
    LIST_FOR (struct owner, owner, &numbers->owners, in_numbers) {
        bool is_it = tag == NULL ? owner->is_private && owner->use_count == 0
                                 : strcmp(owner->tag, tag) == 0;
        if (is_it) {
            return owner;
        }
    }
    return NULL;
}

struct owner *owner_take(struct request_numbers *numbers, const char *tag)
{
    struct owner *owner = request_numbers_find(numbers, tag);
    if (owner == NULL) {
        owner = calloc(1, sizeof *owner);
        if (owner == NULL) {
            return NULL;
        }
        owner->is_private = tag == NULL;
        if (tag != NULL) {
            snprintf(owner->tag, sizeof owner->tag, "%s", tag);
        } else {
            snprintf(owner->tag, sizeof owner->tag, "%c%" PRIu64,
                     OWNER_PRIVATE_MARK, ++numbers->private_count);
        }
        list_push_front(&numbers->owners, &owner->in_numbers);
    }
    owner->use_count++;
    return owner;
}

void owner_put(struct owner *owner)
{
    owner->use_count--;
    if (owner->use_count == 0 && !owner->is_private) {
        list_remove(&owner->in_numbers);
        free(owner);
    }
}

/* Makes room for one more number, besides those that are promised. */
static int request_numbers_make_room(struct request_numbers *numbers)
{
    if (numbers->open_count + numbers->kept_count < numbers->open_room) {
        return 0;
    }
    uint32_t room = numbers->open_room == 0 ? 16 : 2 * numbers->open_room;
    uint64_t *open = realloc(numbers->open, room * sizeof *open);
    if (open == NULL) {
        return HASP_ENOMEM;
    }
    numbers->open = open;
    numbers->open_room = room;
    return 0;
}

int request_numbers_keep(struct request_numbers *numbers)
{
    int error = request_numbers_make_room(numbers);
    numbers->kept_count += error == 0;
    return error;
}

void request_numbers_give_back(struct request_numbers *numbers)
{
    CHECK(numbers->kept_count > 0);
    numbers->kept_count--;
}

int request_numbers_begin(struct request_numbers *numbers, uint64_t *ret_number)
{
    int error = request_numbers_make_room(numbers);
    if (error != 0) {
        return error;
    }
    *ret_number = ++numbers->newest;
    numbers->open[numbers->open_count++] = numbers->newest;
    return 0;
}

void request_numbers_end(struct request_numbers *numbers, uint64_t number)
{
    uint64_t *open = numbers->open;
    for (uint32_t i = 0; i < numbers->open_count; i++) {
        if (open[i] == number) {
            numbers->open_count--;
            memmove(&open[i], &open[i + 1],
                    (numbers->open_count - i) * sizeof *open);
            return;
        }
    }
}

/* Writes such as "4,6-9,11": all numbers up to the first, and the ranges
 * between open ones; of very many some, and the others with the next request.
 */
static void write_acked(struct request_numbers *numbers, char *out, size_t size)
{
    const uint64_t *open = numbers->open;
    uint32_t count = numbers->open_count, written = 0, i = 0;
    size_t used = (size_t)snprintf(out, size, "%" PRIu64, open[0] - 1);
    for (; i < count && written < ACKED_RANGE_MAX; i++) {
        uint32_t at = (numbers->acked_turn + i) % count;
        uint64_t from = open[at] + 1;
        uint64_t to = at + 1 < count ? open[at + 1] - 1 : numbers->newest;
        if (from <= to) {
            used += (size_t)snprintf(out + used, size - used,
                                     ",%" PRIu64 "-%" PRIu64, from, to);
            written++;
        }
    }
    numbers->acked_turn = i < count ? numbers->acked_turn + i : 0;
}

void request_numbers_write(struct request_numbers *numbers,
                           const struct owner *owner, uint64_t number,
                           struct query *query)
{
    char acked[24 + ACKED_RANGE_MAX * 42];
    write_acked(numbers, acked, sizeof acked);
    if (owner->tag[0] != '\0') {
        query_text(query, "OWNER");
        query_text(query, owner->tag);
    }
    query_text(query, "REQ");
    query_number(query, number);
    if (strcmp(acked, "0") != 0) {
        query_text(query, "ACKED");
        query_text(query, acked);
    }
}
