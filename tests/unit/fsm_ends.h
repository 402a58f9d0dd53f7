/* SPDX-License-Identifier: MIT */

/* Ends of sessions in transcripts. */

#ifndef HASP_TESTS_UNIT_FSM_ENDS_H
#define HASP_TESTS_UNIT_FSM_ENDS_H

#include "tests/unit/fsm_script.h"

/* "slice 2": the most steps of each entry from here on. */
/* The hash that the text of a death word stands for; NULL: none. */
void read_will(const char *text, uint8_t ret_will[PROOF_SIZE]);

run_fn run_close, run_expire, run_died, run_slice, run_sweep;

#endif /* HASP_TESTS_UNIT_FSM_ENDS_H */
