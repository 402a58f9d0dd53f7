/* SPDX-License-Identifier: MIT */

/* The cluster's own: its id and life, members' data directories, the feature
 * level, the quarantine after a restore. */

#include "base/number.h"
#include "lockfsm/state.h"

static struct member *member_find(const struct lockfsm *fsm, uint64_t node)
{
    LIST_FOR (struct member, member, &fsm->members, in_order) {
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
    struct list *at = fsm->members.next;
    while (at != &fsm->members &&
           LIST_ENTRY(at, struct member, in_order)->node < node) {
        at = at->next;
    }
    list_insert_before(at, &member->in_order);
    return member;
}

void member_count_in(struct lockfsm *fsm, const struct member *member)
{
    if (member->removed_index == 0) {
        fsm->member_count++;
    } else {
        fsm->removed_count++;
    }
}

static void count_out(struct lockfsm *fsm, const struct member *member)
{
    if (member->removed_index == 0) {
        CHECK(fsm->member_count > 0);
        fsm->member_count--;
    } else {
        CHECK(fsm->removed_count > 0);
        fsm->removed_count--;
    }
}

void member_free(struct lockfsm *fsm, struct member *member)
{
    record_gone(fsm, &member->stored);
    count_out(fsm, member);
    list_remove(&member->in_order);
    structure_free(fsm, &member->stored);
}

/* A member that the newest configuration names, or NULL. */
static struct member *current_member(const struct lockfsm *fsm, uint64_t node)
{
    struct member *member = member_find(fsm, node);
    return member != NULL && member->removed_index == 0 ? member : NULL;
}

/* Registers the member's first data directory, which it keeps until the member
 * is removed. */
static void register_member(struct lockfsm *fsm, struct member *member,
                            uint64_t incarnation)
{
    CHECK(member->removed_index == 0 && member->added_index != 0);
    if (member->incarnation != 0 || incarnation == 0) {
        return;
    }
    member->incarnation = incarnation;
    record_changed(fsm, &member->stored);
    struct effect *effect = effect_add(fsm, EFFECT_REGISTERED);
    effect->count = member->node;
    effect->token = incarnation;
}

static struct member *add_member(struct lockfsm *fsm, uint64_t node,
                                 uint64_t log_index)
{
    struct member *member = member_obtain(fsm, node);
    if (member->removed_index != 0) {
        count_out(fsm, member);
        pool_drop(&fsm->pool, &member->removed_by);
        member->removed_index = member->removed_ms = 0;
        member->added_index = member->incarnation = 0;
    }
    if (member->added_index == 0) {
        member->added_index = log_index;
        member_count_in(fsm, member);
        record_changed(fsm, &member->stored);
    }
    return member;
}

/* Keeps a trace of a removed member, in the place of the one that was removed
 * longest ago. */
static void remove_member(struct lockfsm *fsm, struct member *member,
                          uint64_t log_index)
{
    CHECK(member->removed_index == 0 && member->added_index < log_index);
    count_out(fsm, member);
    member->removed_index = log_index;
    member_count_in(fsm, member);
    record_changed(fsm, &member->stored);
    if (fsm->removed_count <= REMOVED_COUNT_MAX) {
        return;
    }
    struct member *oldest = member;
    LIST_FOR (struct member, other, &fsm->members, in_order) {
        if (other->removed_index != 0 &&
            other->removed_index < oldest->removed_index) {
            oldest = other;
        }
    }
    member_free(fsm, oldest);
}

static bool is_named(const uint64_t *nodes, uint32_t count, uint64_t node)
{
    for (uint32_t i = 0; i < count; i++) {
        if (nodes[i] == node) {
            return true;
        }
    }
    return false;
}

void lockfsm_change(struct lockfsm *fsm, uint64_t log_index, uint64_t term,
                    const uint64_t *nodes, uint32_t count)
{
    lockfsm_skip(fsm, log_index, term);
    LIST_FOR_SAFE (struct member, member, &fsm->members, in_order) {
        if (member->removed_index == 0 &&
            !is_named(nodes, count, member->node)) {
            remove_member(fsm, member, log_index);
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        (void)add_member(fsm, nodes[i], log_index);
    }
}

static void raise_level(struct lockfsm *fsm, uint32_t level)
{
    if (level > fsm->feature_level) {
        fsm->feature_level = level;
    }
}

/* A new life takes its id, and a base above every token of the life before. The
 * gap is added to the date as well (which BEGIN brings), so that of two lives
 * begun from one file the later one has the larger tokens. A cluster begins
 * with the level of its founders; one that is restored keeps its own. */
static void begin_life(struct lockfsm *fsm, const struct begin_command *begin,
                       struct result *result)
{
    struct bytes id = begin->cluster_id;
    uint64_t base = begin->token_base;
    if (fsm->is_new_life) {
        base = u64_max(base, fsm->token_base);
        base += base <= TOKEN_BASE_MAX ? LIFE_TOKEN_GAP : 0;
    }
    if (id.size != CLUSTER_ID_SIZE || !cluster_id_is_known(id.data)) {
        refuse(result, RESULT_BAD_ARGUMENT, "cluster id");
        return;
    }
    if (base > TOKEN_BASE_MAX) {
        refuse(result, RESULT_BAD_ARGUMENT, "token base");
        return;
    }
    memcpy(fsm->cluster_id, id.data, sizeof fsm->cluster_id);
    fsm->is_begun = true;
    fsm->token_base = base;
    former_recount(fsm);
    if (fsm->is_new_life) {
        /* What was granted after the backup is lost. */
        LIST_FOR (struct session, session, &fsm->durable, in_durable) {
            session_drop_notices(fsm, session);
        }
    }
    if (!fsm->is_new_life) {
        raise_level(fsm, begin->feature_level);
        users_found(fsm, begin->is_access_required);
    }
    if (fsm->is_new_life && fsm->quarantine_ms > 0) {
        fsm->quarantine_index = fsm->log_index;
        fsm->quarantine_clock_ms = fsm->clock_ms;
    }
    fsm->is_new_life = false;
}

/* Reads the limits that BEGIN brings; false if one of them is no limit of this
 * version. */
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
    clock_begin(fsm, begin->base_index, begin->elapsed_ms);
    if (!read_limits(begin, &limits)) {
        refuse(result, RESULT_BAD_ARGUMENT, "limit");
        return;
    }
    if (!fsm->is_begun && begin->cluster_id.size > 0) {
        begin_life(fsm, begin, result);
        if (result->code != RESULT_OK) {
            return;
        }
    }
    if (fsm->limit_count == 0 && begin->limit_count > 0) {
        fsm->limits = limits;
        fsm->limit_count = LIMIT_COUNT;
    }
    /* A restore drops all members, and the first leader adds itself. */
    struct member *member = fsm->member_count == 0
                                ? add_member(fsm, begin->node, fsm->log_index)
                                : current_member(fsm, begin->node);
    if (member != NULL) {
        /* The leader has the whole log, so its directory belongs to the member
         * that was added last under this id. */
        register_member(fsm, member, begin->incarnation);
    }
    result->count = begin->node;
    effect_add(fsm, EFFECT_BEGUN)->count = begin->node;
}

void apply_register_node(struct lockfsm *fsm, const struct entry *command,
                         struct result *result)
{
    const struct register_node_command *message = command->register_node;
    struct member *member = current_member(fsm, message->node);
    result->count = member != NULL &&
                    member->added_index == message->added_index &&
                    member->incarnation == 0;
    if (result->count == 1) {
        register_member(fsm, member, message->incarnation);
    }
}

void apply_set_feature(struct lockfsm *fsm, const struct entry *command,
                       struct result *result)
{
    raise_level(fsm, command->set_feature->level);
    result->count = lockfsm_feature_level(fsm);
}

void apply_act(struct lockfsm *fsm, const struct entry *command,
               struct result *result)
{
    const struct act_command *act = command->act;
    struct member *member = member_find(fsm, act->member);
    result->count = act->member;
    if (act->kind != ACT_REMOVE || member == NULL ||
        member->removed_index == 0 || member->removed_by.size > 0) {
        return;
    }
    /* A removed member is told who has removed it. */
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
    if (fsm->quarantine_index == 0 ||
        fsm->quarantine_index != command->quarantine_over->since_index) {
        return;
    }
    fsm->quarantine_index = 0;
    fsm->quarantine_ms = 0;
    fsm->quarantine_clock_ms = 0;
    lock_touch_all(fsm);
    result->count = 1;
}

uint64_t lockfsm_incarnation(const struct lockfsm *fsm, uint64_t node)
{
    const struct member *member = current_member(fsm, node);
    return member != NULL ? member->incarnation : 0;
}

uint64_t lockfsm_added_index(const struct lockfsm *fsm, uint64_t node)
{
    const struct member *member = current_member(fsm, node);
    return member != NULL ? member->added_index : 0;
}

bool lockfsm_removal(const struct lockfsm *fsm, uint64_t node,
                     struct removal *ret_removal)
{
    const struct member *member = member_find(fsm, node);
    if (member == NULL || member->removed_index == 0) {
        return false;
    }
    *ret_removal = (struct removal){.incarnation = member->incarnation,
                                    .log_index = member->removed_index,
                                    .wall_ms = member->removed_ms,
                                    .by = member->removed_by};
    return true;
}
