/* SPDX-License-Identifier: MIT */

/* Exactly once: a request that is repeated under its number gets the result of
 * the first time.
 *
 * Numbers belong to a session: each is used for one request, of any owner. A
 * number that an entry used or acknowledged is spent for ever (request_ids.c),
 * so its request can never be executed again. Its result, which may be a
 * refusal, is stored until it is acknowledged; of the results that are not, a
 * session keeps the newest ANSWERED_COUNT_MAX. A queued request has no result
 * yet: its record names the place, a repetition waits at the same place, and
 * the end of the wait fills the record (result_cache_finish). A hash of the
 * command distinguishes two requests with the same number.
 *
 * Rights are checked only for a new request. So a request that was executed
 * before its user's right was withdrawn still gets its stored result.
 *
 * Refusals because of the number are not stored: a spent number without a
 * result, a number used for another command, too many that wait. */

#include "base/digest.h"
#include "lockfsm/lock/lock.h"
#include "lockfsm/session/session.h"
#include "lockfsm/store/store.h"
#include "lockfsm/user/user.h"

/* A hash of the command's content and owner, without ACKED and WAIT, which a
 * repetition may change. It is the same on every node and in every version. It
 * guards against a client's mistake, not against an attacker, who could only
 * deceive itself. */
static uint64_t dedup_hash_of(struct lockfsm *fsm, const struct entry *command)
{
    struct buffer *identity = &fsm->scratch.identity;
    buffer_clear(identity);
    buffer_put_u32(identity, command->op);
    buffer_put_run(identity, fsm->entry.origin.owner);
    entry_put_identity(identity, command);
    return digest_short(0, buffer_bytes(identity));
}

static bool is_acked(const struct origin *origin, uint64_t req)
{
    if (req <= origin->acked) {
        return true;
    }
    for (uint32_t i = 0; i < origin->also_acked_count; i++) {
        if (req >= origin->also_acked[2 * i] &&
            req <= origin->also_acked[2 * i + 1]) {
            return true;
        }
    }
    return false;
}

/* Drops the results that the client has acknowledged. One that still waits is
 * dropped when it was answered and the client acknowledges it again. */
static void dedup_acknowledge(struct lockfsm *fsm, struct session *session)
{
    const struct origin *origin = &fsm->entry.origin;
    if (origin->acked == 0 && origin->also_acked_count == 0) {
        return;
    }
    struct numbers *numbers = request_ids_obtain(fsm, session);
    request_ids_spend(fsm, numbers, 1, origin->acked);
    for (uint32_t i = 0; i < origin->also_acked_count; i++) {
        request_ids_spend(fsm, numbers, origin->also_acked[2 * i],
                          origin->also_acked[2 * i + 1]);
    }
    LIST_FOR_SAFE (struct kept_result, kept, &numbers->answered, in_order) {
        if (is_acked(origin, kept->req)) {
            result_cache_drop(fsm, kept);
        }
    }
}

/* True if the request is new. Otherwise 'result' has the answer, unless the
 * request still waits: then it is applied, and finds its wait. */
static bool is_new(struct lockfsm *fsm, const struct session *session,
                   uint64_t hash, struct result *result, bool *ret_is_waiting)
{
    const struct origin *origin = &fsm->entry.origin;
    const struct kept_result *kept = result_cache_find(fsm, session->id,
                                                       origin->req);
    const struct waiter *waiter = waiter_find(fsm, session->id, origin->owner);
    *ret_is_waiting = false;
    /* Without the hash, a client that reuses a number would get the answer to
     * another command (rule 20). */
    if (kept != NULL && kept->hash != hash) {
        entry_refuse(result, RESULT_BAD_ARGUMENT,
                     "the number was used for another command");
    } else if (kept != NULL && kept->wait_index != 0) {
        *ret_is_waiting = true;
    } else if (kept != NULL) {
        result_cache_result_of(kept, result);
    } else if (session->numbers != NULL &&
               request_ids_has(session->numbers, origin->req)) {
        entry_refuse(
            result, RESULT_FORGOTTEN,
            "the number was used or acknowledged before; its result is no "
            "longer stored");
    } else if (waiter != NULL && waiter->waiting_count >= WAITING_COUNT_MAX) {
        entry_refuse(result, RESULT_LIMIT, "numbers of the owner that wait");
    } else {
        return true;
    }
    return false;
}

