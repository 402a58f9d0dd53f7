/* SPDX-License-Identifier: MIT */

/* hasp doctor: a table of checks on the cluster, and those of the node on this
 * machine (machine.c).
 *
 * Each check reads what was gathered once, before all of them, and reports its
 * findings. A check without a finding is OK. A finding says what is wrong
 * and names the command or the setting that mends it. */

#ifndef HASP_CMD_HASP_DOCTOR_DOCTOR_H
#define HASP_CMD_HASP_DOCTOR_DOCTOR_H

#include "cmd/hasp/nodes.h"
#include "cmd/hasp/tool.h"

/* The exit code is the worst one. */
enum doctor_grade { DOCTOR_OK, DOCTOR_WARN, DOCTOR_FAIL };

struct doctor_check;

struct doctor {
    struct tool *tool;
    json_t *nodes;   /* RAFT.STATUS of all nodes that were asked. */
    json_t *best;    /* The one to believe about the members; NULL: none.
                        Borrowed from 'nodes'. */
    json_t *limits;  /* LIMITS.LIST; NULL: no answer. */
    bool is_serving; /* A leader has answered. */

    const struct doctor_check *check; /* The one that runs. */
    enum doctor_grade worst;          /* The grade of 'check'. */
    size_t counts[3];                 /* Rows by grade. */
    json_t *rows;                     /* check, state, text, mend. */
};

typedef void doctor_check_fn(struct doctor *doctor);

struct doctor_check {
    const char *name;
    const char *fine; /* The text if it finds nothing. */
    doctor_check_fn *run;
    bool needs_members; /* It is left out if no node has answered. */
};

/* The checks of a cluster; ends with a name of NULL. */
extern const struct doctor_check doctor_cluster_checks[];

/* Adds a finding of the running check: what is wrong, and what to do. */
__attribute__((format(printf, 4, 5))) void
doctor_report(struct doctor *doctor, enum doctor_grade grade, const char *mend,
              const char *format, ...);
/* Adds a row as it is. */
void doctor_add(struct doctor *doctor, const char *check,
                enum doctor_grade grade, const char *text, const char *mend);
const char *doctor_grade_name(enum doctor_grade grade);

/* True if this node has answered and belongs to the cluster. */
bool doctor_has(json_t *node);

/* Runs 'haspd --doctor' with this configuration, and adds its rows. */
void doctor_ask_machine(struct doctor *doctor, const char *config);

#endif /* HASP_CMD_HASP_DOCTOR_DOCTOR_H */
