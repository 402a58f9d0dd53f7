/* SPDX-License-Identifier: MIT */

#include "base/codec.h"

#include "base/check.h"
#include "base/codec_straight.h"

static const void *member_of(const void *from, uint32_t offset)
{
    return (const char *)from + offset;
}

static uint32_t codec_count_of(const struct codec_field *field,
                               const void *from)
{
    return *(const uint32_t *)member_of(from, field->count_offset);
}

static const void *codec_array_of(const struct codec_field *field,
                                  const void *from)
{
    const void *at = member_of(from, field->offset);
    return field->is_inline ? at : *(const void *const *)at;
}

static const struct codec_message *
codec_part_of(const struct codec_field *field)
{
    return field->part();
}

/* The bytes of a field that is one run of bytes. */
static struct bytes bytes_in(const struct codec_field *field, const void *from)
{
    const void *at = member_of(from, field->offset);
    if (field->type == CODEC_TYPE_BYTES) {
        return *(const struct bytes *)at;
    }
    return codec_unless_zero(at, field->max);
}

/* --- Writing -------------------------------------------------------------- */

void codec_end_run(struct buffer *out, size_t start)
{
    uint8_t length[VARINT_SIZE_MAX];
    size_t size = out->size - start;
    if (size < 0x80) { /* The length fits in one byte. */
        out->data[start - 1] = (uint8_t)size;
        return;
    }
    size_t length_size = (size_t)(codec_store_varint(length, size) - length);
    buffer_reserve(out, length_size);
    memmove(out->data + start - 1 + length_size, out->data + start, size);
    memcpy(out->data + start - 1, length, length_size);
    out->size += length_size - 1;
}

void codec_put_numbers(struct buffer *out, uint32_t tag,
                       const uint64_t *numbers, size_t count)
{
    if (count == 0) {
        return;
    }
    size_t start = codec_begin_run(out, tag);
    for (size_t i = 0; i < count; i++) {
        uint8_t *at = buffer_reserve(out, VARINT_SIZE_MAX);
        out->size = (size_t)(codec_store_varint(at, numbers[i]) - out->data);
    }
    codec_end_run(out, start);
}

static void walk_put(struct buffer *out, const struct codec_message *message,
                     const void *from);

static void put_part(struct buffer *out, uint32_t tag,
                     const struct codec_message *message, const void *part)
{
    size_t start = codec_begin_run(out, tag);
    walk_put(out, message, part);
    codec_end_run(out, start);
}

static void put_array(struct buffer *out, const struct codec_field *field,
                      const void *from)
{
    const char *array = codec_array_of(field, from);
    for (uint32_t i = 0; i < codec_count_of(field, from); i++) {
        if (field->type == CODEC_TYPE_RUNS) {
            codec_put_run(out, field->tag,
                          ((const struct bytes *)(const void *)array)[i]);
        } else {
            put_part(out, field->tag, codec_part_of(field),
                     array + i * codec_part_of(field)->size);
        }
    }
}

static void codec_put_field(struct buffer *out, const struct codec_field *field,
                            const void *from)
{
    const void *at = member_of(from, field->offset);
    switch ((enum codec_type)field->type) {
    case CODEC_TYPE_U32:
        codec_put_number(out, field->tag, *(const uint32_t *)at);
        return;
    case CODEC_TYPE_U64:
        codec_put_number(out, field->tag, *(const uint64_t *)at);
        return;
    case CODEC_TYPE_BOOL:
        codec_put_number(out, field->tag, *(const bool *)at);
        return;
    case CODEC_TYPE_BYTES:
    case CODEC_TYPE_FIXED:
        codec_put_bytes(out, field->tag, bytes_in(field, from));
        return;
    case CODEC_TYPE_PART: {
        size_t before = out->size;
        size_t start = codec_begin_run(out, field->tag);
        walk_put(out, codec_part_of(field), at);
        if (out->size == start) {
            out->size = before;
        } else {
            codec_end_run(out, start);
        }
        return;
    }
    case CODEC_TYPE_NUMBERS:
        codec_put_numbers(out, field->tag, codec_array_of(field, from),
                          (size_t)codec_count_of(field, from) * field->unit);
        return;
    case CODEC_TYPE_RUNS:
    case CODEC_TYPE_PARTS:
        put_array(out, field, from);
        return;
    case CODEC_TYPE_LIST:
        LIST_EACH (node, (const struct list *)at) {
            put_part(out, field->tag, codec_part_of(field),
                     (const char *)node - field->node_offset);
        }
        return;
    case CODEC_TYPE_CHOICE:
        return; /* codec_put_choice() writes it. */
    }
    UNREACHABLE();
}

