/* SPDX-License-Identifier: MIT */

#include "cmd/hasp/doctor/doctor.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/minmax.h"
#include "cmd/hasp/setup/node.h"

#define TEXT_SIZE 600

static const struct view_field fields[] = {
    {"state", "STATE", FIELD_TEXT},
    {"check", "CHECK", FIELD_TEXT},
    {"text", "TEXT", FIELD_TEXT},
    {"mend", "MEND", FIELD_TEXT},
    {0},
};

const char *doctor_grade_name(enum doctor_grade grade)
{
    static const char *const names[] = {
        [DOCTOR_OK] = "OK", [DOCTOR_WARN] = "WARN", [DOCTOR_FAIL] = "FAIL"};
    return names[grade];
}

void doctor_add(struct doctor *doctor, const char *check,
                enum doctor_grade grade, const char *text, const char *mend)
{
    json_array_append_new(
        doctor->rows,
        json_pack("{s:s, s:o, s:o, s:o}", "state", doctor_grade_name(grade),
                  "check", value_of_bytes(bytes_of_text(check)), "text",
                  value_of_bytes(bytes_of_text(text)), "mend",
                  value_of_bytes(bytes_of_text(mend))));
    doctor->counts[grade]++;
}

void doctor_report(struct doctor *doctor, enum doctor_grade grade,
                   const char *mend, const char *format, ...)
{
    char text[TEXT_SIZE];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    doctor_add(doctor, doctor->check->name, grade, text, mend);
    doctor->worst = grade > doctor->worst ? grade : doctor->worst;
}

bool doctor_has(json_t *node)
{
    return value_text(node, "error")[0] == '\0' && !nodes_is_foreign(node);
}

/* The status of all nodes, the limits, and whether there is a leader. */
static void doctor_gather(struct doctor *doctor)
{
    struct tool *tool = doctor->tool;
    enum nodes_scope scope = tool_is_by_door(tool) ? NODES_NAMED
                                                   : NODES_MEMBERS;
    doctor->nodes = nodes_sorted(nodes_ask(tool, scope), "node");
    doctor->best = nodes_best(doctor->nodes);
    if (doctor->best == NULL) {
        return;
    }
    tool->timeout_ms = u64_min(tool->timeout_ms, NODES_TIMEOUT_MS);
    doctor->is_serving = tool_ask(tool, WORDS("LOCK.LIST", "COUNT", "1"), NULL,
                                  NULL) == 0;
    if (doctor->is_serving) {
        (void)tool_ask(tool, WORDS("LIMITS.LIST"), NULL, &doctor->limits);
    }
}

static void doctor_check_cluster(struct doctor *doctor)
{
    doctor_gather(doctor);
    for (const struct doctor_check *check = doctor_cluster_checks;
         check->name != NULL; check++) {
        if (check->needs_members && doctor->best == NULL) {
            continue;
        }
        doctor->check = check;
        doctor->worst = DOCTOR_OK;
        check->run(doctor);
        if (doctor->worst == DOCTOR_OK) {
            doctor_add(doctor, check->name, DOCTOR_OK, check->fine, "");
        }
    }
}

/* For people: a line for each finding, and the remedy in the next one. */
static void doctor_print(const struct doctor *doctor)
{
    static const enum colour colours[] = {[DOCTOR_OK] = COLOUR_GOOD,
                                          [DOCTOR_WARN] = COLOUR_BOLD,
                                          [DOCTOR_FAIL] = COLOUR_BAD};
    size_t i;
    json_t *row;
    value_make_printable(doctor->rows);
    json_array_foreach (doctor->rows, i, row) {
        const char *state = value_text(row, "state");
        enum doctor_grade grade = state[0] == 'O'   ? DOCTOR_OK
                                  : state[0] == 'W' ? DOCTOR_WARN
                                                    : DOCTOR_FAIL;
        printf("%s%-4s%s  %-12s  %s\n", output_colour(colours[grade]), state,
               output_colour(COLOUR_NONE), value_text(row, "check"),
               value_text(row, "text"));
        if (value_text(row, "mend")[0] != '\0') {
            printf("%20s-> %s\n", "", value_text(row, "mend"));
        }
    }
    printf("%zu ok, %zu warnings, %zu failures\n", doctor->counts[DOCTOR_OK],
           doctor->counts[DOCTOR_WARN], doctor->counts[DOCTOR_FAIL]);
}

int run_doctor(struct tool *tool, char **argv)
{
    char *config = NULL;
    bool is_offline = false;
    const struct option_row rows[] = {
        {"config", OPTION_TEXT, .value = &config},
        {"offline", OPTION_FLAG, .value = &is_offline},
        {0},
    };
    int rv = options_read(tool, argv, rows, 0, 0);
    if (rv != 0) {
        return rv;
    }
    struct doctor doctor = {.tool = tool, .rows = json_array()};
    if (!is_offline) {
        doctor_check_cluster(&doctor);
    }
    if (config != NULL || is_offline || access(NODE_CONFIG, R_OK) == 0) {
        doctor_ask_machine(&doctor, config != NULL ? config : NODE_CONFIG);
    }
    if (tool->format == FORMAT_TABLE) {
        doctor_print(&doctor);
    } else {
        output_rows(tool->format, fields, doctor.rows);
    }
    json_decref(doctor.rows);
    json_decref(doctor.nodes);
    json_decref(doctor.limits);
    return doctor.counts[DOCTOR_FAIL] > 0   ? DOCTOR_FAIL
           : doctor.counts[DOCTOR_WARN] > 0 ? DOCTOR_WARN
                                            : DOCTOR_OK;
}
