/* SPDX-License-Identifier: MIT */

/* The codec without tables: functions that the compiler makes of the same rows
 * (*.def), one step for each member, with tags, bounds and levels as constants.
 * They write the same bytes as the tables, and refuse the same: base/codec.h
 * uses them where a message has them, and the tables elsewhere.
 *
 * A file of rows is included once for each of the three functions of a
 * structure. base/codec_rows.def gives the rows their meaning:
 *
 *     #define CODEC_PASS STRAIGHT_PUT      (then STRAIGHT_CHECK, STRAIGHT_GET)
 *     #include "base/codec_rows.def"
 *     #define STRUCT(name) STRAIGHT_PUT_BEGIN(name, name)
 *     #include "rows.def"
 *
 * After that, CODEC_BEGIN_STRAIGHT() attaches them to the table. */

#ifndef HASP_BASE_CODEC_STRAIGHT_H
#define HASP_BASE_CODEC_STRAIGHT_H

#include "base/codec.h"
#include "base/list.h"

enum { WIRE_NUMBER = 0, WIRE_RUN = 2 };

#define VARINT_SIZE_MAX 10u

static inline void codec_raise(struct codec_level *level, uint32_t to,
                               const char *what)
{
    if (to > level->level) {
        *level = (struct codec_level){to, what};
    }
}

/* --- Writing -------------------------------------------------------------- */

static inline uint8_t *codec_store_varint(uint8_t *at, uint64_t value)
{
    for (; value >= 0x80; value >>= 7) {
        *at++ = (uint8_t)(value | 0x80);
    }
    *at++ = (uint8_t)value;
    return at;
}

/* Writes the head of an item: its tag and kind, and a number or a length. */
static inline void codec_put_head(struct buffer *out, uint32_t tag,
                                  unsigned wire, uint64_t value)
{
    uint8_t *at = buffer_reserve(out, (size_t)2 * VARINT_SIZE_MAX);
    at = codec_store_varint(at, (uint64_t)tag << 3 | wire);
    out->size = (size_t)(codec_store_varint(at, value) - out->data);
}

static inline void codec_put_number(struct buffer *out, uint32_t tag,
                                    uint64_t number)
{
    if (number != 0) {
        codec_put_head(out, tag, WIRE_NUMBER, number);
    }
}

/* Writes bytes even if there are none. */
static inline void codec_put_run(struct buffer *out, uint32_t tag,
                                 struct bytes bytes)
{
    codec_put_head(out, tag, WIRE_RUN, bytes.size);
    buffer_put_bytes(out, bytes);
}

static inline void codec_put_bytes(struct buffer *out, uint32_t tag,
                                   struct bytes bytes)
{
    if (bytes.size > 0) {
        codec_put_run(out, tag, bytes);
    }
}

/* Begins a run; codec_end_run() writes its length in front. */
static inline size_t codec_begin_run(struct buffer *out, uint32_t tag)
{
    codec_put_head(out, tag, WIRE_RUN, 0);
    return out->size;
}
void codec_end_run(struct buffer *out, size_t start);
void codec_put_numbers(struct buffer *out, uint32_t tag,
                       const uint64_t *numbers, size_t count);

/* All of the bytes, or none if all are zero. */
static inline struct bytes codec_unless_zero(const uint8_t *data, size_t size)
{
    uint64_t any = 0;
    size_t i = 0;
    for (; i + sizeof any <= size; i += sizeof any) {
        any |= load_u64(data + i);
    }
    for (; i < size; i++) {
        any |= data[i];
    }
    return any != 0 ? bytes_of(data, size) : (struct bytes){NULL, 0};
}

/* --- Reading -------------------------------------------------------------- */

/* One item of the input. */
struct codec_item {
    uint64_t tag;
    unsigned wire;
    uint64_t number;   /* WIRE_NUMBER */
    struct bytes run;  /* WIRE_RUN */
    uint64_t position; /* Its position among the items with the same tag. */
};

/* Reads the item after 'item', which comes as {0} for the first. False: damage,
 * or a tag below the last one (equal structures have equal bytes). */
bool codec_next(struct reader *reader, struct codec_item *item);

static inline struct bytes codec_keep(const struct codec_reading *reading,
                                      struct bytes bytes)
{
    const struct codec_memory *memory = reading->memory;
    return memory->copy != NULL ? memory->copy(memory->data, bytes) : bytes;
}

static inline void *codec_take(const struct codec_reading *reading, size_t size)
{
    return reading->memory->take(reading->memory->data, size);
}

/* An array of numbers: 'unit' for each element. */
bool codec_get_numbers(struct codec_reading *reading, struct bytes run,
                       const struct codec_field *field, void *array,
                       uint32_t *count);
/* Room for the next element of an array, or NULL if there are too many. The
 * first one takes the room for those that follow in 'rest', too. */
