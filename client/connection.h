/* SPDX-License-Identifier: MIT */

/* One connection to one node: bytes out, replies in, each with a deadline.
 *
 * It is blocking for its caller and never for longer than the deadline says
 * (except for what the resolver of names takes). It knows no policy: which
 * node, what to do after an error is client/client.h's matter. Requests may be
 * sent before earlier replies have come; replies come in the order of the
 * requests.
 *
 * Errors:
 *
 *   HASP_ECONNECT   no connection came about; nothing was sent
 *   HASP_ECLOSED    the other side closed, or the network failed
 *   HASP_ETIMEDOUT  the deadline has come
 *   HASP_EINTR      the interrupting descriptor has turned readable
 *   HASP_EPROTO     what came is no reply
 *
 * After any error but HASP_EINTR and HASP_ETIMEDOUT the connection is closed;
 * after these two replies may still be under way, so the caller waits on or
 * closes.
 *
 * Threads: a connection belongs to one thread at a time. */

#ifndef HASP_CLIENT_CONNECTION_H
#define HASP_CLIENT_CONNECTION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"
#include "client/endpoints.h"
#include "client/query.h"
#include "net/resp.h"

/* Takes a message that no request asked for; 'reply' is borrowed. */
typedef void connection_push_fn(void *data, const struct resp_reply *reply);

struct connection {
    int fd;           /* -1: closed. */
    int interrupt_fd; /* Ends a wait when it turns readable; -1: none. */
    struct buffer in;
    size_t used;       /* Of 'in', by the reply given out last. */
    struct buffer out; /* Scratch for what is sent. */
    struct resp_reply reply;
    connection_push_fn *push; /* NULL: pushes are dropped. */
    void *push_data;
};

void connection_init(struct connection *connection);
void connection_done(struct connection *connection);

/* Connects; on an error 'why' says what failed, without the address. */
MUST_CHECK int connection_open(struct connection *connection,
                               const struct endpoint *endpoint,
                               uint64_t deadline_ns, char why[HASP_WHY_SIZE]);
void connection_close(struct connection *connection);
static inline bool connection_is_open(const struct connection *connection)
{
    return connection->fd >= 0;
}

MUST_CHECK int connection_send(struct connection *connection,
                               const struct query *query, uint64_t deadline_ns);

/* Waits for the next reply; pushes that come before it go to 'push'. The reply
 * is borrowed until the next call for this connection. */
MUST_CHECK int connection_receive(struct connection *connection,
                                  uint64_t deadline_ns,
                                  const struct resp_reply **ret_reply);

/* Waits for one push. A reply in its place is HASP_EPROTO. */
MUST_CHECK int connection_receive_push(struct connection *connection,
                                       uint64_t deadline_ns);

#endif /* HASP_CLIENT_CONNECTION_H */
