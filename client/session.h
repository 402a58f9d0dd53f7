/* SPDX-License-Identifier: MIT */

/* The commands of sessions, one by one, for a tool that shows them: nothing is
 * kept (client/machine.h does that) and no lease is counted.
 *
 * client_session_open() and _attach() make 'client' act for the session.
 *
 * Errors are those of client_ask(). */

#ifndef HASP_CLIENT_SESSION_H
#define HASP_CLIENT_SESSION_H

#include <stdint.h>

#include "base/err.h"
#include "client/client.h"
#include "client/query.h"

struct session_options {
    uint64_t ttl_ms;    /* 0: the server's default. */
    uint64_t linger_ms; /* 0: none. */
    const char *name;   /* NULL: none. */
};

struct client_session {
    struct credentials credentials;
    uint64_t ttl_ms;
    uint64_t linger_ms;
    uint64_t request_number; /* Of the newest REQ; each is awaited. */
};

/* Opens a session, of whose secret it shows the hash alone. An answer that is
 * lost leaves one behind that nobody knows of; it ends with its TTL and owns
 * nothing, so this is asked again. */
MUST_CHECK int client_session_open(struct client *client,
                                   const struct session_options *options,
                                   uint64_t deadline_ns,
                                   struct client_session *ret_session);

/* Acts for an existing session, which moves no lease. */
MUST_CHECK int client_session_attach(struct client *client,
                                     const struct credentials *credentials,
                                     uint64_t deadline_ns,
                                     struct client_session *ret_session);

/* Sends a heartbeat and waits for its answer. */
MUST_CHECK int client_session_keep(struct client *client,
                                   struct client_session *session,
                                   uint64_t deadline_ns);

/* Ends the session. An unknown or ended one is HASP_EREPLY. */
MUST_CHECK int client_session_close(struct client *client, uint64_t deadline_ns,
                                    uint64_t *ret_released);

/* Appends "REQ n ACKED n-1", for a change that may be asked again. */
void client_session_number(struct client_session *session, struct query *query);

/* Parses "ID:SECRET"; HASP_EINVALID. */
MUST_CHECK int credentials_parse(const char *text,
                                 struct credentials *ret_credentials);

#endif /* HASP_CLIENT_SESSION_H */