static void walk_put(struct buffer *out, const struct codec_message *message,
                     const void *from)
{
    for (size_t i = 0; i < message->field_count; i++) {
        codec_put_field(out, &message->fields[i], from);
    }
}

void codec_put(struct buffer *out, const struct codec_message *message,
               const void *from)
{
    if (message->straight->put != NULL) {
        message->straight->put(out, from, false);
    } else {
        walk_put(out, message, from);
    }
}

void codec_put_identity(struct buffer *out, const struct codec_message *message,
                        const void *from)
{
    if (message->straight->put != NULL) {
        message->straight->put(out, from, true);
        return;
    }
    for (size_t i = 0; i < message->field_count; i++) {
        if (!message->fields[i].may_vary) {
            codec_put_field(out, &message->fields[i], from);
        }
    }
}

void codec_put_choice(struct buffer *out, uint32_t tag,
                      const struct codec_message *message, const void *from)
{
    size_t start = codec_begin_run(out, tag);
    codec_put(out, message, from);
    codec_end_run(out, start);
}

/* --- Checking ------------------------------------------------------------- */

static bool is_within(const struct codec_field *field, uint64_t size)
{
    return field->max == 0 || size <= field->max;
}

static bool check_message(const struct codec_message *message, const void *from,
                          struct codec_level *level, bool *is_set);

/* Checks each part of an array. */
static bool check_parts(const struct codec_field *field, const void *from,
                        struct codec_level *level)
{
    const char *array = codec_array_of(field, from);
    bool is_set;
    for (uint32_t i = 0; i < codec_count_of(field, from); i++) {
        if (!check_message(codec_part_of(field),
                           array + i * codec_part_of(field)->size, level,
                           &is_set)) {
            return false;
        }
    }
    return true;
}

static bool check_list(const struct codec_field *field, const void *from,
                       struct codec_level *level)
{
    bool is_set;
    LIST_EACH (node, (const struct list *)member_of(from, field->offset)) {
        if (!check_message(codec_part_of(field),
                           (const char *)node - field->node_offset, level,
                           &is_set)) {
            return false;
        }
    }
    return true;
}

/* '*is_set' becomes true if codec_put() would write the field. */
static bool check_field(const struct codec_field *field, const void *from,
                        struct codec_level *level, bool *is_set)
{
    uint64_t size = 0;
    switch ((enum codec_type)field->type) {
    case CODEC_TYPE_U32:
        size = *(const uint32_t *)member_of(from, field->offset);
        break;
    case CODEC_TYPE_U64:
        size = *(const uint64_t *)member_of(from, field->offset);
        break;
    case CODEC_TYPE_BOOL:
        size = *(const bool *)member_of(from, field->offset);
        break;
    case CODEC_TYPE_BYTES:
    case CODEC_TYPE_FIXED:
        size = bytes_in(field, from).size;
        break;
    case CODEC_TYPE_NUMBERS:
    case CODEC_TYPE_RUNS:
    case CODEC_TYPE_PARTS:
    case CODEC_TYPE_LIST:
        size = codec_count_of(field, from);
        break;
    case CODEC_TYPE_PART:
        return check_message(codec_part_of(field),
                             member_of(from, field->offset), level, is_set);
    case CODEC_TYPE_CHOICE:
        break;
    }
    if (size == 0) {
        return true;
    }
    *is_set = true;
    if (!is_within(field, size)) {
        return false;
    }
    return field->type == CODEC_TYPE_PARTS  ? check_parts(field, from, level)
           : field->type == CODEC_TYPE_LIST ? check_list(field, from, level)
                                            : true;
}

static bool check_message(const struct codec_message *message, const void *from,
                          struct codec_level *level, bool *is_set)
{
    for (size_t i = 0; i < message->field_count; i++) {
        const struct codec_field *field = &message->fields[i];
        bool field_is_set = false;
        if (!check_field(field, from, level, &field_is_set)) {
            return false;
        }
        if (field_is_set) {
            codec_raise(level, field->level, field->what);
            *is_set = true;
        }
    }
    return true;
}

bool codec_check(const struct codec_message *message, const void *from,
                 struct codec_level *ret_level)
{
    bool is_set;
    *ret_level = (struct codec_level){0, ""};
    return message->straight->check != NULL
               ? message->straight->check(from, ret_level, &is_set)
               : check_message(message, from, ret_level, &is_set);
}

/* --- Reading -------------------------------------------------------------- */

static uint64_t get_long_varint(struct reader *reader)
{
    const uint8_t *at = reader->at;
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64 && at < reader->end; shift += 7) {
        uint8_t byte = *at++;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            if (shift == 63 && byte > 1) {
                break;
            }
            reader->at = at;
            return value;
        }
    }
    reader->is_bad = true;
    return 0;
}

