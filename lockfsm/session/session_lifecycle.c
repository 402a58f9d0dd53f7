/* SPDX-License-Identifier: MIT */

/* OPEN, CLOSE, DIED, EXPIRE: how sessions begin and end. The end of a session
 * ends all its holds and waits. */

#include "base/minmax.h"
#include "lockfsm/lock/lock.h"
#include "lockfsm/session/session.h"
#include "lockfsm/store/store.h"
#include "lockfsm/user/user.h"

/* The cost, in places, of ending everything that the session has. */
static uint64_t session_lifecycle_cost_of(const struct session *session)
{
    return (uint64_t)session_places(session) + session->result_count;
}

uint64_t session_sweep(struct lockfsm *fsm, struct session *session,
                       uint64_t max)
{
    struct result ended = {.code = RESULT_EXPIRED};
    uint64_t taken = 0;
    CHECK(session->end != SESSION_LIVES);
    while (session->wait_count > 0 && taken < max) {
        uint32_t before = session->wait_count;
        wait_end(fsm, LIST_FIRST(&session->waits, struct wait, in_session),
                 "session", &ended);
        CHECK(session->wait_count <
              before); /* Otherwise the loop would not end. */
        taken += before - session->wait_count;
    }
    while (session->hold_count > 0 && taken < max) {
        hold_end(fsm, LIST_FIRST(&session->holds, struct hold, in_session),
                 session_end_name(session->end),
                 session_end_is_clean(session->end));
        taken++;
    }
    return taken;
}

void session_end(struct lockfsm *fsm, struct session *session,
                 enum session_end end)
{
    CHECK(session->end == SESSION_LIVES && end != SESSION_LIVES);
    uint64_t cost = session_lifecycle_cost_of(session);
    /* A Redis session is never ended in parts: it has few keys, and a key must
     * be free as soon as its session has ended. */
    bool is_at_once = cost <= fsm->entry.slice_left || session->is_redis;
    session->end = end;
    if (is_at_once) {
        fsm->entry.slice_left -= u64_min(cost, fsm->entry.slice_left);
        session_sweep(fsm, session, UINT64_MAX);
    }
    blacklist_forget_session(fsm, session);
    struct effect *effect = effect_add(fsm, EFFECT_SESSION_ENDED);
    effect->session = session->id;
    effect->reason = session_end_name(end);
    if (is_at_once) {
        session_free(fsm, session);
    } else {
        session_leave(fsm, session);
    }
}

static bool has_will(const uint8_t will[PROOF_SIZE])
{
    static const uint8_t none[PROOF_SIZE];
    return memcmp(will, none, PROOF_SIZE) != 0;
}

bool session_has_will(const struct session *session)
{
    return has_will(session->will);
}

struct session *session_open(struct lockfsm *fsm,
                             const struct session_terms *terms,
                             struct result *result)
{
    if ((terms->ttl_ms == 0) != terms->is_durable ||
        terms->ttl_ms > SESSION_TTL_MS_MAX) {
        entry_refuse(result, RESULT_BAD_ARGUMENT, "ttl");
    } else if (terms->linger_ms > terms->ttl_ms) {
        entry_refuse(result, RESULT_BAD_ARGUMENT, "linger");
    } else if (terms->will.size > 0 && has_will(terms->will.data) &&
               (terms->is_durable || terms->linger_ms > 0)) {
        entry_refuse(result, RESULT_BAD_ARGUMENT, "will");
    } else if (terms->name.size > CLIENT_NAME_SIZE_MAX) {
        entry_refuse(result, RESULT_BAD_ARGUMENT, "name");
    } else if (terms->address.size > CLIENT_NAME_SIZE_MAX) {
        entry_refuse(result, RESULT_BAD_ARGUMENT, "address");
    }
    if (result->code != RESULT_OK ||
        ttl_is_over_limit(fsm, terms->asked_ms, result)) {
        return NULL;
    }
    const struct blacklisting *hit = blacklist_hit(fsm, 0, terms->name);
    if (hit != NULL) {
        blacklist_refuse(fsm, hit, result);
        return NULL;
    }
    if (HASH_CNT(by_id, fsm->sessions) >= fsm->limits.of[LIMIT_SESSIONS]) {
        entry_refuse(result, RESULT_LIMIT, "sessions");
        return NULL;
    }
    uint64_t text = terms->name.size + terms->address.size + terms->label_size;
    struct quota more = {
        {[QUOTA_SESSIONS] = 1, [QUOTA_BYTES] = RECORD_SIZE + text}};
    if (growth_is_refused(fsm, 1, text, result) ||
        user_growth_is_refused(fsm, &more, result)) {
        return NULL;
    }
    CHECK_SLOW(session_find_any(fsm, new_token(fsm)) == NULL);
    struct session *session = session_new(fsm, new_token(fsm));
    if (terms->proof.size > 0) {
        memcpy(session->proof, terms->proof.data, PROOF_SIZE);
    }
    if (terms->will.size > 0) {
        memcpy(session->will, terms->will.data, PROOF_SIZE);
    }
    session->ttl_ms = terms->ttl_ms;
    session->linger_ms = terms->linger_ms;
    /* OPEN is HEARD (rule 9). */
    session->heard_index = fsm->entry.log_index;
    session_set_durable(fsm, session, terms->is_durable, terms->wall_ms);
    session->name = pool_copy(&fsm->pool, terms->name);
    session->address = pool_copy(&fsm->pool, terms->address);
    session_belongs(fsm, session, fsm->entry.user);
    user_takes(session->user, QUOTA_BYTES, RECORD_SIZE + text);
    record_changed(fsm, &session->stored);
    struct effect *effect = effect_add(fsm, EFFECT_SESSION_OPENED);
    effect->session = session->id;
    effect->time_ms = session->ttl_ms;
    result->token = session->id;
    return session;
}

