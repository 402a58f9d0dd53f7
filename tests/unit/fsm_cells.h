/* SPDX-License-Identifier: MIT */

/* The map of cells in the transcripts of tests/fsm. */

#ifndef HASP_TESTS_UNIT_FSM_CELLS_H
#define HASP_TESTS_UNIT_FSM_CELLS_H

#include "tests/unit/fsm_script.h"

/* "cells join at=ENDPOINTS", "cells give PREFIX to=N at=ENDPOINTS",
 * "cells take PREFIX from=N to=N epoch=E token=T", "cells point PREFIX
 * at=ENDPOINTS", "cells vouch PREFIX", "cells confirm". N is the first byte of
 * a cluster's id; this cluster's is 1. "." is the empty prefix. */
run_fn run_cells;
/* "map" */
run_fn show_cells;

#endif /* HASP_TESTS_UNIT_FSM_CELLS_H */
