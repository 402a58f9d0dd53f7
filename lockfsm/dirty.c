/* SPDX-License-Identifier: MIT */

/* What the next flush must write, and what of the digest is known.
 *
 * A structure stands in one of two lists of its kind: that of the changed ones,
 * or that of the settled ones, whose record in the table is the same. One that
 * goes leaves its list, and only if the table knows it (STORED_IN_TABLE) its
 * key is noted for deletion: what came and went between two flushes costs the
 * table nothing. */

#include "lockfsm/records.h"

void stored_init(struct stored *stored)
{
    list_init(&stored->in_list);
}

static void leave(struct lockfsm *fsm, enum record_kind kind,
                  struct stored *stored)
{
    if ((stored->flags & STORED_CHANGED) != 0) {
        fsm->changed_count--;
    } else if ((stored->flags & STORED_IN_TABLE) != 0) {
        fsm->settled_count[kind]--;
    }
    list_remove(&stored->in_list);
}

static void note(struct lockfsm *fsm, enum record_kind kind,
                 struct stored *stored)
{
    if ((stored->flags & STORED_CHANGED) == 0) {
        leave(fsm, kind, stored);
        stored->flags |= STORED_CHANGED;
        list_push_back(&fsm->changed[kind], &stored->in_list);
        fsm->changed_count++;
    }
    stored->flags &= (uint8_t)~STORED_SHARED;
}

/* True if the table has a record that must be deleted. */
static bool unlist(struct lockfsm *fsm, enum record_kind kind,
                   struct stored *stored)
{
    leave(fsm, kind, stored);
    fsm->digest -= stored->share;
    stored->share = 0;
    return (stored->flags & STORED_IN_TABLE) != 0;
}

void stored_share(struct lockfsm *fsm, struct stored *stored, uint64_t share)
{
    fsm->digest += share - stored->share;
    stored->share = share;
    stored->flags |= STORED_SHARED;
}

void stored_settle(struct lockfsm *fsm, enum record_kind kind,
                   struct stored *stored)
{
    leave(fsm, kind, stored);
    stored->flags = STORED_IN_TABLE | STORED_SHARED;
    list_push_back(&fsm->settled[kind], &stored->in_list);
    fsm->settled_count[kind]++;
}

/* Begins the note of a deletion: the key follows, then end_deletion(). */
static size_t begin_deletion(struct lockfsm *fsm, enum table_map map)
{
    buffer_put_u8(&fsm->deleted, (uint8_t)map);
    buffer_put_u32(&fsm->deleted, 0);
    return fsm->deleted.size;
}

static void end_deletion(struct lockfsm *fsm, size_t start)
{
    store_u32(fsm->deleted.data + start - 4,
              (uint32_t)(fsm->deleted.size - start));
    fsm->deleted_count++;
}

void session_changed(struct lockfsm *fsm, struct session *session)
{
    note(fsm, RECORD_SESSION, &session->stored);
}

void lock_changed(struct lockfsm *fsm, struct lock *lock)
{
    note(fsm, RECORD_LOCK, &lock->stored);
}

void hold_changed(struct lockfsm *fsm, struct hold *hold)
{
    note(fsm, RECORD_HOLD, &hold->stored);
}

void wait_changed(struct lockfsm *fsm, struct wait *wait)
{
    note(fsm, RECORD_WAIT, &wait->stored);
}

void fence_changed(struct lockfsm *fsm, struct fence *fence)
{
    note(fsm, RECORD_FENCE, &fence->stored);
}

void blacklisting_changed(struct lockfsm *fsm, struct blacklisting *entry)
{
    note(fsm, RECORD_BLACKLISTING, &entry->stored);
}

void result_changed(struct lockfsm *fsm, struct kept_result *kept)
{
    note(fsm, RECORD_RESULT, &kept->stored);
}

void numbers_changed(struct lockfsm *fsm, struct numbers *numbers)
{
    note(fsm, RECORD_NUMBERS, &numbers->stored);
}

void member_changed(struct lockfsm *fsm, struct member *member)
{
    note(fsm, RECORD_MEMBER, &member->stored);
}

void session_gone(struct lockfsm *fsm, struct session *session)
{
    if (unlist(fsm, RECORD_SESSION, &session->stored)) {
        size_t start = begin_deletion(fsm, TABLE_SESSIONS);
        key_of_number(&fsm->deleted, session->id);
        end_deletion(fsm, start);
    }
}

void lock_gone(struct lockfsm *fsm, struct lock *lock)
{
    if (unlist(fsm, RECORD_LOCK, &lock->stored)) {
        size_t start = begin_deletion(fsm, TABLE_LOCKS);
        buffer_put_bytes(&fsm->deleted, lock->name);
        end_deletion(fsm, start);
    }
}

void hold_gone(struct lockfsm *fsm, struct hold *hold)
{
    if (unlist(fsm, RECORD_HOLD, &hold->stored)) {
        size_t start = begin_deletion(fsm, TABLE_HOLDS);
        key_of_hold(&fsm->deleted, hold);
        end_deletion(fsm, start);
    }
}

void wait_gone(struct lockfsm *fsm, struct wait *wait)
{
    if (unlist(fsm, RECORD_WAIT, &wait->stored)) {
        size_t start = begin_deletion(fsm, TABLE_WAITS);
        key_of_wait(&fsm->deleted, wait);
        end_deletion(fsm, start);
    }
}

void fence_gone(struct lockfsm *fsm, struct fence *fence)
{
    if (unlist(fsm, RECORD_FENCE, &fence->stored)) {
        size_t start = begin_deletion(fsm, TABLE_FENCES);
        buffer_put_bytes(&fsm->deleted, fence->resource);
        end_deletion(fsm, start);
    }
}

void blacklisting_gone(struct lockfsm *fsm, struct blacklisting *entry)
{
    if (unlist(fsm, RECORD_BLACKLISTING, &entry->stored)) {
        size_t start = begin_deletion(fsm, TABLE_BLACKLIST);
        key_of_number(&fsm->deleted, entry->since_index);
        end_deletion(fsm, start);
    }
}

void result_gone(struct lockfsm *fsm, struct kept_result *kept)
{
    if (unlist(fsm, RECORD_RESULT, &kept->stored)) {
        size_t start = begin_deletion(fsm, TABLE_RESULTS);
        key_of_result(&fsm->deleted, kept);
        end_deletion(fsm, start);
    }
}

void numbers_gone(struct lockfsm *fsm, struct numbers *numbers)
{
    if (unlist(fsm, RECORD_NUMBERS, &numbers->stored)) {
        size_t start = begin_deletion(fsm, TABLE_RESULTS);
        key_of_numbers(&fsm->deleted, numbers);
        end_deletion(fsm, start);
    }
}

void member_gone(struct lockfsm *fsm, struct member *member)
{
    if (unlist(fsm, RECORD_MEMBER, &member->stored)) {
        size_t start = begin_deletion(fsm, TABLE_MEMBERS);
        key_of_number(&fsm->deleted, member->node);
        end_deletion(fsm, start);
    }
}
