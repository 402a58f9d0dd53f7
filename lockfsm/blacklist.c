/* SPDX-License-Identifier: MIT */

/* The blacklist: sessions, and globs of client names.
 *
 * A session that is hit keeps its holds: its heartbeats are refused, its lease
 * runs out on both sides, and only then is the lock granted on. But it gets
 * nothing more: its waits are dropped, and it may neither acquire nor convert
 * up. Each session knows the oldest entry that hits it (blacklist_index).
 *
 * A durable session has no lease to run out, and so it ends at once.
 *
 * A change that hits more sessions than an entry may take is left to SWEEP,
 * which goes through all of them in the order of their ids, from relist_at on.
 * It counts for them all at once: until SWEEP has come to a session, whoever
 * asks looks at the entries themselves (lockfsm_listed()). What of it is an
 * event, or the end of waits and of a durable session, comes with SWEEP. */

#include "lockfsm/state.h"

#include <stdlib.h>

#include "base/number.h"

/* How many sessions are looked at for the price of one place, and how many
 * entries are compared with one session. */
#define LOOKS_PER_PLACE 8
#define ENTRIES_PER_PLACE 64

struct blacklisting *blacklisting_new(struct lockfsm *fsm)
{
    struct blacklisting *entry = pool_take(&fsm->pool, sizeof *entry);
    stored_init(&entry->stored, RECORD_BLACKLISTING);
    list_push_back(&fsm->blacklist, &entry->in_order);
    fsm->blacklist_count++;
    return entry;
}

static void free_entry(struct lockfsm *fsm, struct blacklisting *entry)
{
    record_gone(fsm, &entry->stored);
    list_remove(&entry->in_order);
    CHECK(fsm->blacklist_count > 0);
    fsm->blacklist_count--;
    structure_free(fsm, &entry->stored);
}

struct search {
    struct bytes client;
    /* The beginning that all names which the entry hits have. */
    struct bytes fixed;
    struct session_array found;
    uint64_t looks_left;
    uint64_t room;
    bool is_cut; /* The entry hits more sessions than may be updated now. */
};

static bool look_at(struct ordered_node *node, void *data)
{
    struct search *search = data;
    if (!bytes_has_prefix(node->key, search->fixed)) {
        return false;
    }
    if (search->looks_left == 0 || search->found.count == search->room) {
        search->is_cut = true;
        return false;
    }
    search->looks_left--;
    if (bytes_match(search->client, node->key)) {
        session_array_add(&search->found,
                          LIST_ENTRY(node, struct session, in_order));
    }
    return true;
}

/* The price, in places, of comparing a session with all entries. */
static uint64_t cost_of_search(const struct lockfsm *fsm)
{
    return 1 + fsm->blacklist_count / ENTRIES_PER_PLACE;
}

/* Has SWEEP go through all sessions, once more if it is going through them
 * already. */
static void leave_to_sweep(struct lockfsm *fsm)
{
    if (fsm->relist_at == 0) {
        /* There were too many sessions, so there are some. */
        CHECK(fsm->sessions != NULL);
        fsm->relist_at = fsm->sessions->id;
        fsm->relist_since = fsm->log_index;
    } else if (fsm->relist_since != fsm->log_index && fsm->relist_again == 0) {
        fsm->relist_again = fsm->log_index;
    }
}

/* Finds the sessions that 'entry' hits; none if they are left to SWEEP. */
static struct session_array find_sessions(struct lockfsm *fsm,
                                          const struct blacklisting *entry)
{
    struct search search = {
        .client = entry->client,
        .fixed = bytes_fixed(entry->client),
        .looks_left = (uint64_t)fsm->slice * LOOKS_PER_PLACE,
        .room = u64_max(1, fsm->slice / cost_of_search(fsm))};
    if (entry->session != 0) {
        struct session *session = session_find(fsm, entry->session);
        if (session != NULL) {
            session_array_add(&search.found, session);
        }
        return search.found;
    }
    ordered_each(&fsm->session_order, search.fixed, 0, look_at, &search);
    if (search.is_cut) {
        free(search.found.session);
        leave_to_sweep(fsm);
        return (struct session_array){0};
    }
    session_array_sort(&search.found);
    return search.found;
}

/* Has the session's waits looked at again: one that was refused until now may
 * be granted. */
static void touch_waits(struct lockfsm *fsm, const struct session *session)
{
    LIST_FOR (struct wait, wait, &session->waits, in_session) {
        lock_touch(fsm, wait->lock);
    }
}

/* Sets 'hit', the entry that hits the session now or NULL, and tells the effect
 * if that changes whether the session is refused. */
static void update(struct lockfsm *fsm, struct session *session,
                   const struct blacklisting *hit)
{
    uint64_t was_index = session->blacklist_index;
    session->blacklist_index = hit != NULL ? hit->since_index : 0;
    if (hit == NULL && fsm->relist_at != 0) {
        touch_waits(fsm, session);
    }
    if (session->blacklist_index == was_index) {
        return;
    }
    if (session->is_durable) {
        CHECK(hit != NULL);
        session_end(fsm, session, SESSION_BLACKLISTED);
        return;
    }
    record_changed(fsm, &session->stored);
    if (hit == NULL) {
        access_recheck_session(fsm, session, NULL);
        session_tell_changed(fsm, session, "pardoned", (struct bytes){NULL, 0});
        return;
    }
    struct result result = {0};
    blacklist_refuse(fsm, hit, &result);
    access_recheck_session(fsm, session, &result);
    if (was_index == 0) {
        session_tell_changed(fsm, session, "blacklisted", result.text);
    }
}

