/* SPDX-License-Identifier: MIT */

/* hasp log, hasp config: the settings of running nodes. */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/memory.h"
#include "cmd/hasp/nodes.h"
#include "cmd/hasp/setup/node.h"
#include "cmd/hasp/tool.h"

json_t *settings_nodes(struct tool *tool, uint64_t id)
{
    json_auto_t *nodes = nodes_ask(tool, tool_is_by_door(tool) ? NODES_NAMED
                                                               : NODES_MEMBERS);
    json_t *list = json_array(), *node;
    size_t i;
    json_array_foreach (nodes, i, node) {
        bool is_meant = id == 0 || value_number(node, "node") == id;
        const char *error = value_text(node, "error");
        if (is_meant && error[0] != '\0') {
            tool_fail(0, "%s does not answer: %s", value_text(node, "endpoint"),
                      error);
        } else if (is_meant) {
            json_array_append(list, node);
        }
    }
    if (json_array_size(list) == 0) {
        json_decref(list);
        if (id != 0) {
            tool_fail(0, "node %" PRIu64 " does not answer", id);
        } else {
            tool_fail(0, "no node answers; see: hasp status");
        }
        return NULL;
    }
    return list;
}

/* The settings of a node as a map from names; 0 or the exit code. */
static int settings_of(struct tool *tool, json_t *node, json_t **ret_settings)
{
    json_auto_t *rows = NULL;
    json_t *row;
    size_t i;
    int exit_code = tool_use(tool, value_text(node, "endpoint"));
    exit_code = exit_code
                    ?: tool_ask(tool, WORDS("NODE.SETTINGS"),
                                "cannot read the settings", &rows);
    if (exit_code != 0) {
        return exit_code;
    }
    *ret_settings = json_object();
    json_array_foreach (rows, i, row) {
        json_object_set(*ret_settings, value_text(row, "name"), row);
    }
    return 0;
}

/* --- hasp log ------------------------------------------------------------- */

/* Sets one setting of all nodes that answer, or of one. */
static int settings_change_nodes(struct tool *tool, char **argv,
                                 const char *name)
{
    uint64_t for_ms = 0, id = 0;
    const struct option_row rows[] = {
        {"for", OPTION_TIME, .value = &for_ms, 1, UINT64_C(1) << 40},
        {"node", OPTION_NUMBER, .value = &id, 1, INT64_MAX},
        {0},
    };
    json_t *node;
    size_t i;
    int exit_code = options_read(tool, argv, rows, 1, 1);
    if (exit_code != 0) {
        return exit_code;
    }
    json_auto_t *nodes = settings_nodes(tool, id);
    if (nodes == NULL) {
        return EX_UNAVAILABLE;
    }
    json_array_foreach (nodes, i, node) {
        int one = tool_use(tool, value_text(node, "endpoint"));
        one = one
                  ?: tool_ask(tool,
                              WORDS("NODE.SET", name, argv[1], "BY", USER,
                                    for_ms != 0 ? "FOR" : NULL, NUMBER(for_ms)),
                              "cannot change the setting", NULL);
        exit_code = one != 0 ? one : exit_code;
        if (one == 0) {
            tool_say(tool, "node %" PRIu64 ": %s = %s",
                     value_number(node, "node"), name, argv[1]);
        }
    }
    return exit_code != 0 ? exit_code : -1;
}

int run_log_level(struct tool *tool, char **argv)
{
    return settings_change_nodes(tool, argv, "node.log_level");
}

int run_log_format(struct tool *tool, char **argv)
{
    return settings_change_nodes(tool, argv, "node.log_format");
}

int run_log_slow(struct tool *tool, char **argv)
{
    return settings_change_nodes(tool, argv, "node.slow_ms");
}

/* --- hasp config ---------------------------------------------------------- */

/* Those of this node, or of the first that answers if 'id' is 0. */
static int settings_of_node(struct tool *tool, uint64_t id,
                            json_t **ret_settings)
{
    json_auto_t *nodes = settings_nodes(tool, id);
    return nodes != NULL
               ? settings_of(tool, json_array_get(nodes, 0), ret_settings)
               : EX_UNAVAILABLE;
}

int run_config_show(struct tool *tool, char **argv)
{
    static const struct view_field fields[] = {
        {"name", "SETTING", FIELD_TEXT},
        {"value", "VALUE", FIELD_TEXT},
        {"source", "SOURCE", FIELD_TEXT},
        {"changes", "CHANGED BY", FIELD_TEXT},
        {0}};
    uint64_t id = 0;
    const struct option_row rows[] = {
        {"node", OPTION_NUMBER, .value = &id, 1, INT64_MAX}, {0}};
    int exit_code = options_read(tool, argv, rows, 0, 0);
    if (exit_code != 0) {
        return exit_code;
    }
    json_auto_t *settings = NULL;
    exit_code = settings_of_node(tool, id, &settings);
    if (exit_code != 0) {
        return exit_code;
    }
    json_auto_t *list = json_array();
    const char *name;
    json_t *row;
    json_object_foreach (settings, name, row) {
        json_array_append(list, row);
    }
    output_rows(tool->format, fields, list);
    return 0;
}

/* Adds "section.key" of a line of haspd --print-config; 'section' is the one
 * that the lines before named. */
static void settings_add_line(json_t *settings, char *line, char *section,
                              size_t section_size)
{
    char name[128], joined[1100];
    char *equals = strstr(line, " = "), *semicolon = NULL;
    if (line[0] == '[') {
        snprintf(section, section_size, "%.*s", (int)strcspn(line + 1, "]"),
                 line + 1);
        return;
    }
    for (char *at = equals; at != NULL; at = strstr(at + 1, " ; ")) {
        semicolon = at;
    }
    if (equals == NULL || semicolon == equals) {
        return;
    }
    *equals = *semicolon = '\0';
    snprintf(name, sizeof name, "%.60s.%.60s", section, line);
    json_t *before = json_object_get(settings, name);
    snprintf(joined, sizeof joined, "%s%s%.1023s",
             before != NULL ? json_string_value(before) : "",
             before != NULL ? ", " : "", equals + 3);
    json_object_set_new(settings, name, json_string(joined));
}

