/* SPDX-License-Identifier: MIT */

/* hasp help, and what is said of a subcommand that does not exist. */

#ifndef HASP_CMD_HASP_HELP_H
#define HASP_CMD_HASP_HELP_H

#include <stdbool.h>
#include <stdio.h>

#include "cmd/hasp/tool.h"

/* All subcommands, by topic. */
void help_print(const struct tool *tool, FILE *out);
/* Prints the subcommands of a group; false if there is no such group. */
bool help_print_group(const struct tool *tool, const char *group);
/* The subcommand that the first word, or the first two, name; or NULL. */
const struct subcommand *help_find(const struct tool *tool, char **argv);
/* Reports that there is none, with the nearest one. Returns the exit code. */
int help_unknown(const struct tool *tool, char **argv);
/* hasp help [SUBCOMMAND] */
int help_run(const struct tool *tool, char **argv);

#endif /* HASP_CMD_HASP_HELP_H */
