/* SPDX-License-Identifier: MIT */

#include "core/redis/collection.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "core/redis/script_lex.h"

static const char *const type_names[] = {[KEY_TEXT] = "string",
                                         [KEY_HASH] = "hash",
                                         [KEY_LIST] = "list",
                                         [KEY_SET] = "set",
                                         [KEY_ZSET] = "zset"};

#define MARK 0x01

const char *key_type_name(enum key_type type)
{
    CHECK(type != KEY_ANY);
    CHECK((size_t)type < sizeof type_names / sizeof type_names[0]);
    return type_names[type];
}

enum key_type collection_type(struct bytes stored)
{
    if (stored.size > 0 && stored.data[0] == MARK) {
        struct bytes rest = bytes_of(stored.data + 1, stored.size - 1);
        for (enum key_type type = KEY_HASH; type <= KEY_ZSET; type++) {
            if (bytes_has_prefix(rest, bytes_of_text(type_names[type]))) {
                return type;
            }
        }
    }
    return KEY_TEXT;
}

/* --- Bytes ---------------------------------------------------------------- */

static int hex_digit(uint8_t c)
{
    return isdigit(c) ? c - '0' : isxdigit(c) ? tolower(c) - 'a' + 10 : -1;
}

static struct bytes collection_decoded(struct bytes text, struct arena *arena)
{
    if (text.size == 0 || memchr(text.data, '%', text.size) == NULL) {
        return text;
    }
    uint8_t *out = arena_take(arena, text.size);
    size_t size = 0;
    for (size_t i = 0; i < text.size; i++) {
        bool is_code = text.data[i] == '%' && i + 2 < text.size &&
                       hex_digit(text.data[i + 1]) >= 0 &&
                       hex_digit(text.data[i + 2]) >= 0;
        out[size++] = is_code ? (uint8_t)(hex_digit(text.data[i + 1]) * 16 +
                                          hex_digit(text.data[i + 2]))
                              : text.data[i];
        i += is_code ? 2 : 0;
    }
    /* A code has more bytes than the byte that it encodes. */
    CHECK(size <= text.size);
    return bytes_of(out, size);
}

static void put_encoded(struct buffer *out, struct bytes text, bool is_name)
{
    for (size_t i = 0; i < text.size; i++) {
        uint8_t c = text.data[i];
        if (c == '%' || c == '\n' || (is_name && c == '=')) {
            buffer_printf(out, "%%%02X", c);
        } else {
            buffer_put_u8(out, c);
        }
    }
}

/* Removes the next line, which begins with '\n', from '*rest'. */
static bool next_line(struct bytes *rest, struct bytes *ret_line)
{
    if (rest->size == 0) {
        return false;
    }
    const uint8_t *begin = rest->data + 1;
    const uint8_t *end = rest->data + rest->size;
    const uint8_t *stop = memchr(begin, '\n', (size_t)(end - begin));
    stop = stop != NULL ? stop : end;
    *ret_line = bytes_of(begin, (size_t)(stop - begin));
    *rest = bytes_of(stop, (size_t)(end - stop));
    return true;
}

struct collection collection_read(struct bytes stored, struct arena *arena)
{
    struct collection collection = {0};
    enum key_type type = collection_type(stored);
    struct bytes line;
    size_t mark_size = 1 + strlen(type_names[type]);
    if (type == KEY_TEXT) {
        return collection;
    }
    stored = bytes_of(stored.data + mark_size, stored.size - mark_size);
    while (next_line(&stored, &line)) {
        struct collection_member member = {.name = line};
        if (type == KEY_HASH || type == KEY_ZSET) {
            member.name = bytes_cut(&line, '=');
        }
        if (type == KEY_HASH) {
            member.value = collection_decoded(line, arena);
        } else if (type == KEY_ZSET) {
            (void)score_read(line, &member.score);
        }
        member.name = collection_decoded(member.name, arena);
        collection_insert(&collection, arena, collection.count, &member);
    }
    return collection;
}

bool score_read(struct bytes text, double *ret_score)
{
    double score;
    if (!text_to_number(text, &score) || isnan(score)) {
        return false;
    }
    *ret_score = score;
    return true;
}

struct bytes score_text(double score, char out[SCORE_TEXT_SIZE])
{
    int size = isinf(score)
                   ? snprintf(out, SCORE_TEXT_SIZE, score > 0 ? "inf" : "-inf")
                   : snprintf(out, SCORE_TEXT_SIZE, "%.17g", score);
    CHECK(size > 0 && size < SCORE_TEXT_SIZE);
    return bytes_of(out, (size_t)size);
}

bool collection_write(enum key_type type, const struct collection *collection,
                      size_t max, struct arena *arena, struct bytes *ret_stored)
{
    struct buffer out = {0};
    char text[SCORE_TEXT_SIZE];
    CHECK(type != KEY_TEXT); /* A string has neither a mark nor members. */
    buffer_put_u8(&out, MARK);
    buffer_put_text(&out, type_names[type]);
    for (uint32_t i = 0; i < collection->count; i++) {
        const struct collection_member *member = &collection->member[i];
        /* Encoding never shortens. */
        if (out.size + member->name.size + member->value.size > max) {
            buffer_done(&out);
            return false;
        }
        buffer_put_u8(&out, '\n');
        put_encoded(&out, member->name, true);
        if (type == KEY_HASH) {
            buffer_put_u8(&out, '=');
            put_encoded(&out, member->value, false);
        } else if (type == KEY_ZSET) {
            buffer_put_u8(&out, '=');
            buffer_put_bytes(&out, score_text(member->score, text));
        }
    }
    bool has_room = out.size <= max;
    if (has_room) {
        *ret_stored = arena_copy(arena, buffer_bytes(&out));
    }
    buffer_done(&out);
    return has_room;
}

/* --- Members -------------------------------------------------------------- */

uint32_t collection_find(const struct collection *collection, struct bytes name)
{
    uint32_t i = 0;
    while (i < collection->count &&
           !bytes_equal(collection->member[i].name, name)) {
        i++;
    }
    return i;
}

uint32_t collection_place(const struct collection *collection,
                          struct bytes name, double score)
{
    uint32_t i = 0;
    while (i < collection->count &&
           (collection->member[i].score < score ||
            (collection->member[i].score == score &&
             bytes_compare(collection->member[i].name, name) < 0))) {
        i++;
    }
    return i;
}

void collection_insert(struct collection *collection, struct arena *arena,
                       uint32_t place, const struct collection_member *member)
{
    CHECK(place <= collection->count);
    if (collection->count == collection->capacity) {
        uint32_t capacity = collection->capacity == 0
                                ? 8
                                : 2 * collection->capacity;
        struct collection_member *members = arena_take(
            arena, capacity * sizeof *members);
        /* memcpy() from NULL is undefined even for 0 bytes. */
        if (collection->count > 0) {
            memcpy(members, collection->member,
                   collection->count * sizeof *members);
        }
        collection->member = members;
        collection->capacity = capacity;
    }
    CHECK(collection->count < collection->capacity);
    struct collection_member *at = &collection->member[place];
    memmove(at + 1, at, (collection->count - place) * sizeof *at);
    *at = *member;
    collection->count++;
}

void collection_remove(struct collection *collection, uint32_t place,
                       uint32_t count)
{
    CHECK(place <= collection->count && count <= collection->count - place);
    if (count > 0) {
        struct collection_member *at = &collection->member[place];
        memmove(at, at + count,
                (collection->count - place - count) * sizeof *at);
        collection->count -= count;
    }
}
