/* SPDX-License-Identifier: MIT */

/* The members of a connection, and the attachment of their sessions. */

#include "client/cluster_conn_member.h"

#include <string.h>

#include "base/check.h"
#include "base/minmax.h"
#include "client/cluster_conn.h"
#include "client/reply.h"

/* Sends the ATTACH of a member, after the heartbeats and before everything
 * else. */
static void cluster_conn_member_attach(struct cluster_conn_member *member)
{
    struct cluster_conn *conn = member->conn;
    if (member->attach.is_asked) {
        list_remove(&member->attach.in_asker);
    } else {
        client_request_begin(conn, &member->attach);
    }
    struct list *before = conn->asks.next;
    while (before != &conn->asks &&
           LIST_ENTRY(before, struct client_request, in_asker)->is_urgent) {
        before = before->next;
    }
    list_insert_before(before, &member->attach.in_asker);
}

/* Members with requests come before the others. */
static void cluster_conn_member_hurry(const struct client_request *ask)
{
    struct cluster_conn_member *member = ask->member;
    if (member != NULL && !ask->is_apart && member->attach.is_asked &&
        !member->attach.is_sent) {
        cluster_conn_member_attach(member);
    }
}

/* Sends a refused ATTACH again, after a pause. */
static void attach_again(struct cluster_conn_member *member)
{
    struct cluster_conn *conn = member->conn;
    if (member->refusals > 0 && !member->attach.is_asked) {
        cluster_conn_member_attach(member);
        member->attach.not_before_ns += cluster_conn_pause_ns(conn,
                                                              member->refusals);
    }
}

void cluster_conn_member_asks(const struct client_request *ask)
{
    if (ask->member != NULL) {
        attach_again(ask->member);
        cluster_conn_member_hurry(ask);
    }
}

void cluster_conn_members_attach(struct cluster_conn *conn)
{
    LIST_FOR (struct cluster_conn_member, member, &conn->members, in_asker) {
        if (member->has_session) {
            cluster_conn_member_attach(member);
        }
    }
    LIST_EACH_SAFE (node, &conn->asks) {
        cluster_conn_member_hurry(
            LIST_ENTRY(node, struct client_request, in_asker));
    }
}

bool cluster_conn_member_holds_up(const struct client_request *ask)
{
    const struct cluster_conn_member *member = ask->member;
    return member != NULL && member->has_session && !member->is_attached &&
           !ask->is_apart;
}

/* A refused ATTACH concerns only its member. */
static void
cluster_conn_member_attach_answered(struct client_request *ask,
                                    const struct client_request_end *end)
{
    struct cluster_conn_member *member = ask->data;
    struct cluster_conn *conn = member->conn;
    struct client_request_refused refused;
    if (end->error == 0) {
        member->is_attached = true;
        member->refusals = 0;
        return;
    }
    CHECK(end->error == HASP_EREPLY); /* The ATTACH is repeated until then. */
    cluster_conn_note(conn, "%s", end->why);
    member->refusals++;
    client_request_take_refused(conn, member, &refused);
    if (member->hooks.ended != NULL) {
        member->hooks.ended(member->hooks.data, refused.code, refused.why);
    }
    client_request_end_refused(conn, &refused);
}

void cluster_conn_join(struct cluster_conn *conn,
                       struct cluster_conn_member *member)
{
    member->conn = conn;
    member->attach.done = cluster_conn_member_attach_answered;
    member->attach.data = member->attach.member = member;
    member->attach.deadline_ns = UINT64_MAX;
    member->attach.is_read = member->attach.is_apart = true;
    member->attach.blocks = true;
    member->due_ns = UINT64_MAX;
    list_push_back(&conn->members, &member->in_asker);
}

void cluster_conn_part(struct cluster_conn_member *member)
{
    client_request_cancel(member->conn, &member->attach);
    query_done(&member->attach.query);
    list_remove(&member->in_asker);
}