/* The settings of a file, as haspd understands it. */
static int settings_of_file(const char *path, json_t **ret_settings)
{
    AUTO(buffer_done) struct buffer said = {0};
    char section[64] = "", line[1200];
    int status = node_ask_haspd(path, "--print-config", &said);
    if (status != 0) {
        return tool_fail(EX_CONFIG, "haspd cannot read '%s': %s", path,
                         said.size > 0 ? (const char *)said.data : "");
    }
    *ret_settings = json_object();
    struct bytes rest = buffer_bytes(&said);
    while (rest.size > 0) {
        struct bytes one = bytes_cut(&rest, '\n');
        snprintf(line, sizeof line, "%.*s", (int)one.size,
                 (const char *)one.data);
        settings_add_line(*ret_settings, line, section, sizeof section);
    }
    return 0;
}

/* Prints the differences; 0: there are none. */
static int settings_print_diff(struct tool *tool,
                               const struct view_field *fields, json_t *rows,
                               const char *none)
{
    if (json_array_size(rows) == 0) {
        tool_say(tool, "%s", none);
        return 0;
    }
    output_rows(tool->format, fields, rows);
    return EXIT_NO;
}

static int diff_with_file(struct tool *tool, const char *path)
{
    static const struct view_field fields[] = {
        {"name", "SETTING", FIELD_TEXT},       {"file", "FILE", FIELD_TEXT},
        {"value", "RUNNING", FIELD_TEXT},      {"source", "SOURCE", FIELD_TEXT},
        {"changes", "CHANGED BY", FIELD_TEXT}, {0}};
    json_auto_t *file = NULL, *settings = NULL;
    const char *name;
    json_t *row;
    uint64_t id;
    int exit_code = settings_of_file(path, &file);
    if (exit_code != 0) {
        return exit_code;
    }
    if (!parse_number(value_text(json_object_get(file, "node.id"), ""), &id)) {
        return tool_fail(EX_CONFIG, "'%s' has no node.id", path);
    }
    exit_code = settings_of_node(tool, id, &settings);
    if (exit_code != 0) {
        return exit_code;
    }
    json_auto_t *list = json_array();
    json_object_foreach (settings, name, row) {
        const char *wanted = json_string_value(json_object_get(file, name));
        if (wanted != NULL && strcmp(wanted, value_text(row, "value")) != 0) {
            json_object_set_new(row, "file", json_string(wanted));
            json_array_append(list, row);
        }
    }
    return settings_print_diff(tool, fields, list,
                               "the node runs with what the file says");
}

/* True for a setting that each node has for itself. */
static bool setting_is_own(const char *name)
{
    static const char *const own[] = {"node.id",    "node.dir", "listen.",
                                      "tls.dir",    "tls.ca",   "tls.key",
                                      "audit.file", "tls.cert", "http.names"};
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++) {
        if (strncmp(name, own[i], strlen(own[i])) == 0) {
            return true;
        }
    }
    return false;
}

/* Adds a row for each node to 'list' if the nodes differ in this setting. */
static void diff_one(json_t *nodes, const char *name, json_t *list)
{
    json_auto_t *rows = json_array();
    json_t *node;
    const char *first = NULL;
    bool differs = false;
    size_t i;
    json_array_foreach (nodes, i, node) {
        json_t *row = json_object_get(json_object_get(node, "settings"), name);
        const char *value = row != NULL ? value_text(row, "value")
                                        : "(unknown to this version)";
        differs |= first != NULL && strcmp(value, first) != 0;
        first = first != NULL ? first : value;
        json_array_append_new(
            rows, json_pack("{s:s, s:I, s:s, s:s}", "name", name, "node",
                            (json_int_t)value_number(node, "node"), "value",
                            value, "source", value_text(row, "source")));
    }
    if (differs && !setting_is_own(name)) {
        json_array_extend(list, rows);
    }
}

static int diff_between_nodes(struct tool *tool)
{
    static const struct view_field fields[] = {{"name", "SETTING", FIELD_TEXT},
                                               {"node", "NODE", FIELD_NUMBER},
                                               {"value", "VALUE", FIELD_TEXT},
                                               {"source", "SOURCE", FIELD_TEXT},
                                               {0}};
    json_auto_t *nodes = settings_nodes(tool, 0);
    json_t *node, *row;
    const char *name;
    size_t i;
    if (nodes == NULL) {
        return EX_UNAVAILABLE;
    }
    json_array_foreach (nodes, i, node) {
        json_t *settings = NULL;
        int exit_code = settings_of(tool, node, &settings);
        if (exit_code != 0) {
            return exit_code;
        }
        json_object_set_new(node, "settings", settings);
    }
    json_auto_t *list = json_array();
    json_t *first = json_object_get(json_array_get(nodes, 0), "settings");
    json_object_foreach (first, name, row) {
        diff_one(nodes, name, list);
    }
    return settings_print_diff(tool, fields, list,
                               "the nodes that answer agree");
}

int run_config_diff(struct tool *tool, char **argv)
{
    char *path = NULL;
    const struct option_row rows[] = {{"config", OPTION_TEXT, .value = &path},
                                      {0}};
    int exit_code = options_read(tool, argv, rows, 0, 0);
    if (exit_code != 0) {
        return exit_code;
    }
    return path != NULL ? diff_with_file(tool, path) : diff_between_nodes(tool);
}
