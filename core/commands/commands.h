/* SPDX-License-Identifier: MIT */

/* The handlers of the commands, and the table that names them (table.def).
 *
 * Replies of the session commands, beyond the table of the protocol:
 *
 *     SESSION.OPEN    map: id (integer), secret (32 hex digits; not with
 *                     PROOF), ttl_ms, linger_ms (0: none), trust_ms
 *     SESSION.ATTACH  map: ttl_ms, linger_ms, trust_ms
 *     SESSION.KEEP    map: ttl_ms, linger_ms, trust_ms, ended (array of maps:
 *                     lock, owner, token, reason; holds that ended without
 *                     being released, until their LOCK.RELEASE is sent);
 *                     if several pairs are given, an array of such maps or
 *                     errors
 *
 * trust_ms is 0.8 min(ttl, linger), counted from before the request was sent.
 * For a session without a TTL, ttl_ms and trust_ms are null. */

#ifndef HASP_CORE_COMMANDS_COMMANDS_H
#define HASP_CORE_COMMANDS_COMMANDS_H

#include "core/command.h"

/* The table: places count from 0; any larger place gives NULL. */
uint32_t commands_count(void);
const struct command *command_at(uint32_t place);

/* --- Handlers ------------------------------------------------------------- */

/* The functions that the rows of the table name. */
/* clang-format off */
#define COMMAND(name, needs, functions, ...) functions
#define PARSES(f) command_parse_fn f;
#define RUNS(f) command_run_fn f;
#define READS(f) command_read_fn f;
#define PROPOSES(f) command_propose_fn f;
#define MAKES(entry, ...)
#define REPLIES(f) command_reply_fn f;
#include "core/commands/table.def"
/* clang-format on */

#endif /* HASP_CORE_COMMANDS_COMMANDS_H */
