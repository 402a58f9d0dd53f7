/* SPDX-License-Identifier: MIT */

/* The checks that need the node's machine: haspd --doctor has them, since it
 * knows the configuration and runs as the node's user. Its lines have four
 * fields, separated by tabs: state, check, text, mend. */

#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "base/memory.h"
#include "cmd/hasp/doctor/doctor.h"
#include "cmd/hasp/setup/node.h"

#define LINE_SIZE 2048

static bool parse_grade(const char *text, enum doctor_grade *ret_grade)
{
    for (int grade = DOCTOR_OK; grade <= DOCTOR_FAIL; grade++) {
        if (strcmp(text, doctor_grade_name((enum doctor_grade)grade)) == 0) {
            *ret_grade = (enum doctor_grade)grade;
            return true;
        }
    }
    return false;
}

/* Adds the row of one line; false if it is another text. */
static bool add_line(struct doctor *doctor, char *line)
{
    const char *field[4];
    enum doctor_grade grade;
    char *rest = line;
    for (int i = 0; i < 4; i++) {
        field[i] = strsep(&rest, "\t");
        if (field[i] == NULL) {
            return false;
        }
    }
    if (!parse_grade(field[0], &grade)) {
        return false;
    }
    doctor_add(doctor, field[1], grade, field[2], field[3]);
    return true;
}

void doctor_ask_machine(struct doctor *doctor, const char *config)
{
    AUTO(buffer_done) struct buffer said = {0};
    size_t added = 0;
    int status = node_ask_haspd(config, "--doctor", &said);
    struct bytes rest = buffer_bytes(&said);
    while (rest.size > 0) {
        char line[LINE_SIZE];
        struct bytes bytes = bytes_cut(&rest, '\n');
        snprintf(line, sizeof line, "%.*s", (int)bytes.size,
                 (const char *)bytes.data);
        added += add_line(doctor, line);
    }
    if (added == 0 || status > DOCTOR_FAIL) {
        char text[LINE_SIZE];
        snprintf(text, sizeof text, "haspd --doctor did not end well (%d): %s",
                 status, said.size > 0 ? (const char *)said.data : "no output");
        doctor_add(doctor, "machine", DOCTOR_FAIL, text,
                   "run as root or as the user of haspd, and name the "
                   "configuration of the node with --config");
    }
}
