/* SPDX-License-Identifier: MIT */

/* Which connections act for which session: those of this node, and those that
 * peers have reported. */

#include "core/session/attach.h"
#include "base/check.h"

#include <stdlib.h>

#include "base/memory.h"
#include "core/state.h"

/* Sessions in one frame that reports closes. */
#define CLOSED_COUNT_MAX 64

static bool is_brief(uint64_t conn)
{
    return (conn & CORE_CONN_BRIEF) != 0;
}

static struct attached *find_session(struct core *core, uint64_t session)
{
    struct attached *attached;
    HASH_FIND(by_session, core->attach.sessions, &session, sizeof session,
              attached);
    return attached;
}

static struct attachment *attach_add(struct core *core, uint64_t session,
                                     struct list *owner)
{
    CHECK(session != 0); /* An attachment always belongs to a session. */
    struct attached *attached = find_session(core, session);
    if (attached == NULL) {
        attached = memory_new(sizeof *attached);
        attached->session = session;
        list_init(&attached->attachments);
        HASH_ADD(by_session, core->attach.sessions, session,
                 sizeof attached->session, attached);
    }
    struct attachment *attachment = memory_new(sizeof *attachment);
    attachment->attached = attached;
    list_push_back(&attached->attachments, &attachment->in_session);
    list_push_back(owner, &attachment->in_owner);
    return attachment;
}

/* Attaches 'session' to 'conn' as its newest; false if the connection has too
 * many already. */
static bool attach_attach(struct core *core, struct conn *conn,
                          uint64_t session)
{
    struct attachment *attachment = attach_find(core, conn, session);
    if (attachment != NULL) {
        list_remove(&attachment->in_owner);
        list_push_back(&conn->sessions, &attachment->in_owner);
        return true;
    }
    if (!attach_has_room(core, conn)) {
        return false;
    }
    attachment = attach_add(core, session, &conn->sessions);
    attachment->conn = conn;
    conn->session_count++;
    return true;
}

static void attach_drop(struct core *core, struct attachment *attachment)
{
    struct attached *attached = attachment->attached;
    /* It holds at least 'attachment'. */
    CHECK(!list_is_empty(&attached->attachments));
    if (attachment->conn != NULL) {
        CHECK(attachment->conn->session_count > 0);
        attachment->conn->session_count--;
    }
    list_remove(&attachment->in_owner);
    list_remove(&attachment->in_session);
    free(attachment);
    if (list_is_empty(&attached->attachments)) {
        HASH_DELETE(by_session, core->attach.sessions, attached);
        free(attached);
    }
}

/* True if a connection that counts for linger acts for the session. */
static bool is_present(struct core *core, uint64_t session)
{
    struct attached *attached = find_session(core, session);
    if (attached != NULL) {
        LIST_FOR (struct attachment, attachment, &attached->attachments,
                  in_session) {
            if (attachment->conn == NULL || !is_brief(attachment->conn->id)) {
                return true;
            }
        }
    }
    return false;
}

bool attach_has_room(struct core *core, struct conn *conn)
{
    uint32_t max = core->options.limits.sessions_per_conn;
    if (conn->session_count < max) {
        return true;
    }
    LIST_FOR_SAFE (struct attachment, old, &conn->sessions, in_owner) {
        if (old->is_ended) {
            attach_drop(core, old);
        }
    }
    return conn->session_count < max;
}

/* Stores the report until a leader is known, or this node itself serves. */
static void attach_enqueue(struct core *core, uint64_t conn, uint64_t session,
                           bool is_quiet)
{
    /* A serving node lowers the deadline at once instead. */
    CHECK(!is_serving(core));
    if (core->attach.unreported == NULL) {
        core->attach.unreported = memory_new(UNREPORTED_MAX *
                                             sizeof *core->attach.unreported);
    }
    if (core->attach.unreported_count < UNREPORTED_MAX) {
        core->attach.unreported
            [core->attach.unreported_count++] = (struct unreported_close){
            conn, session, is_quiet};
    }
}

