/* SPDX-License-Identifier: MIT */

/* hasp cells: the map of prefixes of a cluster that shares its names with
 * others (lockfsm/cells.h). */

#include <inttypes.h>
#include <string.h>

#include "cmd/hasp/tool.h"
#include "cmd/hasp/view/output.h"

static const struct view_field cells_fields[] = {
    {"prefix", "PREFIX", FIELD_TEXT}, {"own", "OWN", FIELD_FLAG},
    {"endpoints", "AT", FIELD_TEXT},  {"cluster", "CLUSTER", FIELD_TEXT},
    {"epoch", "EPOCH", FIELD_NUMBER}, {0},
};

static int cells_read(struct tool *tool, json_t **ret_map)
{
    return tool_ask(tool, WORDS("CELLS.SHOW"), "cannot show the map of cells",
                    ret_map);
}

int run_cells(struct tool *tool, char **argv)
{
    json_auto_t *map = NULL;
    (void)argv;
    int exit_code = cells_read(tool, &map);
    if (exit_code != 0) {
        return exit_code;
    }
    if (tool->format == FORMAT_JSON) {
        output_json(map);
        return 0;
    }
    json_t *rows = value_at(map, "cells");
    tool_say(tool, "this is cluster %s, epoch %" PRIu64 "%s",
             value_text(map, "cluster"), value_number(map, "epoch"),
             json_is_true(value_at(map, "doubtful"))
                 ? "; restored: every name is refused until hasp cells confirm"
             : json_array_size(rows) == 0 ? "; without a map it owns all names"
                                          : "");
    output_rows(tool->format, cells_fields, rows);
    return 0;
}

/* Prints the receipt, which is in the map as long as the prefix is given. */
int run_cells_give(struct tool *tool, char **argv)
{
    json_auto_t *map = NULL;
    json_t *row;
    size_t i;
    int exit_code = tool_change(
        tool, WORDS("CELLS.GIVE", argv[1], argv[2], argv[3], "BY", USER),
        CANNOT("give", argv[1]), NULL);
    exit_code = exit_code ?: cells_read(tool, &map);
    if (exit_code != 0) {
        return exit_code;
    }
    json_array_foreach (value_at(map, "cells"), i, row) {
        if (strcmp(value_text(row, "prefix"), argv[1]) == 0 &&
            value_text(row, "receipt")[0] != '\0') {
            const char *receipt = value_text(row, "receipt");
            tool_print(tool, json_pack("{s:s}", "receipt", receipt), receipt);
            return 0;
        }
    }
    return tool_fail(EX_DATAERR,
                     "'%s' was given, and changed since; see: hasp cells",
                     argv[1]);
}

/* The commands whose arguments are those of the subcommand. */
int run_cells_change(struct tool *tool, char **argv)
{
    const struct subcommand *s = tool->subcommand;
    const char *one = argv[1], *two = one != NULL ? argv[2] : NULL;
    return tool_change(tool,
                       one == NULL   ? WORDS(s->command, "BY", USER)
                       : two == NULL ? WORDS(s->command, one, "BY", USER)
                                     : WORDS(s->command, one, two, "BY", USER),
                       s->what, NULL);
}