void *codec_get_element(struct codec_reading *reading,
                        const struct codec_field *field,
                        const struct codec_item *item, struct reader rest,
                        size_t size, void *array, uint32_t *count);
/* The same in a list. */
void *codec_get_list_element(struct codec_reading *reading,
                             const struct codec_field *field,
                             const struct codec_item *item, size_t size,
                             struct list *list, uint32_t *count);

/* --- The options of a row ------------------------------------------------- */

/* clang-format off */
#define STRAIGHT_FIELD(...) ((struct codec_field){.tag = 0, ##__VA_ARGS__})
/* A constant, since the options are. */
#define STRAIGHT_OPTION(option, ...) (STRAIGHT_FIELD(__VA_ARGS__).option)
#define STRAIGHT_IS_OVER(size, ...) \
    (STRAIGHT_OPTION(max, ##__VA_ARGS__) != 0 && \
     (uint64_t)(size) > STRAIGHT_OPTION(max, ##__VA_ARGS__))
#define STRAIGHT_RAISE(level_, ...) \
    if (STRAIGHT_OPTION(level, ##__VA_ARGS__) != 0) { \
        codec_raise(level_, STRAIGHT_OPTION(level, ##__VA_ARGS__), \
                    STRAIGHT_OPTION(what, ##__VA_ARGS__)); \
    }

/* --- Functions that write ------------------------------------------------- */

#define STRAIGHT_PUT_BEGIN(name, type) \
    static codec_put_fn name##_put_straight; \
    static STRAIGHT_PUT_BEGIN_SHARED(name, type)
/* For functions that other files use. */
#define STRAIGHT_PUT_BEGIN_SHARED(name, type) \
    void name##_put_straight(struct buffer *out, const void *structure, \
                             bool is_identity) \
    { \
        const struct type *from = structure; \
        (void)out; \
        (void)from; \
        (void)is_identity;
#define STRAIGHT_PUT_END }
#define STRAIGHT_PUT_ROW(...) \
    if (!STRAIGHT_OPTION(may_vary, ##__VA_ARGS__) || !is_identity)
#define STRAIGHT_PUT_U64(tag, member, ...) \
    STRAIGHT_PUT_ROW(__VA_ARGS__) { codec_put_number(out, tag, from->member); }
#define STRAIGHT_PUT_U32 STRAIGHT_PUT_U64
#define STRAIGHT_PUT_BOOL STRAIGHT_PUT_U64
#define STRAIGHT_PUT_ENUM(tag, name, member, ...) \
    STRAIGHT_PUT_ROW(__VA_ARGS__) { \
        codec_put_number(out, tag, (uint32_t)from->member); \
    }
#define STRAIGHT_PUT_BYTES(tag, member, ...) \
    STRAIGHT_PUT_ROW(__VA_ARGS__) { codec_put_bytes(out, tag, from->member); }
#define STRAIGHT_PUT_FIXED(tag, member, size, ...) \
    STRAIGHT_PUT_ROW(__VA_ARGS__) { \
        codec_put_bytes(out, tag, codec_unless_zero(from->member, size)); \
    }
#define STRAIGHT_PUT_PART(tag, name, member, ...) \
    STRAIGHT_PUT_ROW(__VA_ARGS__) { \
        size_t before = out->size; \
        size_t start = codec_begin_run(out, tag); \
        name##_put_straight(out, &from->member, false); \
        if (out->size == start) { \
            out->size = before; \
        } else { \
            codec_end_run(out, start); \
        } \
    }
#define STRAIGHT_PUT_NUMBERS(tag, member, count, ...) \
    STRAIGHT_PUT_ROW(__VA_ARGS__) { \
        codec_put_numbers(out, tag, from->member, from->count); \
    }
#define STRAIGHT_PUT_PAIRS(tag, member, count, ...) \
    STRAIGHT_PUT_ROW(__VA_ARGS__) { \
        codec_put_numbers(out, tag, from->member, (size_t)2 * from->count); \
    }
#define STRAIGHT_PUT_RUNS(tag, member, count, ...) \
    STRAIGHT_PUT_ROW(__VA_ARGS__) { \
        for (uint32_t i = 0; i < from->count; i++) { \
            codec_put_run(out, tag, from->member[i]); \
        } \
    }
#define STRAIGHT_PUT_PARTS(tag, name, member, count, ...) \
    STRAIGHT_PUT_ROW(__VA_ARGS__) { \
        for (uint32_t i = 0; i < from->count; i++) { \
            size_t start = codec_begin_run(out, tag); \
            name##_put_straight(out, &from->member[i], false); \
            codec_end_run(out, start); \
        } \
    }
#define STRAIGHT_PUT_LIST(tag, name, member, count, node, ...) \
    STRAIGHT_PUT_ROW(__VA_ARGS__) { \
        LIST_EACH (at, &from->member) { \
            size_t start = codec_begin_run(out, tag); \
            name##_put_straight(out, LIST_ENTRY(at, struct name, node), \
                                false); \
            codec_end_run(out, start); \
        } \
    }

/* --- Functions that check ------------------------------------------------- */

#define STRAIGHT_CHECK_BEGIN(name, type) \
    static codec_check_fn name##_check_straight; \
    static STRAIGHT_CHECK_BEGIN_SHARED(name, type)
#define STRAIGHT_CHECK_BEGIN_SHARED(name, type) \
    bool name##_check_straight(const void *structure, \
                               struct codec_level *level_, bool *is_set) \
    { \
        const struct type *from = structure; \
        (void)from; \
        (void)level_; \
        (void)is_set;
#define STRAIGHT_CHECK_END \
        return true; \
    }
/* 'each' checks what the field consists of. */
#define STRAIGHT_CHECK_ROW(size, each, ...) \
    if ((size) != 0) { \
        if (STRAIGHT_IS_OVER(size, ##__VA_ARGS__)) { \
            return false; \
        } \
        each \
        STRAIGHT_RAISE(level_, ##__VA_ARGS__) \
        *is_set = true; \
    }
#define STRAIGHT_CHECK_U64(tag, member, ...) \
    STRAIGHT_CHECK_ROW(from->member, , ##__VA_ARGS__)
#define STRAIGHT_CHECK_U32 STRAIGHT_CHECK_U64
#define STRAIGHT_CHECK_BOOL STRAIGHT_CHECK_U64
#define STRAIGHT_CHECK_ENUM(tag, name, member, ...) \
    STRAIGHT_CHECK_ROW((uint32_t)from->member, , ##__VA_ARGS__)
#define STRAIGHT_CHECK_BYTES(tag, member, ...) \
    STRAIGHT_CHECK_ROW(from->member.size, , ##__VA_ARGS__)
#define STRAIGHT_CHECK_FIXED(tag, member, size_, ...) \
    STRAIGHT_CHECK_ROW(codec_unless_zero(from->member, size_).size, , \
                       ##__VA_ARGS__)
#define STRAIGHT_CHECK_PART(tag, name, member, ...) \
    { \
        bool part_is_set = false; \
        if (!name##_check_straight(&from->member, level_, &part_is_set)) { \
            return false; \
        } \
        if (part_is_set) { \
            STRAIGHT_RAISE(level_, ##__VA_ARGS__) \
            *is_set = true; \
        } \
    }
#define STRAIGHT_CHECK_NUMBERS(tag, member, count, ...) \
    STRAIGHT_CHECK_ROW(from->count, , ##__VA_ARGS__)
#define STRAIGHT_CHECK_PAIRS STRAIGHT_CHECK_NUMBERS
#define STRAIGHT_CHECK_RUNS STRAIGHT_CHECK_NUMBERS
#define STRAIGHT_CHECK_PARTS(tag, name, member, count, ...) \
    STRAIGHT_CHECK_ROW(from->count, \
        for (uint32_t i = 0; i < from->count; i++) { \
            if (!name##_check_straight(&from->member[i], level_, is_set)) { \
                return false; \
            } \
        }, ##__VA_ARGS__)
#define STRAIGHT_CHECK_LIST(tag, name, member, count, node, ...) \
    STRAIGHT_CHECK_ROW(from->count, \
        LIST_EACH (at, &from->member) { \
            if (!name##_check_straight(LIST_ENTRY(at, struct name, node), \
                                       level_, is_set)) { \
                return false; \
            } \
        }, ##__VA_ARGS__)

/* --- Functions that read -------------------------------------------------- */

#define STRAIGHT_GET_BEGIN(name, type) \
    static codec_get_fn name##_get_straight; \
    static STRAIGHT_GET_BEGIN_SHARED(name, type)
#define STRAIGHT_GET_BEGIN_SHARED(name, type) \
    bool name##_get_straight(struct codec_reading *reading, struct bytes in, \
                             void *structure) \
    { \
        struct type *to = structure; \
        struct reader reader = reader_of(in); \
        struct codec_item item = {0}; \
        (void)to; \
        while (reader_left(&reader) > 0) { \
            if (!codec_next(&reader, &item)) { \
                return false; \
            } \
            switch (item.tag) {
#define STRAIGHT_GET_END \
            default: \
                codec_raise(reading->level, CODEC_LEVEL_UNKNOWN, \
                            CODEC_UNKNOWN_WHAT); \
            } \
        } \
        return true; \
    }
/* 'is_bad' and what it does with the item. */
#define STRAIGHT_GET_ROW(tag_, wire_, is_array, is_bad, ...) \
            case tag_: \
                if (item.wire != (wire_) || \
                    (item.position > 0 && !(is_array))) { \
                    return false; \
                } \
                STRAIGHT_RAISE(reading->level, ##__VA_ARGS__) \
                if (is_bad) { \
                    return false; \
                }
#define STRAIGHT_GET_NUMBER(tag_, max_, member, type, ...) \
    STRAIGHT_GET_ROW(tag_, WIRE_NUMBER, false, \
                     item.number > (max_) || \
                         STRAIGHT_IS_OVER(item.number, ##__VA_ARGS__), \
                     ##__VA_ARGS__) \
                to->member = (type)item.number; \
                break;
#define STRAIGHT_GET_U64(tag_, member, ...) \
    STRAIGHT_GET_ROW(tag_, WIRE_NUMBER, false, \
                     STRAIGHT_IS_OVER(item.number, ##__VA_ARGS__), \
                     ##__VA_ARGS__) \
                to->member = item.number; \
                break;
#define STRAIGHT_GET_U32(tag, member, ...) \
    STRAIGHT_GET_NUMBER(tag, UINT32_MAX, member, uint32_t, ##__VA_ARGS__)
#define STRAIGHT_GET_BOOL(tag, member, ...) \
    STRAIGHT_GET_NUMBER(tag, 1, member, bool, ##__VA_ARGS__)
#define STRAIGHT_GET_ENUM(tag, name, member, ...) \
    STRAIGHT_GET_NUMBER(tag, UINT32_MAX, member, enum name, ##__VA_ARGS__)
#define STRAIGHT_GET_BYTES(tag, member, ...) \
    STRAIGHT_GET_ROW(tag, WIRE_RUN, false, \
                     STRAIGHT_IS_OVER(item.run.size, ##__VA_ARGS__), \
                     ##__VA_ARGS__) \
                to->member = codec_keep(reading, item.run); \
                break;
#define STRAIGHT_GET_FIXED(tag, member, size_, ...) \
    STRAIGHT_GET_ROW(tag, WIRE_RUN, false, item.run.size != (size_), \
                     ##__VA_ARGS__) \
                memcpy(to->member, item.run.data, size_); \
                break;
#define STRAIGHT_GET_PART(tag, name, member, ...) \
    STRAIGHT_GET_ROW(tag, WIRE_RUN, false, \
                     !name##_get_straight(reading, item.run, &to->member), \
                     ##__VA_ARGS__) \
                break;
#define STRAIGHT_GET_UNITS(unit_, tag, member, count, ...) \
    STRAIGHT_GET_ROW(tag, WIRE_RUN, false, \
                     !codec_get_numbers(reading, item.run, \
                         &STRAIGHT_FIELD(.unit = unit_, ##__VA_ARGS__), \
                         (void *)&to->member, &to->count), \
                     ##__VA_ARGS__) \
                break;
#define STRAIGHT_GET_NUMBERS(...) STRAIGHT_GET_UNITS(1, __VA_ARGS__)
#define STRAIGHT_GET_PAIRS(...) STRAIGHT_GET_UNITS(2, __VA_ARGS__)
#define STRAIGHT_GET_RUNS(tag, member, count, ...) \
    STRAIGHT_GET_ROW(tag, WIRE_RUN, true, false, ##__VA_ARGS__) \
                { \
                    struct bytes *at = codec_get_element( \
                        reading, &STRAIGHT_FIELD(__VA_ARGS__), &item, reader, \
                        sizeof *at, (void *)&to->member, &to->count); \
                    if (at == NULL) { \
                        return false; \
                    } \
                    *at = codec_keep(reading, item.run); \
                } \
                break;
#define STRAIGHT_GET_PARTS(tag, name, member, count, ...) \
    STRAIGHT_GET_ROW(tag, WIRE_RUN, true, false, ##__VA_ARGS__) \
                { \
                    void *at = codec_get_element( \
                        reading, &STRAIGHT_FIELD(__VA_ARGS__), &item, reader, \
                        sizeof(struct name), (void *)&to->member, \
                        &to->count); \
                    if (at == NULL || \
                        !name##_get_straight(reading, item.run, at)) { \
                        return false; \
                    } \
                } \
                break;
#define STRAIGHT_GET_LIST(tag, name, member, count, node, ...) \
    STRAIGHT_GET_ROW(tag, WIRE_RUN, true, false, ##__VA_ARGS__) \
                { \
                    void *at = codec_get_list_element( \
                        reading, \
                        &STRAIGHT_FIELD(.node_offset = \
                                            offsetof(struct name, node), \
                                        ##__VA_ARGS__), \
                        &item, sizeof(struct name), &to->member, \
                        &to->count); \
                    if (at == NULL || \
                        !name##_get_straight(reading, item.run, at)) { \
                        return false; \
                    } \
                } \
                break;
/* clang-format on */

#endif /* HASP_BASE_CODEC_STRAIGHT_H */
