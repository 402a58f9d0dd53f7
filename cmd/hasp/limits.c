/* SPDX-License-Identifier: MIT */

/* hasp limits, hasp limits set. */

#include "base/size.h"
#include "cmd/hasp/names.h"
#include "cmd/hasp/tool.h"

static const struct field limits_fields[] = {
    {"name", "LIMIT", FIELD_TEXT},  {"value", "VALUE", FIELD_NUMBER},
    {"used", "USED", FIELD_NUMBER}, {"min", "FROM", FIELD_NUMBER},
    {"max", "TO", FIELD_NUMBER},    {0},
};

int run_limits(struct tool *tool, int argc, char **argv)
{
    struct query query = {0};
    const struct resp_reply *reply;
    tool_options_begin();
    if (tool_option(tool, argc, argv, "", NULL) != -1) {
        return EX_USAGE;
    }
    if (argc != optind) {
        return tool_usage(tool, "no argument is needed");
    }
    query_begin(&query, "LIMITS.LIST");
    int exit_code = tool_read(tool, &query, "cannot list the limits", &reply);
    query_done(&query);
    if (exit_code == 0) {
        json_t *rows = value_of_reply(reply, 0);
        output_rows(tool->format, limits_fields, rows);
        json_decref(rows);
    }
    return exit_code;
}

int run_limits_set(struct tool *tool, int argc, char **argv)
{
    struct query query = {0};
    const struct resp_reply *reply;
    uint64_t value;
    tool_options_begin();
    if (tool_option(tool, argc, argv, "", NULL) != -1) {
        return EX_USAGE;
    }
    if (argc - optind != 2) {
        return tool_usage(tool, "a limit and its value are needed");
    }
    if (!size_parse(argv[optind + 1], &value)) {
        return tool_usage(tool, "'%s' is no number (K, M or G may follow)",
                          argv[optind + 1]);
    }
    query_begin(&query, "LIMITS.SET");
    query_text(&query, argv[optind]);
    query_number(&query, value);
    name_query(&query);
    int exit_code = tool_change(tool, &query, "cannot set the limit", &reply);
    query_done(&query);
    return exit_code;
}
