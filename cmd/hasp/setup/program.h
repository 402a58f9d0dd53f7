/* SPDX-License-Identifier: MIT */

/* Runs another program to its end. */

#ifndef HASP_CMD_HASP_SETUP_PROGRAM_H
#define HASP_CMD_HASP_SETUP_PROGRAM_H

#include <sys/types.h>

#include "base/bytes.h"

/* Runs argv[0], searched in PATH, and adds its stdout and stderr to 'out', at
 * most 64 KiB, without a final line end and followed by a zero byte that is
 * not counted. 'user' 0: as this process; otherwise with only that user and
 * group. Returns its exit status, or 127. */
int program_run(const char *const *argv, uid_t user, gid_t group,
                struct buffer *out);

#endif /* HASP_CMD_HASP_SETUP_PROGRAM_H */
