/* SPDX-License-Identifier: MIT */

/* Who a connection is.
 *
 * A connection has an identity; nothing else has. It is fixed once: by the
 * local door or by a verified certificate when the connection opens, or later
 * by AUTH. Each request takes a copy along when it is received, and goes to the
 * leader with it, so what was sent before AUTH is decided on as it was sent.
 *
 * The asked node decides who somebody is, by the state that it has applied.
 * What he may is decided by the leader, and by every node when an entry is
 * applied (lockfsm/user/access.h).
 *
 * How many connections a user may have (QUOTA_CONNECTIONS) each node counts and
 * decides for itself: AUTH is refused, and one with a certificate is nobody's
 * and ends with its first request.
 *
 * After a change of rights all connections are looked at, and those that may
 * not stay are closed: a few in each turn, since there may be very many. What
 * one asks meanwhile is refused by the gate, as what it asks elsewhere, and
 * nothing is pushed to one that has not been looked at. */

#ifndef HASP_CORE_SESSION_IDENTITY_H
#define HASP_CORE_SESSION_IDENTITY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"
#include "base/units.h"

/* How it became known who a connection is. */
enum identity_way {
    IDENTITY_NONE,       /* It is not: anyone, unless AUTH comes. */
    IDENTITY_LOCAL,      /* Through the node's own socket (admin.sock). */
    IDENTITY_CERTIFICATE /* By a certificate that was verified. */
};

/* What the caller of core_client_opened() knows of a connection, for as long as
 * it stands. */
struct identity {
    enum identity_way way;
    /* CERTIFICATE: the user's name in it, borrowed during the call. Whether
     * there is such a user is the core's to find out. */
    const char *user;
    /* The SHA-256 of the certificate that the other end has shown, borrowed
     * likewise; NULL: none. */
    const uint8_t *fingerprint;
    const uint8_t *ca; /* Likewise of the CA that has made it. */
    /* Nobody can read on the way what it sends: TLS, loopback, a local socket.
     * Elsewhere no secret is taken. */
    bool is_private;
};

/* --- Private to core ------------------------------------------------------ */

struct conn;
struct core;
struct request;

/* Failures of AUTH after which a connection is closed. */
#define AUTH_FAILURE_MAX 3
/* How many connections one turn looks at after a change of rights, each watch
 * being a look as well; and how many it closes at most. */
#define IDENTITY_LOOKS 1024
#define IDENTITY_CLOSES 32
/* A follower looks for an unknown user or secret in what it applies for so
 * long: it may have been made just now. Less than clients wait for one node: he
 * is to be told why. */
#define IDENTITY_WAIT_NS (400 * NS_PER_MS)

/* Rights are those that a node has applied. One that has heard no leader for so
 * long tells watchers nothing any more, while access is required: they may have
 * lost their rights. */
#define IDENTITY_BLIND_NS (10000 * NS_PER_MS)

/* What AUTH, or HELLO with AUTH, waits with. */
struct authentication {
    char user[65]; /* The name in the secret. */
    uint8_t hash[32];
    int hello_version; /* Of HELLO; 0: of AUTH. */
    uint64_t deadline_ns;
};

/* The connection has opened: finds the user of its certificate. */
void identity_opened(struct core *core, struct conn *conn);
/* AUTH, or HELLO (its version, else 0) with AUTH: answers, at once or when it
 * is known. 'user' is empty if none was given. */
void identity_authenticate(struct core *core, struct request *request,
                           struct bytes user, struct bytes secret,
                           int hello_version);
/* The answer to HELLO, from now on in this version of the protocol. */
void identity_say_hello(struct core *core, struct request *request,
                        int version);
/* RESET: back to what it was when it opened. */
void identity_reset(struct core *core, struct conn *conn);
/* True of one whose certificate is of nobody who may do anything, of one who
 * has too many connections, or was revoked: nothing is answered but 'ret_why'.
 * TLS 1.3 has told the client long ago that it is connected, so the handshake
 * could not tell it. */
bool identity_is_void(const struct core *core, const struct conn *conn,
                      char ret_why[HASP_WHY_SIZE]);
/* Before a request of it: finds the user of its certificate if nobody was
 * identified when it opened. */
void identity_find_again(struct core *core, struct conn *conn);
/* True of a connection whose user, or the right of an anonymous one, depends on
 * changes that this node has yet to apply (core/session/pending_access.h). */
bool identity_is_pending(const struct core *core, const struct conn *conn);
/* False, with the reason in '*ret_why': who asked may do nothing (any more). */
bool identity_is_good(const struct core *core, uint64_t user, uint64_t secret,
                      const char **ret_why);
/* Users, secrets, roles or revoked certificates have changed: has the port look
 * at the links, and the turns to come at the connections. Those are closed that
 * have lost their user, their secret, their certificate, or the right to what
 * they watch. */
void identity_changed(struct core *core);
/* True if the connection may be told what it watches, by the rights of now. */
bool identity_may_be_told(struct core *core, struct conn *conn);
/* True if this node may have missed who lost his rights to watch. */
bool identity_is_blind(const struct core *core);
/* Looks again for those who wait, and at connections after a change; ends
 * watches while it is blind. */
void identity_turn(struct core *core);
/* When the first of them is answered at the latest; UINT64_MAX: none waits. */
uint64_t identity_next(const struct core *core);
/* The name of a user, for people; "?" if he was removed. Borrowed. */
struct bytes identity_name(const struct core *core, uint64_t user);

#endif /* HASP_CORE_SESSION_IDENTITY_H */
