/* SPDX-License-Identifier: MIT */

/* Entries of the blacklist as structures, and which sessions are refused:
 * because an entry matches, even before SWEEP has visited the session, or
 * because the user is disabled. blacklist.c changes the blacklist. */

#include "lockfsm/store/store.h"
#include "lockfsm/user/user.h"

struct blacklisting *blacklisting_new(struct lockfsm *fsm)
{
    struct blacklisting *entry = pool_take(&fsm->pool, sizeof *entry);
    stored_init(&entry->stored, RECORD_BLACKLISTING);
    list_push_back(&fsm->blacklist, &entry->in_order);
    fsm->blacklist_count++;
    return entry;
}

void blacklisting_free(struct lockfsm *fsm, struct blacklisting *entry)
{
    record_gone(fsm, &entry->stored);
    list_remove(&entry->in_order);
    CHECK(fsm->blacklist_count > 0);
    fsm->blacklist_count--;
    structure_free(fsm, &entry->stored);
}

static bool blacklist_match_hits(const struct blacklisting *entry,
                                 uint64_t session, struct bytes client)
{
    return entry->session != 0 ? entry->session == session
                               : bytes_match(entry->client, client);
}

struct blacklisting *blacklist_hit(const struct lockfsm *fsm, uint64_t session,
                                   struct bytes client)
{
    LIST_FOR (struct blacklisting, entry, &fsm->blacklist, in_order) {
        if (blacklist_match_hits(entry, session, client)) {
            return entry;
        }
    }
    return NULL;
}

/* The oldest entry that was added since 'since_index' and matches a session. */
static const struct blacklisting *newer_hit(const struct lockfsm *fsm,
                                            const struct session *session,
                                            uint64_t since_index)
{
    const struct blacklisting *hit = NULL;
    for (const struct list *at = fsm->blacklist.prev; at != &fsm->blacklist;
         at = at->prev) {
        const struct blacklisting *entry = LIST_ENTRY(at, struct blacklisting,
                                                      in_order);
        if (entry->since_index < since_index) {
            break;
        }
        if (blacklist_match_hits(entry, session->id, session->name)) {
            hit = entry;
        }
    }
    return hit;
}

const struct blacklisting *lockfsm_listed(const struct lockfsm *fsm,
                                          const struct session *session)
{
    if (session->end != SESSION_LIVES) {
        return NULL;
    }
    if (session->blacklist_index == 0) {
        return fsm->relist.at != 0 ? newer_hit(fsm, session, fsm->relist.since)
                                   : NULL;
    }
    const struct blacklisting *known = blacklist_find(fsm,
                                                      session->blacklist_index);
    return known != NULL ? known
                         : blacklist_hit(fsm, session->id, session->name);
}

bool session_is_refused(const struct lockfsm *fsm,
                        const struct session *session)
{
    if (session->user->is_disabled) {
        return true;
    }
    return fsm->relist.at == 0 ? session->blacklist_index != 0
                               : lockfsm_listed(fsm, session) != NULL;
}

struct blacklisting *blacklist_find(const struct lockfsm *fsm,
                                    uint64_t since_index)
{
    LIST_FOR (struct blacklisting, entry, &fsm->blacklist, in_order) {
        if (entry->since_index == since_index) {
            return entry;
        }
    }
    return NULL;
}

void blacklist_refuse(struct lockfsm *fsm, const struct blacklisting *entry,
                      struct result *result)
{
    result->code = RESULT_BLACKLISTED;
    result->text = effect_copy(fsm, entry->reason);
}

bool blacklist_refuses(struct lockfsm *fsm, const struct session *session,
                       struct result *result)
{
    const struct blacklisting *entry = lockfsm_listed(fsm, session);
    if (entry != NULL) {
        blacklist_refuse(fsm, entry, result);
    }
    return entry != NULL;
}

void blacklist_forget_session(struct lockfsm *fsm,
                              const struct session *session)
{
    if (session->blacklist_index == 0) {
        return;
    }
    LIST_FOR_SAFE (struct blacklisting, entry, &fsm->blacklist, in_order) {
        if (entry->session == session->id) {
            blacklisting_free(fsm, entry);
        }
    }
}
