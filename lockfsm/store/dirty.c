/* SPDX-License-Identifier: MIT */

/* Records which structures the next flush must write, and which shares the
 * digest contains.
 *
 * A structure is in one of two lists of its kind: the changed ones, or the
 * settled ones, whose record in the table is the same. When a structure is
 * freed it leaves its list, and its key is recorded for deletion only if the
 * table has it (STORED_IN_TABLE): a structure that was created and freed
 * between two flushes costs the table nothing. */

#include "lockfsm/store/records.h"
#include "lockfsm/store/store.h"

void stored_init(struct stored *stored, enum record_kind kind)
{
    stored->kind = (uint8_t)kind;
    list_init(&stored->in_list);
}

static void dirty_leave(struct lockfsm *fsm, struct stored *stored)
{
    fsm->entry.steps++;
    if ((stored->flags & STORED_CHANGED) != 0) {
        CHECK(fsm->ledger.changed_count > 0);
        fsm->ledger.changed_count--;
    } else if ((stored->flags & STORED_IN_TABLE) != 0) {
        CHECK(fsm->ledger.settled_count[stored->kind] > 0);
        fsm->ledger.settled_count[stored->kind]--;
    }
    list_remove(&stored->in_list);
}

void record_changed(struct lockfsm *fsm, struct stored *stored)
{
    if ((stored->flags & STORED_CHANGED) == 0) {
        dirty_leave(fsm, stored);
        stored->flags |= STORED_CHANGED;
        list_push_back(&fsm->ledger.changed[stored->kind], &stored->in_list);
        fsm->ledger.changed_count++;
    }
    stored->flags &= (uint8_t)~STORED_SHARED;
}

void record_gone(struct lockfsm *fsm, struct stored *stored)
{
    const struct record_kind_row *kind = &record_kinds[stored->kind];
    dirty_leave(fsm, stored);
    fsm->ledger.digest -= stored->share;
    stored->share = 0;
    if ((stored->flags & STORED_IN_TABLE) == 0) {
        return;
    }
    buffer_put_u8(&fsm->ledger.deleted, (uint8_t)kind->map);
    buffer_put_u32(&fsm->ledger.deleted, 0);
    size_t start = fsm->ledger.deleted.size;
    kind->put_key(&fsm->ledger.deleted, structure_of(stored));
    store_u32(fsm->ledger.deleted.data + start - 4,
              (uint32_t)(fsm->ledger.deleted.size - start));
    fsm->ledger.deleted_count++;
}

void stored_share(struct lockfsm *fsm, struct stored *stored, uint64_t share)
{
    fsm->ledger.digest += share - stored->share;
    stored->share = share;
    stored->flags |= STORED_SHARED;
}

void stored_settle(struct lockfsm *fsm, struct stored *stored)
{
    dirty_leave(fsm, stored);
    stored->flags = STORED_IN_TABLE | STORED_SHARED;
    list_push_back(&fsm->ledger.settled[stored->kind], &stored->in_list);
    fsm->ledger.settled_count[stored->kind]++;
}
