/* SPDX-License-Identifier: MIT */

/* A member of a shared connection (client/cluster_conn.h), and how its session
 * is attached to the connection.
 *
 * A member asks for a session of its own (session_fsm.h), or for none. On each
 * new connection the session of each member is attached, behind the heartbeats,
 * which need no attachment; who asks something comes first, a few at a time.
 * What else a member asks is sent when its own session is attached:
 *
 *     no session --set--> APART --OPEN: ATTACH is sent--> ASKED --OK-->
 * ATTACHED ^   ^                           |   |            | |   '-- refused:
 * later ---------'   |            |
 *                         '------- the connection is lost ----+------------'
 *
 * A refused ATTACH ends that member's requests only; the others' requests and
 * the connection continue. */

#ifndef HASP_CLIENT_CLUSTER_CONN_MEMBER_H
#define HASP_CLIENT_CLUSTER_CONN_MEMBER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "client/client_request.h"
#include "client/credentials.h"
#include "lease/lease.h"
#include "net/resp.h"

/* Callbacks of a member; each may be NULL. */
struct cluster_conn_hooks {
    /* Its turn: its time has come, or one of its requests has ended. Returns
     * the nanoseconds until the next turn; UINT64_MAX: none is due. */
    uint64_t (*turn)(void *data, struct lease_clock now);
    /* A push about its session; borrowed. */
    void (*push)(void *data, const struct resp_reply *reply);
    /* The connection is closed, including its watches. */
    void (*lost)(void *data);
    /* ATTACH was refused: the session has ended, or cannot be attached. */
    void (*ended)(void *data, const char *code, const char *why);
    /* A message about the connection, for people. */
    void (*noticed)(void *data, const char *text);
    void *data;
};

/* Must not move from cluster_conn_join() to cluster_conn_part(). */
struct cluster_conn_member {
    struct cluster_conn_hooks hooks;
    bool is_wanted;   /* It needs a connection even without a request. */
    uint64_t open_ms; /* For connection and greeting; 0: CLIENT_OPEN_MS. */
    /* The rest is private. */
    struct cluster_conn *conn;
    struct list in_asker;
    struct credentials credentials;
    struct client_request attach;
    bool has_session;
    bool is_attached;
    uint32_t refusals; /* Of ATTACH; repeated with the next request. */
    bool is_touched;   /* Its turn is due. */
    uint64_t due_ns;   /* Its turn is due then, in CLOCK_BOOTTIME. */
};

/* Adds a member; 'member' is zeroed memory with hooks. */
void cluster_conn_join(struct cluster_conn *conn,
                       struct cluster_conn_member *member);
/* Removes a member, whose requests have been cancelled. Nothing is sent: if the
 * session lives on, call cluster_conn_leave() first. */
void cluster_conn_part(struct cluster_conn_member *member);

/* From now on each connection acts for this session; NULL: for none. */
void cluster_conn_set_session(struct cluster_conn_member *member,
                              const struct credentials *credentials,
                              struct lease_clock now);
/* As cluster_conn_set_session(), if the open connection has it attached
 * already. */
void cluster_conn_adopt_session(struct cluster_conn_member *member,
                                const struct credentials *credentials);

/* --- For cluster_conn.c and client_request.c ------------------------------ */

/* A connection is open: attaches the sessions of all members. */
void cluster_conn_members_attach(struct cluster_conn *conn);
/* A new request may need its member's session: attaches it if necessary. */
void cluster_conn_member_asks(const struct client_request *ask);
/* True if the request's session must be attached first. */
bool cluster_conn_member_holds_up(const struct client_request *ask);
/* The connection is lost: all sessions must be attached again on the next
 * one. */
void cluster_conn_members_forget(struct cluster_conn *conn);
void cluster_conn_members_notify_lost(struct cluster_conn *conn);
void cluster_conn_members_notice(struct cluster_conn *conn, const char *text);
/* Passes the push that was just read to the member whose session it names. */
void cluster_conn_members_push(struct cluster_conn *conn);
/* Calls the turn of each member whose time has come or that was touched. */
void cluster_conn_members_turn(struct cluster_conn *conn,
                               struct lease_clock now);

#endif /* HASP_CLIENT_CLUSTER_CONN_MEMBER_H */
