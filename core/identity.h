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
 * applied (lockfsm/access.h). */

#ifndef HASP_CORE_IDENTITY_H
#define HASP_CORE_IDENTITY_H

#include <stdbool.h>
#include <stdint.h>

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
    /* Nobody can read on the way what it sends: TLS, loopback, a local socket.
     * Elsewhere no secret is taken. */
    bool is_private;
};

#endif /* HASP_CORE_IDENTITY_H */
