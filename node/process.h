/* SPDX-License-Identifier: MIT */

/* What the process takes of its machine, from /proc/self: no disk is touched.
 */

#ifndef HASP_NODE_PROCESS_H
#define HASP_NODE_PROCESS_H

#include <stdint.h>

struct process {
    double cpu_s;
    double started_s; /* Since 1970. */
    uint64_t resident_size;
    uint64_t virtual_size;
    uint64_t open_files;
    uint64_t most_files; /* The limit; 0: none. */
};

/* What cannot be read is 0. */
void process_look(struct process *ret_process);

/* How many connections there can be: so many as configured, unless then fewer
 * than 'files_left' descriptors were left for the rest, which is logged. */
uint32_t process_connections(uint32_t configured, uint32_t files_left);

#endif /* HASP_NODE_PROCESS_H */