/* Tags, lengths and most numbers fit in one byte. */
static inline uint64_t get_varint(struct reader *reader)
{
    if (reader->at < reader->end && *reader->at < 0x80) {
        return *reader->at++;
    }
    return get_long_varint(reader);
}

bool codec_next(struct reader *reader, struct codec_item *item)
{
    uint64_t last = item->tag;
    const uint8_t *at = reader->at;
    uint64_t key, value;
    if (reader_left(reader) >= 2 && (at[0] | at[1]) < 0x80) { /* Usual. */
        key = at[0];
        value = at[1];
        reader->at = at + 2;
    } else {
        key = get_varint(reader);
        value = get_varint(reader);
        if (!reader_ok(reader, false)) {
            return false;
        }
    }
    item->tag = key >> 3;
    item->wire = key & 7;
    item->number = value;
    item->position = item->tag == last ? item->position + 1 : 0;
    if (item->wire == WIRE_RUN) {
        if (value > reader_left(reader)) {
            return false;
        }
        item->run = bytes_of(reader->at, value);
        reader->at += value;
    }
    return item->tag != 0 && item->tag >= last &&
           (item->wire == WIRE_NUMBER || item->wire == WIRE_RUN);
}

/* Counts the following items with this tag; those after damage do not count. */
static uint64_t count_items(struct reader reader, uint64_t tag)
{
    struct codec_item item = {0};
    uint64_t count = 0;
    while (reader_left(&reader) > 0 && codec_next(&reader, &item) &&
           item.tag == tag) {
        count++;
    }
    return count;
}

static bool get_message(struct codec_reading *d, struct bytes in,
                        const struct codec_message *message, void *to);

static bool codec_get_number(const struct codec_field *field, uint64_t number,
                             void *at)
{
    if (field->max != 0 && number > field->max) {
        return false;
    }
    switch (field->type) {
    case CODEC_TYPE_U32:
        *(uint32_t *)at = (uint32_t)number;
        return number <= UINT32_MAX;
    case CODEC_TYPE_BOOL:
        *(bool *)at = number != 0;
        return number <= 1;
    default:
        *(uint64_t *)at = number;
        return true;
    }
}

static bool get_bytes(struct codec_reading *d, const struct codec_field *field,
                      struct bytes run, void *at)
{
    if (field->max != 0 && run.size > field->max) {
        return false;
    }
    *(struct bytes *)at = codec_keep(d, run);
    return true;
}

bool codec_get_numbers(struct codec_reading *reading, struct bytes run,
                       const struct codec_field *field, void *array,
                       uint32_t *count)
{
    struct reader reader = reader_of(run);
    size_t found = 0;
    for (size_t i = 0; i < run.size; i++) {
        found += run.data[i] < 0x80;
    }
    /* The sender chose the count: it is bounded before memory is taken. */
    if (found % field->unit != 0 || found > UINT32_MAX ||
        (field->max != 0 && found / field->unit > field->max)) {
        return false;
    }
    uint64_t *numbers = array;
    if (!field->is_inline && found > 0) {
        numbers = codec_take(reading, found * sizeof *numbers);
        *(uint64_t **)array = numbers;
    }
    for (size_t i = 0; i < found; i++) {
        numbers[i] = get_varint(&reader);
    }
    *count = (uint32_t)(found / field->unit);
    return reader_ok(&reader, true);
}

void *codec_get_element(struct codec_reading *reading,
                        const struct codec_field *field,
                        const struct codec_item *item, struct reader rest,
                        size_t size, void *array, uint32_t *count)
{
    if (item->position == 0 && !field->is_inline) {
        uint64_t more = count_items(rest, item->tag);
        /* The sender chose the count: it is bounded before memory is taken. */
        if (more >= UINT32_MAX || (field->max != 0 && more >= field->max)) {
            return NULL;
        }
        *(void **)array = codec_take(reading, (more + 1) * size);
    } else if (field->max != 0 && item->position >= field->max) {
        return NULL;
    }
    *count = (uint32_t)item->position + 1;
    return (field->is_inline ? (char *)array : *(char **)array) +
           item->position * size;
}

void *codec_get_list_element(struct codec_reading *reading,
                             const struct codec_field *field,
                             const struct codec_item *item, size_t size,
                             struct list *list, uint32_t *count)
{
    if (field->max != 0 && item->position >= field->max) {
        return NULL;
    }
    char *part = codec_take(reading, size);
    list_push_back(list, (struct list *)(void *)(part + field->node_offset));
    ++*count;
    return part;
}