void cluster_conn_set_session(struct cluster_conn_member *member,
                              const struct credentials *credentials,
                              struct lease_clock now)
{
    struct cluster_conn *conn = member->conn;
    conn->now = now;
    /* An attach of the previous session can be in flight; its answer must not
     * count for this one. */
    client_request_cancel(conn, &member->attach);
    member->is_attached = false;
    member->refusals = 0;
    member->has_session = credentials != NULL;
    if (credentials == NULL) {
        return;
    }
    member->credentials = *credentials;
    query_begin(&member->attach.query, "SESSION.ATTACH");
    query_number(&member->attach.query, credentials->session);
    query_text(&member->attach.query, credentials->secret);
    if (conn->state == CLUSTER_CONN_OPEN) {
        cluster_conn_member_attach(member);
    }
}

void cluster_conn_adopt_session(struct cluster_conn_member *member,
                                const struct credentials *credentials)
{
    CHECK(member->conn->state == CLUSTER_CONN_OPEN);
    cluster_conn_set_session(member, credentials, member->conn->now);
    client_request_cancel(member->conn, &member->attach);
    member->is_attached = true;
}

void cluster_conn_members_forget(struct cluster_conn *conn)
{
    LIST_FOR (struct cluster_conn_member, member, &conn->members, in_asker) {
        client_request_cancel(conn, &member->attach);
        member->is_attached = false;
        member->refusals = 0;
    }
}

void cluster_conn_members_notify_lost(struct cluster_conn *conn)
{
    LIST_FOR (struct cluster_conn_member, member, &conn->members, in_asker) {
        cluster_conn_touch(member);
        if (member->hooks.lost != NULL) {
            member->hooks.lost(member->hooks.data);
        }
    }
}

void cluster_conn_members_notice(struct cluster_conn *conn, const char *text)
{
    LIST_FOR (struct cluster_conn_member, member, &conn->members, in_asker) {
        if (member->hooks.noticed != NULL) {
            cluster_conn_touch(member);
            member->hooks.noticed(member->hooks.data, text);
        }
    }
}

/* --- Pushes and turns ----------------------------------------------------- */

static struct cluster_conn_member *find_member(struct cluster_conn *conn,
                                               uint64_t session)
{
    LIST_FOR (struct cluster_conn_member, member, &conn->members, in_asker) {
        if (member->has_session && member->credentials.session == session) {
            return member;
        }
    }
    return NULL;
}

/* Passes [kind, kind, {session: ...}] to the member with that session. */
void cluster_conn_members_push(struct cluster_conn *conn)
{
    const struct resp_reply *reply = &conn->reply;
    struct cluster_conn_member *member = NULL;
    if (reply->value[0].count == 3 && reply->count > 3 &&
        reply->value[3].type == RESP_MAP) {
        member = find_member(conn, reply_number(reply, 3, "session"));
    }
    if (member != NULL && member->hooks.push != NULL) {
        cluster_conn_touch(member);
        member->hooks.push(member->hooks.data, reply);
    } else if (conn->push != NULL) {
        conn->push(conn->push_data, reply);
    }
}

static uint64_t later_ns(uint64_t now_ns, uint64_t left_ns)
{
    return left_ns < UINT64_MAX - now_ns ? now_ns + left_ns : UINT64_MAX;
}

void cluster_conn_members_turn(struct cluster_conn *conn,
                               struct lease_clock now)
{
    conn->is_touched = false;
    conn->due_ns = UINT64_MAX;
    LIST_FOR (struct cluster_conn_member, member, &conn->members, in_asker) {
        bool is_due = member->is_touched || now.boottime_ns >= member->due_ns;
        member->is_touched = false;
        if (is_due && member->hooks.turn != NULL) {
            uint64_t left_ns = member->hooks.turn(member->hooks.data, now);
            member->due_ns = later_ns(now.boottime_ns, left_ns);
        }
        conn->due_ns = u64_min(conn->due_ns, member->due_ns);
    }
}
