/* SPDX-License-Identifier: MIT */

/* The identity of a connection.
 *
 * Only a connection has an identity. It is fixed once: by the local socket or a
 * verified certificate when the connection opens, or later by AUTH. Each
 * request copies it on receipt and takes it to the leader, so a request sent
 * before AUTH is decided on as it was sent.
 *
 * The asked node authenticates, by the state that it has applied. The leader
 * authorizes, and so does every node when an entry is applied
 * (lockfsm/user/access.h).
 *
 * Each node counts the connections of a user to itself, and applies the quota
 * (QUOTA_CONNECTIONS) by itself: AUTH is refused, and a connection with a
 * certificate gets no user and ends with its first request.
 *
 * After a change of rights all connections are checked, a few in each turn,
 * because there may be very many; those that may not stay are closed. Meanwhile
 * authorize.h refuses their requests, as it does on other nodes, and nothing is
 * pushed to a connection that has not been checked. */

#ifndef HASP_CORE_SESSION_IDENTITY_H
#define HASP_CORE_SESSION_IDENTITY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"
#include "base/units.h"

/* How a connection was authenticated. */
enum identity_way {
    IDENTITY_NONE,       /* It was not; AUTH may follow. */
    IDENTITY_LOCAL,      /* Through the node's own socket (admin.sock). */
    IDENTITY_CERTIFICATE /* By a verified certificate. */
};

/* What the caller of core_client_opened() knows about a connection, for as long
 * as it is open. */
struct identity {
    enum identity_way way;
    /* CERTIFICATE: the user's name in it, borrowed during the call. The core
     * looks up whether this user exists. */
    const char *user;
    /* The SHA-256 of the peer's certificate, borrowed during the call; NULL:
     * none. */
    const uint8_t *fingerprint;
    const uint8_t *ca; /* That of the CA that issued it. */
    /* Nobody can read on the way what the client sends: TLS, loopback, a local
     * socket. Other connections may not send secrets. */
    bool is_private;
};

/* --- Private to core ------------------------------------------------------ */

struct conn;
struct core;
struct request;

/* Failures of AUTH after which a connection is closed. */
#define AUTH_FAILURE_MAX 3
/* Connections that one turn checks after a change of rights, each watch
 * counting as a check as well; and the connections that it closes at most. */
#define IDENTITY_LOOKS 1024
#define IDENTITY_CLOSES 32
/* How long a follower waits for an unknown user or secret in the entries that
 * it applies, because it may just have been added. It is less than clients wait
 * for one node, so that they get the reason. */
#define IDENTITY_WAIT_NS (400 * NS_PER_MS)

/* A node knows the rights that it has applied. While access is required, one
 * that has heard no leader for this time sends watchers nothing, because they
 * may have lost their rights. */
#define IDENTITY_BLIND_NS (10000 * NS_PER_MS)

/* The state of a waiting AUTH, or HELLO with AUTH. */
struct authentication {
    char user[65]; /* The name in the secret. */
    uint8_t hash[32];
    int hello_version; /* HELLO's version; 0: AUTH. */
    uint64_t deadline_ns;
};

/* The connection has opened: looks up the user of its certificate. */
void identity_opened(struct core *core, struct conn *conn);
/* AUTH, or HELLO (its version, otherwise 0) with AUTH: answers at once, or when
 * the result is known. 'user' is empty if none was given. */
void identity_authenticate(struct core *core, struct request *request,
                           struct bytes user, struct bytes secret,
                           int hello_version);
/* Answers HELLO, and uses this version of the protocol from now on. */
void identity_say_hello(struct core *core, struct request *request,
                        int version);
/* RESET: restores the identity that the connection had when it opened. */
void identity_reset(struct core *core, struct conn *conn);
/* True for a connection whose certificate's user may do nothing or has too many
 * connections, or whose certificate was revoked: every request is answered with
 * 'ret_why'. The TLS 1.3 handshake could not report it, because the client
 * considers itself connected before. */
bool identity_is_void(const struct core *core, const struct conn *conn,
                      char ret_why[HASP_WHY_SIZE]);
/* Called before a request of the connection: looks up the user of its
 * certificate again if it was not found when the connection opened. */
void identity_find_again(struct core *core, struct conn *conn);
/* True if the connection's user, or the right of an anonymous one, depends on
 * changes that this node has not applied yet
 * (core/session/pending_access.h). */
bool identity_is_pending(const struct core *core, const struct conn *conn);
/* False, with the reason in '*ret_why', if the requester may do nothing, or no
 * longer anything. */
bool identity_is_good(const struct core *core, uint64_t user, uint64_t secret,
                      const char **ret_why);
/* Users, secrets, roles or revoked certificates have changed: the port checks
 * the links, and later turns check the connections. A connection is closed if
 * it has lost its user, its secret, its certificate, or the right to what it
 * watches. */
void identity_changed(struct core *core);
/* True if the connection may get the events that it watches, by the present
 * rights. */
bool identity_may_see_events(struct core *core, struct conn *conn);
/* True if this node may have missed that users lost their right to watch. */
bool identity_is_blind(const struct core *core);
/* Tries again to authenticate waiting requests, checks connections after a
 * change, and ends watches while this node is blind. */
void identity_turn(struct core *core);
/* When the first waiting request is answered at the latest; UINT64_MAX: none
 * waits. */
uint64_t identity_next(const struct core *core);
/* The name of a user, for people; "?" if the user was removed. Borrowed. */
struct bytes identity_name(const struct core *core, uint64_t user);

#endif /* HASP_CORE_SESSION_IDENTITY_H */
