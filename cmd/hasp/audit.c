/* SPDX-License-Identifier: MIT */

/* hasp audit: administrative acts, and denied requests. */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/hasp/nodes.h"
#include "cmd/hasp/tool.h"

/* Acts per page, and so the most that -f reads at a time. */
#define PAGE_COUNT_MAX 1000

/* Prints the time such as "2026-11-22 16:20:05", in this machine's time zone.
 */
/* Keeps the acts of 'user', or all if it is NULL; returns the index of the
 * last act, or 'last' if there is none. */
static uint64_t audit_choose(json_t *acts, const char *user, uint64_t last)
{
    for (size_t i = 0; i < json_array_size(acts);) {
        json_t *act = json_array_get(acts, i);
        last = value_number(act, "index");
        value_add_time(act, "time_ms", "");
        if (user != NULL && strcmp(value_text(act, "user"), user) != 0) {
            json_array_remove(acts, i);
        } else {
            i++;
        }
    }
    return last;
}

static int audit_ask(struct tool *tool, uint64_t after, uint64_t count,
                     json_t **ret_acts)
{
    return tool_ask(tool,
                    WORDS("AUDIT.LIST", "COUNT", NUMBER(count),
                          after != 0 ? "AFTER" : NULL, NUMBER(after)),
                    "cannot read the audit log", ret_acts);
}

/* Gets the newest 'count' acts; an answer can have fewer of them than asked. */
static int audit_ask_all(struct tool *tool, uint64_t count, json_t **ret_acts)
{
    json_auto_t *acts = json_array();
    uint64_t last = 0;
    size_t page_count;
    do {
        json_auto_t *page = NULL;
        uint64_t left = count - json_array_size(acts);
        int exit_code = audit_ask(tool, last, left, &page);
        if (exit_code != 0) {
            return exit_code;
        }
        page_count = json_array_size(page);
        if (page_count > 0) {
            last = value_number(json_array_get(page, page_count - 1), "index");
        }
        json_array_extend(acts, page);
    } while (page_count > 0 && json_array_size(acts) < count);
    *ret_acts = json_incref(acts);
    return 0;
}

/* Prints one act per line, since columns would change their widths. */
static void audit_print_lines(const struct tool *tool, json_t *acts)
{
    for (size_t i = 0; i < json_array_size(acts); i++) {
        json_t *act = json_array_get(acts, i);
        if (tool->format == FORMAT_JSON) {
            char *line = json_dumps(act, JSON_COMPACT);
            printf("%s\n", line != NULL ? line : "");
            free(line);
            continue;
        }
        printf("%" PRIu64 " %s %s %s %s %s: %s\n", value_number(act, "index"),
               value_text(act, "time"), value_text(act, "user"),
               value_text(act, "from"), value_text(act, "command"),
               value_text(act, "what"), value_text(act, "outcome"));
    }
    fflush(stdout);
}

static int audit_follow(struct tool *tool, const char *user, uint64_t last)
{
    for (;;) {
        json_auto_t *acts = NULL;
        int exit_code = audit_ask(tool, last, PAGE_COUNT_MAX, &acts);
        if (exit_code != 0) {
            return exit_code;
        }
        last = audit_choose(acts, user, last);
        audit_print_lines(tool, acts);
        sleep(1);
    }
}

/* --- Denials -------------------------------------------------------------- */

/* Adds the denials of this node, or only those of 'user'. */
static int add_denied(struct tool *tool, json_t *node, const char *user,
                      json_t *all)
{
    json_auto_t *denials = NULL;
    json_t *denial;
    size_t i;
    const char *endpoint = value_text(node, "endpoint");
    int exit_code = tool_use(tool, endpoint);
    if (exit_code != 0 || value_text(node, "error")[0] != '\0') {
        return tool_fail(EX_UNAVAILABLE, "cannot read the denials of %s: %s",
                         endpoint, value_text(node, "error"));
    }
    exit_code = tool_ask(tool, WORDS("AUDIT.DENIED"), "cannot read the denials",
                         &denials);
    json_array_foreach (denials, i, denial) {
        if (user == NULL || strcmp(value_text(denial, "user"), user) == 0) {
            value_add_time(denial, "last_ms", "");
            json_object_set(denial, "node", json_object_get(node, "node"));
            json_array_append(all, denial);
        }
    }
    return exit_code;
}

static int show_denied(struct tool *tool, const char *user)
{
    static const struct view_field fields[] = {
        {"time", "LAST", FIELD_TEXT},     {"node", "NODE", FIELD_NUMBER},
        {"count", "COUNT", FIELD_NUMBER}, {"user", "USER", FIELD_TEXT},
        {"from", "FROM", FIELD_TEXT},     {"command", "COMMAND", FIELD_TEXT},
        {"why", "WHY", FIELD_TEXT},       {0}};
    json_auto_t *nodes = nodes_ask(tool, tool_is_by_door(tool) ? NODES_NAMED
                                                               : NODES_MEMBERS);
    json_t *all = json_array(), *node;
    size_t i;
    int exit_code = 0;
    json_array_foreach (nodes, i, node) {
        int one = add_denied(tool, node, user, all);
        exit_code = one != 0 ? one : exit_code;
    }
    json_auto_t *sorted = nodes_sorted(all, "last_ms");
    output_rows(tool->format, fields, sorted);
    return exit_code;
}

int run_audit(struct tool *tool, char **argv)
{
    bool is_following = false;
    bool is_denied = false;
    char *user = NULL;
    uint64_t count = 100;
    json_auto_t *acts = NULL;
    const struct option_row rows[] = {
        {"follow", OPTION_FLAG, .value = &is_following},
        {"denied", OPTION_FLAG, .value = &is_denied},
        {"user", OPTION_TEXT, .value = &user},
        {"count", OPTION_NUMBER, .value = &count, 1, PAGE_COUNT_MAX},
        {0},
    };
    int exit_code = options_read(tool, argv, rows, 0, 0);
    if (exit_code == 0 && is_denied) {
        return is_following
                   ? tool_usage(tool, "--denied and -f cannot be combined")
                   : show_denied(tool, user);
    }
    exit_code = exit_code ?: audit_ask_all(tool, count, &acts);
    if (exit_code != 0) {
        return exit_code;
    }
    uint64_t last = audit_choose(acts, user, 0);
    if (!is_following) {
        output_rows(tool->format, tool->subcommand->fields, acts);
        return 0;
    }
    audit_print_lines(tool, acts);
    return audit_follow(tool, user, last);
}
