/* SPDX-License-Identifier: MIT */

/* Resources used by the process, from /proc/self, without access to a disk. */

#ifndef HASP_NODE_PROCESS_H
#define HASP_NODE_PROCESS_H

#include <stdint.h>

struct process {
    double cpu_s;
    double started_s; /* Since 1970. */
    uint64_t resident_size;
    uint64_t virtual_size;
    int64_t swapped_size; /* -1: unknown. */
    uint64_t open_files;
    uint64_t most_files; /* The limit; 0: none. */
};

/* Values that cannot be read are 0. */
void process_look(struct process *ret_process);

/* Returns the allowed number of connections: the configured one, or fewer,
 * which is logged, to leave 'files_left' descriptors for the rest. */
uint32_t process_connections(uint32_t configured, uint32_t files_left);

#endif /* HASP_NODE_PROCESS_H */
