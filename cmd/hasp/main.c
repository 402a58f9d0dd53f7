/* SPDX-License-Identifier: MIT */

/* hasp, the command line tool: global options, one table of subcommands. */

#include <locale.h>
#include <stdio.h>
#include <string.h>

#include "client/shown.h"
#include "cmd/hasp/help.h"
#include "cmd/hasp/options.h"
#include "cmd/hasp/tool.h"

static bool asks_for_help(char **argv)
{
    return argv[1] != NULL &&
           (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0);
}

static int main_dispatch(struct tool *tool, char **argv)
{
    if (argv[0] == NULL) {
        help_print(tool, stderr);
        return EX_USAGE;
    }
    if (strcmp(argv[0], "help") == 0) {
        return help_run(tool, argv + 1);
    }
    tool->subcommand = help_find(tool, argv);
    if (tool->subcommand == NULL) {
        return asks_for_help(argv) && help_print_group(tool, argv[0])
                   ? 0
                   : help_unknown(tool, argv);
    }
    argv += strchr(tool->subcommand->name, ' ') != NULL;
    int exit_code = tool->subcommand->details == NULL
                        ? options_read_operands(tool, argv)
                        : 0;
    return exit_code ?: tool->subcommand->run(tool, argv);
}

int main(int argc, char **argv)
{
    struct tool tool = {.timeout_ms = TIMEOUT_DEFAULT_MS,
                        .subcommands = subcommands};
    setlocale(LC_CTYPE, "");
    (void)argc;
    int exit_code = options_read_before(&tool, argv, NULL, 0);
    exit_code = exit_code ?: main_dispatch(&tool, argv + 1);
    client_free(tool.client);
    endpoints_done(&tool.endpoints);
    shown_unref(tool.shown);
    /* A full disk or a closed pipe must not pass for success. */
    if (fflush(stdout) != 0 && exit_code <= 0) {
        exit_code = tool_fail(EX_IOERR, "cannot write to stdout");
    }
    return exit_code < 0 ? 0 : exit_code;
}