/* A connection of this node no longer acts for 'session'. A stopping node
 * closes its connections itself: their clients have not died. */
static void attach_detached(struct core *core, uint64_t conn, uint64_t session,
                            bool is_quiet)
{
    CHECK(session != 0);
    if (core->run.is_stopping || is_brief(conn)) {
        return;
    }
    if (is_serving(core)) {
        if (!is_quiet && !is_present(core, session)) {
            timers_detached(core->timers, session, core->now_ns);
        }
        return;
    }
    attach_enqueue(core, conn, session, is_quiet);
}

static struct attachment *find_remote(struct core *core, uint64_t peer,
                                      uint64_t peer_conn, uint64_t session)
{
    struct attached *attached = find_session(core, session);
    if (attached != NULL) {
        LIST_FOR (struct attachment, attachment, &attached->attachments,
                  in_session) {
            if (attachment->conn == NULL && attachment->peer == peer &&
                attachment->peer_conn == peer_conn) {
                return attachment;
            }
        }
    }
    return NULL;
}

void attach_answered(struct core *core, struct request *request,
                     uint64_t session)
{
    CHECK(session != 0);
    if (request->conn != NULL) {
        if (!attach_attach(core, request->conn, session)) {
            attach_detached(core, request->conn->id, session, false);
        }
        return;
    }
    struct peer *peer = peer_find(core, request->peer);
    if (is_brief(request->peer_conn)) {
        return;
    }
    if (peer == NULL || !peer->is_up) {
        if (request->peer == 0) {
            /* The connection closed before the request was answered. */
            attach_detached(core, 0, session, false);
        }
        return;
    }
    struct attachment *attachment = find_remote(core, peer->id,
                                                request->peer_conn, session);
    if (attachment == NULL) {
        attachment = attach_add(core, session, &peer->attachments);
        attachment->peer = peer->id;
        attachment->peer_conn = request->peer_conn;
    }
}

struct attachment *attach_find(struct core *core, struct conn *conn,
                               uint64_t session)
{
    struct attached *attached = find_session(core, session);
    if (attached != NULL) {
        LIST_FOR (struct attachment, attachment, &attached->attachments,
                  in_session) {
            if (attachment->conn == conn) {
                return attachment;
            }
        }
    }
    return NULL;
}

const struct list *attach_list(struct core *core, uint64_t session)
{
    struct attached *attached = find_session(core, session);
    return attached != NULL ? &attached->attachments : NULL;
}

void attach_hear(struct core *core, uint64_t session)
{
    struct attached *attached = find_session(core, session);
    if (attached != NULL) {
        attached->hears_answers = true;
    }
}

bool attach_hears(const struct attachment *attachment)
{
    return attachment->conn != NULL ? attachment->conn->hears_answers &&
                                          attachment->conn->version == 3
                                    : attachment->attached->hears_answers;
}

uint64_t attach_newest(const struct conn *conn)
{
    if (list_is_empty(&conn->sessions)) {
        return 0;
    }
    return LIST_ENTRY(conn->sessions.prev, struct attachment, in_owner)
        ->attached->session;
}

void attach_remove(struct core *core, struct conn *conn, uint64_t session)
{
    struct attachment *attachment = attach_find(core, conn, session);
    if (attachment != NULL) {
        attach_drop(core, attachment);
    }
}

void attach_ended(struct core *core, uint64_t session)
{
    struct attached *attached = find_session(core, session);
    if (attached == NULL) {
        return;
    }
    /* The last attach_drop() frees 'attached', so the end is found beforehand.
     */
    struct list *end = &attached->attachments;
    for (struct list *node = end->next, *next; node != end; node = next) {
        next = node->next;
        struct attachment *attachment = LIST_ENTRY(node, struct attachment,
                                                   in_session);
        bool is_last = next == end;
        attachment->is_ended = true;
        if (attachment->conn == NULL) {
            attach_drop(core, attachment);
        }
        if (is_last) {
            break;
        }
    }
}

