/* SPDX-License-Identifier: MIT */

/* What transcripts say of durable sessions and of holds that are
 * taken. */

#ifndef HASP_TESTS_UNIT_FSM_DURABLE_H
#define HASP_TESTS_UNIT_FSM_DURABLE_H

#include "tests/unit/fsm_script.h"

/* "durable wall=ms": without end. */
void read_durable(const struct script *script, struct open_command *open);
void put_ttl(struct buffer *out, const struct session *session);

run_fn run_break, run_object, run_break_over, run_hold_over;
/* What is announced to a hold, if anything. */
void put_break(struct buffer *out, const struct hold *hold);

#endif /* HASP_TESTS_UNIT_FSM_DURABLE_H */
