/* SPDX-License-Identifier: MIT */

/* Ends of sessions in transcripts. */

#ifndef HASP_TESTS_UNIT_FSM_ENDS_H
#define HASP_TESTS_UNIT_FSM_ENDS_H

#include "tests/unit/fsm_script.h"

/* "slice 2": the most steps of each entry from here on. */
run_fn run_close, run_expire, run_slice, run_sweep;

#endif /* HASP_TESTS_UNIT_FSM_ENDS_H */