static void update_all(struct lockfsm *fsm, struct session_array *sessions)
{
    for (uint32_t i = 0; i < sessions->count; i++) {
        struct session *session = sessions->session[i];
        update(fsm, session, blacklist_hit(fsm, session->id, session->name));
    }
    free(sessions->session);
}

uint64_t blacklist_sweep(struct lockfsm *fsm, uint64_t places)
{
    uint64_t looks = places * LOOKS_PER_PLACE;
    while (fsm->relist_at != 0 && places > 0 && looks > 0) {
        struct session *session = session_find(fsm, fsm->relist_at);
        CHECK(session != NULL); /* The place moves on when a session ends. */
        const struct blacklisting *hit = lockfsm_listed(fsm, session);
        uint64_t index = hit != NULL ? hit->since_index : 0;
        uint64_t cost = session->wait_count;
        if (index != session->blacklist_index) {
            cost += cost_of_search(fsm);
        }
        uint64_t id = fsm->relist_at;
        update(fsm, session, hit);
        if (fsm->relist_at == id) { /* The session has not ended. */
            session_pass(fsm, session, false);
        }
        places -= u64_min(cost, places);
        looks--;
    }
    return places;
}

static void remove_entry(struct lockfsm *fsm, struct blacklisting *entry)
{
    struct session_array found = find_sessions(fsm, entry);
    free_entry(fsm, entry);
    update_all(fsm, &found);
}

void blacklist_forget_session(struct lockfsm *fsm,
                              const struct session *session)
{
    if (session->blacklist_index == 0) {
        return;
    }
    LIST_FOR_SAFE (struct blacklisting, entry, &fsm->blacklist, in_order) {
        if (entry->session == session->id) {
            free_entry(fsm, entry);
        }
    }
}

static struct blacklisting *find_target(const struct lockfsm *fsm,
                                        uint64_t session, struct bytes client)
{
    LIST_FOR (struct blacklisting, entry, &fsm->blacklist, in_order) {
        if (entry->session == session && bytes_equal(entry->client, client)) {
            return entry;
        }
    }
    return NULL;
}

static const char *what_is_wrong(const struct blacklist_add_command *message)
{
    if ((message->session != 0) == (message->client.size > 0)) {
        return "either a session or a client";
    }
    if (message->client.size > CLIENT_NAME_SIZE_MAX) {
        return "client";
    }
    if (message->reason.size > VALUE_SIZE_MAX) {
        return "reason";
    }
    if (message->by.size > CLIENT_NAME_SIZE_MAX) {
        return "by";
    }
    return message->for_ms > TIME_MS_MAX ? "time" : NULL;
}

/* Adds the entry, or replaces an old one of the same target with its reason and
 * time, without a moment at which the target is free. */
static void replace_or_add(struct lockfsm *fsm,
                           const struct blacklist_add_command *message)
{
    struct bytes client = message->client;
    struct blacklisting *old = find_target(fsm, message->session, client);
    struct blacklisting *entry = blacklisting_new(fsm);
    entry->session = message->session;
    entry->client = pool_copy(&fsm->pool, client);
    entry->reason = pool_copy(&fsm->pool, message->reason);
    entry->by = pool_copy(&fsm->pool, message->by);
    entry->for_ms = message->for_ms;
    entry->since_index = fsm->log_index;
    entry->clock_ms = span_clock(fsm, entry->for_ms);
    record_changed(fsm, &entry->stored);
    struct bytes text = effect_copy(fsm, entry->reason);
    struct effect *effect = effect_add(fsm, EFFECT_BLACKLISTED);
    effect->session = entry->session;
    effect->text = text;
    effect->time_ms = entry->for_ms;
    effect->wait_index = entry->since_index;
    if (old != NULL) {
        remove_entry(fsm, old);
    }
    struct session_array found = find_sessions(fsm, entry);
    /* Updating may drop 'entry', with the last session that it names. */
    update_all(fsm, &found);
}

void apply_blacklist_add(struct lockfsm *fsm, const struct entry *command,
                         struct result *result)
{
    const struct blacklist_add_command *message = command->blacklist_add;
    if (is_wrong(result, what_is_wrong(message))) {
        return;
    }
    if (message->session != 0 && session_find(fsm, message->session) == NULL) {
        result->code = session_lost_code(fsm, message->session);
        return;
    }
    if (fsm->blacklist_count >= fsm->limits.of[LIMIT_BLACKLIST] &&
        find_target(fsm, message->session, message->client) == NULL) {
        refuse(result, RESULT_LIMIT, "blacklist");
        return;
    }
    replace_or_add(fsm, message);
}

void apply_blacklist_remove(struct lockfsm *fsm, const struct entry *command,
                            struct result *result)
{
    const struct blacklist_remove_command *message = command->blacklist_remove;
    struct blacklisting *entry = find_target(fsm, message->session,
                                             message->client);
    if (entry != NULL) {
        remove_entry(fsm, entry);
        result->count = 1;
    }
}

void apply_blacklist_over(struct lockfsm *fsm, const struct entry *command,
                          struct result *result)
{
    struct blacklisting *entry = blacklist_find(
        fsm, command->blacklist_over->since_index);
    if (entry != NULL) {
        remove_entry(fsm, entry);
        result->count = 1;
    }
}
