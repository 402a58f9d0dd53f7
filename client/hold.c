/* SPDX-License-Identifier: MIT */

/* Holds: what was granted, for how long each may be trusted, and what ends it.
 *
 * A hold in the cluster is identified by its lock, owner and tokens, from its
 * first token to that of its last upgrade (rule 17). Several hold objects can
 * represent it, if an owner has acquired the lock again. Heartbeats report
 * ended holds by numbered notices. If notices are missing, the list of holds is
 * read, and each hold that is older than the missing notices and not in the
 * list is lost. Later grants need no such confirmation, since an answer that is
 * older than a notice is not believed (operation.c). */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/minmax.h"
#include "base/units.h"
#include "client/reply.h"
#include "client/session_fsm.h"
#include "lease/rules.h"

/* Holds in a page of the list. */
#define HOLDS_PAGE 500

struct hasp_hold *client_hold_new(struct session_fsm *fsm, size_t count)
{
    struct hasp_hold *hold = calloc(1, sizeof *hold);
    if (hold != NULL) {
        hold->held = calloc(count, sizeof *hold->held);
    }
    if (hold == NULL || hold->held == NULL) {
        free(hold);
        return NULL;
    }
    /* The room for the release is taken now, so that a lack of memory cannot
     * keep a lock held. */
    hold->release = operation_room(fsm, count);
    if (hold->release == NULL) {
        free(hold->held);
        free(hold);
        return NULL;
    }
    hold->fsm = fsm;
    hold->count = count;
    list_init(&hold->in_machine);
    return hold;
}

void client_hold_free(struct hasp_hold *hold)
{
    if (hold->sealing != NULL) {
        hold->sealing->hold = NULL;
    }
    hooked_released(hold->reported, hold->fsm->conn->now.monotonic_ns);
    hooked_free(hold->reported);
    list_remove(&hold->in_machine);
    if (hold->release != NULL) {
        operation_room_free(hold->fsm, hold->release);
    }
    for (size_t i = 0; i < hold->count; i++) {
        free(hold->held[i].name);
    }
    free(hold->held);
    free(hold);
}

void session_fsm_forget(struct session_fsm *fsm, struct hasp_hold *hold)
{
    (void)fsm;
    owner_put(hold->owner);
    client_hold_free(hold);
}

/* How long the hold's own limit allows to trust it, apart from the session's
 * lease (rule 16). */
static uint64_t limit_left_ns(const struct hasp_hold *hold,
                              struct lease_clock now)
{
    if (hold->has_ended) {
        return 0;
    }
    return hold->has_limit
               ? lease_hold_remaining(hold->limit_sent, hold->left_ms, now)
               : UINT64_MAX;
}

/* --- What was granted ----------------------------------------------------- */

bool grant_read(const struct resp_reply *reply, uint32_t at,
                struct granted *ret_grant)
{
    const struct resp_value *left = resp_find(reply, at, "hold_left_ms");
    struct granted grant = {.token = reply_number(reply, at, "token"),
                            .first = reply_number(reply, at, "first"),
                            .count = reply_number(reply, at, "count"),
                            .as_of = reply_number(reply, at, "as_of")};
    /* An answer without these is not a grant: a hold without a token would not
     * be fenced (rule 11). */
    if (left == NULL || grant.token == 0 || grant.first == 0 ||
        grant.as_of == 0 ||
        (left->type != RESP_NULL && left->type != RESP_INTEGER)) {
        return false;
    }
    grant.has_limit = left->type == RESP_INTEGER;
    grant.left_ms = grant.has_limit && left->integer > 0
                        ? (uint64_t)left->integer
                        : 0;
    *ret_grant = grant;
    return true;
}

bool grants_read(const struct resp_reply *reply, size_t count,
                 struct granted *ret_grants)
{
    const struct resp_value *value = reply->value;
    if (value->type != RESP_ARRAY) {
        return count == 1 && grant_read(reply, 0, ret_grants);
    }
    uint32_t at = 1;
    if (value->count != count) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        if (!grant_read(reply, at, &ret_grants[i])) {
            return false;
        }
        at += reply->value[at].span;
    }
    return true;
}

