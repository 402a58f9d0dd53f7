/* SPDX-License-Identifier: MIT */

/* Which connections act for which sessions, here and (told by FORWARD's answers
 * and CLOSED) at other nodes.
 *
 * The leader lowers the deadline of a session with linger when the last
 * connection that it knows to be attached has closed (rule 8). It learns of a
 * connection of another node when it answers that node's OPEN or ATTACH; after
 * a change of leader it knows less and may guess wrongly, which is safe (D is
 * its own clock, and the next heartbeat moves the deadline up again). A lost
 * peer link is no close, nor is the end of a brief connection
 * (CORE_CONN_BRIEF): the leader does not even hear of one that another node
 * has. */

#ifndef HASP_CORE_SESSION_ATTACH_H
#define HASP_CORE_SESSION_ATTACH_H

#include "base/hash.h"
#include "base/list.h"

struct conn;
struct core;
struct peer;
struct request;

#define UNREPORTED_MAX 4096

/* That a connection acts for a session: of this node, or of another one. */
struct attachment {
    struct list in_owner;   /* conn.sessions or peer.attachments. */
    struct list in_session; /* attached.attachments. */
    struct attached *attached;
    struct conn *conn;  /* NULL: of a peer. */
    uint64_t peer_conn; /* Of a peer: its number there. */
    uint64_t peer;
    bool is_ended;
};

/* A session to which connections known here are attached. */
struct attached {
    UT_hash_handle by_session;
    uint64_t session;
    struct list attachments;
    bool hears_answers; /* It has asked with PUSH, under this reign. */
};

/* Lives as long as the core; what other nodes' connections are attached to goes
 * with the reign. */
struct attach {
    struct attached *sessions;
    /* Closed while no leader could be told (rule 8). */
    struct unreported_close {
        uint64_t conn;
        uint64_t session;
        bool is_quiet;
    } * unreported; /* UNREPORTED_MAX, or NULL. */
    uint32_t unreported_count;
};

/* False if no further session can be attached. */
bool attach_has_room(struct core *core, struct conn *conn);
/* An OPEN or ATTACH is being answered OK to its asker. */
void attach_answered(struct core *core, struct request *request,
                     uint64_t session);
struct attachment *attach_find(struct core *core, struct conn *conn,
                               uint64_t session);
/* Of attachment.in_session; NULL if there is none. */
const struct list *attach_list(struct core *core, uint64_t session);
/* Ends of its waits are told to other nodes' connections, too. */
void attach_hear(struct core *core, uint64_t session);
bool attach_hears(const struct attachment *attachment);
/* The session that acts when none is named; 0 if none is attached. */
uint64_t attach_newest(const struct conn *conn);
void attach_remove(struct core *core, struct conn *conn, uint64_t session);
/* The session has ended: stays attached (its commands hear EXPIRED), but makes
 * room for others. */
void attach_ended(struct core *core, uint64_t session);

/* The state was replaced: sessions may have ended unseen. */
void attach_check(struct core *core);

/* The client says that this connection no longer acts for the session, which is
 * attached to it: the same as if it had been closed, for this session alone. */
void attach_detach(struct core *core, struct conn *conn, uint64_t session);
/* The connection was closed (or RESET): detaches all its sessions. */
void attach_remove_conn(struct core *core, struct conn *conn);
/* A peer tells that its connection was closed; 'is_quiet': by the peer, while
 * its client may live, so that no linger begins. */
void attach_closed_at(struct core *core, uint64_t peer, uint64_t peer_conn,
                      bool is_quiet, const uint64_t *sessions, uint32_t count);
/* The link to a peer is lost: forgets what is attached there. */
void attach_remove_peer(struct core *core, struct peer *peer);
/* Other nodes' connections are told to the next leader from now on: what this
 * one knows of them grows old. */
void attach_stepped_down(struct core *core);
/* Closes that could be told to nobody: a leader is there now. */
void attach_report(struct core *core);
void attach_free(struct core *core);

#endif /* HASP_CORE_SESSION_ATTACH_H */
