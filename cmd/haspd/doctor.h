/* SPDX-License-Identifier: MIT */

/* haspd --doctor: checks of this machine for the node with this configuration,
 * which may run or not. 'hasp doctor' prints them beside those of the cluster.
 *
 * Each finding is one line of stdout: OK, WARN or FAIL, the check, what is
 * wrong, what mends it. The fields are separated by tabs; on a terminal they
 * are aligned. The only thing that a check writes is a file without a name in
 * the data directory. */

#ifndef HASP_CMD_HASPD_DOCTOR_H
#define HASP_CMD_HASPD_DOCTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "include/hasp/node.h"

/* The exit code is the worst one. */
enum doctor_grade { DOCTOR_OK, DOCTOR_WARN, DOCTOR_FAIL };

#define DOCTOR_FINDING_MAX 64

struct doctor {
    const struct hasp_node_options *options;
    const char *place; /* The data directory, or, if it is not there yet, the
                          folder above it. */
    bool has_directory;
    pid_t pid;                /* The running node; 0: it does not run. */
    double round_trip_max_ms; /* As the check "ports" found it; 0: unknown. */

    const char *check; /* The one that runs. */
    enum doctor_grade worst, worst_of_check;
};

/* Prints a finding of the running check. */
__attribute__((format(printf, 4, 5))) void
doctor_report(struct doctor *doctor, enum doctor_grade grade, const char *mend,
              const char *format, ...);

typedef void doctor_check_fn(struct doctor *doctor);

/* doctor_machine.c: the data directory, its disk, and what the process may
 * use. */
doctor_check_fn doctor_directory, doctor_flush, doctor_disk, doctor_files,
    doctor_swap, doctor_cpu, doctor_memory, doctor_audit;
/* doctor_network.c: the other members, seen from here. */
doctor_check_fn doctor_names, doctor_ports, doctor_election;

/* Runs all checks; returns the exit code. */
int doctor_run(const struct hasp_node_options *options);
/* The same if the configuration cannot be read: 'why' is the only finding. */
int doctor_run_without(const char *why);

#endif /* HASP_CMD_HASPD_DOCTOR_H */
