/* SPDX-License-Identifier: MIT */

/* Entries about the cluster itself: its id and epoch, the members' data
 * directories, the feature level, the quarantine after a restore. */

#include <string.h>

#include "base/minmax.h"
#include "lockfsm/lock/lock.h"
#include "lockfsm/session/session.h"
#include "lockfsm/store/store.h"
#include "lockfsm/user/user.h"

static struct member *member_find(const struct lockfsm *fsm, uint64_t node)
{
    LIST_FOR (struct member, member, &fsm->members.list, in_order) {
        if (member->node == node) {
            return member;
        }
    }
    return NULL;
}

struct member *member_obtain(struct lockfsm *fsm, uint64_t node)
{
    struct member *member = member_find(fsm, node);
    if (member != NULL) {
        return member;
    }
    member = pool_take(&fsm->pool, sizeof *member);
    member->node = node;
    stored_init(&member->stored, RECORD_MEMBER);
    struct list *at = fsm->members.list.next;
    while (at != &fsm->members.list &&
           LIST_ENTRY(at, struct member, in_order)->node < node) {
        at = at->next;
    }
    list_insert_before(at, &member->in_order);
    return member;
}

void member_count_in(struct lockfsm *fsm, const struct member *member)
{
    if (member->incarnation != 0) {
        fsm->members.count++;
    } else {
        fsm->members.removed_count++;
    }
}

static void count_out(struct lockfsm *fsm, const struct member *member)
{
    if (member->incarnation != 0) {
        CHECK(fsm->members.count > 0);
        fsm->members.count--;
    } else {
        CHECK(fsm->members.removed_count > 0);
        fsm->members.removed_count--;
    }
}

void member_free(struct lockfsm *fsm, struct member *member)
{
    record_gone(fsm, &member->stored);
    count_out(fsm, member);
    list_remove(&member->in_order);
    structure_free(fsm, &member->stored);
}

static void cluster_add_member(struct lockfsm *fsm,
                               const struct lockfsm_member *named)
{
    struct member *member = member_obtain(fsm, named->node);
    if (member->incarnation != 0) {
        return; /* Unchanged: the entry has removed another node. */
    }
    if (member->removed_incarnation != 0) {
        count_out(fsm, member);
    }
    member->incarnation = named->incarnation;
    member_count_in(fsm, member);
    record_changed(fsm, &member->stored);
}

/* Keeps the directory that was removed last when another one follows; drops the
 * oldest if there are too many. */
static void cluster_keep_removed(struct lockfsm *fsm, struct member *member)
{
    uint8_t all[REMOVED_BEFORE_SIZE_MAX];
    struct bytes kept = member->removed_before;
    if (member->removed_incarnation == 0) {
        return;
    }
    if (kept.size + 8 > sizeof all) {
        kept = bytes_of(kept.data + 8, kept.size - 8);
    }
    if (kept.size > 0) {
        memcpy(all, kept.data, kept.size);
    }
    store_u64_be(all + kept.size, member->removed_incarnation);
    kept = bytes_of(all, kept.size + 8);
    pool_drop(&fsm->pool, &member->removed_before);
    member->removed_before = pool_copy(&fsm->pool, kept);
}

/* Records the removal of a member. */
static void remove_member(struct lockfsm *fsm, struct member *member,
                          uint64_t log_index)
{
    CHECK(member->incarnation != 0 && member->removed_index < log_index);
    count_out(fsm, member);
    pool_drop(&fsm->pool, &member->removed_by);
    cluster_keep_removed(fsm, member);
    member->removed_incarnation = member->incarnation;
    member->removed_index = log_index;
    member->removed_ms = 0;
    member->incarnation = 0;
    member_count_in(fsm, member);
    record_changed(fsm, &member->stored);
}

/* Drops the record of the member that was removed longest ago. */
static void cluster_forget_oldest(struct lockfsm *fsm)
{
    struct member *oldest = NULL;
    LIST_FOR (struct member, member, &fsm->members.list, in_order) {
        if (member->incarnation == 0 &&
            (oldest == NULL || member->removed_index < oldest->removed_index)) {
            oldest = member;
        }
    }
    CHECK(oldest != NULL);
    member_free(fsm, oldest);
}

static bool cluster_is_named(const struct lockfsm_member *members,
                             uint32_t count, const struct member *member)
{
    for (uint32_t i = 0; i < count; i++) {
        if (members[i].node == member->node &&
            members[i].incarnation == member->incarnation) {
            return true;
        }
    }
    return false;
}

