/* SPDX-License-Identifier: MIT */

/* What the next flush must write.
 *
 * A structure that changed stands in the list of its kind. One that goes leaves
 * the list, and only if the table knows it (DIRTY_STORED) its key is noted for
 * deletion: what came and went between two flushes costs the table nothing. */

#include "lockfsm/records.h"

static void note(struct lockfsm *fsm, enum dirty_kind kind, uint8_t *dirty,
                 struct list *node)
{
    if ((*dirty & DIRTY_LISTED) == 0) {
        *dirty |= DIRTY_LISTED;
        list_push_back(&fsm->dirty[kind], node);
        fsm->dirty_count++;
    }
}

/* True if the table has a record that must be deleted. */
static bool unlist(struct lockfsm *fsm, uint8_t *dirty, struct list *node)
{
    if ((*dirty & DIRTY_LISTED) != 0) {
        *dirty &= (uint8_t)~DIRTY_LISTED;
        list_remove(node);
        fsm->dirty_count--;
    }
    return (*dirty & DIRTY_STORED) != 0;
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
    note(fsm, DIRTY_SESSION, &session->dirty, &session->in_dirty);
}

void lock_changed(struct lockfsm *fsm, struct lock *lock)
{
    note(fsm, DIRTY_LOCK, &lock->dirty, &lock->in_dirty);
}

void hold_changed(struct lockfsm *fsm, struct hold *hold)
{
    note(fsm, DIRTY_HOLD, &hold->dirty, &hold->in_dirty);
}

void wait_changed(struct lockfsm *fsm, struct wait *wait)
{
    note(fsm, DIRTY_WAIT, &wait->dirty, &wait->in_dirty);
}

void fence_changed(struct lockfsm *fsm, struct fence *fence)
{
    note(fsm, DIRTY_FENCE, &fence->dirty, &fence->in_dirty);
}

void blacklisting_changed(struct lockfsm *fsm, struct blacklisting *entry)
{
    note(fsm, DIRTY_BLACKLISTING, &entry->dirty, &entry->in_dirty);
}

void result_changed(struct lockfsm *fsm, struct kept_result *kept)
{
    note(fsm, DIRTY_RESULT, &kept->dirty, &kept->in_dirty);
}

void asker_changed(struct lockfsm *fsm, struct asker *asker)
{
    note(fsm, DIRTY_ASKER, &asker->dirty, &asker->in_dirty);
}

void member_changed(struct lockfsm *fsm, struct member *member)
{
    note(fsm, DIRTY_MEMBER, &member->dirty, &member->in_dirty);
}

void session_gone(struct lockfsm *fsm, struct session *session)
{
    if (unlist(fsm, &session->dirty, &session->in_dirty)) {
        size_t start = begin_deletion(fsm, TABLE_SESSIONS);
        key_of_number(&fsm->deleted, session->id);
        end_deletion(fsm, start);
    }
}

void lock_gone(struct lockfsm *fsm, struct lock *lock)
{
    if (unlist(fsm, &lock->dirty, &lock->in_dirty)) {
        size_t start = begin_deletion(fsm, TABLE_LOCKS);
        buffer_put_bytes(&fsm->deleted, lock->name);
        end_deletion(fsm, start);
    }
}

void hold_gone(struct lockfsm *fsm, struct hold *hold)
{
    if (unlist(fsm, &hold->dirty, &hold->in_dirty)) {
        size_t start = begin_deletion(fsm, TABLE_HOLDS);
        key_of_hold(&fsm->deleted, hold);
        end_deletion(fsm, start);
    }
}

void wait_gone(struct lockfsm *fsm, struct wait *wait)
{
    if (unlist(fsm, &wait->dirty, &wait->in_dirty)) {
        size_t start = begin_deletion(fsm, TABLE_WAITS);
        key_of_wait(&fsm->deleted, wait);
        end_deletion(fsm, start);
    }
}

void blacklisting_gone(struct lockfsm *fsm, struct blacklisting *entry)
{
    if (unlist(fsm, &entry->dirty, &entry->in_dirty)) {
        size_t start = begin_deletion(fsm, TABLE_BLACKLIST);
        key_of_number(&fsm->deleted, entry->since_index);
        end_deletion(fsm, start);
    }
}

void result_gone(struct lockfsm *fsm, struct kept_result *kept)
{
    if (unlist(fsm, &kept->dirty, &kept->in_dirty)) {
        size_t start = begin_deletion(fsm, TABLE_RESULTS);
        key_of_result(&fsm->deleted, kept);
        end_deletion(fsm, start);
    }
}

void asker_gone(struct lockfsm *fsm, struct asker *asker)
{
    if (unlist(fsm, &asker->dirty, &asker->in_dirty)) {
        size_t start = begin_deletion(fsm, TABLE_RESULTS);
        key_of_asker(&fsm->deleted, asker);
        end_deletion(fsm, start);
    }
}

void member_gone(struct lockfsm *fsm, struct member *member)
{
    if (unlist(fsm, &member->dirty, &member->in_dirty)) {
        size_t start = begin_deletion(fsm, TABLE_MEMBERS);
        key_of_number(&fsm->deleted, member->node);
        end_deletion(fsm, start);
    }
}