/* Uses the shortest limit of the locks. */
void client_hold_limit(struct hasp_hold *hold, const struct granted *grants,
                       struct lease_clock sent)
{
    hold->has_limit = false;
    for (size_t i = 0; i < hold->count; i++) {
        const struct granted *grant = &grants[i];
        if (grant->has_limit &&
            (!hold->has_limit || grant->left_ms < hold->left_ms)) {
            hold->has_limit = true;
            hold->left_ms = grant->left_ms;
            /* A re-entry has the limit of the existing hold, not the requested
             * one. */
            hold->limit_ms = grant->count == 1
                                 ? u64_max(grant->left_ms, hold->limit_ms)
                                 : grant->left_ms;
        }
    }
    hold->limit_sent = sent;
}

/* --- Ends ----------------------------------------------------------------- */

/* Marks the hold as lost, because one of its locks is. */
static void end_held(struct hasp_hold *hold, struct held *held,
                     struct bytes reason)
{
    held->is_over = true;
    hold->has_ended = true;
    hooked_lost(hold->reported, (const char *)reason.data, reason.size,
                hold->fsm->conn->now.monotonic_ns);
    if (!hold->is_reported) {
        hold->is_reported = true;
        session_fsm_add_event(hold->fsm, HASP_EVENT_LOST, held->token,
                              bytes_of_text(held->name), reason);
    }
}

static bool is_held(const struct held *held, const struct ended *ended)
{
    return !held->is_over &&
           bytes_equal(ended->lock, bytes_of_text(held->name)) &&
           ended->first <= held->token && held->token <= ended->token;
}

void holds_ended(struct session_fsm *fsm, const struct ended *ended)
{
    LIST_FOR (struct hasp_hold, hold, &fsm->holds, in_machine) {
        if (!bytes_equal(ended->owner, bytes_of_text(hold->owner->tag))) {
            continue;
        }
        for (size_t i = 0; i < hold->count; i++) {
            if (is_held(&hold->held[i], ended)) {
                end_held(hold, &hold->held[i], ended->reason);
            }
        }
    }
}

/* An owner has at most one hold of a lock: if it was granted a second one, the
 * earlier one has ended. */
static void end_earlier(struct hasp_hold *hold, struct held *held)
{
    static const struct bytes reason = BYTES_LITERAL("ended");
    LIST_FOR (struct hasp_hold, other, &hold->fsm->holds, in_machine) {
        if (other->owner != hold->owner) {
            continue;
        }
        for (size_t i = 0; i < other->count; i++) {
            struct held *one = &other->held[i];
            if (one->is_over || held->is_over ||
                strcmp(one->name, held->name) != 0) {
                continue;
            }
            if (one->token < held->first) {
                end_held(other, one, reason);
            } else if (held->token < one->first) {
                end_held(hold, held, reason);
            }
        }
    }
}

void client_hold_begin(struct hasp_hold *hold, const struct granted *grants,
                       struct lease_clock sent)
{
    client_hold_limit(hold, grants, sent);
    for (size_t i = 0; i < hold->count; i++) {
        struct held *held = &hold->held[i];
        held->token = grants[i].token;
        held->first = grants[i].first;
        held->as_of = grants[i].as_of;
        held->is_first = grants[i].count == 1;
        if (grants[i].count == 0) {
            end_held(hold, held, BYTES_LITERAL("ended"));
        } else {
            end_earlier(hold, held);
        }
    }
    list_push_back(&hold->fsm->holds, &hold->in_machine);
}

void holds_converted(struct session_fsm *fsm, const struct owner *owner,
                     const char *name, const struct granted *grant)
{
    LIST_FOR (struct hasp_hold, hold, &fsm->holds, in_machine) {
        if (hold->owner != owner) {
            continue;
        }
        for (size_t i = 0; i < hold->count; i++) {
            struct held *held = &hold->held[i];
            if (strcmp(held->name, name) == 0 && grant->first <= held->token &&
                held->token <= grant->token) {
                held->token = grant->token;
                held->first = grant->first;
                held->as_of = u64_max(held->as_of, grant->as_of);
            }
        }
    }
}

/* --- Notices -------------------------------------------------------------- */

/* True if a hold is older than the missing notices, so that one of them could
 * have been about it. */
static bool needs_list(const struct session_fsm *fsm)
{
    LIST_FOR (const struct hasp_hold, hold, &fsm->holds, in_machine) {
        for (size_t i = 0; i < hold->count; i++) {
            if (!hold->held[i].is_over &&
                hold->held[i].as_of < fsm->list_dropped) {
                return true;
            }
        }
    }
    return false;
}

