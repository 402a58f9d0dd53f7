/* SPDX-License-Identifier: MIT */

/* hasp slow: slow requests of all nodes, and where their time went. */

#include <stdio.h>

#include "base/memory.h"
#include "cmd/hasp/nodes.h"
#include "cmd/hasp/tool.h"

static const char *const stages[] = {"queue",   "forward", "confirm",
                                     "propose", "flush",   "replicate",
                                     "apply",   "answer",  "wait"};

/* Adds the columns of the table: "flush 80 ms, replicate 12 ms". */
static void slow_describe(json_t *request, uint64_t node)
{
    AUTO(buffer_done) struct buffer text = {0};
    for (size_t i = 0; i < sizeof stages / sizeof *stages; i++) {
        char key[32];
        snprintf(key, sizeof key, "%s_us", stages[i]);
        uint64_t ms = value_number(request, key) / 1000;
        if (ms > 0) {
            buffer_printf(&text, "%s%s %s", text.size > 0 ? ", " : "",
                          stages[i], DURATION(ms));
        }
    }
    value_add_time(request, "time_ms", "");
    json_object_set_new(request, "node", json_integer((json_int_t)node));
    json_object_set_new(
        request, "took_ms",
        json_integer((json_int_t)value_number(request, "took_us") / 1000));
    json_object_set_new(request, "stages",
                        json_stringn((const char *)text.data, text.size));
}

int run_slow(struct tool *tool, char **argv)
{
    uint64_t id = 0, count = 20;
    const struct option_row rows[] = {
        {"node", OPTION_NUMBER, .value = &id, 1, INT64_MAX},
        {"count", OPTION_NUMBER, .value = &count, 1, 1000},
        {0},
    };
    json_t *node;
    size_t i;
    int exit_code = options_read(tool, argv, rows, 0, 0);
    if (exit_code != 0) {
        return exit_code;
    }
    json_auto_t *all = json_array();
    json_auto_t *nodes = settings_nodes(tool, id);
    if (nodes == NULL) {
        return EX_UNAVAILABLE;
    }
    json_array_foreach (nodes, i, node) {
        json_auto_t *requests = NULL;
        json_t *request;
        size_t j;
        int one = tool_use(tool, value_text(node, "endpoint"));
        one = one
                  ?: tool_ask(tool, WORDS("NODE.SLOW", "COUNT", NUMBER(count)),
                              "cannot read the slow log", &requests);
        exit_code = one != 0 ? one : exit_code;
        json_array_foreach (requests, j, request) {
            slow_describe(request, value_number(node, "node"));
        }
        if (requests != NULL) {
            json_array_extend(all, requests);
        }
    }
    output_rows(tool->format, tool->subcommand->fields, all);
    return exit_code;
}
