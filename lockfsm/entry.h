/* SPDX-License-Identifier: MIT */

/* Commands: the structures of lockfsm/entry.def, encoded and decoded. A
 * proposer fills one in; entry_of_<name>() makes an entry of it. The entry
 * stays a structure until all checks are done, and is encoded once. Applying
 * decodes it into the same structure.
 *
 * The proposer checks sizes and limits, because it can report what is wrong,
 * and applying checks them again. */

#ifndef HASP_LOCKFSM_ENTRY_H
#define HASP_LOCKFSM_ENTRY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/codec.h"
#include "lockfsm/cells.h"
#include "lockfsm/limits.h"
#include "lockfsm/model.h"
#include "lockfsm/store/arena.h"

/* Stored. */
enum act_kind {
    ACT_ADD,
    ACT_PROMOTE,
    ACT_DEMOTE,
    ACT_REMOVE,
    ACT_LOGIN,
    ACT_UPDATE,
    ACT_REPLACE /* Each step until the promotion. */
};

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

/* A decoded entry: its command, its user (lockfsm/user/access.h; 0: proposed by
 * the leader itself), and for an administrative one its origin ("host:port")
 * and author, for the logs of the nodes (lockfsm/user/trail.h). */
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
    uint64_t wall_ms; /* Time of the request by the leader's wall clock, for
                         people. */
};

/* The table of entries: a command, and what is said about it. */
codec_message_fn entry_message;

void entry_put(struct buffer *out, const struct entry *entry);
/* False if no node could read the entry: a size, number or count in it exceeds
 * the bound in entry.def. '*ret_level' is the feature level that it needs, as
 * in entry_get(). */
bool entry_check(const struct entry *entry, struct codec_level *ret_level);
/* Bytes are borrowed from 'in', the rest is taken from 'arena'. False: the
 * bytes are not a command. '*ret_level' is the feature level needed to
 * understand it, at least FEATURE_LEVEL_FIRST; if it is above this version's,
 * op may be OP_NONE. */
bool entry_get(struct bytes in, struct arena *arena, struct entry *ret_entry,
               struct codec_level *ret_level);

/* entry_of_<name>() borrows the command; encode_<name>() appends the bytes of
 * an entry without a user (clear 'out' first for an entry on its own). */
#define ENTRY(number, NAME, name, ...)                                         \
    static inline struct entry entry_of_##name(const struct name##_command *c) \
    {                                                                          \
        return (struct entry){.op = OP_##NAME, .name = c};                     \
    }                                                                          \
    static inline void encode_##name(struct buffer *out,                       \
                                     const struct name##_command *c)           \
    {                                                                          \
        struct entry entry = entry_of_##name(c);                               \
        entry_put(out, &entry);                                                \
    }
#include "lockfsm/entry.def"

/* Appends the user to an encoded command. */
void encode_user(struct buffer *out, uint64_t user);

/* The session and owner of a request; NULL if the entry has none. */
const struct origin *entry_origin(const struct entry *entry);
/* Appends the content of a command, which distinguishes two commands with the
 * same request number. */
void entry_put_identity(struct buffer *out, const struct entry *entry);

/* The right that an entry needs. */
struct demand {
    enum {
        DEMAND_LEADER,
        DEMAND_USER,
        DEMAND_NAME,
        DEMAND_CLUSTER,
        DEMAND_CONTENTS
    } kind;
    enum verb verb;     /* With DEMAND_NAME and DEMAND_CLUSTER. */
    size_t name_offset; /* With DEMAND_NAME: offset of a struct bytes. */
    bool may_be_leader; /* The leader can propose it on its own, too. */
};

/* A command's row in entry.def, besides its members. */
struct entry_row {
    codec_message_fn *message;
    struct demand demand;
    /* It only removes from the state. Its result is stored all the same, but if
     * it did something it has freed more room than that. */
    bool only_frees;
    const char *trail; /* Its name in the operators' log, or NULL. */
    uint32_t level;    /* 0: FEATURE_LEVEL_FIRST. */
    const char *what;  /* With 'level': its name in the refusal. */
};
const struct entry_row *entry_row(enum entry_op op);

#endif /* HASP_LOCKFSM_ENTRY_H */
