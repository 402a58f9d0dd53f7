/* SPDX-License-Identifier: MIT */

#include "base/codec.h"

#include "base/check.h"
#include "base/list.h"

enum { WIRE_NUMBER = 0, WIRE_RUN = 2 };

#define VARINT_SIZE_MAX 10

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
    const uint8_t *data = at;
    for (size_t i = 0; i < field->max; i++) {
        if (data[i] != 0) {
            return bytes_of(data, field->max);
        }
    }
    return (struct bytes){NULL, 0};
}

/* --- Writing -------------------------------------------------------------- */

static inline uint8_t *store_varint(uint8_t *at, uint64_t value)
{
    for (; value >= 0x80; value >>= 7) {
        *at++ = (uint8_t)(value | 0x80);
    }
    *at++ = (uint8_t)value;
    return at;
}

static void put_varint(struct buffer *out, uint64_t value)
{
    uint8_t *at = buffer_reserve(out, VARINT_SIZE_MAX);
    out->size = (size_t)(store_varint(at, value) - out->data);
}

/* Writes the head of an item: its tag and kind, and a number or a length. */
static void put_head(struct buffer *out, uint32_t tag, unsigned wire,
                     uint64_t value)
{
    uint8_t *at = buffer_reserve(out, (size_t)2 * VARINT_SIZE_MAX);
    at = store_varint(at, (uint64_t)tag << 3 | wire);
    out->size = (size_t)(store_varint(at, value) - out->data);
}

static inline void put_number(struct buffer *out, uint32_t tag, uint64_t number)
{
    if (number != 0) {
        put_head(out, tag, WIRE_NUMBER, number);
    }
}

static void put_run(struct buffer *out, const struct codec_field *field,
                    struct bytes bytes)
{
    put_head(out, field->tag, WIRE_RUN, bytes.size);
    buffer_put_bytes(out, bytes);
}

/* Begins a run; end_run() writes its length in front. */
static size_t begin_run(struct buffer *out, uint32_t tag)
{
    put_head(out, tag, WIRE_RUN, 0);
    return out->size;
}

static void end_run(struct buffer *out, size_t start)
{
    uint8_t length[VARINT_SIZE_MAX];
    size_t size = out->size - start;
    if (size < 0x80) { /* The length fits in one byte. */
        out->data[start - 1] = (uint8_t)size;
        return;
    }
    size_t length_size = (size_t)(store_varint(length, size) - length);
    buffer_reserve(out, length_size);
    memmove(out->data + start - 1 + length_size, out->data + start, size);
    memcpy(out->data + start - 1, length, length_size);
    out->size += length_size - 1;
}

static void put_part(struct buffer *out, uint32_t tag,
                     const struct codec_message *message, const void *part)
{
    size_t start = begin_run(out, tag);
    codec_put(out, message, part);
    end_run(out, start);
}

static void put_numbers(struct buffer *out, const struct codec_field *field,
                        const void *from)
{
    const uint64_t *numbers = codec_array_of(field, from);
    size_t count = (size_t)codec_count_of(field, from) * field->unit;
    if (count == 0) {
        return;
    }
    size_t start = begin_run(out, field->tag);
    for (size_t i = 0; i < count; i++) {
        put_varint(out, numbers[i]);
    }
    end_run(out, start);
}

