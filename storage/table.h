/* SPDX-License-Identifier: MIT */

/* Ordered maps with transactions, which store the replicated state.
 *
 * A table is a fixed set of maps (enum table_map) from byte keys (1 to 511
 * bytes, ordered as memcmp does) to byte values. There is at most one write
 * transaction at a time; readers see the state as of the last commit for as
 * long as they live. Two implementations: LMDB (table_lmdb.c, the only file
 * that includes <lmdb.h>) and one in memory (table_memory.c) for the simulator
 * and the tests.
 *
 * The table is not flushed: the write-ahead log is the truth, and the table is
 * a checkpoint of it that carries its own applied index, written in the same
 * transaction as the change. It survives the death of the process; after the
 * death of the operating system it is rebuilt from the newest snapshot and the
 * log (storage/datadir.h distinguishes the two).
 *
 * Errors: any error of a write or a commit is fatal to the node (HASP_EIO,
 * HASP_ENOSPC): after a failed commit the next one could succeed with pages
 * missing, so the table refuses to begin another write (HASP_EIO). HASP_ENOSPC:
 * the device is full. The exception is HASP_EFULL: the table has no address
 * space left. Then nothing has changed: abort the transaction (unless the
 * commit returned the error), call table_grow() and repeat all of it.
 * HASP_ECORRUPT: LMDB has reported it. HASP_EINVALID: the size of a key or a
 * value is not allowed; nothing has changed.
 *
 * Threads: a table and its write transactions belong to one thread. A
 * read transaction may be begun on the loop's thread and then be used and ended
 * by one other thread (the snapshot worker). */

#ifndef HASP_STORAGE_TABLE_H
#define HASP_STORAGE_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"

/* The maps, in the order in which a snapshot holds them. Append only. */
enum table_map {
    TABLE_META,
    TABLE_SESSIONS,
    TABLE_LOCKS,
    TABLE_HOLDS,
    TABLE_WAITS,
    TABLE_BLACKLIST,
    TABLE_RESULTS,
    TABLE_FENCES,
    TABLE_MEMBERS,
    TABLE_USERS,
    TABLE_ROLES,
    TABLE_REVOKED,
    TABLE_ACTS,
    TABLE_CELLS,
    TABLE_MAP_COUNT
};

#define TABLE_KEY_SIZE_MAX 511
#define TABLE_VALUE_SIZE_MAX (1024 * 1024)
/* Read transactions at one time; the next one is HASP_EBUSY. */
#define TABLE_READER_COUNT_MAX 126

struct table;
struct table_txn;

/* Opens (creates) the LMDB table in the folder 'path', with room for 'size'
 * bytes, or for its contents if they are larger (address space; the file is
 * only as large as its used part). On error 'why' has a message for the
 * operator. HASP_EMORE: the file was truncated and is shorter than its pages.
 * If it is truncated later, the next transaction returns HASP_ECORRUPT; reading
 * a missing page until then is a SIGBUS.
 *
 * One process opens a table once: LMDB's locks would be lost with the first of
 * two that closes. A second open is HASP_EBUSY; another process is kept out by
 * the lock of the data directory. The table must not be used after a fork(). */
MUST_CHECK int table_open_lmdb(const char *path, uint64_t size,
                               struct table **ret_table,
                               char why[HASP_WHY_SIZE]);

/* An empty table in memory. */
struct table *table_new_memory(void);

/* A table that writes to 'inner' on a thread of its own, so that no caller
 * waits for a disk: a commit returns at once. Its error is returned by each
 * later begin, by the first use of a waiting read, and by table_sync(). The
 * table grows by itself as soon as there is no reader. A write transaction
 * cannot read. A read sees what was committed before it began; if
 * table_is_busy(), its first use and its end wait until that has been written.
 * 'inner' is closed with it. HASP_EREFUSED: no thread can be had. */
MUST_CHECK int table_new_deferred(struct table *inner,
                                  struct table **ret_table);
/* True while something committed has not been written. */
bool table_is_busy(struct table *table);

/* No transaction may be open. NULL is fine. Nothing is flushed. */
void table_close(struct table *table);

/* Doubles the room, after HASP_EFULL; no write may be under way. HASP_EBUSY: a
 * read transaction is open. HASP_ENOMEM: the process cannot get more address
 * space (ulimit -v); the table keeps its size. */
MUST_CHECK int table_grow(struct table *table);
/* The bytes in use and the size of the map; both 0 for a table in memory. */
void table_size(struct table *table, uint64_t *ret_used, uint64_t *ret_room);

/* Flushes the table to the disk, for a clean stop (datadir_table_closed() may
 * follow). After an error the table must not be trusted later. */
MUST_CHECK int table_sync(struct table *table);

MUST_CHECK int table_begin_read(struct table *table,
                                struct table_txn **ret_txn);
MUST_CHECK int table_begin_write(struct table *table,
                                 struct table_txn **ret_txn);
/* Ends 'txn' in any case. An error is fatal to the node. */
MUST_CHECK int table_commit(struct table_txn *txn);
/* Drops the changes of a write transaction, or ends a read. NULL is fine. */
void table_abort(struct table_txn *txn);

/* HASP_ENOENT if there is none. The value is borrowed until the transaction
 * ends or changes the map. */
MUST_CHECK int table_get(struct table_txn *txn, enum table_map map,
                         struct bytes key, struct bytes *ret_value);
MUST_CHECK int table_put(struct table_txn *txn, enum table_map map,
                         struct bytes key, struct bytes value);
/* Deleting a missing key is not an error. */
MUST_CHECK int table_delete(struct table_txn *txn, enum table_map map,
                            struct bytes key);
/* Empties every map. */
MUST_CHECK int table_clear(struct table_txn *txn);

/* Called for each record in key order; a non-zero return ends the walk, which
 * then returns it. */
typedef int table_visit_fn(void *data, struct bytes key, struct bytes value);
/* Walks the records of 'map' from the first key not less than 'from'. The map
 * must not be changed meanwhile. */
MUST_CHECK int table_walk(struct table_txn *txn, enum table_map map,
                          struct bytes from, table_visit_fn *visit, void *data);

#endif /* HASP_STORAGE_TABLE_H */
