/* SPDX-License-Identifier: MIT */

/* Commands: the structures of lockfsm/entry.def, as bytes and back. Who
 * proposes fills one in and calls its encode_<name>(), which appends it to
 * 'out' (clear that before for a command on its own); applying it reads it into
 * the same structure.
 *
 * Nothing is checked here: sizes and limits are checked by the proposer, who
 * can say what is wrong, and again when the entry is applied. */

#ifndef HASP_LOCKFSM_ENTRY_H
#define HASP_LOCKFSM_ENTRY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/codec.h"
#include "lockfsm/limits.h"
#include "lockfsm/model.h"
#include "lockfsm/store/arena.h"

/* Stored. */
enum act_kind { ACT_ADD, ACT_PROMOTE, ACT_DEMOTE, ACT_REMOVE, ACT_LOGIN };

enum entry_op {
    OP_NONE,
#define ENTRY(number, NAME, name, ...) OP_##NAME = number,
#include "lockfsm/entry.def"
};

/* clang-format off */
#define ENTRY(number, NAME, name, ...) struct name##_command {
#define STRUCT(name) struct name {
#define END };
#define U32(tag, member, ...) uint32_t member;
#define U64(tag, member, ...) uint64_t member;
#define BOOL(tag, member, ...) bool member;
#define ENUM(tag, name, member, ...) enum name member;
#define BYTES(tag, member, ...) struct bytes member;
#define FIXED(tag, member, size, ...) uint8_t member[size];
#define NUMBERS(tag, member, count, ...) \
    const uint64_t *member; uint32_t count;
#define PAIRS(tag, member, count, ...) \
    const uint64_t *member; uint32_t count;
#define RUNS(tag, member, count, ...) \
    const struct bytes *member; uint32_t count;
#define PART(tag, name, member, ...) struct name member;
#define PARTS(tag, name, member, count, ...) \
    const struct name *member; uint32_t count;
#include "lockfsm/entry.def"
/* clang-format on */

/* One of them; whose it is (lockfsm/user/access.h: 0 of what the leader asks by
 * itself); and of an administrative one from where ("host:port") and by whom it
 * was asked, for the logs of the nodes (lockfsm/user/trail.h). */
struct entry {
    enum entry_op op;
    union {
        const void *body;
#define ENTRY(number, NAME, name, ...) const struct name##_command *name;
#include "lockfsm/entry.def"
    };
    uint64_t user;
    struct bytes from;
    struct bytes by;
    uint64_t wall_ms; /* When, by the leader's wall clock, for people. */
};

void entry_put(struct buffer *out, const struct entry *entry);
/* Bytes are borrowed from 'in', the rest is taken from 'arena'. False: these
 * are no command's bytes. '*ret_level' is what is needed to understand it, at
 * least FEATURE_LEVEL_FIRST; then op may be OP_NONE. */
bool entry_get(struct bytes in, struct arena *arena, struct entry *ret_entry,
               struct codec_level *ret_level);

#define ENTRY(number, NAME, name, ...)                               \
    static inline void encode_##name(struct buffer *out,             \
                                     const struct name##_command *c) \
    {                                                                \
        entry_put(out, &(struct entry){.op = OP_##NAME, .name = c}); \
    }
#include "lockfsm/entry.def"

/* Appends to an encoded command whose it is. */
void encode_user(struct buffer *out, uint64_t user);
/* Appends to that from where, by whom and when it was asked. */
void encode_trail(struct buffer *out, struct bytes from, struct bytes by,
                  uint64_t wall_ms);

/* Who asks; NULL for what nobody does. */
const struct origin *entry_origin(const struct entry *entry);
/* What a command asks for, in bytes: what tells two of one number apart. */
void entry_put_identity(struct buffer *out, const struct entry *entry);

/* Who may ask for it. */
struct demand {
    enum {
        DEMAND_LEADER,
        DEMAND_USER,
        DEMAND_NAME,
        DEMAND_CLUSTER,
        DEMAND_CONTENTS
    } kind;
    enum verb verb;     /* Of DEMAND_NAME and DEMAND_CLUSTER. */
    size_t name_offset; /* Of DEMAND_NAME: of a struct bytes. */
    bool may_be_leader; /* Who asks for it by itself, too. */
};

/* What entry.def says of a command besides its members. */
struct entry_row {
    codec_message_fn *message;
    struct demand demand;
    /* It only takes from the state. Its result is kept all the same; but each
     * that did something has made more room than that. */
    bool only_frees;
    const char *trail; /* What an operator knows it as, or NULL. */
    uint32_t level;    /* 0: FEATURE_LEVEL_FIRST. */
    const char *what;  /* With 'level': in which words it is refused. */
};
const struct entry_row *entry_row(enum entry_op op);

#endif /* HASP_LOCKFSM_ENTRY_H */
