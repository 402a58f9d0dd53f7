/* SPDX-License-Identifier: MIT */

/* Records the newest administrative acts as they are applied. */

#include "lockfsm/user/audit.h"

#include <inttypes.h>

#include "lockfsm/store/records.h"
#include "lockfsm/store/store.h"
#include "lockfsm/user/user.h"

struct act *act_new(struct lockfsm *fsm, uint64_t number)
{
    struct act *act = pool_take(&fsm->pool, sizeof *act);
    act->number = number;
    stored_init(&act->stored, RECORD_ACT);
    list_push_back(&fsm->acts.list, &act->in_order);
    fsm->acts.count++;
    return act;
}

static void audit_act_free(struct lockfsm *fsm, struct act *act)
{
    record_gone(fsm, &act->stored);
    list_remove(&act->in_order);
    fsm->acts.count--;
    fsm->acts.size -= structure_size(&act->stored);
    structure_free(fsm, &act->stored);
}

static struct bytes audit_copy(struct lockfsm *fsm, struct bytes text,
                               size_t max)
{
    text.size = text.size < max ? text.size : max;
    return pool_copy(&fsm->pool, text);
}

/* Requests that any client can repeat at will, or that are refused for lack of
 * a right, are not acts, because they would push out the others. Entries that
 * the cluster proposes itself are not acts either, except the start of an
 * epoch. */
static bool is_act(const struct trail *trail, const struct result *result)
{
    return trail->command != NULL && !trail->is_for_log &&
           (trail->from.size > 0 || trail->begins_life) &&
           result->code != RESULT_NO_AUTH &&
           result->code != RESULT_NO_PERMISSION;
}

void audit_note(struct lockfsm *fsm, const struct entry *command,
                const struct result *result)
{
    const struct trail *trail = &fsm->entry.trail;
    if (!is_act(trail, result)) {
        return;
    }
    struct act *act = act_new(fsm, ++fsm->acts.last);
    act->log_index = fsm->entry.log_index;
    act->wall_ms = command->wall_ms;
    act->command = audit_copy(fsm, bytes_of_text(trail->command), SIZE_MAX);
    act->user = audit_copy(fsm, trail->user, USER_NAME_SIZE_MAX);
    act->from = audit_copy(fsm, trail->from, CLIENT_NAME_SIZE_MAX);
    act->by = audit_copy(fsm, trail->by, CLIENT_NAME_SIZE_MAX);
    act->what = audit_copy(fsm, trail->what, ACT_WHAT_SIZE_MAX);
    act->code = result->code;
    act->why = result->code == RESULT_OK
                   ? (struct bytes){NULL, 0}
                   : audit_copy(fsm, result->text, ACT_WHY_SIZE_MAX);
    fsm->acts.size += structure_size(&act->stored);
    record_changed(fsm, &act->stored);
    /* The state keeps only the newest acts; audit.file, if it is set, has
     * all. */
    if (fsm->acts.count > ACT_COUNT_MAX) {
        audit_act_free(fsm, LIST_FIRST(&fsm->acts.list, struct act, in_order));
    }
}

const struct list *lockfsm_acts(const struct lockfsm *fsm)
{
    return &fsm->acts.list;
}

uint32_t lockfsm_act_count(const struct lockfsm *fsm)
{
    return fsm->acts.count;
}

uint64_t lockfsm_first_act(const struct lockfsm *fsm)
{
    return fsm->acts.first;
}

uint64_t lockfsm_last_act(const struct lockfsm *fsm)
{
    return fsm->acts.last;
}

void audit_recount(struct lockfsm *fsm)
{
    fsm->acts.size = 0;
    LIST_FOR (const struct act, act, &fsm->acts.list, in_order) {
        fsm->acts.size += structure_size(&act->stored);
    }
}

const char *audit_check(const struct lockfsm *fsm)
{
    uint64_t number = 0, log_index = 0, size = 0;
    uint32_t count = 0;
    LIST_FOR (const struct act, act, &fsm->acts.list, in_order) {
        if (count > 0 &&
            (act->number != number + 1 || act->log_index <= log_index)) {
            return "acts out of order";
        }
        number = act->number;
        log_index = act->log_index;
        size += structure_size(&act->stored);
        count++;
    }
    return (count > 0 && number != fsm->acts.last) ||
                   count != fsm->acts.count || size != fsm->acts.size ||
                   count > ACT_COUNT_MAX || fsm->acts.first > fsm->acts.last + 1
               ? "a wrong count of acts"
               : NULL;
}
