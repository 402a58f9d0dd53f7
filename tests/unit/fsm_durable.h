/* SPDX-License-Identifier: MIT */

/* Durable sessions and transferred holds in transcripts. */

#ifndef HASP_TESTS_UNIT_FSM_DURABLE_H
#define HASP_TESTS_UNIT_FSM_DURABLE_H

#include "tests/unit/fsm_script.h"

/* "durable wall=ms": without end. */
void read_durable(const struct script *script, struct open_command *open);
void put_ttl(struct buffer *out, const struct session *session);

run_fn run_break, run_object, run_break_over, run_hold_over;
/* The notice pending for a hold, if any. */
void put_break(struct buffer *out, const struct hold *hold);

#endif /* HASP_TESTS_UNIT_FSM_DURABLE_H */
