/* SPDX-License-Identifier: MIT */

/* The table's records (lockfsm/records.def) of the structures in memory.
 * Private to lockfsm/.
 *
 * Equal structures have equal bytes on every node; the hash of the state is
 * computed from these bytes. */

#ifndef HASP_LOCKFSM_STORE_RECORDS_H
#define HASP_LOCKFSM_STORE_RECORDS_H

#include "base/codec.h"
#include "lockfsm/state.h"

/* The description of a kind of records. */
struct record_kind_row {
    enum table_map map;
    size_t stored_offset; /* Of the member 'stored'. */
    codec_message_fn *message;
    codec_message_fn *owned; /* Members that own memory, or were left. */
    bool (*is_left)(const void *structure); /* A user has left a member. */
    void (*put_key)(struct buffer *out, const void *structure);
};
extern const struct record_kind_row record_kinds[RECORD_KIND_COUNT];
codec_message_fn lockfsm_message;   /* Of META "state". */
codec_message_fn label_message;     /* Of a session, and of OPEN. */
codec_message_fn role_name_message; /* Of a user, and of USER_SET. */
codec_message_fn grant_message;     /* Of a role, and of ROLE_SET. */
codec_message_fn ended_hold_message, hold_break_message;
/* For those that are parts of entries, too. */
codec_put_fn label_put_straight, role_name_put_straight, grant_put_straight;
codec_check_fn label_check_straight, role_name_check_straight,
    grant_check_straight;
codec_get_fn label_get_straight, role_name_get_straight, grant_get_straight;

struct record {
    enum table_map map;
    struct buffer key;
    struct buffer value;
};
void record_done(struct record *record);

/* Each replaces what is in 'record'. */
void record_of(struct record *record, const struct stored *stored);
void record_of_meta(struct record *record, const struct lockfsm *fsm);
/* The structure around 'stored'. */
void *structure_of(const struct stored *stored);
/* Frees the texts and arrays that the stored members own; lists must be empty.
 */
void members_drop(struct pool *pool, const struct codec_message *message,
                  void *structure);
/* The bytes of texts that the stored members own, including lists. */
uint64_t members_size(const struct codec_message *message,
                      const void *structure);
/* The same plus RECORD_SIZE: what the record counts in LIMIT_STATE_SIZE,
 * without the texts in its key. */
uint64_t structure_size(const struct stored *stored);

/* A record's share in the digest of the state (lockfsm/store/digest.c). */
uint64_t record_share(const struct record *record);
uint64_t bytes_share(enum table_map map, struct bytes key, struct bytes value);

/* Bits of stored.flags. */
#define STORED_CHANGED 1u  /* In the list of changed records. */
#define STORED_IN_TABLE 2u /* The table has a record of it. */
#define STORED_SHARED 4u   /* 'share' is that of the record's present bytes. */

/* Replaces the share of 'stored' in the digest. */
void stored_share(struct lockfsm *fsm, struct stored *stored, uint64_t share);
/* The table has the present record, and the digest its share. */
void stored_settle(struct lockfsm *fsm, struct stored *stored);

#define META_STATE_KEY "state"
#define META_DIGEST_KEY "digest"
/* SNAPSHOT_META_APPLIED of storage/snapshot.h, which this folder may not
 * include. */
#define META_APPLIED_KEY "applied"

#endif /* HASP_LOCKFSM_STORE_RECORDS_H */
