/* SPDX-License-Identifier: MIT */

/* Another program, run to its end. */

#ifndef HASP_CMD_HASP_SETUP_PROGRAM_H
#define HASP_CMD_HASP_SETUP_PROGRAM_H

#include <sys/types.h>

#include "base/bytes.h"

/* Runs argv[0], which may be found by PATH, and adds what it prints to stdout
 * and stderr to 'out', at most 64 KiB, without a last line end and with a zero
 * behind it that does not count. 'user' 0: as this process; else with that user
 * and group alone. Returns its exit status, or 127. */
int program_run(const char *const *argv, uid_t user, gid_t group,
                struct buffer *out);

#endif /* HASP_CMD_HASP_SETUP_PROGRAM_H */
