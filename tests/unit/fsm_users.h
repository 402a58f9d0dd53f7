/* SPDX-License-Identifier: MIT */

/* Transcript commands about users and roles. */

#ifndef HASP_TESTS_UNIT_FSM_USERS_H
#define HASP_TESTS_UNIT_FSM_USERS_H

#include "tests/unit/fsm_script.h"

/* "as=NAME": the user of the entry; without it that of 'otherwise'. */
uint64_t user_in(const struct script *script, uint64_t otherwise);

run_fn run_user, run_unuser, run_secret, run_unsecret, run_role, run_unrole,
    run_access, run_revoke, show_user, show_role, show_revoked, show_acts;

#endif /* HASP_TESTS_UNIT_FSM_USERS_H */