void lockfsm_change(struct lockfsm *fsm, uint64_t log_index, uint64_t term,
                    const struct lockfsm_member *members, uint32_t count)
{
    lockfsm_skip(fsm, log_index, term);
    LIST_FOR (struct member, member, &fsm->members.list, in_order) {
        if (member->incarnation != 0 &&
            !cluster_is_named(members, count, member)) {
            remove_member(fsm, member, log_index);
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        cluster_add_member(fsm, &members[i]);
    }
    while (fsm->members.removed_count > REMOVED_COUNT_MAX) {
        cluster_forget_oldest(fsm);
    }
}

static void raise_level(struct lockfsm *fsm, uint32_t level)
{
    if (level > fsm->feature_level) {
        fsm->feature_level = level;
    }
}

/* Gives a new epoch its id, and a base above every token of the epoch before.
 * The gap is also added to the date (which BEGIN brings), so that of two epochs
 * restored from one file the later one has the larger tokens. A new cluster has
 * the level of its founders; a restored one keeps its own. */
static void begin_life(struct lockfsm *fsm, const struct begin_command *begin,
                       struct result *result)
{
    struct bytes id = begin->cluster_id;
    uint64_t base = begin->token_base;
    if (fsm->epoch.is_new_life) {
        base = u64_max(base, fsm->epoch.token_base);
        base += base <= TOKEN_BASE_MAX ? LIFE_TOKEN_GAP : 0;
    }
    if (id.size != CLUSTER_ID_SIZE || !cluster_id_is_known(id.data)) {
        entry_refuse(result, RESULT_BAD_ARGUMENT, "cluster id");
        return;
    }
    if (base > TOKEN_BASE_MAX) {
        entry_refuse(result, RESULT_BAD_ARGUMENT, "token base");
        return;
    }
    memcpy(fsm->epoch.cluster_id, id.data, sizeof fsm->epoch.cluster_id);
    fsm->epoch.is_begun = true;
    fsm->epoch.token_base = base;
    former_recount(fsm);
    if (fsm->epoch.is_new_life) {
        /* Notices about grants after the backup are lost. */
        LIST_FOR (struct session, session, &fsm->durable, in_durable) {
            session_drop_notices(fsm, session);
        }
    }
    if (!fsm->epoch.is_new_life) {
        raise_level(fsm, begin->feature_level);
        users_found(fsm, begin->is_access_required);
    }
    if (fsm->epoch.is_new_life && fsm->epoch.quarantine_ms > 0) {
        fsm->epoch.quarantine_index = fsm->entry.log_index;
        fsm->epoch.quarantine_clock_ms = fsm->clock.ms;
    }
    fsm->epoch.is_new_life = false;
}

/* Reads the limits of a BEGIN; false if this version does not know one of them.
 */
static bool read_limits(const struct begin_command *begin,
                        struct lockfsm_limits *ret_limits)
{
    *ret_limits = lockfsm_default_limits;
    for (uint32_t i = 0; i < begin->limit_count; i++) {
        if (!limit_set(ret_limits, i, begin->limits[i])) {
            return false;
        }
    }
    return true;
}

void apply_begin(struct lockfsm *fsm, const struct entry *command,
                 struct result *result)
{
    const struct begin_command *begin = command->begin;
    struct lockfsm_limits limits;
    /* Before any refusal: the log's clock counts every BEGIN, and the next TIME
     * names it as its base ("The rules of time"). */
    clock_begin(fsm, begin->base_index, begin->elapsed_ms);
    if (!read_limits(begin, &limits)) {
        entry_refuse(result, RESULT_BAD_ARGUMENT, "limit");
        return;
    }
    if (!fsm->epoch.is_begun && begin->cluster_id.size > 0) {
        begin_life(fsm, begin, result);
        if (result->code != RESULT_OK) {
            return;
        }
    }
    if (fsm->limit_count == 0 && begin->limit_count > 0) {
        fsm->limits = limits;
        fsm->limit_count = LIMIT_COUNT;
    }
    result->count = begin->node;
    effect_add(fsm, EFFECT_BEGUN)->count = begin->node;
}

void apply_set_feature(struct lockfsm *fsm, const struct entry *command,
                       struct result *result)
{
    raise_level(fsm, command->set_feature->level);
    result->count = lockfsm_feature_level(fsm);
}

/* Each step of a replacement is logged, the first one before the removal. So
 * any leader can tell a replaced voter from one that is gone for good, and
 * knows where it was and which directory it verified. What an operator does
 * with the member by another command ends the replacement. */
static void cluster_note_replacement(struct lockfsm *fsm, struct member *member,
                                     const struct act_command *act)
{
    if (act->kind == ACT_REPLACE && act->incarnation != 0 &&
        act->address.size <= REPLACED_AT_SIZE_MAX) {
        pool_drop(&fsm->pool, &member->replaced_at);
        member->replaced_at = pool_copy(&fsm->pool, act->address);
        member->replaced_by = act->incarnation;
    } else if (act->kind != ACT_REPLACE && act->kind != ACT_LOGIN &&
               member->replaced_by != 0) {
        pool_drop(&fsm->pool, &member->replaced_at);
        member->replaced_by = 0;
    } else {
        return;
    }
    record_changed(fsm, &member->stored);
}

void apply_act(struct lockfsm *fsm, const struct entry *command,
               struct result *result)
{
    const struct act_command *act = command->act;
    struct member *member = member_find(fsm, act->member);
    result->count = act->member;
    if (member != NULL) {
        cluster_note_replacement(fsm, member, act);
    }
    /* REPLACE is each step of a replacement, one of which is the removal. */
    bool removes = act->kind == ACT_REMOVE ||
                   (act->kind == ACT_REPLACE && member != NULL &&
                    member->incarnation == 0);
    if (!removes || member == NULL || member->removed_index == 0 ||
        member->removed_by.size > 0) {
        return;
    }
    /* The removed node receives this name when it contacts a member. */
    struct bytes by = command->by.size > 0 ? command->by : command->from;
    by.size = by.size <= CLIENT_NAME_SIZE_MAX ? by.size : CLIENT_NAME_SIZE_MAX;
    member->removed_by = pool_copy(&fsm->pool, by);
    member->removed_ms = act->wall_ms;
    record_changed(fsm, &member->stored);
}

#ifdef HASP_FEATURE_LEVEL_EXTRA
void apply_trial(struct lockfsm *fsm, const struct entry *command,
                 struct result *result)
{
    fsm->trials += command->trial->step;
    result->count = fsm->trials;
}
#endif

void apply_quarantine_over(struct lockfsm *fsm, const struct entry *command,
                           struct result *result)
{
    if (fsm->epoch.quarantine_index == 0 ||
        fsm->epoch.quarantine_index != command->quarantine_over->since_index) {
        return;
    }
    fsm->epoch.quarantine_index = 0;
    fsm->epoch.quarantine_ms = 0;
    fsm->epoch.quarantine_clock_ms = 0;
    sweep_cut(fsm);
    result->count = 1;
}

uint64_t lockfsm_incarnation(const struct lockfsm *fsm, uint64_t node)
{
    const struct member *member = member_find(fsm, node);
    return member != NULL ? member->incarnation : 0;
}

bool lockfsm_removal(const struct lockfsm *fsm, uint64_t node,
                     struct removal *ret_removal)
{
    const struct member *member = member_find(fsm, node);
    if (member == NULL || member->removed_incarnation == 0) {
        return false;
    }
    *ret_removal = (struct removal){.incarnation = member->removed_incarnation,
                                    .log_index = member->removed_index,
                                    .wall_ms = member->removed_ms,
                                    .by = member->removed_by};
    return true;
}

bool lockfsm_was_removed(const struct lockfsm *fsm, uint64_t node,
                         uint64_t incarnation)
{
    const struct member *member = member_find(fsm, node);
    if (member == NULL || incarnation == 0) {
        return false;
    }
    for (size_t at = 0; at + 8 <= member->removed_before.size; at += 8) {
        if (load_u64_be(member->removed_before.data + at) == incarnation) {
            return true;
        }
    }
    return member->removed_incarnation == incarnation;
}

struct bytes lockfsm_replaced_at(const struct lockfsm *fsm, uint64_t node)
{
    const struct member *member = member_find(fsm, node);
    return member != NULL ? member->replaced_at : (struct bytes){.size = 0};
}

uint64_t lockfsm_replaced_by(const struct lockfsm *fsm, uint64_t node)
{
    const struct member *member = member_find(fsm, node);
    return member != NULL ? member->replaced_by : 0;
}

uint64_t lockfsm_next_replaced(const struct lockfsm *fsm, uint64_t node)
{
    LIST_FOR (const struct member, member, &fsm->members.list, in_order) {
        if (member->node > node && member->replaced_by != 0) {
            return member->node;
        }
    }
    return 0;
}
