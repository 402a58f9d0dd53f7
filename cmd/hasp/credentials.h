/* SPDX-License-Identifier: MIT */

/* The session that a subcommand acts for: ID:SECRET on the command line, or in
 * a file that only its owner can read.
 *
 * A command line can be read by every user of the machine (/proc/PID/cmdline),
 * so the secret is blanked there as soon as it is understood; a file is better.
 * It has one line, ID:SECRET. */

#ifndef HASP_CMD_HASP_CREDENTIALS_H
#define HASP_CMD_HASP_CREDENTIALS_H

#include "client/session.h"
#include "cmd/hasp/tool.h"

struct session_source {
    struct credentials credentials; /* session 0: none given. */
    const char *path;               /* Of the file; NULL: none. */
};

/* For getopt_long(); session_option() takes both. */
#define SESSION_OPTION                          \
    {                                           \
        "session", required_argument, NULL, 'S' \
    }
#define SESSION_FILE_OPTION                          \
    {                                                \
        "session-file", required_argument, NULL, 'F' \
    }

/* Takes --session (and blanks it in 'value') or the path of --session-file; 0,
 * an exit code, or -1 if 'option' is neither. */
int session_option(const struct tool *tool, int option, char *value,
                   struct session_source *source);
/* The same of ID:SECRET as an operand. */
int session_operand(const struct tool *tool, char *value,
                    struct session_source *source);

/* Reads the file, if one is given. 0 or an exit code: it is not there, others
 * can read it, or there is no session in it. */
int session_source_load(const struct tool *tool, struct session_source *source);

/* Makes the file, empty, before there is a session: what is wrong with it is
 * found in time. False in 'ret_is_new' if it is there already. */
int session_file_begin(const char *path, bool *ret_is_new);
/* Writes what session_file_begin() has made. */
int session_file_write(const char *path, const struct credentials *credentials);

#endif /* HASP_CMD_HASP_CREDENTIALS_H */
