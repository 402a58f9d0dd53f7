/* SPDX-License-Identifier: MIT */

/* MULTI, EXEC and WATCH, of a connection, as the asked node knows them.
 *
 * WATCH asks the leader for the versions of its keys (redis_keys_watch()).
 * What follows MULTI is looked at as if it were to be carried out, and queued:
 * commands on keys alone; any other is refused when it comes, and EXEC with it.
 * EXEC leaves this node as one request, which no client can send:
 *
 *     EXEC count key... version... (size word...)...
 *
 * the keys that are watched or named, each once; the version of each, "" of one
 * that is not watched; and the queued commands. What comes of it is one entry,
 * as of a script (core/redis/commands.c): all of it, or nothing.
 *
 * Bounds: TRANSACTION_..._MAX, and MULTI_COUNT_MAX keys. What is queued counts
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

#define TRANSACTION_WORDS_MAX 512  /* Of all queued commands. */
#define TRANSACTION_SIZE_MAX 65536 /* Their bytes. */

/* MULTI: from now on commands are queued. */
void transaction_open(struct conn *conn);
bool transaction_is_open(const struct conn *conn);
/* How many commands it has queued; -1: none is open. */
int transaction_length(const struct conn *conn);
/* Bytes that are queued. */
uint64_t transaction_size(const struct conn *conn);
/* If one is open: something was refused, so EXEC will be. */
void transaction_break(struct conn *conn);
/* Queues a command that was understood, or refuses it; answers 'request'. */
void transaction_queue(struct core *core, struct request *request,
                       const struct call *call);
/* The arguments of the EXEC that ends it, to be freed; they borrow from
 * 'room'. NULL: 'request' has been answered. The transaction is forgotten. */
struct bytes *transaction_end(struct core *core, struct request *request,
                              uint32_t count, struct buffer *room,
                              uint32_t *ret_count);
/* WATCH asks for these keys from now on. False: 'request' was refused. */
bool transaction_watch(struct core *core, struct request *request,
                       const struct call *call);
/* The leader's answer to WATCH: runs of names, each with its version. */
void transaction_watched(struct conn *conn, struct bytes versions);
/* Neither queue nor watch is left. */
void transaction_forget(struct core *core, struct conn *conn);

#endif /* HASP_CORE_TRANSACTION_H */
