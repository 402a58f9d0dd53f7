/* SPDX-License-Identifier: MIT */

/* The session that a subcommand acts for: ID:SECRET on the command line, or in
 * a file that only its owner can read.
 *
 * A command line can be read by every user of the machine (/proc/PID/cmdline),
 * so the secret is blanked there as soon as it is understood; a file is better.
 * It has one line, ID:SECRET. A shell may keep it in its environment as well,
 * under the name CREDENTIALS_VARIABLE. */

#ifndef HASP_CMD_HASP_CREDENTIALS_H
#define HASP_CMD_HASP_CREDENTIALS_H

#include "cmd/hasp/tool.h"

#define CREDENTIALS_VARIABLE "HASP_CREDENTIALS"

struct session_source {
    char *text; /* Of --session, in argv; NULL: not given. */
    char *path; /* Of --session-file; likewise. */
    struct credentials credentials; /* session 0: none are known. */
};

#define SESSION_ROWS(s)                                  \
    {"session", OPTION_TEXT, .value = &(s)->text},       \
    {                                                    \
        "session-file", OPTION_TEXT, .value = &(s)->path \
    }

/* Understands what is given, ID:SECRET (and blanks it in argv) or the file.
 * With 'from_environment', what 'hasp acquire --export' has set counts if
 * nothing is given. 0 or an exit code: that is no session; the file is not
 * there, or others can read it. */
int session_source_load(const struct tool *tool, struct session_source *source,
                        bool from_environment);

/* Makes the file, empty, before there is a session: what is wrong with it is
 * found in time. False in 'ret_is_new' if it is there already. */
int session_file_begin(const char *path, bool *ret_is_new);
/* Writes what session_file_begin() has made. */
int session_file_write(const char *path, const char *credentials);

#endif /* HASP_CMD_HASP_CREDENTIALS_H */
