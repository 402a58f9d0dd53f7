/* SPDX-License-Identifier: MIT */

/* MULTI, EXEC and WATCH of a connection, at the asked node.
 *
 * WATCH asks the leader for the versions of its keys (redis_keys_watch()).
 * Commands after MULTI are checked as if they were executed, and queued. Only
 * commands on keys can be queued; any other is refused at once, and EXEC with
 * it. EXEC leaves this node as one request, which no client can send:
 *
 *     EXEC count key... version... (size word...)...
 *
 * It has each key that is watched or named, once; the version of each, "" for a
 * key that is not watched; and the queued commands. They become one entry, like
 * a script (core/redis/commands.c): all of it, or nothing.
 *
 * Bounds: TRANSACTION_..._MAX, and MULTI_COUNT_MAX keys. Queued commands count
 * as bytes that the connection holds. */

#ifndef HASP_CORE_TRANSACTION_H
#define HASP_CORE_TRANSACTION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"

struct call;
struct conn;
struct core;
struct request;

#define TRANSACTION_WORDS_MAX 512  /* Arguments of all queued commands. */
#define TRANSACTION_SIZE_MAX 65536 /* Their bytes. */

/* MULTI: later commands are queued. */
void transaction_open(struct conn *conn);
bool transaction_is_open(const struct conn *conn);
/* How many commands are queued; -1: no transaction is open. */
int transaction_length(const struct conn *conn);
/* Bytes of the queued commands. */
uint64_t transaction_size(const struct conn *conn);
/* Records that a command was refused, so that EXEC is refused, if a transaction
 * is open. */
void transaction_break(struct conn *conn);
/* Queues a parsed command or refuses it; answers 'request'. */
void transaction_queue(struct core *core, struct request *request,
                       const struct call *call);
/* The arguments of the EXEC that ends the transaction, to be freed; they borrow
 * from 'room'. NULL: 'request' has been answered. The transaction is freed. */
struct bytes *transaction_end(struct core *core, struct request *request,
                              uint32_t count, struct buffer *room,
                              uint32_t *ret_count);
/* Adds these keys to WATCH. False: 'request' was refused. */
bool transaction_watch(struct core *core, struct request *request,
                       const struct call *call);
/* Stores the leader's answer to WATCH: runs of names, each with its version. */
void transaction_watched(struct conn *conn, struct bytes versions);
/* Drops the queue and the watches. */
void transaction_forget(struct core *core, struct conn *conn);

#endif /* HASP_CORE_TRANSACTION_H */
