/* SPDX-License-Identifier: MIT */

#include "lockfsm/entry.h"

#include "base/check.h"
#include "base/codec_straight.h"
#include "lockfsm/feature.h"
#include "lockfsm/lockfsm.h"
#include "lockfsm/store/records.h"

/* The fields of each entry besides its command. */
#define ABOUT        \
    U64(100, user)   \
    BYTES(101, from) \
    BYTES(102, by)   \
    U64(103, wall_ms)

/* --- Functions for each structure ----------------------------------------- */

/* clang-format off */
#define CODEC_PASS STRAIGHT_PUT
#include "base/codec_rows.def"
#define STRUCT(name) STRAIGHT_PUT_BEGIN(name, name)
#define ENTRY(number, NAME, name, ...) \
    STRAIGHT_PUT_BEGIN(name##_command, name##_command)
STRAIGHT_PUT_BEGIN(about, entry)
    ABOUT
END
#include "lockfsm/entry.def"

#undef CODEC_PASS
#define CODEC_PASS STRAIGHT_CHECK
#include "base/codec_rows.def"
#define STRUCT(name) STRAIGHT_CHECK_BEGIN(name, name)
#define ENTRY(number, NAME, name, ...) \
    STRAIGHT_CHECK_BEGIN(name##_command, name##_command)
STRAIGHT_CHECK_BEGIN(about, entry)
    ABOUT
END
#include "lockfsm/entry.def"

#undef CODEC_PASS
#define CODEC_PASS STRAIGHT_GET
#include "base/codec_rows.def"
#define STRUCT(name) STRAIGHT_GET_BEGIN(name, name)
#define ENTRY(number, NAME, name, ...) \
    STRAIGHT_GET_BEGIN(name##_command, name##_command)
#include "lockfsm/entry.def"

#include "base/codec_rows.def"
STRAIGHT_GET_BEGIN(entry, entry)
    ABOUT
#undef CODEC_PASS
#include "base/codec_rows.def"
#define ENTRY(number, NAME, name_, ...) \
    STRAIGHT_GET_ROW(number, WIRE_RUN, false, to->op != OP_NONE) \
                { \
                    void *command = codec_take(reading, \
                                               sizeof *to->name_); \
                    to->op = OP_##NAME; \
                    to->name_ = command; \
                    if (!name_##_command_get_straight(reading, item.run, \
                                                      command)) { \
                        return false; \
                    } \
                } \
                break;
#include "lockfsm/entry.def"
STRAIGHT_GET_END

/* --- The tables of fields ------------------------------------------------- */

#define CODEC_PASS CODEC
#include "base/codec_rows.def"
#define STRUCT(name) \
    static codec_message_fn name##_message; \
    static CODEC_BEGIN_STRAIGHT(name, name)
#define ENTRY(number, NAME, name, ...) \
    static codec_message_fn name##_command_message; \
    static CODEC_BEGIN_STRAIGHT(name##_command, name##_command)
#include "lockfsm/entry.def"

#include "base/codec_rows.def"
CODEC_BEGIN_AS(entry, entry, NULL, NULL, entry_get_straight)
    [99] = ABOUT
#undef CODEC_PASS
#include "base/codec_rows.def"
#define ENTRY(number, NAME, name, ...) \
    [(number) - 1] = { \
     .tag = (number), .type = CODEC_TYPE_CHOICE, \
     .offset = offsetof(self, name), .count_offset = offsetof(self, op), \
     .part = name##_command_message},
#include "lockfsm/entry.def"
CODEC_END

/* --- The rows ------------------------------------------------------------- */

#define BY_LEADER {.kind = DEMAND_LEADER}
#define BY_USERS {.kind = DEMAND_USER}
#define BY_CONTENTS {.kind = DEMAND_CONTENTS}
#define OF_CLUSTER(name) {.kind = DEMAND_CLUSTER, .verb = VERB_##name}
#define OF_CLUSTER_OR_LEADER(name) \
    {.kind = DEMAND_CLUSTER, .verb = VERB_##name, .may_be_leader = true}
#define OF_NAME(name, entry, member) \
    {.kind = DEMAND_NAME, .verb = VERB_##name, \
     .name_offset = offsetof(struct entry##_command, member)}

static const struct entry_row rows[] = {
#define ENTRY(number, NAME, name, demand_, ...) \
    [OP_##NAME] = {.message = name##_command_message, \
                   .demand = demand_, ##__VA_ARGS__},
#include "lockfsm/entry.def"
};
/* clang-format on */

const struct entry_row *entry_row(enum entry_op op)
{
    CHECK((size_t)op < sizeof rows / sizeof rows[0]);
    CHECK(rows[op].message != NULL);
    return &rows[op];
}

/* --- Bytes ---------------------------------------------------------------- */

void entry_put(struct buffer *out, const struct entry *entry)
{
    if (entry->op != OP_NONE) {
        codec_put_choice(out, entry->op, entry_row(entry->op)->message(),
                         entry->body);
    }
    about_put_straight(out, entry, false);
}

void encode_user(struct buffer *out, uint64_t user)
{
    about_put_straight(out, &(struct entry){.user = user}, false);
}

/* An entry needs the level of its row even if no member in it needs one. */
static void entry_raise_level(const struct entry *entry,
                              struct codec_level *level)
{
    uint32_t least = FEATURE_LEVEL_FIRST;
    const char *what = "";
    if (entry->op != OP_NONE && entry_row(entry->op)->level > least) {
        least = entry_row(entry->op)->level;
        what = entry_row(entry->op)->what;
    }
    if (level->level < least) {
        *level = (struct codec_level){least, what};
    }
}

bool entry_check(const struct entry *entry, struct codec_level *ret_level)
{
    bool is_set;
    CHECK(entry->op != OP_NONE);
    if (!codec_check(entry_row(entry->op)->message(), entry->body, ret_level) ||
        !about_check_straight(entry, ret_level, &is_set)) {
        return false;
    }
    entry_raise_level(entry, ret_level);
    return true;
}

static void *entry_take(void *arena, size_t size)
{
    void *piece = arena_take(arena, size);
    memset(piece, 0, size);
    return piece;
}

bool entry_get(struct bytes in, struct arena *arena, struct entry *ret_entry,
               struct codec_level *ret_level)
{
    struct codec_memory memory = {.take = entry_take, .data = arena};
    *ret_entry = (struct entry){.op = OP_NONE};
    if (!codec_get(in, entry_message(), ret_entry, &memory, ret_level)) {
        return false;
    }
    entry_raise_level(ret_entry, ret_level);
    return true;
}

const struct origin *entry_origin(const struct entry *entry)
{
    const struct codec_message *message = entry_row(entry->op)->message();
    for (size_t i = 0; i < message->field_count; i++) {
        if (message->fields[i].part == origin_message) {
            return (const void *)((const char *)entry->body +
                                  message->fields[i].offset);
        }
    }
    return NULL;
}

void entry_put_identity(struct buffer *out, const struct entry *entry)
{
    codec_put_identity(out, entry_row(entry->op)->message(), entry->body);
}
