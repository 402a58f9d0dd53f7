/* SPDX-License-Identifier: MIT */

/* Encodes commands for whoever proposes them: plain structures in, the bytes of
 * a log entry out. No type of the protobuf library leaves lockfsm/.
 *
 * Each function appends one command to 'out' (clear it before for a command on
 * its own). Zeroed fields mean "not given", as in command.proto, whose comments
 * say what each field means; what a command does: lockfsm/README.md. Nothing is
 * checked here: sizes and limits are checked by the proposer, who can say what
 * is wrong, and again when the entry is applied. */

#ifndef HASP_LOCKFSM_ENCODE_H
#define HASP_LOCKFSM_ENCODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "lockfsm/limits.h"
#include "lockfsm/model.h"

/* Who asks, and under which number. */
struct origin {
    uint64_t session;
    struct bytes owner;
    uint64_t req;               /* 0: without exactly-once. */
    uint64_t acked;             /* All numbers up to here are over. */
    const uint64_t *also_acked; /* Others that are: pairs of from and to. */
    uint32_t also_acked_count;  /* Of pairs. */
};

/* --- The cluster's own --------------------------------------------------- */

struct begin_command {
    uint64_t node;
    uint64_t incarnation;
    const uint8_t *cluster_id;           /* For a new life, or NULL. */
    uint64_t token_base;                 /* Of that new life. */
    uint32_t feature_level;              /* Likewise: that of all founders. */
    const struct lockfsm_limits *limits; /* A founder's, or NULL. */
    uint64_t base_index;                 /* As in encode_time(). */
    uint32_t elapsed_ms;
};
void encode_begin(struct buffer *out, const struct begin_command *c);
/* 'added_index': lockfsm_added_index(). */
void encode_register(struct buffer *out, uint64_t node, uint64_t incarnation,
                     uint64_t added_index);
/* Raises the cluster's feature level (lockfsm/feature.h). */
void encode_set_feature(struct buffer *out, uint32_t level);
#ifdef HASP_FEATURE_LEVEL_EXTRA
/* An entry of the level that only tests have. With a name: a field of that
 * level in an entry that was there before, PLEASE. */
void encode_trial(struct buffer *out, struct bytes name);
#endif
void encode_set_limit(struct buffer *out, const struct origin *origin,
                      enum limit_key key, uint64_t value);
/* 'reason': why an operator ends it early; else empty. */
void encode_quarantine_over(struct buffer *out, uint64_t since_index,
                            struct bytes reason);

/* Appends to an encoded command from where and by whom it was asked
 * (lockfsm/trail.h). */
void encode_trail(struct buffer *out, struct bytes from, struct bytes by);
/* What changes no state, and yet is to be told: a change of the members, which
 * is no command. Stored. */
enum act_kind { ACT_ADD, ACT_PROMOTE, ACT_DEMOTE, ACT_REMOVE };
void encode_act(struct buffer *out, enum act_kind kind, uint64_t member,
                struct bytes address, uint64_t wall_ms);

/* --- Sessions ------------------------------------------------------------ */

struct open_command {
    struct origin origin; /* Matters only with a number. */
    uint8_t proof[PROOF_SIZE];
    uint32_t ttl_ms;
    uint32_t linger_ms;
    struct bytes name;
    struct bytes address;
    const struct label *labels;
    uint32_t label_count; /* At most LABEL_COUNT_MAX. */
};
void encode_open(struct buffer *out, const struct open_command *c);
void encode_close(struct buffer *out, const struct origin *origin);
void encode_expire(struct buffer *out, const uint64_t *sessions, size_t count);
/* That so much time has passed since the proposer applied 'base_index', the
 * newest TIME or BEGIN it knew of; and for how long these sessions have been
 * quiet. */
struct session_mark {
    uint64_t session;
    uint32_t quiet_ms;
};
struct time_command {
    uint64_t base_index;
    uint32_t elapsed_ms;
    const struct session_mark *marks;
    size_t mark_count;
};
void encode_time(struct buffer *out, const struct time_command *c);
void encode_heard(struct buffer *out, const uint64_t *sessions, size_t count);

