/* SPDX-License-Identifier: MIT */

/* What the rows of the table of commands are written with. The rows stand in
 * table_locks.c, table_admin.c and table_redis.c; table.c makes one list of
 * them. */

#ifndef HASP_CORE_COMMANDS_TABLE_H
#define HASP_CORE_COMMANDS_TABLE_H 1

#include "core/commands/commands.h"

#define O(name) (UINT32_C(1) << OPTION_##name)
#define REQ_OPTIONS (O(REQ) | O(ACKED))
#define ACTS (O(SESSION) | O(OWNER) | REQ_OPTIONS)
#define ACQUIRE_OPTIONS                                                      \
    (ACTS | O(SHARED) | O(SLOTS) | O(WAIT) | O(PUSH) | O(VALUE) | O(BARGE) | \
     O(DELAY) | O(HOLD))
#define ACQUIRE_ARGUMENTS                                                 \
    "[SHARED|SLOTS n] [WAIT ms|FOREVER] [PUSH] [OWNER tag] [VALUE text] " \
    "[BARGE] [DELAY ms] [HOLD ms] [REQ n] [ACKED m] [SESSION id]"
#define PAGE (O(PREFIX) | O(COUNT) | O(CURSOR))
#define PAGE_ARGUMENTS "[PREFIX prefix] [COUNT n] [CURSOR cursor]"
#define BY_OPTIONS (O(BY) | REQ_OPTIONS)
#define BY_ARGUMENTS "[BY text]"
#define REQ_ARGUMENTS "[REQ n] [ACKED m]"
#define BLACKLIST_WHO "[SESSION id|CLIENT pattern]"

#define LOCAL COMMAND_LOCAL
#define CHANGE COMMAND_CHANGE
#define READ COMMAND_READ
#define SESSION COMMAND_SESSION
#define ORIGIN COMMAND_ORIGIN
#define BLOCKS COMMAND_BLOCKS
/* Each connection has one scan at a time, so that many take turns. */
#define SCANS (COMMAND_SCANS | COMMAND_BLOCKS)
#define ADMIN COMMAND_ADMIN
#define FREES COMMAND_FREES
#define PUBSUB COMMAND_PUBSUB
#define TRAIL COMMAND_TRAIL
#define REDIS COMMAND_REDIS
#define REPEATABLE COMMAND_REPEATABLE

/* A command or script of Redis, see core/redis/commands.c. */
#define CARRIED_OUT                                                \
    .reply_kind = REPLY_OWN, .run = redis_run, .read = redis_read, \
    .reply = redis_reply

/* Some rows of the table. */
struct command_rows {
    const struct command *rows;
    uint32_t count;
};

#define COMMAND_ROWS(table)                                  \
    {                                                        \
        .rows = table, .count = sizeof table / sizeof *table \
    }

extern const struct command_rows commands_locks;
extern const struct command_rows commands_admin;
extern const struct command_rows commands_redis;

#endif