static void list_done(struct session_fsm *fsm)
{
    LIST_FOR (struct hasp_hold, hold, &fsm->holds, in_machine) {
        for (size_t i = 0; i < hold->count; i++) {
            struct held *held = &hold->held[i];
            if (!held->is_over && held->as_of < fsm->list_dropped) {
                end_held(hold, held, BYTES_LITERAL("ended"));
            }
        }
    }
    fsm->seen = u64_max(fsm->seen, fsm->list_dropped);
}

static void hold_confirm(struct session_fsm *fsm,
                         const struct ended *hold_listed, uint64_t as_of)
{
    LIST_FOR (struct hasp_hold, hold, &fsm->holds, in_machine) {
        if (!bytes_equal(hold_listed->owner, bytes_of_text(hold->owner->tag))) {
            continue;
        }
        for (size_t i = 0; i < hold->count; i++) {
            struct held *held = &hold->held[i];
            if (is_held(held, hold_listed)) {
                held->as_of = u64_max(held->as_of, as_of);
            }
        }
    }
}

static void ask_list(struct session_fsm *fsm, struct bytes cursor)
{
    struct client_request *list = &fsm->list;
    query_begin(&list->query, "SESSION.HOLDS");
    query_option(&list->query, "COUNT", HOLDS_PAGE);
    if (cursor.size > 0) {
        query_text(&list->query, "CURSOR");
        query_bytes(&list->query, cursor);
    }
    query_option(&list->query, "SESSION", fsm->credentials.session);
    list->deadline_ns = fsm->conn->now.monotonic_ns +
                        fsm->timeout_ms * NS_PER_MS;
    cluster_conn_ask(fsm->conn, list, fsm->conn->now);
}

/* Processes a page. Without an answer, the next heartbeat reports the missing
 * notices again, and the list is requested again. */
static void hold_listed(struct client_request *ask,
                        const struct client_request_end *end)
{
    struct session_fsm *fsm = ask->data;
    uint32_t at = 0;
    if (end->error != 0) {
        char why[HASP_WHY_SIZE];
        (void)session_fsm_error(fsm, end, why);
        return;
    }
    uint64_t as_of = reply_number(end->reply, 0, "as_of");
    struct bytes cursor = reply_text(end->reply, 0, "cursor");
    uint32_t count = reply_array(end->reply, 0, "holds", &at);
    if (as_of < fsm->list_dropped || cursor.size == 0) {
        return; /* Not a page of the list, or older than the missing notices. */
    }
    for (uint32_t i = 0; i < count; i++) {
        struct ended hold = {.lock = reply_text(end->reply, at, "lock"),
                             .owner = reply_text(end->reply, at, "owner"),
                             .first = reply_number(end->reply, at, "first"),
                             .token = reply_number(end->reply, at, "token")};
        hold_confirm(fsm, &hold, as_of);
        at += end->reply->value[at].span;
    }
    if (bytes_equal(cursor, BYTES_LITERAL("0"))) {
        list_done(fsm);
    } else if (needs_list(fsm)) {
        ask_list(fsm, cursor);
    } else {
        fsm->seen = u64_max(fsm->seen, fsm->list_dropped);
    }
}

void holds_listing(struct session_fsm *fsm)
{
    fsm->list.member = &fsm->member;
    fsm->list.data = fsm;
    fsm->list.done = hold_listed;
    fsm->list.is_read = fsm->list.is_urgent = true;
}

void holds_notices(struct session_fsm *fsm, const struct resp_reply *reply)
{
    uint32_t at = 0;
    uint32_t count = reply_array(reply, 0, "ended", &at);
    uint64_t dropped = reply_number(reply, 0, "dropped");
    uint64_t newest = fsm->seen;
    for (uint32_t i = 0; i < count; i++) {
        struct ended ended = {.lock = reply_text(reply, at, "lock"),
                              .owner = reply_text(reply, at, "owner"),
                              .reason = reply_text(reply, at, "reason"),
                              .first = reply_number(reply, at, "first"),
                              .token = reply_number(reply, at, "token")};
        holds_ended(fsm, &ended);
        newest = u64_max(newest, reply_number(reply, at, "number"));
        at += reply->value[at].span;
    }
    fsm->heard = u64_max(fsm->heard, u64_max(newest, dropped));
    if (dropped <= fsm->seen) {
        fsm->seen = newest;
        return;
    }
    /* 'seen' stays until the list has been read, so that the list is requested
     * again if that fails. */
    if (!fsm->list.is_asked) {
        fsm->list_dropped = dropped;
        if (needs_list(fsm)) {
            ask_list(fsm, bytes_of(NULL, 0));
        } else {
            fsm->seen = u64_max(newest, dropped);
        }
    }
}

