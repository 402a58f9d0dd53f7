/* SPDX-License-Identifier: MIT */

/* Which connections act for which sessions, on this node and (as reported by
 * FORWARD's answers and CLOSED) on other nodes.
 *
 * The leader lowers the deadline of a session with linger when the last
 * connection that it knows to be attached has closed (rule 8). It learns of
 * another node's connection when it answers that node's OPEN or ATTACH. After a
 * change of leader it knows less and may be wrong, which is safe (D is its own
 * clock, and the next heartbeat moves the deadline up again). A lost peer link
 * does not count as a close, and neither does the end of a brief connection
 * (CORE_CONN_BRIEF): the leader is not even informed of one at another node. */

#ifndef HASP_CORE_SESSION_ATTACH_H
#define HASP_CORE_SESSION_ATTACH_H

#include "base/hash.h"
#include "base/list.h"

struct conn;
struct core;
struct peer;
struct request;

#define UNREPORTED_MAX 4096

/* A connection, of this node or another, that acts for a session. */
struct attachment {
    struct list in_owner;   /* conn.sessions or peer.attachments. */
    struct list in_session; /* attached.attachments. */
    struct attached *attached;
    struct conn *conn;  /* NULL: a peer's connection. */
    uint64_t peer_conn; /* Its number at that peer. */
    uint64_t peer;
    bool is_ended;
};

/* A session to which connections known here are attached. */
struct attached {
    UT_hash_handle by_session;
    uint64_t session;
    struct list attachments;
    bool hears_answers; /* It has used PUSH, under this leadership. */
};

/* Lives as long as the core; the attachments of other nodes' connections end
 * with the leadership. */
struct attach {
    struct attached *sessions;
    /* Closed while no leader was known (rule 8). */
    struct unreported_close {
        uint64_t conn;
        uint64_t session;
        bool is_quiet;
    } * unreported; /* UNREPORTED_MAX, or NULL. */
    uint32_t unreported_count;
};

/* False if no further session can be attached. */
bool attach_has_room(struct core *core, struct conn *conn);
/* An OPEN or ATTACH is being answered OK. */
void attach_answered(struct core *core, struct request *request,
                     uint64_t session);
struct attachment *attach_find(struct core *core, struct conn *conn,
                               uint64_t session);
/* The attachments (attachment.in_session); NULL if there are none. */
const struct list *attach_list(struct core *core, uint64_t session);
/* The ends of its waits are reported to other nodes' connections, too. */
void attach_hear(struct core *core, uint64_t session);
bool attach_hears(const struct attachment *attachment);
/* The session that acts if a request names none; 0 if none is attached. */
uint64_t attach_newest(const struct conn *conn);
void attach_remove(struct core *core, struct conn *conn, uint64_t session);
/* The session has ended. It stays attached, so that its commands get EXPIRED,
 * but makes room for others. */
void attach_ended(struct core *core, uint64_t session);

/* The state was replaced, so sessions may have ended unnoticed. */
void attach_check(struct core *core);

/* The client ends the attachment of this connection to the session: the same as
 * closing the connection, for this session only. */
void attach_detach(struct core *core, struct conn *conn, uint64_t session);
/* The connection was closed (or RESET): detaches all its sessions. */
void attach_remove_conn(struct core *core, struct conn *conn);
/* A peer reports that its connection was closed. 'is_quiet': the peer closed it
 * and the client may live, so no linger starts. */
void attach_closed_at(struct core *core, uint64_t peer, uint64_t peer_conn,
                      bool is_quiet, const uint64_t *sessions, uint32_t count);
/* The link to a peer is lost: removes the attachments of its connections. */
void attach_remove_peer(struct core *core, struct peer *peer);
/* From now on other nodes' connections are reported to the next leader, so what
 * this one knows of them becomes stale. */
void attach_stepped_down(struct core *core);
/* A leader is known now: reports the closes that could not be reported. */
void attach_report(struct core *core);
void attach_free(struct core *core);

#endif /* HASP_CORE_SESSION_ATTACH_H */