static void put_array(struct buffer *out, const struct codec_field *field,
                      const void *from)
{
    const char *array = codec_array_of(field, from);
    for (uint32_t i = 0; i < codec_count_of(field, from); i++) {
        if (field->type == CODEC_TYPE_RUNS) {
            put_run(out, field, ((const struct bytes *)(const void *)array)[i]);
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
    struct bytes bytes;
    switch ((enum codec_type)field->type) {
    case CODEC_TYPE_U32:
        put_number(out, field->tag, *(const uint32_t *)at);
        return;
    case CODEC_TYPE_U64:
        put_number(out, field->tag, *(const uint64_t *)at);
        return;
    case CODEC_TYPE_BOOL:
        put_number(out, field->tag, *(const bool *)at);
        return;
    case CODEC_TYPE_BYTES:
    case CODEC_TYPE_FIXED:
        bytes = bytes_in(field, from);
        if (bytes.size > 0) {
            put_run(out, field, bytes);
        }
        return;
    case CODEC_TYPE_PART: {
        size_t before = out->size;
        size_t start = begin_run(out, field->tag);
        codec_put(out, codec_part_of(field), at);
        if (out->size == start) {
            out->size = before;
        } else {
            end_run(out, start);
        }
        return;
    }
    case CODEC_TYPE_NUMBERS:
        put_numbers(out, field, from);
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

void codec_put(struct buffer *out, const struct codec_message *message,
               const void *from)
{
    for (size_t i = 0; i < message->field_count; i++) {
        codec_put_field(out, &message->fields[i], from);
    }
}

void codec_put_identity(struct buffer *out, const struct codec_message *message,
                        const void *from)
{
    for (size_t i = 0; i < message->field_count; i++) {
        if (!message->fields[i].may_vary) {
            codec_put_field(out, &message->fields[i], from);
        }
    }
}

void codec_put_choice(struct buffer *out, uint32_t tag,
                      const struct codec_message *message, const void *from)
{
    put_part(out, tag, message, from);
}

/* --- Checking ------------------------------------------------------------- */

static void codec_raise(struct codec_level *level, uint32_t to,
                        const char *what)
{
    if (to > level->level) {
        *level = (struct codec_level){to, what};
    }
}

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
    return check_message(message, from, ret_level, &is_set);
}

/* --- Reading -------------------------------------------------------------- */

struct decoding {
    const struct codec_memory *memory;
    struct codec_level *level;
};

/* One item of the input. */
struct item {
    uint64_t tag;
    unsigned wire;
    uint64_t number;   /* WIRE_NUMBER */
    struct bytes run;  /* WIRE_RUN */
    uint64_t position; /* Its position among the items with the same tag. */
};

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

static bool get_item(struct reader *reader, struct item *item)
{
    uint64_t key = get_varint(reader);
    uint64_t value = get_varint(reader);
    item->tag = key >> 3;
    item->wire = key & 7;
    item->number = value;
    if (item->wire == WIRE_RUN) {
        if (value > reader_left(reader)) {
            return false;
        }
        item->run = reader_bytes(reader, value);
    }
    return reader_ok(reader, false) && item->tag != 0 &&
           (item->wire == WIRE_NUMBER || item->wire == WIRE_RUN);
}

/* Counts the following items with this tag; those after damage do not count. */
static uint64_t count_items(struct reader reader, uint64_t tag)
{
    struct item item;
    uint64_t count = 0;
    while (reader_left(&reader) > 0 && get_item(&reader, &item) &&
           item.tag == tag) {
        count++;
    }
    return count;
}

static bool get_message(struct decoding *d, struct bytes in,
                        const struct codec_message *message, void *to);

static struct bytes codec_keep(const struct decoding *d, struct bytes bytes)
{
    return d->memory->copy != NULL ? d->memory->copy(d->memory->data, bytes)
                                   : bytes;
}

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

static bool get_bytes(struct decoding *d, const struct codec_field *field,
                      struct bytes run, void *at)
{
    if (field->max != 0 && run.size > field->max) {
        return false;
    }
    *(struct bytes *)at = codec_keep(d, run);
    return true;
}

static bool get_numbers(struct decoding *d, const struct codec_field *field,
                        struct bytes run, void *to)
{
    struct reader reader = reader_of(run);
    void *at = (char *)to + field->offset;
    size_t count = 0;
    for (size_t i = 0; i < run.size; i++) {
        count += run.data[i] < 0x80;
    }
    /* The sender chose the count: it is bounded before memory is taken. */
    if (count % field->unit != 0 || count > UINT32_MAX ||
        (field->max != 0 && count / field->unit > field->max)) {
        return false;
    }
    uint64_t *numbers = at;
    if (!field->is_inline && count > 0) {
        numbers = d->memory->take(d->memory->data, count * sizeof *numbers);
        *(uint64_t **)at = numbers;
    }
    for (size_t i = 0; i < count; i++) {
        numbers[i] = get_varint(&reader);
    }
    *(uint32_t *)((char *)to +
                  field->count_offset) = (uint32_t)(count / field->unit);
    return reader_ok(&reader, true);
}

/* Reads one more element of an array; the first one also allocates the memory
 * for the 'more' that follow. */
static bool get_element(struct decoding *d, const struct codec_field *field,
                        const struct item *item, uint64_t more, void *to)
{
    bool is_runs = field->type == CODEC_TYPE_RUNS;
    size_t size = is_runs ? sizeof(struct bytes) : codec_part_of(field)->size;
    void *at = (char *)to + field->offset;
    uint32_t *count = (uint32_t *)(void *)((char *)to + field->count_offset);
    if (item->position == 0 && !field->is_inline) {
        /* The sender chose the count: it is bounded before memory is taken. */
        if (more >= UINT32_MAX || (field->max != 0 && more >= field->max)) {
            return false;
        }
        *(void **)at = d->memory->take(d->memory->data, (more + 1) * size);
    } else if (field->max != 0 && item->position >= field->max) {
        return false;
    }
    char *array = field->is_inline ? at : *(char **)at;
    void *element = array + item->position * size;
    *count = (uint32_t)item->position + 1;
    if (is_runs) {
        *(struct bytes *)element = codec_keep(d, item->run);
        return true;
    }
    return get_message(d, item->run, codec_part_of(field), element);
}

static bool get_list_element(struct decoding *d,
                             const struct codec_field *field,
                             const struct item *item, void *to)
{
    if (field->max != 0 && item->position >= field->max) {
        return false;
    }
    char *part = d->memory->take(d->memory->data, codec_part_of(field)->size);
    list_push_back((struct list *)(void *)((char *)to + field->offset),
                   (struct list *)(void *)(part + field->node_offset));
    ++*(uint32_t *)(void *)((char *)to + field->count_offset);
    return get_message(d, item->run, codec_part_of(field), part);
}

static bool get_choice(struct decoding *d, const struct codec_field *field,
                       const struct item *item, void *to)
{
    uint32_t *choice = (uint32_t *)(void *)((char *)to + field->count_offset);
    if (*choice != 0) {
        return false;
    }
    *choice = field->tag;
    void *part = d->memory->take(d->memory->data, codec_part_of(field)->size);
    *(void **)(void *)((char *)to + field->offset) = part;
    return get_message(d, item->run, codec_part_of(field), part);
}

/* Reads a field; 'rest' is what follows the item. */
static bool get_field(struct decoding *d, const struct codec_field *field,
                      const struct item *item, struct reader rest, void *to)
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
        return get_numbers(d, field, item->run, to);
    case CODEC_TYPE_RUNS:
    case CODEC_TYPE_PARTS:
        return get_element(
            d, field, item,
            item->position == 0 ? count_items(rest, item->tag) : 0, to);
    case CODEC_TYPE_LIST:
        return get_list_element(d, field, item, to);
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

static bool get_message(struct decoding *d, struct bytes in,
                        const struct codec_message *message, void *to)
{
    const struct codec_field *field = NULL;
    struct reader reader = reader_of(in);
    struct item item = {0};
    uint64_t last = 0;
    while (reader_left(&reader) > 0) {
        /* Ascending tags: equal structures have equal bytes. */
        if (!get_item(&reader, &item) || item.tag < last) {
            return false;
        }
        if (item.tag != last) {
            field = find_row(message, field, item.tag);
        }
        if (field == NULL) {
            codec_raise(d->level, CODEC_LEVEL_UNKNOWN,
                        "what this version does not know");
            last = item.tag;
            continue;
        }
        item.position = item.tag == last ? item.position + 1 : 0;
        last = item.tag;
        if ((item.position > 0 && !is_array(field)) ||
            !get_field(d, field, &item, reader, to)) {
            return false;
        }
    }
    return true;
}

bool codec_get(struct bytes in, const struct codec_message *message, void *to,
               const struct codec_memory *memory, struct codec_level *ret_level)
{
    struct decoding decoding = {memory, ret_level};
    *ret_level = (struct codec_level){0, ""};
    return get_message(&decoding, in, message, to);
}
