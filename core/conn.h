/* SPDX-License-Identifier: MIT */

/* Clients' connections of this node: their reply slots and their blocks.
 *
 * Each request has a slot; answers leave in the order of the slots. The answer
 * of the first one goes straight into the connection's output; others wait in
 * their slot. A connection is blocked (the caller feeds no further request)
 * while a command that may wait has not been answered, or while too many have
 * not. */

#ifndef HASP_CORE_CONN_H
#define HASP_CORE_CONN_H

#include "core/state.h"

#define SLOT_NONE UINT64_MAX

struct conn *conn_open(struct core *core, uint64_t id, const char *address);
struct conn *conn_find(struct core *core, uint64_t id);
/* Forgets it; its requests that still run lose their asker. */
void conn_free(struct core *core, struct conn *conn);

/* A new place at the end of the order, for 'request'. */
uint64_t conn_slot_new(struct conn *conn, struct request *request);
/* The request that stands in 'slot', or NULL if it has been answered. */
struct request *conn_slot_request(struct conn *conn, uint64_t slot);
/* Where the reply of 'slot' is to be written. */
struct buffer *conn_slot_output(struct core *core, struct conn *conn,
                                uint64_t slot);
/* The reply has been written: sends it and those behind it that are ready. */
void conn_slot_done(struct core *core, struct conn *conn, uint64_t slot);

/* Notes what 'slot' does to what is hashed into 'names'. False if it must wait
 * for those before it: it is then parked when they are done. */
bool conn_order_slot(struct core *core, struct conn *conn, uint64_t slot,
                     enum conn_order order, uint64_t names);

/* Holds back what follows 'slot' until it is done. */
void conn_block(struct core *core, struct conn *conn, uint64_t slot);
void conn_block_update(struct core *core, struct conn *conn);
/* The answer in 'slot' is the last: once it has gone the connection ends. */
void conn_quit(struct core *core, struct conn *conn, uint64_t slot);

void conn_set_name(struct conn *conn, struct bytes name);

/* Bytes that are kept for it: a request without an answer, an answer that waits
 * for earlier ones. */
void conn_hold(struct core *core, struct conn *conn, uint64_t size);
void conn_give_back(struct core *core, struct conn *conn, uint64_t size);
/* All connections hold too much, and this one more than its share. */
bool conn_is_over(const struct core *core, const struct conn *conn);

#endif /* HASP_CORE_CONN_H */
