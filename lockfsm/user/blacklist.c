/* SPDX-License-Identifier: MIT */

/* The blacklist: sessions, and globs of client names.
 *
 * A session that matches keeps its holds: its heartbeats are refused, its lease
 * runs out on both sides, and only then is the lock granted to others. But it
 * gets nothing more: its waits are dropped, and it may neither acquire nor
 * upgrade. Each session stores the oldest entry that matches it
 * (blacklist_index).
 *
 * A durable session has no lease that could run out, so it ends at once.
 *
 * reevaluate.c applies a change to the matching sessions. */

#include "lockfsm/session/session.h"
#include "lockfsm/store/store.h"
#include "lockfsm/user/user.h"

struct matching {
    struct bytes client;
    /* The common prefix of all names that the entry matches. */
    struct bytes fixed;
    struct relisting relisting;
};

static bool blacklist_look_at(struct treap_node *node, void *data)
{
    struct matching *matching = data;
    return bytes_has_prefix(node->key, matching->fixed) &&
           reevaluate_look(&matching->relisting,
                           LIST_ENTRY(node, struct session, in_order),
                           bytes_match(matching->client, node->key));
}

/* The sessions that 'entry' matches. */
static struct relisting
blacklist_find_sessions(struct lockfsm *fsm, const struct blacklisting *entry)
{
    struct matching matching = {.client = entry->client,
                                .fixed = bytes_fixed(entry->client),
                                .relisting = reevaluate_begin(fsm)};
    if (entry->session == 0) {
        treap_each(&fsm->session_order, matching.fixed, blacklist_look_at,
                   &matching);
    } else if (session_find(fsm, entry->session) != NULL) {
        reevaluate_look(&matching.relisting, session_find(fsm, entry->session),
                        true);
    }
    return matching.relisting;
}

static void blacklist_remove_entry(struct lockfsm *fsm,
                                   struct blacklisting *entry)
{
    struct relisting found = blacklist_find_sessions(fsm, entry);
    blacklisting_free(fsm, entry);
    reevaluate_end(fsm, &found);
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

static const char *
blacklist_what_is_wrong(const struct blacklist_add_command *message)
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
 * time, without a gap in which the target is free. */
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
    entry->since_index = fsm->entry.log_index;
    entry->clock_ms = span_clock(fsm, entry->for_ms);
    record_changed(fsm, &entry->stored);
    struct bytes text = effect_copy(fsm, entry->reason);
    struct effect *effect = effect_add(fsm, EFFECT_BLACKLISTED);
    effect->session = entry->session;
    effect->text = text;
    effect->time_ms = entry->for_ms;
    effect->wait_index = entry->since_index;
    if (old != NULL) {
        blacklist_remove_entry(fsm, old);
    }
    struct relisting found = blacklist_find_sessions(fsm, entry);
    /* From here on the entry may be freed together with the session that it
     * names. */
    reevaluate_end(fsm, &found);
}

void apply_blacklist_add(struct lockfsm *fsm, const struct entry *command,
                         struct result *result)
{
    const struct blacklist_add_command *message = command->blacklist_add;
    if (is_wrong(result, blacklist_what_is_wrong(message))) {
        return;
    }
    if (message->session != 0 && session_find(fsm, message->session) == NULL) {
        result->code = session_lost_code(fsm, message->session);
        return;
    }
    if (fsm->blacklist_count >= fsm->limits.of[LIMIT_BLACKLIST] &&
        find_target(fsm, message->session, message->client) == NULL) {
        entry_refuse(result, RESULT_LIMIT, "blacklist");
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
        blacklist_remove_entry(fsm, entry);
        result->count = 1;
    }
}

void apply_blacklist_over(struct lockfsm *fsm, const struct entry *command,
                          struct result *result)
{
    struct blacklisting *entry = blacklist_find(
        fsm, command->blacklist_over->since_index);
    if (entry != NULL) {
        blacklist_remove_entry(fsm, entry);
        result->count = 1;
    }
}