/* A blacklisted session has repeated a request that waits, and gets a refusal:
 * the wait ends now, not when SWEEP reaches it. Otherwise a session unblocked
 * meanwhile could be granted a lock it was told it would not get. */
static void dedup_end_refused(struct lockfsm *fsm,
                              const struct session *session,
                              const struct result *result)
{
    if (result->code != RESULT_BLACKLISTED) {
        return;
    }
    const struct kept_result *kept = result_cache_find(fsm, session->id,
                                                       fsm->entry.origin.req);
    CHECK(kept != NULL && kept->wait_index != 0);
    struct wait *wait = request_find(fsm, kept->wait_index, session->id,
                                     fsm->entry.origin.owner);
    CHECK(wait != NULL);
    wait_end(fsm, wait, "blacklisted", result);
}

static bool only_frees(const struct entry *command)
{
    return entry_row(command->op)->only_frees ||
           (command->op == OP_CONVERT && command->convert->to == LOCK_SHARED);
}

/* Stores the result of the entry, which may have ended the session itself. A
 * refusal is not stored if the state or its user has no room for it, if its
 * user has no rights at all at the moment, during a quarantine, or if the
 * name is another cell's: it has changed nothing, so a later repetition may get
 * another answer. */
static void dedup_keep(struct lockfsm *fsm, uint64_t hash,
                       const struct result *result)
{
    const struct origin *origin = &fsm->entry.origin;
    struct session *session = session_find(fsm, origin->session);
    if (session == NULL || result->code == RESULT_NO_AUTH ||
        result->code == RESULT_QUARANTINED || result->code == RESULT_FOREIGN ||
        (result->code != RESULT_OK && result->code != RESULT_QUEUED &&
         (state_is_full(fsm) || user_is_full(fsm->entry.user)))) {
        return;
    }
    struct numbers *numbers = request_ids_obtain(fsm, session);
    request_ids_spend(fsm, numbers, origin->req, origin->req);
    struct kept_result *kept = result_cache_add(fsm, numbers, origin->req);
    kept->hash = hash;
    if (result->code == RESULT_QUEUED) {
        CHECK(fsm->entry.queued_index !=
              0); /* The end of that wait answers it. */
        kept->code = RESULT_QUEUED;
        kept->wait_index = fsm->entry.queued_index;
        kept->waiter = waiter_find(fsm, session->id, origin->owner);
        kept->serial = ++fsm->next_serial;
        result_cache_link(kept);
        record_changed(fsm, &kept->stored);
    } else {
        result_cache_answer(fsm, kept, result);
    }
}

void dedup_run(struct lockfsm *fsm, const struct entry *command,
               command_fn *apply, struct result *result)
{
    struct session *session;
    bool is_waiting;
    /* OPEN has no session yet that could store its result. */
    if (access_hides_session(fsm, command, result)) {
        return;
    }
    bool may_begin = command->op == OP_OPEN &&
                     session_find(fsm, fsm->entry.origin.session) == NULL;
    if (fsm->entry.origin.req == 0 || may_begin) {
        if (!access_refuses(fsm, command, result) &&
            !cells_refuse(fsm, command, result)) {
            apply(fsm, command, result);
        }
        return;
    }
    if (!session_find_asking(fsm, &session, result)) {
        return;
    }
    static const struct quota kept = {{[QUOTA_BYTES] = 2 * RECORD_SIZE}};
    uint64_t hash = dedup_hash_of(fsm, command);
    dedup_acknowledge(fsm, session);
    if (is_new(fsm, session, hash, result, &is_waiting)) {
        /* The two records are the result and the numbers. */
        if (access_refuses(fsm, command, result) ||
            cells_refuse(fsm, command, result)) {
            /* Such a refusal is stored like any other, unless the user has no
             * rights at the moment or the name is another cell's. */
        } else if (only_frees(command) ||
                   (!growth_is_refused(fsm, 2, 0, result) &&
                    !user_growth_is_refused(fsm, &kept, result))) {
            apply(fsm, command, result);
        }
        dedup_keep(fsm, hash, result);
    } else if (is_waiting) {
        apply(fsm, command, result);
        dedup_end_refused(fsm, session, result);
    }
}