static bool labels_are_valid(const struct open_command *open)
{
    if (open->label_count > LABEL_COUNT_MAX) {
        return false;
    }
    for (size_t i = 0; i < open->label_count; i++) {
        if (open->labels[i].key.size == 0 ||
            open->labels[i].key.size > LABEL_SIZE_MAX ||
            open->labels[i].value.size > LABEL_SIZE_MAX) {
            return false;
        }
    }
    return true;
}

void apply_open(struct lockfsm *fsm, const struct entry *command,
                struct result *result)
{
    const struct open_command *open = command->open;
    if (!labels_are_valid(open)) {
        entry_refuse(result, RESULT_BAD_ARGUMENT, "label");
        return;
    }
    struct session_terms terms = {.proof = bytes_of(open->proof, PROOF_SIZE),
                                  .will = bytes_of(open->will, PROOF_SIZE),
                                  .is_durable = open->is_durable,
                                  .wall_ms = open->wall_ms,
                                  .ttl_ms = open->ttl_ms,
                                  .asked_ms = open->ttl_ms,
                                  .linger_ms = open->linger_ms,
                                  .name = open->name,
                                  .address = open->address};
    for (size_t i = 0; i < open->label_count; i++) {
        /* session_open() checks the size of the labels with the rest, before
         * anything is made. */
        terms.label_size += open->labels[i].key.size +
                            open->labels[i].value.size;
    }
    struct session *session = session_open(fsm, &terms, result);
    if (session == NULL) {
        return;
    }
    struct label *labels = session_labels_new(fsm, session, open->label_count);
    for (size_t i = 0; i < open->label_count; i++) {
        labels[i].key = pool_copy(&fsm->pool, open->labels[i].key);
        labels[i].value = pool_copy(&fsm->pool, open->labels[i].value);
    }
}

void apply_close(struct lockfsm *fsm, const struct entry *command,
                 struct result *result)
{
    const struct close_command *close = command->close;
    struct session *session;
    if (!session_find_asking(fsm, &session, result)) {
        return;
    }
    result->count = session->hold_count;
    session_end(fsm, session,
                close->is_unclean ? SESSION_DIED : SESSION_CLOSED);
}

/* It asks for no right: the word is the right. A wrong word, like a session
 * that does not exist, counts for nothing, so that no answer tells which ids
 * exist. */
void apply_died(struct lockfsm *fsm, const struct entry *command,
                struct result *result)
{
    const struct died_command *died = command->died;
    if (died->testimony_count > TESTIMONY_COUNT_MAX) {
        entry_refuse(result, RESULT_BAD_ARGUMENT, "testimonies");
        return;
    }
    for (size_t i = 0; i < died->testimony_count; i++) {
        const struct testimony *one = &died->testimonies[i];
        struct session *session = session_find(fsm, one->session);
        if (session != NULL && has_will(session->will) &&
            memcmp(session->will, one->will, PROOF_SIZE) == 0) {
            session_end(fsm, session, SESSION_DIED);
            result->count++;
        }
    }
}

void apply_expire(struct lockfsm *fsm, const struct entry *command,
                  struct result *result)
{
    const struct expire_command *expire = command->expire;
    for (size_t i = 0; i < expire->session_count; i++) {
        struct session *session = session_find(fsm, expire->sessions[i]);
        if (session != NULL && !session->is_durable) {
            session_end(fsm, session,
                        session_is_refused(fsm, session) ? SESSION_BLACKLISTED
                                                         : SESSION_EXPIRED);
            result->count++;
        }
    }
}
