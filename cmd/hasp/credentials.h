/* SPDX-License-Identifier: MIT */

/* The session that a subcommand acts for: ID:SECRET on the command line, or in
 * a file that only its owner can read.
 *
 * Every user of the machine can read a command line (/proc/PID/cmdline), so the
 * secret is blanked there as soon as it is parsed; a file is better. It has one
 * line, ID:SECRET. A shell can also keep it in its environment, under the name
 * CREDENTIALS_VARIABLE. */

#ifndef HASP_CMD_HASP_CREDENTIALS_H
#define HASP_CMD_HASP_CREDENTIALS_H

#include "cmd/hasp/tool.h"

#define CREDENTIALS_VARIABLE "HASP_CREDENTIALS"

struct session_source {
    char *text; /* Value of --session, in argv; NULL if not given. */
    char *path; /* Value of --session-file; NULL if not given. */
    struct credentials credentials; /* session 0: no credentials are known. */
};

#define SESSION_ROWS(s)                                  \
    {"session", OPTION_TEXT, .value = &(s)->text},       \
    {                                                    \
        "session-file", OPTION_TEXT, .value = &(s)->path \
    }

/* Parses ID:SECRET (and blanks it in argv), or the file. With
 * 'from_environment' it falls back to what 'hasp acquire --export' has set.
 * Returns 0 or an exit code if it is not a session, if the file does not
 * exist, or if others can read it. */
int session_source_load(const struct tool *tool, struct session_source *source,
                        bool from_environment);

/* Creates the empty file before the session is opened, so a bad path is found
 * in time. 'ret_is_new' is false if the file exists already. */
int session_file_begin(const char *path, bool *ret_is_new);
/* Writes the file that session_file_begin() created. */
int session_file_write(const char *path, const char *credentials);

#endif /* HASP_CMD_HASP_CREDENTIALS_H */
