/* SPDX-License-Identifier: MIT */

/* hasp fence admit, show, list, remove. */

#include <inttypes.h>
#include <stdio.h>

#include "cmd/hasp/names.h"
#include "cmd/hasp/tool.h"

static const struct field fence_fields[] = {
    {"resource", "RESOURCE", FIELD_TEXT},
    {"token", "TOKEN", FIELD_NUMBER},
    {0},
};

/* The resource, and the token if one is wanted, appended to 'query'. */
static int read_operands(struct tool *tool, int argc, char **argv,
                         bool has_token, struct query *query)
{
    uint64_t token;
    tool_options_begin();
    if (tool_option(tool, argc, argv, "", NULL) != -1) {
        return EX_USAGE;
    }
    if (argc - optind != (has_token ? 2 : 1)) {
        return tool_usage(tool, has_token ? "a resource and a token are needed"
                                          : "which resource?");
    }
    query_text(query, argv[optind]);
    if (has_token && !parse_number(argv[optind + 1], &token)) {
        return tool_usage(tool, "'%s' is no token", argv[optind + 1]);
    }
    if (has_token) {
        query_number(query, token);
    }
    return 0;
}

int run_fence_admit(struct tool *tool, int argc, char **argv)
{
    struct query query = {0};
    const struct resp_reply *reply;
    query_begin(&query, "FENCE.ADMIT");
    int exit_code = read_operands(tool, argc, argv, true, &query);
    if (exit_code == 0) {
        exit_code = tool_change(tool, &query, "cannot admit the token", &reply);
    }
    query_done(&query);
    if (exit_code != 0) {
        return exit_code;
    }
    bool is_admitted = reply->value[0].integer == 1;
    if (tool->format == FORMAT_JSON) {
        json_t *result = json_pack("{s:b}", "admitted", is_admitted);
        output_json(result);
        json_decref(result);
    } else {
        puts(is_admitted ? "admitted" : "stale");
    }
    return is_admitted ? 0 : EXIT_NO;
}

int run_fence_show(struct tool *tool, int argc, char **argv)
{
    struct query query = {0};
    const struct resp_reply *reply;
    query_begin(&query, "FENCE.SHOW");
    int exit_code = read_operands(tool, argc, argv, false, &query);
    if (exit_code == 0) {
        exit_code = tool_read(tool, &query, "cannot show the fence", &reply);
    }
    query_done(&query);
    if (exit_code != 0) {
        return exit_code;
    }
    if (tool->format == FORMAT_JSON) {
        json_t *result = json_pack("{s:I}", "token",
                                   (json_int_t)reply->value[0].integer);
        output_json(result);
        json_decref(result);
    } else {
        printf("%" PRId64 "\n", reply->value[0].integer);
    }
    return 0;
}

int run_fence_list(struct tool *tool, int argc, char **argv)
{
    return tool_run_list(tool, argc, argv, "FENCE.LIST", fence_fields);
}

int run_fence_remove(struct tool *tool, int argc, char **argv)
{
    struct query query = {0};
    const struct resp_reply *reply;
    query_begin(&query, "FENCE.REMOVE");
    int exit_code = read_operands(tool, argc, argv, false, &query);
    if (exit_code == 0) {
        name_query(&query);
        exit_code = tool_change(tool, &query, "cannot remove the fence",
                                &reply);
    }
    query_done(&query);
    if (exit_code == 0 && reply->value[0].integer == 0) {
        return tool_fail(EX_DATAERR, "there is no such fence; see: hasp fence "
                                     "list");
    }
    return exit_code;
}
