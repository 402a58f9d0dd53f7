/* SPDX-License-Identifier: MIT */

/* hasp quarantine end. */

#include "cmd/hasp/names.h"
#include "cmd/hasp/tool.h"

#include <getopt.h>
#include <sysexits.h>

int run_quarantine_end(struct tool *tool, int argc, char **argv)
{
    static const struct option options[] = {
        {"i-vouch", required_argument, NULL, 'v'}, {NULL, 0, NULL, 0}};
    struct query query = {0};
    const struct resp_reply *reply;
    const char *reason = NULL;
    int option;
    tool_options_begin();
    while ((option = tool_option(tool, argc, argv, "", options)) != -1) {
        if (option != 'v') {
            return EX_USAGE;
        }
        reason = optarg;
    }
    if (argc != optind || reason == NULL || *reason == '\0') {
        return tool_usage(tool,
                          "--i-vouch REASON is needed: why no client of the "
                          "former life can still trust a lease");
    }
    query_begin(&query, "QUARANTINE.END");
    query_text(&query, "REASON");
    query_text(&query, reason);
    name_query(&query);
    int exit_code = tool_change(tool, &query, "cannot end the quarantine",
                                &reply);
    query_done(&query);
    if (exit_code == 0 && reply->value[0].type == RESP_INTEGER &&
        reply->value[0].integer == 0) {
        return tool_fail(EX_DATAERR,
                         "there is no quarantine; see: hasp status");
    }
    return exit_code;
}
