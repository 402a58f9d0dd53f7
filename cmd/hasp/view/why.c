/* SPDX-License-Identifier: MIT */

/* hasp why: the holders of a lock, what they wait for themselves, the queue,
 * and the earliest time at which the lock could pass on. The texts are the
 * server's (LOCK.WHY), as on the page. */

#include <stdio.h>

#include "cmd/hasp/tool.h"

int run_why(struct tool *tool, char **argv)
{
    json_auto_t *lock = NULL;
    int exit_code = tool_ask(tool, WORDS("LOCK.WHY", argv[1]),
                             CANNOT("explain", argv[1]), &lock);
    if (exit_code != 0) {
        return exit_code;
    }
    if (tool->format == FORMAT_JSON) {
        output_json(lock);
        return 0;
    }
    size_t i;
    json_t *line;
    value_make_printable(lock);
    json_array_foreach (value_at(lock, "why"), i, line) {
        puts(json_string_value(line));
    }
    return 0;
}
