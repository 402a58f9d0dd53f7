/* SPDX-License-Identifier: MIT */

/* hasp check; hasp fence admit, show, list, remove: tokens and what they are
 * good for. */

#include <inttypes.h>
#include <stdio.h>

#include "cmd/hasp/tool.h"

static const struct field fence_fields[] = {
    {"resource", "RESOURCE", FIELD_TEXT},
    {"token", "TOKEN", FIELD_NUMBER},
    {0},
};

/* Asks about a name and a token; "yes" and "no" are said so, 'key' is for
 * JSON. */
static int judge(struct tool *tool, char **argv, const char *command,
                 const char *what, const char *key, const char *yes)
{
    json_t *answer;
    const char *option = NULL;
    uint64_t token;
    const struct option_row rows[] = {
        {0, "token", OPTION_TEXT, .value = &option}, {0}};
    int exit_code = options_read(tool, argv, rows, 1, 2);
    if (exit_code != 0) {
        return exit_code;
    }
    const char *text = option != NULL ? option : argv[2];
    if (text == NULL || (option != NULL && argv[2] != NULL)) {
        return tool_usage(tool, text == NULL ? "missing TOKEN"
                                             : "TOKEN is given twice");
    }
    if (!parse_number(text, &token)) {
        return tool_bad_token(tool, text);
    }
    exit_code = tool_change(tool, WORDS(command, argv[1], text), what, &answer);
    if (exit_code != 0) {
        return exit_code;
    }
    bool is_good = value_number(answer, "") == 1;
    json_decref(answer);
    tool_print(tool, json_pack("{s:b}", key, is_good), is_good ? yes : "stale");
    return is_good ? 0 : EXIT_NO;
}

int run_check(struct tool *tool, char **argv)
{
    return judge(tool, argv, "LOCK.CHECK", "cannot check the token", "current",
                 "current");
}

int run_fence_admit(struct tool *tool, char **argv)
{
    return judge(tool, argv, "FENCE.ADMIT", "cannot admit the token",
                 "admitted", "admitted");
}

int run_fence_show(struct tool *tool, char **argv)
{
    json_t *token;
    char text[24];
    int exit_code = options_read(tool, argv, NULL, 1, 1);
    if (exit_code == 0) {
        exit_code = tool_ask(tool, WORDS("FENCE.SHOW", argv[1]),
                             "cannot show the fence", &token);
    }
    if (exit_code == 0) {
        snprintf(text, sizeof text, "%" PRIu64, value_number(token, ""));
        tool_print(tool, json_pack("{s:o}", "token", token), text);
    }
    return exit_code;
}

int run_fence_list(struct tool *tool, char **argv)
{
    return tool_run_list(tool, argv, "FENCE.LIST", fence_fields);
}

int run_fence_remove(struct tool *tool, char **argv)
{
    int exit_code = options_read(tool, argv, NULL, 1, 1);
    return exit_code != 0
               ? exit_code
               : tool_change_one(tool, WORDS("FENCE.REMOVE", argv[1]),
                                 "cannot remove the fence",
                                 "there is no such fence; see: hasp fence "
                                 "list");
}
