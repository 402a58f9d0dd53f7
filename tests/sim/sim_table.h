/* SPDX-License-Identifier: MIT */

/* Replaces LMDB: a table in memory that lives in the page cache of a simulated
 * machine. It survives the process. Changes since it was last synchronised do
 * not survive the machine: then it is torn, and reading it fails the run. Its
 * file contains a counter of the writes, so that it is created, flushed and
 * removed as LMDB's is. */

#ifndef HASP_TESTS_SIM_SIM_TABLE_H
#define HASP_TESTS_SIM_SIM_TABLE_H

#include "base/err.h"
#include "storage/table.h"
#include "tests/sim/sim.h"

struct sim_table {
    struct sim *sim;
    struct table *content;
    uint64_t writes;
    bool is_dirty; /* Written since it was synchronised. */
    bool is_torn;
};

void sim_table_init(struct sim_table *table, struct sim *sim);
void sim_table_done(struct sim_table *table);
void sim_table_lose_power(struct sim_table *table);

/* Opens it in the folder 'path', as table_open_lmdb() does: an empty one if its
 * file does not exist. 'table' outlives it. */
MUST_CHECK int sim_table_open(struct sim_table *table, const char *path,
                              struct table **ret_table,
                              char why[HASP_WHY_SIZE]);

#endif /* HASP_TESTS_SIM_SIM_TABLE_H */