/* --- Locks --------------------------------------------------------------- */

struct acquire_command {
    struct origin origin;
    const struct bytes *names;
    uint32_t name_count; /* Several: MACQUIRE, at most MULTI_COUNT_MAX. */
    enum lock_mode mode;
    uint32_t slots;
    bool is_waiting;
    uint64_t wait_ms; /* With is_waiting; 0: for ever. */
    bool is_barging;
    struct bytes value;
    uint64_t delay_ms;
    uint64_t hold_ms;
};
void encode_acquire(struct buffer *out, const struct acquire_command *c);

struct release_command {
    struct origin origin;
    const struct bytes *names;
    uint32_t name_count; /* Several: MRELEASE. */
    uint64_t token;      /* 0: any. */
    bool is_counting;    /* The result is how many, also of one name. */
};
void encode_release(struct buffer *out, const struct release_command *c);

struct release_if_command {
    struct origin origin; /* Of the third party that asks. */
    struct bytes name;
    uint64_t session; /* Of the hold; 0: the only hold of this owner. */
    struct bytes owner;
    uint64_t token; /* 0: not given. */
};
void encode_release_if(struct buffer *out, const struct release_if_command *c);

struct convert_command {
    struct origin origin;
    struct bytes name;
    enum lock_mode to;
    bool is_waiting;
    uint64_t wait_ms;
};
void encode_convert(struct buffer *out, const struct convert_command *c);

void encode_cancel(struct buffer *out, const struct origin *origin,
                   struct bytes name);
void encode_please(struct buffer *out, const struct origin *origin,
                   struct bytes name, struct bytes message);

/* --- Times that are over (lease/timers) -------------------------------- */

/* WAIT_TIMEOUT: void if the wait has gone, or if the place was asked for again
 * since 'asked_index' (EFFECT_QUEUED tells it), so that a new WAIT is not cut
 * short by the end of the one it replaces. */
struct wait_key {
    uint64_t session;
    struct bytes owner;
    uint64_t wait_index;
    uint64_t asked_index; /* 0: whatever was asked since. */
};
void encode_wait_over(struct buffer *out, const struct wait_key *wait);
void encode_delay_over(struct buffer *out, struct bytes name,
                       uint64_t since_index);
/* A hold, named so exactly that no later one can be meant. */
struct hold_key {
    struct bytes name;
    uint64_t session;
    struct bytes owner;
    uint64_t token;
};
void encode_hold_over(struct buffer *out, const struct hold_key *hold);
void encode_blacklist_over(struct buffer *out, uint64_t since_index);

/* --- Blacklist and fences ------------------------------------------------ */

struct blacklist_command {
    struct origin origin;
    uint64_t session;    /* Either this ... */
    struct bytes client; /* ... or a glob of client names. */
    struct bytes reason; /* These three for an addition only. */
    struct bytes by;
    uint64_t for_ms; /* 0: until removed. */
};
void encode_blacklist_add(struct buffer *out,
                          const struct blacklist_command *c);
void encode_blacklist_remove(struct buffer *out,
                             const struct blacklist_command *c);

void encode_fence_admit(struct buffer *out, const struct origin *origin,
                        struct bytes resource, uint64_t token);
void encode_fence_remove(struct buffer *out, const struct origin *origin,
                         struct bytes resource);

/* --- Redis --------------------------------------------------------------- */

struct redis_set_command {
    struct bytes name;
    struct bytes value;
    uint32_t ttl_ms; /* The lease: 1.25 px_ms + 5 ms. */
    uint64_t px_ms;
    struct bytes client;
    struct bytes address;
};
void encode_redis_set(struct buffer *out, const struct redis_set_command *c);
void encode_redis_delete(struct buffer *out, struct bytes name,
                         struct bytes value);
struct redis_expire_command {
    struct bytes name;
    struct bytes value; /* Ignored with 'any_value'. */
    bool any_value;
    uint32_t ttl_ms;
    uint64_t px_ms;
};
void encode_redis_expire(struct buffer *out,
                         const struct redis_expire_command *c);

#endif /* HASP_LOCKFSM_ENCODE_H */