void attach_check(struct core *core)
{
    struct attached *attached, *next;
    HASH_ITER (by_session, core->attach.sessions, attached, next) {
        if (lockfsm_session(core->fsm, attached->session) == NULL) {
            attach_ended(core, attached->session);
        }
    }
}

static void attach_leave(struct core *core, struct attachment *attachment)
{
    struct conn *conn = attachment->conn;
    uint64_t session = attachment->attached->session;
    bool is_ended = attachment->is_ended;
    CHECK(conn != NULL);
    attach_drop(core, attachment);
    if (!is_ended) {
        attach_detached(core, conn->id, session, conn->is_quiet);
    }
}

void attach_detach(struct core *core, struct conn *conn, uint64_t session)
{
    struct attachment *attachment = attach_find(core, conn, session);
    CHECK(attachment != NULL);
    attach_leave(core, attachment);
    attach_report(core);
}

void attach_remove_conn(struct core *core, struct conn *conn)
{
    LIST_FOR_SAFE (struct attachment, attachment, &conn->sessions, in_owner) {
        attach_leave(core, attachment);
    }
    attach_report(core);
}

void attach_closed_at(struct core *core, uint64_t peer, uint64_t peer_conn,
                      bool is_quiet, const uint64_t *sessions, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        struct attachment *attachment = find_remote(core, peer, peer_conn,
                                                    sessions[i]);
        if (attachment != NULL) {
            attach_drop(core, attachment);
        }
        if (is_quiet || is_present(core, sessions[i])) {
            continue;
        }
        if (is_serving(core)) {
            timers_detached(core->timers, sessions[i], core->now_ns);
        } else {
            /* The report arrived before this leader's BEGIN was applied; there
             * are no deadlines yet that it could lower. */
            attach_enqueue(core, 0, sessions[i], false);
        }
    }
}

void attach_remove_peer(struct core *core, struct peer *peer)
{
    LIST_FOR_SAFE (struct attachment, attachment, &peer->attachments,
                   in_owner) {
        attach_drop(core, attachment);
    }
}

/* Reports to the leader which connections have closed, one connection for each
 * frame. */
void attach_report(struct core *core)
{
    uint64_t sessions[CLOSED_COUNT_MAX];
    CHECK(core->attach.unreported_count <= UNREPORTED_MAX);
    if (core->attach.unreported_count == 0) {
        return;
    }
    struct buffer *out = NULL;
    if (is_leader(core)) {
        /* Deadlines must exist before linger can lower them (rule 12). */
        if (!is_serving(core)) {
            return;
        }
    } else {
        out = peer_output(core, core->leader.id, FRAME_CLOSED);
        if (out == NULL) {
            return;
        }
    }
    for (uint32_t i = 0; i < core->attach.unreported_count;) {
        uint64_t conn = core->attach.unreported[i].conn;
        bool is_quiet = core->attach.unreported[i].is_quiet;
        uint32_t count = 0;
        for (; i < core->attach.unreported_count &&
               core->attach.unreported[i].conn == conn &&
               core->attach.unreported[i].is_quiet == is_quiet &&
               count < CLOSED_COUNT_MAX;
             i++) {
            sessions[count++] = core->attach.unreported[i].session;
        }
        if (out != NULL) {
            frame_put_closed(out, conn, is_quiet, sessions, count);
        } else {
            attach_closed_at(core, core->options.id, conn, is_quiet, sessions,
                             count);
        }
    }
    core->attach.unreported_count = 0;
}

void attach_stepped_down(struct core *core)
{
    CHECK(!is_leader(core) || core->run.is_stopping);
    for (int i = 0; i < PEER_COUNT_MAX; i++) {
        if (core->peers[i].id != 0) {
            attach_remove_peer(core, &core->peers[i]);
        }
    }
}

void attach_free(struct core *core)
{
    attach_stepped_down(core);
    /* The core has closed all connections before. */
    CHECK(core->attach.sessions == NULL);
    free(core->attach.unreported);
}
