/* SPDX-License-Identifier: MIT */

/* hasp cluster finalize. */

#include "cmd/hasp/names.h"
#include "cmd/hasp/tool.h"

static const struct field level_fields[] = {
    {"level", "LEVEL", FIELD_NUMBER},
    {0},
};

int run_cluster_finalize(struct tool *tool, int argc, char **argv)
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
    query_begin(&query, "RAFT.FINALIZE");
    name_query(&query);
    int exit_code = tool_read(tool, &query, "cannot finalize the upgrade",
                              &reply);
    query_done(&query);
    if (exit_code == 0) {
        json_t *record = json_pack("{s:o}", "level", value_of_reply(reply, 0));
        output_record(tool->format, level_fields, record);
        json_decref(record);
    }
    return exit_code;
}