/* --- What is known -------------------------------------------------------- */

void session_fsm_look(struct session_fsm *fsm, const struct hasp_hold *hold,
                      struct lease_clock now, struct hasp_lease *ret_lease)
{
    struct lease *lease = &fsm->lease;
    uint64_t limit_ns = hold != NULL ? limit_left_ns(hold, now) : UINT64_MAX;
    bool is_lost = lease_check(lease, now) == LEASE_LOST;
    struct lease sure = *lease;
    /* Without linger: until then the session is in jeopardy at most, and not
     * lost (rule 8). */
    sure.linger_ns = 0;
    uint64_t most_ns = lease_promised_ns(lease);
    if (hold != NULL && hold->has_limit) {
        most_ns = u64_min(most_ns, hold->limit_ms * NS_PER_MS);
    }
    *ret_lease = (struct hasp_lease){
        .remaining_ns = u64_min(limit_ns, lease_remaining(lease, now)),
        .sure_ns = u64_min(limit_ns, lease_remaining(&sure, now)),
        .most_ns = most_ns == UINT64_MAX ? most_ns : rules_trusted(most_ns),
        .is_refused = fsm->is_refused};
    snprintf(ret_lease->why, sizeof ret_lease->why, "%s",
             !is_lost && limit_ns == 0 ? "the hold has ended" : fsm->why);
}

uint64_t sealing_left_ns(const struct sealing *sealing, struct lease_clock now)
{
    return sealing->limit_ns == UINT64_MAX
               ? UINT64_MAX
               : rules_left(sealing->limit_ns,
                            lease_elapsed(sealing->from, now));
}

/* Nobody knows of these holds: the callers' hooks still run. */
static void holds_give_back(struct session_fsm *fsm)
{
    struct lease_clock now = fsm->conn->now;
    LIST_FOR_SAFE (struct hasp_hold, hold, &fsm->holds, in_machine) {
        if (hold->sealing != NULL && !hold->has_ended &&
            sealing_left_ns(hold->sealing, now) == 0) {
            int error = session_fsm_release(fsm, hold, NULL, now);
            CHECK(error == 0);
        }
    }
}

void holds_report(struct session_fsm *fsm, const char *lost)
{
    uint64_t now_ns = fsm->conn->now.monotonic_ns;
    LIST_FOR (struct hasp_hold, hold, &fsm->holds, in_machine) {
        if (lost != NULL) {
            hooked_lost(hold->reported, lost, strlen(lost), now_ns);
        } else {
            hooked_released(hold->reported, now_ns);
        }
    }
}

void holds_turn(struct session_fsm *fsm)
{
    static const char limit[] = "max hold";
    if (!fsm->is_over) {
        holds_give_back(fsm);
    }
    LIST_FOR (struct hasp_hold, hold, &fsm->holds, in_machine) {
        if (hold->is_reported || limit_left_ns(hold, fsm->conn->now) != 0) {
            continue;
        }
        hold->is_reported = true;
        hooked_lost(hold->reported, limit, strlen(limit),
                    fsm->conn->now.monotonic_ns);
        if (!fsm->is_over) {
            session_fsm_add_event(fsm, HASP_EVENT_LOST, hold->held[0].token,
                                  bytes_of_text(hold->held[0].name),
                                  bytes_of_text(limit));
        }
    }
}

uint64_t holds_left_ns(struct session_fsm *fsm, struct lease_clock now)
{
    uint64_t least_ns = UINT64_MAX;
    LIST_FOR (struct hasp_hold, hold, &fsm->holds, in_machine) {
        uint64_t left_ns = limit_left_ns(hold, now);
        if (!hold->is_reported && left_ns < least_ns) {
            least_ns = left_ns;
        }
        if (hold->sealing != NULL && !hold->has_ended) {
            least_ns = u64_min(least_ns, sealing_left_ns(hold->sealing, now));
        }
    }
    return least_ns;
}
