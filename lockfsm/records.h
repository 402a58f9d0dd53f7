/* SPDX-License-Identifier: MIT */

/* The table's records (lockfsm/record.proto) of the structures in memory, and
 * back. Private to lockfsm/.
 *
 * What is equal in memory has equal bytes here, on every node; the hash of the
 * state is made of these bytes. */

#ifndef HASP_LOCKFSM_RECORDS_H
#define HASP_LOCKFSM_RECORDS_H

#include "lockfsm/state.h"

struct record {
    enum table_map map;
    struct buffer key;
    struct buffer value;
};
void record_done(struct record *record);

/* Each replaces what is in 'record'. */
void record_of_session(struct record *record, const struct session *session);
void record_of_lock(struct record *record, const struct lock *lock);
void record_of_hold(struct record *record, const struct hold *hold);
void record_of_wait(struct record *record, const struct wait *wait);
void record_of_fence(struct record *record, const struct fence *fence);
void record_of_blacklisting(struct record *record,
                            const struct blacklisting *entry);
void record_of_result(struct record *record, const struct kept_result *kept);
void record_of_numbers(struct record *record, const struct numbers *numbers);
void record_of_member(struct record *record, const struct member *member);
/* That of the structure around 'stored', which is of this kind. */
void record_of(struct record *record, enum record_kind kind,
               const struct stored *stored);
/* What of the state stands in no list: META "state". */
void record_of_meta(struct record *record, const struct lockfsm *fsm);

/* The keys alone, appended to 'out'. */
void key_of_number(struct buffer *out, uint64_t number);
void key_of_hold(struct buffer *out, const struct hold *hold);
void key_of_wait(struct buffer *out, const struct wait *wait);
void key_of_result(struct buffer *out, const struct kept_result *kept);
void key_of_numbers(struct buffer *out, const struct numbers *numbers);

/* A record's part in the digest of the state (lockfsm/digest.c). */
uint64_t record_share(const struct record *record);
uint64_t bytes_share(enum table_map map, struct bytes key, struct bytes value);

/* Of stored.flags. */
#define STORED_CHANGED 1u  /* Stands in the list of what is to be written. */
#define STORED_IN_TABLE 2u /* The table has a record of it. */
#define STORED_SHARED 4u   /* 'share' is that of the record as it is now. */

/* Replaces the share of 'stored' in the digest. */
void stored_share(struct lockfsm *fsm, struct stored *stored, uint64_t share);
/* The table has the record as it is, and the digest its share. */
void stored_settle(struct lockfsm *fsm, enum record_kind kind,
                   struct stored *stored);

#define META_STATE_KEY "state"
#define META_DIGEST_KEY "digest"
/* As storage/snapshot.h names it (SNAPSHOT_META_APPLIED), which this folder may
 * not include. */
#define META_APPLIED_KEY "applied"

#endif /* HASP_LOCKFSM_RECORDS_H */
