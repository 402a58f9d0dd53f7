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
    struct query query = {0};
    const struct resp_reply *reply;
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
                                             : "one TOKEN is enough");
    }
    if (!parse_number(text, &token)) {
        return tool_usage(tool,
                          "invalid token '%s': use the number that came "
                          "with the lock",
                          text);
    }
    query_begin(&query, command);
    query_text(&query, argv[1]);
    query_number(&query, token);
    exit_code = tool_change(tool, &query, what, &reply);
    query_done(&query);
    if (exit_code != 0) {
        return exit_code;
    }
    bool is_good = reply->value[0].integer == 1;
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
    struct query query = {0};
    const struct resp_reply *reply;
    char text[24];
    int exit_code = options_read(tool, argv, NULL, 1, 1);
    if (exit_code != 0) {
        return exit_code;
    }
    query_begin(&query, "FENCE.SHOW");
    query_text(&query, argv[1]);
    exit_code = tool_read(tool, &query, "cannot show the fence", &reply);
    query_done(&query);
    if (exit_code == 0) {
        snprintf(text, sizeof text, "%" PRId64, reply->value[0].integer);
        tool_print(tool, json_pack("{s:o}", "token", value_of_reply(reply, 0)),
                   text);
    }
    return exit_code;
}

int run_fence_list(struct tool *tool, char **argv)
{
    return tool_run_list(tool, argv, "FENCE.LIST", fence_fields);
}

int run_fence_remove(struct tool *tool, char **argv)
{
    struct query query = {0};
    int exit_code = options_read(tool, argv, NULL, 1, 1);
    if (exit_code != 0) {
        return exit_code;
    }
    query_begin(&query, "FENCE.REMOVE");
    query_text(&query, argv[1]);
    return tool_change_one(tool, &query, "cannot remove the fence",
                           "there is no such fence; see: hasp fence list");
}
