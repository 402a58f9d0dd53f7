/* SPDX-License-Identifier: MIT */

/* haspd --doctor: checks of this machine for the node with this configuration,
 * which may run or not. 'hasp doctor' prints them beside those of the cluster.
 *
 * Each finding is one line of stdout: OK, WARN or FAIL, the check, what is
 * wrong, what mends it. The fields are separated by tabs; on a terminal they
 * are aligned. The only thing that a check writes is a file without a name in
 * the data directory. */

#ifndef HASP_CMD_HASPD_MACHINE_H
#define HASP_CMD_HASPD_MACHINE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "include/hasp/node.h"

/* The exit code is the worst one. */
enum machine_grade { MACHINE_OK, MACHINE_WARN, MACHINE_FAIL };

struct machine_checks {
    const struct hasp_node_options *options;
    const char *place; /* The data directory, or, if it is not there yet, the
                          folder above it. */
    bool has_directory;
    pid_t pid;                /* The running node; 0: it does not run. */
    double round_trip_max_ms; /* As the check "ports" found it; 0: unknown. */

    const char *check; /* The one that runs. */
    enum machine_grade worst, worst_of_check;
};

/* Prints a finding of the running check. */
__attribute__((format(printf, 4, 5))) void
machine_report(struct machine_checks *machine, enum machine_grade grade,
               const char *mend, const char *format, ...);

/* CLOCK_MONOTONIC. */
double machine_now_ms(void);

typedef void machine_check_fn(struct machine_checks *machine);

/* machine_process.c: the data directory, its disk, and what the process may
 * use. */
machine_check_fn machine_directory, machine_flush, machine_disk, machine_files,
    machine_swap, machine_cpu, machine_memory, machine_audit;
/* machine_network.c: the other members, seen from here. */
machine_check_fn machine_names, machine_ports, machine_election;

/* Runs all checks; returns the exit code. */
int machine_run(const struct hasp_node_options *options);
/* The same if the configuration cannot be read: 'why' is the only finding. */
int machine_run_without(const char *why);

#endif /* HASP_CMD_HASPD_MACHINE_H */