/* Reads one more element of an array or a list. */
static bool get_element(struct codec_reading *d,
                        const struct codec_field *field,
                        const struct codec_item *item, struct reader rest,
                        void *to)
{
    void *at = (char *)to + field->offset;
    uint32_t *count = (uint32_t *)(void *)((char *)to + field->count_offset);
    if (field->type == CODEC_TYPE_RUNS) {
        struct bytes *run = codec_get_element(d, field, item, rest, sizeof *run,
                                              at, count);
        if (run == NULL) {
            return false;
        }
        *run = codec_keep(d, item->run);
        return true;
    }
    size_t size = codec_part_of(field)->size;
    void *part = field->type == CODEC_TYPE_LIST
                     ? codec_get_list_element(d, field, item, size, at, count)
                     : codec_get_element(d, field, item, rest, size, at, count);
    return part != NULL &&
           get_message(d, item->run, codec_part_of(field), part);
}

static bool get_choice(struct codec_reading *d, const struct codec_field *field,
                       const struct codec_item *item, void *to)
{
    uint32_t *choice = (uint32_t *)(void *)((char *)to + field->count_offset);
    if (*choice != 0) {
        return false;
    }
    *choice = field->tag;
    void *part = codec_take(d, codec_part_of(field)->size);
    *(void **)(void *)((char *)to + field->offset) = part;
    return get_message(d, item->run, codec_part_of(field), part);
}

/* Reads a field; 'rest' is what follows the item. */
static bool get_field(struct codec_reading *d, const struct codec_field *field,
                      const struct codec_item *item, struct reader rest,
                      void *to)
{
    void *at = (char *)to + field->offset;
    bool is_number = field->type <= CODEC_TYPE_BOOL;
    if (item->wire != (is_number ? WIRE_NUMBER : WIRE_RUN)) {
        return false;
    }
    codec_raise(d->level, field->level, field->what);
    switch ((enum codec_type)field->type) {
    case CODEC_TYPE_U32:
    case CODEC_TYPE_U64:
    case CODEC_TYPE_BOOL:
        return codec_get_number(field, item->number, at);
    case CODEC_TYPE_BYTES:
        return get_bytes(d, field, item->run, at);
    case CODEC_TYPE_FIXED:
        if (item->run.size != field->max) {
            return false;
        }
        memcpy(at, item->run.data, field->max);
        return true;
    case CODEC_TYPE_PART:
        return get_message(d, item->run, codec_part_of(field), at);
    case CODEC_TYPE_CHOICE:
        return get_choice(d, field, item, to);
    case CODEC_TYPE_NUMBERS:
        return codec_get_numbers(
            d, item->run, field, at,
            (uint32_t *)(void *)((char *)to + field->count_offset));
    case CODEC_TYPE_RUNS:
    case CODEC_TYPE_PARTS:
    case CODEC_TYPE_LIST:
        return get_element(d, field, item, rest, to);
    }
    UNREACHABLE();
}

static bool is_array(const struct codec_field *field)
{
    return field->type == CODEC_TYPE_RUNS || field->type == CODEC_TYPE_PARTS ||
           field->type == CODEC_TYPE_LIST;
}

/* The row of a tag, or NULL. Usually it is at the position that the tag names;
 * otherwise it is searched from the row after 'last' on. */
static const struct codec_field *find_row(const struct codec_message *message,
                                          const struct codec_field *last,
                                          uint64_t tag)
{
    size_t at = last != NULL ? (size_t)(last - message->fields) + 1 : 0;
    CHECK(tag > 0);
    if (tag <= message->field_count && message->fields[tag - 1].tag == tag) {
        return &message->fields[tag - 1];
    }
    for (size_t i = 0; i < message->field_count; i++, at++) {
        at = at < message->field_count ? at : 0;
        if (message->fields[at].tag == tag) {
            return &message->fields[at];
        }
    }
    return NULL;
}

static bool get_message(struct codec_reading *d, struct bytes in,
                        const struct codec_message *message, void *to)
{
    const struct codec_field *field = NULL;
    struct reader reader = reader_of(in);
    struct codec_item item = {0};
    while (reader_left(&reader) > 0) {
        if (!codec_next(&reader, &item)) {
            return false;
        }
        if (item.position == 0) {
            field = find_row(message, field, item.tag);
        }
        if (field == NULL) {
            codec_raise(d->level, CODEC_LEVEL_UNKNOWN, CODEC_UNKNOWN_WHAT);
        } else if ((item.position > 0 && !is_array(field)) ||
                   !get_field(d, field, &item, reader, to)) {
            return false;
        }
    }
    return true;
}

bool codec_get(struct bytes in, const struct codec_message *message, void *to,
               const struct codec_memory *memory, struct codec_level *ret_level)
{
    struct codec_reading reading = {memory, ret_level};
    *ret_level = (struct codec_level){0, ""};
    return message->straight->get != NULL
               ? message->straight->get(&reading, in, to)
               : get_message(&reading, in, message, to);
}
