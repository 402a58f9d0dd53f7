/* SPDX-License-Identifier: MIT */

/* Structures as bytes: one table of fields per structure serves writing
 * and reading, so that a field is described once.
 *
 * The bytes are a subset of protobuf's wire format, so that its tools can show
 * them (protoc --decode_raw): a field is a varint of tag and kind, then a
 * varint, or a length and that many bytes. Zero and empty fields are omitted.
 * Tags ascend, and only the parts of one array share a tag; so equal structures
 * have equal bytes. Tags are never used twice.
 *
 * Reading trusts nothing: a length is compared with what is left, and a count
 * and a size with the field's bound, before memory is taken for it. What the
 * table does not know is not skipped in silence but has CODEC_LEVEL_UNKNOWN.
 *
 * Tables are lists of rows in a file of their own (*.def), one row per member,
 * in the order of their tags, between CODEC_BEGIN() and CODEC_END. A row is
 * found at once if tag n is the n-th row (a row without tag is none). The
 * compiler compares a row's type with its member's. */

#ifndef HASP_BASE_CODEC_H
#define HASP_BASE_CODEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"

enum codec_type {
    CODEC_TYPE_U32, /* Or an enum. */
    CODEC_TYPE_U64,
    CODEC_TYPE_BOOL,
    CODEC_TYPE_BYTES,   /* struct bytes. */
    CODEC_TYPE_FIXED,   /* uint8_t [n]; left out if all of it is zero. */
    CODEC_TYPE_PART,    /* Another structure, in this one. */
    CODEC_TYPE_CHOICE,  /* A pointer to one, if 'count' is this row's tag. */
    CODEC_TYPE_NUMBERS, /* uint64_t * and how many times 'unit' of them. */
    CODEC_TYPE_RUNS,    /* struct bytes * and how many. */
    CODEC_TYPE_PARTS,   /* Structures and how many. */
    CODEC_TYPE_LIST     /* The same, in a struct list. */
};

struct codec_message;
typedef const struct codec_message *codec_message_fn(void);

struct codec_field {
    uint16_t tag;
    uint8_t type;   /* enum codec_type. */
    uint8_t unit;   /* NUMBERS: 2 of pairs, e.g. from and to. */
    bool is_inline; /* NUMBERS, PARTS: an array of 'max', no pointer. */
    bool may_vary;  /* No part of the identity: codec_put_identity(). */
    uint32_t offset;
    uint32_t count_offset; /* The count's, a uint32_t. */
    uint32_t node_offset;  /* LIST: of the node in the part. */
    /* The payer's, a uint64_t: the number of the user for which the field
     * counts (lockfsm/records.def); 0: none. */
    uint32_t payer_offset;
    uint32_t level; /* The feature level that this field needs; 0: none. */
    uint64_t max;   /* Bound of the number, size or count; 0: any. */
    codec_message_fn *part;
    const char *what;  /* With 'level': in which words it is refused. */
    const char *trail; /* Its name in the operators' log, or NULL. */
};

struct codec_level;
struct codec_reading;
/* Functions that the compiler makes of a structure's rows
 * (base/codec_straight.h). They do what walking the table does, faster. */
typedef void codec_put_fn(struct buffer *out, const void *from,
                          bool is_identity);
typedef bool codec_check_fn(const void *from, struct codec_level *level,
                            bool *is_set);
typedef bool codec_get_fn(struct codec_reading *reading, struct bytes in,
                          void *to);
struct codec_straight {
    codec_put_fn *put; /* NULL: there are none, and the table is walked. */
    codec_check_fn *check;
    codec_get_fn *get;
};

struct codec_message {
    const struct codec_field *fields;
    size_t field_count;
    size_t size; /* The structure's. */
    const struct codec_straight *straight;
};

/* Where reading gets its memory, which it never gives back: if it fails, what
 * it took goes when all of that memory goes. */
struct codec_memory {
    void *(*take)(void *data, size_t size); /* Zeroed. */
    /* Keeps a copy; NULL: bytes are borrowed from the input. */
    struct bytes (*copy)(void *data, struct bytes bytes);
    void *data;
};

#define CODEC_LEVEL_UNKNOWN UINT32_MAX
#define CODEC_UNKNOWN_WHAT "what this version does not know"

/* The highest level of what was read, and the words of its row: "" for 0. */
struct codec_level {
    uint32_t level;
    const char *what;
};

/* What reading passes on. */
struct codec_reading {
    const struct codec_memory *memory;
    struct codec_level *level;
};

/* Appends 'from' to 'out'; CHOICE is left to codec_put_choice(). */
void codec_put(struct buffer *out, const struct codec_message *message,
               const void *from);
/* The same without the fields that may vary. */
void codec_put_identity(struct buffer *out, const struct codec_message *message,
                        const void *from);
/* Appends what was chosen, as a CHOICE's row of that tag would be read. The
 * caller that has chosen knows the row, so there is no search. */
void codec_put_choice(struct buffer *out, uint32_t tag,
                      const struct codec_message *message, const void *from);
