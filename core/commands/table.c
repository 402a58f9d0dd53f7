/* SPDX-License-Identifier: MIT */

/* The table of commands, made of table.def. */

#include "core/commands/table.h"

#include "core/commands/commands.h"
#include "core/propose.h"
#include "core/redis/keys.h"

/* --- Macros for the rows -------------------------------------------------- */

#define O(name) (UINT64_C(1) << OPTION_##name)
#define REQ_OPTIONS (O(REQ) | O(ACKED))
#define ACTS (O(SESSION) | O(OWNER) | REQ_OPTIONS)
#define ACQUIRE_OPTIONS                                                      \
    (ACTS | O(SHARED) | O(SLOTS) | O(WAIT) | O(PUSH) | O(VALUE) | O(BARGE) | \
     O(DELAY) | O(HOLD) | O(FULL) | O(TRACE))
#define ACQUIRE_ARGUMENTS                                                     \
    "[SHARED|SLOTS n] [WAIT ms|FOREVER] [PUSH] [OWNER tag] [VALUE text] "     \
    "[BARGE] [DELAY ms] [HOLD ms] [FULL] [TRACE traceparent] [REQ n] [ACKED " \
    "m] [SESSION id]"
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
/* A connection runs one scan at a time, so that many clients take turns. */
#define SCANS (COMMAND_SCANS | COMMAND_BLOCKS)
#define ADMIN COMMAND_ADMIN
#define FREES COMMAND_FREES
#define PUBSUB COMMAND_PUBSUB
#define TRAIL COMMAND_TRAIL
#define REDIS COMMAND_REDIS
#define REPEATABLE COMMAND_REPEATABLE

/* --- Entries that are made of arguments only ------------------------------ */

/* clang-format off */
#define COMMAND(name_, needs_, functions, ...) functions
#define PARSES(f)
#define RUNS(f)
#define READS(f)
#define PROPOSES(f)
#define REPLIES(f)
#define MAKES(entry, ...) \
    static void make_##entry(struct core *core, struct request *request, \
                             const struct call *call) \
    { \
        struct entry##_command command = {__VA_ARGS__}; \
        propose_##entry(core, request, &command); \
    }
#include "core/commands/table.def"

/* --- The table ------------------------------------------------------------ */

static const struct command table[] = {
#define COMMAND(name_, needs_, functions, ...) \
    {.name = name_, .needs = needs_, functions __VA_ARGS__},
#define PARSES(f) .parse = f,
#define RUNS(f) .run = f,
#define READS(f) .read = f,
#define PROPOSES(f) .propose = f,
#define MAKES(entry, ...) .propose = make_##entry,
#define REPLIES(f) .reply = f, .reply_kind = REPLY_OWN,
#include "core/commands/table.def"
};
/* clang-format on */

const struct command_table core_commands = {
    .row = table,
    .count = sizeof table / sizeof *table,
    .is_for_scripts = redis_keys_know,
};

uint32_t commands_count(void)
{
    return core_commands.count;
}

const struct command *command_at(uint32_t place)
{
    return place < core_commands.count ? &table[place] : NULL;
}