/* False if a size, number or count in 'from' exceeds the bound of its row: then
 * codec_get() would refuse what codec_put() writes. '*ret_level' is the level
 * that codec_get() would return. CHOICE is left to the caller, as in
 * codec_put(). */
bool codec_check(const struct codec_message *message, const void *from,
                 struct codec_level *ret_level);
/* Reads 'in' into 'to', which comes as new: what is not in it stays as it is.
 * False: these bytes are damaged. */
bool codec_get(struct bytes in, const struct codec_message *message, void *to,
               const struct codec_memory *memory,
               struct codec_level *ret_level);

/* --- Rows ----------------------------------------------------------------- */

/* clang-format off */
#define CODEC_BEGIN(name, type) CODEC_BEGIN_AS(name, type, NULL, NULL, NULL)
#define CODEC_BEGIN_STRAIGHT(name, type) \
    CODEC_BEGIN_AS(name, type, name##_put_straight, name##_check_straight, \
                   name##_get_straight)
#define CODEC_BEGIN_AS(name, type, put_, check_, get_) \
    const struct codec_message *name##_message(void) \
    { \
        typedef struct type self; \
        static const struct codec_straight straight = {put_, check_, get_}; \
        static const struct codec_field fields[] = {
#define CODEC_END \
        }; \
        static const struct codec_message message = { \
            fields, sizeof fields / sizeof fields[0], sizeof(self), \
            &straight}; \
        return &message; \
    }
/* clang-format on */

/* An offset, if the condition holds. */
#define CODEC_AT(member, condition)                                     \
    (offsetof(self, member) +                                           \
     0 * sizeof(struct {                                                \
         _Static_assert(condition, "the row is not of the type of its " \
                                   "member " #member);                  \
         int unused;                                                    \
     }))
#define CODEC_IS(member, type_name) \
    __builtin_types_compatible_p(__typeof__(((self *)0)->member), type_name)
#define CODEC_IS_OF(member, type_name) \
    (sizeof(*((self *)0)->member) == sizeof(type_name))
#define CODEC_ONE(tag_, kind, member, type_name, ...)         \
    {.tag = tag_,                                             \
     .type = CODEC_TYPE_##kind,                               \
     .offset = CODEC_AT(member, CODEC_IS(member, type_name)), \
     ##__VA_ARGS__},
#define CODEC_MANY(tag_, kind, member, type_name, count, ...)    \
    {.tag = tag_,                                                \
     .type = CODEC_TYPE_##kind,                                  \
     .offset = CODEC_AT(member, CODEC_IS_OF(member, type_name)), \
     .count_offset = CODEC_AT(count, CODEC_IS(count, uint32_t)), \
     ##__VA_ARGS__},

#define CODEC_U32(tag, member, ...) \
    CODEC_ONE(tag, U32, member, uint32_t, ##__VA_ARGS__)
#define CODEC_ENUM(tag, name, member, ...) \
    CODEC_ONE(tag, U32, member, enum name, ##__VA_ARGS__)
#define CODEC_U64(tag, member, ...) \
    CODEC_ONE(tag, U64, member, uint64_t, ##__VA_ARGS__)
#define CODEC_BOOL(tag, member, ...) \
    CODEC_ONE(tag, BOOL, member, bool, ##__VA_ARGS__)
#define CODEC_BYTES(tag, member, ...) \
    CODEC_ONE(tag, BYTES, member, struct bytes, ##__VA_ARGS__)
#define CODEC_FIXED(tag, member, size, ...) \
    CODEC_ONE(tag, FIXED, member, uint8_t[size], .max = size, ##__VA_ARGS__)
#define CODEC_PART(tag, name, member, ...)                            \
    CODEC_ONE(tag, PART, member, struct name, .part = name##_message, \
              ##__VA_ARGS__)
#define CODEC_NUMBERS(tag, member, count, ...) \
    CODEC_MANY(tag, NUMBERS, member, uint64_t, count, .unit = 1, ##__VA_ARGS__)
#define CODEC_PAIRS(tag, member, count, ...) \
    CODEC_MANY(tag, NUMBERS, member, uint64_t, count, .unit = 2, ##__VA_ARGS__)
#define CODEC_RUNS(tag, member, count, ...) \
    CODEC_MANY(tag, RUNS, member, struct bytes, count, ##__VA_ARGS__)
#define CODEC_PARTS(tag, name, member, count, ...)                             \
    CODEC_MANY(tag, PARTS, member, struct name, count, .part = name##_message, \
               ##__VA_ARGS__)
#define CODEC_LIST(tag_, name, member, count, node, ...)         \
    {.tag = tag_,                                                \
     .type = CODEC_TYPE_LIST,                                    \
     .offset = CODEC_AT(member, CODEC_IS(member, struct list)),  \
     .count_offset = CODEC_AT(count, CODEC_IS(count, uint32_t)), \
     .node_offset = offsetof(struct name, node),                 \
     .part = name##_message,                                     \
     ##__VA_ARGS__},

#endif /* HASP_BASE_CODEC_H */
